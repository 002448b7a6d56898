"""At which instruction an interrupt catches the core: a model of retirement.

An interrupt comes at a random time. The oldest instruction that is not retired still retires, and the core stops behind
it: the address of the next one is pushed (found on a Zen 4; Downs, "Where do interrupts happen?", 2019, found the same
on a Skylake). So an instruction is caught as often as the one before it is the oldest. An instruction that retires
together with an older one is never the oldest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from analysis.simulation.study import Study


def shares(retired: Sequence[tuple[int, int]], split: AbstractSet[int] = frozenset()) -> dict[int, Fraction]:
    """Return the share of interrupts that each instruction gets, by its position in the loop.

    Args:
        retired: (position, cycle of retirement) of instructions in program order, over whole iterations of a loop in
            its steady state, and the first instruction of the next iteration.
        split: positions of fused pairs whose second instruction is caught while the pair is the oldest.

    Raises:
        ValueError: no time passes.
    """
    cycles: dict[int, int] = defaultdict(int)
    for (_, before), (position, now), (following, _) in zip(retired, retired[1:], retired[2:], strict=False):
        cycles[position + 1 if position in split else following] += max(0, now - before)
    total = sum(cycles.values())
    if not total:
        raise ValueError("no time passes between the instructions")
    return {position: Fraction(count, total) for position, count in sorted(cycles.items()) if count}


class Cause(StrEnum):
    """Why an instruction was the oldest one that was not retired."""

    RESULT = "result"
    """It had not executed."""
    RETIREMENT = "retirement"
    """It had executed, but the retirement width of the cycle was used up."""


@dataclass(frozen=True, slots=True)
class Oldest:
    """For how many core cycles per iteration the instruction at `position` was the oldest one, and the main cause."""

    position: int
    cycles: Fraction
    cause: Cause


@dataclass(frozen=True, slots=True)
class RetirementPrediction:
    """What the model says of a loop: shares by position, core cycles per iteration, and the oldest instructions.

    `oldest` has the instruction before each one that is caught, by the position of the one that is caught.
    """

    shares: Mapping[int, Fraction]
    cycles: Fraction
    oldest: Mapping[int, Oldest]


def predicted(study: Study) -> RetirementPrediction:
    """Return the share of each instruction of a loop on a simulated core.

    Raises:
        ValueError: no time passes.
    """
    instances = study.simulation.steady(study.block, study.followed)
    pairs = frozenset(position for position, fused in enumerate(study.block.fused) if fused)
    split = pairs if study.simulation.interruptible_pairs else frozenset()
    found = shares([(one.position, one.retired) for one in instances], split)
    iterations = len({one.iteration for one in instances})
    total = Fraction(instances[-1].retired - instances[0].retired, max(1, iterations - 1))
    waited: dict[int, int] = defaultdict(int)
    behind = {}
    for before, now, following in zip(instances, instances[1:], instances[2:], strict=False):
        caught = now.position + 1 if now.position in split else following.position
        behind[caught] = now.position
        # What retires in the cycle in which it executes has been waited for
        waited[caught] += min(now.retired, max(now.executed, before.retired)) - before.retired
    oldest = {}
    for position, share in found.items():
        cycles = share * total
        on_result = 2 * waited[position] >= cycles * iterations
        cause = Cause.RESULT if on_result else Cause.RETIREMENT
        oldest[position] = Oldest(behind[position], cycles, cause)
    return RetirementPrediction(found, total, oldest)


def distance(one: Mapping[int, Fraction], other: Mapping[int, Fraction]) -> Fraction:
    """Return the total variation distance of two distributions: 0 if they are equal, 1 if nothing is in common."""
    positions = one.keys() | other.keys()
    none = Fraction(0)
    return sum((abs(one.get(each, none) - other.get(each, none)) for each in positions), none) / 2
