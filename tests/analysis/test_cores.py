"""Published rules by which one core differs from another, on LLVM's models with the constants of `cores/`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from analysis.block.reader import CodeReader
from analysis.bounds.components import Analyzer, Bounds, Component, Running
from analysis.loads import loads_of
from analysis.report.text import sentence
from analysis.simulation.run import Simulation
from analysis.simulation.study import Study
from results.machine.build import behaviour_from
from results.machine.constants import core_of
from results.machine.facts import Cycles, FormFacts, LatencyPair, VariantFacts
from results.model import Form, LatencyPart, PortUsage
from simulator.machines.machine import MachineModel, Origin, Parameters
from tests.analysis.machine import shipped_machine
from tests.nonempty import some
from xed_convert.assembly.assembler import assemble, shipped_assembler


@cache
def reader(architecture: str) -> CodeReader:
    return CodeReader(shipped_machine(architecture), shipped_assembler().decoder)


def bounds(text: str, architecture: str) -> Bounds:
    return Analyzer(reader(architecture).machine).bounds(reader(architecture).block(assemble(text)), Running.UNROLLED)


def cycles(text: str, architecture: str) -> float:
    machine = reader(architecture).machine
    simulation = Simulation(machine, reader(architecture))
    return float(Study(simulation, Analyzer(machine).follower, bounds(text, architecture)).cycles)


@pytest.mark.parametrize("address", ["rbx", "rbx+rcx", "rbx+rcx*8"])
def test_loads_with_an_index_use_the_ports_of_loads(address: str) -> None:
    """Six loads take two cycles on a real Zen 4, in any case: time alone tells three ports of a MOV, and no more."""
    text = "; ".join(f"mov {name}, [{address}]" for name in ("rax", "rdx", "rsi"))
    found = bounds(f"{text}; add r8, [rdi]; add r9, [rdi]; add r10, [rdi]", "ZEN4")
    assert found.cycles_of[Component.PORTS] == 2


@pytest.mark.parametrize("architecture", ["ZEN4", "HSW", "SKL"])
def test_a_scalar_move_between_registers_waits_for_its_destination(architecture: str) -> None:
    alone = cycles("addsd xmm0, xmm0", architecture)
    assert cycles("addsd xmm0, xmm0; movsd xmm0, xmm2", architecture) == alone + 1
    assert cycles("addsd xmm0, xmm0; movsd xmm0, [rsi]", architecture) < alone


def test_bounds_take_moves_that_can_be_eliminated_as_eliminated() -> None:
    """Four slots eliminate fewer moves than a chain of them would need (LLVM's Skylake)."""
    text = "mov rax, rbx; mov rbx, rax"
    found = bounds(text, "SKL")
    assert found.cycles_of[Component.DEPENDENCIES] == found.cycles_of[Component.PORTS] == 0
    assert found.cycles < cycles(text, "SKL") < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("movq rdx, xmm0; cvttsd2si rax, xmm1", 2),
        ("comisd xmm1, xmm2; ucomiss xmm3, xmm4", 2),
        ("comisd xmm1, [rsi]; comiss xmm3, xmm4", 2),
        ("comisd xmm1, xmm2; ptest xmm3, xmm4", 2),
        ("comisd xmm1, xmm2; movmskps eax, xmm1", 2),
        ("movq rdx, xmm0; movmskps eax, xmm1", 1),
        ("movd ebx, xmm3; movmskpd edx, xmm7; movq rcx, xmm2; movmskps esi, xmm0", 2),
        ("movd xmm0, eax; movq xmm1, rbx", 2.35),
        ("movd xmm0, eax; movd ecx, xmm1", 1.18),
        ("movq rdx, xmm0; rorx rcx, rbx, 3; rorx rsi, rbx, 3", 2),
        ("movq rdx, xmm0; imul rcx, rbx, 3", 1),
        ("pextrq rax, xmm1, 1; lea ebx, [rbp+1]; lea edi, [rbp+1]; lea esi, [rbp+1]; lea ecx, [rbp+1]", 2),
        ("comisd xmm1, xmm2; mov eax, 1; mov ebx, 2", 1),
    ],
)
def test_transfers_between_register_files_share_a_unit_and_come_in_through_a_port(text: str, expected: float) -> None:
    """Measured on a Zen 4, within 3%."""
    assert cycles(text, "ZEN4") == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("cmp rcx, [rdi]", {"r0", "r1", "r2"}),
        ("cmp rcx, rdi", {"r0", "r1", "r2", "r3"}),
        ("mov qword ptr [rdi], 1", {"r0", "r1", "r2", "r3"}),
        ("rorx rcx, [rdi], 3", {"r0", "r1"}),
        ("cmovz rcx, [rdi]", {"r2", "r3"}),
    ],
)
def test_what_computes_on_a_load_uses_the_ports_beside_those_of_loads(text: str, ports: set[str]) -> None:
    """CMP from memory and RORX take two thirds of a cycle on a real Zen 4, three of CMP and one RORX 1.33."""
    names = reader("ZEN4").machine.parameters.port_names
    uops = reader("ZEN4").block(assemble(text)).uops_by_ports
    sets = [{name for number, name in enumerate(names) if mask >> number & 1} for mask in uops]
    assert ports in sets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov rax, [rax+rbx]", 4),
        ("mov rax, [rax+rbx*2]", 5),
        ("mov rax, [rax+rbx*8]", 5),
        ("mov eax, [rax+64]", 4),
        ("mov eax, [rbx+rax+64]", 5),
        ("mov eax, [rax*1+64]", 4),
        ("mov eax, [rax*4+64]", 5),
        ("add eax, [r14+rax]", 5),
        ("add eax, [r14+rax*8]", 6),
        ("imul eax, [r14+rax*2]", 8),
        ("xor edi, eax; movzx edi, dil; xor eax, [r14+rdi*4]", 8),
        ("lea rax, [rbx+rax*4]", 1),
    ],
)
def test_a_load_takes_longer_if_its_address_is_complex(text: str, expected: int) -> None:
    """Measured on a Zen 4."""
    assert bounds(text, "ZEN4").cycles_of[Component.DEPENDENCIES] == expected
    assert cycles(text, "ZEN4") == pytest.approx(expected, rel=0.01)


LOADS = "vmovaps ymm0, [rsi]; vmovaps ymm1, [rdi]"
STORES = "vmovaps [rsi], ymm0; vmovaps [rdi], ymm1"
TRIAD = "vmovaps ymm0, [rsi]; vmovaps ymm1, [rdi]; vmovaps [rbp], ymm2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sbb eax, eax", 1),
        ("mov eax, 5; adc eax, eax", 1),
        ("mov eax, 5; adcx eax, eax", 1),
        ("xor eax, eax; adc ebx, ebx", 1),
        ("xor eax, eax; inc eax", 0.5),
    ],
)
def test_flags_are_waited_for_although_both_operands_are_one_register(text: str, expected: float) -> None:
    """Loops of the first three take a cycle each on a Zen 4."""
    assert cycles(text, "ZEN4") == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("adds", "full"), [(2, Fraction(3, 4)), (4, Fraction(5, 4)), (8, Fraction(9, 4))])
@pytest.mark.parametrize("architecture", ["ZEN3", "ZEN4"])
def test_what_is_fused_with_a_jump_of_unknown_ports_has_its_own(architecture: str, adds: int, full: Fraction) -> None:
    """On a Zen 4, loops of 8 and 12 ADD with DEC and JNZ take 2.28 and 3.28 cycles."""
    registers = ("rax", "rbx", "rsi", "rdi", "r8", "r9", "r10", "r11")[:adds]
    text = "again: " + "; ".join(f"add {name}, 8" for name in registers) + "; dec rcx; jnz again"
    found = Analyzer(reader(architecture).machine).bounds(reader(architecture).block(assemble(text)), Running.LOOP)
    assert found.block.fused[-2]
    assert found.cycles_of[Component.PORTS] == full
    assert sum(loads_of(found).best.values()) == adds + 1


@pytest.mark.parametrize(
    ("text", "architecture", "expected"),
    [
        (LOADS, "SNB", 2),  # 16 bytes of each load per cycle
        (LOADS, "HSW", 1),
        (STORES, "SNB", 4),
        (STORES, "HSW", 2),
        (TRIAD, "SNB", 2),  # the address of the store uses a port while a load brings its second half
        ("vmovaps ymm0, [rsi]; mov rax, [rdi]; mov rbx, [rbp]", "SNB", 2),
    ],
)
def test_accesses_of_256_bits_take_the_way_of_data_twice_on_a_sandy_bridge(
    text: str, architecture: str, expected: int
) -> None:
    assert bounds(text, architecture).cycles == expected
    assert cycles(text, architecture) == pytest.approx(expected, rel=0.05)


def test_narrow_accesses_are_limited_by_their_ports_alone() -> None:
    assert Component.UNIT not in bounds("mov rax, [rsi]; mov rbx, [rdi]; mov [rbp], rcx", "SNB").cycles_of


@pytest.mark.parametrize(("architecture", "ends"), [("SNB", True), ("HSW", True), ("SKL", False), ("ICX", False)])
def test_a_pop_of_r12_needs_the_first_decoder_and_may_end_its_group(architecture: str, *, ends: bool) -> None:
    (item,) = reader(architecture).block(assemble("pop r12")).items
    assert item.effects.fetched is not None
    decoding = item.effects.fetched.decoding
    assert (decoding.complex, decoding.simple) == (True, 0 if ends else None)


@pytest.mark.parametrize(("architecture", "longer"), [("SNB", 12), ("HSW", 11), ("SKL", 11), ("ICX", 12)])
def test_a_load_that_is_not_forwarded_waits_for_as_long_as_the_core_takes(architecture: str, longer: int) -> None:
    whole = cycles("mov [rsp], rax; mov rbx, [rsp]; add rax, rbx", architecture)
    part = cycles("mov [rsp], eax; mov rbx, [rsp]; add rax, rbx", architecture)
    assert part - whole == longer


@pytest.mark.parametrize(("architecture", "expected"), [("SNB", 4), ("HSW", 4), ("SKL", 4), ("ICX", 5)])
def test_pointers_are_chased_a_cycle_faster_on_cores_before_ice_lake(architecture: str, expected: int) -> None:
    assert cycles("mov rax, [rax+2040]", architecture) == expected
    assert cycles("mov rax, [rax+2048]", architecture) == 5
    assert cycles("mov rax, [rax+rbx]", architecture) == 5


@pytest.mark.parametrize(
    ("architecture", "fused"),
    [
        ("WSM", {"cmp"}),
        ("SNB", {"cmp", "add", "inc"}),
        ("SKL", {"cmp", "add", "inc"}),
    ],
)
def test_what_fuses_with_a_jump_on_equal(architecture: str, fused: set[str]) -> None:
    texts = {"cmp": "cmp rax, rbx", "add": "add rax, rbx", "inc": "inc rax", "or": "or rax, rbx"}
    found = {
        name
        for name, text in texts.items()
        if reader(architecture).block(assemble(f"again: {text}; je again")).fused[0]
    }
    assert found == fused


@pytest.mark.parametrize(
    ("text", "fuses"),
    [
        ("test rax, rbx; js", True),  # TEST and AND with all conditions
        ("and rax, rbx; jp", True),
        ("cmp rax, rbx; jb", True),  # CMP, ADD and SUB without sign, overflow and parity
        ("cmp rax, rbx; js", False),
        ("inc rax; jl", True),  # INC and DEC also without carry
        ("inc rax; jb", False),
        ("cmp [rsi], rbx; je", True),
        ("cmp qword ptr [rsi], 1; je", False),  # memory and an immediate
        ("cmp rax, [rip+64]; je", False),  # relative to RIP
    ],
)
def test_conditions_and_operands_that_fuse_on_a_sandy_bridge(text: str, *, fuses: bool) -> None:
    assert reader("SNB").block(assemble(f"again: {text} again")).fused[0] is fuses


@pytest.mark.parametrize(("architecture", "ports"), [("SNB", "23"), ("HSW", "23"), ("SKL", "23"), ("ICX", "78")])
def test_a_store_with_an_index_forms_its_address_where_loads_do_before_ice_lake(architecture: str, ports: str) -> None:
    found = bounds("mov [rsi+rdi], rax", architecture)
    sets = {"".join(found.port_names[n] for n in range(16) if mask >> n & 1) for mask in found.port_masks}
    assert ports in sets
    assert not any("7" in one and "2" in one for one in sets)


@pytest.mark.parametrize("name", ["SNB", "IVB", "HSW", "BDW", "SKL", "ICX"])
def test_a_predecoder_takes_sixteen_bytes_or_five_instructions_per_cycle(name: str) -> None:
    front = core_of(name).front_end
    assert front is not None
    assert (front.block_bytes, front.predecoded, front.length_changing_cycles) == (16, 5, 3)
    architecture = "SNB" if name == "IVB" else name
    assert bounds("nop; nop; nop; nop; nop; nop; nop; nop", architecture).cycles_of[Component.PREDECODER] == 2
    assert bounds("mov ax, 0x1234; nop", architecture).cycles_of[Component.PREDECODER] > Fraction(2)


def eliminating(architecture: str) -> MachineModel:
    """Return a machine on which MOVZX of a byte is eliminated, but for one register onto itself."""
    core = core_of(architecture)
    forms = {
        Form.PLAIN: FormFacts(PortUsage({}), uops=0),
        Form.SAME_REGISTER: FormFacts(PortUsage.parse("1*p01"), uops=1),
    }
    pair = LatencyPair(2, LatencyPart.NONE, 1)
    facts = VariantFacts(forms, {pair: Cycles(0, 0)}, {pair: Cycles(1, 1)})
    parameters = replace(Parameters.of(core), front=core)
    return MachineModel(architecture, parameters, Origin("", ""), lambda one: behaviour_from(one, facts, core))


@pytest.mark.parametrize(
    ("text", "architecture", "uops"),
    [
        ("movzx eax, bl", "HSW", 0),
        ("movzx eax, r11b", "HSW", 0),
        ("movzx eax, dil", "HSW", 1),  # DIL has the number of BH
        ("movzx eax, r12b", "SKL", 1),
        ("movzx eax, dil", "IVB", 0),
    ],
)
def test_a_byte_of_a_register_numbered_like_a_high_byte_may_need_a_port(
    text: str, architecture: str, uops: int
) -> None:
    machine = eliminating(architecture)
    (item,) = CodeReader(machine, shipped_assembler().decoder).block(assemble(text)).items
    assert sum(count for _, count in item.effects.port_masks) == uops


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xor eax, eax; nop", 1),
        ("nop; nop", 1),
        ("xor eax, eax; nop; nop", 2),
        ("xor eax, eax; xor ecx, ecx; nop; xor edx, edx; nop dword ptr [rax]", 3),
        ("mov rax, [rsi]; nop; xor ecx, ecx; endbr64; lea rdx, [rdi+8]; nop", 3),
        ("pxor xmm0, xmm0; nop; xor ecx, ecx; nop; xor edx, edx; nop", 4),
        ("movaps xmm0, [rsi]; nop; xor ecx, ecx; nop; xor edx, edx; nop", 4),
        ("mov rax, 0x123456789abcdef; nop", 2),
        ("prefetcht0 [rsi]; nop", 2),
        ("lea rax, [rip+8]; nop", 2),
        ("mov rax, [rip+8]; nop", 2),
        ("lea rax, [rbx+0x1234]; nop", 1),
        ("jmp .+2; nop", 2),
    ],
)
def test_on_a_zen_4_a_nop_fuses_with_the_instruction_before(text: str, expected: int) -> None:
    """Measured on an EPYC (19-11-1): each takes so many sixths of a cycle, where nothing else takes longer."""
    assert bounds(text, "ZEN4").cycles_of[Component.ISSUE] == Fraction(expected, 6)
    assert bounds(text, "ZEN3").cycles_of[Component.ISSUE] == Fraction(len(text.split(";")), 6)


def test_slots_that_time_tells_are_issued_and_any_decoder_of_a_zen_4_takes_two() -> None:
    """XCHG has two slots. It and two XORs take 0.75 cycles where they are decoded (measured), and 2/3 by issue."""
    found = bounds("xchg r8d, r9d; xor eax, eax; xor ecx, ecx", "ZEN4")
    assert found.cycles_of[Component.DECODERS] == Fraction(3, 4)
    two = bounds("add rsp, 8; xor eax, eax; xor ecx, ecx; xor edx, edx", "ZEN4")  # one of them updates RSP
    assert two.cycles_of[Component.DECODERS] == 1
    assert found.cycles_of[Component.ISSUE] == Fraction(2, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xchg rcx, rax; imul rax, rbx", 1.5),
        ("xchg r8, r8; imul r8, rbx", 3),
        ("lea rax, [rax]; imul rax, rbx", 3),
        ("lea rcx, [rax]; add rcx, rbx; mov rax, rcx", 1),
        ("mov eax, eax; shl rax, 4", 1),
    ],
)
def test_what_is_done_at_rename_hands_its_values_on(text: str, expected: float) -> None:
    """Measured on an EPYC (19-11-1)."""
    assert bounds(text, "ZEN4").cycles_of[Component.DEPENDENCIES] == expected


@pytest.mark.parametrize("architecture", ["ZEN3", "ZEN4", "ZEN5", "HSW"])
def test_a_register_moved_to_itself_keeps_its_value_waiting(architecture: str) -> None:
    assert bounds("mov eax, eax; shl rax, 4", architecture).cycles_of[Component.DEPENDENCIES] >= 1
    assert bounds("xor eax, eax; shl rax, 4", architecture).cycles_of[Component.DEPENDENCIES] == 0


@pytest.mark.parametrize(("architecture", "slots"), [("ZEN4", 25), ("ZEN3", 49)])
def test_the_simulation_issues_a_fused_nop_with_its_instruction(architecture: str, slots: int) -> None:
    text = "again: " + "xor eax, eax; nop; xor ecx, ecx; nop; xor edx, edx; nop; " * 8 + "dec ebx; jnz again"
    machine = reader(architecture).machine
    found = Analyzer(machine).bounds(reader(architecture).block(assemble(text)), Running.LOOP)
    study = Study(Simulation(machine, reader(architecture)), Analyzer(machine).follower, found)
    assert float(study.cycles) == pytest.approx(slots / 6, rel=0.1)


@pytest.mark.parametrize("architecture", ["HSW", "ICX", "ZEN4"])
def test_endbr64_is_a_nop_where_the_data_have_nothing_of_it(architecture: str) -> None:
    found = bounds("endbr64; imul rax, rbx", architecture)
    assert not found.block.unknown
    assert found.cycles == bounds("nop; imul rax, rbx", architecture).cycles


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("vaddps ymm0, ymm1, ymm2; addps xmm3, xmm4", 2),  # into the older one, and back
        ("vaddps ymm0, ymm1, ymm2; addps xmm3, xmm4; movaps xmm5, [rsi]; vaddps xmm0, xmm1, xmm2", 2),
        ("vaddps ymm0, ymm1, ymm2; vzeroupper; addps xmm3, xmm4", 0),
        ("vaddps ymm0, ymm1, ymm2; addps xmm3, xmm4; vzeroupper", 1),
        ("vaddps xmm0, xmm1, xmm2; addps xmm3, xmm4", 0),  # VEX of 128 bits zeroes upper halves
        ("vmovaps [rdi], ymm0; addps xmm3, xmm4", 0),  # a store makes nothing dirty
        ("vaddps ymm0, ymm1, ymm2; add rax, rbx; paddd mm0, mm1; prefetcht0 [rsi]", 0),
    ],
)
def test_avx_beside_older_vector_instructions_costs_transitions_up_to_a_broadwell(text: str, times: int) -> None:
    for architecture in some(("HSW", "BDW")):
        assert bounds(text, architecture).cycles_of.get(Component.TRANSITIONS, 0) == 70 * times
        if times:
            assert cycles(text, architecture) == pytest.approx(70 * times, rel=0.05)
            assert "VZEROUPPER" in sentence(bounds(text, architecture))
    assert Component.TRANSITIONS not in bounds(text, "SKL").cycles_of
