"""`uopscope memory`: what it measures on this machine, what it shows of a file, and what it refuses."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from results.database.memory_section import read_memories
from results.memory.documents import encode, read_document
from results.memory.model import Addressing, ForwardingOutcome, LineCrossing
from runner.cli import memory
from runner.memory import MemoryPart, MemoryUnknownError, WantedMemory, ask_sequence, measure_memory
from tests.attempts import undisturbed
from tests.results.memory.test_documents import REPORT
from tests.runner.cli.commands import called, need_catalogue
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from results.memory.model import MemoryReport
    from runner.backends.tsc import TscBackend

FEW = WantedMemory((MemoryPart.FORWARDING,), ("r8", "r64"), (LineCrossing.LINE,), (Addressing.SAME,))


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "zen4.json"
    path.write_text(json.dumps(encode(REPORT)))
    return path


def test_on_this_machine_loads_inside_of_a_store_take_less_than_those_that_reach_beyond_it(tsc: TscBackend) -> None:
    need_catalogue()

    def found() -> tuple[tuple[str, ...], int, int, Fraction]:
        report = measure_memory(tsc, Catalogue.load(), FEW)
        matrix = report.forwarding
        assert matrix is not None
        assert len(matrix.rows) == 4
        wide, narrow = matrix.row("r8", "r64"), matrix.row("r64", "r8")
        assert wide is not None
        assert narrow is not None
        failed = wide.outcomes.count(ForwardingOutcome.FAILED)
        forwarded = narrow.outcomes.count(ForwardingOutcome.FORWARDED)
        return report.problems, failed, forwarded, matrix.penalty() or Fraction(0)

    undisturbed(found, lambda one: one[0] == () and one[1] >= 7 and one[2] >= 6 and one[3] > 4)


def test_a_file_is_shown_and_written_in_all_forms(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    files = {name: tmp_path / f"out.{name}" for name in ("json", "xml", "svg")}
    options = ["--json", str(files["json"]), "--xml", str(files["xml"]), "--plot", str(files["svg"])]
    assert called(["--from", str(document), *options], memory.app) == 0
    assert "13.0 cycles more" in capsys.readouterr().out
    assert read_document(files["json"]) == REPORT
    assert read_memories(files["xml"]) == [REPORT]
    assert b"<svg" in files["svg"].read_bytes()


def test_what_is_shipped_is_shown_by_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert called(["--from", "ICX", "--json", str(tmp_path / "out.json")], memory.app) == 0
    assert "up to 48 KiB" in capsys.readouterr().out
    report = read_document(tmp_path / "out.json")
    assert report.provenance.architecture == "ICX"
    assert report.forwarding is not None
    outcomes = {outcome for row in report.forwarding.rows for outcome in row.outcomes}
    assert ForwardingOutcome.RENAMED not in outcomes  # Ice Lake forwards through its store buffer only
    assert called(["--from", "NOSUCH"], memory.app) == 2
    assert "NOSUCH" in capsys.readouterr().err


def test_standard_output_takes_one_form(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(["--from", str(document), "--json", "-"], memory.app) == 0
    assert json.loads(capsys.readouterr().out) == encode(REPORT)
    assert called(["--from", str(document), "--json", "-", "--xml", "-"], memory.app) == 2
    assert "only one form" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--place", "moon"], 2, "not one of line, lines, pages"),
        (["--addressing", "none"], 2, "not one of same, base"),
        (["--access", "r7", "--backend", "tsc"], 2, "no store and load 'r7' here"),
        (["--place", "pages", "--addressing", "base", "--backend", "tsc"], 2, "no case is left"),
        (["--from", "missing.json"], 2, "missing.json"),
        (["--from", "missing.json", "--place", "line"], 2, "--from shows what was measured before"),
        (["--json", "/nowhere/x.json"], 3, "/nowhere"),
        (["--backend", "nothing"], 2, "no backend 'nothing'"),
    ],
)
def test_wrong_input_is_refused(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    need_catalogue()
    monkeypatch.chdir(tmp_path)
    assert called(arguments, memory.app) == code
    message = capsys.readouterr().err
    assert said in message
    assert "a fault of uopscope" not in message


def test_what_a_cpu_lacks_is_named(tsc: TscBackend) -> None:
    need_catalogue()
    with pytest.raises(MemoryUnknownError, match="'t1024'"):
        measure_memory(tsc, Catalogue.load(), WantedMemory(names=("t1024",)))


def test_accesses_of_a_sequence_are_told_as_hits_and_misses(
    tsc: TscBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    need_catalogue()
    undisturbed(
        lambda: [one.hits for one in ask_sequence(tsc, Catalogue.load(), "A? A? B A?")],
        lambda hits: hits == [False, True, True],
    )
    assert called(["--sequence", "A B"], memory.app) == 2
    assert "no access is asked about" in capsys.readouterr().err
    assert called(["--sequence", "A ( B"], memory.app) == 2
    assert "unexpected" in capsys.readouterr().err
    assert called(["--sequence", "A?", "--json", "-"], memory.app) == 2
    assert "--sequence goes with" in capsys.readouterr().err


def test_times_and_levels_of_this_machine_are_in_order(tsc: TscBackend) -> None:
    need_catalogue()

    def measured() -> list[str]:
        report = measure_memory(tsc, Catalogue.load(), WantedMemory((MemoryPart.TIMES, MemoryPart.LEVELS)))
        assert report.forwarding is None
        return out_of_order(report)

    undisturbed(measured, lambda found: found == [])


def out_of_order(report: MemoryReport) -> list[str]:
    """Return what is wrong in a report. Another thread on the core may take half of the first level."""
    latencies = {one.parameters: one.cycles for one in report.times if one.kind == "load latency"}
    base, crossing, aligned = (
        latencies.get((key,)) or Fraction(0)
        for key in (("address", "base"), ("crossing", "line"), ("load", "MOV (R64, M64)"))
    )
    cycles = [one.cycles for one in report.levels]
    first = [one.size_bytes for one in report.levels[:1]]
    wrong = {
        f"a load takes {base}": not 3 < base < 8,
        f"across lines {crossing}, within one {aligned}": not crossing >= aligned > 0,
        f"levels take {cycles}": cycles != sorted(cycles),
        f"{len(cycles)} levels without a message": len(cycles) < 3 and not report.problems,
        f"a first level of {first} bytes": any(size >> 10 not in {12, 16, 24, 32, 48, 64} for size in first),
    }
    return [what for what, found in wrong.items() if found]
