"""AArch64 kernels by LLVM's models: operands, dependencies, ports; skipped where LLVM is not installed."""

from __future__ import annotations

import re

import pytest

from analysis.aarch64 import llvm
from analysis.aarch64.kernel import Kernel, analyze, cpus
from analysis.aarch64.llvm import Described, ToolError, tables_of
from analysis.aarch64.operands import effects_of, registers_in
from analysis.errors import AnalysisError
from tests.analysis.aarch64.installed import need_llvm
from tests.nonempty import some

NEWEST_CPUS_SINCE = 16
"""The first LLVM with Neoverse V2, the newest of the CPUs that are named."""

GAUSS_SEIDEL = """\
.L3:
    // OSACA-BEGIN
    ldr d1, [x1], #8
    fadd d0, d0, d1
    ldr d2, [x2, #8]
    fadd d0, d0, d2
    fmul d0, d0, d8
    str d0, [x3], #8
    add x2, x2, #8
    cmp x3, x4
    bne .L3
    // OSACA-END
    ret
"""


@pytest.fixture(autouse=True)
def _llvm() -> None:
    need_llvm()


def kernel(text: str, cpu: str = "TX2") -> Kernel:
    return analyze(text, cpu)


def test_the_chain_of_gauss_seidel_is_found() -> None:
    found = kernel(GAUSS_SEIDEL)
    latency = {one.text.split()[0]: one.latency for one in reversed(found.tables.instructions)}  # the first of each
    assert found.cycle is not None
    assert found.cycle.ratio == 2 * latency["fadd"] + latency["fmul"]
    assert found.cycles == found.cycle.ratio
    positions, cycles = found.path
    assert positions == [0, 1, 3, 4, 5]
    assert cycles == latency["ldr"] + found.cycle.ratio + latency["str"]
    assert found.lines == (3, 4, 5, 6, 7, 8, 9, 10, 11)
    assert "2 * " not in repr(found)
    assert re.search(r"from iteration to iteration: \d+ cycles: lines 4 → 6 → 7", repr(found))


@pytest.mark.parametrize("name", sorted(cpus()))
def test_every_cpu_that_is_named_is_one_of_llvms(name: str) -> None:
    try:
        found = kernel(GAUSS_SEIDEL, name)
    except ToolError as error:
        if int(llvm.version().split(".")[0]) < NEWEST_CPUS_SINCE:
            pytest.skip(str(error))
        raise
    ports = found.bounds["ports"]
    assert 0 < ports <= max(found.even.values())
    assert found.json()["architecture"] == cpus()[name]
    assert all(unit.isprintable() for unit in some(found.tables.units))


@pytest.mark.parametrize(
    ("text", "reads", "writes", "base"),
    [
        ("add x0, x1, w2, sxtw", {"X1", "X2"}, {"X0"}, ""),
        ("adds x0, x0, #16", {"X0"}, {"X0", "NZCV"}, ""),
        ("subs xzr, x1, x2", {"X1", "X2"}, {"NZCV"}, ""),
        ("cmp x0, x1", {"X0", "X1"}, {"NZCV"}, ""),
        ("csel x3, x4, x5, eq", {"X4", "X5", "NZCV"}, {"X3"}, ""),
        ("ccmp x0, x1, #0, ne", {"X0", "X1", "NZCV"}, {"NZCV"}, ""),
        ("b.ne .L1", {"NZCV"}, set(), ""),
        ("cbnz x3, .L1", {"X3"}, set(), ""),
        ("fmla v1.2d, v2.2d, v0.2d", {"V0", "V1", "V2"}, {"V1"}, ""),
        ("fmul v1.2d, v2.2d, v0.d[1]", {"V0", "V2"}, {"V1"}, ""),
        ("movk x0, #5, lsl #16", {"X0"}, {"X0"}, ""),
        ("mov v0.d[1], x3", {"V0", "X3"}, {"V0"}, ""),
        ("ldr q3, [x3], #16", {"X3"}, {"V3"}, "X3"),
        ("ldr q3, [x3, x4, lsl #4]", {"X3", "X4"}, {"V3"}, ""),
        ("ldp x8, x9, [x6, #16]!", {"X6"}, {"X8", "X9"}, "X6"),
        ("stp q3, q1, [sp, #-32]!", {"V3", "V1", "SP"}, set(), "SP"),
        ("str w3, [x4]", {"X3", "X4"}, set(), ""),
        ("ld1 { v0.2d, v1.2d }, [x0], #32", {"X0"}, {"V0", "V1"}, "X0"),
        ("st1 { v0.2d }, [x0]", {"V0", "X0"}, set(), ""),
        ("stxr w3, x1, [x2]", {"X1", "X2"}, {"X3"}, ""),
        ("ret", set(), set(), ""),
    ],
)
def test_what_an_instruction_reads_and_writes(text: str, reads: set[str], writes: set[str], base: str) -> None:
    tables = tables_of(f".L1:\n{text}\n", "neoverse-n1")
    found = effects_of(tables.instructions[0])
    assert (set(found.reads), set(found.writes), found.base) == (reads, writes, base)


def test_parts_of_a_register_are_one_place() -> None:
    assert registers_in("w1, x1, s2, q2, v2.4s, z2.d, sp, xzr, p0/m") == ["X1", "X1", *["V2"] * 4, "SP", "P0"]


def test_marks_as_osaca_writes_them_in_bytes() -> None:
    marks = [f"    mov x1, #{number}\n    .byte 213,3,32,31\n" for number in (111, 222)]
    found = kernel(f"nop\n{marks[0]}fadd d0, d0, d1\n{marks[1]}nop\n")
    assert [one.text for one in found.tables.instructions] == ["fadd d0, d0, d1"]
    assert found.lines == (4,)


@pytest.mark.parametrize(
    ("text", "cpu", "message"),
    [
        ("nosuch x0\n", "TX2", "line 1: unrecognized instruction"),
        ("nop\nldr x0, [x1\n", "TX2", "line 2"),
        ("", "TX2", "no instruction"),
        ("// OSACA-BEGIN\n", "TX2", "no -END"),
        ("mov rax, [rsi]\n", "TX2", "line 1"),
    ],
)
def test_wrong_text_is_said_in_a_sentence(text: str, cpu: str, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        kernel(text, cpu)


def test_an_unknown_model_is_said_in_a_sentence() -> None:
    with pytest.raises((AnalysisError, ToolError), match=r"nosuch|no model"):
        kernel("nop\n", "llvm:nosuch")


def test_without_llvm_a_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolError, match="llvm-mca is not installed") as error:
        kernel(GAUSS_SEIDEL)
    assert "apt install llvm" in str(error.value)
    assert error.value.exit_code == 3


def test_a_described_instruction_without_registers_has_no_tied_operand() -> None:
    one = Described("fmov d0, #1.0", 1, 1, {}, "FMOVDi", ())
    assert effects_of(one).reads == ()
