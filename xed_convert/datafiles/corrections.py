"""Known faults of XED's datafiles, and what is read instead (`data/corrections.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources

from xed_convert.datafiles.source import Line
from xed_convert.errors import ConversionError


@dataclass(frozen=True, slots=True)
class Correction:
    """A line of a datafile, what to read instead, why, and the source of that."""

    file: str
    line: str
    instead: str
    reason: str
    source: str


def load_corrections() -> tuple[Correction, ...]:
    """Return the shipped table.

    Raises:
        ConversionError: a row lacks a column or has an unknown one.
    """
    name = "data/corrections.toml"
    rows = tomllib.loads(resources.files("xed_convert").joinpath(name).read_text(encoding="utf-8"))["correction"]
    columns = set(Correction.__dataclass_fields__)
    for number, row in enumerate(rows, 1):
        if set(row) != columns or not all(row.values()):
            message = f"{name}: row {number}: expected the columns {', '.join(sorted(columns))}, none empty"
            raise ConversionError(message)
    return tuple(Correction(**row) for row in rows)


def corrected(lines: list[Line], name: str, corrections: tuple[Correction, ...]) -> list[Line]:
    """Return the lines of the datafile `name` with the corrections for it applied."""
    instead = {row.line: row.instead for row in corrections if row.file == name}
    if not instead:
        return lines
    return [Line(line.path, line.number, instead.get(" ".join(line.text.split()), line.text)) for line in lines]
