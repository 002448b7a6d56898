"""What disturbs a clock makes code look slow at worst: never faster than it is."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Measured, Request
from results.model import Measurement, Series, Status
from runner.backend import CONTENTION_PROBE
from runner.measuring import aggregate
from runner.measuring.calibration import STEADY, steadied
from runner.measuring.protocol import Measurer, Options
from tests.runner.fake_backend import FakeBackend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.backend import Job

CALIBRATION = 9000
CYCLES = Fraction(3)
CODE = Microbenchmark((), (Line(b"\x90", "NOP"),), "a test")
LOOP = Request(CODE, loop=True)


def measured(request: Request, *runs: tuple[int, list[int], list[int], list[int]]) -> Measured:
    """Return what runs of so many copies give, with those ticks, calibrations and contention probes."""
    series = (
        Series(copies, 1, {"tsc": tuple(ticks), "calibration": tuple(beside), CONTENTION_PROBE: tuple(probe)})
        for copies, ticks, beside, probe in runs
    )
    return aggregate.measured(request, Measurement(Status.OK, tuple(series)), CALIBRATION)


def quiet(copies: int, ticks: int, count: int = 12) -> tuple[int, list[int], list[int], list[int]]:
    return copies, [ticks] * count, [CALIBRATION] * count, [3000] * count


def test_two_interrupted_calibrations_make_no_faster_rhythm() -> None:
    """ADC on an Ice Lake: the code took 15,404 ticks each time, and two calibrations of twelve 4.7% longer."""
    beside = [9424, 9000, 9424, *[9000] * 9]
    found = measured(LOOP, quiet(4, 4801), (16, [19_201] * 12, beside, [3000] * 12))
    assert found.cycles == 1200
    assert not found.slower


@given(
    st.lists(st.integers(9000, 20_000), min_size=1, max_size=30),
    st.sampled_from([1.0, 1.03, 1.3]),
    st.integers(0, 30),
)
def test_a_calibration_never_counts_as_longer_than_it_is(ticks: list[int], step: float, place: int) -> None:
    """Also where the frequency changes at a place."""
    found = steadied([round(one * step) if at >= place else one for at, one in enumerate(ticks)])
    assert len(found) == len(ticks)
    assert all(one <= round(own * step) for one, own in zip(found, ticks, strict=True))


@pytest.mark.parametrize(
    "places", [{0}, {1, 3}, {0, 1, 2, 3, 4, 5}, {14, 15, 16, 17, 18, 19}, {1, 2, 4, 5, 7, 8, 10, 11}]
)
def test_up_to_six_of_nine_may_be_disturbed(places: set[int]) -> None:
    ticks = [CALIBRATION + (400 if at in places else at % 2) for at in range(20)]
    assert max(steadied(ticks)) <= CALIBRATION + 1


@pytest.mark.parametrize("places", [{0}, {7}, {10, 11}, {19}])
def test_a_calibration_that_is_too_short_changes_none_beside_it(places: set[int]) -> None:
    ticks = [CALIBRATION - (400 if at in places else 0) for at in range(20)]
    assert list(steadied(ticks)) == ticks


@pytest.mark.parametrize("place", range(21))
def test_a_changed_frequency_changes_every_calibration_from_there_on(place: int) -> None:
    frequency = [1.0] * place + [1.1] * (20 - place)
    ticks = [round(CALIBRATION * one) for one in frequency]
    assert all(one <= own for one, own in zip(steadied(ticks), ticks, strict=True))
    code = [round(30_000 * one) for one in frequency]
    found = measured(LOOP, quiet(4, 7500, 20), (16, code, ticks, [3000] * 20))
    assert float(found.cycles) == pytest.approx(22_500 / 12, rel=0.001)


def test_steps_of_a_coarse_clock_are_left_alone() -> None:
    ticks = [6318, 6344, 6292, 6318, 6344]
    assert max(ticks) <= STEADY * min(ticks)
    assert steadied(ticks) is ticks


def test_a_busy_neighbour_of_the_shorter_run_makes_no_fast_code() -> None:
    busy = (10, [30 * 2] * 12, [CALIBRATION] * 12, [4000] * 12)
    found = measured(Request(CODE), busy, quiet(110, 330))
    assert CYCLES <= found.cycles <= CYCLES * Fraction(105, 100)
    assert found.cycles - found.spread["core_cycles"] <= CYCLES


def test_a_busy_neighbour_of_the_longer_run_is_as_it_was() -> None:
    busy = (110, [600] * 12, [CALIBRATION] * 12, [4000] * 12)
    assert measured(Request(CODE), quiet(10, 30), busy).cycles == Fraction(570, 100)


def test_a_loop_in_two_rhythms_takes_no_time_that_none_of_them_takes() -> None:
    """VPCOMPRESSB on Zen 4: 0.97 cycles in the shorter loop, and 0.66 in the longer one, are not 0.56."""
    found = measured(LOOP, quiet(16, 1552), quiet(64, 4224))
    assert found.cycles == 66
    assert measured(LOOP, quiet(16, 160 + 190), quiet(64, 640 + 190)).cycles == 10


def disturbed_clock(seed: int) -> FakeBackend:
    """A clock of 3-cycle code: calibrations are interrupted, the frequency changes, and a neighbour comes and goes."""
    chance = random.Random(seed)
    state = {"frequency": 1.0, "busy": 0}

    def counts(job: Job, _repetition: int) -> Mapping[str, int]:
        if chance.random() < 0.02:
            state["frequency"] = chance.choice([1.0, 1.03, 1.06])
        if chance.random() < 0.03:
            state["busy"] = chance.choice([0, 0, 10, 150])
        state["busy"] = max(0, state["busy"] - 1)
        slow = 1.4 if state["busy"] else 1.0
        taken = (40 + job.copies * int(CYCLES) * slow) * max(1, job.iterations)
        interrupted = 424 if chance.random() < 0.15 else 0
        scale = state["frequency"]
        return {
            "tsc": round(taken * scale),
            "calibration": round(CALIBRATION * scale) + interrupted,
            CONTENTION_PROBE: round(3400 * scale * slow),
        }

    return FakeBackend(counts, ("tsc", "calibration", CONTENTION_PROBE), clock=True)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("loop", [False, True])
def test_a_disturbed_clock_makes_no_code_faster_than_it_is(seed: int, loop: bool) -> None:
    options = Options(patience_seconds=0, survey_looks=5)
    (found,) = Measurer(disturbed_clock(seed), options).measure([Request(CODE, loop=loop)])
    assert found.ok
    assert float(found.cycles) >= float(CYCLES) * 0.985


def test_by_how_much_a_bound_may_be_too_low_is_told() -> None:
    """ORPD on an Ice Lake: 19.2 cycles in a loop of one copy, 72.2 in one of four, so a copy takes 18.05 at most."""
    found = measured(LOOP, quiet(1, 1920), quiet(4, 7220))
    assert found.over > 0
    assert found.cycles + found.over == 1805
    assert found.without_samples().over == found.over
    assert measured(Request(CODE), quiet(1, 1920), quiet(4, 7220)).over == 0


@pytest.mark.parametrize(
    ("short", "long", "copies"),
    [
        # VSUBPS (YMM, YMM, M256) on an Emerald Rapids: 8 instances take 4.0 cycles, the shorter run was half as fast
        (5614, 24_783, 113),
        # A usual run: 20 cycles around each pass
        (3744, 24_783, 100),
        # Much around a pass may be its setup, if the copies take longer
        (12_000, 80_000, 100),
    ],
)
def test_a_shorter_run_that_was_slow_makes_no_unrolled_code_faster(short: int, long: int, copies: int) -> None:
    series = (
        Series(size, 52, {"tsc": (ticks,) * 12, "calibration": (CALIBRATION,) * 12})
        for size, ticks in ((13, short), (113, long))
    )
    found = aggregate.measured(Request(CODE), Measurement(Status.OK, tuple(series)), CALIBRATION)
    assert found.cycles == Fraction(long if copies == 113 else long - short, copies * 52)
