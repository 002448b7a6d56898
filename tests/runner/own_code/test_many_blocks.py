"""Thousands of blocks: in several processes, and on from where it was stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analysis.bounds.components import Running
from analysis.prediction import PredictionMode
from runner.own_code.analyzing import many_blocks
from runner.own_code.analyzing.many_blocks import CHUNK, PredictionTask, journal_of, predict_blocks, row_of
from tests.runner.cli.commands import need_catalogue
from tests.shared import measured_haswell
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from pathlib import Path

    from runner.own_code.analyzing.many_blocks import Row

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
