"""The error of counters and clock, which repeating a measurement does not show.

Among a hundred blocking instructions, a count that is 2% too high has two µops too many. So that percentage is
measured. Each candidate for blocking executes a whole number of µops. If it keeps its ports busy, its time follows from
that number. The deviations from these numbers are the errors of the counters and of the clock.

If each microbenchmark has an error of its own, the mean of several ones is nearer to the truth. If all have the same
one, or if it drifts, the mean is not. The deviations show that, too: those of each counter cancel out, and successive
ones differ as much as any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor, isqrt
from typing import TYPE_CHECKING

from inference.latency.evidence import DRIFT
from inference.ports.alone.isolation import TOLERANCE_PER_UOP, UNUSED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from inference.ports.alone.isolation import Isolated
    from inference.ports.alone.layout import PortLayout

MOST_WRONG = Fraction(1, 20)
"""Share of the candidates that may be off for reasons of their own: one in twenty, as many as replay loads."""

MARGIN = Fraction(3, 2)
"""Factor: counts of other code may be further off than those of candidates, which are few and not the worst."""

FEWEST_CHANCES = 16
"""Candidates from which it is concluded that errors are by chance: the mean of so many is off by a quarter of a usual
error."""

UNLIKELY = 4
"""Standard errors. A mean that is further from zero is so by chance in one of 16,000 cases, and each machine has about
30 such means."""

SETTLED = Fraction(1, 200)
"""Share by which the clock may miss whole cycles and still count as steady: half a percent, the ends of a window."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of itself by which a count of µops, and a number of core cycles, may be off.

    `mean_counts` and `mean_clock` say the same of the mean over many microbenchmarks, if each has an error of its own
    (None: that is not so, or not known).
    """

    counts: Fraction = Fraction(0)
    clock: Fraction = Fraction(0)
    mean_counts: Fraction | None = None
    mean_clock: Fraction | None = None

    @property
    def by_chance(self) -> bool:
        """Whether more measurements of another number of blocking instructions tell more."""
        return self.mean_counts is not None or self.mean_clock is not None


EXACT = Accuracy()
"""The accuracy of counters and a clock without errors."""


def accuracy_of(observed: Sequence[tuple[Isolated, Fraction]], layout: PortLayout) -> Accuracy:
    """Return how accurate a machine's counters are.

    Args:
        observed: what candidates for blocking did alone, each with the spread of its cycles as a share of them.
        layout: the counters.
    """
    single = [(one, spread) for one, spread in observed if one.total == 1 and _missing(one) <= TOLERANCE_PER_UOP]
    on_one = [one for one, _ in single if sum(one.uops[name] > UNUSED for name in layout.counters) == 1]
    counts = [_missing(one) for one in on_one or [one for one, _ in single]]
    clock = [(off, spread) for one, spread in single if abs(off := _off_cycles(one)) <= TOLERANCE_PER_UOP]
    seen = MARGIN * _usual(abs(off) for off, _ in clock)
    # An error beyond the spread within a job may grow from job to job: the clock drifts
    drifts = MARGIN * _usual(max(Fraction(0), abs(off) - spread) for off, spread in clock) > SETTLED
    return Accuracy(
        MARGIN * _usual(counts),
        max(seen, DRIFT) if drifts else seen,
        _of_mean([(_more(one), _counting(one, layout)) for one, _ in single]),
        _of_mean([(off, _counting(one, layout)) for one, _ in single if abs(off := _off_cycles(one)) <= seen]),
    )


def _of_mean(errors: Sequence[tuple[Fraction, frozenset[str]]]) -> Fraction | None:
    """Return by how much the mean of many errors may differ from zero, None if they are not by chance.

    Args:
        errors: in the order of the measurements, each with the counters that made it.
    """
    usual = _usual(abs(error) for error, _ in errors)
    kept = [(error, counters) for error, counters in errors if abs(error) <= usual]
    if len(kept) < FEWEST_CHANCES or usual <= SETTLED:
        return None
    together = [error for error, _ in kept]
    groups: dict[frozenset[str], list[Fraction]] = {}
    for error, counters in kept:
        groups.setdefault(counters, []).append(error)
    within = sum((error - _mean(one)) ** 2 for one in groups.values() for error in one)
    size = root(Fraction(within) / max(1, len(kept) - len(groups)), places=4)
    if any(
        abs(_mean(one)) > UNLIKELY * size / root(Fraction(len(one)), places=4) for one in [*groups.values(), together]
    ):
        return None
    steps = _mean([(one - other) ** 2 for one, other in pairwise(together)])
    if steps < size**2:  # by chance it is twice as much
        return None
    return abs(_mean(together)) + 2 * size / root(Fraction(len(together)), places=4)


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _counting(isolated: Isolated, layout: PortLayout) -> frozenset[str]:
    """Return the counters that counted an instruction."""
    return frozenset(name for name in layout.counters if isolated.uops[name] > UNUSED)


def _off_cycles(isolated: Isolated) -> Fraction:
    """Return the share by which an instruction of one µop misses a whole number per cycle (1: it is not that fast)."""
    ports = round(1 / isolated.cycles) if isolated.cycles else 0
    return isolated.cycles * ports - 1 if ports else Fraction(1)


def _more(isolated: Isolated) -> Fraction:
    """Return how many µops more than its one the counters have of an instruction."""
    return sum(isolated.uops.values(), Fraction(0)) - 1


def _missing(isolated: Isolated) -> Fraction:
    """Return by how many µops the counters of an instruction of one µop are off."""
    return abs(_more(isolated))


def root(value: Fraction, places: int = 3) -> Fraction:
    """Return a square root, rounded down to decimal places."""
    return Fraction(isqrt(floor(value * 10 ** (2 * places))), 10**places)


def _usual(shares: Iterable[Fraction]) -> Fraction:
    """Return the largest share without the `MOST_WRONG` that are off for reasons of their own (0: there is none)."""
    ordered = sorted(shares)
    return ordered[len(ordered) - 1 - int(len(ordered) * MOST_WRONG)] if ordered else Fraction(0)
