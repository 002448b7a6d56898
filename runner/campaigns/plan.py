"""A preview of a campaign: variants, microbenchmarks, time, and exclusions with their reasons.

The number of microbenchmarks and the time are estimates: every Nth variant is measured, for a few seconds in all.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.backend import lacks_nothing
from runner.campaigns.campaign import skip_reason
from runner.measuring.session import Limits, Session, Task
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.backend import Lacks
    from runner.campaigns.campaign import Context, Method
    from runner.measuring.session import MeasuresRequests
    from xed_convert.model import InstructionVariant

SAMPLE_SECONDS = 3.0
"""How long variants of the sample are measured: a person waits for the plan."""

PREPARATION_SECONDS = 4.0
"""How long to look for blocking instructions; if it takes longer, the plan gives no time."""

SAMPLE_ACTIVE = 8
"""Variants of the sample that are measured together: few, so that some are done before the time is up."""


class _TimeIsUpError(UopscopeError):
    """The sample has taken long enough."""


@dataclass(slots=True)
class Plan:
    """What would be done. `sampled` variants took `seconds` and `microbenchmarks`; 0 if there was no time for any."""

    total: int
    there: int
    possible: int
    reasons: Counter[str] = field(default_factory=Counter)
    sampled: int = 0
    microbenchmarks: int = 0
    seconds: float = 0.0

    @property
    def expected_microbenchmarks(self) -> int | None:
        """Microbenchmarks in all, or None if nothing is known."""
        return round(self.microbenchmarks / self.sampled * self.possible) if self.sampled else None

    @property
    def expected_seconds(self) -> float | None:
        """Time in all, or None if nothing is known."""
        return self.seconds / self.sampled * self.possible if self.sampled else None


def make_plan(
    variants: Sequence[InstructionVariant],
    there: set[str],
    method: Method[Context],
    measurer: MeasuresRequests,
    *,
    lacks: Lacks = lacks_nothing,
    clock: Callable[[], float] = time.monotonic,
) -> Plan:
    """Plan for variants, those with conclusions already (`there`, by key) left out.

    `lacks` says what the machine cannot run. `clock` tells the time in seconds; for a simulated machine it is the
    process's CPU time.
    """
    todo = [variant for variant in variants if variant.key not in there]
    reasons = [skip_reason(variant, method, lacks) for variant in todo]
    possible = [variant for variant, reason in zip(todo, reasons, strict=True) if not reason]
    plan = Plan(len(variants), len(variants) - len(todo), len(possible), Counter(filter(None, reasons)))
    if possible:
        _measure_sample(plan, possible, method, measurer, clock)
    return plan


def _measure_sample(
    plan: Plan,
    possible: Sequence[InstructionVariant],
    method: Method[Context],
    measurer: MeasuresRequests,
    clock: Callable[[], float],
) -> None:
    """Measure variants of an even sample until the time is up."""
    watch = _Watch(PREPARATION_SECONDS, clock)
    session = Session(measurer, None, Limits(active=SAMPLE_ACTIVE, keep_raw=False), watch.check)
    try:
        context = session.run_one(method.prepare(possible))
        watch = _Watch(SAMPLE_SECONDS, clock)
        session = Session(measurer, None, Limits(active=SAMPLE_ACTIVE, keep_raw=False), watch.check)
        tasks = (Task(variant.key, method.characterize(variant, context)) for variant in _even_sample(possible))
        for outcome in session.run(tasks):
            plan.sampled += 1
            plan.microbenchmarks += len(outcome.requests)
            plan.seconds = watch.seconds()
    except _TimeIsUpError:
        pass


class _Watch:
    """Stops a session when its time is up."""

    def __init__(self, limit_seconds: float, clock: Callable[[], float]) -> None:
        self._limit_seconds, self._clock, self._start = limit_seconds, clock, clock()

    def seconds(self) -> float:
        """Return the time since the start."""
        return self._clock() - self._start

    def check(self, _progress: object) -> None:
        """Raise if the time is up."""
        if self.seconds() > self._limit_seconds:
            raise _TimeIsUpError("time is up")


def _even_sample(variants: Sequence[InstructionVariant]) -> Iterator[InstructionVariant]:
    """Yield all variants in an order in which any first part is distributed evenly (by the golden ratio)."""
    count = len(variants)
    step = max(1, round(count * 0.6180339887))
    while math.gcd(step, count) > 1:
        step += 1
    for number in range(count):
        yield variants[number * step % count]
