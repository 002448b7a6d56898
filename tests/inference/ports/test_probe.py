"""What a set of ports ran while it was blocked, by counters and by time."""

from dataclasses import replace
from fractions import Fraction

import pytest

from inference.experiment import Measured, Request
from inference.ports.alone.accuracy import Accuracy
from inference.ports.alone.isolation import Isolated
from inference.ports.blocking_instructions import Blockers
from inference.ports.load import load_beside, load_of
from inference.ports.probe import PortProbe
from inference.ports.usages.hypotheses import HypothesisSpace
from results.model import PortUsage, Status
from tests.inference.oracle import Named, machine, sequence

P05 = frozenset("05")


@pytest.mark.parametrize(
    ("cycles", "p0", "p5a", "count", "busy"),
    [
        (6, 6, 7, 2, True),
        (6, Fraction(11, 2), 7, Fraction(3, 2), True),  # p0 was idle for half a cycle, as its counter says
        (6, 5, 7, 1, False),
        (5, Fraction(11, 2), 6, 1, True),  # no port runs more than a µop per cycle
    ],
)
def test_of_ports_with_a_shared_counter_time_tells_and_of_others_their_counters(
    cycles: int, p0: Fraction, p5a: int, count: Fraction, busy: bool
) -> None:
    core = machine("p0 p1 p5A", {"A": "1*p05", "B": "1*p1", "X": "1*p05+1*p015"})
    blocking = core.blocking()
    isolated = Isolated({"p0": Fraction(1), "p1": Fraction(0), "p5A": Fraction(1)}, Fraction(1), 2)
    probe = PortProbe(Named("X"), blocking, HypothesisSpace(core.layout, isolated, ()), (P05,))
    blockers = Blockers((blocking.instructions[P05],), (10,))
    assert blockers.usage == PortUsage({P05: 10})
    values = {"p0": Fraction(p0), "p1": Fraction(0), "p5A": Fraction(p5a), "core_cycles": Fraction(cycles)}
    load = load_of(probe, Measured(Request(sequence("X")), Status.OK, values, {}), blockers, P05)
    assert (load.count, load.busy) == (count, busy)


def test_the_larger_of_two_numbers_that_are_off_by_chance_is_not_taken_for_the_time() -> None:
    core = machine("p0 p1", {"A": "1*p0"})
    percent = Fraction(3, 100)
    values = {"p0": Fraction(101), "p1": Fraction(0), "core_cycles": Fraction(99)}
    measured = Measured(Request(sequence("A")), Status.OK, values, {})

    def time(accuracy: Accuracy) -> Fraction:
        blocking = replace(core.blocking(), accuracy=accuracy)
        return load_beside(measured, PortUsage({frozenset("0"): 100}), frozenset("0"), blocking).time

    assert time(Accuracy(percent, percent)) == 1  # a port ran 101 µops, so it takes 101 cycles
    assert time(Accuracy(percent, percent, percent / 10, percent / 10)) == -1
    assert time(Accuracy(percent / 10, percent / 10, Fraction(0), Fraction(0))) == 1


def test_two_sets_of_like_size_block_their_union_before_others() -> None:
    known = {"A": "1*p6", "B": "1*p015", "C": "1*p06", "D": "1*p15", "E": "1*p05"}
    core = machine("p0 p1 p5 p6", {**known, "X": "4*p0156"})
    isolated = Isolated(dict.fromkeys(core.layout.counters, Fraction(1)), Fraction(1), 4)
    probe = PortProbe(Named("X"), core.blocking(), HypothesisSpace(core.layout, isolated, ()), ())
    pairs = [[one.variant.iform for one in blockers.instructions] for blockers in probe.choices(frozenset("0156"))]
    assert pairs == [["C", "D"], ["A", "B"]]
    assert len(probe.choices(P05)) == 1


def test_three_sets_apart_block_their_union_last_the_smallest_ones() -> None:
    known = {"A": "1*p0", "B": "1*p5", "C": "1*p6", "D": "1*p06", "E": "1*p1"}
    core = machine("p0 p1 p5 p6", {**known, "X": "2*p0156"})
    isolated = Isolated(dict.fromkeys(core.layout.counters, Fraction(1, 2)), Fraction(1), 2)
    probe = PortProbe(Named("X"), core.blocking(), HypothesisSpace(core.layout, isolated, ()), ())
    blocked = [[one.variant.iform for one in blockers.instructions] for blockers in probe.choices(frozenset("056"))]
    assert blocked == [["B", "D"], ["A", "B", "C"]]
