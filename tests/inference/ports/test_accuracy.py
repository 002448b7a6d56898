"""How far counters are off is seen, and what they may have made of a count is not stated."""

from fractions import Fraction

import pytest

from inference.latency.evidence import DRIFT
from inference.ports.alone.accuracy import EXACT, Accuracy, accuracy_of
from inference.ports.alone.isolation import Isolated
from inference.ports.alone.layout import PortLayout
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


OFF = [Fraction(off, 1000) for off in (17, -9, 4, -19, 12, 1, -14, 20, -6, -3, 9, -16, 15, -11, 6, -5, 18, -20, 2, 0)]
"""Errors of up to 2%, in no order."""


def accuracy(counts: list[Fraction], clock: list[Fraction]) -> Accuracy:
    """Return what is concluded from instructions of p0 and p1 by turns, with these errors."""
    layout = PortLayout.of(["p0", "p1"])
    observed = []
    for number, (more, slower) in enumerate(zip(counts, clock, strict=True)):
        uops = {"p0": Fraction(0), "p1": Fraction(0), f"p{number % 2}": 1 + more}
        observed.append((Isolated(uops, 1 + slower, 1), Fraction(0)))
    return accuracy_of(observed, layout)


def test_errors_by_chance_cancel_out_in_a_mean() -> None:
    found = accuracy(OFF, OFF[::-1])
    assert found.by_chance
    assert found.counts > Fraction(2, 100)
    assert found.mean_counts is not None
    assert 0 < found.mean_counts < Fraction(1, 100)


@pytest.mark.parametrize(
    "errors",
    [
        sorted(OFF),  # the next one is hardly another one: it drifts
        [off + Fraction(3, 100) for off in OFF],  # all are too high
        [off + Fraction(2 - 4 * (n % 2), 100) for n, off in enumerate(OFF)],  # p0 counts too much, p1 too little
        [off / 10 for off in OFF],  # the ends of a window are off as much
        OFF[:8],
    ],
)
def test_errors_that_may_have_a_cause_do_not(errors: list[Fraction]) -> None:
    found = accuracy(errors, errors)
    assert (found.mean_counts, found.mean_clock) == (None, None)


@pytest.mark.parametrize(
    ("machine", "by_chance"),
    [("random:job2:1001", (True, True)), ("random:drift:1001", (False, False)), ("random:4", (False, False))],
)
def test_it_is_seen_whether_errors_are_by_chance(machine: str, by_chance: tuple[bool, bool]) -> None:
    (blocking,) = context(machine, catalogue().by_string("ADC_11 (R64, R64)")).blocking.values()
    found = blocking.accuracy
    assert (found.mean_counts is not None, found.mean_clock is not None) == by_chance


@pytest.mark.parametrize(
    ("machine", "string"),
    [
        ("random:job2:8276", "VPMOVSXBW (XMM, M64)"),  # six µops: twice as many blocking ones are off by as many
        ("random:job2:8274", "BT (R64, I8)"),  # p01 or p05, where p1 and p5 share a counter
    ],
)
def test_the_mean_of_counts_that_are_off_by_chance_tells_a_usage(machine: str, string: str) -> None:
    found = characterized(machine, string)
    assert found.ports == open_machine(machine).truth(catalogue().by_string(string)).ports


def test_a_count_that_noise_made_a_uop_less_excludes_no_usage() -> None:
    """60.8 of 61 µops minus 60 blocking ones seemed to be none at most, so that p34B was stated as p348B."""
    found = characterized("random:job1:1001", "XADD_LOCK (M64, R64)")
    truth = open_machine("random:job1:1001").truth(catalogue().by_string("XADD_LOCK (M64, R64)")).ports
    assert found.ports in (None, truth)
