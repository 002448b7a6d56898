"""How far counters are off is seen, and what they may have made of a count is not stated."""

from fractions import Fraction

import pytest

from inference.latency.evidence import DRIFT
from inference.ports.alone.accuracy import EXACT
from runner.backends.sim import open_machine
from tests.inference.simulated import catalogue, characterized, context

ONE_PERCENT = Fraction(12, 1000)
"""What factors within 1% in two jobs make of a value per copy (`CounterNoise.hidden_share`)."""


@pytest.mark.parametrize(
    ("machine", "least", "most"),
    [
        ("random:job1:1001", ONE_PERCENT / 2, 2 * ONE_PERCENT),
        ("random:job2:1001", ONE_PERCENT, 4 * ONE_PERCENT),
        ("random:drift:1001", Fraction(0), Fraction(0)),  # the clock drifts, counts do not
    ],
)
def test_it_is_seen_how_far_counts_are_off(machine: str, least: Fraction, most: Fraction) -> None:
    (blocking,) = context(machine, catalogue().by_string("ADC_11 (R64, R64)")).blocking.values()
    accuracy = blocking.accuracy
    assert least <= accuracy.counts <= most
    assert accuracy.clock > 0


@pytest.mark.parametrize(("machine", "drifts"), [("random:sample2:1001", False), ("random:drift:1001", True)])
def test_what_samples_of_one_job_show_is_no_drift(machine: str, *, drifts: bool) -> None:
    (blocking,) = context(machine, catalogue().by_string("ADC_11 (R64, R64)")).blocking.values()
    assert (blocking.accuracy.clock >= DRIFT) is drifts


@pytest.mark.parametrize("machine", ["SKL", "ADL-P", "random:4"])
def test_exact_counters_are_not_doubted(machine: str) -> None:
    blocking = context(machine, catalogue().by_string("ADC_11 (R64, R64)")).blocking
    assert {one.accuracy for one in blocking.values()} == {EXACT}


def test_a_count_that_noise_made_a_uop_less_excludes_no_usage() -> None:
    """60.8 of 61 µops minus 60 blocking ones seemed to be none at most, so that p34B was stated as p348B."""
    found = characterized("random:job1:1001", "XADD_LOCK (M64, R64)")
    truth = open_machine("random:job1:1001").truth(catalogue().by_string("XADD_LOCK (M64, R64)")).ports
    assert found.ports in (None, truth)
