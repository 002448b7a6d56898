"""What happens at rename: idioms, divided µops, and registers that are only written but waited for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from generator.sequences.renaming import only_written
from generator.sequences.throughput import ThroughputFactory
from inference.characterizer import Characterizer
from results.machine.file import read_machine
from results.sentences import lines
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from simulator.machines.measured import machine_of
from tests.inference.simulated import candidates, catalogue
from tests.shared import measured_haswell

if TYPE_CHECKING:
    from results.model import Characterization
    from simulator.machines.machine import MachineModel

WAITING = {"POPCNT (R64, R64)": "p1 3 <1 <2 >*"}
"""A false dependency on operand 1."""


@cache
def machine(name: str) -> MachineModel:
    if name == "measured":
        return machine_of(read_machine(measured_haswell()))
    return open_machine("HSW").changed(WAITING)


@cache
def characterized(name: str, string: str) -> Characterization:
    backend = SimBackend(machine(name), catalogue())
    method = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    session, variant = Session(Measurer(backend)), catalogue().by_string(string)
    context = session.run_one(method.prepare([variant]))
    return session.run_one(method.characterize(variant, context))


@pytest.mark.parametrize(
    ("name", "string", "cycles"),
    [
        ("model", "POPCNT (R64, R64)", 3),
        ("model", "SETB (R8l)", 1),  # eight bits are merged with the rest
        ("model", "MOVZX (R16, R8l)", 1),
        ("model", "MOVZX (R32, R8l)", None),
        ("model", "PABSB (XMM, XMM)", None),
        ("measured", "MULX (R64, R64, R64)", None),
    ],
)
def test_a_register_that_is_only_written_is_waited_for_where_the_machine_does(
    name: str, string: str, cycles: int | None
) -> None:
    found = characterized(name, string)
    assert found.attributes.get("result_dependency") == cycles


def test_the_derivation_says_what_was_compared() -> None:
    found = characterized("model", "POPCNT (R64, R64)")
    (derivation,) = (one for one in found.derivations if one.quantity == "result_dependency")
    assert lines(derivation) == [
        "3.00 cycles, 1.00 if each result is overwritten at once: the instruction waits for its destination register"
    ]


@pytest.mark.parametrize(
    ("string", "attribute"),
    [
        ("XOR_31 (R64, R64)", "zero_idiom"),
        ("VPCMPGTQ (XMM, XMM, XMM)", "zero_idiom"),
        ("ADD_01 (R64, R64)", None),
    ],
)
def test_idioms_are_named_after_what_they_break_and_need(string: str, attribute: str | None) -> None:
    found = characterized("measured", string).attributes.keys() & {"zero_idiom", "dependency_breaking"}
    assert found == ({attribute} if attribute else set())


def test_a_broken_dependency_that_needs_a_port_is_no_zero_idiom() -> None:
    attributes = characterized("model", "PCMPGTD (MM, MM)").attributes
    assert attributes["dependency_breaking"] == 1
    assert "zero_idiom" not in attributes


def test_uops_that_are_divided_with_an_index_are_counted() -> None:
    attributes = characterized("measured", "ADD (M64, R64)").attributes
    assert attributes["unlaminated_indexed"] == 1
    assert "unlaminated" not in attributes


def test_a_move_to_itself_is_counted_where_others_are_eliminated() -> None:
    found = characterized("measured", "MOV_89 (R64, R64)")
    assert (found.uops, found.attributes["uops_same_reg"]) == (0, 1)
    (derivation,) = (one for one in found.derivations if one.quantity == "uops_same_reg")
    assert lines(derivation) == ["a move of a register to itself executes 1.00 µops"]


@pytest.mark.parametrize(
    ("string", "expected"),
    [
        ("POPCNT (R64, R64)", True),
        ("IMUL (R64, R64)", False),
        ("MOV (M64, R64)", False),
        ("CMOVZ (R64, R64)", False),
        ("MULX (R64, R64, R64)", False),
    ],
)
def test_only_instructions_with_one_register_that_is_only_written_are_asked(string: str, expected: bool) -> None:
    assert only_written(ThroughputFactory(candidates().instructions, catalogue().by_string(string))) == expected
