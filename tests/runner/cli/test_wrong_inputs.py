"""What each wrong input gives: every row is tried, and the table of docs/usage.md is made of what was said.

UOPSCOPE_WRITE_DOCS=1 pytest tests/runner/cli/test_wrong_inputs.py      # writes the table anew
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, NamedTuple

import pytest

from results.exports.exporters import exporters
from runner.cli import characterize
from runner.cli.process import guard
from tests.runner.cli.commands import command_of, need_catalogue
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

USAGE = CHECKOUT / "docs" / "usage.md"
BEGIN, END = "<!-- wrong inputs: made by tests/runner/cli/test_wrong_inputs.py -->", "<!-- end of wrong inputs -->"
SIM = "--backend sim --arch HSW"


class Wrong(NamedTuple):
    """A command line, its exit code, and a part of the message."""

    command: str
    code: int
    said: str


ROWS = (
    Wrong("characterize", 2, "no instruction is named"),
    Wrong("characterize NOSUCH", 2, "no instruction matches 'NOSUCH'"),
    Wrong("characterize ADCX_GPR", 2, "no instruction matches 'ADCX_GPR'"),
    Wrong("characterize ''", 2, "an argument is empty"),
    Wrong("characterize ADC --all", 2, "named instructions and --all contradict each other"),
    Wrong("characterize ADC --list --plan", 2, "--list and --plan contradict each other"),
    Wrong("characterize ADC --list --csv out.csv", 2, "--list and --csv contradict each other"),
    Wrong("characterize ADC --plan --explain", 2, "--plan and --explain contradict each other"),
    Wrong("characterize ADC --arch-auto --arch HSW", 2, "--arch-auto and --arch contradict each other"),
    Wrong("characterize --extension SSE22", 2, "no instruction has the extension 'SSE22'"),
    Wrong("characterize --isa-set NONE", 2, "no instruction has the ISA set 'NONE'"),
    Wrong("characterize ADC --extension AVX", 2, "no variant is left"),
    Wrong("characterize ADC --backend tcs", 2, "no backend 'tcs'"),
    Wrong("characterize ADC --backend sim", 2, "the sim backend simulates the machine that --arch names"),
    Wrong("characterize ADC --backend sim --arch SKLX", 2, "no simulated machine 'SKLX'"),
    Wrong("characterize ADC --backend sim --arch ZEN3", 2, "no simulated machine 'ZEN3'"),
    Wrong("characterize ADC --backend sim --arch HSW:intel:lowest", 2, "intel and lowest contradict each other"),
    Wrong("characterize ADC --backend sim --arch random:-1", 2, "the seed is not a whole number of 18 digits"),
    Wrong("characterize ADC --backend sim --arch random:nois:1", 2, "nearest: random:"),
    Wrong("characterize ADC --backend sim --model published.xml", 2, "published.xml does not name one machine"),
    Wrong("characterize ADC --model published.xml --backend tsc", 2, "the backend tsc simulates no file"),
    Wrong("characterize ADC --jobs 2 --backend tsc", 2, "--jobs is for simulated machines"),
    Wrong("characterize ADC --hide-counters --backend tsc", 2, "--hide-counters is for simulated machines"),
    Wrong("characterize 'ADC RAX, RBX'", 2, "Nearest: ADC"),
    Wrong("characterize ADC --arch HSWW", 2, "no microarchitecture 'HSWW'"),
    Wrong("characterize ADC --cpu 4000", 3, "CPU 4000"),
    Wrong(f"characterize ADC {SIM} --db ''", 2, "--db: the value is empty"),
    Wrong(f"characterize ADC {SIM} --db=", 2, "--db: the value is empty"),
    Wrong(f"characterize ADC {SIM} --db -", 2, "--db -: a campaign cannot go to standard output"),
    Wrong(f"characterize ADC {SIM} --db /nowhere/c.sqlite", 3, "/nowhere/c.sqlite"),
    Wrong(f"characterize ADC {SIM} --db text.txt", 3, "not an SQLite file"),
    Wrong(f"characterize ADC {SIM} --csv /nowhere/c.csv", 3, "the folder /nowhere does not exist"),
    Wrong(f"characterize ADC {SIM} --json - --csv -", 2, "only one form can go to standard output"),
    Wrong(f"characterize ADC {SIM} --csv a.csv --json ./a.csv", 2, "--csv writes the same file"),
    Wrong(f"characterize ADC {SIM} --db a.csv --csv a.csv", 2, "--db writes the same file"),
    Wrong(f"characterize ADC {SIM} --db folder", 3, "folder: it is a folder, and no file"),
    Wrong(f"characterize ADC {SIM} --xml loop", 3, "the link leads nowhere"),
    Wrong("characterize ADC --backend sim --model text.txt", 2, "not a readable instructions.xml"),
    Wrong("characterize ADC --backend sim --model published.xml --arch SKL", 2, "has no measurements of SKL"),
    Wrong("characterize --reinfer", 2, "--reinfer needs the stored samples"),
    Wrong("characterize --reinfer --db missing.sqlite", 2, "no such file"),
    Wrong("characterize --reinfer --db folder", 2, "folder: not a file"),
    Wrong("uopscope explain missing.sqlite ADC", 2, "no such file"),
    Wrong("uopscope explain text.txt ADC", 3, "not an SQLite file"),
    Wrong("uopscope explain folder ADC", 2, "folder: not a file"),
    Wrong("uopscope measure --bytes zz --backend sim --arch HSW", 2, "'zz': not bytes in hexadecimal"),
    Wrong("uopscope measure --backend sim --arch HSW", 2, "one source of code is needed, not nothing"),
    Wrong("uopscope measure --asm nop --bytes 90 --backend sim --arch HSW", 2, "not --asm and --bytes"),
    Wrong("uopscope measure --asm 'jmp there' --backend sim --arch HSW", 2, "there is neither a register nor a label"),
    Wrong("uopscope measure --asm 'NOSUCH RAX' --backend sim --arch HSW", 2, "NOSUCH"),
    Wrong(f"uopscope measure --bytes 48 01 d8 {SIM}", 2, '--bytes "48 01 d8"'),
    Wrong("uopscope analyze --arch SKL --asm imul rax, rbx", 2, "--asm takes one value, not 3"),
    Wrong("uopscope measure --asm '' --backend sim --arch HSW", 2, "--asm: the value is empty"),
    Wrong("uopscope measure --asm nop --modes loop --backend sim --arch HSW", 2, "--modes is for --blocks"),
    Wrong(f"uopscope measure --asm nop --value 5 {SIM}", 2, "--value is for --on-demand and --blocks"),
    Wrong("uopscope blocks binary -o binary", 2, "-o binary: it is an input, too, and would be lost"),
    Wrong("uopscope memory times --backend sim --arch SKX:memory --plot m.svg", 2, "--plot draws store forwarding"),
    Wrong("uopscope measure --asm nop --unroll 0 --backend sim --arch HSW", 2, "--unroll 0 is not between"),
    Wrong(f"uopscope measure --asm nop --area-size 3 {SIM}", 2, "--area-size 3: not a multiple of 64 KiB"),
    Wrong(
        "uopscope measure --asm nop --time-limit nan --backend sim --arch HSW", 2, "not between 0.001 and 60 seconds"
    ),
    Wrong("uopscope measure --asm-file binary --backend sim --arch HSW", 2, "binary: not a text"),
    Wrong("uopscope measure --blocks binary --backend sim --arch HSW", 2, "binary: not a text"),
    Wrong(
        f"uopscope measure --blocks text.txt --json o.json --unroll 5 {SIM}", 2, "--json, --unroll: not with --blocks"
    ),
    Wrong("uopscope analyze binary --arch SKL", 2, "binary: not a text"),
    Wrong("uopscope analyze", 2, "one source of code is needed, not nothing"),
    Wrong("uopscope analyze --asm 'NOPE rax' --arch SKL", 2, "'NOPE' is not an instruction"),
    Wrong("uopscope analyze --bytes 0f --arch SKL", 2, "the instruction is truncated"),
    Wrong("uopscope analyze --asm nop --arch SKL --mode wild", 2, "--mode wild: not one of"),
    Wrong("uopscope analyze --asm nop --arch SKL --times 1=2", 2, "--times needs a loop"),
    Wrong("uopscope analyze --asm nop --arch SKL --data published.xml", 2, "published.xml has no measurements of SKL"),
    Wrong("uopscope analyze --asm nop --data c.sqlite", 3, "not an SQLite file"),
    Wrong("uopscope analyze --object text.txt --arch SKL", 2, "text.txt: not an ELF file"),
    Wrong("uopscope analyze --blocks text.txt --arch SKL", 2, "is not code in hexadecimal"),
    Wrong("uopscope analyze --asm nop --arch NOPE", 2, "nothing is shipped about a CPU 'NOPE'"),
    Wrong("uopscope analyze --asm nop --arch SKL --html folder", 3, "cannot be written: it is a folder"),
    Wrong("uopscope blocks text.txt", 2, "text.txt: not an ELF file"),
    Wrong("uopscope catalogue show ADCC", 2, "no instruction matches 'ADCC'"),
    Wrong("uopscope catalogue list --cpu NOPE", 2, "no chip is called 'NOPE'"),
    Wrong("uopscope convert folder -o out.xml", 2, "no XED datafiles here"),
    Wrong("uopscope interrupts --asm nop --source moon", 2, "there is no such source"),
    Wrong("uopscope bypass --classes nothing --backend sim --arch HSW", 2, "no class 'nothing'"),
    Wrong("uopscope bypass --classes 512 --backend sim --arch HSW", 2, "no class '512' on this CPU"),
    Wrong("uopscope memory --from text.txt", 2, "text.txt"),
    Wrong("uopscope memory nonsense --backend sim --arch SKX:memory", 2, "PART nonsense: not one of"),
    Wrong("uopscope memory --from ZEN9", 2, "nothing is shipped under that name"),
    Wrong("uopscope nightly --state text.txt --instr NOP --backend sim --arch HSW", 2, "text.txt: not a folder"),
    Wrong("uopscope nightly --state folder --instr NOSUCH --backend sim --arch HSW", 2, "refuses these options"),
    Wrong("uopscope nightly --purge", 2, "--purge removes what --uninstall would keep"),
    Wrong("uopscope nightly --install --uninstall", 2, "--install and --uninstall contradict each other"),
    Wrong("uopscope ports fit text.txt", 2, "text.txt"),
    Wrong("uopscope ports predict text.txt --mix ADD", 2, "text.txt: not of the expected form"),
    Wrong("uopscope ports predict text.txt", 2, "nothing to predict"),
    Wrong("uopscope ports predict missing.json --mix ADD", 2, "missing.json: No such file or directory"),
    Wrong("uopscope ports predict mixes.json --mix ADD", 2, "mixes.json: mixes, and no mapping"),
    Wrong("uopscope ports predict mapping.json mapping.json", 2, "mapping.json: a mapping, and no mixes"),
    Wrong("uopscope ports predict mapping.json --mix add", 2, "the mapping has no instruction 'add'"),
    Wrong("uopscope ports predict mapping.json --mix ' ; '", 2, "--mix: a mix has no instruction"),
    Wrong("uopscope ports predict mapping.json mixes.json --mix ADD", 2, "nothing to predict, or two things"),
    Wrong("uopscope ports predict mapping.json mixes.json -o mixes.json", 2, "it is an input, too, and would be lost"),
    Wrong("uopscope ports fit mapping.json", 2, "mapping.json: a mapping, and no mixes"),
    Wrong("uopscope ports fit mixes.json -o folder", 3, "folder: cannot be written: it is a folder"),
    Wrong("uopscope ports sets --backend sim", 2, "the sim backend simulates the machine that --arch names"),
    Wrong(f"uopscope ports sets {SIM} --json folder", 3, "folder: cannot be written: it is a folder"),
    Wrong("uopscope catalogue list 'VADDPH (ZMM, ZMM, ZMM)' --cpu HASWELL", 2, "HASWELL has none of these variants"),
    Wrong("uopscope encode 'ADD RAX'", 2, "ADD"),
    Wrong("uopscope encode --decode xyz", 2, "not bytes in hexadecimal"),
    Wrong("uopscope db build missing.sqlite -o out.xml", 2, "no such file"),
    Wrong("uopscope db build missing.sqlite -o out.xml --names 2023", 2, "no names of '2023' are known"),
    Wrong("uopscope db build text.txt -o text.txt", 2, "-o text.txt: it is an input, too, and would be lost"),
    Wrong("uopscope db build published.xml -o out.xml", 3, "not an SQLite file"),
    Wrong("uopscope db build missing.sqlite -o folder", 3, "folder: cannot be written: it is a folder"),
    Wrong("uopscope db build c.sqlite -o x.zip", 2, "x.zip: no .zip file can be written"),
    Wrong("uopscope db build c.sqlite -o x.json.gz", 2, "uopscope db export CAMPAIGN --json x.json.gz"),
    Wrong("uopscope db build c.sqlite -o x.sqlite", 2, "campaigns are called like this"),
    Wrong(f"characterize ADC {SIM} --csv x.csv.bz2", 2, "x.csv.bz2: no .bz2 file can be written"),
    Wrong("uopscope db check c.sqlite", 3, "not an SQLite file"),
    Wrong("uopscope db check missing.xml", 2, "missing.xml"),
    Wrong("uopscope db check text.txt", 2, "not a readable instructions.xml"),
    Wrong("uopscope db diff published.xml missing.xml", 2, "missing.xml"),
    Wrong("uopscope db diff published.xml published.xml --arch NOPE", 2, "no result of the architecture 'NOPE'"),
    Wrong("uopscope db compare published.xml published.xml --arch NOPE", 2, "no result of the architecture 'NOPE'"),
    Wrong(
        "uopscope db diff published.xml published.xml --agreement --arch NOPE",
        2,
        "no result of the architecture 'NOPE'",
    ),
    Wrong("uopscope db diff published.xml published.xml --agreement --json", 2, "--agreement prints text only"),
    Wrong("uopscope db diff published.xml c.sqlite --agreement", 3, "not an SQLite file"),
    Wrong("uopscope db compare published.xml published.xml", 2, "which architecture?"),
    Wrong(
        "uopscope db compare published.xml published.xml --arch NHM --published-arch NOPE",
        2,
        "no result of the architecture 'NOPE'",
    ),
    Wrong(
        "uopscope db compare table.csv published.xml --published-arch NHM",
        2,
        "--published-arch is for an instructions.xml",
    ),
    Wrong(
        "uopscope db compare missing.csv published.xml --arch NHM", 2, "missing.csv: not a readable table: No such file"
    ),
    Wrong("uopscope db compare table.csv published.xml --arch NHM --by size", 2, "cannot be grouped by 'size'"),
    Wrong("uopscope db compare published.xml published.xml --arch NHM --cycles inf", 2, "--cycles"),
    Wrong("uopscope db compare published.xml published.xml --csv - --json -", 2, "only one form can go"),
    Wrong("uopscope db compare published.xml table.csv", 2, "table.csv: a table, and no campaign"),
    Wrong("uopscope db compare table.csv published.xml --arch NHM", 2, "has no result of NHM for any variant"),
    Wrong("uopscope db compare text.txt published.xml --arch NHM", 2, "not a readable instructions.xml"),
    Wrong("uopscope db compare table.csv published.xml --csv table.csv", 2, "it is an input, too"),
    Wrong("uopscope db compare missing.csv published.xml --arch NHM --json folder", 3, "it is a folder"),
    Wrong("uopscope db diff missing.xml missing.xml --html folder", 3, "it is a folder"),
    Wrong("uopscope db query 'uops = 1' --db missing.xml --csv folder", 3, "it is a folder"),
    Wrong("uopscope db query 'latency(1) > 3' --db published.xml", 2, "expected `,`"),
    Wrong("uopscope db query '((uops = 1' --db published.xml", 2, "expected `)`"),
    Wrong("uopscope db export missing.xml --csv folder", 3, "it is a folder"),
    Wrong("uopscope nightly --free-gb inf", 2, "--free-gb"),
    Wrong("uopscope db query 'uop = 1' --db published.xml", 2, "nearest: uops; `uopscope db query --fields` lists all"),
    Wrong("uopscope db query 'Latency > 3' --db published.xml", 2, "nearest: max_latency, latency(1,2)"),
    Wrong("uopscope db query 'delay(1,2) > 3'", 2, "only a latency has operands, as in latency(1,2)"),
    Wrong("uopscope db query", 2, "--fields lists what can be asked about"),
    Wrong("uopscope db query --fields 'uops = 1'", 2, "--fields goes without a query and --csv"),
    Wrong("uopscope db query 'ports uses' --db published.xml", 2, "expected a value"),
    Wrong("uopscope db query 'ports uses 5' --db published.xml", 2, "`uses` is about ports"),
    Wrong("uopscope db query 'iform uses p5' --db published.xml", 2, "`uses` is about ports"),
    Wrong("uopscope db query 'uops =' --db published.xml", 2, "expected a value"),
    Wrong("uopscope db query 'uops = 1' --db published.xml --arch SKL", 2, "no result of the architecture 'SKL'"),
    Wrong("uopscope db export published.xml", 2, "nothing to write"),
    Wrong("uopscope db export published.xml --osaca -", 2, "which architecture?"),
    Wrong("uopscope db export published.xml --csv - --json -", 2, "only one form can go to standard output"),
    Wrong("uopscope db export published.xml --arch ZEN4 --llvm-exegesis - --mode fast", 2, "unknown mode 'fast'"),
    Wrong(
        "uopscope db export published.xml --arch NHM --llvm-exegesis -",
        2,
        "no instruction has what the mode latency shows",
    ),
    Wrong("uopscope site published.xml -o text.txt", 2, "text.txt exists and is no site"),
    Wrong("uopscope site published.xml published.xml", 2, "more than one instructions.xml"),
    Wrong("uopscope site missing.xml -o out", 2, "missing.xml: cannot be read"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a file of each wrong kind."""
    need_catalogue()
    (tmp_path / "text.txt").write_text("This is a text, and neither a campaign nor a database.\n" * 20)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "folder").mkdir()
    (tmp_path / "c.sqlite").write_bytes(b"SQLite format 3\0")
    (tmp_path / "table.csv").write_text('string,latency,throughput\n"ADC_11 (R64, R64)",1,0.25\n')
    (tmp_path / "mixes.json").write_text('{"instructions": ["ADD", "IMUL"], "experiments": [[[0], 1], [[1], 1]]}')
    (tmp_path / "mapping.json").write_text('{"classes": [{"class": 0, "loads": {"r0": 1}, "instructions": ["ADD"]}]}')
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "published.xml").write_bytes((CHECKOUT / "tests" / "data" / "published.xml").read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tried(row: Wrong, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command line; return its exit code and what it said on standard error."""
    program, *arguments = shlex.split(row.command)
    if program == "characterize":
        code = guard.guarded(characterize.app, arguments, program)
    else:
        code = command_of(arguments[0], arguments[1:])
    return code, capfd.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.command)
def test_wrong_input_gives_its_code_and_says_what_is_wrong(row: Wrong, capfd: pytest.CaptureFixture[str]) -> None:
    code, said = tried(row, capfd)
    assert (code, row.said in said) == (row.code, True), said
    assert "Traceback" not in said
    assert "a fault of uopscope" not in said


def test_the_table_of_the_manual_says_the_same() -> None:
    lines = ["| input | code | message |", "|---|---|---|"]
    lines += [f"| `{row.command}` | {row.code} | {row.said} |" for row in ROWS]
    table = "\n".join([BEGIN, *lines, END])
    text = USAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "docs/usage.md has no place for the table"
    if os.environ.get("UOPSCOPE_WRITE_DOCS"):
        USAGE.write_text(before + table + after, encoding="utf-8")
        return
    assert text == before + table + after, "made by: UOPSCOPE_WRITE_DOCS=1 pytest tests/runner/cli/test_wrong_inputs.py"


def test_every_exporter_writes_a_file_that_is_no_input() -> None:
    assert {f"--{option}" for option in exporters()} <= guard.OUTPUTS
