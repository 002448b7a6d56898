"""Runs jobs of a backend natively: batches that fit, results with statuses, a child process started when needed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from generator.harness.harness import RDTSC, Layout, Style, layout, render
from results.model import Status
from runner.backend import Job, JobResult, Repeat
from runner.host.native import server
from runner.host.native.child import NativeChild, NativeJob, NativeResult, PerfEvent, fitting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.harness.native import Calibration
    from runner.host.cpu import Cpu

STATES = {
    server.DONE: Status.OK,
    server.FAULTED: Status.FAULTED,
    server.TIMED_OUT: Status.TIMED_OUT,
    server.EXITED: Status.FAULTED,
}


class NativeRunner:
    """One CPU, and the child process that is pinned to it."""

    def __init__(self, cpu: Cpu, calibration: Calibration) -> None:
        self._cpu = cpu
        self._calibration = calibration
        clean_uppers = "avx" in cpu.flags
        self._styles = {fenced: Style(fenced, clean_uppers) for fenced in (False, True)}
        self._child: NativeChild | None = None

    @property
    def process(self) -> int | None:
        """The process number of the child, if there is one."""
        return self._child.process if self._child else None

    def run(
        self, batch: Sequence[Job], repeat: Repeat, counters: Sequence[str], events: Sequence[PerfEvent] = ()
    ) -> list[JobResult]:
        """Run jobs in user mode and return samples of the clock, or of those events, under the names of `counters`.

        Raises:
            BackendError: the child process cannot be started, or is gone.
        """
        results: list[JobResult] = []
        while len(results) < len(batch):
            rest = batch[len(results) : len(results) + server.MAX_JOBS]
            jobs = [NativeJob(self._render(job), repeat.warm_ups + repeat.repetitions) for job in rest]
            count = fitting(jobs, len(events))
            if rest[0].benchmark.privileged or not count:
                detail = "needs ring 0" if count else f"{len(jobs[0].blob)} bytes of code or its samples are too many"
                results.append(JobResult(Status.REFUSED, {}, detail))
                continue
            count = next((i for i, job in enumerate(rest[:count]) if job.benchmark.privileged), count)
            done = self._run(jobs[:count], repeat.time_limit_seconds, events)
            results += [self._result(job, each, repeat, counters) for job, each in zip(rest, done, strict=False)]
        return results

    def close(self) -> None:
        """End the child process."""
        if self._child:
            self._child.close()
            self._child = None

    def _run(self, jobs: Sequence[NativeJob], limit_seconds: float, events: Sequence[PerfEvent]) -> list[NativeResult]:
        """Run jobs in the child; an interrupt (Ctrl-C) ends the child, since it would still be at work."""
        try:
            if self._child is None:
                self._child = NativeChild(self._cpu.number, self._calibration)
            return self._child.run(jobs, limit_seconds, events)
        except BaseException:
            self.close()
            raise

    def _render(self, job: Job) -> bytes:
        return render(job.benchmark, job.copies, job.iterations, RDTSC, self._styles[job.fenced])

    def _result(self, job: Job, result: NativeResult, repeat: Repeat, counters: Sequence[str]) -> JobResult:
        status = STATES[result.state]
        if status is Status.TIMED_OUT:
            return JobResult(status, {}, f"not done after {repeat.time_limit_seconds:g} s for one job")
        if status is Status.FAULTED:
            shape = layout(job.benchmark, job.copies, job.iterations, RDTSC, self._styles[job.fenced])
            return JobResult(status, {}, _fault_detail(result, shape))
        columns = [values[repeat.warm_ups :] for values in result.columns]
        if result.missed and not all(columns):
            return JobResult(Status.REFUSED, {}, "something else had the counters (perf, the NMI watchdog)")
        return JobResult(status, dict(zip(counters, columns, strict=True)))


def _fault_detail(result: NativeResult, shape: Layout) -> str:
    if result.state == server.EXITED:
        refused = result.signal == server.NO_COUNTERS
        return "the kernel refuses the events" if refused else f"the process ended itself, exit code {result.signal}"
    try:
        name = signal.Signals(result.signal).name
    except ValueError:
        name = f"signal {result.signal}"
    if result.fault_offset is None:
        return f"{name} outside of the code under test"
    place = shape.place_of(result.fault_offset)
    beginning = {"setup": shape.setup_offset, "body": shape.body_offset}.get(place, 0)
    return f"{name} in the {place} at offset {result.fault_offset - beginning}"
