"""Verdicts about ports by time: under the true names of ports, also where a set is none of the model's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from generator.sequences.blocking import CodeKind
from generator.sequences.filler import NOP, SlotFiller
from inference.ports.by_time.machine import TimedMachine, TimedSet
from inference.ports.infer import PortConclusion
from results.findings import Indistinguishable, Unplaced
from results.model import PortUsage
from runner.backends.sim import SimBackend, open_machine
from runner.verification.by_time import Renaming, Verdict, _renamed_verdict, renaming_of
from xed_convert.catalogue.catalogue import Catalogue

SANDY_BRIDGE = {
    "0": "MOV (M64, R64)",
    "01": "MOV (R64, M64)",
    "234": "ADD_01 (R64, R64)",
    "23": "VPABSB (XMM, XMM)",
    "2": "IMUL (R64, R64)",
}
"""Sets that seem to be there on a Sandy Bridge by time, with an instruction of each."""

STORE = PortUsage.parse("1*p23+1*p4")


def timed(sets: dict[str, str]) -> TimedMachine:
    catalogue = Catalogue.load()
    found = tuple(
        TimedSet(frozenset(ports), (string,), {CodeKind.WITHOUT_SSE: catalogue.by_string(string)})
        for ports, string in sets.items()
    )
    return TimedMachine(4, SlotFiller(NOP, 3), Fraction(0), found)


def renaming(sets: dict[str, str]) -> Renaming | None:
    catalogue = Catalogue.load()
    return renaming_of(timed(sets), SimBackend(open_machine("SNB"), catalogue, hide_counters=True), catalogue)


@pytest.fixture(scope="module")
def of_sandy_bridge() -> Renaming:
    found = renaming(SANDY_BRIDGE)
    assert found is not None
    return found


def test_a_set_of_stores_that_is_none_of_the_models_is_left_out(of_sandy_bridge: Renaming) -> None:
    names = {ports: {of_sandy_bridge.names[f"r{port}"] for port in ports} for ports in SANDY_BRIDGE}
    assert names["01"] == {"2", "3"}
    assert (names["234"], names["23"], names["2"]) == ({"0", "1", "5"}, {"1", "5"}, {"1"})
    assert of_sandy_bridge.shown - of_sandy_bridge.found == {frozenset("4")}


def test_ports_with_published_names_have_true_ones() -> None:
    """A port may have another one's published name: only sets show which is which."""
    catalogue = Catalogue.load()
    machine = replace(timed(SANDY_BRIDGE), names={"2": "p0", "3": "p1", "4": "p5"})
    found = renaming_of(machine, SimBackend(open_machine("SNB"), catalogue, hide_counters=True), catalogue)
    assert found is not None
    assert set(found.names) == {"p0", "p1", "p5", "r0", "r1"}
    assert found.names["p0"] == "1"
    assert found.has_all_of([PortUsage({frozenset({"p0", "p1"}): 1})])


def test_nothing_is_left_out_where_all_sets_are_the_models() -> None:
    found = renaming({ports: string for ports, string in SANDY_BRIDGE.items() if ports != "0"})
    assert found is not None
    assert found.shown == found.found


def test_there_is_no_renaming_if_more_sets_differ() -> None:
    assert renaming(dict.fromkeys(["01", "12", "23", "03"], "VPABSB (XMM, XMM)")) is None


@pytest.mark.parametrize(
    ("usage", "truth", "verdict"),
    [
        ("1*p1", "1*p1", Verdict.RIGHT),
        ("1*p5", "1*p1", Verdict.WRONG),
        ("1*p2", "1*p23+1*p4", Verdict.ALIKE),
        ("2*p23", "1*p23+1*p4", Verdict.WRONG),
    ],
)
def test_what_is_stated_is_right_or_alike_in_time_or_wrong(
    of_sandy_bridge: Renaming, usage: str, truth: str, verdict: Verdict
) -> None:
    stated = PortUsage.parse(usage)
    found = PortConclusion(stated)
    assert _renamed_verdict(found, [stated], PortUsage.parse(truth), of_sandy_bridge) is verdict


@pytest.mark.parametrize(
    ("named", "verdict"),
    [
        (["1*p1", "1*p1+1*p2"], Verdict.NAMED),
        (["1*p1", "1*p15+1*p2"], Verdict.NAMED_OTHERS),
    ],
)
def test_of_what_is_named_one_has_to_be_the_truth_or_alike(
    of_sandy_bridge: Renaming, named: list[str], verdict: Verdict
) -> None:
    usages = tuple(map(PortUsage.parse, named))
    found = PortConclusion(None, Indistinguishable(usages))
    assert _renamed_verdict(found, usages, PortUsage.parse("1*p1+1*p23+1*p4"), of_sandy_bridge) is verdict


def test_the_part_that_shows_is_compared_with_that_of_the_truth(of_sandy_bridge: Renaming) -> None:
    part = PortUsage.parse("1*p1")
    found = PortConclusion(None, Unplaced(part, 2))
    assert _renamed_verdict(found, [part], PortUsage.parse("1*p1+1*p015"), of_sandy_bridge) is Verdict.WRONG
    assert _renamed_verdict(found, [part], PortUsage.parse("1*p1+1*p0235"), of_sandy_bridge) is Verdict.VISIBLE


def test_ports_of_sets_that_are_left_out_have_no_names() -> None:
    found = renaming({"01": "MOV (R64, M64)", "23": "VPABSB (XMM, XMM)", "45": "VPABSB (XMM, XMM)"})
    assert found is not None
    assert found.has_all_of([PortUsage.parse("1*r01+1*r23")])
    assert not found.has_all_of([PortUsage.parse("1*r01"), PortUsage.parse("1*r45")])
