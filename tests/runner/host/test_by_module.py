"""Samples of the kernel module's interrupts, from a device that a test makes up; the real one runs in tests/vm."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from generator.harness.harness import RDTSC, layout
from generator.harness.style import Style
from generator.microbenchmark import Line, Microbenchmark
from runner.backend import BackendError
from runner.host.interrupts import by_module, sampler
from runner.host.interrupts.sample import Sampled, Sampling, Source, Visit, sample
from runner.host.kmod import abi, settings
from runner.host.kmod.device import BlobJob, BlobResult

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOP = Microbenchmark((), (Line(bytes.fromhex("480fafc0"), "IMUL RAX, RAX"), Line(b"\x90", "NOP")), "a loop")
STARTS = [0, 4, 5, 8, 14]
BODY = layout(LOOP, 1, 1, RDTSC, Style()).body_offset
TICKS = 4
"""Of an iteration, and of a core cycle of the calibration: so an iteration takes one core cycle."""
GOOD = BlobResult(abi.JobStatus.OK, 0, 0, 0, 0, 0, abi.Changed(0), 1000, 0, 0, 0, (0, 0), (0, 0), ())


class InterruptingDevice:
    """A device whose loop is as slow as `slowness` says, run by run, and whose interrupts land where a test says."""

    def __init__(self, landed: Sequence[tuple[int, int]], slowness: Sequence[float] = (1.0,)) -> None:
        self.landed = landed
        self.slowness = list(slowness)
        self.information = abi.uops_info(tsc_khz=2_000_000)
        self.jobs: list[BlobJob] = []
        self.iterations = 0
        self.flags = abi.BatchFlag(0)

    def opened(self, cpu: int, flags: abi.BatchFlag) -> InterruptingDevice:
        """Take the flags that it is opened with, on the first CPU."""
        assert cpu == 0
        self.flags = flags
        return self

    def run(self, jobs: Sequence[BlobJob]) -> list[BlobResult]:
        self.jobs += jobs
        self.iterations = self.iterations or sampler.FIRST_ITERATIONS
        slow = self.slowness.pop(0) if len(self.slowness) > 1 and len(jobs) > 1 else self.slowness[0]
        results = [self._result(number, job, slow) for number, job in enumerate(jobs)]
        if len(jobs) == 1:  # the next trials are to take 0.1 ms, at 2 GHz
            self.iterations = round(2e5 * self.iterations / results[0].samples[0][0])
        return results

    def _result(self, number: int, job: BlobJob, slow: float) -> BlobResult:
        if job.flags & abi.JobFlag.INTERRUPT:
            samples = [self.landed[at % len(self.landed)] for at in range(job.repetitions)]
            return dataclasses.replace(GOOD, samples=tuple(zip(*samples, strict=True)))
        ticks = 1000 + round((number + 1) * slow * TICKS * self.iterations)
        calibration = TICKS * 90 * by_module.CALIBRATION_ITERATIONS
        return dataclasses.replace(GOOD, samples=((ticks,) * 3, (calibration,) * 3, (0,) * 3))

    def close(self) -> None:
        pass


def sampled(monkeypatch: pytest.MonkeyPatch, device: InterruptingDevice, samples: int = 300) -> Sampled:
    monkeypatch.setattr(by_module, "Device", device.opened)
    return sample(LOOP, STARTS, 0, Sampling(samples, 20_000), Visit(source=Source.KMOD))


def test_samples_are_counted_where_they_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    left = by_module.ENDLESS - 5
    landed = [(BODY, left), (BODY + 4, left), (BODY + 4, left), (BODY + 8, left)]
    landed += [(BODY + 4, by_module.ENDLESS), (abi.NO_OFFSET, 7 << 32)]
    found = sampled(monkeypatch, InterruptingDevice(landed))
    assert found.source is Source.KMOD
    assert (found.counts, found.elsewhere, found.stale) == ((50, 100, 0, 50), 50, 50)


def test_jobs_ask_for_an_interrupt_within_the_period(monkeypatch: pytest.MonkeyPatch) -> None:
    device = InterruptingDevice([(BODY, 1)])
    found = sampled(monkeypatch, device)
    assert found.cycles == pytest.approx(1, rel=0.01)
    (interrupted,) = [job for job in device.jobs if job.flags]
    assert (interrupted.flags, interrupted.delay_ns) == (abi.JobFlag.INTERRUPT, 10_000)
    assert interrupted.samples_each == abi.INTERRUPT_SAMPLES
    assert by_module.ENDLESS.to_bytes(4, "little") in interrupted.blob


def test_the_settings_of_the_environment_are_those_of_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one CPU nothing could end a loop, so the module wants to be told that this is known."""
    monkeypatch.setenv(settings.UNGUARDED, "1")
    device = InterruptingDevice([(BODY, 1)])
    sampled(monkeypatch, device)
    assert device.flags == abi.BatchFlag.UNGUARDED


def test_runs_of_a_loop_that_was_slower_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    device = InterruptingDevice([(BODY, 1)], slowness=(1.0, 1.3, 1.0))
    found = sampled(monkeypatch, device, 2 * by_module.RUNS)
    assert (found.total, found.disturbed) == (2 * by_module.RUNS, by_module.RUNS)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (abi.JobStatus.FAULT, "faulted in ring 0: #UD"),
        (abi.JobStatus.TIME_OUT, "no interrupt ended the code"),
        (abi.JobStatus.REFUSED, "refuses to interrupt"),
        (abi.JobStatus.STATE, "in another state"),
    ],
)
def test_code_that_goes_wrong_is_said(monkeypatch: pytest.MonkeyPatch, status: abi.JobStatus, said: str) -> None:
    device = InterruptingDevice([(BODY, 1)])
    bad = dataclasses.replace(GOOD, status=status, vector=6)
    monkeypatch.setattr(device, "run", lambda jobs: [bad] * len(jobs))
    with pytest.raises(BackendError, match=said):
        sampled(monkeypatch, device)
