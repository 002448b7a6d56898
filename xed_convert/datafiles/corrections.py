"""Known faults of XED's datafiles, and their corrections (`data/corrections.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING

from xed_convert.datafiles.source import FileLine
from xed_convert.errors import ConversionError
from xed_convert.globs import any_pattern

if TYPE_CHECKING:
    from re import Pattern

    from xed_convert.datafiles.records import Record

_TABLE = "data/corrections.toml"


@dataclass(frozen=True, slots=True)
class Correction:
    """A line of a datafile, what to read instead, why, and the source of that."""

    file: str
    line: str
    instead: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class FlagsAddition:
    """Rows that FLAGS of records lacks, for the iclasses that match; why, and the source of that."""

    iclass: Pattern[str]
    add: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class Corrections:
    """The tables of `data/corrections.toml`."""

    lines: tuple[Correction, ...]
    flags: tuple[FlagsAddition, ...]

    @classmethod
    def load(cls) -> Corrections:
        """Read the shipped tables.

        Raises:
            ConversionError: a row lacks a column or has an unknown one.
        """
        tables = tomllib.loads(resources.files("xed_convert").joinpath(_TABLE).read_text(encoding="utf-8"))
        if set(tables) != {"correction", "flags"}:
            raise ConversionError(f"{_TABLE}: expected the tables correction and flags, not {', '.join(tables)}")
        for name, kind in (("correction", Correction), ("flags", FlagsAddition)):
            _check(name, tables[name], set(kind.__dataclass_fields__))
        return cls(
            tuple(Correction(**row) for row in tables["correction"]),
            tuple(FlagsAddition(**{**row, "iclass": any_pattern(row["iclass"])}) for row in tables["flags"]),
        )

    def apply(self, lines: list[FileLine], name: str) -> list[FileLine]:
        """Return the lines of the datafile `name` with the corrections for it."""
        instead = {row.line: row.instead for row in self.lines if row.file == name}
        if not instead:
            return lines
        return [FileLine(line.path, line.number, instead.get(" ".join(line.text.split()), line.text)) for line in lines]

    def with_flags(self, records: list[Record]) -> list[Record]:
        """Return the records with the additions to their FLAGS."""
        return [self._with_flags(record) for record in records]

    def _with_flags(self, record: Record) -> Record:
        """Return a record with the additions to its FLAGS."""
        added = [row.add for row in self.flags if row.iclass.match(record.iclass)]
        return replace(record, flags=", ".join(filter(None, [record.flags, *added]))) if added else record


def _check(name: str, rows: list[dict[str, object]], columns: set[str]) -> None:
    """Refuse rows with missing, empty or unknown columns."""
    for number, row in enumerate(rows, 1):
        if set(row) != columns or not all(row.values()):
            expected = ", ".join(sorted(columns))
            raise ConversionError(f"{_TABLE}: {name} row {number}: expected the columns {expected}, none empty")
