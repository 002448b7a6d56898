"""Producers: a simulated machine on which some matter is found out, and others have nothing of it."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from generator.chains.plan import plan_latency
from generator.chains.producers import COPIES, produced_chains
from generator.factory import InstructionFactory
from inference.attributes.producers import measure_producers
from inference.builder import ConclusionBuilder
from inference.experiment import Measured
from inference.variant import characterize_variant
from results.model import PRODUCERS, Bound, Status
from results.sentences import lines
from tests.inference.simulated import catalogue, context, simulated

if TYPE_CHECKING:
    from generator.chains.producers import ProducedChain
    from inference.experiment import Request
    from results.model import Characterization

SLOWER = {
    "SHLX (R64, R64, R64)": {"slower_after_mov_imm64": 2, "slower_after_add_imm": 2, "slower_after_inc": 2},
    "ADDPS (XMM, XMM)": {"slower_after_dirty_uppers": 1},
    "POPCNT (R64, R64)": {"slower_after_add_imm": 2, "slower_after_inc": 2},
    "XOR_31 (R64, R64)": {"slower_after_alu32": 1},
    "MOVSXD (R64, M32)": {"slower_after_inc": 1},
    "PADDW (MM, MM)": {"slower_after_shuffle": 1},
    "FSQRT (ST0, ST(0))": {"slower_after_add": 2},
    "SHRX (R64, R64, R64)": {},
    "TZCNT (R64, R64)": {},
    "PADDB (MM, MM)": {},
    "ADD_01 (R64, R64)": {},
    "CMP_39 (R64, R64)": {},
    "ADDPD (XMM, XMM)": {},
    "VADDPS (YMM, YMM, YMM)": {},
    "VFMADD231PS (YMM, YMM, YMM)": {},
    "MOV (R64, M64)": {},
}
"""Cycles more on the machine with the rules of `simulator/models/late_forms.tsv`."""


@cache
def concluded(machine: str, string: str) -> Characterization:
    variant = catalogue().by_string(string)
    return simulated(machine).session.run_one(characterize_variant(variant, context(machine, variant)))


def slower(found: Characterization) -> dict[str, int]:
    return {name: cycles for name, cycles in found.attributes.items() if name.startswith("slower_after")}


@pytest.mark.parametrize(("string", "expected"), SLOWER.items())
def test_a_machine_on_which_producers_matter_is_found_out(string: str, expected: dict[str, int]) -> None:
    found = concluded("HSW:producer", string)
    assert slower(found) == expected
    assert len([one for one in found.derivations if one.quantity == PRODUCERS]) == bool(expected)


@pytest.mark.parametrize("string", SLOWER)
def test_other_machines_have_nothing_of_it(string: str) -> None:
    """Nor do the late forms change a latency, since no chain has such a producer."""
    found, plain = concluded("HSW:producer", string), concluded("HSW", string)
    exact = {one.key: one.cycles for one in found.latencies if one.bound is Bound.EXACT}
    assert exact == {one.key: one.cycles for one in plain.latencies if one.bound is Bound.EXACT}
    assert slower(plain) == {}


def test_the_derivation_has_the_code_and_the_time_of_each_producer() -> None:
    found = concluded("HSW:producer", "SHLX (R64, R64, R64)")
    (derivation,) = (one for one in found.derivations if one.quantity == PRODUCERS)
    said = lines(derivation)
    assert said[0].startswith("operand 3 after mov imm32 (MOV ")
    assert said[0].endswith(": 2.00 cycles")
    assert [one for one in said if one.endswith(": 4.00 cycles")] == said[1:4]
    assert len(said) == len(derivation.experiments)


def chains_of(string: str) -> list[ProducedChain]:
    return list(produced_chains(plan_latency(InstructionFactory(catalogue()), catalogue().by_string(string))))


def answered(behind: dict[str, Fraction], *, spread: Fraction = Fraction(0), once: int = 0) -> dict[str, int]:
    """Return what is noted of ADD if a copy takes so many cycles behind each producer (else 2).

    `once` are cycles less in the longer code: those that are not the copies'.
    """
    string = "ADD_01 (R64, R64)"
    grouped = Fraction(chains_of(string)[0].groups * 3)
    found = ConclusionBuilder(catalogue().by_string(string))
    shared = context("HSW", found.variant)
    plan = plan_latency(InstructionFactory(catalogue()), found.variant)
    cycles = {one.benchmark.id: behind.get(one.name, Fraction(2)) * COPIES for one in chains_of(string)[0].alone}
    cycles |= {
        one.longer.id: behind.get(one.name, Fraction(2)) * 2 * COPIES - once * (one.name in behind)
        for one in chains_of(string)[0].alone
    }
    cycles[chains_of(string)[0].usual.id] = Fraction(2)

    def answer(request: Request) -> Measured:
        taken = cycles.get(request.benchmark.id, grouped)
        return Measured(request, Status.OK, {"core_cycles": taken}, {"core_cycles": spread})

    procedure = measure_producers(found, plan, shared.calibrations)
    answers: list[Measured] | None = None
    try:
        while True:
            requests = procedure.send(answers) if answers is not None else next(procedure)
            answers = [answer(request) for request in requests]
    except StopIteration:
        return found.attributes


def test_contention_and_noise_are_no_difference() -> None:
    assert answered({"inc": Fraction(3)}) == {"slower_after_inc": 1}
    assert answered({"inc": Fraction(3)}, once=6) == {}
    assert answered({"inc": Fraction(5, 2)}) == {}
    assert answered({"inc": Fraction(7, 2)}) == {}
    assert answered({"inc": Fraction(3)}, spread=Fraction(6)) == {}


def test_what_waits_for_nothing_behind_one_producer_takes_no_cycles_there() -> None:
    """Throughput alone limits an eliminated move: 1/4 cycle is no latency."""
    assert answered({"mov_imm32": Fraction(1, 4)})["slower_after_inc"] == 2


def test_zero_idioms_are_compared_with_other_zeros_alone() -> None:
    assert answered({"zero_idiom": Fraction(1), "zero_mov": Fraction(1)}) == {}
    assert answered({"zero_mov": Fraction(4)}) == {"slower_after_zero_mov": 2}


def test_each_register_that_is_only_read_is_produced_and_no_other() -> None:
    assert sorted(one.operands for one in chains_of("SHLX (R64, R64, R64)")) == [(2,), (3,)]
    assert [one.operands for one in chains_of("VFMADD231PS (YMM, YMM, YMM)")] == [(2, 3)]
    assert [one.operands for one in chains_of("ADDPS (XMM, XMM)")] == [(2,), ()]
    assert [one.operands for one in chains_of("SHL (R64, CL)")] == [(2,)]
    assert chains_of("POPCNT (R64, R64)") == []
    assert chains_of("MOV (R64, M64)") == []
    assert chains_of("ROL (M64, CL)") == []


def test_no_producer_writes_flags_that_a_chain_needs() -> None:
    (chain,) = chains_of("ADC_11 (R64, R64)")
    assert {one.name for one in chain.alone} == {
        "mov_imm32",
        "mov_imm64",
        "lea",
        "load64",
        "load32",
        "mov_imm8",
        "zero_mov",
    }


def test_a_divisor_is_never_zero() -> None:
    (chain,) = [one for one in chains_of("DIV (R64)") if one.operands == (1,)]
    assert {one.name for one in chain.alone if one.keeps_value} == {"alu64", "alu32", "load64", "load32"}
    assert len(chain.alone) == 4
