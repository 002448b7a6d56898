"""The systematic error of counters and clock, which repeating a measurement does not show.

Among a hundred blocking instructions, a count that is 2% too high has two µops too many. So that percentage is
measured. Each candidate for blocking executes a whole number of µops. If it keeps its ports busy, its time follows from
that number. The deviations from these numbers are the errors of the counters and of the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
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

SETTLED = Fraction(1, 200)
"""Share by which the clock may miss whole cycles and still count as steady: half a percent, the ends of a window."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of itself by which a count of µops, and a number of core cycles, may be off."""

    counts: Fraction = Fraction(0)
    clock: Fraction = Fraction(0)


EXACT = Accuracy()
"""The accuracy of counters and a clock without systematic error."""


def accuracy_of(observed: Sequence[tuple[Isolated, Fraction]], layout: PortLayout) -> Accuracy:
    """Return how accurate a machine's counters are.

    Args:
        observed: what candidates for blocking did alone, each with the spread of its cycles as a share of them.
        layout: the counters.
    """
    single = [(one, spread) for one, spread in observed if one.total == 1 and _missing(one) <= TOLERANCE_PER_UOP]
    on_one = [one for one, _ in single if sum(one.uops[name] > UNUSED for name in layout.counters) == 1]
    counts = [_missing(one) for one in on_one or [one for one, _ in single]]
    clock = [(off, spread) for one, spread in single if (off := _off_cycles(one)) <= TOLERANCE_PER_UOP]
    seen = MARGIN * _usual(off for off, _ in clock)
    # An error beyond the spread within a job may grow from job to job: the clock drifts
    drifts = MARGIN * _usual(max(Fraction(0), off - spread) for off, spread in clock) > SETTLED
    return Accuracy(MARGIN * _usual(counts), max(seen, DRIFT) if drifts else seen)


def _off_cycles(isolated: Isolated) -> Fraction:
    """Return the share by which an instruction of one µop misses a whole number per cycle (1: it is not that fast)."""
    ports = round(1 / isolated.cycles) if isolated.cycles else 0
    return abs(isolated.cycles * ports - 1) if ports else Fraction(1)


def _missing(isolated: Isolated) -> Fraction:
    """Return by how many µops the counters of an instruction of one µop are off."""
    return abs(sum(isolated.uops.values(), Fraction(0)) - 1)


def _usual(shares: Iterable[Fraction]) -> Fraction:
    """Return the largest share without the `MOST_WRONG` that are off for reasons of their own (0: there is none)."""
    ordered = sorted(shares)
    return ordered[len(ordered) - 1 - int(len(ordered) * MOST_WRONG)] if ordered else Fraction(0)
