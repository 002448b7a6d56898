"""`uopscope db query`: variants that fulfil a query."""

from __future__ import annotations

from collections import Counter
from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import IO, TYPE_CHECKING, Annotated

import typer

from results.database.cycles import AtMost
from results.database.query import VARIANT_FIELDS, Predicate, Query, all_fields, compile_query
from runner.cli.database.common import Architecture, check_outputs
from runner.cli.process.guard import UsageError
from runner.cli.support import output
from runner.cli.support.own_code import written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from results.database.reader import ArchitectureResult, Entry

COLUMNS = ("string", "architecture", "uops", "ports", "TP_unrolled", "TP_loop", "TP_ports")
"""Columns beside the fields of a query; the last ones give way on a narrow terminal."""

_ARCHITECTURE = ("arch", "architecture")


def query(
    text: Annotated[
        str, typer.Argument(metavar="QUERY", help="For example: ports has p5 and latency(1,1) > 3", show_default=False)
    ] = "",
    database: Annotated[Path | None, typer.Option("--db", help="A database instead of the shipped one.")] = None,
    arch: Architecture = "",
    csv: Annotated[str, typer.Option(help="Write CSV to this file (- for standard output).")] = "",
    *,
    fields: Annotated[bool, typer.Option("--fields", help="List all fields that a query can ask about.")] = False,
) -> None:
    """List the variants that fulfil a query, with the values that it asks about."""
    from results.database.entries import (  # noqa: PLC0415 - `--help` does not need it
        architectures,
        entries_of_architecture,
    )
    from results.shipped import shipped_database  # noqa: PLC0415 - only where no file is named

    if fields and (text or csv):
        raise UsageError("--fields goes without a query and --csv", hint="it lists what a query can ask about")
    if not fields and not text.strip():
        raise UsageError(
            "no query", hint='for example "ports uses p5 and TP < 1"; --fields lists what can be asked about'
        )
    wanted = None if fields else compile_query(text)
    check_outputs(csv)
    entries, _ = entries_of_architecture(database if database is not None else shipped_database(), arch)
    if wanted is None:
        _print_fields(entries)
        return
    wanted.check({name for entry in entries for name in _attributes(entry)})
    found = list(_selected(entries, wanted))
    if csv:
        with written(csv) as file:
            _write_found(found, wanted, file)
        return
    rows = [_row(wanted, entry, result) for entry in found for result in entry.results.values()]
    if rows:
        for line in output.columns(rows, list(COLUMNS), keep=[*COLUMNS[:2], *wanted.fields]):
            print(line)
    measured = architectures(entries)
    if not measured:
        print("nothing found: no variant has a result")
        return
    print(f"{len(rows)} found" if rows else f"nothing found among results of {', '.join(measured)}")
    if rows:
        return
    there = [(entry, result) for entry in entries for result in entry.results.values()]
    for line in filter(None, (one.alternatives(there) for one in wanted.conditions)):
        print(line)
    if wanted.names_port_sets:
        print("`ports has X` finds exactly the set X, and `ports uses X` every set with these ports")


def _print_fields(entries: Iterable[Entry]) -> None:
    """Print a line for each field: how many results have it, and one of its values."""
    counts: Counter[str] = Counter()
    values: dict[str, str] = {}
    for entry in entries:
        variant = entry.variant
        of_variant = {name: str(getattr(variant, name)) for name in VARIANT_FIELDS} | dict(variant.attributes)
        for result in entry.results.values():
            found = of_variant | dict(result.measurement or {})
            counts.update(found.keys())
            values = found | values
    known = {name: f"{count} results, such as {values[name]}" for name, count in counts.items()}
    rows = [{"field": name, "what": text} for name, text in all_fields(known).items()]
    for line in output.columns(rows, (), keep=("field", "what")):
        print(line)


def _attributes(entry: Entry) -> Iterator[str]:
    """Yield the names of all attributes of an instruction and its measurements."""
    yield from entry.variant.attributes
    for result in entry.results.values():
        yield from result.measurement or {}


def _row(wanted: Query, entry: Entry, result: ArchitectureResult) -> dict[str, str]:
    """Return what is shown of a result: the fields of the query, then the usual columns. Models are called models."""
    from results.database.entries import is_model  # noqa: PLC0415 - likewise

    values = result.measurement or {}
    model = " (model)" if is_model(values) else ""
    row = {"string": entry.variant.string, "architecture": result.architecture + model}
    asked = {name: field(entry, result) for name, field in wanted.fields.items() if name not in _ARCHITECTURE}
    row |= {name: _text(value) for name, value in asked.items()}
    return row | {name: values.get(name, "") for name in COLUMNS if name not in row}


def _text(value: str | float | None) -> str:
    """Write a field's value, an upper bound as such."""
    if isinstance(value, AtMost):
        return f"≤{value:g}"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else value


def _write_found(found: Iterable[Entry], wanted: Query, file: IO[bytes]) -> None:
    """Write the variants that were found as CSV: all that is known, and a column per computed value of the query."""
    from results.exports.tidy import tables  # noqa: PLC0415 - `--help` does not need it
    from results.rows import Rows  # noqa: PLC0415 - likewise

    entries = list(found)
    known = tables(entries).variants
    asked = [
        {name: _text(field(entry, result)) for name, field in wanted.fields.items() if name not in known.columns}
        for entry in entries
        for result in entry.results.values()
    ]
    rows = Rows.of([{**row, **computed} for row, computed in zip(known, asked, strict=True)], known.columns)
    file.write(rows.to_csv().encode())


def _selected(entries: Iterable[Entry], wanted: Predicate) -> Iterator[Entry]:
    """Yield entries with only those of their results that are wanted."""
    from results.database.reader import Entry as DatabaseEntry  # noqa: PLC0415 - only for its constructor

    for entry in entries:
        results = {name: result for name, result in entry.results.items() if wanted(entry, result)}
        if results:
            yield DatabaseEntry(entry.variant, results)
