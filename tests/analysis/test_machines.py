"""What analysis adds to models that know neither micro-fusion nor store forwarding."""

from fractions import Fraction

import pytest

from analysis.block.code import Block
from analysis.block.reader import CodeReader
from analysis.bounds.components import Analyzer, Component, Running
from analysis.machines import open_machine
from analysis.prediction import PredictionMode, Tools
from results.machine.constants import core_of
from simulator.machines import shipped
from simulator.machines.machine import Parameters
from tests.analysis.machine import shipped_machine
from xed_convert.assembly.assembler import assemble, shipped_assembler

COPIES = 16
"""In a loop, so that neither decoders nor a taken jump limit."""


def block(text: str, architecture: str) -> Block:
    return CodeReader(shipped_machine(architecture), shipped_assembler().decoder).block(assemble(text))


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("add rax, [rbx]", 1),
        ("cmp dword ptr [rbx], 0", 1),
        ("mov [rbx], rax", 1),
        ("add [rbx], rax", 2),
        ("pop rbx", 1),
        ("push rbx", 1),
        ("imul rax, rbx", 1),
    ],
)
def test_loads_and_stores_are_fused(text: str, slots: int) -> None:
    assert [item.effects.slots for item in block(text, "ICX").items] == [slots]


def test_the_stack_engine_needs_no_port() -> None:
    found = Analyzer(shipped_machine("ICX")).bounds(
        block("push rbx; push rcx; pop rsi; pop rdi", "ICX"), Running.UNROLLED
    )
    names = found.port_names
    loads_and_stores = {"".join(names[n] for n in range(len(names)) if mask >> n & 1) for mask in found.port_masks}
    assert loads_and_stores == {"23", "49", "78"}


@pytest.mark.parametrize("architecture", sorted(set(shipped.names()) - {"NHM", "WSM"}))
def test_a_value_goes_through_memory_in_the_cycles_of_the_core(architecture: str) -> None:
    machine = shipped_machine(architecture)
    core = machine.parameters.front
    assert core is not None
    around = block("mov rax, [rdi]; mov [rdi], rax", architecture)
    found = Analyzer(machine).bounds(around, Running.UNROLLED)
    assert found.cycles_of[Component.DEPENDENCIES] == core.memory.forwarding


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("mov eax, [rdi+0x38]; cmp ebx, [rdi+0x3c]", Fraction(1, 2)),
        ("mov dword ptr [rsp+8], 1; mov [rbp+64], rax", 1),
        ("movaps xmm0, [rsi]; movdqu xmm1, [rsi+64]", 1),
        ("mov eax, ebx; nop dword ptr [rax]", Fraction(1, 4)),
    ],
)
@pytest.mark.parametrize("mode", list(PredictionMode))
def test_loads_and_stores_share_their_way_where_no_ports_are_known(
    text: str, cycles: Fraction | int, mode: PredictionMode
) -> None:
    tools = Tools.of(shipped_machine("ZEN5"), shipped_assembler().decoder)
    found = tools.predict(assemble(text) * COPIES, Running.LOOP, mode)
    assert found.cycles / COPIES == pytest.approx(float(cycles), abs=0.02)


def test_placeholders_of_models_are_no_latencies() -> None:
    """LLVM states 100 cycles and a µop for LODSB and FSIN on a Skylake; both are catch-all numbers."""
    tools = Tools.of(shipped_machine("SKL"), shipped_assembler().decoder)
    found = tools.predict(assemble("again: lodsb; add rbx, rax; dec rcx; jne again"), Running.LOOP)
    assert [item.name for item in found.bounds.block.unknown] == ["LODSB"]
    assert found.cycles < 3
    assert found.facts.interval is not None
    assert (found.facts.interval.high, found.facts.interval.reasons) == (None, ("instructions are not known",))
    variant = found.bounds.block.unknown[0].compiled
    assert variant is not None
    simulated = shipped.load_machine("SKL").truth(variant.variant)
    assert max(simulated.latencies.values()) >= 100  # machines to be measured keep it


def test_uops_count_where_only_the_latency_is_a_placeholder() -> None:
    tools = Tools.of(shipped_machine("ADL-P"), shipped_assembler().decoder)
    found = tools.predict(assemble("rdrand rax; imul rbx, rax"), Running.UNROLLED)
    block = found.bounds.block
    assert (block.unknown, [item.name for item in block.untimed]) == ((), ["RDRAND (R64)"])
    assert block.items[0].effects.slots == 25
    assert found.facts.path.cycles <= 3 + 25
    assert found.facts.interval is not None
    assert (found.facts.interval.high, found.facts.interval.reasons) == (None, ("latencies are not known",))
    assert "! No latency is known of RDRAND (R64): the real time is longer, or the same." in repr(found)
    assert found.json()["latency_unknown"] == ["RDRAND (R64)"]
    assert [row["latencies"] for row in found.json()["instructions"]] == [[], [3, 3]]


@pytest.mark.parametrize("architecture", shipped.names())
def test_an_endbr_is_a_nop_on_every_model(architecture: str) -> None:
    (item,) = block("endbr64", architecture).items
    assert (item.known, item.effects.port_masks, item.effects.slots) == (True, (), 1)


@pytest.mark.parametrize(
    ("cpu", "model"),
    [("KBL", "skylake"), ("BDX", "broadwell"), ("TGL", "icelake-server"), ("RKL", "icelake-server")],
)
def test_a_cpu_has_the_model_of_a_like_core_under_its_own_name(cpu: str, model: str) -> None:
    machine = open_machine(cpu.lower())
    assert machine.name == cpu
    assert f"model for {model}," in machine.origin.text
    assert machine.parameters.front == core_of(cpu)
    assert machine.parameters.elimination == Parameters.of(core_of(cpu)).elimination


def test_a_model_stands_in_where_time_shows_no_ports_and_explains_the_throughput() -> None:
    code = assemble("mov [rdi], rax; imul rbx, rax; lock add [rsi], eax")
    found = Tools.of(shipped_machine("CLX"), shipped_assembler().decoder).predict(code, Running.UNROLLED)
    rows = found.json()["instructions"]
    assert [row["modelled"] for row in rows] == [True, False, False]
    assert [row["ports"] for row in rows[:2]] == ["1*p237+1*p4", "1*p1"]
    assert "lack the ports of 1 instruction, whose µops and latency are those of LLVM 19's" in repr(found)


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("mov rax, [rdi]; mov [rdi], rax", 4),  # measured: 4.3
        ("movaps xmm0, [rdi]; movaps [rdi], xmm0", 5),  # measured: 6.1
        ("adcx rax, [rdi]; mov [rdi], rax", 5),
    ],
)
def test_a_models_stores_and_measured_loads_share_the_way_through_memory(text: str, cycles: int) -> None:
    found = Analyzer(shipped_machine("CLX")).bounds(block(text, "CLX"), Running.UNROLLED)
    assert cycles <= found.cycles_of[Component.DEPENDENCIES] <= cycles + 1


def test_no_model_stands_in_where_ports_have_other_names() -> None:
    found = Tools.of(shipped_machine("ZEN4"), shipped_assembler().decoder).predict(
        assemble("mov [rdi], rax"), Running.UNROLLED
    )
    assert [row["modelled"] for row in found.json()["instructions"]] == [False]


@pytest.mark.parametrize(("architecture", "slots"), [("SKX", 2), ("ICX", 1)])
def test_an_immediate_beside_an_address_relative_to_rip_is_not_fused_on_older_cores(
    architecture: str, slots: int
) -> None:
    assert [item.effects.slots for item in block("cmp dword ptr [rip+0x100], 2", architecture).items] == [slots]


def test_vectors_come_out_of_stores_no_sooner_than_out_of_the_cache() -> None:
    around = block("movaps xmm0, [rdi]; movaps [rdi], xmm0", "SKX")
    assert Analyzer(shipped_machine("SKX")).bounds(around, Running.UNROLLED).cycles_of[Component.DEPENDENCIES] == 6


def test_measured_instructions_without_a_latency_are_named_unless_they_have_none() -> None:
    tools = Tools.of(shipped_machine("ZEN4"), shipped_assembler().decoder)
    found = tools.predict(assemble("faddp st(1), st(0); call .+5; ret; rdtsc; pop rbx; add rax, rbx"), Running.UNROLLED)
    assert [item.name for item in found.bounds.block.untimed] == ["FADDP (ST, ST(0))"]
    assert found.facts.interval is not None
    assert found.facts.interval.high is None
    assert found.json()["latency_unknown"] == ["FADDP (ST, ST(0))"]
