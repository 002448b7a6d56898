"""Tells apart ports that share a counter, by the time of mixes.

A counter for ports 5 and 10 does not say which of them ran a µop. But two instructions that use one of these each
either compete or do not. So a mix of both takes longer the smaller the union of their ports is. Ports that nothing
tells apart are interchangeable, so the first gets a name, and all others are named relative to it. An instruction that
fits several names blocks nothing, so that answers cannot contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from inference.experiment import Procedure, Request, Want
from results.model import PORT_LETTERS, PortUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.ports.alone.layout import PortLayout
    from inference.ports.blocking_instructions import BlockingInstruction
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

    Mix = Callable[[Sequence[tuple[InstructionVariant, int]]], Microbenchmark]

TURNS = 12
"""Instructions per port in a mix. Half a cycle at either end of the window is 1/24 of their time, less than the
difference that one port in eleven makes."""

UNSURE = Fraction(1, 25)
"""Share of its time by which a mix may be off: half of the difference that one port in eleven makes."""

MOST_ALIKE = 24
"""Instructions that are named of those with the same counters: each costs a few measurements."""


def interchangeable(layout: PortLayout, sets: Iterable[PortSet]) -> list[PortSet]:
    """Divide all ports into those that share a counter and that each of some sets has all or none of."""
    classes = list(layout.counters.values())
    for ports in sets:
        classes = [part for one in classes for part in (one & ports, one - ports) if part]
    return classes


def names_of(ports: PortSet, layout: PortLayout, classes: Sequence[PortSet]) -> Iterator[PortSet]:
    """Yield the sets with as many ports of each counter, of interchangeable ports the first ones only."""
    parts = [sorted(one, key=PORT_LETTERS.index) for one in classes]
    for counts in product(*(range(len(one) + 1) for one in parts)):
        named = frozenset(port for one, count in zip(parts, counts, strict=True) for port in one[:count])
        if all(len(named & counted) == len(ports & counted) for counted in layout.counters.values()):
            yield named


@dataclass
class SharedCounters:
    """Names the ports of blocking instructions.

    - `elsewhere`: names that instructions have in other kinds of code, by their keys; they keep these.
    - `best`: the fastest instruction for each set, by the names found so far.
    - `named`: all instructions that have names.
    - `alone`: cycles of a mix of one instruction, by its key (None: not measurable).
    """

    layout: PortLayout
    mix: Mix
    width: int
    elsewhere: Mapping[str, PortSet] = field(default_factory=dict)
    best: dict[PortSet, BlockingInstruction] = field(default_factory=dict)
    named: list[BlockingInstruction] = field(default_factory=list)
    alone: dict[str, Fraction | None] = field(default_factory=dict)

    def run(self, instructions: Sequence[BlockingInstruction]) -> Procedure[dict[PortSet, BlockingInstruction]]:
        """Name as many as can be named, those that need no comparison first, then small sets before large ones."""
        clear = [one for one in instructions if self.layout.separable(one.ports)]
        for one in clear:
            self._keep(one.ports, one)
        partial = [one for one in instructions if one not in clear and one.usage.total == 1 and one.saturates]
        partial.sort(key=lambda one: (one.variant.key not in self.elsewhere, len(one.ports), sorted(one.ports)))
        waiting = list(self._few_alike(partial))
        while waiting:
            left = []
            for one in waiting:
                name = yield from self._name(one)
                if name is None:
                    left.append(one)
                else:
                    self.named.append(self._keep(name, one))
            waiting = left if len(left) < len(waiting) else []
        return self.best

    def _few_alike(self, instructions: Sequence[BlockingInstruction]) -> Iterator[BlockingInstruction]:
        """Yield at most `MOST_ALIKE` instructions of each group that counters cannot tell apart."""
        alike: dict[PortSet, int] = {}
        for one in instructions:
            alike[one.ports] = alike.get(one.ports, 0) + 1
            if alike[one.ports] <= MOST_ALIKE:
                yield one

    def _name(self, instruction: BlockingInstruction) -> Procedure[PortSet | None]:
        """Return the ports of an instruction, None if several names fit what mixes show."""
        if instruction.variant.key in self.elsewhere:
            return self.elsewhere[instruction.variant.key]
        classes = interchangeable(self.layout, [*self.best, *self.elsewhere.values()])
        names = list(names_of(instruction.ports, self.layout, classes))
        while len(names) > 1:
            reference = self._reference(names)
            if reference is None:
                return None
            size = yield from self._union_size(self.best[reference], instruction)
            names = [name for name in names if len(name | reference) == size]
            if size is None:
                return None
        return names[0] if names else None

    def _reference(self, names: Sequence[PortSet]) -> PortSet | None:
        """Return the named set whose union with the names has the most different sizes, None if all have one size."""
        best: tuple[int, int, list[str]] | None = None
        for known, one in self.best.items():
            sizes = {len(name | known) for name in names}
            if one.usage.total == 1 and one.saturates and len(sizes) > 1 and max(sizes) <= self.width:
                rank = (-len(sizes), len(known), sorted(known))
                best = rank if best is None else min(best, rank)
        return None if best is None else frozenset(best[-1])

    def _union_size(self, known: BlockingInstruction, other: BlockingInstruction) -> Procedure[int | None]:
        """Return how many ports both instructions have together, None if the mix does not show it.

        In a mix each has fewer registers than alone. Each must keep its ports busy with these, too.
        """
        for one in (known, other):
            if one.variant.key not in self.alone:
                self.alone[one.variant.key] = yield from self._cycles([one])
            cycles = self.alone[one.variant.key]
            if cycles is None or abs(cycles - TURNS) > TURNS * UNSURE:
                return None
        cycles = yield from self._cycles([known, other])
        size = Fraction(TURNS * (len(known.ports) + len(other.ports))) / cycles if cycles else Fraction(0)
        return round(size) if size and abs(size - round(size)) <= size * UNSURE else None

    def _cycles(self, instructions: Sequence[BlockingInstruction]) -> Procedure[Fraction | None]:
        """Return the cycles of a mix that keeps each instruction's ports busy for `TURNS` cycles (None: it failed)."""
        try:
            request = Request(self.mix([(one.variant, TURNS * len(one.ports)) for one in instructions]), Want.CYCLES)
        except GenerationError:
            return None
        (measured,) = yield [request]
        return measured.cycles if measured.ok else None

    def _keep(self, ports: PortSet, instruction: BlockingInstruction) -> BlockingInstruction:
        """Keep an instruction under a name unless a better one has it; return it with that name."""
        if instruction.usage.total == 1:
            instruction = replace(instruction, ports=ports, usage=PortUsage({ports: 1}))
        known = self.best.get(ports)
        if known is None or instruction.is_better_than(known):
            self.best[ports] = instruction
        return instruction
