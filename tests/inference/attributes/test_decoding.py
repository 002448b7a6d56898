"""Decoding: what the simulated front end does is found again by counters and times; what it hides is not stated."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from generator.operands.values import kinds_of
from generator.sequences.decoding import counted, grouped, least_nops
from generator.sequences.throughput import LENGTHS, ThroughputFactory
from inference.attributes.decoding import DecodedCounts, _note, measure_decoding
from inference.builder import ConclusionBuilder
from inference.characterizer import Characterizer
from inference.experiment import Procedure, Want
from inference.throughput import Search
from results.findings import Decoders, DecodersFound
from results.machine.constants import core_of
from results.machine.file import read_machine
from results.machine.graph import Behaviour, Decoding, Uop
from results.model import Derivation, Form
from results.sentences import lines, step
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from simulator.machines.machine import MachineModel, Origin, Parameters
from simulator.machines.measured import machine_of
from tests.inference.simulated import candidates, catalogue
from tests.nonempty import some
from tests.shared import measured_haswell

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant

NAMES = ("uops_MITE", "uops_MS", "complex_decoder", "available_simple_decoders")


def decoded(machine: MachineModel, string: str) -> ConclusionBuilder:
    """Count µops of a variant, and find out how it is decoded."""
    backend = SimBackend(machine, catalogue())
    characterizer = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    context = characterizer.prepared({})

    def procedure() -> Procedure[ConclusionBuilder]:
        found = ConclusionBuilder(catalogue().by_string(string))
        search = Search(ThroughputFactory(context.instructions, found.variant), kinds_of(found.variant)[-1])
        yield from search.measure([search.shape(LENGTHS[0])], Want.ALL)
        found.first = search.unrolled[0]
        found.note_uops(search)
        yield from measure_decoding(found, context)
        return found

    return Session(Measurer(backend)).run_one(procedure())


@cache
def haswell() -> MachineModel:
    return machine_of(read_machine(measured_haswell()))


def published(string: str) -> dict[str, int]:
    """Return the attributes of the sample; where it says nothing of decoders, any of them takes the instruction."""
    row = read_machine(measured_haswell()).by_string[string]
    assert row.result.measurement is not None
    return {"complex_decoder": 0} | {n: int(v) for n, v in row.result.measurement.items() if n.startswith(NAMES)}


def with_plain(values: dict[str, int]) -> dict[str, int]:
    """Return attributes with those of special forms filled in from the plain form."""
    filled = {name + form.suffix: values[name] for form in Form for name in NAMES if name in values}
    return filled | values


@pytest.mark.parametrize(
    "string",
    [
        "ADD_01 (R64, R64)",
        "ADC_13 (R64, R64)",
        "MULX (R64, R64, R64)",
        "VPCMPGTQ (XMM, XMM, XMM)",
        "AESDEC (XMM, M128)",
        "VDIVPS (XMM, XMM, XMM)",
        "ADD (M64, R64)",
        "ADD_LOCK (M64, R64)",
        "CMPXCHG (M64, R64)",
        "VPGATHERDD (XMM, VSIB_XMM, XMM)",
        "CLD",
        "XGETBV",
        "PUSH (R64)",
        "MOV_89 (R64, R64)",
    ],
)
def test_a_measured_haswell_gives_its_attributes_back(string: str) -> None:
    found, true = with_plain(decoded(haswell(), string).attributes), published(string)
    assert {name: found.get(name) for name in some(true)} == true


@cache
def machine(name: str, decoding: Decoding, latency: int = 1) -> MachineModel:
    """A core on which CMC is decoded as told, and all else is one µop that any decoder makes."""
    one = Behaviour((Uop(frozenset(), 1, ()),), 1, decoding=Decoding(1))
    uops = (Uop(frozenset(), latency, ()),)
    special = replace(one, uops=uops, slots=decoding.decoded + decoding.microcoded, decoding=decoding)
    core = core_of(name)
    parameters = replace(Parameters.of(core), front=core)

    def lookup(variant: object) -> Behaviour:
        return special if getattr(variant, "iclass", "") == "CMC" else one

    return MachineModel(name, parameters, Origin("a test", "none"), lookup)


def haswell_with(special: MachineModel) -> MachineModel:
    """The measured Haswell, with CMC as on another machine."""
    usual = haswell()

    def lookup(variant: InstructionVariant) -> Behaviour | None:
        return (special if variant.iclass == "CMC" else usual).lookup(variant)

    return MachineModel("HSW", usual.parameters, usual.origin, lookup, usual.stand_ins)


@pytest.mark.parametrize("name", ["NHM", "SNB", "HSW", "SKL", "ICX", "ADL-P"])
@pytest.mark.parametrize("simple", [None, 0, 1, 2, 3])
def test_every_number_of_simple_decoders_is_found_on_every_core(name: str, simple: int | None) -> None:
    decoding = Decoding(1, complex=simple is not None, simple=simple)
    attributes = decoded(machine(name, decoding), "CMC").attributes
    assert attributes["uops_MITE"] == 1
    assert attributes["complex_decoder"] == (simple is not None)
    assert attributes.get("available_simple_decoders") == simple


@pytest.mark.parametrize("latency", range(12, 25, 3))
def test_the_port_of_the_chain_that_is_compared_is_not_taken_for_a_full_buffer(latency: int) -> None:
    """The links of a chain as long as the instance take a cycle each on their port: more than its slots take."""
    model = machine("HSW", Decoding(2, complex=True, simple=0), latency)
    attributes = decoded(haswell_with(model), "CMC").attributes
    assert (attributes["complex_decoder"], attributes["available_simple_decoders"]) == (1, 0)


@pytest.mark.parametrize(("decoded_uops", "microcoded"), [(2, 0), (4, 0), (1, 3), (1, 8), (4, 30), (0, 5)])
def test_uops_of_decoders_and_microcode_are_counted_apart(decoded_uops: int, microcoded: int) -> None:
    decoding = Decoding(decoded_uops, microcoded, complex=True, simple=0)
    attributes = decoded(machine("HSW", decoding), "CMC").attributes
    assert (attributes["uops_MITE"], attributes["uops_MS"]) == (decoded_uops, microcoded)
    assert (attributes["complex_decoder"], attributes["available_simple_decoders"]) == (1, 0)


@pytest.mark.parametrize("string", ["DIV (R64)", "CPUID", "ADD_01 (R64, R64)"])
def test_a_machine_without_a_front_end_has_no_complex_decoder(string: str) -> None:
    attributes = decoded(open_machine("HSW"), string).attributes
    assert attributes.get("complex_decoder", 0) == 0


@pytest.mark.parametrize(
    ("name", "string"),
    [
        ("random:small:3", "PBLENDW (XMM, XMM, I8)"),
        ("random:small:4", "VSQRTSD_EVEX (XMM, XMM, XMM)"),
        ("random:small:5", "VUNPCKHPS (XMM, XMM, M128)"),
        ("random:small:6", "VPROLQ (YMM, YMM, I8)"),
    ],
)
def test_a_full_reorder_buffer_is_not_taken_for_the_first_decoder(name: str, string: str) -> None:
    found = decoded(open_machine(name), string)
    assert "complex_decoder" not in found.attributes
    texts = {one.quantity: lines(one) for one in found.derivations}
    assert any("for comparison" in line for line in texts["complex_decoder"])


def test_what_serializes_is_counted_among_nops_that_are_decoded_too() -> None:
    attributes = decoded(machine("HSW", Decoding(1)), "LFENCE").attributes
    assert (attributes["uops_MITE"], attributes["uops_MS"]) == (1, 0)


def test_less_than_the_nops_have_is_no_count() -> None:
    found = ConclusionBuilder(catalogue().by_string("CMC"))
    counts: dict[str, int | None] = {"uops_MITE": -59, "uops_MS": 44, "uops_executed": None}
    _note(found, DecodedCounts(counts, Derivation("uops_MITE", ())), Form.INDEXED)
    assert found.attributes == {"uops_MS_indexed": 44}


def test_a_jump_ends_a_group_so_that_nothing_is_said_of_its_decoders() -> None:
    found = decoded(haswell(), "JZ (Rel8)")
    assert found.attributes["uops_MITE"] == 1
    assert "complex_decoder" not in found.attributes


def test_the_derivation_says_what_was_counted_and_timed() -> None:
    found = decoded(haswell(), "ADC_13 (R64, R64)")
    texts = {one.quantity: lines(one) for one in found.derivations}
    assert texts["uops_MITE"] == ["63.00 µops from the decoders - 61 NOPs = 2"]
    times, control, conclusion = texts["complex_decoder"]
    assert control.startswith("for comparison, a chain of 2 links is as long; with 12 NOPs it takes 3.70 cycles; ")
    assert control.endswith("; its issue slots alone take 3.75")
    assert times.startswith("an instance takes 4.00 cycles with 12 NOPs, ")
    assert times.endswith("; the core has 4 decoders")
    assert conclusion.endswith("only the first decoder can decode the instruction, and 2 others work in that cycle")


def by_time(machine: MachineModel, string: str) -> ConclusionBuilder:
    """Find out how a variant is decoded with nothing but a count of cycles."""
    backend = SimBackend(machine, catalogue())
    capabilities = replace(backend.info().capabilities, counters=("core_cycles",), ports=())
    context = Characterizer(catalogue(), capabilities, candidates=candidates()).prepared({})

    def procedure() -> Procedure[ConclusionBuilder]:
        found = ConclusionBuilder(catalogue().by_string(string))
        search = Search(ThroughputFactory(context.instructions, found.variant), kinds_of(found.variant)[-1])
        yield from search.measure([search.shape(LENGTHS[0])], Want.CYCLES)
        found.first = search.unrolled[0]
        yield from measure_decoding(found, context)
        return found

    return Session(Measurer(backend)).run_one(procedure())


@pytest.mark.parametrize(
    ("string", "decoders"), [("ADC_13 (R64, R64)", (1, 2)), ("ADD_01 (R64, R64)", (0, None)), ("CLD", (1, 0))]
)
def test_by_time_alone_decoders_are_found_and_marked(string: str, decoders: tuple[int, int | None]) -> None:
    found = by_time(haswell(), string)
    names = ("complex_decoder", "available_simple_decoders", "decoders_by_time", "uops_MITE")
    assert tuple(found.attributes.get(name) for name in names) == (*decoders, 1, None)
    assert lines(found.derivations[0])[0].startswith("by time alone")


def test_by_time_nothing_is_said_of_cores_whose_decoders_are_alike() -> None:
    machine_of_zen = machine("ZEN4", Decoding(1))
    assert not by_time(machine_of_zen, "CMC").attributes


def test_every_conclusion_has_its_words() -> None:
    said = {which: step(DecodersFound(which, 2)) for which in Decoders}
    assert said[Decoders.UNKNOWN] == "the times fit no number of decoders"
    assert said[Decoders.ANY].endswith("any decoder can decode the instruction")
    assert "2 others work in that cycle" in said[Decoders.FIRST]


def test_no_window_of_code_fits_any_uop_cache() -> None:
    for string in some(["ADD_01 (R64, R64)", "VPGATHERDD (XMM, VSIB_XMM, XMM)", "ADD_LOCK (M64, R64)"]):
        factory = ThroughputFactory(candidates().instructions, catalogue().by_string(string))
        for benchmark in (
            counted(factory, Form.PLAIN)[0],
            grouped(factory, Form.PLAIN, least_nops(factory, Form.PLAIN)),
        ):
            sizes = [len(line.code) for line in benchmark.body] * 5
            starts = [sum(sizes[:number]) for number in range(len(sizes))]
            for window in some(range(64, sum(sizes) - 64)):
                assert sum(window <= start < window + 64 for start in starts) > 36
                assert sum(window <= start < window + 32 for start in starts) > 16
