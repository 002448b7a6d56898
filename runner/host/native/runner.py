"""Runs jobs of a backend natively: batches that fit, results with statuses, a child process started when needed."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from generator.harness.harness import RDTSC, BlobLayout, layout, render
from generator.harness.style import State
from results.model import Status
from runner.backend import PLAIN_ENVIRONMENT, BackendError, Job, JobResult, Repeat
from runner.host.core_scheduling import must_be_asked_for
from runner.host.native import server
from runner.host.native.child import NativeChild, NativeJob, NativeResult, OnDemand, PerfEvent, fitting
from runner.host.native.faults import fault_text
from runner.host.native.steps import misaligned, with_trap_flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.harness.native import Calibration
    from runner.backend import ExecutionEnvironment
    from runner.host.cpu import Cpu

AREA_STEP, MOST_AREA_BYTES = 64 << 10, 64 << 30
"""The size of R14's area is a multiple of the first, and at most the second: no machine has more memory."""
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
        self._clean_uppers = "avx" in cpu.flags
        self._asked = PLAIN_ENVIRONMENT
        self._child: NativeChild | None = None
        self._rendered = functools.lru_cache(maxsize=server.MAX_JOBS)(self._render)
        """Blobs of a batch: the next round runs them again."""

    @property
    def area_bytes(self) -> int:
        """The size of the area that R14 points to the middle of."""
        return self._asked.r14_bytes or server.R14_AREA_SIZE

    @property
    def options(self) -> dict[str, str]:
        """What the provenance says of its environment."""
        area = {"R14's area": f"{self._asked.r14_bytes} bytes"} if self._asked.r14_bytes else {}
        idle = {"siblings kept idle": "by core scheduling"} if self._asked.idle_siblings else {}
        return {**area, **idle}

    def provide(self, asked: ExecutionEnvironment) -> None:
        """Run all code from here on in this environment.

        Raises:
            BackendError: it cannot be had here.
        """
        if asked.contiguous:
            raise BackendError(
                "an ordinary process cannot ask for physically contiguous memory",
                hint="--backend kmod can; here the 32 MiB from R14 + 32 MiB on have pages of 2 MiB if there are any",
            )
        if asked.r14_bytes % AREA_STEP or asked.r14_bytes > MOST_AREA_BYTES:
            raise BackendError(f"{asked.r14_bytes} bytes for R14 are not a multiple of 64 KiB, or more than 64 GiB")
        asked = replace(asked, idle_siblings=asked.idle_siblings and must_be_asked_for(self._cpu.number))
        if asked != self._asked:
            self.close()
            self._asked = asked

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
            jobs = [self._native(job, repeat.warm_ups + repeat.repetitions) for job in rest]
            count = fitting(jobs, len(events))
            if rest[0].benchmark.privileged or not count:
                detail = "needs ring 0" if count else f"{len(jobs[0].blob)} bytes of code or its samples are too many"
                results.append(JobResult(Status.REFUSED, {}, detail))
                continue
            may_call = rest[0].conditions.may_call
            ends = (i for i, job in enumerate(rest[:count]) if job.benchmark.privileged or _may_call(job) != may_call)
            count = next(ends, count)
            done = self._run(jobs[:count], repeat.time_limit_seconds, events, may_call=may_call)
            results += [self._result(job, each, repeat, counters) for job, each in zip(rest, done, strict=False)]
        return results

    def close(self) -> None:
        """End the child process."""
        if self._child:
            self._child.close()
            self._child = None

    def _run(
        self, jobs: Sequence[NativeJob], limit_seconds: float, events: Sequence[PerfEvent], *, may_call: bool
    ) -> list[NativeResult]:
        """Run jobs in the child; an interrupt (Ctrl-C) ends the child, since it would still be at work."""
        try:
            if self._child is None:
                self._child = NativeChild(self._cpu.number, self._calibration, self._asked)
            return self._child.run(jobs, limit_seconds, events, may_call=may_call)
        except BaseException:
            self.close()
            raise

    def _render(self, job: Job) -> bytes:
        if job.conditions.stepped:
            job = with_trap_flag(job)
        style = job.style(clean_uppers=self._clean_uppers)
        return render(job.benchmark, job.copies, job.iterations, RDTSC, style)

    def _native(self, job: Job, repetitions: int) -> NativeJob:
        blob = self._rendered(job)
        asked = job.conditions
        memory = OnDemand(asked.value, not asked.keeps_pages) if asked.state is not State.ZERO else None
        return NativeJob(blob, 1 if asked.stepped else repetitions, memory, asked.stepped, job.loads_beside)

    def _layout(self, job: Job) -> BlobLayout:
        if job.conditions.stepped:
            job = with_trap_flag(job)
        style = job.style(clean_uppers=self._clean_uppers)
        return layout(job.benchmark, job.copies, job.iterations, RDTSC, style)

    def _result(self, job: Job, result: NativeResult, repeat: Repeat, counters: Sequence[str]) -> JobResult:
        status = STATES[result.state]
        if status is Status.TIMED_OUT:
            return JobResult(status, {}, f"not done after {repeat.time_limit_seconds:g} s for one job")
        if status is Status.FAULTED:
            return JobResult(status, {}, self._reason(job, result))
        if job.conditions.stepped:
            shape = self._layout(job)
            return JobResult(
                status, {}, misaligned(job.benchmark.body_code, result.steps, shape.body_offset, shape.body_end)
            )
        columns = [values[repeat.warm_ups :] for values in result.columns]
        if result.missed and not all(columns):
            return JobResult(Status.REFUSED, {}, "something else had the counters (perf, the NMI watchdog)")
        return JobResult(status, dict(zip(counters, columns, strict=True)))

    def _reason(self, job: Job, result: NativeResult) -> str:
        if result.fault:
            return fault_text(result.fault, job, self._layout(job))
        return EXITS.get(result.signal, f"the process ended itself, exit code {result.signal}")


EXITS = {
    server.NO_COUNTERS: "the kernel refuses the events",
    server.NO_PLACE: "something else is in memory where the code should be",
    server.NO_REFUSAL: "the kernel cannot refuse system calls of the code (seccomp), and they are not allowed",
    server.BROKEN: "the code damaged the process that ran it",
}
"""Exit codes of workers."""


def _may_call(job: Job) -> bool:
    return job.conditions.may_call
