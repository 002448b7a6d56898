"""The perf backend on whatever events this kernel has; software events stand in for a PMU where there is none."""

import errno
import os
import statistics
from collections.abc import Iterator, Sequence

import pytest

from generator.harness.native import calibration
from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import BackendError, Job, JobResult, Repeat
from runner.backends import perf
from runner.host.cpu import choose, read_cpu
from runner.host.kmod.passes import Hardware
from runner.host.native import server
from runner.host.native.child import PerfEvent
from runner.host.native.runner import NativeRunner
from runner.own_code.counters import read_config
from runner.uarch import tables

CPU_CLOCK, PAGE_FAULTS = PerfEvent(1, 0), PerfEvent(1, 2)
"""Software events: nanoseconds, and page faults."""

IMUL, ADD, UD2 = "480fafc0", "4801c0", "0f0b"
MANY = Repeat(warm_ups=2, repetitions=60)


@pytest.fixture(scope="module")
def runner() -> Iterator[NativeRunner]:
    if perf._open_error(CPU_CLOCK):
        pytest.skip("this kernel has no software events")
    found = NativeRunner(read_cpu(choose()), calibration(1))
    yield found
    found.close()


def job(code: str, copies: int, setup: str = "") -> Job:
    lines = (Line(bytes.fromhex(setup), "setup"),) if setup else ()
    return Job(Microbenchmark(lines, (Line(bytes.fromhex(code), code),), "a test"), copies, 400, fenced=True)


def nanoseconds(few: JobResult, many: JobResult) -> float:
    return statistics.median(many.samples["ns"]) - statistics.median(few.samples["ns"])


def test_events_are_counted_around_the_code(runner: NativeRunner) -> None:
    jobs = [job(code, copies) for code in (IMUL, ADD) for copies in (10, 110)]
    results = runner.run(jobs, MANY, ("ns", "faults"), (CPU_CLOCK, PAGE_FAULTS))
    assert [result.status for result in results] == [Status.OK] * 4
    assert {len(values) for result in results for values in result.samples.values()} == {60}
    assert nanoseconds(*results[:2]) / nanoseconds(*results[2:]) == pytest.approx(3, rel=0.3)
    assert statistics.median(results[1].samples["faults"]) == 0


def test_faults_and_clocks_go_on_beside_events(runner: NativeRunner) -> None:
    results = runner.run([job(UD2, 1), job(ADD, 10)], MANY, ("ns",), (CPU_CLOCK,))
    assert [result.status for result in results] == [Status.FAULTED, Status.OK]
    assert "SIGILL in the body" in results[0].detail
    (clocked,) = runner.run([job(ADD, 10)], MANY, ("tsc", "calibration", "contention_probe"))
    assert min(clocked.samples["tsc"]) > 0


def test_an_event_that_the_kernel_refuses_is_not_counted_as_zero(runner: NativeRunner) -> None:
    (result,) = runner.run([job(ADD, 10)], MANY, ("nothing",), (PerfEvent(0xFFFF, 0),))
    assert result.status is Status.FAULTED
    assert result.detail == "the kernel refuses the events"


class EventRecorder:
    """In the place of the runner: what was asked for, and counts that are functions of the event."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []

    def run(
        self, batch: Sequence[Job], repeat: Repeat, counters: Sequence[str], events: Sequence[PerfEvent]
    ) -> list[JobResult]:
        assert len(counters) == len(events) == len(set(events))
        self.groups.append(list(counters))
        return [JobResult(Status.OK, {name: (len(name),) * repeat.repetitions for name in counters}) for _ in batch]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("name", ["HSW", "SKL", "ICL", "ZEN5"])
def test_all_counters_come_together_from_groups_that_fit(name: str) -> None:
    backend = object.__new__(perf.PerfBackend)
    backend._uarch = tables.by_name(name)
    backend._kind = 4
    backend._hardware = Hardware.of_counts(4, 3 if name != "ZEN5" else 0, (1 << 64) - 1)
    recorder = EventRecorder()
    backend._runner = recorder  # type: ignore[assignment] # it does what is needed of one
    wanted = backend._uarch.counters
    (result,) = backend.run([job(ADD, 10)], wanted, Repeat(repetitions=3))
    assert set(result.samples) == set(wanted)
    assert all(len(group) <= 4 + 3 for group in recorder.groups)
    assert {len(values) for values in result.samples.values()} == {3}


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EBUSY, errno.ENOSYS, errno.EINVAL])
def test_every_refusal_says_what_to_do(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int, **__: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(server, "open_event", refuse)
    with pytest.raises(BackendError) as caught:
        perf._check(CPU_CLOCK, "core cycles")
    assert caught.value.hint


def test_a_machine_without_a_pmu_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(perf, "DEVICES", tmp_path)
    with pytest.raises(BackendError, match="no PMU named cpu_atom"):
        perf._pmu_type(0x20)


def test_events_that_a_user_writes_down_reach_the_kernel_with_what_their_msr_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = []

    def accept(kind: int, config: int, leader: int = -1, config1: int = 0) -> int:
        opened.append((kind, config, leader, config1))
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(server, "open_event", accept)
    backend = perf.PerfBackend.__new__(perf.PerfBackend)
    backend._uarch, backend._kind, backend._hardware = tables.by_name("SKL"), 4, Hardware.of_counts(4, 3, (1 << 64) - 1)
    events, msrs = read_config("B7.01.MSR_RSP0=0x3F803C0001 OFFCORE\nA1.01.CMSK=2.INV PORT", "mine.txt")
    backend.define(events, msrs)
    assert opened == [(4, 0x1B7, -1, 0x3F803C0001), (4, 0x028001A1, -1, 0)]
    assert backend._event("OFFCORE", 0x1B7) == PerfEvent(4, 0x1B7, 0x3F803C0001)
    with pytest.raises(BackendError, match="perf reads no MSRs"):
        backend.define(*read_config("msr_611 ENERGY", "mine.txt"))
