"""Code that shows how many moves rename eliminates: in a chain, and per cycle.

A chain of slow instructions and moves takes a cycle more for each move that is not eliminated. Before it, other pairs
of registers are made to share physical ones, and nothing overwrites them:

    MOVAPS XMM3, XMM2; NOP; NOP ...; MOVAPS XMM5, XMM4; NOP; NOP ...        two pairs are held
    MOVAPS XMM1, XMM0; MULPS XMM1, XMM1 ...; NOP ...; MOVAPS XMM0, XMM1; MULPS XMM0, XMM0 ...; NOP ...
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.microbenchmark import Microbenchmark
from generator.operands.allocation import FIRST_CHOICES
from generator.operands.places import is_vex
from generator.operands.registers import family, part, register_class
from generator.operands.values import Values
from generator.sequences.throughput import setup_of
from xed_convert.model import Instance

if TYPE_CHECKING:
    from collections.abc import Iterable

    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line
    from xed_convert.model import InstructionVariant

LINKS = 4
"""Pairs of moves in a chain: enough that one cycle each is more than all that the other moves take."""

SLOW_ONES = 3
"""Slow instructions between moves: together they take longer than NOPs and moves that are held take to be issued, even
three per cycle."""

APART = 8
"""NOPs after each move that is held, or that needs a free slot: as many as any core issues in a cycle. So no limit per
cycle matters, and a slot that becomes free can be used in the next cycle."""

MANY = 120
"""Moves that are counted: a multiple of all usual issue widths, so that each cycle has as many."""

VECTORS = 16
"""Vector registers that all kinds of code can name."""

SLOW = {False: "MULPS (XMM, XMM)", True: "VMULPS (XMM, XMM, XMM)"}
"""What stands between moves of vectors, by whether it has VEX code: it takes some cycles, so that slots become free."""


class MoveFactory:
    """Makes code out of moves of one variant between registers of one file."""

    def __init__(self, instructions: InstructionFactory, variant: InstructionVariant) -> None:
        """Take a variant with two explicit operands: the result, and the source."""
        self.instructions, self.variant = instructions, variant
        self.result, self.source = (o for o in variant.operands if o.explicit)
        named = {family(name): name for name in self.result.registers if name in self.source.registers}
        vectors = [f"ZMM{number}" for number in range(VECTORS)]
        self.names = [named[one] for one in (*FIRST_CHOICES, *vectors) if one in named]

    @property
    def has_pair(self) -> bool:
        """Whether there are two registers between which it moves: not if source and result are of two files."""
        return len(self.names) > 1

    @property
    def most_held(self) -> int:
        """How many pairs can be held beside the chain's."""
        return len(self.names) // 2 - 1

    def held(self, pairs: int) -> Microbenchmark:
        """Return a chain with moves, after `pairs` pairs that stay; `divisor` is the number of moves in the chain.

        Raises:
            EncodingError: an instruction cannot be encoded.
        """
        one, other, *rest = self.names
        moves = [self._move(result, source) for source, result in zip(rest[::2], rest[1::2], strict=False)][:pairs]
        there, back = self._move(other, one), self._move(one, other)
        link = [assemble(there), *self._slow(other), assemble(back), *self._slow(one)]
        body = [line for move in moves for line in (assemble(move), *self._apart())] + link * LINKS
        purpose = f"{self.variant.string} in a chain, while {pairs} pairs of registers share a physical one"
        return self._benchmark([*moves, there, back], body, purpose, 2 * LINKS)

    def slow_alone(self) -> Microbenchmark:
        """Return the chain without moves; `divisor` is as if they were there.

        Raises:
            EncodingError: an instruction cannot be encoded.
        """
        one, other, *_ = self.names
        body = self._slow(one) * 2 * LINKS
        purpose = f"the chain without {self.variant.string}"
        return self._benchmark([self._move(other, one)], body, purpose, 2 * LINKS)

    def beside(self) -> Microbenchmark:
        """Return moves of one register to all others, which do not wait for each other; `divisor` is how many.

        Raises:
            EncodingError: an instruction cannot be encoded.
        """
        source, *results = self.names
        moves = [self._move(result, source) for result in islice(cycle(results), MANY)]
        return self._benchmark(moves, map(assemble, moves), f"{self.variant.string}: of one register", MANY)

    def _move(self, result: str, source: str) -> Instance:
        return Instance(self.variant, {self.result.index: result, self.source.index: source})

    def _apart(self) -> list[Line]:
        return [self.instructions.line("NOP")] * APART

    def _slow(self, name: str) -> list[Line]:
        if register_class(name) == "GPR":
            line = self.instructions.line("IMUL (R64, R64)", part(name, 64), part(name, 64))
        else:
            register, vex = part(name, 128), is_vex(self._move(name, name))
            line = self.instructions.line(SLOW[vex], *(register,) * (3 if vex else 2))
        return [*[line] * SLOW_ONES, *self._apart()]

    def _benchmark(self, moves: list[Instance], body: Iterable[Line], purpose: str, divisor: int) -> Microbenchmark:
        return Microbenchmark(setup_of(self.instructions, moves, Values()), tuple(body), purpose, divisor)
