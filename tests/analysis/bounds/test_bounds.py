"""Bounds of whole blocks, and what is said of them."""

from fractions import Fraction

import pytest

from analysis.bounds.components import Component, Running
from analysis.errors import AnalysisError
from analysis.explanation import PredictionFacts
from analysis.report.data import json_of
from analysis.report.text import lines_of
from tests.analysis.machine import block, bounds, haswell, reader


@pytest.mark.parametrize(
    ("text", "cycles", "ports"),
    [
        ("imul rax, rbx; imul rcx, rbx", 2, "1"),
        ("mov rax, [rsi]; mov rbx, [rdi]; mov rcx, [rbp]", Fraction(3, 2), "23"),
        ("mov [rsi], rax; mov [rdi], rax", 2, "4"),
    ],
)
def test_the_fullest_ports_are_found(text: str, cycles: Fraction, ports: str) -> None:
    found = bounds(text, Running.UNROLLED)
    assert found.cycles_of[Component.PORTS] == cycles
    assert found.full == frozenset(ports)
    assert found.full_uops == cycles * len(ports)


def test_a_fused_pair_takes_one_slot_and_one_port() -> None:
    found = bounds("again: dec rcx; jnz again")
    assert found.cycles_of[Component.ISSUE] == Fraction(1, 4)
    assert found.cycles_of[Component.PORTS] == 1
    assert found.full == frozenset("6")


def test_the_largest_bound_is_the_prediction() -> None:
    found = bounds("imul rax, rbx; imul rax, rcx")
    assert found.cycles == max(found.cycles_of.values()) == 6
    assert found.limits == [Component.DEPENDENCIES]
    text = "\n".join(lines_of(PredictionFacts(found, haswell())))
    assert "6.00 cycles per iteration" in text
    assert "6 cycles: lines 1 → 2" in text or "6 cycles: lines 2 → 1" in text


def test_a_divider_and_a_serial_unit_are_bounds() -> None:
    assert bounds("vdivsd xmm0, xmm1, xmm2").cycles_of[Component.DIVIDER] > 1
    serial = bounds("cpuid; add rax, rbx")
    assert (serial.cycles_of[Component.UNIT] > 20, serial.unit) == (True, "CPUID")


def test_unknown_instructions_are_named_and_counted() -> None:
    found = bounds("imul rax, rbx; aesenclast xmm1, xmm2; aesenclast xmm3, xmm2")
    assert len(found.block.unknown) == 2
    text = "\n".join(lines_of(PredictionFacts(found, haswell())))
    assert "Nothing is known of AESENCLAST (XMM, XMM) (2 times)" in text
    assert json_of(PredictionFacts(found, haswell()))["unknown"] == ["AESENCLAST (XMM, XMM)"] * 2


def test_json_says_the_same_as_the_object() -> None:
    found = bounds("again: add rax, [rsi]; add rsi, 8; dec rcx; jnz again")
    said = json_of(PredictionFacts(found, haswell()))
    assert said["cycles_per_iteration"] == float(found.cycles)
    assert said["running"] == "loop"
    assert [row["text"].split()[0] for row in said["instructions"]] == ["ADD", "ADD", "DEC", "JNZ"]
    assert [row["offset"] for row in said["instructions"]] == [0, 3, 7, 10]
    assert [row["fused_with_next"] for row in said["instructions"]] == [False, False, True, False]


def test_code_without_instructions_is_refused() -> None:
    for code in (b"", b"\x0f", b"\x06"):
        with pytest.raises(AnalysisError):
            reader().block(code)
    with pytest.raises(AnalysisError, match="jump back"):
        bounds("again: dec rcx; jnz again", Running.UNROLLED)


def test_the_same_bytes_are_the_same_object() -> None:
    first, second = block("imul rax, rbx; imul rax, rbx").items
    assert first is second
