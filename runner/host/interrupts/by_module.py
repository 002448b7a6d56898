"""Interrupts of the local APIC's timer, which the kernel module takes inside a run in ring 0.

A run of the loop ends with its interrupt, which comes at a random time. So each sample is a run of its own, and has RIP
and R15. As in `sampler`, loop and calibration run without interrupts before the samples, and what came after a slower
loop does not count.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from generator.harness.harness import RDTSC, render
from generator.harness.native import clocked
from runner.backend import BackendError
from runner.host.interrupts.sampler import FIRST_ITERATIONS, TRIAL_SECONDS, TRIALS, UNDISTURBED
from runner.host.kmod import abi
from runner.host.kmod.device import BlobJob, BlobResult, Device
from runner.host.kmod.passes import CLOCK
from runner.host.kmod.settings import flags_of

if TYPE_CHECKING:
    from generator.harness.style import Style
    from generator.microbenchmark import Microbenchmark

ENDLESS = (1 << 31) - 1
"""Iterations of a loop that an interrupt ends: seconds, far longer than any delay."""
CALIBRATION_ITERATIONS = 100
"""Of the calibration beside the loop, as in the module's own backend."""
RUNS = 500
"""Interrupts between two looks at whether the loop is disturbed: some 20 ms."""
WARM_UPS = 2
"""Runs of the clock that do not count."""
TIME_LIMIT_NS = 1_000_000_000
"""For a run: the longest delay is a hundredth of it."""


@dataclass(frozen=True, slots=True)
class InterruptedRuns:
    """Some runs of the loop: what it took before in iterations of the calibration, and (offset, R15) of each."""

    relative: float
    seconds: float
    samples: tuple[tuple[int, int], ...]


class ModuleSampler:
    """Runs the loop until there are enough samples of runs that nobody disturbed."""

    def __init__(self, benchmark: Microbenchmark, style: Style, period_ns: int, cpu: int) -> None:
        """Open the module's device.

        Raises:
            BackendError: no module, or no permission.
        """
        self._benchmark, self._style = benchmark, style
        self._delay_ns = period_ns // 2
        self._device = Device(cpu, flags_of(os.environ))
        self._blob = render(benchmark, 1, ENDLESS, RDTSC, style)
        self.runs: list[InterruptedRuns] = []

    def close(self) -> None:
        """Close the device."""
        self._device.close()

    def sample(self, wanted: int, seconds: float) -> None:
        """Sample until there are `wanted` samples, or the time is over.

        Raises:
            BackendError: the code faulted, or the module refuses it.
        """
        deadline = time.monotonic() + seconds
        iterations = self._iterations_of_a_trial()
        while sum(len(one.samples) for one in self.undisturbed()) < wanted and time.monotonic() < deadline:
            self.runs.append(self._run(iterations, min(wanted, RUNS)))

    def undisturbed(self) -> list[InterruptedRuns]:
        """Return the runs before which the loop was as fast as it can be."""
        best = min((one.relative for one in self.runs), default=0.0)
        return [one for one in self.runs if one.relative <= UNDISTURBED * best]

    def report(self) -> dict[str, Any]:
        """Return the document that `sampler` prints for the other sources."""
        kept = self.undisturbed()
        samples = [sample for run in kept for sample in run.samples]
        moved = [offset for offset, left in samples if left < ENDLESS or offset == abi.NO_OFFSET]
        return {
            "counts": dict(Counter(-1 if offset == abi.NO_OFFSET else offset for offset in moved)),
            "stale": len(samples) - len(moved),
            "lost": 0,
            "disturbed": sum(len(run.samples) for run in self.runs) - len(samples),
            "seconds": sum(run.seconds for run in kept),
            "iterations": min((run.relative for run in kept), default=0.0),
        }

    def _iterations_of_a_trial(self) -> int:
        """Return how many iterations take as long as the sampler's trials."""
        (result,) = self._device.run([self._clock_job(FIRST_ITERATIONS)])
        _check(result)
        ticks = max(1, min(result.samples[0]))
        ticks_per_second = int(self._device.information.tsc_khz) * 1000
        return max(1, round(TRIAL_SECONDS * ticks_per_second * FIRST_ITERATIONS / ticks))

    def _run(self, iterations: int, samples: int) -> InterruptedRuns:
        clocks = [self._clock_job(iterations), self._clock_job(2 * iterations)]
        few, many, runs = self._device.run([*clocks, self._job(samples)])
        for result in (few, many, runs):
            _check(result)
        # The difference cancels what both take besides the loop
        ticks = (min(many.samples[0]) - min(few.samples[0])) / iterations
        calibration = min(*few.samples[1], *many.samples[1]) / CALIBRATION_ITERATIONS
        return InterruptedRuns(ticks / calibration, runs.elapsed_ns / 1e9, tuple(zip(*runs.samples, strict=True)))

    def _clock_job(self, iterations: int) -> BlobJob:
        blob = clocked(self._benchmark, 1, iterations, CALIBRATION_ITERATIONS, self._style).blob
        return BlobJob(blob, CLOCK, WARM_UPS, TRIALS, TIME_LIMIT_NS)

    def _job(self, samples: int) -> BlobJob:
        flags = abi.JobFlag.INTERRUPT
        return BlobJob(self._blob, (), 0, samples, TIME_LIMIT_NS, flags=flags, delay_ns=self._delay_ns)


def _check(result: BlobResult) -> None:
    """Refuse what is not a good run.

    Raises:
        BackendError: says what became of it.
    """
    if result.status is abi.JobStatus.OK:
        return
    if result.status is abi.JobStatus.FAULT:
        name = abi.EXCEPTIONS.get(result.vector, f"interrupt {result.vector}")
        raise BackendError(f"the code faulted in ring 0: {name}")
    if result.status is abi.JobStatus.TIME_OUT:
        raise BackendError("no interrupt ended the code in time: it switches interrupts off, or does not end")
    if result.status is abi.JobStatus.REFUSED:
        raise BackendError(
            "the module refuses to interrupt code", hint="it needs the local APIC's timer; leave out UOPSCOPE_MASK_LVT"
        )
    raise BackendError(f"the code left the CPU in another state: {result.changed!s}")
