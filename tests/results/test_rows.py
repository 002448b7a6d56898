"""Rows: columns, conditions, CSV, what they look like, and data frames."""

from __future__ import annotations

import csv
import io
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.rows import SHOWN_COLUMNS, SHOWN_ROWS, Rows
from xed_convert.extras import MissingPackageError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = Rows.of([{"name": "ADD", "uops": 1}, {"name": "<ADC>", "uops": 2, "cycles": 0.5}], columns=["name"])
cells = st.none() | st.integers() | st.text(st.characters(codec="utf-8", exclude_characters="\r\0"))
records = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), cells))


def test_a_row_a_slice_and_a_column() -> None:
    assert ROWS.columns == ("name", "uops", "cycles")
    assert ROWS[0] == {"name": "ADD", "uops": 1, "cycles": None}
    assert ROWS[1:]["cycles"] == [0.5]
    assert ROWS["uops"] == [1, 2]
    assert len(list(ROWS)) == len(ROWS) == 2


def test_a_column_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(KeyError, match="no column 'ports'\n  there are: name, uops, cycles"):
        ROWS["ports"]
    with pytest.raises(KeyError, match="no column 'ports'"):
        ROWS.where(ports="p0")


def test_conditions_and_values_both_hold() -> None:
    assert ROWS.where(uops=2)["name"] == ["<ADC>"]
    assert ROWS.where(lambda row: row["cycles"] is None)["name"] == ["ADD"]
    assert len(ROWS.where(lambda row: row["cycles"] is None, uops=2)) == 0


@given(records)
def test_csv_is_read_back_as_it_was(found: list[dict[str, object]]) -> None:
    rows = Rows.of(found, columns=["a"])
    read = list(csv.DictReader(io.StringIO(rows.to_csv(), newline="")))
    texts = [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    if len(rows.columns) > 1:
        assert read == texts
    else:
        assert [row for row in read if row["a"]] == [row for row in texts if row["a"]]


def test_csv_is_written_to_a_file(tmp_path: Path) -> None:
    text = ROWS.to_csv(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == text == "name,uops,cycles\nADD,1,\n<ADC>,2,0.5\n"


def test_they_look_like_a_table() -> None:
    assert repr(ROWS).splitlines() == ["name   uops  cycles", "ADD       1", "<ADC>     2     0.5"]
    page = ROWS._repr_html_()
    assert "<td>&lt;ADC&gt;</td><td>2</td><td>0.5</td>" in page


def test_of_many_the_first_are_shown_and_all_are_counted() -> None:
    names = [f"c{at}" for at in range(SHOWN_COLUMNS + 1)]
    many = Rows.of([dict.fromkeys(names, at) for at in range(SHOWN_ROWS + 5)])
    lines = repr(many).splitlines()
    assert len(lines) == SHOWN_ROWS + 2
    assert lines[-1].startswith(f"{SHOWN_ROWS + 5} rows, {SHOWN_COLUMNS + 1} columns: c0, ")
    assert many._repr_html_().count("<tr>") == SHOWN_ROWS + 1


def test_frames_have_types_and_know_what_is_missing() -> None:
    frame = ROWS.to_pandas()
    assert str(frame.uops.dtype) == "Int64"
    assert list(frame.cycles.isna()) == [True, False]


def test_without_pandas_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackageError, match=r"a data frame needs pandas(.|\n)*-m pip install 'pandas"):
        ROWS.to_pandas()
