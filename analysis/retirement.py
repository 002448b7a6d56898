"""At which instruction an interrupt catches the core: a model of retirement.

An interrupt comes at a random time. The core lets the oldest instruction that is not retired come to its end, and stops
behind it: the address that is pushed is that of the next one (found on a Zen 4; Downs, "Where do interrupts happen?",
2019, found the same on a Skylake). So an instruction is caught as often as the one before it is the oldest one. What
retires together with an older instruction is never the oldest one.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.simulation.study import Study


def shares(retired: Sequence[tuple[int, int]]) -> dict[int, Fraction]:
    """Return the share of interrupts that each instruction gets, by its position in the loop.

    Args:
        retired: (position, cycle of retirement) of instructions in program order, over whole iterations of a loop in
            its steady state, and the first instruction of the next iteration.

    Raises:
        ValueError: no time passes.
    """
    cycles: dict[int, int] = defaultdict(int)
    for (_, before), (_, now), (following, _) in zip(retired, retired[1:], retired[2:], strict=False):
        cycles[following] += max(0, now - before)
    total = sum(cycles.values())
    if not total:
        raise ValueError("no time passes between the instructions")
    return {position: Fraction(count, total) for position, count in sorted(cycles.items()) if count}


def predicted(study: Study) -> dict[int, Fraction]:
    """Return the share of each instruction of a loop on a simulated core.

    Raises:
        ValueError: no time passes.
    """
    instances = study.simulation.steady(study.block, study.followed, loop=study.loop)
    return shares([(one.position, one.retired) for one in instances])


def distance(one: dict[int, Fraction], other: dict[int, Fraction]) -> Fraction:
    """Return the total variation distance of two distributions: 0 if they are alike, 1 if nothing is in common."""
    positions = one.keys() | other.keys()
    none = Fraction(0)
    return sum((abs(one.get(each, none) - other.get(each, none)) for each in positions), none) / 2
