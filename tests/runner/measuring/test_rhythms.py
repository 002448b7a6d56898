"""Which of a clock's samples count where a core runs the same code in several rhythms."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Measured, Request
from results.model import Measurement, Series, Status
from runner.measuring import aggregate
from runner.measuring.aggregate import RHYTHM_SHARE, RHYTHM_WIDTH, rhythms

CALIBRATION = 9000
"""Ticks and core cycles: a tick is a cycle."""

CODE = Microbenchmark((), (Line(b"\x90", "NOP"),), "a test")


def measured(*runs: tuple[int, list[int]]) -> Measured:
    """Return what runs of so many copies and of those ticks each give."""
    series = (
        Series(copies, 1, {"tsc": tuple(ticks), "calibration": (CALIBRATION,) * len(ticks)}) for copies, ticks in runs
    )
    return aggregate.measured(Request(CODE), Measurement(Status.OK, tuple(series)), CALIBRATION)


@pytest.mark.parametrize(
    ("few", "many", "cycles", "slower"),
    [
        ([667] * 10 + [1000] * 10, [2668] * 10 + [4000] * 10, "0.667", ["1"]),
        ([1000, 667] * 10, [4000] * 12 + [2668] * 8, "0.667", ["1"]),
        ([500] * 20, [2000] * 20, "0.5", []),
        ([500] * 20, [2000, 2010, 2020, 2005] * 5, "0.503", []),  # noise is no rhythm
        ([500] * 20, [2000] * 17 + [900] * 3, "0.5", []),  # few fast ones are a fault of the clock
        ([500] * 20, [2000] * 17 + [9000] * 3, "0.5", []),  # few slow ones were interrupted
        ([500] * 20, [2000] * 10 + [2200] * 5 + [3000] * 5, "0.5", ["0.55", "0.75"]),
    ],
)
def test_the_fastest_rhythm_counts_and_others_are_told(
    few: list[int], many: list[int], cycles: str, slower: list[str]
) -> None:
    found = measured((1000, few), (4000, many))
    assert found.cycles == pytest.approx(Fraction(cycles), abs=0.001)
    assert [float(one) for one in found.slower] == pytest.approx([float(one) for one in slower], abs=0.002)
    assert found.without_samples().slower == found.slower


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60).map(sorted))
def test_rhythms_are_alike_apart_and_not_too_few(ordered: list[int]) -> None:
    found = rhythms(ordered)
    assert [one for group in found for one in group] == sorted(one for group in found for one in group)
    if found != [ordered]:
        assert all(len(group) >= max(2, round(RHYTHM_SHARE * len(ordered))) for group in found)
        assert all(group[-1] <= RHYTHM_WIDTH * group[0] for group in found)


@given(st.integers(1, 10_000), st.integers(1, 60))
def test_equal_samples_are_one_rhythm(sample: int, count: int) -> None:
    assert rhythms([sample] * count) == [[sample] * count]
