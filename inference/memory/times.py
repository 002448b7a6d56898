"""Times of loads and stores: each case is measured alone, in a loop, and divided by its instances."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from inference.experiment import Request
from inference.memory.forwarding import HUNDREDTHS, MOST_PROBLEMS
from results.memory.model import Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.memory.times import TimesCase
    from inference.experiment import Procedure


def measure_times(cases: Sequence[TimesCase]) -> Procedure[tuple[tuple[Time, ...], tuple[str, ...]]]:
    """Measure the cases; return those that could be measured, and what went wrong."""
    answers = yield [Request(case.benchmark, loop=True) for case in cases]
    times = tuple(
        Time(case.kind, case.parameters, hundredths(found.cycles / case.divisor))
        for case, found in zip(cases, answers, strict=True)
        if found.ok
    )
    reasons = Counter(found.detail or found.status.value for found in answers if not found.ok)
    return times, tuple(
        f"{count} times were not measured: {reason}" for reason, count in reasons.most_common(MOST_PROBLEMS)
    )


def hundredths(cycles: Fraction) -> Fraction:
    """Return cycles rounded to hundredths, at least 0."""
    return max(Fraction(0), Fraction(round(cycles * HUNDREDTHS), HUNDREDTHS))
