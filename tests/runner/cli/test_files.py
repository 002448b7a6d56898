"""Files of commands: those that cannot be written, and campaigns that are read again.

What was measured is shown even if its file cannot be written: a disk can become full during hours of measuring.
"""

from __future__ import annotations

import gzip
import shlex
import shutil
from pathlib import Path

import pytest

from results.campaign.packed import is_campaign
from tests.runner.cli.commands import ADC, SIMULATED, called, command_of, need_catalogue

FULL = "/dev/full"
"""A device to which nothing can be written, although it can be opened."""

SIM = "--backend sim --arch HSW"


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("measure", f"--asm 'imul rax, rbx' {SIM} --json {FULL}", "core_cycles"),
        ("measure", f"--asm 'add rax, {{N}}' --sweep N=1,2 {SIM} --json {FULL}", "core_cycles_unrolled"),
        ("memory", f"--from ZEN4 --xml {FULL}", "store forwarding"),
        ("bypass", f"--classes alu,shift/64 --backend sim --arch HSW:bypass --json {FULL}", "alu/64"),
        ("interrupts", f"--asm 'imul rax, rax' --predict --arch SKL --json {FULL}", "IMUL"),
    ],
    ids=["measure", "sweep", "memory", "bypass", "interrupts"],
)
def test_a_command_shows_what_it_cannot_write(
    name: str,
    arguments: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    need_catalogue()
    monkeypatch.chdir(tmp_path)
    if "--sweep" in arguments:
        arguments += " --csv rows.csv"
    code = command_of(name, shlex.split(arguments))
    said = capfd.readouterr()
    assert code == 3
    assert shown in said.out
    assert f"error: {FULL}: cannot be written: No space left on device" in said.err


def test_a_campaign_writes_the_files_that_it_can_and_shows_its_table(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    need_catalogue()
    written, database = tmp_path / "c.json", tmp_path / "c.sqlite"
    wanted = [*SIM.split(), "ADC_11 (R64, R64)", "--csv", FULL, "--json", str(written)]
    assert called(wanted) == 3
    said = capfd.readouterr()
    assert "1*p0156+1*p06" in said.out
    assert "with --db FILE they would be kept" in said.err
    assert '"results"' in written.read_text()
    assert called([*wanted, "--db", str(database)]) == 3
    assert f"{database} has all results" in capfd.readouterr().err


def test_every_file_that_cannot_be_written_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    need_catalogue()
    again = "/dev/../dev/full"
    assert called([*SIM.split(), "NOP", "--csv", FULL, "--json", again]) == 3
    assert capfd.readouterr().err.count("cannot be written") == 2


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_catalogue()
    path: Path = tmp_path_factory.mktemp("stored") / "hsw.sqlite"
    assert called([*SIMULATED, ADC, "--db", str(path)]) == 0
    return path


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--backend", "tsc"], "--backend tsc: {} has samples of sim"),
        (["--arch", "SKL"], "--arch SKL: {} has samples of HSW"),
        (["BSWAP"], "{}: no conclusion about any variant that matches"),
    ],
)
def test_conclusions_are_drawn_again_only_about_what_was_measured(
    options: list[str], said: str, campaign: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert called(["--reinfer", "--db", str(campaign), *options]) == 2
    assert f"error: {said.format(campaign)}" in capfd.readouterr().err


def test_what_was_not_measured_cannot_be_explained_and_what_was_is_named(
    campaign: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command_of("explain", [str(campaign), "BSWAP"]) == 2
    assert f"it has {ADC}; characterize --instr PATTERN --db FILE measures others" in capfd.readouterr().err


def test_the_same_command_draws_conclusions_again(campaign: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert called([*SIMULATED, ADC, "--db", str(campaign), "--reinfer"]) == 0
    assert ADC in capfd.readouterr().out


def test_a_campaign_may_have_any_name(campaign: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "haswell"
    shutil.copy(campaign, path)
    assert is_campaign(path)
    assert command_of("db", ["check", str(path)]) == 0
    assert "HSW: results of 1 of" in capfd.readouterr().out
    assert command_of("db", ["query", "uops = 2", "--db", str(path)]) == 0
    assert ADC in capfd.readouterr().out


def test_what_is_no_campaign_is_none_under_any_other_name(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("SQLite format 4")
    assert not any(is_campaign(path) for path in (tmp_path, tmp_path / "text", tmp_path / "missing", Path("/dev/zero")))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("analyze", "kernel.s --arch SKL"), ("measure", "--asm-file kernel.s --backend sim --arch HSW")],
)
def test_a_file_is_named_whose_text_cannot_be_read(
    name: str, arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    need_catalogue()
    (tmp_path / "kernel.s").write_text("imul rax, rbx\nbogus rax\n")
    monkeypatch.chdir(tmp_path)
    assert command_of(name, arguments.split()) == 2
    said = capfd.readouterr().err
    assert said.startswith("error: kernel.s: ")
    assert "BOGUS" in said


def test_a_message_quotes_a_statement_as_it_was_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("<?xml version='1.0' encoding='UTF-8'?>\n")
    assert command_of("analyze", [str(tmp_path / "text"), "--arch", "SKL"]) == 2
    assert "<?xml version='1.0' encoding='UTF-8'?>" in capfd.readouterr().err


def test_a_picture_of_nothing_is_refused_before_anything_is_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "m.svg"
    assert command_of("memory", ["times", "--backend", "sim", "--arch", "SKX:memory", "--plot", str(plot)]) == 2
    said = capfd.readouterr()
    assert "--plot draws store forwarding" in said.err
    assert (said.out, plot.exists()) == ("", False)


def test_what_is_shipped_about_memory_has_a_name_in_any_case(capfd: pytest.CaptureFixture[str]) -> None:
    assert command_of("memory", ["--from", "zen4"]) == 0
    assert "store forwarding" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Expecting value"),
        (b"{\x80}", "not a text"),
        (b'{"form": "uopscope memory 1"}', "no member 'store_forwarding'"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_document_about_memory_is_told_in_words(
    content: bytes, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memory.json"
    path.write_bytes(content)
    assert command_of("memory", ["--from", str(path)]) == 2
    message = capfd.readouterr().err
    assert said in message
    assert "Error:" not in message


def test_an_input_without_a_dot_in_its_name_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, arguments in (("blocks", "prog -o prog"), ("db", "export prog --csv prog"), ("db", "check prog -o prog")):
        Path("prog").write_text("this is read")
        assert command_of(name, arguments.split()) == 2
        assert "prog: it is an input, too, and would be lost" in capfd.readouterr().err
        assert Path("prog").read_text() == "this is read"


def test_names_and_code_are_no_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    need_catalogue()
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert called([*SIMULATED, "NOP", "--csv", "NOP"]) == 0
        assert command_of("measure", ["--asm", "nop", *SIMULATED, "--json", "nop"]) == 0
        capfd.readouterr()


def test_the_schema_goes_where_it_is_wanted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command_of("convert", ["--xsd"]) == 0
    schema = capfd.readouterr().out
    assert command_of("convert", ["--xsd", "-o", str(tmp_path / "s.xsd")]) == 0
    assert capfd.readouterr().out == ""
    assert (tmp_path / "s.xsd").read_text() == schema


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("measure", f"--asm nop {SIM} --csv"),
        ("measure", f"--asm 'add rax, {{N}}' --sweep N=1,2 {SIM} --csv"),
        ("measure", f"--blocks blocks.csv {SIM} --csv"),
        ("analyze", "--blocks blocks.csv --arch HSW --csv"),
        ("characterize", f"'ADC_11 (R64, R64)' {SIM} --csv"),
    ],
)
def test_every_command_packs_what_it_writes_as_the_name_says(
    name: str, arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_catalogue()
    monkeypatch.chdir(tmp_path)
    Path("blocks.csv").write_text("480fafc3\n")
    for target in ("plain.csv", "packed.csv.gz"):
        assert command_of(name, [*shlex.split(arguments), target]) == 0
    assert gzip.decompress(Path("packed.csv.gz").read_bytes()) == Path("plain.csv").read_bytes()
