"""Producers of what every chain needs: which operands, and answers of made-up cores."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from generator.chains.carried import carried_chains, reader_chains
from generator.chains.plan import plan_latency
from generator.factory import InstructionFactory
from inference.attributes.carried import measure_carried
from inference.builder import ConclusionBuilder
from inference.calibration import Calibrations
from inference.experiment import Measured
from results.model import PRODUCERS, Status
from results.sentences import lines
from tests.inference.simulated import catalogue

if TYPE_CHECKING:
    from generator.chains.carried import CarriedChain
    from inference.experiment import Request

INSTRUCTIONS = InstructionFactory(catalogue())
POPCNT = "POPCNT (R64, R64)"


def chains_of(string: str, produced: frozenset[int] = frozenset()) -> list[CarriedChain]:
    return list(carried_chains(plan_latency(INSTRUCTIONS, catalogue().by_string(string)), produced))


def operands(string: str, *produced: int) -> list[str]:
    return sorted(one.operand for one in chains_of(string, frozenset(produced)))


def test_what_every_chain_needs_is_carried() -> None:
    assert operands(POPCNT) == ["2"]
    assert operands("ADD_01 (R64, R64)", 2) == ["1"]
    assert operands("MOV (R64, M64)") == ["2_addr", "2_addr_index"]
    assert operands("KNOTQ (K, K)") == ["2"]
    assert operands("VADDPS (XMM, XMM, XMM)") == []
    assert operands("ADD (M64, R64)") == operands("POP (R64)") == []


def test_no_carrier_writes_flags_that_the_instruction_reads() -> None:
    (chain,) = chains_of("ADC_11 (R64, R64)", frozenset({2}))
    assert {one.name for one in chain.through} == {"lea", "not", "mov_imm8"}


def noted(
    more: dict[str, Fraction], *, cut: Fraction = Fraction(1), twice: int = 0, late_readers: int = 0
) -> tuple[ConclusionBuilder, set[str]]:
    """Return what is noted of POPCNT, which takes so many cycles more through a producer, and what was measured.

    A producer takes 2 cycles by itself, but for the first `late_readers`, which find it slower by a cycle. `twice` are
    cycles more in the code that is twice as long.
    """
    (chain,) = chains_of(POPCNT)
    answers = {chain.usual.id: Fraction(4)}
    assert chain.cut is not None
    answers[chain.cut.id] = cut
    names = [one.name for one in chain.through]
    answers[chain.grouped(names).id] = sum((6 + more.get(name, Fraction(0)) for name in names), Fraction(0))
    for one in chain.through:
        cycles = 6 + more.get(one.name, Fraction(0))
        answers |= {one.benchmark.id: cycles, one.twice.id: 2 * cycles + twice * (one.name in more)}
    for number, reader in enumerate(reader_chains(INSTRUCTIONS, "R")):
        answers[reader.alone.id] = Fraction(1)
        answers |= {code.id: Fraction(3 + (number < late_readers)) for _, code in reader.through}
    asked: set[str] = set()

    def answer(request: Request) -> Measured:
        asked.add(request.benchmark.id)
        cycles = answers[request.benchmark.id]
        return Measured(request, Status.OK, {"core_cycles": cycles}, {"core_cycles": Fraction(0)})

    found = ConclusionBuilder(catalogue().by_string(POPCNT))
    plan = plan_latency(INSTRUCTIONS, found.variant)
    procedure = measure_carried(found, plan, Calibrations(INSTRUCTIONS), frozenset())
    sent: list[Measured] | None = None
    try:
        while True:
            requests = procedure.send(sent) if sent is not None else next(procedure)
            sent = [answer(request) for request in requests]
    except StopIteration:
        return found, asked


def test_one_microbenchmark_tells_that_no_producer_matters() -> None:
    found, asked = noted({})
    assert found.attributes == {}
    (chain,) = chains_of(POPCNT)
    assert not asked & {one.benchmark.id for one in chain.through}


def test_what_takes_longer_is_noted_with_the_arithmetic() -> None:
    found, _ = noted({"inc": Fraction(2)})
    assert found.attributes == {"slower_after_inc": 2}
    (derivation,) = found.derivations
    assert derivation.quantity == PRODUCERS
    (line,) = (one for one in lines(derivation) if "through inc" in one)
    assert line == "operand 2 through inc (NEG RDX; NOT RDX; INC RDX): 8.00 - 2.00 = 6.00 cycles"


def test_what_is_quicker_makes_the_others_slower() -> None:
    """A load of an address from a load takes a cycle less than from a computation on some cores."""
    (chain,) = chains_of(POPCNT)
    names = {one.name for one in chain.through}
    attributes = noted({"load64": Fraction(-1)})[0].attributes
    assert attributes == {f"slower_after_{name}": 1 for name in names - {"load64"}}


def test_noise_and_chains_that_throughput_limits_are_no_difference() -> None:
    assert noted({"inc": Fraction(5, 2)})[0].attributes == {}
    assert noted({"inc": Fraction(2)}, twice=2)[0].attributes == {}
    assert noted({"inc": Fraction(2)}, cut=Fraction(4))[0].attributes == {}


def test_a_reader_that_is_slower_behind_producers_does_not_count() -> None:
    assert noted({"inc": Fraction(2)}, late_readers=2)[0].attributes == {"slower_after_inc": 2}
