"""Programs to blocks: one that is assembled here, and those of this machine."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from iced_x86 import Decoder, FlowControl
from typer.testing import CliRunner

from runner.cli.blocks import app
from runner.own_code.reading.objects import ObjectError, read_program, symbol_code
from runner.own_code.reading.programs import blocks_of
from tests.nonempty import some
from xed_convert.errors import UopscopeError

RUN = CliRunner()
TEXT = """
.globl sum
.type sum,@function
sum:
    xor %eax, %eax
    test %rsi, %rsi
    je .Ldone
.Lloop:
    add (%rdi), %rax
    add $8, %rdi
    dec %rsi
    jne .Lloop
.Ldone:
    ret
.size sum,.-sum
.p2align 4
.globl twice
.type twice,@function
twice:
    xor %eax, %eax
    test %rsi, %rsi
    call *%rdx
    add %rax, %rax
    ret
.size twice,.-twice
"""
HEAD, LOOP, TAIL = "31c04885f6", "4803074883c70848ffce", "4801c0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("as"):
        pytest.skip("no GNU assembler")
    path = tmp_path_factory.mktemp("program") / "made.o"
    subprocess.run(["as", "--64", "-o", str(path), "-"], input=TEXT.encode(), check=True)
    return path


def test_blocks_end_at_branches_calls_and_targets_and_are_counted(made: Path) -> None:
    found = blocks_of(read_program(made))
    assert [(one.code.hex(), one.count, one.instructions) for one in found] == [
        (HEAD, 2, 2),
        (LOOP, 1, 3),
        (TAIL, 1, 1),
    ]
    assert [one.function for one in found] == ["sum", "sum", "twice"]


def test_one_function_alone(made: Path) -> None:
    found = blocks_of(read_program(made), "twice")
    assert [(one.code.hex(), one.count) for one in found] == [(HEAD, 1), (TAIL, 1)]
    assert symbol_code(made, "twice").hex() == HEAD + "ffd2" + TAIL


def test_the_command_writes_a_table_that_measure_reads(made: Path, tmp_path: Path) -> None:
    result = RUN.invoke(app, [str(made), "--most", "2", "-o", str(tmp_path / "b.csv")])
    assert result.exit_code == 0, result.output
    with (tmp_path / "b.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["hex"], row["count"], row["function"]) for row in rows] == [(HEAD, "2", "sum"), (LOOP, "1", "sum")]


def test_blocks_of_a_real_program_are_whole_instructions_without_branches() -> None:
    found = blocks_of(read_program(Path(sys.executable).resolve()))
    assert len(found) > 5
    for block in some(found[:2000]):
        decoded = list(Decoder(64, block.code))
        assert len(decoded) == block.instructions
        assert {one.flow_control for one in decoded} == {FlowControl.NEXT}


@pytest.mark.parametrize("size", [0, 3, 16, 63, 64, 200, 1000])
def test_damaged_files_are_errors_of_ours(made: Path, tmp_path: Path, size: int) -> None:
    data = made.read_bytes()
    cut = tmp_path / "cut.o"
    for content in some([data[:size], data[:size] + bytes(64) + data[size + 64 :]]):
        cut.write_bytes(content)
        result = RUN.invoke(app, [str(cut)])
        assert result.exit_code == 0 or isinstance(result.exception, UopscopeError), result.exception


def test_what_is_wrong_is_said(made: Path, tmp_path: Path) -> None:
    for arguments, said in some(
        [
            ([str(tmp_path / "missing")], "No such file"),
            ([str(tmp_path)], "directory"),
            (["/etc/passwd"], "not an ELF file"),
            ([str(made), "--function", "twise"], "no function 'twise'"),
        ]
    ):
        result = RUN.invoke(app, arguments)
        assert isinstance(result.exception, UopscopeError)
        assert said in str(result.exception)
    with pytest.raises(ObjectError, match="no symbol 'nothing'"):
        symbol_code(made, "nothing")


@pytest.mark.parametrize(("name", "hint"), [("twise", "nearest: twice"), ("0123456789", "it has: sum, twice")])
def test_functions_that_there_are_are_named(made: Path, name: str, hint: str) -> None:
    result = RUN.invoke(app, [str(made), "--function", name])
    assert isinstance(result.exception, UopscopeError)
    assert (result.exception.hint or "").startswith(hint)
    with pytest.raises(ObjectError) as raised:
        symbol_code(made, name)
    assert (raised.value.hint or "").startswith(hint)
