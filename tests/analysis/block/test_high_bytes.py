"""AH, BH, CH and DH: merged with their registers where a core renames them apart, and later where they are no longer.

The times behind each text are those that BHive has of a Haswell, in its tuning half.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from analysis.block.reader import CodeReader
from analysis.bounds.components import Analyzer, Bounds, Component, Running
from analysis.explanation import PredictionFacts
from analysis.loads import loads_of
from analysis.memory.pointers import has_chain_of_loads, quick_loads
from analysis.report.text import lines_of
from analysis.simulation.results import Wait
from analysis.simulation.run import Simulation
from analysis.simulation.study import Study
from tests.analysis.machine import shipped_machine
from xed_convert.assembly.assembler import assemble, shipped_assembler

if TYPE_CHECKING:
    from analysis.block.code import Block

BIT_FIELD = "movzx eax, word ptr [rdi+18]; and ah, 127; sub eax, 40; cmp eax, 1"
"""1.99 cycles: the µop that merges AH has a cycle of its own, and so have the four other µops."""

CHAIN = "mov eax, [rax+64]; and ah, 251"
"""A load of 5 cycles, AH out of EAX in one more than AND takes, the merging µop."""


@cache
def reader(architecture: str) -> CodeReader:
    return CodeReader(shipped_machine(architecture), shipped_assembler().decoder)


def block(text: str, architecture: str = "HSW") -> Block:
    return reader(architecture).block(assemble(text))


def bounds(text: str, architecture: str = "HSW", running: Running = Running.UNROLLED) -> Bounds:
    return Analyzer(shipped_machine(architecture)).bounds(block(text, architecture), running)


def study(text: str, architecture: str = "HSW") -> Study:
    machine = shipped_machine(architecture)
    found = bounds(text, architecture)
    return Study(Simulation(machine, reader(architecture)), Analyzer(machine).follower, found)


def merged(text: str, architecture: str = "HSW") -> dict[int, tuple[str, ...]]:
    """Return which registers are merged with their high bytes, by the position of the instruction that reads them."""
    items = block(text, architecture).items
    return {position: item.effects.merged for position, item in enumerate(items) if item.effects.merged}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BIT_FIELD, {2: ("RAX",)}),
        ("mov ah, bl; mov [rsi], eax", {1: ("RAX",)}),
        ("mov ah, bl; mov rcx, [rsi+rax*8]; mov rdx, [rax]", {1: ("RAX",)}),
        ("mov ah, bl; mov ch, bl; lea rdx, [rax+rcx]", {2: ("RAX", "RCX")}),
        ("mov ah, bl; mov ax, cx", {1: ("RAX",)}),  # 16 bits keep the upper ones
        ("mov rcx, rax; mov ah, bl", {0: ("RAX",)}),  # AH of the iteration before
        ("mov ah, bl; mov eax, 1", {}),
        ("xor eax, eax; mov al, cl; mov ah, dl", {}),  # 0.72 cycles: a zero idiom reads nothing
        ("mov ah, bl; mov al, cl; add cl, ah", {}),
        ("and dh, 8", {}),
        ("movzx ecx, ah; mov eax, [rsi]", {}),
    ],
)
def test_a_high_byte_is_merged_once_it_was_written_and_its_register_is_read(
    text: str, expected: dict[int, tuple[str, ...]]
) -> None:
    assert merged(text) == expected


@pytest.mark.parametrize(
    ("architecture", "apart"),
    [("SNB", True), ("HSW", True), ("SKL", True), ("SKX", True), ("ICX", False), ("ZEN4", False)],
)
def test_high_bytes_are_apart_on_intels_cores_before_ice_lake(architecture: str, *, apart: bool) -> None:
    assert bool(merged(BIT_FIELD, architecture)) is apart


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        (BIT_FIELD, 2),
        ("add ebx, 1; mov ah, cl; mov [rsi], eax", 2),
        ("mov ah, cl; mov [rsi], eax; mov bh, cl; mov [rsi], ebx", 4),
        ("lea r8, [rsi]; lea r9, [rsi]; lea r10, [rsi]; lea r11, [rsi]; " + BIT_FIELD, 3),
    ],
)
def test_a_merging_uop_is_issued_alone(text: str, cycles: float) -> None:
    assert bounds(text).cycles_of[Component.ISSUE] == cycles
    assert float(study(text).simulated.cycles) == pytest.approx(cycles, abs=0.1)


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        (CHAIN, 8),  # 7.99 cycles
        ("and dh, 8", 1),  # 0.99: it is apart all the time
        ("xor eax, eax; and dh, 64", 1),
        ("mov ah, bl; imul ebx, ecx", 3),  # writing AH does not wait for EAX
        ("movzx eax, ah; imul eax, ecx", 5),  # 3, and 1 that takes a cycle more
        ("add al, ah", 2),
        ("add ah, al; add eax, ecx", 4),  # AH out of EAX, the merging µop, the other addition
    ],
)
def test_a_high_byte_that_is_a_part_of_its_register_takes_a_cycle_longer(text: str, cycles: int) -> None:
    found = bounds(text)
    assert found.cycles_of[Component.DEPENDENCIES] == cycles
    assert float(study(text).simulated.cycles) == pytest.approx(float(found.cycles), abs=0.1)


def test_the_merging_uop_counts_for_ports_and_in_the_report() -> None:
    found = bounds(BIT_FIELD)
    assert sum(found.port_masks.values()) == 5
    assert sum(loads_of(found).best.values()) == 5
    facts = PredictionFacts(found, shipped_machine("HSW"))
    assert any("1*p0156+1*p15" in line and "SUB EAX" in line for line in lines_of(facts))
    other = PredictionFacts(bounds("mov ah, bl; lea rcx, [rax]"), shipped_machine("HSW"))
    assert any("2*p15" in line and "LEA" in line for line in lines_of(other))
    simulated = study(BIT_FIELD)
    assert sum(simulated.simulated.ports.values()) == 5
    reading = simulated.explanation.instructions[2]
    assert sum(reading.ports.values()) == pytest.approx(2, abs=0.05)
    assert sum(one.waits.get(Wait.BUFFER, Fraction(0)) for one in simulated.explanation.instructions) == 0


def test_a_merged_pointer_is_no_result_of_a_load() -> None:
    chase = block("mov rax, [rax]; mov bl, cl").items
    assert quick_loads(chase, ()) == {0}
    assert quick_loads(block("mov rax, [rax]; mov ah, cl").items, ()) == set()
    assert has_chain_of_loads(block("mov ebx, [rsi]; mov ah, bl; mov rcx, [rax]").items)
    assert not has_chain_of_loads(block("mov ebx, [rsi]; mov dh, bl; mov rcx, [rax]").items)
