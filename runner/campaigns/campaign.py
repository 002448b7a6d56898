"""Campaigns: many variants on one machine, resumable, with every conclusion stored as it is drawn.

Nothing is concluded or measured twice. Several processes can share a campaign on a simulated machine: each works on
its own variants, and the parent alone writes the file. A real CPU is measured by one process.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from inference.version import inference_version
from results import sentences
from results.campaign.records import Outcome
from runner.backend import lacks_nothing
from runner.campaigns.concluded import concluded, skipped
from runner.measuring.session import Limits, Session, StoreSource, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from inference.experiment import Procedure
    from results.campaign.store import Store
    from results.model import Characterization
    from runner.backend import Lacks
    from runner.campaigns.concluded import Concluded
    from runner.campaigns.parallel import ProcessPlan
    from runner.measuring.session import MeasuresRequests, Progress
    from xed_convert.model import InstructionVariant

Context = TypeVar("Context")


class Method(Protocol[Context]):
    """How variants are characterized: `prepare` once per machine, then `characterize` for each variant."""

    def prepare(self, variants: Iterable[InstructionVariant] = ()) -> Procedure[Context]:
        """Find out what these variants need in common (blocking instructions, latencies of chain instructions)."""

    def characterize(self, variant: InstructionVariant, context: Context) -> Procedure[Characterization]:
        """Find out all about one variant."""

    def skipped(self, variant: InstructionVariant) -> str:
        """Return the reason why nothing of a variant can be measured here ("": it can)."""


def skip_reason(variant: InstructionVariant, method: Method[Context], lacks: Lacks) -> str:
    """Return why nothing of a variant can be measured here ("": it can): the machine lacks it, or the method does."""
    return lacks(variant) or method.skipped(variant)


NAMED_AT_MOST = 3
"""Variants that a summary names for each reason; the rest are counted."""


@dataclass(slots=True)
class SkipReason:
    """Why variants were skipped or failed: the first one's sentence, how many there are, and the first variants."""

    text: str
    count: int = 0
    variants: list[str] = field(default_factory=list)

    @property
    def names(self) -> str:
        """The first variants by name, and how many more there are."""
        more = self.count - len(self.variants)
        return "; ".join(self.variants) + (f"; and {more} more" if more else "")

    def add(self, variant: str) -> None:
        """Count a variant."""
        self.count += 1
        if len(self.variants) < NAMED_AT_MOST:
            self.variants.append(variant)


def count_reason(reasons: dict[str, SkipReason], result: Characterization) -> None:
    """Count why a variant was skipped or failed; failures that differ only in figures count as one reason."""
    found = [(f"skipped: {result.skipped}",) * 2] if result.skipped else []
    found += [(f"failed: {sentences.reason(one)}", f"failed: {sentences.failure(one)}") for one in result.failures]
    for kind, text in dict(found).items():
        reasons.setdefault(kind, SkipReason(text.partition("\n")[0])).add(result.string)


def most_frequent(reasons: Mapping[str, SkipReason]) -> list[SkipReason]:
    """Return reasons, the most frequent first."""
    return sorted(reasons.values(), key=lambda one: -one.count)


FEWEST_FOR_PACE = 20
"""Variants to measure before the time left is shown: they are measured in parallel, so the first take longest."""


@dataclass(slots=True)
class Tally:
    """How far a campaign is: variants in all, done before it was started again, and what became of the others.

    `lost_seconds` is what waiting for a quiet core, and measuring again, took since the start. `kept` are variants
    whose last conclusion stays, because a new one would need what was not measured.
    """

    total: int
    resumed: int = 0
    kept: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    reasons: dict[str, SkipReason] = field(default_factory=dict)
    measured: int = 0
    lost_seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)
    prepared: float | None = None
    """When the machine's preparation ended, by the clock of `started` (None: it has not, or there is nothing to do)."""

    @property
    def done(self) -> int:
        """Variants with a conclusion."""
        return self.resumed + self.kept + self.outcomes.total()

    @property
    def concluded(self) -> int:
        """Variants that were measured since the start, with failures or without."""
        return self.outcomes[Outcome.MEASURED] + self.outcomes[Outcome.FAILED]

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Time that the rest will take at the pace since the preparation (None: too little was measured to tell)."""
        if self.prepared is None or self.concluded < FEWEST_FOR_PACE:
            return None
        return (time.monotonic() - self.prepared) / self.concluded * (self.total - self.done)

    def count(self, result: Characterization) -> None:
        """Take note of a conclusion."""
        self.outcomes[Outcome.of(result)] += 1
        count_reason(self.reasons, result)

    def frequent_reasons(self) -> list[SkipReason]:
        """Return why variants were skipped or failed, the most frequent first."""
        return most_frequent(self.reasons)


class Campaign(Generic[Context]):
    """Characterizes variants on one machine and stores what was found."""

    def __init__(
        self,
        store: Store,
        measurer: MeasuresRequests,
        method: Method[Context],
        lacks: Lacks = lacks_nothing,
        processes: ProcessPlan | None = None,
    ) -> None:
        """Measure with that measurer, or in processes; `Store.begin` was called."""
        self._store = store
        self._processes = processes
        self._method = method
        self._lacks = lacks
        self._session = Session(measurer, StoreSource(store), Limits(remembered=5_000, keep_raw=False), self._progress)
        self._tally: Tally | None = None

    def run(
        self, variants: Sequence[InstructionVariant], *, again: bool = False, on_change: Callable[[Tally], None]
    ) -> Iterator[Characterization]:
        """Store and yield the conclusion about each variant as it is drawn; `again` repeats those that exist.

        What was skipped stays skipped: there are no samples to conclude from again. A conclusion is kept if newer
        inference asks for measurements that are not stored.

        Raises:
            BackendError: the backend broke down.
            StoreError: the file cannot be written any more.
        """
        outcomes = self._store.outcomes()
        there = {key for key, outcome in outcomes.items() if not again or outcome is Outcome.SKIPPED}
        todo = [variant for variant in variants if variant.key not in there]
        tally = self._tally = Tally(len(variants), len(variants) - len(todo))
        on_change(tally)
        reasons = {variant.key: skip_reason(variant, self._method, self._lacks) for variant in todo}
        left_out = (skipped(variant, reasons[variant.key]) for variant in todo if reasons[variant.key])
        possible = [variant for variant in todo if not reasons[variant.key]]
        measure = self._measure_in_processes if self._processes else self._measure
        for one in chain(left_out, measure(possible) if possible else ()):
            if again and not self._store.has_measured(one.requests):
                tally.kept += 1
                on_change(tally)
                continue
            self._store.conclude(one.result, one.requests, inference_version())
            tally.count(one.result)
            on_change(tally)
            yield one.result

    def _measure(self, variants: Sequence[InstructionVariant]) -> Iterator[Concluded]:
        """Yield the conclusion about each variant."""
        context = self._prepare(variants)
        by_name = {variant.key: variant for variant in variants}
        for outcome in self._session.run(self._tasks(variants, context)):
            yield concluded(by_name[outcome.name], outcome)

    def _measure_in_processes(self, variants: Sequence[InstructionVariant]) -> Iterator[Concluded]:
        """Do the same in several processes."""
        from inference.context import Context as MachineContext  # noqa: PLC0415 - needs what one process does not
        from runner.campaigns import parallel  # noqa: PLC0415 - needs what one process does not

        assert self._processes is not None
        context: object = self._prepare(variants)
        assert isinstance(context, MachineContext)
        keys = tuple(dict.fromkeys(variant.key for variant in variants))
        for chunk in parallel.run(parallel.Order(self._processes, keys, context.blocking, context.timed)):
            self._store.add(chunk.samples)
            if self._tally:
                self._tally.measured += len(chunk.samples)
            yield from chunk.results

    def _prepare(self, variants: Sequence[InstructionVariant]) -> Context:
        context = self._session.run_one(self._method.prepare(variants))
        if self._tally is not None:
            self._tally.prepared = time.monotonic()
        return context

    def _tasks(self, variants: Iterable[InstructionVariant], context: Context) -> Iterator[Task[Characterization]]:
        for variant in variants:
            yield Task(variant.key, self._method.characterize(variant, context))

    def _progress(self, progress: Progress) -> None:
        if self._tally is not None:
            self._tally.measured = progress.measured
