"""Port usage is found again on machines whose port usage is known."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.experiment import Measured, Request
from inference.ports.alone.isolation import Isolated, isolated_of
from inference.ports.alone.layout import PortLayout
from inference.ports.ask import ask
from inference.ports.infer import PortConclusion, infer_ports
from inference.ports.probe import PortProbe
from inference.ports.usages import every_usage
from inference.ports.usages.hypotheses import Answer, HypothesisSpace
from results.findings import FractionalUops, Indistinguishable, NoPorts, PortAnswer, TooManyUsages, UopsDisagree
from results.model import PortUsage
from tests.inference.oracle import Named, Oracle, machine, sequence
from tests.inference.simulated import characterized

HASWELL = {
    "ADD": "1*p0156",
    "SHL": "1*p06",
    "IMUL": "1*p1",
    "PSHUFD": "1*p5",
    "LEA": "1*p15",
    "JMP": "1*p6",
    "PADDD": "1*p15",
    "PAND": "1*p015",
    "MOVD": "1*p0",
    "MULPS": "1*p01",
    "LOAD": "1*p23",
    "STORE": "1*p237+1*p4",
}
COUNTERS = "p0 p1 p2 p3 p4 p5 p6 p7"


def infer(core: Oracle, name: str) -> tuple[PortConclusion, int]:
    blocking = core.blocking(stores=["STORE"])
    isolated = isolated_of(core.measure(Request(sequence(name))), core.layout)
    return core.answer(infer_ports(Named(name), isolated, blocking))


@pytest.mark.parametrize(
    "usage",
    [
        "1*p0156+1*p06",  # ADC on Haswell: alone, 0.5 on each of four ports
        "2*p015",
        "1*p015+1*p5",
        "1*p01+2*p5",
        "1*p23+1*p0156",
        "1*p23+1*p06+1*p0156+1*p237+1*p4",
        "3*p0156",
        "1*p237+1*p4",
        "2*p1+1*p0+1*p06",
        "4*p5",
        "1*p6+1*p06",
        "6*p0156+2*p06+1*p23",
        "12*p0156+4*p06+2*p5+1*p1+1*p237+1*p4",
    ],
)
def test_a_usage_that_isolation_does_not_show(usage: str) -> None:
    core = machine(COUNTERS, {**HASWELL, "X": usage}, width=4)
    conclusion, _ = infer(core, "X")
    assert str(conclusion.usage) == str(PortUsage.parse(usage)), conclusion


def test_adc_on_haswell_looks_like_half_a_uop_on_each_of_four_ports() -> None:
    core = machine(COUNTERS, {**HASWELL, "ADC": "1*p0156+1*p06"}, width=4)
    isolated = isolated_of(core.measure(Request(sequence("ADC"))), core.layout)
    assert [float(isolated.uops[f"p{port}"]) for port in "0156"] == pytest.approx([0.5] * 4, abs=0.02)


def test_one_uop_that_keeps_its_ports_busy_needs_no_blocking() -> None:
    core = machine(COUNTERS, HASWELL, width=4)
    conclusion, measurements = infer(core, "MULPS")
    assert str(conclusion.usage) == "1*p01"
    assert measurements == 0


def test_blocking_instructions_of_a_store_are_both_of_its_sets() -> None:
    blocking = machine(COUNTERS, HASWELL, width=4).blocking(stores=["STORE"])
    assert {frozenset("237"), frozenset("4")} <= set(blocking.instructions)


def test_ports_that_share_a_counter_are_told_apart_by_time() -> None:
    counters = "p0 p1 p23B p49 p5A p6 p78"
    known = {
        "ADD": "1*p0156A",
        "ADDI": "1*p0156",
        "SHUF": "1*p5",
        "PADD": "1*p15",
        "LEA": "1*p15A",
        "AND": "1*p015",
        "SHL": "1*p06",
        "MUL": "1*p1",
        "MOVD": "1*p0",
        "FMUL": "1*p01",
        "LOAD": "1*p23B",
        "STORE": "1*p49+1*p78",
    }
    stated = {
        usage
        for usage in ("1*p15+1*p23B", "1*p15A+1*p23B", "1*p0156+1*p5", "1*p0156A+1*p5", "1*p0156+1*p0156A", "2*p5")
        if is_stated(machine(counters, {**known, "X": usage}), "X", PortUsage.parse(usage))
    }
    assert stated == {"1*p15+1*p23B", "1*p15A+1*p23B", "1*p0156+1*p5", "2*p5"}
    beside = machine(counters, {**known, "X": "1*p0156A+1*p5"})
    assert {str(usage) for usage in left(beside, "X")} == {"1*p0156A+1*p5", "1*p016A+1*p5"}


@pytest.mark.parametrize(
    ("counters", "known", "usage", "width"),
    [
        # p28 beside p238: only p29 and p89A together, which have port 9 in common, leave out port 3
        ("p0 p1 p28 p39A p67", "p0A p16 p238 p29 p3 p89A", "1*p16+1*p238+1*p3", 6),
        # On three of the ports two µops run while four are issued per cycle
        ("p034 p126 p5", "p0 p01 p015 p05 p1 p15 p23", "1*p015+1*p15+1*p23", 4),
        # The same with so many µops that most of them wait for the fourth port
        ("p03 p1 p2 p4", "p0 p1 p2 p012 p01 p3", "2*p012+2*p01+1*p0", 4),
    ],
)
def test_time_tells_ports_that_share_a_counter(counters: str, known: str, usage: str, width: int) -> None:
    instructions = {f"A{number}": f"1*{ports}" for number, ports in enumerate(known.split())}
    assert is_stated(machine(counters, {**instructions, "X": usage}, width=width), "X", PortUsage.parse(usage))


def test_a_port_that_isolation_hides_shows_when_others_are_busy() -> None:
    """Alone, 1*p347A+1*p136 loads six ports evenly, as 1*p47A+1*p136 does. While port A is busy, it does not."""
    known = ["pA", "p347A", "p148", "p5678", "p1368A", "p13578A", "p136", "p9"]
    instructions = {f"A{number}": f"1*{ports}" for number, ports in enumerate(known)}
    core = machine("p1 p3 p4 p5 p6 p7 p8 p9 pA", {**instructions, "X": "1*p347A+1*p136"}, width=6)
    conclusion, _ = infer(core, "X")
    assert conclusion.usage == PortUsage.parse("1*p347A+1*p136"), conclusion
    blocked = [step.ports for step in conclusion.steps if isinstance(step, PortAnswer)]
    assert frozenset("A") in blocked


def test_a_set_without_blocking_instruction_is_found_by_blocking_two_others() -> None:
    core = machine(
        "p0 p1 p4 p5 p6",
        {"A": "1*p0", "B": "1*p5", "C": "1*p1", "D": "1*p6", "E": "1*p0156", "F": "1*p4", "X": "1*p05+1*p16"},
    )
    conclusion, _ = infer(core, "X")
    assert str(conclusion.usage) in {"1*p05+1*p16", "1*p16+1*p05"}, conclusion


def test_what_blocking_cannot_tell_apart_is_a_failure_and_no_number() -> None:
    core = machine("p0 p1 p5", {"A": "1*p01", "B": "1*p5", "X": "1*p0+1*p015"})
    conclusion, _ = infer(core, "X")
    assert conclusion.usage is None
    assert isinstance(conclusion.failure, Indistinguishable)
    assert "1*p015+1*p0" in map(str, conclusion.failure.usages)


def test_too_many_usages_to_list_are_not_said_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_usage, "MOST_TRIED", 3)
    core = machine("p0 p1 p5 p6", {"A": "1*p01", "B": "1*p56", "X": "1*p0+1*p015+1*p6"})
    conclusion, _ = infer(core, "X")
    assert conclusion.usage is None
    assert isinstance(conclusion.failure, TooManyUsages)


def test_a_usage_that_cannot_have_loaded_a_port_does_not_agree() -> None:
    layout = PortLayout.of(["p0", "p1", "p5A", "p6"])
    quarter = Fraction(1, 4)
    isolated = Isolated({"p0": quarter, "p1": quarter, "p5A": 2 * quarter, "p6": Fraction(2)}, Fraction(2), 3)
    space = HypothesisSpace(layout, isolated, ())
    assert space.agrees(PortUsage.parse("1*p0156A+2*p6"))
    assert not space.agrees(PortUsage.parse("1*p15A+2*p6"))


def test_half_a_uop_is_a_failure() -> None:
    core = machine(COUNTERS, {**HASWELL, "X": "1*p5"}, width=4)
    isolated = isolated_of(core.measure(Request(sequence("X", 1))), core.layout)
    broken = Isolated({**isolated.uops, "p0": isolated.uops["p0"] + Fraction(1, 2)}, isolated.cycles, 1)
    conclusion, _ = core.answer(infer_ports(Named("X"), broken, core.blocking()))
    assert conclusion.usage is None
    assert isinstance(conclusion.failure, FractionalUops)


sets_of_ports = st.frozensets(st.sampled_from("012345"), min_size=1, max_size=4)
sets_of_three = st.frozensets(st.sampled_from("012"), min_size=1, max_size=3)


def left(core: Oracle, name: str) -> tuple[PortUsage, ...]:
    """Return the usages that are named."""
    failure = infer(core, name)[0].failure
    assert isinstance(failure, Indistinguishable)
    return failure.usages


def is_stated(core: Oracle, name: str, usage: PortUsage) -> bool:
    conclusion, _ = infer(core, name)
    return conclusion.usage is not None and conclusion.usage.uops == usage.uops


def is_true(core: Oracle, name: str, usage: PortUsage) -> bool:
    """Return whether what is stated is true, or the truth is among what is named, or nothing is told."""
    conclusion, _ = infer(core, name)
    if conclusion.usage is not None:
        return conclusion.usage.uops == usage.uops
    if isinstance(conclusion.failure, Indistinguishable) and not conclusion.failure.others:
        return usage.uops in [one.uops for one in conclusion.failure.usages]
    return True


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_what_is_stated_is_true_on_random_machines_of_which_half_of_the_sets_are_hidden(data: st.DataObject) -> None:
    known = data.draw(st.lists(sets_of_ports, min_size=1, max_size=6, unique=True))
    hidden = data.draw(st.lists(sets_of_ports, min_size=1, max_size=6, unique=True))
    usage = PortUsage(dict(Counter(data.draw(st.lists(st.sampled_from(known + hidden), min_size=1, max_size=4)))))
    instructions = {f"I{position}": str(PortUsage({ports: 1})) for position, ports in enumerate(known)}
    width = data.draw(st.integers(2, 8))
    assert is_true(machine("p0 p1 p2 p3 p4 p5", {**instructions, "X": str(usage)}, width=width), "X", usage)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_every_usage_is_found_where_each_port_can_be_blocked(data: st.DataObject) -> None:
    usage = PortUsage(dict(Counter(data.draw(st.lists(sets_of_three, min_size=1, max_size=4)))))
    known = {**{f"I{port}": f"1*p{port}" for port in "0123"}, "WIDE": "1*p012"}
    core = machine("p0 p1 p2 p3", {**known, "X": str(usage)}, width=data.draw(st.integers(5, 8)))
    assert is_stated(core, "X", usage)


SKYLAKE = {
    "ADD": "1*p0156",
    "SHL": "1*p06",
    "IMUL": "1*p1",
    "PSHUFD": "1*p5",
    "LEA": "1*p15",
    "JMP": "1*p6",
    "PAND": "1*p015",
    "MULPS": "1*p01",
    "MOVD": "1*p0",
    "LOAD": "1*p23",
    "STORE": "1*p237+1*p4",
}


@pytest.mark.parametrize("usage", ["1*p16+1*p0", "1*p56+1*p0", "1*p016+1*p5", "1*p0+1*p1", "2*p01"])
def test_sets_that_no_other_instruction_has_are_found(usage: str) -> None:
    core = machine(COUNTERS, {**SKYLAKE, "X": usage}, width=4)
    assert is_stated(core, "X", PortUsage.parse(usage))


def test_a_port_that_ran_nothing_is_in_no_set() -> None:
    usage = PortUsage.parse("3*p1+1*p35+1*p0")
    known = {"A": "1*p012", "B": "1*p35", "C": "1*p0", "D": "1*p1", "E": "1*p4"}
    assert is_stated(machine("p0 p1 p2 p3 p4 p5", {**known, "X": str(usage)}, width=5), "X", usage)


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("usage", ["1*p0134+1*p013+1*p01+1*p34+1*p2", "2*p0134+2*p01+1*p34", "1*p0156+1*p01"])
def test_nothing_false_is_stated_of_a_core_that_issues_no_more_than_a_set_has_ports(usage: str, width: int) -> None:
    known = {"A": "1*p01", "B": "1*p0134", "C": "1*p2", "D": "1*p56"}
    core = machine("p0 p1 p2 p3 p4 p5 p6", {**known, "X": usage}, width=width)
    assert is_true(core, "X", PortUsage.parse(usage))


def test_a_load_that_cannot_keep_its_ports_busy_may_have_fewer_ports_than_a_store() -> None:
    """At two µops per cycle the three ports of loads are never busy, so no instruction shows that loads have these."""
    known = {"IMUL": "1*p15", "AND": "1*p16", "AES": "1*p1", "LOAD": "1*p237", "STORE": "1*p0237+1*p4"}
    usage = PortUsage.parse("1*p0237+1*p156+1*p237+1*p4")
    assert is_true(machine(COUNTERS, {**known, "X": str(usage)}, width=2), "X", usage)


def test_uops_that_their_own_counter_does_not_count_are_not_stated() -> None:
    core = machine(COUNTERS, HASWELL, width=4)
    isolated = isolated_of(core.measure(Request(sequence("MULPS"))), core.layout)
    conclusion, _ = core.answer(infer_ports(Named("MULPS"), replace(isolated, executed=4), core.blocking()))
    assert conclusion.usage is None
    assert conclusion.failure == UopsDisagree(4, 1)


def test_a_blocked_port_that_counts_wrong_tells_nothing() -> None:
    core = machine(COUNTERS, {**HASWELL, "X": "1*p01+1*p5"}, width=4)
    blocking = core.blocking()
    isolated = isolated_of(core.measure(Request(sequence("X"))), core.layout)
    space = HypothesisSpace(core.layout, isolated, blocking.sets())
    probe = PortProbe(Named("X"), blocking, space, blocking.sets())
    exact, _ = core.answer(ask(probe, frozenset("5")))
    assert exact.space.answers[frozenset("5")] == Answer(1)
    off, _ = Miscounting(core.layout, core.instructions, width=4).answer(ask(probe, frozenset("5")))
    assert not off.space.answers[frozenset("5")].exact


class Miscounting(Oracle):
    """A core whose counter of port 5 counts a µop of the instance less."""

    def measure(self, request: Request) -> Measured:
        measured = super().measure(request)
        return replace(measured, values={**measured.values, "p5": measured.values["p5"] - 1})


def test_a_usage_that_would_load_ports_with_a_shared_counter_otherwise_is_only_named() -> None:
    """FIST's address µop runs on p2, p3 and p7 of LLVM's Alder Lake, whose counters count p23B and p78."""
    failures = characterized("ADL-P", "FIST (M32, ST0, ST(0))").failures
    (found,) = (failure.why for failure in failures if isinstance(failure, NoPorts))
    assert isinstance(found, Indistinguishable)
    assert PortUsage.parse("1*p237+1*p49+1*p5") in found.usages
