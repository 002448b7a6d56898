"""Measured latencies in whole cycles."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.model import Bound, LatencyResult
from results.whole_cycles import BOUND_NOISE, WholeCycles, whole_cycles


def stated(cycles: str, bound: Bound, spread: str = "0") -> tuple[int, int, bool]:
    return whole_cycles(LatencyResult(1, 2, Fraction(cycles), bound, "itself", spread=Fraction(spread)))


@pytest.mark.parametrize(
    ("cycles", "spread", "expected"),
    [
        ("1.02", "0", (1, 1, False)),
        ("0.20", "0.01", (0, 1, True)),
        ("6.11", "0.02", (6, 7, True)),
        ("14.40", "0.70", (15, 15, True)),
        ("90.10", "0.90", (90, 90, False)),
    ],
)
def test_a_fraction_of_an_exact_latency_is_two_numbers_or_a_bound(
    cycles: str, spread: str, expected: WholeCycles
) -> None:
    assert stated(cycles, Bound.EXACT, spread) == expected


@pytest.mark.parametrize(
    ("cycles", "most"), [("9", 9), ("9.24", 9), ("9.78", 9), ("9.85", 10), ("10.19", 10), ("0.5", 0)]
)
def test_an_upper_bound_is_the_number_below(cycles: str, most: int) -> None:
    assert stated(cycles, Bound.UPPER) == (most, most, True)


@pytest.mark.parametrize(
    ("cycles", "spread", "most"),
    [("40.65", "0.5", 41), ("40.55", "0.5", 40), ("90.5", "0.9", 91), ("90.45", "0.9", 90), ("21.7", "3.58", 22)],
)
def test_longer_and_wider_bounds_allow_for_more_noise(cycles: str, spread: str, most: int) -> None:
    assert stated(cycles, Bound.UPPER, spread) == (most, most, True)


@given(st.integers(0, 60), st.fractions(0, 3), st.fractions(-BOUND_NOISE, BOUND_NOISE))
def test_no_bound_is_below_the_latency_if_noise_is_small(latency: int, longer: Fraction, noise: Fraction) -> None:
    """A mean of passes is never shorter than the latency; `longer` is what contention adds."""
    measured = max(Fraction(0), latency + longer + noise)
    assert (
        latency <= whole_cycles(LatencyResult(1, 2, measured, Bound.UPPER, "itself")).most <= measured + Fraction(1, 2)
    )
