"""Cycles of simulated code, on the Haswell that uops.info measured."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from analysis.bounds.components import Analyzer, Component, Running
from analysis.memory.environment import BHIVE, MEASURED, Environment
from analysis.memory.pointers import has_chain_of_loads
from analysis.prediction import PredictionMode, Tools
from analysis.simulation.changes import faster_ways
from analysis.simulation.results import Simulated
from analysis.simulation.run import Simulation
from analysis.simulation.study import NOT_TOLD_APART_CYCLES, Study, cycles_of
from tests.analysis.machine import block, haswell, reader, shipped_machine
from xed_convert.assembly.assembler import assemble, shipped_assembler

if TYPE_CHECKING:
    from simulator.machines.machine import Parameters


@cache
def simulation() -> Simulation:
    return Simulation(haswell(), reader())


@cache
def zen_4() -> Tools:
    return Tools.of(shipped_machine("ZEN4"), shipped_assembler().decoder)


def study_of_zen_4(text: str, running: Running) -> Study:
    tools = zen_4()
    bounds = tools.analyzer.bounds(tools.reader.block(assemble(text)), running)
    return Study(tools.simulation, tools.analyzer.follower, bounds)


def study(text: str, running: Running = Running.UNROLLED, environment: Environment | None = None) -> Study:
    analyzer = Analyzer(haswell(), environment)
    return Study(simulation(), analyzer.follower, analyzer.bounds(block(text), running))


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("imul rax, rbx; imul rax, rcx", 6),  # two latencies of 3
        ("imul rax, rbx; imul rcx, rbx; imul rdx, rbx", 3),  # port 1
        ("mov rax, [rsi]; mov rbx, [rdi]; mov rcx, [rbp]", Fraction(3, 2)),  # ports 2 and 3
        ("mov [rsi], rax; mov [rdi], rbx", 2),  # port 4
        ("mov rax, [rax]", 4),  # a load whose base is loaded is a cycle quicker
        ("mov rax, [rax+rbx]", 5),  # not with an index
        ("mov [rdi], rax; mov rax, [rdi]", 5),  # forwarded
        ("push rax; pop rax", 5),  # likewise, at the same place
        ("lea rsp, [rsp+8]; pop rbx", 2),  # a µop brings RSP up to date each time
        ("xor eax, eax; imul rax, rbx", 1),  # a zero idiom waits for nothing
    ],
)
def test_cycles_follow_from_ports_latencies_and_forwarding(text: str, cycles: int) -> None:
    assert float(study(text).cycles) == pytest.approx(float(cycles), rel=0.02)


CHAIN = "mov rax, [rbx+8]; mov rax, [rax+120]; mov rax, [rax+8]; mov rax, [rax+16]; mov rcx, [rax]"
"""Five loads, each of which makes the next one's address. Iterations do not depend on each other."""


def simulated(one: Study, parameters: Parameters) -> float:
    """Return the cycles on a core with other parameters."""
    program = one.simulation.programs.program(one.block, one.followed)
    return float(one.simulation.simulate(program, parameters).cycles)


def test_chains_of_loads_keep_the_load_queue_full() -> None:
    one = study(CHAIN)
    assert one.bounds.cycles == 2.5  # two ports
    assert simulated(one, replace(one.simulation.parameters, load_queue=None)) == pytest.approx(2.5, rel=0.05)
    assert float(one.cycles) == pytest.approx(3.37, rel=0.1)  # BHive: 3.06 to 3.40 on a Haswell
    (wider,) = [what for what in faster_ways(one) if "load queue" in what.change]
    assert float(wider.cycles) == pytest.approx(2.5, rel=0.05)


@pytest.mark.parametrize(("loads", "measured"), [(5, 2.25), (6, 2.84), (8, 4.36), (10, 6.0), (12, 8.27)])
def test_chains_of_loads_take_as_long_as_on_a_real_zen_4(loads: int, measured: float) -> None:
    one = study_of_zen_4("mov rax, [rbx]" + "; mov rax, [rbx+rax]" * (loads - 1), Running.UNROLLED)
    assert float(one.cycles) == pytest.approx(measured, rel=0.06)
    assert simulated(one, replace(one.simulation.parameters, load_queue=None)) < measured * 0.94


@pytest.mark.parametrize(
    ("text", "running", "measured"),
    [
        ("leave", Running.UNROLLED, 4.0),  # RBP points to what it holds
        ("leave; lea rbp, [rsp-8]", Running.UNROLLED, 2.0),
        ("leave; add rbp, 0; add rsp, 0", Running.UNROLLED, 5.0),
        ("push rbp; mov rbp, rsp; leave", Running.UNROLLED, 7.05),
        ("push rbp; mov rbp, rsp; mov rax, [rbp-8]; leave", Running.UNROLLED, 7.1),
        ("push rbp; mov rbp, rsp; mov rax, [rbp-8]; leave", Running.LOOP, 2.0),
    ],
)
def test_leave_takes_as_long_as_on_a_real_zen_4(text: str, running: Running, measured: float) -> None:
    tools = zen_4()
    bounds = Analyzer(tools.reader.machine, MEASURED).bounds(tools.reader.block(assemble(text)), running)
    one = Study(tools.simulation, Analyzer(tools.reader.machine, MEASURED).follower, bounds)
    assert float(one.cycles) == pytest.approx(measured, rel=0.03)


def test_loops_that_fill_the_alus_take_as_long_as_on_a_real_zen_4() -> None:
    one = study_of_zen_4("xor edx, edx; add rdi, 8; popcnt rdx, [rdi-8]; add eax, edx; cmp rcx, rdi", Running.LOOP)
    assert float(one.cycles) == pytest.approx(1.0, rel=0.03)
    assert simulated(one, replace(one.simulation.parameters, schedulers=None)) > 1.2


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("mov rcx, [rdi]; mov rdx, [rdi+8]; mov rsi, [rdi+16]; rorx r8, rbx, 3; rorx r9, rbx, 3", 1.0),
        ("bt rcx, 5; mov rcx, [rdi]; bt rbp, 5; mov rbp, [rdi]; mov rbp, [rdi]; mov r9, [rdi]", 2.0),
        ("comisd xmm0, xmm1" + "; test rcx, rbx" * 8, 3.0),
        ("comisd xmm0, xmm1" + "; lea rcx, [rbx+1]" * 8, 2.0),
        ("movq rbp, xmm0" + "; lea rcx, [rbx+1]" * 8, 3.0),
        ("movq rbp, xmm0" + "; test rcx, rbx" * 8, 2.0),
        ("movq rbp, xmm0" + "; rorx rcx, rbx, 3" * 4, 3.0),
        ("movmskpd ebp, xmm0" + "; rorx rcx, rbx, 3" * 4, 2.0),
        ("movq rdx, xmm0; mov rcx, rdx; btr rcx, 63; test rcx, rcx", 2.0),
        ("; ".join(["mov rdx, [rbx+8]; cmp word ptr [rdx], 42"] * 3), 2.0),
        ("cmp rcx, [rdi]; cmp rdx, [rdi]; rorx rsi, rbx, 3; rorx r8, rbx, 3", 1.33),
        ("popcnt rcx, [rdi]; popcnt rdx, [rdi]; popcnt rsi, rbx; rorx r8, rbx, 3; rorx r9, rbx, 3", 1.33),
        ("popcnt rcx, rbx; popcnt rdx, rbx; mov rax, [rdi]; mov rax, [rdi]; rorx rsi, rbx, 3; rorx r8, rbx, 3", 1.0),
        ("rorx rcx, [rdi], 3; rorx rdx, [rdi], 3; rorx rsi, rbx, 3; rorx r8, rbx, 3", 2.0),
        ("cmovz rcx, [rdi]; cmovz rdx, [rdi+8]", 1.0),
    ],
)
def test_integer_schedulers_and_results_that_come_in_take_as_long_as_on_a_real_zen_4(
    text: str, measured: float
) -> None:
    assert float(study_of_zen_4(text, Running.LOOP).cycles) == pytest.approx(measured, rel=0.03)


def test_a_simulation_without_schedulers_or_without_results_is_too_quick() -> None:
    loads = "bt rcx, 5; mov rcx, [rdi]; bt rbp, 5; mov rbp, [rdi]; mov rbp, [rdi]; mov r9, [rdi]"
    one = study_of_zen_4(loads, Running.LOOP)
    assert simulated(one, one.simulation.parameters) == pytest.approx(2.0, rel=0.03)
    assert simulated(one, replace(one.simulation.parameters, schedulers=None)) < 1.5
    flags = study_of_zen_4("comisd xmm0, xmm1" + "; test rcx, rbx" * 8, Running.LOOP)
    assert simulated(flags, flags.simulation.parameters) == pytest.approx(3.0, rel=0.03)
    assert simulated(flags, replace(flags.simulation.parameters, results=frozenset())) < 2.5


ROTATED = "movsxd rax, [rbx+rcx*4]; vmovups xmm0, [rsi+rax*8]; vmovups xmm1, [rsi+rax*8+16]"


@pytest.mark.parametrize("by", [1, 2])
def test_a_loop_takes_the_same_wherever_its_text_begins(by: int) -> None:
    lines = ROTATED.split("; ")
    rotated = "; ".join(lines[by:] + lines[:by])
    first, other = (study_of_zen_4(text, Running.LOOP) for text in (ROTATED, rotated))
    assert float(other.cycles) == pytest.approx(float(first.cycles), rel=0.02)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov rax, [rbx]; mov rcx, [rdx]; mov rsi, [rdi]; mov rbp, [r8]", False),
        ("mov rax, [rcx]; add rcx, 8; add rdx, rax", False),  # the iteration before makes the address
        ("mov rax, [rbx]; mov rcx, [rax]", True),
        ("mov rcx, [rax]; mov rax, [rbx]", True),
        ("mov rax, [rsi]; mov eax, 5; mov rcx, [rax]", False),
    ],
)
def test_chains_of_loads_are_found(text: str, expected: bool) -> None:
    assert has_chain_of_loads(zen_4().reader.block(assemble(text)).items) is expected


def test_a_load_that_is_not_forwarded_waits_for_the_cache() -> None:
    whole = study("mov [rsp], rax; mov rbx, [rsp]; add rax, rbx")
    part = study("mov [rsp], eax; mov rbx, [rsp]; add rax, rbx")
    assert whole.cycles == 6
    assert part.cycles - whole.cycles == 11  # Agner Fog: 11 to 12 cycles more


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("add [rsp+32], rbx; mov rax, [rsp+32]; mov rcx, [rsp+40]", 7),  # with CMP in BHive 6.85
        ("add [rsp+32], rbx; mov rcx, [rsp+40]; mov rax, [rsp+32]", 6),  # 5.99: the two loads have two ports
        ("add [rsp+32], rbx; mov rax, [rsp+32]", 6),
    ],
)
def test_of_two_loads_from_a_store_on_one_port_the_younger_is_later(text: str, cycles: int) -> None:
    one = study(text, environment=BHIVE)
    assert one.bounds.cycles == 6
    assert float(one.cycles) == pytest.approx(cycles, abs=0.05)
    found = {change.change: float(change.cycles) for change in faster_ways(one)}
    if cycles > 6:
        assert min(found["port 2 without limits"], found["port 3 without limits"]) == pytest.approx(6, abs=0.1)


def test_new_pages_cost_cycles_only_where_addresses_are_known() -> None:
    text = "lea rsp, [rsp+328]; pop rbx; pop rbp; pop r12; pop r13; pop r14; pop r15"
    known, unknown = study(text, environment=BHIVE), study(text)
    assert unknown.simulated.page_cycles == 0
    assert known.simulated.page_cycles == Fraction(8 * (328 + 48), 4096)
    assert known.cycles - unknown.cycles == known.simulated.page_cycles


def test_no_simulation_is_faster_than_the_bound_of_the_ports() -> None:
    for text in ("mov rax, [rsi]; add rax, [rdi]; mov [rbp], rax", "imul rax, rbx; add rcx, rax; lea rdx, [rcx+rax+8]"):
        one = study(text)
        assert one.cycles >= max(one.bounds.cycles_of.values()) * Fraction(99, 100)


@pytest.mark.parametrize(
    ("text", "count", "cycles"),
    [
        # 10 bytes each: two in 16 bytes are no whole number, so that the predecoder takes 16 bytes per cycle
        ("mov rax, 0x1122334455667788", 1000, Fraction(10004, 16)),
        # The µop cache holds 256 windows of 32 bytes
        ("nop word ptr cs:[rax+rax+0x11223344]", 700, Fraction(701, 4)),
        # Constants of 64 bits take two of six entries of a line, and one such instruction is delivered per cycle
        ("mov rax, 0x1122334455667788", 700, Fraction(7004, 16)),
        ("mov rax, 0x1122334455667788", 400, Fraction(401)),
    ],
)
def test_a_loop_is_decoded_anew_if_the_uop_cache_cannot_hold_it(text: str, count: int, cycles: Fraction) -> None:
    found = study(f"again: {'; '.join([text] * count)}; dec rdi; jne again", Running.LOOP)
    assert float(found.cycles) == pytest.approx(float(cycles), rel=0.02)
    assert found.cycles >= max(found.bounds.cycles_of.values()) * Fraction(99, 100)


def test_a_bound_of_code_that_is_partly_decoded_adds_up_both_parts() -> None:
    """A window of 32 bytes with more µops than its lines hold is decoded, the others come out of the µop cache."""
    text = "; ".join(["nop word ptr cs:[rax+rax+0x11223344]"] * 200 + ["nop"] * 40)
    found = study(f"again: {text}; dec rdi; jne again", Running.LOOP)
    assert found.cycles >= max(found.bounds.cycles_of.values()) * Fraction(99, 100)
    assert found.bounds.cycles_of[Component.PREDECODER] < Fraction(2042, 16)


def test_instructions_without_data_take_a_place_and_are_named() -> None:
    known, unknown = study("imul rax, rbx"), study("imul rax, rbx; aesenclast xmm1, xmm2")
    assert [item.known for item in unknown.block.items] == [True, False]
    assert known.cycles <= unknown.cycles <= known.cycles + 1


def test_values_pass_through_instructions_without_data_and_end_where_these_write() -> None:
    passing = study("imul rax, rbx; movd xmm1, eax; aesenclast xmm2, xmm1; movd eax, xmm2")
    apart = study("imul rax, rbx; movd xmm1, eax; movd eax, xmm2")
    written = study("imul rax, rbx; xstore")
    assert [item.known for item in written.block.items] == [True, False]
    assert [one.bounds.cycles for one in (passing, apart, written)] == [5, 1, 1]
    assert passing.cycles >= 5
    assert written.cycles < 2


def test_a_jump_back_without_data_closes_a_loop() -> None:
    found = study("again: add rax, rbx; loop again", Running.AUTO).bounds
    assert [item.known for item in found.block.items] == [True, False]
    assert found.running is Running.LOOP


def test_what_branches_to_the_next_instruction_took_limits_no_other_branch() -> None:
    """The Zen 3's file has 11 cycles for JMP, measured among many that follow each other."""
    tools = Tools.of(shipped_machine("ZEN3"), shipped_assembler().decoder)
    found = tools.predict(assemble("again: add rax, 1; jmp again"), Running.LOOP, PredictionMode.SIMULATION)
    assert found.cycles == 1


def test_loops_come_from_the_loop_buffer() -> None:
    found = study("again: add rax, r8; add rbx, r8; add rcx, r8; add rdx, r8; dec rdi; jne again", Running.LOOP)
    assert found.bounds.running is Running.LOOP
    assert float(found.cycles) == pytest.approx(1.33, rel=0.1)  # five µops, held three times in 15 issue slots, port 6


@pytest.mark.parametrize(
    ("simulated", "predicted"),
    [
        (5, 10),  # a simulation that ends too early
        (10 + Fraction(NOT_TOLD_APART_CYCLES, 100), 10),
        (10 + Fraction(NOT_TOLD_APART_CYCLES + 1, 100), 10 + Fraction(NOT_TOLD_APART_CYCLES + 1, 100)),
    ],
)
def test_nothing_is_predicted_to_be_quicker_than_a_bound(simulated: Fraction, predicted: Fraction) -> None:
    assert cycles_of(Simulated(Fraction(simulated), {}, iterations=100), Fraction(10)) == predicted
