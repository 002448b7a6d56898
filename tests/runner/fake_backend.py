"""A backend whose counters are functions of the job, for tests of the protocol; it is found by no listing."""

from collections.abc import Callable, Mapping, Sequence

from results.model import Provenance, Status
from runner.backend import BackendInfo, Job, JobResult, Repeat

Counts = Callable[[Job, int], Mapping[str, int]]
"""From a job and the number of its repetition since the backend was made to what the counters say."""

PROVENANCE = Provenance("FAKE", "a fake", "0-00-0", "0", "none", "fake", "0", "2026-01-01T00:00:00+00:00")


class FakeBackend:
    name = "fake"

    def __init__(self, counts: Counts, counters: tuple[str, ...] = ("core_cycles",), *, clock: bool = False) -> None:
        self.counts = counts
        self.counters = counters
        self.clock = clock
        self.failing: dict[bytes, JobResult] = {}
        self.batches: list[list[Job]] = []
        self.repetition = 0

    def info(self) -> BackendInfo:
        return BackendInfo(
            name=self.name,
            provenance=PROVENANCE,
            counters=self.counters,
            ports=tuple(name for name in self.counters if name[0] == "p" and name[1:].isdigit()),
            caveats=(),
            preferred_iterations=100 if self.clock else 0,
            calibration_core_cycles=9000 if self.clock else 0,
        )

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        self.batches.append(list(batch))
        return [self.failing.get(job.benchmark.body_code) or self._one(job, counters, repeat) for job in batch]

    def _one(self, job: Job, counters: Sequence[str], repeat: Repeat) -> JobResult:
        rows = []
        for _ in range(repeat.repetitions):
            self.repetition += 1
            rows.append(self.counts(job, self.repetition))
        return JobResult(Status.OK, {name: tuple(row[name] for row in rows) for name in counters})

    def close(self) -> None:
        pass
