"""The kernel module's backend on a device that a test makes up; with the real one it runs in tests/vm."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import BackendError, Job, Repeat
from runner.backends import kmod
from runner.campaigns.start import check_number
from runner.host import cpu as cpus
from runner.host.kmod import abi, device
from runner.host.kmod.device import BlobJob, BlobResult, Device, lkrg_is_loaded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOP = Microbenchmark((), (Line(b"\x90", "NOP"),), "nothing")
FEW = Repeat(warm_ups=1, repetitions=2)
GOOD = BlobResult(abi.JobStatus.OK, 0, 0, 0, 0, 0, abi.Changed(0), 0, 0, 0, 0, (0, 0), (0, 0), ())


class FakeDevice:
    """A device without a PMU and with APERF, whose jobs come out as a test says, call by call."""

    def __init__(self, answers: list[list[BlobResult]], guard_cpu: int = 0) -> None:
        self.answers = answers
        self.calls: list[int] = []
        features = abi.Feature.APERFMPERF | abi.Feature.SPEC_CTRL
        self.information = abi.uops_info(features=features, tsc_khz=2_500_000, guard_cpu=guard_cpu)

    def run(self, jobs: Sequence[BlobJob]) -> list[BlobResult]:
        self.calls.append(len(jobs))
        answers = self.answers.pop(0)
        return [
            dataclasses.replace(answer, samples=tuple((7,) * job.repetitions for _ in job.slots))
            for answer, job in zip(answers, jobs, strict=True)
        ]

    def close(self) -> None:
        pass


def backend_with(
    monkeypatch: pytest.MonkeyPatch, answers: list[list[BlobResult]], guard_cpu: int = 0
) -> tuple[kmod.KmodBackend, FakeDevice]:
    fake = FakeDevice(answers, guard_cpu)
    monkeypatch.setattr(kmod, "Device", lambda *_: fake)
    return kmod.KmodBackend(), fake


def run(backend: kmod.KmodBackend, jobs: int) -> list[tuple[Status, str]]:
    results = backend.run([Job(NOP, 10)] * jobs, ("core_cycles",), FEW)
    return [(result.status, result.detail) for result in results]


def test_a_job_with_a_system_management_interrupt_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hit = dataclasses.replace(GOOD, smis=2)
    backend, fake = backend_with(monkeypatch, [[GOOD, hit, hit], [GOOD, hit], [GOOD]])
    assert run(backend, 3) == [(Status.OK, "")] * 3
    assert fake.calls == [3, 2, 1]


def test_a_job_that_is_hit_every_time_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    hit = dataclasses.replace(GOOD, smis=2)
    backend, _ = backend_with(monkeypatch, [[GOOD, hit], [hit], [hit]])
    good, bad = backend.run([Job(NOP, 10)] * 2, ("core_cycles",), FEW)
    assert good.samples["core_cycles"] == (7, 7)
    assert bad.status is Status.UNCLEAN
    assert not bad.samples
    assert bad.detail.startswith("2 system management interrupts during the job, 3 times")


def test_a_change_of_frequency_within_a_job_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = dataclasses.replace(GOOD, aperf=(300_000, 150_200), mperf=(200_000, 100_000))
    slower = dataclasses.replace(GOOD, aperf=(300_000, 240_000), mperf=(200_000, 200_000))
    short = dataclasses.replace(GOOD, aperf=(3_000, 900), mperf=(2_000, 1_000))
    backend, _ = backend_with(monkeypatch, [[steady, slower, short, GOOD]])
    said = run(backend, 4)
    assert [status for status, _ in said] == [Status.OK] * 4
    assert [detail[:44] for _, detail in said] == ["", "the core's frequency changed by 25% during t", "", ""]


def test_provenance_says_what_the_module_does_about_the_kernels_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _ = backend_with(monkeypatch, [], guard_cpu=abi.NO_CPU)
    options = backend.info().provenance.options
    assert options["cleared during runs"] == "SPEC_CTRL"
    assert options["TSC"] == "2500000 kHz"
    assert options["guard"] == "none"
    assert options["interrupts"] == "off"


def test_a_guard_on_the_sibling_is_a_caveat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "siblings", lambda _: {5})
    backend, _ = backend_with(monkeypatch, [], guard_cpu=5)
    assert kmod.GUARD_ON_SIBLING in backend.info().caveats
    backend, _ = backend_with(monkeypatch, [], guard_cpu=4)
    assert kmod.GUARD_ON_SIBLING not in backend.info().caveats


def test_with_the_vector_table_masked_campaigns_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kmod.MASK_LVT, "1")
    info = backend_with(monkeypatch, [])[0].info()
    assert kmod.MASKED in info.caveats
    check_number(info, kmod.MASKED_AT_MOST)
    with pytest.raises(BackendError, match="too many"):
        check_number(info, kmod.MASKED_AT_MOST + 1)
    monkeypatch.delenv(kmod.MASK_LVT)
    check_number(backend_with(monkeypatch, [])[0].info(), 100_000)


def test_a_signal_ends_a_batch_and_the_next_call_goes_on_behind_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module writes results as jobs are done; two calls are interrupted, the second before anything is done."""
    calls: list[int] = []
    stops = iter((2, 2, 5))

    def ioctl(_file: int, number: int, argument: abi.uops_batch | abi.uops_info) -> int:
        if isinstance(argument, abi.uops_info):
            argument.abi_version = abi.ABI_VERSION
            return 0
        assert number == abi.IOC_BATCH
        calls.append(argument.jobs_done)
        rows = (abi.uops_result * argument.num_jobs).from_address(argument.results)
        stop = next(stops)
        for index in range(argument.jobs_done, stop):
            rows[index].status = abi.JobStatus.OK
            rows[index].offset = index
        if stop < argument.num_jobs:
            raise InterruptedError(errno.EINTR, "a signal")
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    monkeypatch.setattr(device, "_open", lambda _: -1)
    results = Device(min(os.sched_getaffinity(0))).run([BlobJob(bytes(16), (), 0, 1, 1_000_000)] * 5)
    assert calls == [0, 2, 2]
    assert [result.offset for result in results] == [0, 1, 2, 3, 4]
    assert {result.status for result in results} == {abi.JobStatus.OK}


@pytest.mark.parametrize("name", device.LKRG)
def test_lkrg_is_found_under_each_of_its_names(name: str, tmp_path: Path) -> None:
    assert not lkrg_is_loaded(tmp_path)
    (tmp_path / name).mkdir(parents=True)
    assert lkrg_is_loaded(tmp_path)


def test_the_device_is_not_opened_while_lkrg_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "lkrg_is_loaded", lambda: True)
    with pytest.raises(BackendError, match="LKRG") as error:
        Device(0)
    assert "rmmod lkrg" in error.value.hint


def test_the_first_advice_where_counters_are_taken_is_the_nmi_watchdog() -> None:
    error = device._batch_error(OSError(errno.EBUSY, ""), 0)
    assert "NMI watchdog" in error.message
    assert error.hint.startswith("echo 0 | sudo tee /proc/sys/kernel/nmi_watchdog")
