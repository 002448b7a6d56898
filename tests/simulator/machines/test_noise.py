"""The noise of a simulated machine's counters: how far off they are, and when the same job is off alike."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.backend import Job, Repeat
from simulator.machines.noise import EXACT, CounterNoise
from tests.simulator.programs import backend, benchmark, line

VALUE = 100_000


def samples(noise: CounterNoise, job: str = "job", name: str = "p0", position: int = 0) -> tuple[int, ...]:
    return noise.samples(job, {name: VALUE}, 1000, position)[name]


def test_exact_counters_are_exact() -> None:
    assert samples(EXACT) == (VALUE,) * 1000


@pytest.mark.parametrize("percent", [1, 2])
def test_samples_are_off_by_so_much_and_right_in_the_mean(percent: int) -> None:
    found = samples(CounterNoise(sample_percent=percent))
    assert VALUE * percent / 200 < max(abs(one - VALUE) for one in found) <= VALUE * percent / 100
    assert fmean(found) == pytest.approx(VALUE, rel=0.001)


@pytest.mark.parametrize("percent", [1, 2])
def test_what_a_job_is_off_by_cannot_be_seen_in_its_samples(percent: int) -> None:
    noise = CounterNoise(job_percent=percent)
    jobs = [samples(noise, f"job {number}") for number in range(50)]
    assert all(len(set(found)) == 1 for found in jobs)
    assert len({found[0] for found in jobs}) > 40
    assert VALUE * percent / 200 < max(abs(found[0] - VALUE) for found in jobs) <= VALUE * percent / 100
    assert samples(noise, name="p0") != samples(noise, name="p1")


@pytest.mark.parametrize("percent", [1, 2])
def test_no_value_per_copy_is_off_by_more_than_the_share_that_cannot_be_seen(percent: int) -> None:
    noise = CounterNoise(job_percent=percent)
    worst = 0.0
    for number in range(500):
        few, many = (noise.samples(f"{number} {n}", {"p0": 7 * n * 1000}, 1, 0)["p0"][0] for n in (10, 110))
        worst = max(worst, abs((many - few) / 100_000 - 7) / 7)
    assert 0.5 * noise.hidden_share < worst <= noise.hidden_share


def test_outliers_are_a_share_of_the_samples_and_leave_the_median() -> None:
    found = samples(CounterNoise(outlier_percent=30))
    assert sum(one > VALUE for one in found) == pytest.approx(300, abs=50)
    assert median(found) == min(found) == VALUE
    assert max(found) > 1.9 * VALUE


def test_an_offset_is_added() -> None:
    assert samples(CounterNoise(offset=7)) == (VALUE + 7,) * 1000


def test_the_clock_drifts_up_and_down_and_nothing_else_does() -> None:
    noise = CounterNoise(drift_percent=3, drift_jobs=500)
    clock = [samples(noise, name="core_cycles", position=position)[0] for position in (0, 250, 500, 750, 1000)]
    assert clock == [100_000, 101_500, 103_000, 101_500, 100_000]
    assert samples(noise, name="p0", position=500) == (VALUE,) * 1000


@given(
    st.builds(
        CounterNoise,
        upwards=st.integers(0, 3),
        sample_percent=st.integers(0, 2),
        job_percent=st.integers(0, 2),
        outlier_percent=st.integers(0, 30),
        offset=st.integers(0, 9),
    ),
    st.text(),
)
def test_the_same_job_is_noisy_in_the_same_way_the_first_time(noise: CounterNoise, job: str) -> None:
    assert samples(noise, job) == samples(noise, job)


def test_a_job_that_is_repeated_is_noisy_in_another_way() -> None:
    outliers = CounterNoise(outlier_percent=30)
    assert outliers.samples("job", {"p0": VALUE}, 20, 0) != outliers.samples("job", {"p0": VALUE}, 20, 0, turn=1)
    fixed = CounterNoise(job_percent=2)
    assert fixed.samples("job", {"p0": VALUE}, 20, 0) == fixed.samples("job", {"p0": VALUE}, 20, 0, turn=1)
    machine = backend("random:outliers:5")
    job = Job(benchmark(line("IMUL (R64, R64)", "RAX", "RBX")), 100)
    runs = [machine.run([job], ("core_cycles",), Repeat(0, 20))[0].samples["core_cycles"] for _ in range(5)]
    assert len(set(runs)) == 5
    assert len({min(run) for run in runs}) == 1


def test_a_backend_counts_its_jobs_for_the_drift() -> None:
    machine = backend("random:drift:5")
    job = Job(benchmark(line("IMUL (R64, R64)", "RAX", "RBX")), 100)
    times = [machine.run([job], ("core_cycles",), Repeat(0, 1))[0].samples["core_cycles"][0] for _ in range(300)]
    assert all(later >= earlier - 1 for earlier, later in pairwise(times))  # some samples are one too high
    assert times[-1] / times[0] == pytest.approx(1 + 0.03 * 299 / 500, rel=0.002)
