"""Requests to results: on a backend whose counts are known, in the simulator, and on this machine's clock."""

from fractions import Fraction

import pytest

from results.model import Status
from runner.backend import BackendError, ExecutionEnvironment, Job, JobResult
from runner.backends.registry import open_backend
from runner.backends.tsc import TscBackend
from runner.host.native.server import AREA_ADDRESSES, AREA_SIZE, GUARD_SIZE
from runner.own_code.code import MeasureError
from runner.own_code.counters import choose
from runner.own_code.measure import Aggregate, CodeRequest, MachineCode, Runs, Settings, measure, provide
from runner.own_code.reading.text import assemble
from runner.own_code.template import AREA_STEP, size_of
from tests.attempts import undisturbed
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
    result = measure(CodeRequest(MachineCode(IMUL)), FakeBackend(counts, BOTH))
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
        result = measure(CodeRequest(MachineCode(IMUL), Settings(runs)), backend)
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
    result = measure(CodeRequest(MachineCode(IMUL), Settings(runs)), backend)
    assert [(job.copies, job.iterations) for job in backend.batches[-1]] == jobs
    assert result.cycles == cycles
    assert len(result.modes["runs"].values["instructions"].samples) == runs.measurements


@pytest.mark.parametrize(("area", "size"), [(None, 128 << 20), ("64K", 64 << 10), ("16M", 16 << 20), ("1G", 1 << 30)])
def test_the_area_that_r14_points_to_has_the_size_that_is_asked_for(
    tsc: TscBackend, area: str | None, size: int
) -> None:
    asked = ExecutionEnvironment(size_of(area) if area else 0)
    for distance, status in {
        -size // 2: "ok",
        size // 2 - 8: "ok",
        -size // 2 - 8: "faulted",
        size // 2: "faulted",
    }.items():
        code = MachineCode(assemble(f"mov rax, [r14+{distance}]"))
        (mode,) = measure(CodeRequest(code, Settings(Runs(5, measurements=1), environment=asked)), tsc).modes.values()
        assert mode.status == status, (distance, mode.reason)
    assert tsc.info().area_bytes == size
    provide(ExecutionEnvironment(), tsc)
    assert tsc.info().area_bytes == 128 << 20


def test_code_on_demand_may_access_what_is_beside_areas(tsc: TscBackend) -> None:
    beside = [at + distance for at in AREA_ADDRESSES for distance in (-8, -4096, -GUARD_SIZE, AREA_SIZE)]
    code = MachineCode(assemble("; ".join(f"mov rax, [{address}]" for address in beside)))
    for _ in range(2):
        (mode,) = measure(CodeRequest(code, Settings(Runs(2, measurements=1), on_demand=0x2324000)), tsc).modes.values()
        assert mode.status == "ok", mode.reason


def test_an_environment_that_cannot_be_had_is_refused(tsc: TscBackend) -> None:
    simulated = open_backend("sim", architecture="SKL")
    for asked, backend, complaint in (
        (ExecutionEnvironment(contiguous=True), tsc, "contiguous"),
        (ExecutionEnvironment(r14_bytes=100_000), tsc, "not a multiple of 64 KiB"),
        (ExecutionEnvironment(r14_bytes=1 << 37), tsc, "more than 64 GiB"),
        (ExecutionEnvironment(contiguous=True), simulated, "the backend sim has"),
        (ExecutionEnvironment(idle_siblings=True), simulated, "the backend sim has"),
    ):
        with pytest.raises(BackendError, match=complaint):
            measure(CodeRequest(MachineCode(IMUL), Settings(Runs(), environment=asked)), backend)
    on_demand = Settings(on_demand=0x2324000, environment=ExecutionEnvironment(r14_bytes=1 << 20))
    with pytest.raises(MeasureError, match="there are no areas"):
        measure(CodeRequest(MachineCode(IMUL), on_demand), tsc)
    assert measure(CodeRequest(MachineCode(IMUL), Settings(Runs())), tsc).ok


@pytest.mark.parametrize("text", ["", "0", "x", "-1", "1.5M", "64KB", "9" * 40])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(MeasureError, match="no number of bytes"):
        size_of(text)


def test_a_size_is_a_multiple_of_what_backends_offer() -> None:
    assert size_of("64K") == AREA_STEP
    with pytest.raises(MeasureError, match="--area-size 100K: not a multiple of 64 KiB"):
        size_of("100K")


def test_initial_warm_ups_run_once_before_all() -> None:
    backend = FakeBackend(counts)
    measure(CodeRequest(MachineCode(IMUL), Settings(Runs(initial_warm_ups=30))), backend)
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
    assert measure(CodeRequest(MachineCode(IMUL), Settings(runs)), FakeBackend(jumping)).cycles == cycles


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (CodeRequest(MachineCode(b"")), "no code"),
        (CodeRequest(MachineCode(assemble("inc r15"))), "R15"),
        (CodeRequest(MachineCode(assemble("inc r15")), Settings(Runs(loop=3))), "R15"),
        (CodeRequest(MachineCode(IMUL), Settings(Runs(unroll=0))), "--unroll 0"),
        (CodeRequest(MachineCode(IMUL), Settings(Runs(measurements=100_000))), "--repeat"),
        (CodeRequest(MachineCode(IMUL), Settings(offset_bytes=64)), "--offset 64"),
        (CodeRequest(MachineCode(assemble("pause_counting; nop; resume_counting"))), "marks"),
        (CodeRequest(MachineCode(IMUL), Settings(counters=choose("p9"))), "no counter 'p9'"),
        (CodeRequest(MachineCode(IMUL), Settings(counters=choose("C0.00 NAME"))), "no counters to choose events for"),
        (CodeRequest(MachineCode(IMUL, init=IMUL), Settings(on_demand=0)), "--on-demand"),
    ],
)
def test_what_makes_no_sense_is_refused(request_: CodeRequest, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        measure(request_, FakeBackend(counts))


def test_r15_may_be_written_where_nothing_is_looped() -> None:
    assert measure(CodeRequest(MachineCode(assemble("inc r15")), Settings(Runs())), FakeBackend(counts)).ok


def test_only_the_counters_that_are_wanted_come_out() -> None:
    for runs in (None, Runs()):
        request = CodeRequest(MachineCode(IMUL), Settings(runs, choose("instructions")))
        assert "instructions" in measure(request, FakeBackend(counts, BOTH)).counters
    assert measure(request, FakeBackend(counts, BOTH)).counters == ("instructions",)


def test_parts_and_marks_in_the_simulator() -> None:
    backend = open_backend("sim", architecture="SKL")
    once = assemble("mov qword ptr [r14], 3")
    body = assemble("pause_counting; imul rax, rax; imul rax, rax; resume_counting; imul rbx, rbx")
    code = MachineCode(body, init=assemble("mov rcx, 5"), late_init=assemble("mov rbx, 7"), one_time_init=once)
    result = measure(CodeRequest(code, Settings(Runs(unroll=10))), backend)
    assert result.ok, result.problems
    assert result.benchmark.has_marks


def test_on_this_machine(tsc: TscBackend) -> None:
    chain = CodeRequest(MachineCode(IMUL[:3] + b"\xc0"), Settings(Runs(unroll=100, loop=100, measurements=30)))
    undisturbed(lambda: measure(chain, tsc).cycles, lambda cycles: float(cycles or 0) == pytest.approx(3, rel=0.05))

    def both() -> tuple[float, float]:
        load, anywhere = MachineCode(assemble("mov rax, [rax]")), 0x2324000
        found = [Settings(on_demand=anywhere), Settings(Runs(loop=100), on_demand=anywhere)]
        automatic, looped = (measure(CodeRequest(load, settings), tsc) for settings in found)
        assert looped.ok, looped.problems
        assert {mode.status for mode in automatic.modes.values()} <= {Status.OK, Status.UNCLEAN}, automatic.problems
        return float(automatic.cycles or 0), float(looped.cycles or 0)

    undisturbed(both, lambda found: found[1] == pytest.approx(found[0], rel=0.1))


def clocked(job: Job, repetition: int) -> dict[str, int]:
    """Three cycles per copy on a clock of 1.5 cycles per tick that moves 26 ticks at a time."""
    ticks = (100 + 2 * job.copies + repetition) // 26 * 26
    return {"tsc": ticks, "calibration": 5980 + 26 * (repetition % 3), "contention_probe": 1690 + 26 * (repetition % 2)}


@pytest.mark.parametrize(("copies", "is_coarse"), [(10, True), (100, True), (1000, False)])
@pytest.mark.parametrize("aggregate", list(Aggregate))
def test_the_spread_has_the_clocks_step_in_it(copies: int, aggregate: Aggregate, *, is_coarse: bool) -> None:
    backend = FakeBackend(clocked, ("tsc", "calibration", "contention_probe"), clock=True)
    runs = Runs(unroll=copies, aggregate=aggregate, normalize=False)
    (mode,) = measure(CodeRequest(MachineCode(IMUL), Settings(runs)), backend).modes.values()
    cycles, ticks = mode.values["core_cycles"], mode.values["tsc"]
    assert ticks.spread >= 26
    assert cycles.spread >= 26 * Fraction(3, 2) * Fraction(99, 100)
    # Both reads of both sizes are rounded, so the most that a number can be off by is two steps
    assert abs(cycles.value - 3 * copies) <= 2 * cycles.spread
    assert abs(ticks.value - 2 * copies) <= 2 * ticks.spread
    assert mode.ok
    assert ("the clock moves 39 cycles at a time" in mode.reason) == is_coarse


def test_a_clock_that_moves_by_single_ticks_adds_next_to_nothing() -> None:
    def fine(job: Job, repetition: int) -> dict[str, int]:
        return {"tsc": 100 + 2 * job.copies + repetition % 2, "calibration": 6001}

    backend = FakeBackend(fine, ("tsc", "calibration"), clock=True)
    (mode,) = measure(CodeRequest(MachineCode(IMUL), Settings(Runs())), backend).modes.values()
    assert mode.values["core_cycles"].spread < Fraction(1, 20)
    assert mode.reason == ""


@pytest.mark.parametrize(
    ("slow_copies", "runs", "is_uneven"),
    [
        (16, Runs(unroll=16, loop=500), True),
        (32, Runs(unroll=16, loop=500), True),
        (0, Runs(unroll=16, loop=500), False),
        (32, Runs(unroll=16, loop=500, basic=True), False),
        (32, Runs(unroll=16), False),
    ],
)
def test_loops_whose_copies_take_unlike_times_give_a_remark(slow_copies: int, runs: Runs, *, is_uneven: bool) -> None:
    """Such as two loads of vectors and one of a general-purpose register on a Zen 4: 1.00 or 1.42 cycles."""

    def in_two_rhythms(job: Job, _: int) -> dict[str, int]:
        each = 142 if job.copies == slow_copies else 100
        return {"core_cycles": 60 + each * job.copies * max(1, job.iterations) // 100}

    (mode,) = measure(CodeRequest(MachineCode(IMUL), Settings(runs)), FakeBackend(in_two_rhythms)).modes.values()
    assert mode.ok
    assert ("so their difference is not its time" in mode.reason) == is_uneven


def test_code_that_runs_once_makes_no_copies_uneven() -> None:
    def begun(job: Job, _: int) -> dict[str, int]:
        return {"core_cycles": 3000 + job.copies * max(1, job.iterations)}

    code, settings = MachineCode(IMUL, late_init=bytes.fromhex("0fa2")), Settings(Runs(unroll=10, loop=100))
    (mode,) = measure(CodeRequest(code, settings), FakeBackend(begun)).modes.values()
    assert mode.values["core_cycles"].value == 1
    assert mode.reason == ""


@pytest.mark.parametrize("slow", range(7))
def test_a_neighbour_in_many_measurements_gives_a_remark(slow: int) -> None:
    def beside(job: Job, repetition: int) -> dict[str, int]:
        is_slow = job.copies == 10 and repetition % 10 < slow
        ticks = 101 + 2 * job.copies + repetition % 2
        return {"tsc": ticks, "calibration": 6000, "contention_probe": 2200 + 1000 * is_slow}

    backend = FakeBackend(beside, ("tsc", "calibration", "contention_probe"), clock=True)
    (mode,) = measure(CodeRequest(MachineCode(IMUL), Settings(Runs(10, measurements=10))), backend).modes.values()
    assert (f"{slow} of 20 measurements were disturbed" in mode.reason) == (slow > 2)
    assert ("disturbed" in mode.reason) == (slow > 2)


@pytest.mark.parametrize("aggregate", list(Aggregate))
def test_a_disturbed_calibration_changes_nothing(aggregate: Aggregate) -> None:
    def disturbed(job: Job, repetition: int) -> dict[str, int]:
        return {"tsc": 100 + 2 * job.copies, "calibration": 6000 * (2 if repetition == 3 else 1)}

    backend = FakeBackend(disturbed, ("tsc", "calibration"), clock=True)
    runs = Runs(unroll=10, measurements=20, aggregate=aggregate)
    (mode,) = measure(CodeRequest(MachineCode(IMUL), Settings(runs)), backend).modes.values()
    assert mode.values["core_cycles"].value == 3


def test_a_counter_that_is_not_there_is_refused_with_those_that_are() -> None:
    backend = FakeBackend(clocked, ("tsc", "calibration", "contention_probe"), clock=True)
    with pytest.raises(MeasureError) as raised:
        measure(CodeRequest(MachineCode(IMUL), Settings(Runs(), counters=choose("foo"))), backend)
    assert raised.value.hint == "it has: core_cycles, tsc"
