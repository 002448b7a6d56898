"""A measured latency in whole cycles: one number, an upper bound, or the two neighbouring numbers.

Every pass through a dependency takes whole cycles, so a fraction is the mean of shorter and longer passes:

    1.00    1          every pass took one
    0.20    [0;1]      a move that was eliminated four times of five
    6.11    [≤6;≤7]    six or seven; links may have added a bypass delay, so the instruction takes six at most
    9.78    ≤9         of an upper bound: no pass is shorter than the latency, so their mean is not, either
    4.14    ≤4         if the clock may be off by as much as that; else some passes took five
    90.3    90.30±0.90 nobody can tell which whole number it is
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple

from results.model import Bound

if TYPE_CHECKING:
    from results.model import LatencyResult

NEAR_WHOLE = Fraction(1, 20)
"""Cycles. A latency so near to a whole number is that number. Rhythms of a core make fractions of a tenth of a cycle at
least; this is half of that."""

UNTOLD = 50
"""Cycles. A stable measurement may spread by 1 %, which is half a cycle of this many: it may mean two whole numbers."""


BOUND_NOISE = Fraction(1, 5)
"""Cycles by which noise may make an upper bound too low: 1% of the chains of some 20 cycles that bounds come out of."""

BOUND_SHARE = Fraction(1, 100)
"""The same as a share of longer bounds."""

WIDE = 1
"""Cycles. Where an upper bound spreads by more, its mean may be too low by more, too: the nearest number counts."""


class WholeCycles(NamedTuple):
    """The whole numbers of cycles that passes took, equal if there was only one; `is_bound`: they may take less."""

    least: int
    most: int
    is_bound: bool


def whole_cycles(latency: LatencyResult) -> WholeCycles:
    """Return what a latency says in whole cycles."""
    nearest = floor(latency.cycles + Fraction(1, 2))
    if latency.bound is Bound.UPPER:
        most = nearest if (latency.spread or 0) > WIDE else floor(latency.cycles + _noise(latency.cycles))
        return WholeCycles(most, most, is_bound=True)
    off, spread = abs(latency.cycles - nearest), latency.spread or Fraction(0)
    if off <= NEAR_WHOLE or (off <= spread and latency.cycles >= UNTOLD):
        return WholeCycles(nearest, nearest, is_bound=False)
    if off <= spread:
        most = floor(latency.cycles + spread)
        return WholeCycles(most, most, is_bound=True)
    return WholeCycles(floor(latency.cycles), ceil(latency.cycles), is_bound=True)


def _noise(cycles: Fraction) -> Fraction:
    """Return by how many cycles an upper bound may be too low, never more than rounding to the nearest allows."""
    return min(max(BOUND_NOISE, cycles * BOUND_SHARE), Fraction(1, 2))
