"""Scalar instructions that keep a part of a register, on cores that know where it is zero.

The times are those of a Zen 4 (19-11-1): 40 of the last instruction in a row, and LFENCE.
"""

from __future__ import annotations

from functools import cache

import pytest

from analysis.block.reader import CodeReader
from analysis.block.zero_uppers import Effect, rules
from analysis.bounds.components import Analyzer, Component, Running
from tests.analysis.machine import shipped_machine
from xed_convert.assembly.assembler import assemble, shipped_assembler
from xed_convert.catalogue.catalogue import Catalogue

ROUNDSD = "; roundsd xmm0, xmm1, 0" * 4


@cache
def reader(architecture: str) -> CodeReader:
    return CodeReader(shipped_machine(architecture), shipped_assembler().decoder)


def waits(text: str, architecture: str = "ZEN4") -> bool:
    """Whether the last instruction of a text waits for the result of the one before."""
    items = reader(architecture).block(assemble(text)).items
    written = {name for output in items[-2].effects.outputs for name in output.names}
    return any(source in written for output in items[-1].effects.outputs for source, _ in output.waits)


@pytest.mark.parametrize(
    "before",
    [
        "pxor xmm0, xmm0",
        "psubd xmm0, xmm0",
        "vpxor xmm0, xmm1, xmm1",
        "movsd xmm0, [rsi]",
        "movss xmm0, [rsi]",
        "vmovsd xmm0, [rsi]",
        "movd xmm0, [rsi]",
        "movq xmm0, xmm1",
        "cvtpd2ps xmm0, xmm1",
        "pxor xmm3, xmm3; movaps xmm0, xmm3",
        "pxor xmm0, xmm0; addsd xmm0, xmm1",
        "pxor xmm0, xmm0; cvtsi2sd xmm0, rax",
        "pxor xmm0, xmm0; movsd xmm0, xmm1",
        "pxor xmm0, xmm0; movlps xmm0, [rsi]",
        "pxor xmm0, xmm0; vzeroupper",
        "pxor xmm3, xmm3; vaddsd xmm0, xmm3, xmm1",
        "movss xmm0, [rsi]; cvtss2sd xmm0, xmm0",
    ],
)
def test_behind_zeros_only_the_other_sources_are_waited_for(before: str) -> None:
    assert not waits(before + ROUNDSD)
    assert waits(before + ROUNDSD, "HSW")


@pytest.mark.parametrize(
    "before",
    [
        "movq xmm0, rax",
        "movd xmm0, eax",
        "movups xmm0, [rsi]",
        "movddup xmm0, [rsi]",
        "pcmpeqd xmm0, xmm0",
        "cvtps2pd xmm0, xmm1",
        "pxor xmm0, xmm0; paddd xmm0, xmm1",
        "pxor xmm0, xmm0; vfmadd231sd xmm0, xmm1, xmm1",
        "pxor xmm3, xmm3; vaddsd xmm0, xmm1, xmm3",
        "vpxor ymm3, ymm3, ymm3; vmovaps ymm0, ymm3",
        "movlps xmm0, [rsi]",
        "mov eax, 1",
    ],
)
def test_behind_anything_else_the_rest_of_the_register_is_waited_for(before: str) -> None:
    assert waits(before + ROUNDSD)


@pytest.mark.parametrize(
    ("before", "is_zero"), [("movss xmm0, [rsi]", True), ("movsd xmm0, [rsi]", False), ("cvtpd2ps xmm0, xmm1", False)]
)
def test_zeros_have_to_begin_where_the_result_ends(before: str, *, is_zero: bool) -> None:
    assert waits(before + "; roundss xmm0, xmm1, 0" * 4) != is_zero


def test_a_register_that_is_another_source_too_is_waited_for() -> None:
    assert waits("pxor xmm0, xmm0; addsd xmm0, xmm1; roundsd xmm0, xmm0, 0")
    assert waits("pxor xmm0, xmm0; addsd xmm0, xmm1; vsqrtsd xmm2, xmm1, xmm0")
    assert not waits("pxor xmm0, xmm0; addsd xmm0, xmm1; vsqrtsd xmm2, xmm0, xmm1")


def test_a_source_in_memory_makes_no_difference() -> None:
    """VMOVQ, VSQRTSD from memory and VADDSD into the register that VMOVQ reads: 9 cycles on a Zen 4, not 25."""
    assert not waits("vmovq xmm0, xmm1; vsqrtsd xmm0, xmm0, [rsp]")
    assert not waits("vmovq xmm0, xmm1; vsqrtsd xmm2, xmm0, [rsp]")
    assert waits("movups xmm0, [rsi]; vsqrtsd xmm0, xmm0, [rsp]")


@pytest.mark.parametrize(("register", "expected"), [("xmm15", False), ("xmm16", True)])
def test_vzeroall_clears_sixteen_registers(register: str, *, expected: bool) -> None:
    text = f"vzeroall; vsqrtsd {register}, {register}, xmm1"
    (output,) = reader("ZEN4").block(assemble(text)).items[-1].effects.outputs
    assert (f"ZMM{register[3:]}" in {source for source, _ in output.waits}) == expected


def test_what_an_iteration_leaves_is_there_in_the_next_one() -> None:
    text = "sqrtsd xmm0, xmm1; movsd xmm0, [rsi]"
    block = reader("ZEN4").block(assemble(text))
    (output,) = block.items[0].effects.outputs
    assert [source for source, _ in output.waits] == ["ZMM1"]


def test_divisions_by_a_scalar_overlap_behind_a_load() -> None:
    """SQRTSD takes 21 cycles in a chain, and 8.4 otherwise."""
    for text, least, most in (("sqrtsd xmm0, xmm1", 20, 22), ("movsd xmm0, [rsi]; sqrtsd xmm0, xmm1", 0, 1)):
        block = reader("ZEN4").block(assemble(text))
        found = Analyzer(reader("ZEN4").machine).bounds(block, Running.UNROLLED)
        assert least <= found.cycles_of[Component.DEPENDENCIES] <= most


def test_every_mnemonic_of_the_table_is_in_the_catalogue() -> None:
    known = {variant.iclass.removeprefix("V") for variant in Catalogue.load()}
    assert {name for name, _ in rules()} <= known
    assert {rule.effect for rule in rules().values()} == set(Effect)
