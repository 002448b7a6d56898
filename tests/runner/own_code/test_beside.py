"""Predicted beside measured, on a simulated machine."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from itertools import product

import pytest

from analysis.memory.environment import MEASURED
from analysis.prediction import PredictionMode, Tools
from runner.backends.registry import open_backend
from runner.own_code.analyzing.beside import NAMES, beside, measure_code, predict_copies, without_jumps
from runner.own_code.blocks import FEW_INSTRUCTIONS, MORE_INSTRUCTIONS, BlockMode
from tests.analysis.machine import shipped_machine
from tests.nonempty import some
from tests.runner.cli.commands import need_catalogue
from xed_convert.assembly.assembler import assemble, shipped_assembler


@cache
def measured(architecture: str) -> Tools:
    """Return what analyzes code from the initial state of measurements."""
    return Tools.of(shipped_machine(architecture), shipped_assembler().decoder, MEASURED)


CHAIN = bytes.fromhex("480fafc3480fafc1")


@pytest.fixture(autouse=True)
def _catalogue() -> None:
    need_catalogue()


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("48ffc975fb", "48ffc9"),
        ("48ffc9eb00", "48ffc9"),
        ("381775f34883c7014839fe7417", "38174883c7014839fe"),  # a search: its loop is closed in the middle, and left
        ("48ffc9e2fb", "48ffc9"),  # LOOP
        ("48ffc9", "48ffc9"),
        ("48ffc9c3", "48ffc9c3"),
        ("75fe0f", "0f"),  # bytes that are no instruction stay
        ("", ""),
    ],
)
def test_direct_jumps_are_left_out(code: str, left: str) -> None:
    assert without_jumps(bytes.fromhex(code)) == bytes.fromhex(left)


def test_each_mode_has_a_prediction_beside_what_was_measured() -> None:
    tools = measured("HSW")
    with closing(open_backend("sim", architecture="HSW")) as backend:
        where = backend.info().provenance
        rows = beside(CHAIN + bytes.fromhex("75f6"), measure_code(CHAIN, backend), tools, where)
    assert [row.running for row in rows] == list(NAMES.values())
    assert {(row.architecture, row.cpu, row.backend) for row in rows} == {("HSW", where.cpu, "sim")}
    assert [(row.predicted, row.cycles, row.error) for row in rows] == [(6.0, 6.0, 0.0)] * 2


def test_copies_come_out_of_the_loop_without_rounding() -> None:
    tools = Tools.of(shipped_machine("HSW"), shipped_assembler().decoder)
    assert predict_copies(bytes.fromhex("4801d8"), BlockMode.LOOP, tools) == pytest.approx(1.0)
    assert predict_copies(bytes.fromhex("4889d8"), BlockMode.LOOP, tools) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(
    ("core", "code", "in_a_row", "in_a_loop"),
    [
        ("ZEN4", "5b", 1 / 3, 0.64),  # POP RBX
        ("ZEN4", "488b074883c740", 2, 2),  # MOV RAX, [RDI]; ADD RDI, 64
        ("ZEN4", "488b074881c700040000", 5.25, 5.25),  # 1,024 bytes apart
        ("ZEN4", "488b074881c700080000", 8.5, 8.5),  # 2,048
        ("ZEN3", "5b", 1 / 3, 0.75),
        ("ZEN3", "50", 0.5, 1),  # PUSH RAX
        ("ZEN3", "488b074883c740", 3, 3),
        ("ZEN3", "488b074881c700100000", 11, 11),  # 4,096
    ],
)
def test_rows_that_begin_anew_stay_in_a_page_and_loops_leave_it(
    core: str, code: str, in_a_row: float, in_a_loop: float
) -> None:
    """Measured with one physical page for all.

    A Zen 4: 0.33 and 0.65, 2.1 and 2.0, 5.3 and 5.3, 8.8 and 9.3. A Zen 3: 0.34 and 0.75, 0.50 and 0.98, 2.9 and 2.5,
    10.7 and 11.4.
    """
    tools = measured(core)
    for mode, expected in ((BlockMode.UNROLLED, in_a_row), (BlockMode.LOOP, in_a_loop)):
        assert predict_copies(bytes.fromhex(code), mode, tools) == pytest.approx(expected, rel=0.06)


def test_rows_begin_anew_after_as_many_instructions_as_are_measured() -> None:
    assert MEASURED.instructions == FEW_INSTRUCTIONS + MORE_INSTRUCTIONS


def test_a_loop_is_the_difference_of_two_of_which_only_the_smaller_one_may_be_learnt() -> None:
    """Eight copies of MOV RAX, [R14]; ADD RAX, 1; MOV [R13], RAX: one is a loop of 8, four one of 32. Measured: 9.9."""
    tools = measured("ZEN4")
    copy = bytes.fromhex("498b064883c00149894500")
    assert predict_copies(copy, BlockMode.LOOP, tools) == pytest.approx(1, abs=0.1)
    assert predict_copies(copy * 8, BlockMode.LOOP, tools) / 8 == pytest.approx(9.9, rel=0.1)


@pytest.mark.parametrize("how", list(PredictionMode))
def test_copies_of_an_address_relative_to_rip_lead_elsewhere(how: PredictionMode) -> None:
    """AND of a variable in each copy. Measured on a Zen 4: 1.1."""
    tools = measured("ZEN4")
    found = predict_copies(bytes.fromhex("8125cba53500fff3ffff"), BlockMode.UNROLLED, tools, how)
    assert found == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov rdi, rsp; mov rbx, rsp; mov rcx, rsp", 0.75),
        ("mov rsp, rbp; mov rbp, rsp", 1),
        ("mov rsp, rbp", 1 / 6),
        ("lea rdi, [rsp]; lea rbx, [rsp]", 0.5),
        ("lea rdi, [rsp+rcx]; lea rbx, [rsp+rcx]", 2),
        ("lea rdi, [rsp+rcx+8]", 0.5),
        ("mov rdi, [rsp+rcx*8]", 1 / 3),
        ("cmp rdi, rsp", 1),
        ("cmp rdi, rsp; cmp rsi, rsp", 2),
        ("mov [rbx], rsp", 1),
        ("push rsp", 1),
        ("add rsp, 8; xor eax, eax; xor ecx, ecx; xor edx, edx; xor esi, esi; xor ebp, ebp", 7 / 6),
        ("cmp rdi, rsp; add rsp, 8", 2),
        ("push rax; mov rcx, [rsp+8]; lea rsp, [rsp+8]", 1),
        ("push rax; add rsp, 8", 2),
    ],
)
def test_the_stack_pointer_of_a_zen_3_and_a_zen_4_as_measured(text: str, expected: float) -> None:
    """Cycles per copy of rows on two EPYCs (19-01-1 and 19-11-1), by `uopscope measure --blocks`."""
    code = assemble(text)
    for core, mode, how in some(product(("ZEN3", "ZEN4"), BlockMode, PredictionMode), 8):
        tools = measured(core)
        assert predict_copies(code, mode, tools, how) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vmovups xmm0, [rsp+16]; vmovups [rsp+16], xmm0", 9),
        ("movsd xmm0, [rsp+16]; movsd [rsp+16], xmm0", 9),
        ("movq rax, xmm0; mov [rsp+16], rax; movq xmm0, [rsp+16]", 11),
        ("mov [rsp+16], eax; movss xmm0, [rsp+16]; movd eax, xmm0", 11),
        ("addsd xmm0, [rsp+16]; movsd [rsp+16], xmm0", 12),
        ("cvttsd2si rax, xmm0; vcvtsi2sd xmm0, xmm1, rax", 12),
        ("vcomisd xmm0, xmm1; cmovc rax, rcx; vmovq xmm0, rax", 8),
        ("vpcmpeqd k1, xmm0, xmm1; kmovd eax, k1; vmovd xmm0, eax", 9),
    ],
)
def test_ways_of_vectors_on_a_zen_4_take_as_long_as_measured(text: str, expected: int) -> None:
    """Cycles per copy of rows on an EPYC (19-11-1), by `uopscope measure --blocks`."""
    tools = measured("ZEN4")
    for mode in some(BlockMode, 2):
        assert predict_copies(assemble(text), mode, tools) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov rax, [rax+rbx*2]", 5),
        ("mov eax, [rbx+rax+64]", 5),
        ("movsxd rax, [rbx+rax*4]; add rax, rbx", 7),
        ("vmovups xmm0, [rsp+16]; vmovups [rsp+16], xmm0", 9),
        ("movq rax, xmm0; mov [rsp+16], rax; movq xmm0, [rsp+16]", 11),
        ("addsd xmm0, [rsp+16]; movsd [rsp+16], xmm0", 12),
        ("vcomisd xmm0, xmm1; cmovc rax, rcx; vmovq xmm0, rax", 9),
        ("popcnt rdx, [rdi]; add rdi, 8; add eax, edx; cmp rdi, rsi", 1),  # no ALU gets too many of the four
    ],
)
def test_ways_of_a_zen_3_take_as_long_as_measured(text: str, expected: int) -> None:
    """Cycles per copy of rows on an EPYC (19-01-1), by `uopscope measure --blocks`."""
    tools = measured("ZEN3")
    for mode in some(BlockMode, 2):
        assert predict_copies(assemble(text), mode, tools) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("loads", "expected"), [(2, 0.78), (4, 1.92), (6, 3.31), (8, 4.99), (12, 9.26)])
def test_chains_of_loads_wait_for_the_load_queue_of_a_zen_3(loads: int, expected: float) -> None:
    """Cycles per copy of chains on an EPYC (19-01-1), by `uopscope measure --blocks`; ports allow a third per load."""
    code = assemble("; ".join(["mov rax, [rbx]", *["mov rax, [rax]"] * (loads - 1)]))
    assert predict_copies(code, BlockMode.LOOP, measured("ZEN3")) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize(
    ("text", "in_a_row", "in_a_loop"),
    [
        ("cmp r14, 0x9fffff", 0.44, 0.25),  # copies in a row are decoded, 16 bytes per cycle
        ("cmp dx, 0x9e", 3.31, None),  # with a length-changing prefix
        ("cmp qword ptr [rsp+0x68], 0; lea rsi, [rip+0x4cbc8]", 1.06, 1.00),  # such an LEA needs port 1
        ("cmp dword ptr [rip+0x99000], 2", 1.00, 0.52),  # not micro-fused: the first decoder takes two µops
        ("test dword ptr [rsp+0xc], 0x800", 0.50, 0.50),
        ("test dword ptr [rsi+0xc], 0xff00", 0.50, 1.02),  # with more than 32 bits of constants
        ("movsxd rdx, eax; cmp byte ptr [rdx+0x1b10920], 0", 0.60, 1.04),
        ("movabs rdx, 0x4000000000008; test rax, rdx", 0.81, 1.04),
        ("mov rdi, [rsp+0x18]; mov esi, 0xffffffff", 0.62, 0.50),
        ("mov eax, [rbx+0xc]; sub eax, 1; mov [rbx+0xc], eax; test eax, eax", 5.05, 4.98),  # stored data come early
        ("add rsp, 0x100; pop rbx", 2.00, None),  # pages that are known already
    ],
)
def test_blocks_take_as_long_as_measured_on_a_cascade_lake(text: str, in_a_row: float, in_a_loop: float | None) -> None:
    tools, code = measured("SKX"), assemble(text)
    assert predict_copies(code, BlockMode.UNROLLED, tools) == pytest.approx(in_a_row, rel=0.06)
    if in_a_loop is not None:
        assert predict_copies(code, BlockMode.LOOP, tools) == pytest.approx(in_a_loop, rel=0.06)


@pytest.mark.parametrize(
    ("text", "expected", "off"),
    [
        ("cvtss2sd xmm1, xmm2", 0.5, 0.05),
        ("cvtsi2sd xmm1, ecx", 1.25, 0.11),
        ("sqrtsd xmm1, xmm2", 8.4, 0.05),
        ("cvtsi2sd xmm1, ecx; addpd xmm1, xmm2", 6, 0.05),
    ],
)
def test_scalars_do_not_wait_for_the_zeros_that_measured_blocks_begin_with(
    text: str, expected: float, off: float
) -> None:
    """Cycles per copy of rows on an EPYC (19-11-1), by `uopscope measure --blocks`.

    CVTSI2SD has rhythms: the shipped throughput is 1.12.
    """
    tools = measured("ZEN4")
    assert predict_copies(assemble(text), BlockMode.LOOP, tools) == pytest.approx(expected, rel=off)


def test_nothing_is_known_of_the_vectors_of_other_code() -> None:
    code = assemble("cvtss2sd xmm1, xmm2")
    assert predict_copies(
        code, BlockMode.LOOP, Tools.of(shipped_machine("ZEN4"), shipped_assembler().decoder)
    ) == pytest.approx(3, rel=0.05)
