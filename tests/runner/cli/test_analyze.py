"""`uopscope analyze`: sources of code, machines, outputs, errors."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING

import pytest

from runner.cli import _guard
from runner.cli.analyze import app
from tests.runner.cli.commands import need_catalogue
from tests.shared import measured_haswell

if TYPE_CHECKING:
    from pathlib import Path

HASWELL = ("--data", str(measured_haswell()))
CHAIN = "imul rax, rbx; imul rax, rcx"


@pytest.fixture(autouse=True)
def _catalogue() -> None:
    need_catalogue()


def run(*arguments: str) -> int:
    return _guard.guarded(app, list(arguments), "uopscope analyze")


def test_the_output_says_cycles_and_what_limits_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HASWELL, "--asm", CHAIN) == 0
    output = capsys.readouterr().out
    assert "HSW: 2 instructions, 8 bytes, copies in a row" in output
    assert "6.00 cycles per iteration. What limits it: a chain of dependencies" in output
    assert output.count("3  IMUL RAX") == 2


def test_text_bytes_and_files_are_the_same_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "intel.s").write_text("imul rax, rbx # a comment\nimul rax, rcx\n")
    (tmp_path / "att.s").write_text("nop\n# OSACA-BEGIN\nimulq %rbx, %rax\nimulq %rcx, %rax\n# OSACA-END\nnop\n")
    sources = [
        ["--asm", CHAIN],
        ["--bytes", "480fafc3480fafc1"],
        [str(tmp_path / "intel.s")],
        [str(tmp_path / "att.s")],
        ["--bytes", "90bb6f000000646790480fafc3480fafc1bbde00000064679090"],
    ]
    outputs = []
    for source in sources:
        assert run(*HASWELL, *source) == 0
        outputs.append(re.sub(r"   \[.*\]", "", capsys.readouterr().out))
    assert len(set(outputs)) == 1


def test_json_has_a_prediction_per_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "prediction.json"
    assert run("--arch", "HSW", "--arch", "skl", "--asm", CHAIN, "--json", str(made)) == 0
    found = json.loads(made.read_text())
    assert [(one["architecture"], one["cycles_per_iteration"]) for one in found] == [("HSW", 6.0), ("SKL", 6.0)]
    assert all("model" in one["machine"] for one in found)
    assert "SKL: 2 instructions" in capsys.readouterr().out


def test_blocks_become_a_row_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "blocks.csv"
    table.write_text("hex,cycles\n480fafc3,3\n06,1\n480fafc3480fafc1,6\n")
    assert run(*HASWELL, "--blocks", str(table)) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["cycles"] for row in rows] == ["3.00", "", "6.00"]
    assert "no sequence of instructions" in rows[1]["problem"]
    assert rows[2]["limits"] == "dependencies"
    made = tmp_path / "out.csv"
    assert run(*HASWELL, "--blocks", str(table), "--csv", str(made)) == 0
    assert list(csv.DictReader(made.read_text().splitlines())) == rows


def test_the_initial_state_decides_which_registers_are_alike(capsys: pytest.CaptureFixture[str]) -> None:
    code = ("--asm", "mov [rdi], rax; mov rax, [rsi]")
    for state, cycles in (("any", "1.00"), ("bhive", "5.00")):
        assert run(*HASWELL, *code, "--initial-state", state) == 0
        assert f"{cycles} cycles per iteration" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one source of code is needed, not nothing"),
        (("--asm", "nop", "--bytes", "90"), "not --asm and --bytes"),
        (("--asm", "nop", "--arch", "NOSUCH"), "nothing is shipped about a CPU 'NOSUCH'"),
        (("--asm", "nop", "--arch", "SKL", *HASWELL), "has no measurements of SKL"),
        (("--asm", "nosuch rax", *HASWELL), "NOSUCH"),
        (("--bytes", "06", *HASWELL), "no sequence of instructions"),
        (("--bytes", "0f", *HASWELL), "no sequence of instructions"),
        (("--asm", "nop", "--syntax", "nasm", *HASWELL), "--syntax nasm"),
        (("--asm", "nop # OSACA-BEGIN", *HASWELL), "no -END"),
        (("--asm", "nop", "--runs", "twice", *HASWELL), "--runs twice"),
        (("--asm", "a: dec rcx; jnz a", "--runs", "unrolled", *HASWELL), "cannot run unrolled"),
        (("--asm", "nop", "--csv", "-", *HASWELL), "--csv goes with --blocks"),
        (("--blocks", "-", "--asm", "nop", *HASWELL), "--blocks brings its own code"),
        (("--blocks", "/nonexistent/blocks.csv", *HASWELL), "/nonexistent/blocks.csv"),
        (("/nonexistent/kernel.s", *HASWELL), "kernel.s"),
        (("--asm", "nop", "--initial-state", "zero", *HASWELL), "--initial-state zero"),
        (("--asm", "nop", "--data", "/nonexistent.xml"), "nonexistent.xml"),
    ],
)
def test_wrong_input_is_said_in_a_sentence(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert "Traceback" not in said
