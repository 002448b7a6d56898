"""A preview of a campaign: variants, microbenchmarks, time, and exclusions with their reasons.

The number of microbenchmarks and the time are estimates: every Nth variant is measured, for a few seconds in all. The
sample is measured without what takes a campaign minutes before its first variant. What that adds is known from other
runs, as a range.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from runner.backend import lacks_nothing
from runner.campaigns.campaign import skip_reason
from runner.measuring.session import Limits, Session, Task
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.backend import Lacks
    from runner.campaigns.campaign import Context, Method
    from runner.measuring.session import MeasuresRequests, Progress
    from xed_convert.model import InstructionVariant

FIRST_SECONDS = 1.0
"""How long the first part of the sample is measured. It also measures what many variants share, such as links."""

SAMPLE_SECONDS = 2.5
"""How long the rest of the sample is measured: a person waits for the plan."""

LIMIT_SECONDS = 8.0
"""After that time the preparation and the sample end, done or not."""

SAMPLE_ACTIVE = 8
"""Variants of the sample that are measured together: few, so that little is left when the time is up."""

THOROUGH_FACTOR = 8
"""A search for blocking instructions among all classes takes so many times as long as one among a few.

By microbenchmarks: 2,084 and 265 on a simulated Haswell, 2,087 and 268 on a simulated Skylake server.
"""

SEEN_ON = "a Zen 4, a simulated Haswell and a simulated Skylake server"
"""Where the next figures were measured, with samples of 60 to 150 variants; they are the least and the most."""

SEARCH_MICROBENCHMARKS = {False: (2_000, 4_000), True: (7_600, 27_000)}
"""Microbenchmarks of a search for port sets by time, by whether it is thorough (2,008 to 3,968; 7,588 to 26,849)."""

BY_TIME_MICROBENCHMARKS = 1.86, 2.01
"""How many times as many microbenchmarks a variant takes with ports by time."""

BY_TIME_SECONDS = 0.75, 1.4
"""How many times as long each of those takes, compared with one of the sample."""


class _TimeIsUpError(UopscopeError):
    """The sample has taken long enough."""


@dataclass(frozen=True, slots=True)
class NotSampled:
    """What the campaign does and the sample does not: searches among all classes of instructions; ports by time."""

    thorough: bool = False
    by_time: bool = False


@dataclass(slots=True)
class SamplePart:
    """Variants that were measured one after the other, and what they took."""

    variants: int = 0
    microbenchmarks: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Plan:
    """What would be done. The parts of the sample are empty if there was no time for them.

    `first` has what many variants share, and `rest` does not. `preparation` is no variant's. None of them has the
    `lost_seconds`, which waiting for a quiet core and measuring again took.
    """

    total: int
    there: int
    possible: int
    reasons: Counter[str] = field(default_factory=Counter)
    not_sampled: NotSampled = field(default_factory=NotSampled)
    preparation: SamplePart = field(default_factory=SamplePart)
    first: SamplePart = field(default_factory=SamplePart)
    rest: SamplePart = field(default_factory=SamplePart)
    lost_seconds: float = 0.0

    @property
    def sampled(self) -> int:
        """How many variants were measured."""
        return self.first.variants + self.rest.variants

    @property
    def sample_seconds(self) -> float:
        """How long these took on a quiet core."""
        return self.first.seconds + self.rest.seconds

    @property
    def expected_microbenchmarks(self) -> int | None:
        """Microbenchmarks in all without ports by time, or None if nothing is known."""
        if not self.sampled:
            return None
        return round(self._times * self.preparation.microbenchmarks + self._carried_over("microbenchmarks"))

    def expected_seconds(self, processes: int = 1) -> float | None:
        """Time in all without ports by time, or None if nothing is known; processes share the variants."""
        if not self.sampled:
            return None
        return self._times * self.preparation.seconds + self._carried_over("seconds") / processes

    def expected_by_time(self, processes: int = 1) -> tuple[float, float] | None:
        """Return the least and the most time in all with ports by time (None: not wanted, or nothing is known)."""
        seconds = self.expected_seconds(processes)
        if seconds is None or not self.not_sampled.by_time:
            return None
        measured = self.preparation.microbenchmarks + self.first.microbenchmarks + self.rest.microbenchmarks
        each = (self.preparation.seconds + self.sample_seconds) / max(1, measured)
        search = SEARCH_MICROBENCHMARKS[self.not_sampled.thorough]
        kinds = zip(BY_TIME_MICROBENCHMARKS, BY_TIME_SECONDS, search, strict=True)
        least, most = (slower * (more * seconds + each * count) for more, slower, count in kinds)
        return least, most

    @property
    def _times(self) -> int:
        """How many times the sample's preparation the campaign's takes."""
        return THOROUGH_FACTOR if self.not_sampled.thorough else 1

    def _carried_over(self, name: str) -> float:
        """Return what all variants take: the first part as it is, and the others at the pace of the rest."""
        first, rest = (float(getattr(part, name)) for part in (self.first, self.rest))
        others = self.possible - self.first.variants
        return first + others * (rest / self.rest.variants if self.rest.variants else first / self.first.variants)


def make_plan(  # noqa: PLR0913 - all that a plan depends on
    variants: Sequence[InstructionVariant],
    there: set[str],
    method: Method[Context],
    measurer: MeasuresRequests,
    *,
    lacks: Lacks = lacks_nothing,
    clock: Callable[[], float] = time.monotonic,
    not_sampled: NotSampled | None = None,
) -> Plan:
    """Plan for variants, those with conclusions already (`there`, by key) left out.

    `lacks` says what the machine cannot run. `clock` tells the time in seconds; for a simulated machine it is the
    process's CPU time. `not_sampled` says what the campaign does and `method` does not.
    """
    todo = [variant for variant in variants if variant.key not in there]
    reasons = [skip_reason(variant, method, lacks) for variant in todo]
    possible = [variant for variant, reason in zip(todo, reasons, strict=True) if not reason]
    plan = Plan(len(variants), len(variants) - len(todo), len(possible), Counter(filter(None, reasons)))
    plan.not_sampled = not_sampled or NotSampled()
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
    """Measure variants of an even sample until the time is up; those that were begun are done."""
    watch = _Watch(clock, measurer)
    session = Session(measurer, None, Limits(active=SAMPLE_ACTIVE, keep_raw=False), watch.check)
    sample = _even_sample(possible)
    try:
        context = session.run_one(method.prepare(possible))
        watch.note(plan.preparation, 0)
        for part, seconds in ((plan.first, FIRST_SECONDS), (plan.rest, SAMPLE_SECONDS)):
            chosen = watch.until(seconds, sample)
            tasks = (Task(variant.key, method.characterize(variant, context)) for variant in chosen)
            for _ in session.run(tasks):
                watch.note(part, 1)
    except _TimeIsUpError:
        pass
    plan.lost_seconds = measurer.lost_seconds


class _Watch:
    """Measures the parts of a sample, and stops what takes too long."""

    def __init__(self, clock: Callable[[], float], measurer: MeasuresRequests) -> None:
        self._clock, self._measurer, self._begin = clock, measurer, clock()
        self._noted, self._lost_noted = self._begin, measurer.lost_seconds
        self._measured = self._measured_noted = 0

    def check(self, progress: Progress) -> None:
        """Raise if the time for everything is up."""
        self._measured = progress.measured
        if self._clock() - self._begin > LIMIT_SECONDS:
            raise _TimeIsUpError("time is up")

    def until(self, seconds: float, items: Iterator[InstructionVariant]) -> Iterator[InstructionVariant]:
        """Yield items until that many seconds have passed."""
        end = self._clock() + seconds
        yield from takewhile(lambda _item: self._clock() <= end, items)

    def note(self, part: SamplePart, variants: int) -> None:
        """Add to a part what was done since the last note."""
        now, lost = self._clock(), self._measurer.lost_seconds
        part.variants += variants
        part.seconds += max(0.0, now - self._noted - (lost - self._lost_noted))
        part.microbenchmarks += self._measured - self._measured_noted
        self._noted, self._lost_noted, self._measured_noted = now, lost, self._measured


def _even_sample(variants: Sequence[InstructionVariant]) -> Iterator[InstructionVariant]:
    """Yield all variants in an order in which any first part is distributed evenly (by the golden ratio)."""
    count = len(variants)
    step = max(1, round(count * 0.6180339887))
    while math.gcd(step, count) > 1:
        step += 1
    for number in range(count):
        yield variants[number * step % count]
