"""Latency chains: what they look like, that nothing is silently missing, and that they are always the same."""

from __future__ import annotations

import pytest

from generator.chains.links import links
from generator.chains.plan import LatencyPlan, OperandPair, plan_latency
from generator.exclusions import excluded, exclusions
from generator.factory import InstructionFactory
from generator.facts import read_facts
from generator.operands.effects import effects_of
from generator.operands.places import destinations, sources
from generator.operands.reserved import harness_registers
from generator.operands.values import value_rows, values_of
from generator.support.breakers import COPIES
from results.model import LatencyPart
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


@pytest.fixture(scope="module")
def instructions(catalogue: Catalogue) -> InstructionFactory:
    return InstructionFactory(catalogue)


def pair_of(plan: LatencyPlan, source: str, destination: str) -> OperandPair:
    found = [p for p in plan.pairs if (str(p.source), str(p.destination)) == (source, destination)]
    return found[0]


def body(instructions: InstructionFactory, catalogue: Catalogue, string: str, source: str, destination: str) -> str:
    pair = pair_of(plan_latency(instructions, catalogue.by_string(string)), source, destination)
    chain = pair.chain(None if pair.direct else pair.routes[0])
    return "; ".join(line.text for line in chain.benchmark.body)


GOLDEN = [
    ("ADC_13 (R64, R64)", "1", "1", "{load} ADC RBX, RDX; TEST R15, R15"),
    ("ADC_13 (R64, R64)", "2", "1", "{load} ADC RBX, RDX; MOVSXD RDX, EBX; MOV EBX, 1; TEST R15, R15"),
    ("ADC_13 (R64, R64)", "2", "CF", "{load} ADC RBX, RDX; SETB R12B; MOVSX RDX, R12B; MOV EBX, 1; TEST R15, R15"),
    ("ADC_13 (R64, R64)", "CF", "1", "TEST RBX, RBX; MOV EBX, 1; {load} ADC RBX, RDX"),
    ("ADC_13 (R64, R64)", "CF", "CF", "{load} ADC RBX, RDX; MOV EBX, 1"),
    ("SHLD_IMMB (R64, R64, I8)", "2", "1", "SHLD RBX, RDX, 2; MOVSXD RDX, EBX; MOV EBX, 1"),
    ("MUL (R64)", "2", "2", "MUL RBX; MOV EDX, 1"),
    ("MUL (R64)", "2", "3", "MUL RBX; MOVSXD RAX, EDX; MOV EDX, 1"),
    ("MUL (R64)", "1", "OF", "MUL RBX; SETO R12B; MOVSX RBX, R12B; MOV EAX, 1; MOV EDX, 1"),
    ("XADD (R8l, R8h)", "1", "2", "XADD BL, DH; MOVSX EBX, DH; MOV EDX, 0x101"),
    ("CMOVBE (R64, R64)", "CF", "1", "TEST RBX, RBX; MOV EBX, 1; INC R12; CMOVBE RBX, RDX"),
    ("CMOVBE (R64, R64)", "ZF", "1", "TEST RBX, RBX; MOV EBX, 1; CLC; CMOVBE RBX, RDX"),
    (
        "MOV (R64, M64)",
        "2_addr",
        "1",
        "MOV RBX, qword ptr [R14]; {store} XOR R14, RBX; {store} XOR R14, RBX; MOV EBX, 1",
    ),
    ("MOV (M64, R64)", "2", "1_mem", "MOV qword ptr [R14], RBX; MOV RBX, qword ptr [R14]"),
    ("MOV (R64, M64)", "2_mem", "1", "MOV RBX, qword ptr [R14]; MOV qword ptr [R14], RBX; MOV EBX, 1"),
    ("CMPXCHG (M64, R64)", "1_mem", "1_mem", "CMPXCHG qword ptr [R14], RBX; MOV EAX, 1"),
    (
        "CMPXCHG (M64, R64)",
        "1_addr_index",
        "3",
        "CMPXCHG qword ptr [R14+R13], RBX; MOV qword ptr [R14+R13], 1; " + 2 * "{store} XOR R13, RAX; " + "MOV EAX, 1",
    ),
    (
        "LODSD",
        "2_mem",
        "1",
        "LODSD; {load} MOV RSI, R12; MOVSXD R11, EAX; MOV dword ptr [RSI], R11D; MOV EAX, 1",
    ),
    (
        "DIV (R64)",
        "3",
        "2",
        "DIV RBX; MOVSXD RDX, EAX; {store} AND RDX, R11; {store} OR RDX, RCX; MOV EAX, 0x85",
    ),
    ("VPADDD (YMM, YMM, YMM)", "2", "1", "VPADDD YMM0, YMM1, YMM2; VPOR YMM1, YMM0, YMM0; VMOVAPS YMM0, YMM15"),
    ("KADDQ (K, K, K)", "2", "1", "KADDQ K1, K2, K3; KMOVQ K2, K1; KMOVQ K1, K7"),
]


@pytest.mark.parametrize(("string", "source", "destination", "expected"), GOLDEN)
def test_chains_look_like_this(
    instructions: InstructionFactory, catalogue: Catalogue, string: str, source: str, destination: str, expected: str
) -> None:
    found = body(instructions, catalogue, string, source, destination)
    assert found.replace("{load} VMOVAPS", "VMOVAPS") == expected


@pytest.mark.parametrize(
    ("string", "source", "body", "isolated"),
    [
        ("VANDPS (XMM, K, XMM, XMM)", "4", ["VANDPS XMM0{K1}, XMM1, XMM2", "VANDPS XMM2{K1}, XMM1, XMM0"], False),
        ("VADDPS (XMM, XMM, XMM)", "2", ["VADDPS XMM0, XMM1, XMM2", "VADDPS XMM1, XMM0, XMM2"], True),
    ],
)
def test_an_instance_and_one_with_swapped_operands_are_a_chain(
    instructions: InstructionFactory, catalogue: Catalogue, string: str, source: str, body: list[str], isolated: bool
) -> None:
    """It is isolated unless the destination, which a mask keeps in part, is an input as well."""
    pair = pair_of(plan_latency(instructions, catalogue.by_string(string)), source, "1")
    chain = pair.factory.swapped(pair.source, pair.destination)
    assert [line.text for line in chain.benchmark.body] == body
    assert (chain.instances, chain.isolated) == (2, isolated)


@pytest.mark.parametrize(
    ("string", "source", "destination"),
    [("MUL (R64)", "1", "2"), ("MOV (R64, M64)", "2_mem", "1"), ("ADC_13 (R64, R64)", "2", "1")],
)
def test_what_else_would_have_to_be_put_back_is_not_swapped(
    instructions: InstructionFactory, catalogue: Catalogue, string: str, source: str, destination: str
) -> None:
    pair = pair_of(plan_latency(instructions, catalogue.by_string(string)), source, destination)
    with pytest.raises(LookupError):
        pair.factory.swapped(pair.source, pair.destination)


def test_plans_are_the_same_every_time(catalogue: Catalogue) -> None:
    for string in ("ADC_13 (R64, R64)", "CMPXCHG (M64, R64)", "VPADDD (XMM, XMM, XMM)", "DIV (R32)"):
        first, second = (plan_latency(InstructionFactory(catalogue), catalogue.by_string(string)) for _ in range(2))
        ids = [
            [pair.chain(route, 3).benchmark.id for pair in plan.pairs for route in pair.routes]
            for plan in (first, second)
        ]
        assert ids[0] == ids[1]


def base_variants(catalogue: Catalogue, step: int) -> list[str]:
    return [v.string for v in catalogue if v.extension in {"BASE", "LONGMODE"} and not excluded(v)][::step]


def test_every_pair_is_planned_or_has_a_reason(instructions: InstructionFactory, catalogue: Catalogue) -> None:
    for string in some(base_variants(catalogue, 5), 100):
        plan = plan_latency(instructions, catalogue.by_string(string))
        assert plan.reason or plan.pairs
        for factory in [] if plan.reason else some(plan.factories.values()):
            wanted = {(str(s), str(d)) for s in sources(factory.instance) for d in destinations(factory.instance)}
            assert wanted <= {(str(pair.source), str(pair.destination)) for pair in plan.pairs}
        for pair in plan.pairs:
            assert pair.reason or pair.routes or pair.direct


def test_chains_decode_to_what_they_say_and_spare_the_harness(
    instructions: InstructionFactory, catalogue: Catalogue
) -> None:
    decoder = Decoder(catalogue)
    plans = [plan_latency(instructions, catalogue.by_string(string)) for string in base_variants(catalogue, 29)]
    pairs = [pair for plan in plans for pair in plan.pairs]
    chains = [pair.chain(route) for pair in pairs for route in ([None] if pair.direct else pair.routes)]
    for chain in some(chains, 100):
        offset = 0
        for line in some(chain.benchmark.body):
            decoded = decoder.decode(chain.benchmark.body_code, offset)
            assert decoded.length_bytes == len(line.code)
            offset += decoded.length_bytes
        assert "R15," not in chain.benchmark.body[0].text or "TEST" in chain.benchmark.body[0].text


def test_a_broken_register_is_not_read_by_its_breaker(instructions: InstructionFactory, catalogue: Catalogue) -> None:
    for row in read_facts("dependency_breakers.tsv", ("place", "bits", "line", "reason")):
        string = row["line"].partition(" :")[0]
        variant = catalogue.by_string(string)
        written = [o for o in variant.operands if o.written and o.explicit]
        if "SCRATCH" not in row["line"]:
            assert all(not operand.read for operand in written), string
    assert set(COPIES) == {"VEC", "K", "MMX"}
    assert instructions.line("MOV (R32, I32)", "EBX", 1).code


def test_rows_of_tables_are_about_the_catalogue(catalogue: Catalogue) -> None:
    for link in links():
        for string, _ in link.lines:
            catalogue.by_string(string)
    for row in value_rows():
        assert any(row["place"] in values_of(v).places or row["kind"] != "any" for v in catalogue), row
    unused = [e for e in some(exclusions(), 5) if not any(e.applies(v) for v in catalogue)]
    assert not unused, [f"{e.field} {e.pattern}" for e in unused]


def test_links_write_what_they_lead_to(catalogue: Catalogue) -> None:
    flags = {"CF", "ZF", "SF", "OF", "PF"}
    for link in some((link for link in links() if link.target in flags), len(flags)):
        effects = [o.flags for o in catalogue.by_string(link.lines[-1][0]).operands if o.flags]
        assert any("w" in found.get(link.target, "") for found in effects), link.name


def test_addresses_and_data_of_memory_are_apart(instructions: InstructionFactory, catalogue: Catalogue) -> None:
    plan = plan_latency(instructions, catalogue.by_string("ADD (R64, M64)"))
    parts = {pair.source.part for pair in plan.pairs}
    assert parts == {LatencyPart.NONE, LatencyPart.ADDRESS, LatencyPart.ADDRESS_INDEX, LatencyPart.MEMORY}


def test_instances_do_not_write_the_harness_registers(instructions: InstructionFactory, catalogue: Catalogue) -> None:
    plans = [plan_latency(instructions, catalogue.by_string(string)) for string in base_variants(catalogue, 11)]
    for factory in some((factory for plan in plans for factory in plan.factories.values()), 50):
        fixed = {
            name
            for operand in factory.instance.variant.operands
            if not operand.explicit
            for name in (*operand.registers, operand.memory.base if operand.memory else "")
        }
        assert not (effects_of(factory.instance).writes & harness_registers()) - fixed
