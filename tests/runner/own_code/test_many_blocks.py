"""Thousands of blocks, predicted or measured: in several processes, and on from where it was stopped."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.bounds.components import Running
from analysis.prediction import PredictionMode
from runner.cli.process.stop import Stopped
from runner.own_code import blocks as blocks_module
from runner.own_code.analyzing import many_blocks
from runner.own_code.analyzing.many_blocks import CHUNK, PredictionTask, Row, journal_of, predict_blocks, row_of
from runner.own_code.blocks import BlockMeasurer, BlockOptions
from runner.own_code.journal import SUFFIX, is_resumable
from tests.runner.cli.commands import SIMULATED, command, command_of, environment, need_catalogue
from tests.shared import measured_haswell
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from analysis.prediction import Tools
    from runner.backend import Backend

TASK = PredictionTask("HSW", str(measured_haswell()), "unrolled", "bounds", bhive=False)
BLOCKS = [bytes.fromhex(code) * (1 + n % 5) for n in range(CHUNK) for code in ("480fafc3", "4801d8", "06")]


@pytest.fixture(autouse=True)
def _catalogue() -> None:
    need_catalogue()


def test_several_processes_say_what_one_says() -> None:
    counts: list[tuple[int, int]] = []
    one = list(predict_blocks(BLOCKS, TASK, 1, None, lambda done, total: counts.append((done, total))))
    assert list(predict_blocks(BLOCKS, TASK, 2)) == one
    assert counts == [(CHUNK, 3 * CHUNK), (2 * CHUNK, 3 * CHUNK), (3 * CHUNK, 3 * CHUNK)]
    assert [row[0] for row in one] == [code.hex() for code in BLOCKS]
    assert one[3][1] == "6.00"
    assert "no sequence of instructions" in one[2][4]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_machine_is_read_once_for_all_processes(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = PredictionTask.tools

    def noted(task: PredictionTask) -> Tools:
        with (tmp_path / "reads").open("a") as file:
            file.write("once\n")
        return tools(task)

    monkeypatch.setattr(PredictionTask, "tools", noted)
    assert len(list(predict_blocks(BLOCKS, TASK, jobs))) == len(BLOCKS)
    assert (tmp_path / "reads").read_text() == "once\n"


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out.csv"
    with journal_of(output, TASK, BLOCKS) as journal:
        rows = predict_blocks(BLOCKS, TASK, 1, journal)
        first = [next(rows) for _ in range(CHUNK + 1)]
    made: list[int] = []
    chunk = many_blocks._chunk

    def counting(codes: list[bytes]) -> list[Row]:
        made.append(len(codes))
        return chunk(codes)

    monkeypatch.setattr(many_blocks, "_chunk", counting)
    with journal_of(output, TASK, BLOCKS) as journal:
        found = list(predict_blocks(BLOCKS, TASK, 1, journal))
        journal.done()
    assert made == [CHUNK]  # two of three chunks were kept
    assert found[: CHUNK + 1] == first
    assert found == list(predict_blocks(BLOCKS, TASK))
    assert not list(tmp_path.iterdir())


def test_another_task_begins_anew(tmp_path: Path) -> None:
    with journal_of(tmp_path / "out.csv", TASK, BLOCKS) as journal:
        list(predict_blocks(BLOCKS, TASK, 1, journal))
    with journal_of(tmp_path / "out.csv", TASK, BLOCKS[1:]) as journal:
        assert journal.rows == {}


def test_an_unknown_cpu_is_said_before_processes_start() -> None:
    with pytest.raises(UopscopeError, match="NOSUCH"):
        next(predict_blocks(BLOCKS, PredictionTask("NOSUCH", "", "auto", "bounds", bhive=False), 2))


@pytest.mark.parametrize(("architecture", "unknown"), [("SKL", "1"), ("ADL-P", "1"), ("ZEN4", "0")])
def test_a_row_counts_instructions_of_which_nothing_or_no_latency_is_known(architecture: str, unknown: str) -> None:
    task = PredictionTask(architecture, "", Running.UNROLLED.value, PredictionMode.BOUNDS.value, bhive=False)
    row = row_of(bytes.fromhex("480fc7f0"), task.tools(), Running.UNROLLED, PredictionMode.BOUNDS)  # RDRAND RAX
    assert row[3] == unknown


CHAINS = ["480fafc0" * (1 + n) for n in range(10)]
CYCLES = [3 * (1 + n) for n in range(10)]
BATCH = 4


@pytest.fixture
def _table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten blocks in the working folder, which are measured in small batches."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocks_module, "BATCH", BATCH)
    Path("blocks.csv").write_text("\n".join(CHAINS))


@pytest.fixture
def measured(_table: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each batch had; the third one is stopped."""
    sizes: list[int] = []
    original = BlockMeasurer._measure_entries

    def stopping(self: BlockMeasurer, entries: list[object]) -> None:
        sizes.append(len(entries))
        if len(sizes) == 3:
            raise Stopped(signal.SIGINT, lambda: None)
        original(self, entries)  # type: ignore[arg-type] # private entries

    monkeypatch.setattr(BlockMeasurer, "_measure_entries", stopping)
    return sizes


def arguments(*more: str) -> list[str]:
    return ["--blocks", "blocks.csv", *SIMULATED, "--csv", "out.csv", *more]


def cycles(text: str) -> list[float]:
    return [float(line.split(",")[1]) for line in text.splitlines()[1:]]


def test_blocks_that_were_measured_before_a_stop_are_not_measured_again(
    measured: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert command_of("measure", arguments()) == 130
    assert "stopped after 8 of 10 blocks; the same command resumes it" in capfd.readouterr().err
    assert not Path("out.csv").exists()
    assert command_of("measure", arguments()) == 0
    said = capfd.readouterr().err
    assert f"out.csv{SUFFIX}: goes on where it was stopped" in said
    assert measured == [4, 4, 2, 2]
    assert "10 blocks: out.csv" in said
    assert cycles(Path("out.csv").read_text()) == CYCLES
    assert sorted(path.name for path in Path().iterdir()) == ["blocks.csv", "out.csv"]


@pytest.mark.parametrize("change", [["--value", "0x1000000"], ["--modes", "loop"]])
def test_rows_that_were_measured_with_other_options_are_not_taken(measured: list[int], change: list[str]) -> None:
    assert command_of("measure", arguments()) == 130
    assert command_of("measure", arguments(*change)) == 0
    assert measured == [4, 4, 2, 4, 4, 2]


@pytest.mark.usefixtures("measured")
def test_on_standard_output_rows_are_there_before_the_stop(capfd: pytest.CaptureFixture[str]) -> None:
    assert command_of("measure", [*arguments()[:-2], "--csv", "-"]) == 130
    printed = capfd.readouterr()
    assert cycles(printed.out) == CYCLES[:8]
    assert "stopped after 8 of 10 blocks; with --csv FILE it could be resumed" in printed.err


@pytest.mark.usefixtures("_table")
def test_a_run_that_is_killed_goes_on() -> None:
    lengths = range(1, 385)  # three batches; the last ones take a second each
    Path("blocks.csv").write_text("\n".join("480fafc0" * length for length in lengths))
    words = command(["measure", *arguments()], module="uopscope")
    kept = Path(f"out.csv{SUFFIX}")
    with subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (kept.exists() and len(kept.read_bytes().splitlines()) > 100):
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    before = kept.read_bytes().count(b"\n") - 1
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    assert "goes on where it was stopped" in done.stderr
    assert 0 < before < len(lengths)
    assert cycles(Path("out.csv").read_text()) == [3 * length for length in lengths]


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize(
    ("output", "is_file"), [("new.csv", True), ("blocks.csv", True), ("/dev/null", False), ("-", False)]
)
def test_only_files_have_a_journal(output: str, *, is_file: bool) -> None:
    assert is_resumable(output) is is_file


@pytest.mark.usefixtures("_table")
def test_a_device_gets_the_rows_and_nothing_is_left_beside_it() -> None:
    assert command_of("measure", [*arguments()[:-1], "/dev/null"]) == 0
    assert command_of("measure", ["--asm", "nop", *SIMULATED, "--sweep", "offset=0..1", "--csv", "/dev/null"]) == 0
    assert not Path(f"/dev/null{SUFFIX}").exists()


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize(("option", "may_call"), [((), False), (("--allow-syscalls",), True)])
def test_blocks_may_call_the_system_if_that_is_allowed(
    option: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, *, may_call: bool
) -> None:
    seen: list[bool] = []
    original = BlockMeasurer.__init__

    def noting(self: BlockMeasurer, backend: Backend, options: BlockOptions) -> None:
        seen.append(options.may_call)
        original(self, backend, options)

    monkeypatch.setattr(BlockMeasurer, "__init__", noting)
    assert command_of("measure", arguments(*option)) == 0
    assert seen == [may_call]
