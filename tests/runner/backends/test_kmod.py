"""The kernel module's backend on a device that a test makes up; with the real one it runs in tests/vm."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from generator.harness.style import State
from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import BackendError, Conditions, ExecutionEnvironment, Job, Repeat
from runner.backends import kmod
from runner.campaigns.start import check_number
from runner.host import cpu as cpus
from runner.host.kmod import abi, device, settings
from runner.host.kmod.device import BlobJob, BlobResult, Device, lkrg_is_loaded
from runner.host.kmod.passes import plan
from runner.own_code.counters import MsrCounter, read_config
from runner.uarch import tables

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
        self.jobs: list[BlobJob] = []
        features = abi.Feature.APERFMPERF | abi.Feature.SPEC_CTRL
        self.information = abi.uops_info(features=features, tsc_khz=2_500_000, guard_cpu=guard_cpu)

    def run(self, jobs: Sequence[BlobJob]) -> list[BlobResult]:
        self.calls.append(len(jobs))
        self.jobs = list(jobs)
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


def test_registers_that_counters_need_are_written_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows that want different values in one register are read apart; energy needs none."""
    text = """
    msr_E01=0x20000000.msr_700=0x408F34 msr_706 LOOKUPS
    msr_700=0x408F35 msr_706 OTHERS
    msr_611 ENERGY
    """
    _, rows = read_config(text, "mine.txt")
    backend, fake = backend_with(monkeypatch, [[GOOD] * 3])
    backend.define((), rows)
    names = ("core_cycles", "LOOKUPS", "OTHERS", "ENERGY")
    assert set(names) <= set(backend.info().counters)
    (result,) = backend.run([Job(NOP, 1)], names, FEW)
    assert result.status is Status.OK
    assert set(result.samples) == set(names)
    assert [job.writes for job in fake.jobs] == [(), ((0xE01, 0x20000000), (0x700, 0x408F34)), ((0x700, 0x408F35),)]
    assert [[slot.index for slot in job.slots] for job in fake.jobs[1:]] == [[0x706, 0x611], [0x706]]
    assert bytes.fromhex("b9060700000f32") in fake.jobs[1].blob  # MOV ECX, 0x706; RDMSR


@pytest.mark.parametrize(
    ("error", "text"),
    [(errno.EPERM, "the module writes none of, or not all of, the registers 0x770"), (errno.ENODEV, "this CPU lacks")],
)
def test_a_register_that_cannot_be_written_is_a_result_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, error: int, text: str
) -> None:
    refused = dataclasses.replace(GOOD, status=abi.JobStatus.REFUSED, error=-error)
    backend, _ = backend_with(monkeypatch, [[GOOD, refused]])
    backend.define((), [MsrCounter("MINE", ((0x770, 1),), 0x706)])
    (result,) = backend.run([Job(NOP, 1)], ("MINE",), FEW)
    assert result.status is Status.REFUSED
    assert text in result.detail


CORES = {"ADL-P": (0x40, 1, 0xFF, 0xF), "ADL-E": (0x20, 1, 0x3F, 0x7)}
"""Core type and native model of CPUID leaf 1AH, then programmable and fixed counters, of Alder Lake's cores."""


@pytest.mark.parametrize("name", CORES)
def test_the_cores_of_a_hybrid_cpu_have_counters_and_events_of_their_own(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`--cpu` chooses the kind: what CPUID and the module say of that CPU counts, and its kind's table."""
    core_type, native_model, programmable, fixed = CORES[name]
    identity = tables.CpuIdentity("GenuineIntel", 6, 0x97, 2, core_type, native_model)
    monkeypatch.setattr(cpus, "read_cpu", lambda number: cpus.Cpu(number, identity, "hybrid", "0x1", frozenset()))
    fake = FakeDevice([[GOOD] * 9])
    fake.information = abi.uops_info(prog_mask=programmable, fixed_mask=fixed, config_mask=2**64 - 1)
    monkeypatch.setattr(kmod, "Device", lambda *_: fake)
    backend = kmod.KmodBackend()
    info = backend.info()
    assert info.provenance.architecture == name
    uarch = tables.by_name(name)
    assert set(info.counters) <= set(uarch.counters)
    assert "core_cycles" in info.counters
    fake.answers = [[GOOD] * len(plan(uarch, backend._hardware, info.counters))]
    (result,) = backend.run([Job(NOP, 1)], info.counters, FEW)
    assert result.status is Status.OK
    events = {event.counter: event for event in uarch.events}
    used = [slot for job in fake.jobs for slot in job.slots]
    assert {slot.index for slot in used if slot.kind == abi.COUNTER_PROG} <= set(range(programmable.bit_length()))
    assert all(slot.config == events[slot.counter].selector for slot in used if slot.kind == abi.COUNTER_PROG)


BLOCKS = {
    "488b00": "",  # MOV RAX, [RAX]
    "65488b00": "GS",
    "48c7c000f0ffff488b00": "is not a user's",
    "fa": "privileged",
    "0f05": "system call",
}


def test_blocks_go_to_the_kernel_only_if_a_process_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is tried once, the first time; a stepped one is for the process only."""
    asked = Conditions(state=State.AGAIN, value=0x2324000)
    blocks = [Microbenchmark((), (Line(bytes.fromhex(code), code),), "a block") for code in BLOCKS]
    jobs = [Job(block, 4, 2, conditions=asked) for block in blocks]
    stepped = Microbenchmark((), (Line(bytes.fromhex("488b433e"), "MOV RAX, [RBX+62]"),), "a block")
    jobs.append(Job(stepped, 4, 1, conditions=dataclasses.replace(asked, stepped=True)))
    jobs.append(Job(blocks[0], 4, 2, conditions=dataclasses.replace(asked, may_call=True)))
    backend, fake = backend_with(monkeypatch, [[GOOD], [GOOD]])
    try:
        for _ in range(2):
            results = backend.run(jobs, ("core_cycles",), FEW)
            for result, reason in zip(results, (*BLOCKS.values(), "misaligned", "cannot let code call"), strict=True):
                assert reason in result.detail
                assert bool(result.samples) is not bool(reason)
    finally:
        backend.close()
    assert fake.calls == [1, 1]
    assert [(job.flags, job.value) for job in fake.jobs] == [(abi.JobFlag.ON_DEMAND, 0x2324000)]


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


def test_areas_and_siblings_are_as_asked_for_until_something_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _ = backend_with(monkeypatch, [])
    device = backend._opened()
    asked = ExecutionEnvironment(r14_bytes=4 << 20, contiguous=True, idle_siblings=True)
    backend.provide(asked)
    assert backend._opened() is device
    assert (device.flags, device.r14_bytes) == (abi.BatchFlag.CONTIGUOUS | abi.BatchFlag.PARK, 4 << 20)
    options = backend.info().provenance.options
    assert (options["memory"], options["R14's area"]) == ("contiguous", f"{4 << 20} bytes")
    assert options["siblings kept idle"] == "by idle injection"
    assert backend.info().area_bytes == 4 << 20
    backend.provide(ExecutionEnvironment())
    assert (backend._opened().flags, device.r14_bytes) == (abi.BatchFlag(0), 0)
    assert backend.info().area_bytes == abi.AREA_BYTES
    for wrong in (abi.R14_STEP // 2, abi.MAX_R14_BYTES + abi.R14_STEP):
        with pytest.raises(BackendError, match="not a multiple of 64 KiB, or more than 1 GiB"):
            backend.provide(ExecutionEnvironment(r14_bytes=wrong))


def test_with_the_vector_table_masked_campaigns_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.MASK_LVT, "1")
    info = backend_with(monkeypatch, [])[0].info()
    assert kmod.MASKED in info.caveats
    check_number(info, kmod.MASKED_AT_MOST)
    with pytest.raises(BackendError, match="too many"):
        check_number(info, kmod.MASKED_AT_MOST + 1)
    monkeypatch.delenv(settings.MASK_LVT)
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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file"), "there is no modprobe\n  Debian's package kmod has it"),
        (PermissionError(errno.EACCES, "Permission denied"), "modprobe: Permission denied"),
        (subprocess.TimeoutExpired(["modprobe"], 30), "modprobe: not done after 30 s"),
    ],
)
def test_a_modprobe_that_does_not_run_is_said_in_words(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(BackendError) as caught:
        device._load_module()
    assert said in str(caught.value)
    assert "Errno" not in str(caught.value)
