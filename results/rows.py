"""Rows with named columns: a small data frame that needs no pandas.

rows = Rows.of([{"name": "ADD", "uops": 1}, {"name": "ADC", "uops": 2}])
rows["uops"]                          # [1, 2]
rows.where(uops=2)                    # Rows: those with that value
rows.where(lambda row: row["uops"])   # Rows: those for which it is true
rows.to_pandas()                      # a data frame, with the extra `frames`
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from xed_convert.errors import UopscopeError
from xed_convert.extras import extra
from xed_convert.files import named_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pandas as pd

SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_CHARACTERS = 20, 10, 48
"""How much of a table is shown; the rest is counted."""


class ColumnError(UopscopeError, KeyError):
    """A table has no column of that name."""


@dataclass(frozen=True, slots=True, repr=False)
class Rows(Sequence[Mapping[str, Any]]):
    """A table. Every row has a value for every column; None where it is not known."""

    columns: tuple[str, ...]
    records: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], columns: Iterable[str] = ()) -> Rows:
        """Return the table of some rows: the named columns first, then others in the order in which rows have them."""
        found = list(records)
        names = tuple(dict.fromkeys([*columns, *(name for record in found for name in record)]))
        return cls(names, tuple({name: record.get(name) for name in names} for record in found))

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> Rows: ...

    @overload
    def __getitem__(self, at: str) -> list[Any]: ...

    def __getitem__(self, at: int | slice | str) -> Mapping[str, Any] | Rows | list[Any]:
        """Return a row by its number, some rows by a slice, or a column's values by its name.

        Raises:
            ColumnError: there is no such column; the hint names those that there are.
        """
        if isinstance(at, str):
            if at not in self.columns:
                raise ColumnError(f"no column {at!r}", hint=f"there are: {', '.join(self.columns)}")
            return [record[at] for record in self.records]
        return Rows(self.columns, self.records[at]) if isinstance(at, slice) else self.records[at]

    def where(self, condition: Callable[[Mapping[str, Any]], object] | None = None, **values: object) -> Rows:
        """Return the rows for which the condition is true, and which have these values."""
        for name in values:
            self[name]
        wanted = values.items()
        fitting = (record for record in self.records if all(record[name] == value for name, value in wanted))
        return Rows(self.columns, tuple(record for record in fitting if condition is None or condition(record)))

    def to_csv(self, path: Path | str | None = None) -> str:
        """Return the table as CSV, and write it to a file if one is named.

        Raises:
            OutputError: the file cannot be written.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(record.values() for record in self.records)
        if path is not None:
            with named_write(path) as file:
                file.write(text.getvalue().encode())
        return text.getvalue()

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with the narrowest types that hold the values.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        pandas = extra("pandas", "a data frame")
        frame: pd.DataFrame = pandas.DataFrame(self.records, columns=list(self.columns), dtype="object")
        return frame.convert_dtypes()

    def __repr__(self) -> str:
        columns = self.columns[:SHOWN_COLUMNS]
        lines = [columns, *([_short(record[name]) for name in columns] for record in self.records[:SHOWN_ROWS])]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        numeric = [all(isinstance(row[name], (int, float, type(None))) for row in self.records) for name in columns]
        table = [
            "  ".join(
                f"{text:{'>' if number else '<'}{width}}"
                for text, width, number in zip(line, widths, numeric, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*table, *self._left_out()])

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        columns = self.columns[:SHOWN_COLUMNS]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_short(record[name]))}</td>' for name in columns)}</tr>"
            for record in self.records[:SHOWN_ROWS]
        )
        rest = "".join(f"<p>{html.escape(line)}</p>" for line in self._left_out())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _left_out(self) -> list[str]:
        """Say how large the table is, if not all of it is shown."""
        if len(self) <= SHOWN_ROWS and len(self.columns) <= SHOWN_COLUMNS:
            return []
        return [f"{len(self)} rows, {len(self.columns)} columns: {', '.join(self.columns)}"]


def _short(value: object) -> str:
    """Write a value in a table."""
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
