"""`uopscope measure`: sources of code, output, exit codes, errors."""

import csv
import json
import math
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from runner.backend import BackendError
from runner.backends.registry import open_backend
from runner.cli.measure import app
from runner.own_code.reading.text import assemble
from tests.attempts import seconds_of, undisturbed
from tests.nonempty import some
from tests.runner import descendants
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UnknownInstructionError, UopscopeError

RUN = CliRunner()


@pytest.fixture(autouse=True)
def _needs_tsc_and_catalogue() -> None:
    try:
        open_backend("tsc").close()
        Catalogue.load()
    except (BackendError, UnknownInstructionError) as error:
        pytest.skip(str(error))


def test_cycles_of_code_are_printed_with_spread_cpu_and_backend() -> None:
    def cycles() -> float:
        result = RUN.invoke(app, ["--backend", "tsc", "--asm", "IMUL RAX, RBX", "--init", "MOV RBX, 3"])
        assert result.exit_code == 0, result.output
        (line,) = [line for line in result.output.splitlines() if line.startswith("core_cycles")]
        assert line.count("±") == 2
        assert "48 0f af c3" in result.output
        assert "backend tsc" in result.output
        return float(line.split()[1])

    undisturbed(cycles, lambda found: found == pytest.approx(3, abs=0.3))


def test_code_that_faults_says_so_and_exits_with_4() -> None:
    result = RUN.invoke(app, ["--backend", "tsc", "--asm", "UD2"])
    assert result.exit_code == 4
    assert "SIGILL in the body at offset 0" in result.output


def test_unusable_input_is_an_error_of_ours() -> None:
    for arguments in (["--asm", ""], ["--asm", "INC R15"], ["--asm", "NOP", "--backend", "none"]):
        result = RUN.invoke(app, arguments)
        assert isinstance(result.exception, UopscopeError), result.output


def test_text_bytes_files_and_symbols_are_the_same_code(tmp_path: Path) -> None:
    (tmp_path / "kernel.s").write_text("imul rax, rbx # a comment")
    (tmp_path / "kernel.bin").write_bytes(bytes.fromhex("480fafc3"))
    sources = [
        ["--asm", "imul rax, rbx"],
        ["--asm", "imulq %rbx, %rax", "--syntax", "att"],
        ["--asm-file", str(tmp_path / "kernel.s")],
        ["--bytes", "480fafc3"],
        ["--code-file", str(tmp_path / "kernel.bin")],
    ]
    if shutil.which("as"):
        text = ".globl twice\n.type twice,@function\ntwice:\nimul %rbx,%rax\nret\n.size twice,.-twice\n"
        made = str(tmp_path / "kernel.o")
        subprocess.run(["as", "--64", "-o", made, "-"], input=text.encode(), check=True)
        sources.append(["--object", made, "--symbol", "twice"])
    for source in some(sources):
        result = RUN.invoke(app, [*source, "--backend", "sim", "--arch", "SKL", "--json", "-"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.output)
        assert found["code"]["body"] == [{"bytes": "480fafc3", "text": "IMUL RAX,RBX"}]
        assert found["results"]["unrolled"]["counters"]["core_cycles"]["value"] == 3
        assert found["provenance"]["is_model"]


def test_samples_and_csv_of_what_was_said_to_run(tmp_path: Path) -> None:
    table = tmp_path / "out.csv"
    said = ["--unroll", "50", "--loop", "10", "--repeat", "7", "--warm-up", "1", "--aggregate", "min", "--samples"]
    result = RUN.invoke(app, ["--asm", "nop", "--backend", "tsc", "--csv", str(table), *said])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("core_cycles:")]
    assert len(line.split()) == 8
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["mode"], row["counter"]) for row in rows] == [("runs", "core_cycles"), ("runs", "tsc")]


def imul_of_blocks(table: Path, modes: str, columns: list[str]) -> list[float]:
    """Return the first block's cycles, by column; NaN where it has none because the machine was busy."""
    result = RUN.invoke(app, ["--blocks", str(table), "--backend", "tsc", "--modes", modes])
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.output.splitlines()))
    assert [row["hex"] for row in rows] == ["480fafc0", "0f0b", "488b00"]
    for column in some(columns):
        assert not rows[1][column]
        assert rows[1][column.replace("cycles", "reason")] == "SIGILL in the body at offset 0"
    return [float(rows[0][column] or math.nan) for column in columns]


def test_blocks_go_in_line_by_line_and_come_out_as_a_table(tmp_path: Path) -> None:
    table = tmp_path / "blocks.csv"
    table.write_text("hex,cycles\n480fafc0,1\n\n0f0b,2\n488b00,3\n")
    for modes, columns in (("unrolled", ["cycles"]), ("unrolled,loop", ["unrolled_cycles", "loop_cycles"])):
        undisturbed(
            partial(imul_of_blocks, table, modes, columns),
            lambda found: found == pytest.approx([3] * len(found), rel=0.03),
        )
    to_file = RUN.invoke(app, ["--blocks", "-", "--backend", "tsc", "--csv", str(tmp_path / "o.csv")], input="90\n")
    assert to_file.exit_code == 0
    assert (tmp_path / "o.csv").read_text().splitlines()[1].startswith("90,")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one source of code is needed, not nothing"),
        (["--asm", "nop", "--bytes", "90"], "not --asm and --bytes"),
        (["--object", "x.o"], "--object FILE and --symbol NAME go together"),
        (["--object", "/bin/sh", "--symbol", "nowhere"], "no symbol 'nowhere'"),
        (["--asm-file", "/bin/sh"], "/bin/sh"),
        (["--code-file", "/nowhere"], "/nowhere"),
        (["--bytes", "xyz"], "not bytes in hexadecimal"),
        (["--asm", "nop", "--syntax", "masm"], "not one of intel, att"),
        (["--asm", "nop", "--aggregate", "mode"], "not one of min"),
        (["--asm", "nop", "--counters", "/nowhere.txt"], "/nowhere.txt"),
        (["--asm", "nop", "--time-limit", "1000"], "--time-limit"),
        (["--asm", "nop", "--on-demand", "--value", "many"], "--value many"),
        (["--asm", "nop", "--init", "object:/bin/sh"], "which symbol"),
        (["--blocks", "/nowhere"], "/nowhere"),
        (["--blocks", "-", "--asm", "nop"], "--blocks brings its own code"),
        (["--blocks", "-", "--modes", "sideways"], "--modes sideways"),
    ],
)
def test_options_that_make_no_sense_say_so(arguments: list[str], said: str) -> None:
    result = RUN.invoke(app, ["--backend", "tsc", *arguments], input="90\nxyz\n")
    assert isinstance(result.exception, UopscopeError), result.output
    assert said in str(result.exception)


def test_a_line_that_is_no_block_is_named() -> None:
    result = RUN.invoke(app, ["--blocks", "-", "--backend", "tsc"], input="hex\n90\nxyz\n")
    assert isinstance(result.exception, UopscopeError)
    assert "-:3: 'xyz' is not code in hexadecimal" in str(result.exception)


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "no line has a block"), ("hex\n", "no line has a block"), ("\x7fELF\x02\n90\n", "-: not a text")],
)
def test_a_table_without_a_block_is_refused(text: str, says: str) -> None:
    result = RUN.invoke(app, ["--blocks", "-", "--backend", "tsc"], input=text)
    assert says in str(result.exception)
    assert "cycles" not in result.output
    assert all(line.isprintable() for line in str(result.exception).splitlines())


HOSTILE = {
    "exit": "mov eax, 231; xor edi, edi; syscall",
    "fork": "mov eax, 57; syscall",
    "close": "mov eax, 3; xor edi, edi; syscall",
    "kill all": "mov eax, 62; mov rdi, -1; mov esi, 9; syscall",
    "no stack": "xor esp, esp; push rax",
    "endless": "x: jmp x",
    "endless stack": "x: push rax; jmp x",
    "write over code": "lea rax, [rip]; mov [rax], rax",
    "write far": "mov rax, 0x7fffffffe000; mov [rax], rax",
    "all of memory": "mov rdi, 0x1000; mov rcx, -1; rep stosb",
    "the clock of 32-bit programs": "mov eax, 1; int 0x80",
    "alignment checks": "pushfq; or dword ptr [rsp], 0x40000; popfq; mov rax, [r14+1]",
    "single steps": "pushfq; or dword ptr [rsp], 0x100; popfq; nop",
    "segment base": "xor eax, eax; wrfsbase rax; wrgsbase rax",
    "return": "ret",
}


MAY_RUN = {"segment base", "single steps", "alignment checks", "write far"}
"""What depends on the CPU, and on whether memory is mapped on demand."""
LIMIT_SECONDS = 5


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("anywhere", [False, True])
def test_hostile_code_is_a_result_within_five_seconds_and_leaves_nothing(
    name: str, anywhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assemble("nop")  # the process with keystone stays as long as this one
    mark = descendants.mark(monkeypatch)
    options = ["--on-demand"] if anywhere else []

    def run() -> None:
        result = RUN.invoke(app, ["--backend", "tsc", "--asm", HOSTILE[name], *options])
        assert result.exit_code in {0, 4}, result.output
        assert result.exit_code == 4 or name in MAY_RUN
        assert descendants.marked(mark) == set()

    undisturbed(seconds_of(run), lambda seconds: seconds < LIMIT_SECONDS)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=30), st.binary(max_size=40)), st.booleans())
def test_garbage_is_an_error_of_ours_or_measured(source: str | bytes, anywhere: bool) -> None:
    code = ["--asm", source] if isinstance(source, str) else ["--bytes", source.hex()]
    limit = ["--unroll", "3", "--repeat", "2", "--time-limit", "0.1"]

    def run() -> None:
        result = RUN.invoke(app, ["--backend", "tsc", *code, *limit, *(["--on-demand"] if anywhere else [])])
        assert result.exit_code in {0, 2, 4} or isinstance(result.exception, UopscopeError), result.output

    undisturbed(seconds_of(run), lambda seconds: seconds < LIMIT_SECONDS)
