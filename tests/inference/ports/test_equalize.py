"""Blocking instructions that make queues equally long, whatever the instruction's own µops wait for."""

from collections.abc import Generator, Sequence

import pytest

from inference.experiment import Measured, Request
from inference.ports.alone.isolation import isolated_of
from inference.ports.equalize import equalize_queues, equalizing
from inference.ports.probe import PortProbe
from inference.ports.usages.hypotheses import Answer, HypothesisSpace
from results.model import PortUsage
from tests.inference.oracle import Named, machine, sequence
from tests.inference.ports.test_infer import COUNTERS, HASWELL

P015 = frozenset("015")
DIV = "11*p0156+1*p01+7*p0+7*p1+3*p5+3*p6"
OTHER = "10*p0156+1*p015+1*p01+7*p0+7*p1+3*p5+3*p6"


@pytest.mark.parametrize(
    ("usage", "more"),
    [
        (DIV, {"1": 1, "5": 5}),
        ("3*p015+2*p6", {}),  # what has a choice levels itself
        ("2*p0+2*p1+2*p15+1*p06", {}),
        ("4*p5", {"0": 4, "1": 4}),
    ],
)
def test_ports_with_fewer_waiting_get_more(usage: str, more: dict[str, int]) -> None:
    blocking = machine(COUNTERS, HASWELL, width=4).blocking()
    blockers = equalizing(blocking, P015, PortUsage.parse(usage))
    assert not blockers.in_turns
    assert blockers.instructions[0].ports == P015
    behind = zip(blockers.instructions[1:], blockers.counts[1:], strict=True)
    assert {"".join(one.ports): count for one, count in behind} == more


def of_div(answer: Answer) -> Generator[Sequence[Request], Sequence[Measured], PortProbe]:
    """Return what asks on about DIV, of which two usages are left."""
    core = machine(COUNTERS, {**HASWELL, "DIV": DIV}, width=4)
    blocking = core.blocking()
    isolated = isolated_of(core.measure(Request(sequence("DIV"))), core.layout)
    space = HypothesisSpace(core.layout, isolated, blocking.sets(), {P015: answer})
    probe = PortProbe(Named("DIV"), blocking, space, blocking.sets())
    return equalize_queues(probe, [PortUsage.parse(text) for text in (OTHER, DIV)])


def test_a_usage_with_more_confined_than_ran_on_level_queues_is_excluded() -> None:
    procedure = of_div(Answer(19, exact=False))
    probe, measurements = machine(COUNTERS, {**HASWELL, "DIV": DIV}, width=4).answer(procedure)
    assert (str(probe.usage), measurements) == (str(PortUsage.parse(DIV)), 1)
    assert probe.indistinguishable == ()
    assert probe.space.answers[P015] == Answer(18, exact=False)


def test_as_many_as_before_leave_both_usages() -> None:
    other = machine(COUNTERS, {**HASWELL, "DIV": OTHER}, width=4)
    probe, _ = other.answer(of_div(Answer(19, exact=False)))
    assert probe.usage is None
    assert len(probe.indistinguishable) == 2


def test_an_exact_count_is_not_asked_about_again() -> None:
    with pytest.raises(StopIteration):
        next(of_div(Answer(18)))
