"""Runs code that reads and writes anywhere in a process first: what faults there does not get into the kernel.

In ring 0 every address of the upper half is the kernel's own memory, so a store there is not contained. The process
begins with the same registers and the same memory, so the code uses the same addresses. An address that no program has
is a fault there, with a reason. So is a privileged instruction or a system call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iced_x86 import Decoder, Register

from generator.harness import native
from generator.harness.style import State
from results.model import Status
from runner.backend import CLOCK_COUNTERS, Job, JobResult, Repeat
from runner.host.native.runner import NativeRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.host.cpu import Cpu

MOST_KEPT = 4096
"""Verdicts: a block is measured in many rounds of the same jobs."""
SHORTEST = 1
"""Iterations of the calibration, whose samples nobody reads."""
GS = "it uses the segment GS, which is the kernel's own memory"
CALLS = "the kernel module cannot let code call the system; the backends tsc and perf can"


class Preflight:
    """A process on the same CPU, started when it is first needed, and its verdicts about jobs.

    Stepped jobs are for the process only, since the kernel module takes a step for a fault.
    """

    def __init__(self, cpu: Cpu) -> None:
        self._runner = NativeRunner(cpu, native.calibration(SHORTEST))
        self._verdicts: dict[Job, JobResult | None] = {}

    def check(self, jobs: Sequence[Job], time_limit_seconds: float) -> list[JobResult | None]:
        """Return the result of each job that must not run in the kernel, None for others.

        Raises:
            BackendError: the process cannot be started, or is gone.
        """
        if len(self._verdicts) > MOST_KEPT:
            self._verdicts.clear()
        unknown = [job for job in dict.fromkeys(jobs) if self._is_unknown(job)]
        found = self._runner.run(unknown, Repeat(0, 1, time_limit_seconds), CLOCK_COUNTERS) if unknown else []
        for job, result in zip(unknown, found, strict=True):
            is_done = result.status is not Status.OK or job.conditions.stepped
            self._verdicts[job] = result if is_done else None
        return [self._verdicts.get(job) for job in jobs]

    def _is_unknown(self, job: Job) -> bool:
        """Whether a job has to be run; one that is refused without that gets its verdict here."""
        if job.conditions.state is State.ZERO or job in self._verdicts:
            return False
        reason = CALLS if job.conditions.may_call else GS if _uses_gs(job.benchmark.body_code) else ""
        if reason:
            self._verdicts[job] = JobResult(Status.REFUSED, {}, reason)
        return not reason

    def close(self) -> None:
        """End the process."""
        self._runner.close()


def _uses_gs(code: bytes) -> bool:
    return any(one.segment_prefix == Register.GS for one in Decoder(64, code))
