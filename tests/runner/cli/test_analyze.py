"""`uopscope analyze`: sources of code, machines, outputs, errors."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import jsonschema
import pytest

from analysis.report.data import schema
from results.database import entries
from results.machine.cached import VARIABLE as CACHE
from runner.cli.analyze import app
from runner.cli.process import guard
from runner.cli.support import counting
from tests.analysis.aarch64.installed import need_llvm
from tests.nonempty import some
from tests.runner.cli.commands import SIMULATED, called, command_of, need_catalogue
from tests.shared import measured_haswell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from results.database.reader import Entry

HASWELL = ("--data", str(measured_haswell()))
CHAIN = "imul rax, rbx; imul rax, rcx"


@pytest.fixture(autouse=True)
def _catalogue() -> None:
    need_catalogue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(*arguments: str) -> int:
    return guard.guarded(app, list(arguments), "uopscope analyze")


def test_the_output_says_cycles_and_what_limits_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HASWELL, "--asm", CHAIN) == 0
    output = capsys.readouterr().out
    assert "HSW: 2 instructions, 8 bytes, copies in a row" in output
    assert "6.00 cycles per iteration. What limits it: a chain of dependencies" in output
    assert output.count("3  IMUL RAX") == 2


def test_what_if_names_registers_as_the_code_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--arch", "SKL", "--asm", "vaddsd xmm3, xmm3, xmm1") == 0
    output = capsys.readouterr().out
    assert "one more accumulator beside XMM3" in output
    assert "ZMM" not in output


INTEL, ATT = "imul rax, rbx\nimul rax, rcx\n", "imulq %rbx, %rax\nimulq %rcx, %rax\n"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (INTEL, ["-"]),
        (INTEL, ["-", "--syntax", "intel"]),
        (ATT, ["-"]),
        ("nop\n# LLVM-MCA-BEGIN\n" + ATT + "# LLVM-MCA-END\n", ["-", "--syntax", "att"]),
        ("other:\nnop\nret\nf:\n" + INTEL, ["-", "--function", "f"]),
        ("480fafc3\n480fafc1\n", ["--bytes", "-"]),
    ],
)
def test_standard_input_is_the_same_code(
    text: str, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*HASWELL, "--asm", CHAIN) == 0
    expected = _without_places(capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(*HASWELL, *options) == 0
    assert _without_places(capsys.readouterr().out) == expected


def _without_places(output: str) -> str:
    return re.sub(r"   \[.*\]", "", output)


def test_messages_about_standard_input_name_it_as_compilers_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n" + INTEL.encode())))
    assert run(*HASWELL, "-", "--format", "compiler") == 0
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "<stdin>:2",
        "<stdin>:2",
        "<stdin>:3",
    ]


def test_a_text_may_begin_with_a_byte_order_mark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + INTEL.encode())))
    assert run(*HASWELL, "-", "--format", "compiler") == 0
    assert "<stdin>:1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (b"\xff\xfe", ["-"], "<stdin>: not a text"),
        (b"", ["-"], "there is no instruction to analyze"),
        (b"imul rax\nfoo\n", ["-"], "line 2: 'FOO'"),
        (b"\nt.o:     file format elf64-x86-64\n", ["-"], "<stdin>: a disassembly, and no assembly text"),
        (b"a.exe:\tfile format pei-x86-64\n", ["-"], "<stdin>: a disassembly, and no assembly text"),
        (b"\x7fELF", ["--object", "-", "--function", "f"], "--object needs a file"),
        (None, ["-"], "standard input, which is closed"),
        (None, ["--blocks", "-"], "standard input, which is closed"),
    ],
)
def test_unusable_standard_input_is_said(
    data: bytes | None,
    options: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", None if data is None else io.TextIOWrapper(io.BytesIO(data)))
    assert run(*HASWELL, *options) == 2
    assert said in capsys.readouterr().err


def test_a_comment_about_a_file_format_is_no_disassembly(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"imul rax, rbx # file format elf\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run(*HASWELL, "-") == 0


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
        outputs.append(_without_places(capsys.readouterr().out))
    assert len(set(outputs)) == 1


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign over a simulated Haswell, and beside it the instructions.xml that is made of it."""
    need_catalogue()
    folder = tmp_path_factory.mktemp("campaign")
    file = folder / "c.sqlite"
    assert called([*SIMULATED, "IMUL_GPRv_GPRv", "--db", str(file)]) == 0
    assert command_of("db", ["build", str(file), "-o", str(folder / "c.xml")]) == 0
    return file


@pytest.mark.parametrize("options", [("--asm", CHAIN, "--json", "-"), ("--blocks", "blocks.csv")])
@pytest.mark.parametrize("architecture", [(), ("--arch", "hsw")])
def test_a_campaign_says_the_same_as_the_xml_that_is_made_of_it(
    campaign: Path,
    options: tuple[str, ...],
    architecture: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blocks.csv").write_text("480fafc3480fafc1\n")
    said = []
    for file in some([campaign, campaign.with_suffix(".xml")], 2):
        assert run("--data", str(file), *architecture, *options) == 0
        said.append(capsys.readouterr().out.replace(file.name, "FILE"))
    assert said[0] == said[1]
    assert "6.0" in said[0]


def test_a_campaign_without_the_architecture_names_those_that_it_has(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--data", str(campaign), "--arch", "SKL", "--asm", CHAIN) == 2
    assert "c.sqlite has no measurements of SKL" in (said := capsys.readouterr().err)
    assert "one of its architectures: HSW" in said


def test_a_campaign_is_read_once_for_several_cpus(
    campaign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(CACHE, "")
    read: list[Sequence[Path]] = []
    of_campaigns = entries.entries_of_campaigns

    def noted(paths: Sequence[Path]) -> list[Entry]:
        read.append(paths)
        return of_campaigns(paths)

    monkeypatch.setattr(entries, "entries_of_campaigns", noted)
    assert run("--data", str(campaign), "--arch", "HSW", "--arch", "hsw", "--asm", CHAIN) == 0
    assert read == [[campaign]]
    assert capsys.readouterr().out.count("6.00 cycles per iteration") == 2


@pytest.mark.parametrize(("silent", "is_said"), [(0.0, True), (60.0, False)])
def test_a_terminal_shows_that_a_file_is_read_if_that_takes_long(
    silent: float, monkeypatch: pytest.MonkeyPatch, *, is_said: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(counting, "SILENT_SECONDS", silent)
    with counting.reading("my.sqlite"):
        until = time.monotonic() + (60 if is_said else 0.2)
        while not terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert terminal.getvalue() == ("reading my.sqlite ...\n" if is_said else "")


def test_elsewhere_nothing_is_said_of_reading(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "SILENT_SECONDS", 0.0)
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    assert run("--data", str(campaign), "--asm", CHAIN) == 0
    assert written.getvalue() == ""


SUM = "sum:\n addsd xmm1, xmm0\n.L1:\n addsd xmm0, [rdi]\n add rdi, 8\n cmp rdi, rax\n jne .L1\n ret\n"
NESTED = "again:\n mov ecx, 9\n.L1:\n imul rax, rbx\n dec ecx\n jne .L1\n dec edx\n jne again\n"
LAST = " .p2align 4\none:\n lea eax, [rdi+1]\n ret\n"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (SUM, (), "note: the code has a loop, and each instruction counts once: --loop auto predicts an iteration\n"),
        (SUM, ("--loop", "auto"), ""),
        (SUM + LAST, ("--function", "one"), ""),
        (SUM + LAST, (), "all of them count as one row of instructions: --function NAME takes one of sum, one\n"),
        (SUM + LAST, ("--loop", "auto"), "only loops of the first count: --function NAME takes one of sum, one\n"),
        ("again:\n imul rax, rbx\n dec ecx\n jne again\n", (), ""),
        (NESTED, (), "the code has 2 loops, and each instruction counts once: --loop auto predicts an iteration\n"),
        (CHAIN, (), ""),
    ],
)
def test_a_note_says_what_a_prediction_of_all_code_leaves_out(
    text: str, options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "code.s"
    file.write_text(f".intel_syntax noprefix\n{text}\n", encoding="utf-8")
    assert run(*HASWELL, str(file), *options) == 0
    notes = [line for line in capsys.readouterr().err.splitlines(keepends=True) if line.startswith("note: ")]
    assert len(notes) == bool(said)
    assert "".join(notes).endswith(said)


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


@pytest.mark.parametrize("text", ["4801d8\n480fafc3\n", "480fafc3", "hex,count\n4801d8,3\n\n480fafc3,5\n", "90\n90\n"])
def test_a_list_of_blocks_leads_to_its_option(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "blocks.csv"
    file.write_text(text)
    assert run(*HASWELL, str(file)) == 2
    assert f"--blocks {file}" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(*HASWELL, "-") == 2
    assert "<stdin>: code in hexadecimal, and no assembly text\n  --blocks -\n" in capsys.readouterr().err


def test_code_in_hexadecimal_is_not_assembly_and_leads_to_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HASWELL, "--asm", "480fafc3") == 2
    assert "--asm: code in hexadecimal, and no assembly text\n  --bytes HEX" in capsys.readouterr().err
    assert run(*HASWELL, "--asm", "nosuch rax") == 2
    assert "hexadecimal" not in capsys.readouterr().err


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


LOOP = "a: mov rax, [rsi]; cmp rax, rdx; jz b; imul rbx, rax; b: dec rcx; jnz a"
FAST = ("--mode", "bounds")


def test_every_report_is_written_from_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {option: tmp_path / option[2:] for option in ("--html", "--json", "--svg", "--dot")}
    options = [part for option, path in files.items() for part in (option, str(path))]
    assert run(*HASWELL, *FAST, "--asm", LOOP, "--loop", "auto", *options, "--graph", "flow") == 0
    said = capsys.readouterr().out
    assert "3 blocks, 1 loop" in said
    assert said.count("50%: ") == 2
    assert files["--html"].read_text().startswith("<!doctype html>")
    (found,) = json.loads(files["--json"].read_text())
    jsonschema.validate([found], schema())
    assert [way["probability"] for way in found["ways"]] == [0.5, 0.5]
    assert files["--svg"].read_text().count("<rect") == files["--dot"].read_text().count('[label="0x') == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dot", "html", "json", "svg"]


def test_given_probabilities_count(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*HASWELL, *FAST, "--asm", LOOP, "--loop", "1"]
    assert run(*arguments) == 0
    address = re.search(r"--taken (0x[0-9a-f]+)=", capsys.readouterr().out)
    assert address is not None
    assert run(*arguments, "--taken", f"{address[1]}=1", "--json", "-") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [way["taken_branches"] for way in found["ways"]] == [2]


def test_a_loop_around_another_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "a: mov ecx, 5; b: imul rax, rbx; dec ecx; jnz b; dec rdx; jnz a"
    page = tmp_path / "page.html"
    found = []
    for mode in some(("bounds", "simulation")):
        options = ("--mode", mode, "--loop", "1", "--times", "2=5", "--json", "-", "--html", str(page))
        assert run(*HASWELL, "--asm", text, *options) == 0
        found += json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schema())
    assert [one["cycles_per_iteration"] for one in found] == pytest.approx([15, 15], rel=0.02)
    assert page.read_text().count("IMUL") >= 5


def test_a_function_of_an_object_file_and_its_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc here")
    source, made = tmp_path / "x.c", tmp_path / "x.o"
    source.write_text(
        "double f(long n, const double *x) {\n double s = 0;\n"
        " for (long i = 0; i < n; i++)\n  s *= x[i];\n return s; }\n"
    )
    subprocess.run([compiler, "-O1", "-g", "-c", "-o", str(made), str(source)], check=True)
    arguments = ["--object", str(made), "--function", "f", "--loop", "auto", "--arch", "HSW", *FAST]
    assert run(*arguments) == 0
    assert "5.00 cycles per iteration. What limits it: a chain of dependencies" in capsys.readouterr().out
    assert run(*arguments, "--format", "compiler") == 0
    said = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{source}:4: warning: HSW: MULSD") for line in said)
    assert all(re.match(r".*x\.c:\d+: (?:note|warning): HSW: ", line) for line in some(said, 4))


def test_cpus_are_shown_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--arch", "HSW", "--arch", "SKL", "--asm", CHAIN, *FAST) == 0
    first = capsys.readouterr().out.splitlines()[:2]
    assert first[0].split() == ["cycles", "HSW", "SKL"]
    assert first[1].split() == ["prediction", "6.00", "6.00"]


def test_an_aarch64_kernel_goes_to_llvm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_llvm()
    made = tmp_path / "out.json"
    assert run("--asm", "fadd d0, d0, d1; fmul d0, d0, d2", "--arch", "TX2", "--json", str(made)) == 0
    assert "thunderx2t99: 2 instructions" in capsys.readouterr().out
    (found,) = json.loads(made.read_text())
    assert found["cycles_per_iteration"] == sum(one["latency"] for one in found["instructions"])
    assert run("--asm", "nosuch x0", "--arch", "TX2") == 2
    assert "line 1: unrecognized instruction" in capsys.readouterr().err


def test_blocks_in_several_processes_leave_nothing_behind(tmp_path: Path) -> None:
    table, made = tmp_path / "blocks.csv", tmp_path / "out.csv"
    table.write_text("480fafc3\n" * 450)
    assert run(*HASWELL, *FAST, "--blocks", str(table), "--csv", str(made), "--jobs", "2") == 0
    assert made.read_text().count("480fafc3,3.00,dependencies") == 450
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks.csv", "out.csv"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--bytes", "0f0b"), "UD2"),  # an undefined instruction on purpose
        (("--bytes", "0f30"), "WRMSR"),  # privileged
        (("--bytes", "f4"), "HLT"),
        (("--bytes", "0f05"), "SYSCALL"),
        (("--bytes", "ebfe"), "JMP"),  # a loop of itself
        (("--bytes", "c3"), "RET"),
        (("--asm", "loop .+0"), "LOOP"),
        (("--asm", "aesenclast xmm1, xmm2; aesenclast xmm1, xmm2"), "AESENCLAST (XMM, XMM) (2 times)"),
        (("--asm", "rep movsb"), "MOVS"),
    ],
)
def test_odd_code_gets_an_answer(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HASWELL, *FAST, *arguments) == 0
    output = capsys.readouterr().out
    assert said in output
    assert "cycles per iteration" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--asm", "nop; ret", "--loop", "auto"), "has no loop"),
        (("--asm", "a: jmp a", "--loop", "7"), "there is no loop 7"),
        (("--asm", "a: jmp a", "--loop", "x"), "--loop x"),
        (("--asm", "a: jmp a", "--loop", "auto", "--taken", "0x5=2"), "--taken 0x5=2"),
        (("--asm", "a: jmp a", "--loop", "auto", "--taken", "0x99=0.5"), "no block of the loop ends at 0x99"),
        (("--asm", "a: jmp a", "--loop", "auto", "--runs", "unrolled"), "contradict"),
        (("--asm", "nop", "--taken", "0x5=0.5"), "--taken needs a loop"),
        (("--asm", "nop", "--times", "2=3"), "--times needs a loop"),
        (("--asm", "nop", "--jobs", "2"), "--jobs goes with --blocks"),
        (("--asm", "nop", "--cpu", "0"), "--cpu goes with --measure"),
        (("--asm", "a: jmp a", "--arch", "SKL", "--measure"), "without its jumps nothing"),
        (("--asm", "a: jmp a", "--loop", "1", "--times", "1=x"), "--times 1=x"),
        (("--asm", "a: jmp a", "--loop", "1", "--times", "1=" + 5000 * "9"), "not a loop and a number"),
        (("--asm", "a: jmp a", "--loop", 5000 * "9"), "not a number"),
        (("--asm", "a: jmp a", "--loop", "1", "--times", "1=2"), "loop 1 is not inside"),
        (("--asm", "a: nop; b: dec rcx; jnz b; dec rdx; jnz a", "--loop", "1"), "--times 2=10"),
        (("--asm", "nop", "--graph", "flow"), "--graph flow needs a loop"),
        (("--asm", "nop", "--format", "gcc"), "--format gcc"),
        (("--asm", "nop", "--function", "f"), "no label 'f'"),
        (("--object", "/nonexistent.o", "--function", "f"), "nonexistent.o"),
        (("--object", "/etc/passwd", "--function", "f"), "not an ELF file"),
        (("--object", "/bin/sh"), "--object /bin/sh needs --function NAME"),
        (("--blocks", "-", "--html", "x.html"), "--blocks brings its own code"),
        (("--bytes", "90", "--arch", "TX2"), "AArch64 kernels come from FILE or --asm"),
        (("--asm", ""), "the value is empty"),
        (("--bytes", ""), "the value is empty"),
        (("--bytes", "9"), "not bytes in hexadecimal"),
        (("--asm", "# nothing"), "no instruction"),
    ],
)
def test_wrong_uses_of_loops_and_reports_are_said_in_a_sentence(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = () if "--arch" in arguments else HASWELL
    assert run(*data, *arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HASWELL, *FAST, "--asm", CHAIN, "--html", str(tmp_path / "no" / "page.html")) == 3
    assert "page.html" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
