"""Every kind of step and failure has a sentence, and failures of a kind have their reason in common."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given

from results import sentences
from results.findings import (
    KINDS,
    Blocked,
    Confined,
    FractionalUops,
    Indistinguishable,
    ManyInstances,
    NoLatency,
    NoPorts,
    PortAnswer,
    SlotsFound,
    Text,
    Unplaced,
)
from results.model import Failure, Form, LatencyKey, PortUsage, Step
from tests.nonempty import some
from tests.results import strategies


@given(strategies.steps)
def test_every_step_is_said_in_words(step: Step) -> None:
    assert isinstance(sentences.step(step), str)


@given(strategies.failures)
def test_every_failure_is_said_in_words_and_has_a_reason(failure: Failure) -> None:
    assert isinstance(sentences.failure(failure), str)
    assert "\n" not in sentences.reason(failure) or not isinstance(failure, Text)


def test_no_kind_is_without_words() -> None:
    for step in some(kind for kind in KINDS.values() if issubclass(kind, Step)):
        assert sentences.step.dispatch(step) is not sentences.step.dispatch(Step), step
    for failure in some(kind for kind in KINDS.values() if issubclass(kind, Failure)):
        assert sentences.failure.dispatch(failure) is not sentences.failure.dispatch(Failure), failure


def test_figures_are_in_the_sentence_and_not_in_the_reason() -> None:
    failures = [NoPorts(Form.PLAIN, FractionalUops(Fraction(number, 3))) for number in (4, 5)]
    assert len({sentences.failure(one) for one in failures}) == 2
    assert {sentences.reason(one) for one in failures} == {"no ports: the µops per port do not add up to an integer"}


def test_sentences_name_what_they_are_about() -> None:
    usages = (PortUsage.parse("1*p06"), PortUsage.parse("1*p0156"))
    answers = (Confined(frozenset("06"), 1), Confined(frozenset("0156"), 2, exact=False))
    assert sentences.failure(NoPorts(Form.SAME_REGISTER, Indistinguishable(usages, 3, answers))) == (
        "ports (same register): several port usages fit: 1*p06 or 1*p0156 or 3 others (answers: p06: 1, p0156: ≤2)"
    )
    none = PortUsage({})
    assert sentences.failure(Indistinguishable((none, usages[0]))).endswith("usages fit: no port or 1*p06")
    assert sentences.failure(Unplaced(none, None)).startswith("no port is known, and not how many issue slots")
    assert sentences.failure(Unplaced(usages[0], 1)).endswith(
        "; its issue slot may hold another µop, on more ports than can be kept busy"
    )
    assert sentences.failure(Unplaced(usages[0], 2)) == (
        "only 1*p06 is known of its 2 issue slots; the rest uses no port, or more ports than can be kept busy"
    )
    assert sentences.failure(Unplaced(none, 1)).startswith("no port is known of its 1 issue slot: it uses no port")
    assert sentences.failure(Unplaced(none, 3)).startswith("no port is known of its 3 issue slots: they use no port")
    assert sentences.failure(NoLatency(LatencyKey(1, 2, source_flag="CF"))) == ("latency CF→2: no chain could be built")


def test_answers_by_time_show_the_time_and_the_arithmetic() -> None:
    ports, kept = frozenset({"r0", "r3"}), Blocked(8, "VPABSB (XMM, XMM)")
    assert sentences.step(PortAnswer(ports, (kept,), Fraction(9), 8, timed=True)) == (
        "with r03 kept busy by 8 x VPABSB (XMM, XMM): 4.50 cycles x 2 ports - 8 = 1"
    )
    assert sentences.step(PortAnswer(ports, (kept,), Fraction(9), 8)) == (
        "with r03 kept busy by 8 x VPABSB (XMM, XMM): 9 µops on r03 - 8 = 1"
    )
    assert sentences.step(ManyInstances(frozenset({"r0"}), kept, 6, Fraction(11))) == (
        "with r0 kept busy by 8 x VPABSB (XMM, XMM), 6 instances: at most (11.00 cycles x 1 port - 8) / 6 = 0.50 each"
    )
    one = sentences.failure(Unplaced(PortUsage.parse("1*r56"), 1))
    assert one.startswith("only 1*r56 is known;")


def test_the_arithmetic_of_answers_by_time_can_be_followed_by_hand() -> None:
    kept = Blocked(24, "ANDN (R64, R64, R64)")
    ports = frozenset({"r0", "r1", "r2", "r3"})
    answers = [
        PortAnswer(ports, (kept,), Fraction(total), 24, timed=True) for total in ("29.0531", "23.9961", "25.0061", "26")
    ]
    slots = SlotsFound(Blocked(48, "MOV_89 (R64, R64)"), Fraction("8.2049"), Fraction("5.9741"))
    found = [
        re.search(r": (.+?)(?: cycles)? x (.+?)(?: ports)? - (\d+) = (-?[\d.]+)", one)
        for one in map(sentences.step, (*answers, slots))
    ]
    for match in some(found):
        assert match is not None
        cycles, factor, less, result = map(float, match.groups())
        assert cycles * factor - less == pytest.approx(result, abs=0.01)
    assert sentences.step(answers[0]).endswith("7.263 cycles x 4 ports - 24 = 5.05")
    assert sentences.step(answers[1]).endswith("= 0.00")
    assert sentences.step(answers[3]).endswith("6.50 cycles x 4 ports - 24 = 2")
