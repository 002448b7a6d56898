"""Bounds of the front end by hand."""

from fractions import Fraction

import pytest

from analysis.bounds.components import Component, Running
from analysis.bounds.front_end import predecoder_bound
from tests.analysis.machine import block, bounds, haswell

UNROLLED = Running.UNROLLED


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("imul rax, rbx", Fraction(1, 4)),  # four in 16 bytes
        ("mov rax, 0x1122334455667788", Fraction(10, 16)),  # ten bytes: eight instructions in five blocks
        ("nop", Fraction(4, 16)),  # 16 in a block take four cycles
        ("nop; nop; nop; nop; imul rax, rbx", 1),  # ten in a block
    ],
)
def test_the_predecoder_takes_a_block_and_five_instructions_per_cycle(text: str, cycles: Fraction) -> None:
    assert bounds(text, UNROLLED).cycles_of[Component.PREDECODER] == cycles


def test_an_instruction_whose_opcode_is_in_the_block_before_counts_there_too() -> None:
    constant = "mov rax, 0x1122334455667788"
    inside = bounds(f"{'nop; ' * 5}{constant}; nop", UNROLLED)
    assert inside.cycles_of[Component.PREDECODER] == 2  # seven end in the block
    across = bounds(f"{'nop; ' * 10}{constant}; {'nop; ' * 12}", UNROLLED)
    assert across.block.size_bytes == 32
    assert across.cycles_of[Component.PREDECODER] == 3 + 3  # ten and one that begins; one that ends, and twelve


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("add rax, rbx", Fraction(1, 3)),  # the last decoder takes nothing that could fuse with a jump
        ("imul rax, rbx", Fraction(1, 4)),
        ("add [rdi], rax", 1),  # only the first decoder takes it
        ("add [rdi], rax; imul rax, rbx; imul rax, rbx", 1),
        ("add [rdi], rax; imul rax, rbx; imul rax, rbx; imul rax, rbx", 2),  # two simple ones beside it, as measured
        ("add [rdi], rax; imul rax, rbx; add rax, rbx", 1),  # the third decoder is not the last one
        ("pop rbx; pop rcx; pop rdx", Fraction(3, 4)),
        ("pop rbx; pop r12; pop rdx", 2),  # alone
    ],
)
def test_decoders(text: str, cycles: Fraction) -> None:
    assert bounds(text, UNROLLED).cycles_of[Component.DECODERS] == cycles


def test_a_prefix_that_changes_the_length_costs_cycles() -> None:
    plain, changing = (
        bounds(text, UNROLLED).cycles_of[Component.PREDECODER]
        for text in ("and dword ptr [rbx], 0x12345678", "imul ax, word ptr [rbx], 0x1234")
    )
    assert plain == Fraction(6, 16)
    assert changing > 2


def test_a_loop_that_fits_comes_out_of_the_loop_buffer_in_whole_cycles() -> None:
    found = bounds("again: imul rax, rbx; imul rcx, rbx; imul rdx, rbx; imul rsi, rbx; dec rdi; jnz again")
    assert found.block.fused[-2]
    core = haswell().parameters.front
    assert core is not None
    assert core.loop_buffer is not None
    copies = core.loop_buffer.copies(5)
    assert found.cycles_of[Component.LOOP_BUFFER] == Fraction(-(-5 * copies // 4), copies)
    assert Component.PREDECODER not in found.cycles_of


@pytest.mark.parametrize(
    ("line", "cycles"),
    [("nop word ptr cs:[rax+rax+0x11223344]", Fraction(61, 4)), ("mov rax, 0x1122334455667788", Fraction(60))],
)
def test_a_loop_that_is_too_long_for_it_comes_out_of_the_uop_cache(line: str, cycles: Fraction) -> None:
    body = "; ".join([line] * 60)
    found = bounds(f"again: {body}; dec rdi; jnz again")
    assert found.cycles_of[Component.UOP_CACHE] == cycles


def test_a_loop_that_does_not_fit_into_the_cache_is_decoded_anew() -> None:
    body = "; ".join(["nop"] * 100)  # 32 µops in a window, which holds 18
    found = bounds(f"again: {body}; dec rdi; jnz again")
    assert {Component.PREDECODER, Component.DECODERS} <= found.cycles_of.keys()


def test_where_copies_begin_decides_how_many_instructions_end_in_a_block() -> None:
    front = haswell().parameters.front
    assert front is not None
    assert front.front_end is not None
    code = block("mov edx, [rsp+0x18]; cmp eax, edx")  # four and two bytes
    found = [predecoder_bound(code, front.front_end, loop=False, begin=begin) for begin in (0, 2, 15)]
    assert found == [Fraction(5, 8), Fraction(5, 8), Fraction(6, 8)]
