"""Chains through AH, BH, CH and DH, on cores that rename them apart from their registers, and on cores that do not."""

from __future__ import annotations

from functools import cache

import pytest

from generator.chains.plan import plan_latency
from generator.factory import InstructionFactory
from generator.operands.registers import name_among
from inference.characterizer import Characterizer
from results.machine.constants import core_of
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from simulator.judging.latency import judge, missing
from tests.inference.simulated import SimulatedLab, candidates, catalogue

MACHINES = (("HSW", "15"), ("SKL", "15"), ("SNB", "15"), ("random:7", "01"), ("HSW", ""))
"""Machines, and the ports on which they merge high bytes."""

VARIANTS = (
    "ADD_00 (R8h, R8l)",
    "CMPXCHG (R8h, R8h)",
    "LAHF",
    "MOV_88 (R8h, R8l)",
    "MOV_8A (R8l, R8h)",
    "MOVZX (R32, R8h)",
)


@cache
def machine(name: str, merge_ports: str) -> SimulatedLab:
    backend = SimBackend(open_machine(name).with_parameters(merge_ports=merge_ports), catalogue())
    characterizer = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    return SimulatedLab(characterizer, Session(Measurer(backend)))


@pytest.mark.parametrize("string", VARIANTS)
@pytest.mark.parametrize(("name", "merge_ports"), MACHINES)
def test_no_latency_and_no_port_through_a_high_byte_is_wrong(name: str, merge_ports: str, string: str) -> None:
    variant, model = catalogue().by_string(string), open_machine(name)
    if model.behaviour(variant) is None:
        pytest.skip(f"{name} has no {string}")
    one = machine(name, merge_ports)
    context = one.session.run_one(one.characterizer.prepare([variant]))
    found, truth = one.session.run_one(one.characterizer.characterize(variant, context)), model.truth(variant)
    assert found.ports in (None, truth.ports)
    assert {judge(variant, truth, each) for each in found.latencies} <= {"right", "bound", "not told"}
    assert missing(variant, truth, found.latencies) == []


@pytest.mark.parametrize("name", ["NHM", "SNB", "IVB", "HSW", "BDW", "SKL", "SKX"])
def test_cores_that_rename_high_bytes_apart_do_so_when_they_are_simulated(name: str) -> None:
    ports = core_of(name).partial_registers.merge_ports
    assert ports
    assert open_machine(name).parameters.merge_ports == ports


@pytest.mark.parametrize(
    ("string", "expected"),
    [
        ("ADD_00 (R8h, R8h)", 1),
        ("ADD_00 (R8l, R8l)", 1),
        ("ADD_00 (R8h, R8l)", 0),
        ("ADD_00 (R8l, R8h)", 0),
        ("MOV_88 (R8h, R8l)", 0),
    ],
)
def test_a_high_byte_and_a_low_one_are_not_the_same_register(string: str, expected: int) -> None:
    plan = plan_latency(InstructionFactory(catalogue()), catalogue().by_string(string))
    assert sum(pair.same_register for pair in plan.pairs) == expected


def test_names_are_found_among_those_of_other_widths_but_for_high_bytes() -> None:
    low, high = ("AL", "BL", "SPL"), ("AH", "BH")
    assert [name_among(low, name) for name in ("RBX", "EAX", "BL", "BH", "RDX")] == ["BL", "AL", "BL", "", ""]
    assert [name_among(high, name) for name in ("BH", "BL", "RBX")] == ["BH", "", ""]
    assert name_among(("XMM1", "XMM2"), "ZMM2") == "XMM2"
    assert name_among(("MM1", "MM2"), "MM2") == "MM2"
