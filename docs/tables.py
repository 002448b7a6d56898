"""The tables of figures in the documentation, made from the files of figures: `python -m docs.tables [--check]`.

A table stands between `<!-- begin table: NAME -->` and `<!-- end table: NAME -->`. What stands between is replaced.
NAME is one of `TABLES`, made from the files of `benchmarks/accuracy/` (columns: `runner.verification.report`). Shares
are rounded down: 100% means all. Or it is one of those that `docs.constants` makes.

With `--check` nothing is written: the status is 1 if a table is not what its files say, and each such table is named.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from docs import constants
from xed_convert.errors import UopscopeError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

CHECKOUT = Path(__file__).resolve().parents[1]
CAMPAIGN, RANDOM, KINDS = "accuracy/truth_campaign.tsv", "accuracy/random_machines.tsv", "accuracy/random_kinds.tsv"
SAMPLE, RANDOM_SAMPLE = "accuracy/truth_sample.tsv", "accuracy/random_sample.tsv"
BY_TIME = "accuracy/ports_by_time.tsv"
SENSITIVITY, UNTRIED = "changes/sensitivity.tsv", "changes/untried.tsv"
"""Files of figures, in the folder `benchmarks`."""

_BEGIN = re.compile(r"^<!-- begin table: (?P<name>.*?) -->\n", re.MULTILINE)


class TableError(UopscopeError):
    """A file of figures or a document is not as it should be."""


@dataclass(frozen=True, slots=True)
class FigureRows:
    """Rows of a table: one per machine in a file of figures, one for all of them together, or one per group.

    `group` names the group of a row in the file. `label` is what the first column says; `{machine}` and `{machines}`
    stand for the name and the number of machines, `{group}` for the name of the group.
    """

    file: str
    label: str = "{machine}"
    together: bool = False
    group: Callable[[Mapping[str, str]], str] | None = None


def kind_of(row: Mapping[str, str]) -> str:
    """Return the kind of a random machine (`random:KIND:SEED`)."""
    return row["machine"].split(":")[1]


def noise_and_machine(row: Mapping[str, str]) -> str:
    """Return the noise of a row with its machine; random machines of one kind are one group."""
    name = row["machine"]
    machine = name.rpartition(":")[0] if name.startswith("random:") else f"`{name}`"
    return f"{row['noise_percent']}% noise, {machine}"


def noise_of(row: Mapping[str, str]) -> str:
    """Return the noise of a row, as the label of all machines with it."""
    return f"{row['noise_percent']}% noise, all together"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the figure in it, and the figure of which it is shown as a share ("" for none).

    A figure may be a sum of others: `ports_right+ports_lost`.
    """

    heading: str
    figure: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures; `about` is the heading of its first column."""

    columns: tuple[Column, ...]
    rows: tuple[FigureRows, ...]
    about: str = "machine"


_ROWS = (
    FigureRows(CAMPAIGN, "{machine}, all extensions"),
    FigureRows(RANDOM, "{machines} random machines", together=True),
)
_TOGETHER = (
    FigureRows(CAMPAIGN, "{machines} port models of LLVM 19", together=True),
    FigureRows(RANDOM, "{machines} random machines", together=True),
)
MACHINES = "machines"
"""A figure that no file has: each row is about one machine."""

_VARIANTS = Column("variants", "variants")
_PORTS = (
    Column("several named", "ports_named"),
    Column("not stated", "ports_unstated"),
    Column("proven ambiguous", "ports_proved"),
    Column("indistinguishable", "ports_alike"),
    Column("wrong", "ports_wrong"),
)
_BOUNDS = (
    Column("tight bound", "pairs_least", "pairs"),
    Column("undeterminable", "pairs_free", "pairs"),
    Column("other bound", "pairs_bound", "pairs"),
)
_LATENCIES = (
    Column("port contention", "pairs_contention"),
    Column("no dependency", "pairs_untold"),
    Column("wrong", "pairs_wrong"),
)

_SUMMARY = (
    _VARIANTS,
    Column("ports right", "ports_right", "variants"),
    Column("wrong", "ports_wrong"),
    Column("µops right", "uops_right", "variants"),
    Column("throughput wrong", "tp_wrong"),
    Column("latencies", "pairs"),
    Column("exact", "pairs_exact", "pairs"),
    Column("wrong", "pairs_wrong"),
)

TABLES = {
    "accuracy": Table(_SUMMARY, _TOGETHER),
    "sample": Table(
        _SUMMARY,
        (
            FigureRows(SAMPLE, "{machines} port models of LLVM 19", together=True),
            FigureRows(RANDOM_SAMPLE, "{machines} random machines", together=True),
        ),
    ),
    "sample by machine": Table(
        (
            _VARIANTS,
            Column("ports right", "ports_right", "variants"),
            Column("named", "ports_named"),
            Column("not stated", "ports_unstated"),
            Column("proven ambiguous", "ports_proved"),
            Column("ports wrong", "ports_wrong"),
            Column("TP wrong", "tp_wrong"),
            Column("latencies", "pairs"),
            Column("exact", "pairs_exact", "pairs"),
            Column("wrong", "pairs_wrong"),
        ),
        (FigureRows(SAMPLE), FigureRows(RANDOM_SAMPLE)),
    ),
    "summary": Table(
        (
            _VARIANTS,
            Column("ports right", "ports_right", "variants"),
            Column("ports wrong", "ports_wrong"),
            Column("µops right", "uops_right", "variants"),
            Column("TP right", "tp_right", "variants"),
            Column("TP slower", "tp_slower"),
            Column("TP wrong", "tp_wrong"),
            Column("latencies", "pairs"),
            Column("exact", "pairs_exact", "pairs"),
            *_BOUNDS,
            Column("latencies wrong", "pairs_wrong"),
        ),
        _ROWS,
    ),
    "kinds": Table(
        (
            Column("machines", MACHINES),
            _VARIANTS,
            Column("ports right, of the tellable ones", "ports_right", "ports_right+ports_lost+ports_wrong"),
            Column("named", "ports_named"),
            Column("not stated", "ports_unstated"),
            Column("named otherwise", "ports_named_wrong"),
            Column("lost", "ports_lost"),
            Column("ports wrong", "ports_wrong"),
            Column("TP wrong", "tp_wrong"),
            Column("latencies", "pairs"),
            Column("exact", "pairs_exact"),
            Column("wrong", "pairs_wrong"),
        ),
        (FigureRows(KINDS, "{group}", group=kind_of), FigureRows(KINDS, "together", together=True)),
        "kind",
    ),
    "by time": Table(
        (
            Column("machines", MACHINES),
            _VARIANTS,
            Column("stated right", "right", "variants"),
            Column("alike in time", "alike"),
            Column("visible part right", "visible"),
            Column("named, truth among them", "named"),
            Column("named without it", "named_others"),
            Column("not stated", "unstated"),
            Column("stated wrong", "wrong"),
            Column("mixes of five", "mixes"),
            Column("within 2%", "mixes_near"),
        ),
        (FigureRows(BY_TIME, "{group}", group=noise_and_machine), FigureRows(BY_TIME, "{group}", group=noise_of)),
        "noise and machine",
    ),
    "ports": Table((_VARIANTS, Column("right", "ports_right", "variants"), *_PORTS), _ROWS),
    "latencies": Table(
        (_VARIANTS, Column("latencies", "pairs"), Column("right", "pairs_exact", "pairs"), *_BOUNDS, *_LATENCIES),
        _ROWS,
    ),
}


def figures(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file of figures by column.

    Raises `TableError` if the file cannot be read, has no row, or has a row of another length than its heading.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: cannot be read: {error}") from error
    heading, *cells = [line.split("\t") for line in lines] or [[]]
    for number, row in enumerate(cells, 2):
        if len(row) != len(heading):
            raise TableError(f"{path}, line {number}: {len(row)} columns, but the heading has {len(heading)}")
    if not cells:
        raise TableError(f"{path}: no figures in it")
    return [dict(zip(heading, row, strict=True)) for row in cells]


def render(table: Table, folder: Path) -> str:
    """Return a table as Markdown, from the files in a folder."""
    headings = [table.about, *(column.heading for column in table.columns)]
    body = [row for rows in table.rows for row in _lines(rows, table.columns, folder / rows.file)]
    first, *others = [f"| {' | '.join(line)} |\n" for line in (headings, *body)]
    return "".join([first, f"|---|{'--:|' * len(table.columns)}\n", *others])


def _lines(rows: FigureRows, columns: Sequence[Column], path: Path) -> Iterator[list[str]]:
    read = figures(path)
    needed = {figure for column in columns for figure in (column.figure, column.whole) if figure} - {MACHINES}
    counted = [Counter({MACHINES: 1, **{figure: _count(row, figure, path) for figure in needed}}) for row in read]
    if rows.group is not None:
        groups = [rows.group(row) for row in read]
        for group in dict.fromkeys(groups):
            whole = sum((counts for counts, one in zip(counted, groups, strict=True) if one == group), Counter[str]())
            yield [rows.label.format(group=group), *(_cell(column, whole) for column in columns)]
        return
    if rows.together:
        yield [rows.label.format(machines=len(read)), *(_cell(column, sum(counted, Counter())) for column in columns)]
        return
    for row, counts in zip(read, counted, strict=True):
        yield [rows.label.format(machine=row["machine"]), *(_cell(column, counts) for column in columns)]


def _count(row: Mapping[str, str], figure: str, path: Path) -> int:
    total = 0
    for name in figure.split("+"):
        text = row.get(name, "")
        if not text.isdecimal():
            raise TableError(f"{path}: {row.get('machine', 'a row')} has no count {name} (found: {text!r})")
        total += int(text)
    return total


def _cell(column: Column, counts: Mapping[str, int]) -> str:
    count = counts.get(column.figure, 0)
    if not column.whole or not counts.get(column.whole):
        return f"{count:,}"
    tenths = count * 1000 // counts[column.whole]
    return f"{count:,} ({'100' if tenths == 1000 else f'{tenths // 10}.{tenths % 10}'}%)"


def replaced(text: str, made: Mapping[str, str], where: str) -> tuple[str, list[str]]:
    """Return a document with its tables made anew, and the names of those that were not what they are now.

    `made` has the tables as they are now. Raises `TableError` for a name that it lacks, and for a table without an end.
    """
    parts, stale, place = [], [], 0
    for begin in _BEGIN.finditer(text):
        name = begin["name"]
        end = text.find(f"<!-- end table: {name} -->", begin.end())
        if end < 0:
            raise TableError(f"{where}: nothing ends the table {name}; put <!-- end table: {name} --> below it")
        if name not in made:
            raise TableError(f"{where}: no table is called {name} (known: {', '.join(made)})")
        if text[begin.end() : end] != made[name]:
            stale.append(name)
        parts += [text[place : begin.end()], made[name]]
        place = end
    return "".join([*parts, text[place:]]), stale


def update(checkout: Path, *, write: bool) -> list[str]:
    """Return "document: table" for every table that is not what its files say; write what they say if asked to.

    Raises `TableError` for what cannot be read, and for a table of `TABLES` that no document has.
    """
    made = {name: render(table, checkout / "benchmarks") for name, table in TABLES.items()}
    trials, reasons = (checkout / "benchmarks" / name for name in (SENSITIVITY, UNTRIED))
    made |= constants.tables(
        constants.constants(checkout),
        figures(trials) if trials.exists() else [],
        {row["constant"]: row["reason"] for row in figures(reasons)} if reasons.exists() else {},
    )
    unused, found = set(made), []
    for path in [checkout / "README.md", *sorted(checkout.glob("docs/*.md")), checkout / "benchmarks" / "README.md"]:
        place = str(path.relative_to(checkout))
        before = path.read_text(encoding="utf-8")
        unused -= set(_BEGIN.findall(before))
        text, stale = replaced(before, made, place)
        found += [f"{place}: {name}" for name in stale]
        if stale and write:
            with atomic_write(path) as file:
                file.write(text.encode())
    if unused:
        raise TableError(f"no document has the table {', '.join(sorted(unused))}")
    return found


def main() -> None:
    """Make the tables anew, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a table is stale")
    options = parser.parse_args()
    try:
        found = update(CHECKOUT, write=not options.check)
    except UopscopeError as error:
        sys.exit(str(error))
    for place in found:
        print(f"{place} {'is stale: run python -m docs.tables' if options.check else 'made anew'}")
    sys.exit(1 if options.check and found else 0)


if __name__ == "__main__":
    main()
