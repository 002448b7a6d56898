"""Requests to results: on a backend whose counts are known, in the simulator, and on this machine's clock."""

from fractions import Fraction

import pytest

from results.model import Status
from runner.backend import Job, JobResult
from runner.backends.registry import open_backend
from runner.backends.tsc import TscBackend
from runner.own_code.code import MeasureError
from runner.own_code.counters import choose
from runner.own_code.measure import Aggregate, Code, Request, Runs, Settings, measure
from runner.own_code.text import assemble
from tests.runner.fake_backend import FakeBackend

IMUL = bytes.fromhex("480fafc3")
BOTH = ("core_cycles", "instructions")


def counts(job: Job, _: int) -> dict[str, int]:
    runs = job.copies * max(1, job.iterations)
    return {"core_cycles": 20 + 3 * runs, "instructions": 9 + runs}


def jumping(job: Job, repetition: int) -> dict[str, int]:
    """Every fourth repetition of the larger size takes a thousand cycles more."""
    return {"core_cycles": 20 + 3 * job.copies + 1000 * (job.copies == 200 and repetition % 4 == 0)}


def test_both_modes_and_every_counter_are_measured_by_themselves() -> None:
    result = measure(Request(Code(IMUL)), FakeBackend(counts, BOTH))
    assert list(result.modes) == ["unrolled", "loop"]
    assert result.counters == BOTH
    for mode in result.modes.values():
        assert {name: value.value for name, value in mode.values.items()} == {"core_cycles": 3, "instructions": 1}
    assert result.ok
    assert result.cycles == 3
    assert result.problems == []


def test_code_that_faults_is_a_result_with_a_reason() -> None:
    backend = FakeBackend(counts)
    backend.failing[IMUL] = JobResult(Status.FAULTED, {}, "SIGILL in the body at offset 0")
    for runs in (None, Runs()):
        result = measure(Request(Code(IMUL), Settings(runs)), backend)
        assert not result.ok
        assert result.cycles is None
        assert result.problems[0].endswith("faulted: SIGILL in the body at offset 0")


@pytest.mark.parametrize(
    ("runs", "jobs", "cycles"),
    [
        (Runs(), [(100, 0), (200, 0)], 3),
        (Runs(unroll=7, loop=50), [(7, 50), (14, 50)], 3),
        (Runs(basic=True), [(0, 0), (100, 0)], 3),
        (Runs(normalize=False), [(100, 0), (200, 0)], 300),
        (Runs(loop=10, normalize=False), [(100, 10), (200, 10)], 3000),
    ],
)
def test_just_what_is_said_is_run(runs: Runs, jobs: list[tuple[int, int]], cycles: int) -> None:
    backend = FakeBackend(counts, BOTH)
    result = measure(Request(Code(IMUL), Settings(runs)), backend)
    assert [(job.copies, job.iterations) for job in backend.batches[-1]] == jobs
    assert result.cycles == cycles
    assert len(result.modes["runs"].values["instructions"].samples) == runs.measurements


def test_initial_warm_ups_run_once_before_all() -> None:
    backend = FakeBackend(counts)
    measure(Request(Code(IMUL), Settings(Runs(initial_warm_ups=30))), backend)
    assert [len(batch) for batch in backend.batches] == [1, 2]


@pytest.mark.parametrize(
    ("aggregate", "cycles"),
    [
        (Aggregate.MIN, Fraction(3)),
        (Aggregate.MEDIAN, Fraction(3)),
        (Aggregate.TRIMMED, Fraction(3) + Fraction(1000, 1200)),
        (Aggregate.MEAN, Fraction(3) + Fraction(250, 100)),
        (Aggregate.MAX, Fraction(13)),
    ],
)
def test_aggregates(aggregate: Aggregate, cycles: Fraction) -> None:
    runs = Runs(measurements=20, aggregate=aggregate)
    assert measure(Request(Code(IMUL), Settings(runs)), FakeBackend(jumping)).cycles == cycles


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(Code(b"")), "no code"),
        (Request(Code(assemble("inc r15"))), "R15"),
        (Request(Code(assemble("inc r15")), Settings(Runs(loop=3))), "R15"),
        (Request(Code(IMUL), Settings(Runs(unroll=0))), "--unroll 0"),
        (Request(Code(IMUL), Settings(Runs(measurements=100_000))), "--repeat"),
        (Request(Code(IMUL), Settings(offset_bytes=64)), "--offset 64"),
        (Request(Code(assemble("pause_counting; nop; resume_counting"))), "marks"),
        (Request(Code(IMUL), Settings(counters=choose("p9"))), "no counter 'p9'"),
        (Request(Code(IMUL), Settings(counters=choose("C0.00 NAME"))), "no counters to choose events for"),
        (Request(Code(IMUL, init=IMUL), Settings(on_demand=0)), "--on-demand"),
    ],
)
def test_what_makes_no_sense_is_refused(request_: Request, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        measure(request_, FakeBackend(counts))


def test_r15_may_be_written_where_nothing_is_looped() -> None:
    assert measure(Request(Code(assemble("inc r15")), Settings(Runs())), FakeBackend(counts)).ok


def test_only_the_counters_that_are_wanted_come_out() -> None:
    for runs in (None, Runs()):
        request = Request(Code(IMUL), Settings(runs, choose("instructions")))
        assert "instructions" in measure(request, FakeBackend(counts, BOTH)).counters
    assert measure(request, FakeBackend(counts, BOTH)).counters == ("instructions",)


def test_parts_and_marks_in_the_simulator() -> None:
    backend = open_backend("sim", architecture="SKL")
    once = assemble("mov qword ptr [r14], 3")
    body = assemble("pause_counting; imul rax, rax; imul rax, rax; resume_counting; imul rbx, rbx")
    code = Code(body, init=assemble("mov rcx, 5"), late_init=assemble("mov rbx, 7"), one_time_init=once)
    result = measure(Request(code, Settings(Runs(unroll=10))), backend)
    assert result.ok, result.problems
    assert result.benchmark.has_marks


def test_on_this_machine(tsc: TscBackend) -> None:
    chain = measure(Request(Code(IMUL[:3] + b"\xc0"), Settings(Runs(unroll=100, loop=100, measurements=30))), tsc)
    assert float(chain.cycles or 0) == pytest.approx(3, rel=0.05)
    anywhere = measure(Request(Code(assemble("mov rax, [rax]")), Settings(on_demand=0x2324000)), tsc)
    assert anywhere.ok, anywhere.problems
    looped = measure(Request(Code(assemble("mov rax, [rax]")), Settings(Runs(loop=100), on_demand=0x2324000)), tsc)
    assert looped.ok, looped.problems
    assert float(looped.cycles or 0) == pytest.approx(float(anywhere.cycles or 0), rel=0.1)
