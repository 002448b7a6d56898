"""What would make code faster."""

from fractions import Fraction

import pytest

from analysis.bounds.components import Running
from analysis.explanation import PredictionFacts
from analysis.report.data import json_of
from analysis.report.text import lines_of
from analysis.whatif import what_ifs
from tests.analysis.machine import bounds, haswell


def changes(text: str) -> dict[str, Fraction]:
    return {one.change: one.cycles for one in what_ifs(bounds(text, Running.UNROLLED))}


def test_without_its_limit_the_next_one_counts() -> None:
    found = changes("imul rax, rbx; imul rax, rcx")
    assert found["without a limit by dependencies"] == 2  # port 1
    assert list(found.values()) == sorted(found.values())


@pytest.mark.parametrize(
    ("text", "change", "cycles"),
    [
        ("imul rax, rbx; imul rax, rcx", "line 1 without latency (IMUL RAX, RBX)", 3),
        ("vaddps xmm0, xmm1, xmm2; vaddps xmm3, xmm1, xmm2", "with a second port 1", 1),
        ("mov rax, [rsi]; mov rbx, [rdi]; mov rcx, [rbp]", "with a second port 2", 1),
        ("mov rbx, [rax]; mov rax, [rbx]", "line 2 without latency (MOV RAX, qword ptr [RBX])", 4),
    ],
)
def test_one_change_gives_its_bound(text: str, change: str, cycles: int) -> None:
    assert changes(text)[change] == cycles


def test_where_two_limits_are_alike_none_alone_gains() -> None:
    found = bounds("imul rax, rbx; imul rcx, rbx; imul rdx, rbx", Running.UNROLLED)  # port 1, and each its own chain
    assert len(found.limits) == 2
    assert what_ifs(found) == []


def test_the_report_has_them() -> None:
    found = bounds("imul rax, rbx; imul rax, rcx", Running.UNROLLED)
    text = "\n".join(lines_of(PredictionFacts(found, haswell())))
    assert "without a limit by dependencies" in text
    assert json_of(PredictionFacts(found, haswell()))["what_if"][0] == {
        "change": "without a limit by dependencies",
        "cycles": 2.0,
    }
