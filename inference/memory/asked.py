"""Which accesses of a sequence hit, by time: a round that ends with the access, minus one that ends just before it.

Each round begins with two passes over `RESET` other lines of the set, which evict all lines of the sequence. They do
not reset the state of the replacement policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.memory.sequences import AccessStep, SequenceCode
from inference.experiment import Request
from inference.memory.times import hundredths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from generator.factory import InstructionFactory
    from generator.memory.sequences import SetLines
    from inference.experiment import Procedure

RESET = 24
"""Lines: more than the ways of the first level of any x86 core."""


@dataclass(frozen=True, slots=True)
class AskedAccess:
    """An access by its number in the sequence (from 0), its line, its core cycles (None: not measured), and verdict."""

    number: int
    line: str
    cycles: Fraction | None
    hits: bool | None


def measure_asked(
    instructions: InstructionFactory, where: SetLines, steps: Sequence[AccessStep], hit: Fraction, miss: Fraction
) -> Procedure[tuple[AskedAccess, ...]]:
    """Measure the accesses that are asked about.

    Args:
        instructions: where instructions come from.
        where: lines of one set.
        steps: the sequence.
        hit: core cycles of a load that hits.
        miss: those of one that misses. A time that is nearer to `miss` than to `hit` is a miss.
    """
    code = SequenceCode(instructions, where)
    reset = tuple(AccessStep(f"other {number}") for number in range(RESET)) * 2
    wanted = [number for number, step in enumerate(steps) if step.asked]
    rounds = [(*reset, *steps[: number + more]) for number in wanted for more in (0, 1)]
    answers = yield [Request(code.chain(one), loop=True) for one in rounds]
    found = []
    for number, before, after in zip(wanted, answers[::2], answers[1::2], strict=True):
        cycles = hundredths(after.cycles - before.cycles) if before.ok and after.ok else None
        hits = None if cycles is None else cycles < (hit + miss) / 2
        found.append(AskedAccess(number, steps[number].line, cycles, hits))
    return tuple(found)
