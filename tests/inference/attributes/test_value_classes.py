"""Classes of operand values: simulated dividers and cores with microcode for some values are found out."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from generator.chains.value_classes import timed_classes
from generator.factory import InstructionFactory
from generator.operands.value_classes import USUAL, classes_of
from inference.attributes.value_classes import differs, measure_value_classes
from inference.builder import ConclusionBuilder
from inference.characterizer import Characterizer
from inference.experiment import Measured, Request
from results.model import VALUE_CLASSES, Status
from results.sentences import lines
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from tests.inference.simulated import candidates, catalogue

if TYPE_CHECKING:
    from inference.context import Context
    from results.model import Characterization

DIVIDERS = {
    "DIVPS (XMM, XMM)": "p0 13 <1 <2 >1 div=7 fast=9/4",
    "VDIVPD (YMM, YMM, YMM)": "p0 28 <2 <3 >1 div=16 fast=12/8",
    "SQRTSD (XMM, XMM)": "p0 20 <2 >1 div=13 fast=10/6",
}
"""Pi has more bits than 2.0, so it is not fast. Nothing else on the machine looks at values."""

SIMULATED = {
    "DIVPS (XMM, XMM)": 4,
    "VDIVPD (YMM, YMM, YMM)": 16,
    "SQRTSD (XMM, XMM)": 10,
    "MULPS (XMM, XMM)": 0,
    "VFMADD231PD (XMM, XMM, XMM)": 0,
    "PDEP (R64, R64, R64)": 0,
    "SHL (R64, CL)": 0,
    "IMUL (R64, R64)": 0,
}
"""Cycles that long mantissas take more."""


@cache
def context() -> tuple[Session, Context]:
    backend = SimBackend(open_machine("HSW").changed(DIVIDERS), catalogue())
    method = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    session = Session(Measurer(backend))
    return session, session.run_one(method.prepare([catalogue().by_string(name) for name in SIMULATED]))


def concluded(string: str) -> Characterization:
    session, shared = context()
    found = ConclusionBuilder(catalogue().by_string(string))
    session.run_one(measure_value_classes(found, shared))
    return found.build()


@pytest.mark.parametrize(("string", "more"), SIMULATED.items())
def test_a_simulated_divider_is_found_out_and_nothing_else(string: str, more: int) -> None:
    found = concluded(string)
    assert found.attributes == ({"slower_with_long_mantissas": more} if more else {})
    assert [one.quantity for one in found.derivations] == [VALUE_CLASSES] * bool(more)


def test_the_derivation_has_the_values_and_the_time_of_each_class() -> None:
    (derivation,) = concluded("DIVPS (XMM, XMM)").derivations
    said = lines(derivation)
    assert said[0].startswith("usual (op1 = 0x4000000040000000, op2 = 0x4000000040000000): ")
    assert any(one.startswith("denormals (op1 = 0x40000000400000, op2 = 0x40000000400000): ") for one in said)
    assert len(said) == len(derivation.experiments) == 8


def test_cycles_of_a_core_with_microcode_for_denormals_are_noted() -> None:
    """Answers of a made-up core: denormals take 150 cycles more, NaNs 2 fewer, zeros as long within noise."""
    _, shared = context()
    found = ConclusionBuilder(catalogue().by_string("MULPS (XMM, XMM)"))
    cycles = {"denormals": Fraction(156), "nans": Fraction(4), "zeros": Fraction(64, 10)}
    names = [one.name for one in classes_of(found.variant)]
    procedure = measure_value_classes(found, shared)
    requests = next(procedure)
    with pytest.raises(StopIteration):
        procedure.send(
            [measured(one, cycles.get(name, Fraction(6))) for one, name in zip(requests, names, strict=True)]
        )
    assert found.attributes == {"slower_with_denormals": 150, "faster_with_nans": 2}


def measured(request: Request, cycles: Fraction, spread: Fraction = Fraction(0)) -> Measured:
    return Measured(request, Status.OK, {"core_cycles": cycles}, {"core_cycles": spread})


def test_noise_is_no_difference() -> None:
    (_, code), *_ = timed_classes(InstructionFactory(catalogue()), catalogue().by_string("MULPS (XMM, XMM)"))
    usual = measured(Request(code), Fraction(6))
    assert differs(usual, measured(Request(code), Fraction(7)))
    assert not differs(usual, measured(Request(code), Fraction(7), Fraction(1, 3)))
    assert not differs(measured(Request(code), Fraction(100)), measured(Request(code), Fraction(102)))


def test_classes_are_by_the_type_of_what_is_read() -> None:
    def names(string: str) -> dict[str, dict[str, int]]:
        return {one.name: dict(one.places) for one in classes_of(catalogue().by_string(string))}

    assert names("CVTPS2PD (XMM, XMM)")["denormals"] == {"op2": 0x0040000000400000}
    assert names("VFMADD231PD (YMM, YMM, YMM)")["nans"] == dict.fromkeys(("op1", "op2", "op3"), 0x7FF8000000000000)
    assert names("MULSD (XMM, XMM)")["last_denormal"] == {"op1": 0x4000000000000000, "op2": 0x0008000000000000}
    assert names("SHL (R64, CL)") == {USUAL: {"RCX": 1}, "count_0": {"RCX": 0}, "count_7": {"RCX": 7}}
    assert names("PEXT (R64, R64, R64)")["mask_full"] == {"op3": 0xFFFFFFFFFFFFFFFF}
    assert names("MUL (R64)")["ones"] == {"op1": 0x7FFFFFFFFFFFFFFF, "RAX": 1}
    assert names("MOVSB_REPE")["length_64"] == {"RCX": 64}
    assert names("ANDPS (XMM, XMM)") == {}
    assert names("ADD_01 (R64, R64)") == {}


@pytest.mark.parametrize("string", ["MULPS (XMM, XMM)", "PDEP (R64, R64, R64)", "MOVSB_REPE", "COMISD (XMM, XMM)"])
def test_classes_differ_in_the_setup_alone(string: str) -> None:
    codes = [code for _, code in timed_classes(InstructionFactory(catalogue()), catalogue().by_string(string))]
    assert len({tuple(line.code for line in code.setup) for code in codes}) == len(codes) > 2
    bodies = {tuple(line.text.split(",")[0] for line in code.body) for code in codes}
    assert len(bodies) == 1
