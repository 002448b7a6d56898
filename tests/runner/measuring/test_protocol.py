"""The measuring protocol: sizes, repetitions and doubts, on a backend whose counters are functions of the job."""

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.harness.native import least_probe_cycles
from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Measured, Request, Want
from results.model import Measurement, Series, Status
from runner.backend import CONTENTION_PROBE, Job, JobResult, Repeat
from runner.measuring import aggregate, sizing
from runner.measuring.protocol import SHARED, Measurer, Options, _Entry
from runner.measuring.quiet import ENOUGH_RUNS, LEAST_RUNS, Patience, QuietFilter, Repetitions, Watch
from runner.measuring.sizing import RunSize
from tests.nonempty import some
from tests.runner.fake_backend import FakeBackend

OVERHEAD = 137
TICKS_PER_CYCLE = 0.7


def bench(lines: int = 1, size_bytes: int = 3) -> Microbenchmark:
    return Microbenchmark((), (Line(b"\x90" * size_bytes, "NOP"),) * lines, "a test")


def runs(job: Job) -> int:
    return job.copies * max(1, job.iterations)


def exact(job: Job, _: int) -> Mapping[str, int]:
    return {"core_cycles": OVERHEAD + 3 * runs(job), "p0": 2 * runs(job), "p1": runs(job) + 7}


@pytest.mark.parametrize("loop", [False, True])
def test_overhead_cancels_on_a_backend_that_counts_exactly(loop: bool) -> None:
    measurer = Measurer(FakeBackend(exact, ("core_cycles", "p0", "p1")))
    (found,) = measurer.measure([Request(bench(), Want.PORTS, loop)])
    assert found.status is Status.OK
    assert found.values == {"core_cycles": 3, "p0": 2, "p1": 1}
    assert set(found.spread.values()) == {0}
    assert found.measurement is not None
    sizes = [(series.copies, series.iterations) for series in found.measurement.series]
    assert sizes == ([(16, 100), (64, 100)] if loop else [(10, 0), (110, 0)])


def test_only_what_is_wanted_is_counted() -> None:
    measurer = Measurer(FakeBackend(exact, ("core_cycles", "p0", "p1")))
    (found,) = measurer.measure([Request(bench())])
    assert list(found.values) == ["core_cycles"]


def clock(cycles: Fraction, *, busy_until: int = 0, gap: int = 0) -> FakeBackend:
    """A clock that moves 26 ticks at a time; up to a repetition another thread halves the throughput, but in gaps."""

    def counts(job: Job, repetition: int) -> Mapping[str, int]:
        busy = repetition < busy_until and not (gap and repetition % gap == 0)
        around = 40 if job.fenced else 1
        taken = OVERHEAD + (around + job.copies * cycles * (2 if busy else 1)) * max(1, job.iterations)
        jitter = repetition * 11 % 26
        probe = (5000 if busy else 2500) * TICKS_PER_CYCLE
        return {
            name: int(ticks + jitter) // 26 * 26
            for name, ticks in (("tsc", taken * TICKS_PER_CYCLE), (CONTENTION_PROBE, probe))
        } | {"calibration": round(9000 * TICKS_PER_CYCLE)}

    return FakeBackend(counts, ("tsc", "calibration", CONTENTION_PROBE), clock=True)


NO_SURVEY = Options(survey_looks=0)


@pytest.mark.parametrize("cycles", [Fraction(1, 4), Fraction(1), Fraction(3), Fraction(40), Fraction(3000)])
@pytest.mark.parametrize("loop", [False, True])
def test_a_coarse_clock_gives_core_cycles_within_one_percent(cycles: Fraction, loop: bool) -> None:
    (found,) = Measurer(clock(cycles), NO_SURVEY).measure([Request(bench(), loop=loop)])
    assert found.status is Status.OK
    assert float(found.cycles) == pytest.approx(float(cycles), rel=0.01)
    assert found.detail == ""


def buffered(copies: int, cycles: int, counters: tuple[str, ...]) -> FakeBackend:
    """A clock beside code that is done later than it retires: so many copies take no time, once a probe is over."""

    def counts(job: Job, repetition: int) -> Mapping[str, int]:
        late = runs(job) - (copies if repetition > 3 else 0)
        taken = 52 + max(0, late) * cycles
        ticks = {
            "tsc": round(taken * TICKS_PER_CYCLE),
            "calibration": round(9000 * TICKS_PER_CYCLE),
            CONTENTION_PROBE: 2500,
        }
        return {"core_cycles": taken, **ticks}

    return FakeBackend(counts, counters, clock=True)


@pytest.mark.parametrize("counters", [("tsc", "calibration", CONTENTION_PROBE), ("core_cycles",)])
def test_a_run_that_only_fills_buffers_is_made_longer(counters: tuple[str, ...]) -> None:
    backend = buffered(100, 3000, counters)
    (found,) = Measurer(backend, NO_SURVEY).measure([Request(bench(16), loop=True)])
    assert float(found.cycles) == pytest.approx(3000, rel=0.1)
    sizes = [[(job.copies, job.iterations) for job in batch] for batch in backend.batches if len(batch) > 1]
    assert sizes[0] == [(3, 1), (12, 1)]
    assert sizes[1:] == [[(3, 400), (12, 400)]]


def test_fast_code_is_not_measured_again_for_being_fast() -> None:
    backend = clock(Fraction(1, 8))
    Measurer(backend, NO_SURVEY).measure([Request(bench(), loop=True)])
    assert len([batch for batch in backend.batches if len(batch) > 1]) == 1


def test_repetitions_with_a_busy_sibling_do_not_count() -> None:
    measurer = Measurer(clock(Fraction(1)), Options(survey_looks=0, patience_seconds=0.1))
    measurer.measure([Request(bench(size)) for size in (5, 6, 7)])  # learns what quiet is
    backend = clock(Fraction(1), busy_until=200)
    measurer.backend = backend
    (found,) = measurer.measure([Request(bench())])
    assert float(found.cycles) == pytest.approx(1, rel=0.01)
    assert found.detail == ""
    assert len(backend.batches) > 2


def test_a_survey_learns_what_quiet_is_before_anything_counts() -> None:
    (found,) = Measurer(clock(Fraction(1), busy_until=150), Options(survey_looks=20)).measure([Request(bench())])
    assert float(found.cycles) == pytest.approx(1, rel=0.01)


def test_what_seemed_quiet_until_the_contention_probe_was_faster_is_measured_again() -> None:
    backend = clock(Fraction(1), busy_until=60)
    found = Measurer(backend, NO_SURVEY).measure([Request(bench()), Request(bench(2))])
    assert [round(float(each.cycles), 1) for each in found] == [1, 1]


def test_who_disturbs_for_a_while_is_waited_for() -> None:
    measurer = Measurer(clock(Fraction(1)), NO_SURVEY)
    measurer.measure([Request(bench(size)) for size in (5, 6, 7)])  # learns what quiet is
    measurer.backend = clock(Fraction(1), busy_until=700)
    (found,) = measurer.measure([Request(bench())])
    assert float(found.cycles) == pytest.approx(1, rel=0.01)
    assert found.detail == ""
    assert measurer.lost_seconds > 0


@pytest.mark.parametrize(
    ("useful", "again", "left"), [(0.0, 0.9, True), (0.0, 1.1, False), (2.0, 1.1, True), (2.0, 2.1, False)]
)
def test_patience_ends_in_proportion_to_what_was_measured(useful: float, again: float, left: bool) -> None:
    patience = Patience(1.0, 0.5)
    patience.count(useful, is_again=False)
    patience.count(again, is_again=True)
    assert patience.is_left == left
    assert patience.lost_seconds == again


def test_waiting_ends_with_patience_or_when_it_is_quiet() -> None:
    looks = count()
    Patience(0.1, 0).wait(lambda: next(looks) < 0)
    assert 1 < next(looks) < 50
    patience = Patience(0.1, 0)
    patience.wait(lambda: True)
    assert patience.lost_seconds < 0.05


def test_a_core_that_is_shared_all_the_time_is_said_to_be() -> None:
    measurer = Measurer(clock(Fraction(1)), Options(survey_looks=0, patience_seconds=0.1))
    measurer.measure([Request(bench(size)) for size in (5, 6, 7)])
    measurer.backend = clock(Fraction(1), busy_until=10**9)
    (found,) = measurer.measure([Request(bench())])
    assert found.ok
    assert found.detail == SHARED
    assert found.measurement is not None
    assert found.measurement.detail == SHARED


def test_code_that_does_not_run_is_a_result_and_the_rest_goes_on() -> None:
    backend = FakeBackend(exact)
    bad = bench(2)
    backend.failing[bad.body_code] = JobResult(Status.FAULTED, {}, "SIGILL in the body at offset 0")
    found = Measurer(backend).measure([Request(bench()), Request(bad), Request(bench(3))])
    assert [each.status for each in found] == [Status.OK, Status.FAULTED, Status.OK]
    assert found[1].detail == "SIGILL in the body at offset 0"
    assert found[1].values == {}


def test_on_a_clock_code_that_faults_is_run_once_only() -> None:
    backend = clock(Fraction(1))
    backend.failing[bench().body_code] = JobResult(Status.FAULTED, {}, "SIGILL")
    (found,) = Measurer(backend, NO_SURVEY).measure([Request(bench())])
    assert found.status is Status.FAULTED
    assert len(backend.batches) == 1


@pytest.mark.parametrize(
    ("counters", "complaint"),
    [
        (lambda n: {"core_cycles": 1000 - n}, "core_cycles is negative"),
        (lambda n: {"core_cycles": n, "p0": 2 * n}, "p0 carries 2.00 µops in 1.00 cycles"),
        (lambda n: {"core_cycles": 2 * n, "p0": n, "p1": n // 2}, "1.50 µops in all"),
    ],
)
def test_values_that_cannot_be_right_are_a_recorded_failure(counters: object, complaint: str) -> None:
    assert callable(counters)
    names = tuple(counters(1))
    backend = FakeBackend(lambda job, _: counters(runs(job)), names)
    (found,) = Measurer(backend, Options(rounds=1)).measure([Request(bench(), Want.PORTS)])
    assert found.status is Status.UNCLEAN
    assert complaint in found.detail
    assert found.detail.endswith("3 times")
    assert found.values == {}
    assert found.measurement is not None
    assert len(found.measurement.series) == 2


def test_on_a_clock_values_that_cannot_be_right_are_measured_anew_three_times() -> None:
    def counts(job: Job, _repetition: int) -> Mapping[str, int]:
        return {"tsc": 10**6 - 100 * runs(job), "calibration": 9000, CONTENTION_PROBE: 2500}

    backend = FakeBackend(counts, ("tsc", "calibration", CONTENTION_PROBE), clock=True)
    (found,) = Measurer(backend, Options(survey_looks=0, rounds=1)).measure([Request(bench())])
    assert found.status is Status.UNCLEAN
    assert found.detail.startswith("tsc is negative")
    assert found.detail.endswith("3 times")


def test_unstable_values_are_measured_again_and_said_to_be_unstable() -> None:
    def counts(job: Job, repetition: int) -> Mapping[str, int]:
        return {"core_cycles": runs(job) * (1 + repetition % 5)}

    backend = FakeBackend(counts)
    (found,) = Measurer(backend, Options(rounds=4)).measure([Request(bench())])
    assert found.ok
    assert found.detail.startswith("not stable after 4 x 20")
    assert len(backend.batches) == 4


def test_stable_values_are_measured_once() -> None:
    backend = FakeBackend(exact)
    Measurer(backend).measure([Request(bench())] * 3)
    assert len(backend.batches) == 1


@given(
    cycles=st.integers(0, 10**4),
    overhead=st.integers(0, 10**6),
    few=st.integers(1, 20),
    more=st.integers(1, 200),
    noise=st.lists(st.integers(1, 10**6), max_size=4),
)
def test_aggregate_finds_the_slope_whatever_a_few_repetitions_say(
    *, cycles: int, overhead: int, few: int, more: int, noise: list[int]
) -> None:
    def series(copies: int) -> Series:
        clean = [overhead + cycles * copies] * (20 - len(noise))
        return Series(copies, 0, {"core_cycles": (*clean, *(clean[0] + extra for extra in noise))})

    measurement = Measurement(Status.OK, (series(few), series(few + more)))
    found = aggregate.measured(Request(bench()), measurement)
    assert found.cycles == cycles
    assert found.spread["core_cycles"] == 0


def test_measurements_without_two_sizes_give_no_values() -> None:
    request = Request(bench())
    for status in some(Status):
        found = aggregate.measured(request, Measurement(status, (), "why"))
        assert not found.ok
        assert found.detail == "why"


def test_a_size_without_samples_gives_no_values() -> None:
    series = (Series(10, 0, {"core_cycles": (1,)}), Series(110, 0, {"core_cycles": ()}))
    assert aggregate.measured(Request(bench()), Measurement(Status.OK, series)).status is Status.UNCLEAN


def test_a_backend_whose_counters_were_taken_by_others_is_a_recorded_failure() -> None:
    class Empty(FakeBackend):
        def _one(self, job: Job, counters: Sequence[str], repeat: Repeat) -> JobResult:
            result = super()._one(job, counters, repeat)
            return JobResult(result.status, dict.fromkeys(result.samples, ()))

    (found,) = Measurer(Empty(exact), Options(rounds=1)).measure([Request(bench())])
    assert found.status is Status.UNCLEAN
    assert found.detail == "no repetition counts, 3 times"


@given(st.integers(1, 40), st.integers(1, 200), st.booleans(), st.floats(0, 10**8))
def test_sizes_grow_and_stay_in_the_instruction_cache(lines: int, size: int, loop: bool, probe: float) -> None:
    request = Request(bench(lines, size), loop=loop)
    for sizes in (sizing.exact_sizes(request), sizing.clock_sizes(request, probe)):
        assert all(0 < low.copies < high.copies for low, high in pairwise(sizes))
        assert len(sizes) == 2
        assert len({each.iterations for each in sizes}) == 1
        assert len({each.fenced for each in sizes}) == 1
        code = sizes[-1].copies * len(request.benchmark.body_code)
        assert code <= max(sizing.CODE_BUDGET_BYTES, 4 * len(request.benchmark.body_code))


def test_a_clock_compares_loops_and_windows_of_many_instructions() -> None:
    for lines in (1, 5, 12, 60):
        for loop, least in ((True, sizing.STEADY_LOOP_LINES), (False, sizing.STEADY_LINES)):
            low, high = sizing.clock_sizes(Request(bench(lines), loop=loop), 100.0)
            assert low.copies * lines >= least
            assert (high.copies - low.copies) * lines >= (3 * least if loop else sizing.WINDOW_LINES)


def test_a_clock_runs_neither_too_short_nor_too_long() -> None:
    for copy_cycles in (0.25, 1, 4, 40, 400, 20_000):
        request = Request(bench())
        trial = sizing.TRIAL_ITERATIONS * (sizing.FENCE_CYCLES + sizing.trial_size(request).copies * copy_cycles)
        last = sizing.clock_sizes(request, trial)[-1]
        assert 10_000 <= last.copies * last.iterations * copy_cycles <= 200_000


def test_a_run_that_is_too_fast_to_be_true_does_not_make_all_others_seem_disturbed() -> None:
    def run(probe: int) -> dict[str, list[int]]:
        return {"tsc": [1] * 20, "calibration": [10_000] * 20, CONTENTION_PROBE: [probe] * 20}

    quiet = QuietFilter()
    for number in range(2000):
        quiet.learn(Repetitions.of(run(2700 if number % 500 == 0 else 3300 if number % 10 else 2900)))
    assert quiet.best_ratio == pytest.approx(0.29, rel=0.002)
    assert quiet.is_quiet(run(2910))
    assert not quiet.is_quiet(run(3300))


def test_what_differs_each_time_says_nothing_of_a_quiet_core() -> None:
    """As beside Python on the other thread of a core: no run of these is taken for quiet, until some agree."""
    rng = random.Random(4)

    def look(least: int, most: int) -> dict[str, list[int]]:
        return {
            "tsc": [1] * 10,
            "calibration": [9000] * 10,
            CONTENTION_PROBE: [rng.randint(least, most) for _ in range(10)],
        }

    quiet = QuietFilter()
    for number in range(40):
        busy = look(3800, 6700)
        quiet.learn(Repetitions.of(busy))
        assert quiet.is_known <= (number + 1 < LEAST_RUNS)
    assert quiet.count(Repetitions.of(busy)) == 0
    assert len(quiet.undisturbed(busy, Repetitions.of(busy), 4)["tsc"]) == 4
    for _ in range(ENOUGH_RUNS):
        quiet.looks_quiet(look(3405, 3415))
    assert quiet.best_ratio == pytest.approx(3410 / 9000, rel=0.003)
    assert not quiet.looks_quiet(look(3800, 6700))


def test_the_filter_drops_interrupted_calibrations_and_busy_siblings() -> None:
    quiet = QuietFilter()
    samples = {"tsc": [1, 2, 3, 4, 5], "calibration": [100, 100, 300, 100, 100], CONTENTION_PROBE: [50, 50, 50, 80, 50]}
    quiet.learn(Repetitions.of(samples))
    assert quiet.count(Repetitions.of(samples)) == 3
    assert quiet.is_quiet(samples)
    assert quiet.undisturbed(samples, Repetitions.of(samples), 0)["tsc"] == (1, 2, 5)
    busy = {"tsc": [1, 2, 3], "calibration": [100] * 3, CONTENTION_PROBE: [90, 70, 80]}
    assert quiet.count(Repetitions.of(busy)) == 0
    assert not quiet.is_quiet(busy)
    assert quiet.undisturbed(busy, Repetitions.of(busy), 2)["tsc"] == (2, 3)


@given(
    st.lists(st.tuples(st.integers(0, 10**4), st.integers(1, 10**4)), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(1, 10**4),
)
def test_the_filter_always_leaves_something(pairs: list[tuple[int, int]], at_least: int, best: int) -> None:
    quiet = QuietFilter()
    quiet.best_ratio = best / 10**4
    samples = {"tsc": range(len(pairs)), "calibration": [a for a, _ in pairs], CONTENTION_PROBE: [b for _, b in pairs]}
    kept = quiet.undisturbed(samples, Repetitions.of(samples), at_least)
    assert kept["tsc"]
    assert len({len(values) for values in kept.values()}) == 1
    assert quiet.count(Repetitions.of(samples)) <= len(kept["tsc"])


@given(
    st.lists(st.integers(900, 2000), min_size=1, max_size=9), st.lists(st.integers(900, 2000), min_size=1, max_size=9)
)
def test_rounds_that_are_read_one_by_one_say_what_all_of_them_say(first: list[int], second: list[int]) -> None:
    def samples(probes: list[int]) -> dict[str, list[int]]:
        return {"calibration": [1000] * len(probes), "contention_probe": probes, "tsc": probes}

    joined = Repetitions.of(samples(first)).joined(Repetitions.of(samples(second)))
    assert joined == Repetitions.of(samples(first + second))


def test_a_later_round_of_another_frequency_is_not_disturbed() -> None:
    """It may be seconds later. Its repetitions are compared with each other only."""
    before = Repetitions.of({"calibration": [1000] * 5, "contention_probe": [900] * 5})
    slower = {"calibration": [1100, 1100, 1100, 1500, 1100], "contention_probe": [990] * 5}
    assert before.joined(Repetitions.of(slower)).steady == [True] * 8 + [False, True]


def test_an_entry_knows_the_repetitions_of_its_rounds_until_it_starts_anew() -> None:
    entry = _Entry(Request(bench()), Watch(False, QuietFilter(), Patience(0, 0)), sizes=(RunSize(1, 1), RunSize(4, 1)))
    entry.restart()

    def result(probe: int) -> JobResult:
        return JobResult(Status.OK, {"calibration": (1000, 1000), "contention_probe": (probe, probe), "tsc": (7, 7)})

    entry.add([result(900), result(950)])
    assert [one.ratios for one in entry.add([result(800), result(990)])] == [[0.8, 0.8], [0.99, 0.99]]
    assert [one.ratios for one in entry.looked_at] == [[0.9, 0.9, 0.8, 0.8], [0.95, 0.95, 0.99, 0.99]]
    assert [len(one["tsc"]) for one in entry.samples] == [4, 4]
    entry.restart()
    assert entry.looked_at == []
    entry.add([result(900), result(950)])
    assert entry.add([result(900), JobResult(Status.FAULTED, {}, "SIGILL")]) == []
    assert (entry.status, entry.looked_at) == (Status.FAULTED, [])


def test_an_interrupted_calibration_does_not_make_a_repetition_the_quietest() -> None:
    quiet = QuietFilter()
    quiet.best_ratio = 0.1
    samples = {"tsc": [1, 2, 3], "calibration": [100, 100, 1000], CONTENTION_PROBE: [60, 50, 55]}
    assert quiet.undisturbed(samples, Repetitions.of(samples), 1)["tsc"] == (2,)


def test_measured_without_values_has_no_cycles() -> None:
    with pytest.raises(KeyError):
        _ = Measured(Request(bench()), Status.FAULTED, {}, {}).cycles


def test_more_repetitions_find_a_core_that_is_quiet_for_moments_only() -> None:
    measurer = Measurer(clock(Fraction(1)), Options(survey_looks=0, patience_seconds=0.1))
    measurer.measure([Request(bench(size)) for size in (5, 6, 7)])  # learns what quiet is
    backend = clock(Fraction(1), busy_until=10**9, gap=12)
    asked: list[int] = []
    run = backend.run

    def counted(batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        asked.append(repeat.repetitions)
        return run(batch, counters, repeat)

    measurer.backend = backend
    backend.run = counted  # type: ignore[method-assign] # to see what is asked
    (found,) = measurer.measure([Request(bench())])
    assert float(found.cycles) == pytest.approx(1, rel=0.01)
    assert found.detail == ""
    assert max(asked) > measurer.options.repetitions


def test_a_few_quiet_repetitions_count_alone() -> None:
    quiet = QuietFilter()
    quiet.best_ratio = 0.5
    samples = {"tsc": range(8), "calibration": [100] * 8, CONTENTION_PROBE: [50, 60, 50, 70, 80, 50, 90, 60]}
    assert quiet.undisturbed(samples, Repetitions.of(samples), 8)["tsc"] == (0, 2, 5)
    samples[CONTENTION_PROBE] = [50, 60, 55, 70, 80, 50, 90, 60]
    assert quiet.undisturbed(samples, Repetitions.of(samples), 4)["tsc"] == (0, 1, 2, 5, 7)


def test_what_quiet_is_can_be_learned_from_moments() -> None:
    backend = clock(Fraction(1), busy_until=10**9, gap=6)
    found = Measurer(backend, Options(patience_seconds=0.1)).measure([Request(bench()), Request(bench(2))])
    assert [float(each.cycles) for each in found] == pytest.approx([1, 1], rel=0.01)


def test_a_neighbour_that_never_rests_is_not_taken_for_a_quiet_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """However alike its repetitions are, the probe takes longer than its ALUs explain. A quiet moment is waited for."""

    def measured(probe_cycles: int, busy_until: int = 0) -> Measured:
        monkeypatch.setattr("runner.measuring.quiet.least_probe_cycles", lambda _: Fraction(probe_cycles))
        measurer = Measurer(clock(Fraction(1), busy_until=busy_until), Options(survey_looks=0, patience_seconds=0.1))
        return measurer.measure([Request(bench())])[0]

    assert measured(2400).detail == ""
    assert measured(1900).detail == SHARED
    later = measured(2400, busy_until=200)
    assert later.detail == ""
    assert float(later.cycles) == pytest.approx(1, rel=0.01)


def test_a_few_undisturbed_repetitions_speak_of_no_neighbour() -> None:
    """One of 35 repetitions is undisturbed, and the most that patience allows give a few: they count alone."""
    measurer = Measurer(clock(Fraction(1)), Options(survey_looks=0, patience_seconds=0, patience_ratio=0, rounds=2))
    measurer.measure([Request(bench(size)) for size in (5, 6, 7)])
    measurer.backend = clock(Fraction(1), busy_until=10**9, gap=35)
    (found,) = measurer.measure([Request(bench())])
    assert found.measurement is not None
    assert min(len(each.samples["tsc"]) for each in found.measurement.series) < measurer.options.enough_quiet
    assert float(found.cycles) == pytest.approx(1, rel=0.01)
    assert found.detail == ""


def test_a_neighbour_that_delays_only_loads_is_seen_beside_code_that_accesses_memory() -> None:
    """A fifth of the repetitions are undisturbed, and the contention probe without loads takes the same in all."""

    def loads(job: Job) -> bool:
        return job.benchmark.body[0].accesses_memory

    def counts(job: Job, repetition: int) -> Mapping[str, int]:
        slower = 1 if repetition % 6 == 0 else 2
        accesses = slower if loads(job) else 1
        taken = OVERHEAD + (1 + job.copies * accesses) * max(1, job.iterations)
        ticks = {"tsc": taken, "calibration": 9000, CONTENTION_PROBE: 2500 * (slower if job.loads_beside else 1)}
        return {name: round(value * TICKS_PER_CYCLE) for name, value in ticks.items()}

    load = Line(b"\x48\x8b\x06", "MOV RAX, qword ptr [RSI]", accesses_memory=True)
    requests = [Request(Microbenchmark((), (load,), "a load")), Request(bench())]
    backend = FakeBackend(counts, ("tsc", "calibration", CONTENTION_PROBE), clock=True)
    found = Measurer(backend, Options(patience_seconds=0.1)).measure(requests)
    assert [float(each.cycles) for each in found] == pytest.approx([1, 1], rel=0.01)
    assert [each.detail for each in found] == ["", ""]
    trial, *rounds = (batch for batch in backend.batches if len(batch) > 1)
    assert [job.loads_beside for job in trial] == [False, False]
    assert {(loads(job), job.loads_beside) for batch in rounds for job in batch} == {(True, True), (False, False)}


def test_the_contention_probe_takes_what_its_adds_need() -> None:
    assert least_probe_cycles("ICX") == 3200
    assert least_probe_cycles("ZEN5") == Fraction(12_800, 6)
    assert least_probe_cycles("FAKE") is None
