"""Tables of figures in documents: what stands in them is what their files say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from docs import tables
from docs.constants import CHECKOUT
from docs.tables import (
    BY_TIME,
    CAMPAIGN,
    KINDS,
    MACHINES,
    RANDOM,
    RANDOM_SAMPLE,
    SAMPLE,
    TABLES,
    Column,
    FigureRows,
    Table,
    TableError,
    figures,
    kind_of,
    noise_and_machine,
    noise_of,
    render,
    replaced,
    update,
)
from runner.verification.report import COLUMNS, Report, keep
from tests.nonempty import some

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = ("variants", "right", "alike", "wrong")
FILES = (CAMPAIGN, RANDOM, SAMPLE, RANDOM_SAMPLE, KINDS, BY_TIME)
NEEDED = sorted(
    {name for table in TABLES.values() for c in table.columns for name in (c.figure, *c.whole.split("+")) if name}
    - {MACHINES}
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with a document of each kind and two machines in every file."""
    (tmp_path / "benchmarks" / "accuracy").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "inference").mkdir()
    (tmp_path / "inference" / "rules.py").write_text('MOST = 4\n"""Cycles. More are noise."""\n')
    for number, name in enumerate(FILES):
        columns = ["noise_percent", *NEEDED]
        rows = [["machine", *columns], [f"random:M:{number}", *["999"] * len(columns)]]
        rows.append([f"random:N:{number}", *["1"] * len(columns)])
        (tmp_path / "benchmarks" / name).write_text("".join("\t".join(row) + "\n" for row in rows))
    for path, names in (
        ("README.md", ["accuracy", "sample", "summary", "kinds", "by time"]),
        ("docs/a.md", ["sample by machine", "ports", "latencies"]),
        ("benchmarks/README.md", ["constants", "trials", "changes"]),
    ):
        marked = "".join(f"<!-- begin table: {name} -->\nformer\n<!-- end table: {name} -->\n" for name in names)
        (tmp_path / path).write_text(f"before\n{marked}after\n")
    return tmp_path


def test_tables_are_made_once_and_then_current(checkout: Path) -> None:
    assert update(checkout, write=True) == [
        "README.md: accuracy",
        "README.md: sample",
        "README.md: summary",
        "README.md: kinds",
        "README.md: by time",
        "docs/a.md: sample by machine",
        "docs/a.md: ports",
        "docs/a.md: latencies",
        "benchmarks/README.md: constants",
        "benchmarks/README.md: trials",
        "benchmarks/README.md: changes",
    ]
    text = (checkout / "docs" / "a.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end table: latencies -->\nafter\n")
    assert "former" not in text
    assert update(checkout, write=False) == []


def test_one_changed_figure_makes_the_tables_that_show_it_stale(checkout: Path) -> None:
    update(checkout, write=True)
    path = checkout / "benchmarks" / CAMPAIGN
    lines = path.read_text().split("\n")
    cells = lines[1].split("\t")
    cells[lines[0].split("\t").index("ports_named")] = "7"
    path.write_text("\n".join([lines[0], "\t".join(cells), *lines[2:]]))
    before = (checkout / "docs" / "a.md").read_text()
    assert update(checkout, write=False) == ["docs/a.md: ports"]
    assert (checkout / "docs" / "a.md").read_text() == before


def test_the_command_names_what_is_stale(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "CHECKOUT", checkout)
    for arguments, code, said in (
        (["--check"], 1, "docs/a.md: ports is stale"),
        ([], 0, "docs/a.md: ports made anew"),
        (["--check"], 0, ""),
    ):
        monkeypatch.setattr("sys.argv", ["tables", *arguments])
        with pytest.raises(SystemExit) as ended:
            tables.main()
        assert ended.value.code == code
        assert said in capsys.readouterr().out


def test_rows_of_all_machines_together_are_sums_and_shares_are_rounded_down(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_text("machine\tvariants\tright\nA\t1000\t1000\nB\t1000\t999\n")
    columns = (Column("variants", "variants"), Column("right", "right", "variants"))
    table = Table(columns, (FigureRows("f.tsv"), FigureRows("f.tsv", "{machines} machines", together=True)))
    assert render(table, tmp_path).splitlines() == [
        "| machine | variants | right |",
        "|---|--:|--:|",
        "| A | 1,000 | 1,000 (100%) |",
        "| B | 1,000 | 999 (99.9%) |",
        "| 2 machines | 2,000 | 1,999 (99.9%) |",
    ]


def test_rows_of_a_kind_are_sums_over_its_machines(tmp_path: Path) -> None:
    lines = ["machine\tvariants", "random:a:1\t6", "random:b:1\t5", "random:a:2\t4", ""]
    (tmp_path / "f.tsv").write_text("\n".join(lines))
    columns = (Column("machines", MACHINES), Column("variants", "variants"))
    table = Table(columns, (FigureRows("f.tsv", "{group}", group=kind_of),), "kind")
    assert render(table, tmp_path).splitlines()[2:] == ["| a | 2 | 10 |", "| b | 1 | 5 |"]


def test_machines_by_time_are_rows_by_noise_and_random_ones_are_one(tmp_path: Path) -> None:
    lines = ["machine\tnoise_percent\tvariants", "HSW\t0\t6", "HSW\t1\t5", "random:1\t1\t4", "random:2\t1\t3", ""]
    (tmp_path / "f.tsv").write_text("\n".join(lines))
    parts = [FigureRows("f.tsv", "{group}", group=group) for group in (noise_and_machine, noise_of)]
    table = Table((Column("variants", "variants"),), tuple(parts))
    rows = ["| 0% noise, `HSW` | 6 |", "| 1% noise, `HSW` | 5 |", "| 1% noise, random | 7 |"]
    rows += ["| 0% noise, all together | 6 |", "| 1% noise, all together | 12 |"]
    assert render(table, tmp_path).splitlines()[2:] == rows


def test_the_first_row_of_ports_by_time_says_what_the_rows_of_its_machines_say() -> None:
    rows = [row for row in figures(CHECKOUT / "benchmarks" / BY_TIME) if row["noise_percent"] == "1"]
    variants, right, alike, wrong = (sum(int(row[name]) for row in some(rows)) for name in COUNTED)
    text = (CHECKOUT / "docs" / "ports-by-time-results.md").read_text(encoding="utf-8")
    stated = right + alike + wrong
    assert f"1% noise | {variants:,} | {stated:,} | {right:,} of {stated:,} (their models), {wrong} wrong |" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("machine\tvariants\n", "no figures"),
        ("", "no figures"),
        ("machine\tvariants\nA\t1\t2\n", "line 2: 3 columns, but the heading has 2"),
        ("machine\tvariants\nA\t-1\n", "A has no count variants"),
        ("machine\tother\nA\t1\n", "A has no count variants"),
    ],
)
def test_files_of_figures_that_are_not_as_they_should_be(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "f.tsv").write_text(text)
    with pytest.raises(TableError, match=message):
        render(Table((Column("variants", "variants"),), (FigureRows("f.tsv"),)), tmp_path)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"none\.tsv: cannot be read"):
        figures(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- begin table: a -->\n", "nothing ends the table a"),
        ("<!-- begin table: b -->\n<!-- end table: b -->", "no table is called b"),
    ],
)
def test_marks_that_are_not_as_they_should_be(text: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        replaced(text, {"a": "x"}, "README.md")


def test_a_table_that_no_document_has_is_named(checkout: Path) -> None:
    (checkout / "README.md").write_text("nothing\n")
    with pytest.raises(TableError, match="no document has the table accuracy, by time, kinds, sample, summary"):
        update(checkout, write=False)


def test_a_new_run_replaces_the_row_of_its_machine_and_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    for machine, variants in (("random:7", 3), ("HSW", 1), ("SNB", 2), ("HSW", 5)):
        report = Report(machine)
        report.counts["variants"] = variants
        report.exceptions += [f"{machine}\tNOP\tuops\t{variants}\t0", f"{machine}\tNOP\ttp_slower\t1\t0"]
        keep(path, report)
    assert [(row["machine"], row["variants"]) for row in figures(path)] == [
        ("SNB", "2"),
        ("HSW", "5"),
        ("random:7", "3"),
    ]
    assert path.read_text().partition("\n")[0].split("\t") == list(COLUMNS)
    exceptions = figures(tmp_path / "f_exceptions.tsv")
    assert [(row["machine"], row["what"], row["found"]) for row in exceptions] == [
        ("SNB", "uops", "2"),
        ("HSW", "uops", "5"),
        ("random:7", "uops", "3"),
    ]
    assert {one.name for one in tmp_path.iterdir()} == {"f.tsv", "f_exceptions.tsv"}
