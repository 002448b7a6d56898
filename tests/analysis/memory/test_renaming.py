"""Loads that a core renames, and the ways of stores: to a load, and into the cache. Constants of `cores/`."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.block.reader import CodeReader
from analysis.bounds.components import Analyzer, Bounds, Component, Running
from analysis.machines import completed
from analysis.memory.addresses import AddressFollower
from analysis.memory.commits import commit_cycles
from analysis.memory.environment import MEASURED
from analysis.simulation.run import Simulation
from analysis.simulation.study import Study
from results.machine.constants import StoreCommit, core_names, core_of
from simulator.machines import shipped
from tests.analysis.machine import bounds as haswell
from tests.nonempty import some
from xed_convert.assembly.assembler import assemble, shipped_assembler

RENAMING = [name for name in core_names() if core_of(name).memory_renaming is not None]
RULE = StoreCommit(32, 2, 4, 5, "a test")


@cache
def reader(core: str) -> CodeReader:
    """LLVM's Skylake with the constants of another core."""
    return CodeReader(completed(shipped.load_machine("SKX"), core_of(core)), shipped_assembler().decoder)


def bounds(text: str, core: str) -> Bounds:
    block = reader(core).block(assemble(text))
    return Analyzer(reader(core).machine).bounds(block, Running.UNROLLED)


def chain(text: str, core: str) -> Fraction:
    return bounds(text, core).cycles_of[Component.DEPENDENCIES]


def simulated(text: str, core: str) -> float:
    machine = reader(core).machine
    return float(Study(Simulation(machine, reader(core)), Analyzer(machine).follower, bounds(text, core)).cycles)


@pytest.mark.parametrize("core", RENAMING)
@pytest.mark.parametrize(
    ("store", "load"),
    [
        ("mov [rsp+8], rax", "mov rax, [rsp+8]"),
        ("mov [rsp], eax", "mov eax, [rsp]"),
        ("mov [rsp], rax", "mov eax, [rsp]"),
        ("push rax", "pop rax"),
        ("push rax", "mov rax, [rsp]; pop rbx"),
    ],
)
def test_what_is_spelled_alike_is_there_at_once(core: str, store: str, load: str) -> None:
    assert chain(f"{store}; {load}; imul rax, rax", core) == 3
    assert simulated(f"{store}; {load}; imul rax, rax", core) == pytest.approx(3, abs=0.3)


@pytest.mark.parametrize("core", RENAMING)
@pytest.mark.parametrize(
    ("store", "load"),
    [
        ("mov [rsp], rax", "lea rsp, [rsp+8]; mov rax, [rsp-8]; lea rsp, [rsp-8]"),  # the base is another one
        ("mov rcx, rsp; mov [rsp], rax", "mov rax, [rcx]"),
        ("mov [rip+64], rax", "mov rax, [rip+57]"),
    ],
)
def test_the_same_place_under_another_spelling_is_forwarded(core: str, store: str, load: str) -> None:
    forwarding = core_of(core).memory.forwarding
    assert chain(f"{store}; {load}; imul rax, rax", core) == 3 + forwarding
    assert simulated(f"{store}; {load}; imul rax, rax", core) == pytest.approx(3 + forwarding, abs=0.5)


@pytest.mark.parametrize("core", RENAMING)
def test_small_values_vectors_and_loads_that_compute_are_forwarded(core: str) -> None:
    memory = core_of(core).memory
    assert chain("mov [rsp], rax; add rax, [rsp]", core) == 1 + memory.forwarding
    assert chain("mov [rsp], al; movzx eax, byte ptr [rsp]", core) == memory.forwarding
    assert chain("movaps [rsp], xmm0; movaps xmm0, [rsp]", core) == memory.ways[1]


def test_a_core_renames_only_its_bases_and_indices() -> None:
    plain, indexed = "mov [rdi], rax; mov rax, [rdi]", "mov [rdi+rsi], rax; mov rax, [rdi+rsi]"
    for core in some(RENAMING):
        rule = core_of(core).memory_renaming
        assert rule is not None
        way = core_of(core).memory.forwarding
        assert chain(plain, core) == (way if rule.bases else 0)
        assert chain(indexed, core) == (0 if rule.indexed else way)


def test_loads_that_wait_for_the_cache_add_up_over_copies() -> None:
    text = "mov [rdi], eax; mov rax, [rdi]; mov [rsi], ecx; mov rdx, [rsi]"
    once = haswell(text).cycles_of[Component.DEPENDENCIES]
    assert once == 2 * (5 + 11)
    assert haswell(f"{text}; {text}; {text}").cycles_of[Component.DEPENDENCIES] == 3 * once


def test_a_store_is_forwarded_once_per_so_many_cycles() -> None:
    assert bounds("mov [rdi], rax; mov rbx, [rdi]", "ZEN3").cycles_of[Component.UNIT] == 1
    assert bounds("mov rbx, [rdi]; mov rcx, [rdi]", "ZEN3").cycles_of.get(Component.UNIT, 0) < 1


@given(
    stores=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.sampled_from((1, 4, 8))), min_size=1, max_size=9)
)
def test_stores_take_a_cycle_per_block_and_no_more_than_one_each_but_for_small_ones(
    stores: list[tuple[int, int, int]],
) -> None:
    placed = [(symbol, 8 * number, size) for symbol, number, size in stores]
    cycles = commit_cycles(placed, 1, RULE)
    runs = 1 + sum(a[0] != b[0] or a[1] // 32 != b[1] // 32 for a, b in pairwise(placed))
    least = max(Fraction(runs), Fraction(len(stores), 2))
    assert cycles >= least
    if all(size >= RULE.word_bytes for _, _, size in stores):
        assert cycles == least
    assert commit_cycles([(symbol, place, 8) for symbol, place, _ in placed], 1, RULE) <= cycles


@pytest.mark.parametrize(
    ("stores", "cycles"),
    [
        ([(0, 0x3C, 8)], 2),
        ([(0, 0x3C, 8), (0, 0x40, 8)], 2),
        ([(0, 0x3C, 8), (0, 0x80, 8), (0, 0x88, 8)], 3),
        ([(0, 0x18, 16)], 2),
        ([(0, 0x10, 16)], 1),
        ([(0, 8, 32)], 2),
        ([(0, 0, 64)], 2),
        ([(0, 8, 64)], 3),
        ([(1, 8, 32)], 1),  # where the symbol points to is not known
        ([(1, 8, 64)], 2),
    ],
)
def test_a_store_takes_a_cycle_for_each_block_that_it_needs(stores: list[tuple[int, int, int]], cycles: int) -> None:
    """Those at known addresses were measured on an EPYC (19-11-1), by `uopscope measure --blocks`."""
    assert commit_cycles(stores, 1, RULE) == cycles


def test_a_block_with_a_small_store_is_free_again_after_some_cycles() -> None:
    there_and_back = [(0, 0, 1), (0, 64, 8)] * 4
    assert commit_cycles(there_and_back, 4, RULE) == 5
    assert commit_cycles([(0, 0, 1), (0, 8, 8)] * 4, 4, RULE) == 1


def test_stores_are_followed_where_a_core_says_how_they_commit() -> None:
    text = "mov [rdi], rax; mov [rdi+64], rax"
    items = reader("ZEN3").block(assemble(text)).items
    assert AddressFollower(None, core_of("ZEN3")).follow(items).commit_cycles == 2
    assert AddressFollower(None, core_of("SKX")).follow(items).commit_cycles == 0
    assert bounds(text, "ZEN3").cycles_of[Component.STORES] == 2
    assert Component.STORES not in bounds(text, "SKX").cycles_of
    assert simulated(text, "ZEN3") == pytest.approx(2, abs=0.1)


def test_lines_of_one_physical_page_under_new_addresses_cost_cycles_only_beyond_a_page() -> None:
    tools = reader("ZEN3")
    analyzer = Analyzer(tools.machine, MEASURED)
    memory = core_of("ZEN3").memory
    for bytes_on, lines in some(((4096, 1), (65536, 1), (64, 0), (0, 0))):
        block = tools.block(assemble(f"mov rax, [rdi]; add rdi, {bytes_on}"))
        found = analyzer.bounds(block, Running.UNROLLED).cycles_of
        assert (found.get(Component.UNIT, 0) == memory.alias_page_cycles + lines * memory.alias_cycles) == bool(lines)


def in_loop(text: str, copies: int, core: str = "ZEN4") -> Fraction:
    """Return the cycles of a copy that dependencies take, in a loop of several."""
    block = reader(core).block(assemble("; ".join([text] * copies)))
    found = Analyzer(reader(core).machine).bounds(block, Running.LOOP)
    return found.cycles_of[Component.DEPENDENCIES] / copies


@pytest.mark.parametrize(
    "text",
    [
        "mov rax, [r14+24]; add rax, 1; mov rdx, r14; mov [rdx+24], rax",
        "mov rax, [rdi]; add rax, 1; mov [rdi+8], rax; add rdi, 8",
        "mov eax, [r14+rbx*4]; add eax, 1; mov [r14+rbx*4+4], eax; add rbx, 1",
        "mov rbx, [0x1000]; add rbx, 1; mov [0x1000], rbx",
    ],
)
def test_a_loop_learns_which_store_a_load_reads_from(text: str) -> None:
    """On a Zen 4 each takes a cycle in a loop, and 24 copies in one, too; 26 copies take 7.6 each."""
    assert in_loop(text, 1) == in_loop(text, 24) == 1
    assert in_loop(text, 25) == 8
    assert bounds(text, "ZEN4").cycles_of[Component.DEPENDENCIES] == 8
    assert simulated_loop(text) < 2


def simulated_loop(text: str) -> float:
    machine = reader("ZEN4").machine
    found = Analyzer(machine).bounds(reader("ZEN4").block(assemble(text)), Running.LOOP)
    return float(Study(Simulation(machine, reader("ZEN4")), Analyzer(machine).follower, found).cycles)


@pytest.mark.parametrize(
    "text",
    [
        "add rax, [rdi]; mov [rdi+8], rax; add rdi, 8",  # computes with what it loads
        "movzx eax, word ptr [rdi]; add eax, 1; mov [rdi+2], ax; add rdi, 2",
        "movsd xmm0, [rdi]; addsd xmm0, xmm1; movsd [rdi+8], xmm0; add rdi, 8",
        "add qword ptr [0x1000], 1",
    ],
)
def test_other_loads_are_forwarded_in_a_loop_too(text: str) -> None:
    assert in_loop(text, 1) >= 7


def test_loads_that_gain_nothing_are_learnt_as_well() -> None:
    """Twelve copies of these two loads take a cycle each on a Zen 4, 14 take 6.8."""
    text = "mov r8, [rdi]; mov [rdi+8], r8; movq xmm0, [rdi+8]; add rdi, 8"
    assert in_loop(text, 12) == 1
    assert in_loop(text, 13) > 6


def test_a_loop_learns_nothing_where_that_is_not_known() -> None:
    assert in_loop("mov rax, [rdi]; add rax, 1; mov [rdi+8], rax; add rdi, 8", 1, "ZEN5") > 7
