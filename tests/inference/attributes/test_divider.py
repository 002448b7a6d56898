"""How long the divider is busy, by time alone: what a simulated divider does is found again, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.operands.values import kinds_of
from generator.sequences.throughput import LENGTHS, ThroughputFactory
from inference.attributes.divider import _judged, measure_divider
from inference.builder import ConclusionBuilder
from inference.characterizer import Characterizer
from inference.experiment import Procedure, Want
from inference.throughput import Search
from results.campaign.tagged import decode_step, encode_tagged
from results.findings import DivisionTimes
from results.machine.file import read_machine
from results.model import Form
from results.sentences import step
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from simulator.machines.machine import MachineModel
from simulator.machines.measured import machine_of
from tests.inference.simulated import candidates, catalogue
from tests.shared import measured_haswell

if TYPE_CHECKING:
    from results.machine.graph import Behaviour
    from xed_convert.model import InstructionVariant


def divided(machine: MachineModel, string: str, counters: tuple[str, ...] = ("core_cycles",)) -> ConclusionBuilder:
    """Find out how long a variant keeps the divider busy, with nothing but these counters."""
    backend = SimBackend(machine, catalogue())
    capabilities = replace(backend.info().capabilities, counters=counters, ports=())
    context = Characterizer(catalogue(), capabilities, candidates=candidates(), by_time=False).prepared({})

    def procedure() -> Procedure[ConclusionBuilder]:
        found = ConclusionBuilder(catalogue().by_string(string))
        search = Search(ThroughputFactory(context.instructions, found.variant), kinds_of(found.variant)[0])
        yield from search.measure([search.shape(LENGTHS[0])], Want.CYCLES)
        found.first = found.fastest = search.unrolled[0]
        yield from measure_divider(found, context)
        return found

    return Session(Measurer(backend)).run_one(procedure())


@pytest.mark.parametrize(
    ("name", "string"),
    [
        ("SKX", "DIVSD (XMM, XMM)"),
        ("SKX", "VDIVPD (YMM, YMM, YMM)"),
        ("HSW", "SQRTPD (XMM, M128)"),
        ("ICX", "DIVPD (XMM, XMM)"),
        ("SKX", "DIV (R8l)"),
    ],
)
def test_what_an_instance_takes_of_the_divider_is_found_among_divisions(name: str, string: str) -> None:
    machine = open_machine(name)
    found = divided(machine, string)
    behaviour = machine.behaviour(found.variant)
    assert behaviour is not None
    assert found.attributes == {
        "div_cycles": sum(uop.divider_cycles for uop in behaviour.uops),
        "div_cycles_by_time": 1,
    }


FLOATS = dict.fromkeys(("DIVPS (XMM, XMM)", "DIVPD (XMM, XMM)"), "p0 4 <* >*")
INTEGERS = {
    "DIV (R32)": "p1 18 <* div=6; p06 1 <u1 >*",
    "IDIV (R32)": "p1 18 <* div=8; p06 1 <u1 >*",
    "IDIV (R64)": "p1 20 <* div=9; p06 1 <u1; p06 1 <u2 >*",
}
"""A divider that only integers use."""


def test_integers_that_have_a_divider_of_their_own_stand_among_integers() -> None:
    found = divided(open_machine("SKX").changed(FLOATS | INTEGERS), "IDIV (R64)")
    assert found.attributes == {"div_cycles": 9, "div_cycles_by_time": 1}


def test_divisions_of_as_many_slots_as_cycles_may_only_share_a_port() -> None:
    shared = {name: ";".join(["p1 3 <*", *["p1 3 <u1"] * 9, "p1 3 <u2 >*"]) for name in INTEGERS}
    found = divided(open_machine("SKX").changed(FLOATS | shared), "IDIV (R64)")
    assert not found.attributes
    (steps,) = [one.steps for one in found.derivations]
    assert all(isinstance(one, DivisionTimes) and one.left is None for one in steps)
    assert [step(one).count("DIV (R32)") for one in steps] == [0, 0, 1, 1]


def test_divisions_that_something_else_delays_do_not_count() -> None:
    """Of 7.97 cycles each, 18 are half a cycle off: the rest would be as much too long."""
    times = [Fraction(number, 100) for number in (15354, 22504, 29704)]
    assert _judged("DIVPD (XMM, XMM)", (18, 27, 36), times).left is None
    assert _judged("DIVPD (XMM, XMM)", (18, 27, 36), [Fraction(153), Fraction(225), Fraction(297)]).left == 9


def test_divisions_that_other_uops_delay_do_not_count() -> None:
    found = divided(open_machine("SKX"), "VSQRTPS_Z (ZMM, K, M512)")
    assert [step(one).split(", ")[-1] for one in found.derivations[0].steps] == [
        "the rest is the instance's: 13",  # more than the 12 cycles in which instances follow each other
        "the rest is the instance's: 12",
    ]
    assert found.attributes["div_cycles"] == 12


def busier(machine: MachineModel, string: str, form: Form, more: int) -> MachineModel:
    """Return a machine on which another form of a variant keeps the divider busy for so many cycles more."""

    def lookup(variant: InstructionVariant) -> Behaviour | None:
        behaviour = machine.lookup(variant)
        if behaviour is None or variant.string != string:
            return behaviour
        uops = tuple(
            replace(one, divider_cycles=one.divider_cycles + more) if one.divider_cycles else one
            for one in behaviour.uops
        )
        busy = replace(behaviour, uops=uops)
        return replace(behaviour, indexed=busy) if form is Form.INDEXED else replace(behaviour, same_register=busy)

    return MachineModel(machine.name, machine.parameters, machine.origin, lookup, machine.stand_ins)


@pytest.mark.parametrize(
    ("string", "form"), [("VDIVPS (XMM, XMM, XMM)", Form.SAME_REGISTER), ("VDIVPS (XMM, XMM, M128)", Form.INDEXED)]
)
def test_a_counter_says_that_another_form_keeps_the_divider_busy_for_longer(string: str, form: Form) -> None:
    found = []
    for more in (0, 3):
        backend = SimBackend(busier(open_machine("HSW"), string, form, more), catalogue())
        method = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
        session, variant = Session(Measurer(backend)), catalogue().by_string(string)
        context = session.run_one(method.prepare([variant]))
        attributes = session.run_one(method.characterize(variant, context)).attributes
        found.append({name: count for name, count in attributes.items() if name.startswith("div_cycles")})
    usual = found[0]["div_cycles"]
    assert found == [{"div_cycles": usual}, {"div_cycles": usual, f"div_cycles{form.suffix}": usual + 3}]


def test_a_machine_from_a_file_has_the_cycles_of_the_file() -> None:
    found = divided(machine_of(read_machine(measured_haswell())), "VDIVPS (XMM, XMM, XMM)")
    assert found.attributes["div_cycles"] == 7


def test_what_shares_only_the_port_keeps_no_divider_busy() -> None:
    machine = open_machine("SKX").changed({"VSQRTSD (XMM, XMM, XMM)": "p0 6 <*; p0 6 <u1; p0 6 <u2 >*"})
    found = divided(machine, "VSQRTSD (XMM, XMM, XMM)")
    assert not found.attributes
    assert step(found.derivations[0].steps[0]).endswith("each division takes 3.00, the rest is unclear")


def test_the_derivation_has_the_times() -> None:
    found = divided(open_machine("SKX"), "DIVSD (XMM, XMM)")
    text = step(found.derivations[0].steps[0])
    assert text.startswith("among divisions (DIVPS (XMM, XMM)): 40.00 cycles with 12, 58.00 cycles with 18")
    assert text.endswith("each division takes 3.00, the rest is the instance's: 4")


def test_the_derivation_can_be_stored_and_read() -> None:
    (one,) = divided(open_machine("SKX"), "DIVSD (XMM, XMM)").derivations
    assert [decode_step(json.loads(json.dumps(encode_tagged(each)))) for each in one.steps] == list(one.steps)


def test_where_a_counter_says_it_nothing_is_timed() -> None:
    found = divided(open_machine("SKX"), "DIVSD (XMM, XMM)", ("core_cycles", "divider_active"))
    assert not found.attributes
    assert not found.derivations


def test_only_instructions_whose_time_depends_on_values_are_asked() -> None:
    assert not divided(open_machine("SKX"), "ADDPD (XMM, XMM)").derivations
