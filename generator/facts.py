"""Reads the tables of facts that are shipped beside the modules: TSV with a header, every cell filled in.

A row is a mapping from column name to text. Unknown or missing columns, empty cells and duplicate keys are errors with
file and line. A cell without a value is written `-`.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from generator.errors import FactError

if TYPE_CHECKING:
    from collections.abc import Sequence

LineTemplate = tuple[str, tuple[str, ...]]
"""A line of code in a table: the string of a variant, and tokens for its operands."""


def read_facts(
    name: str, columns: Sequence[str], key: Sequence[str] = (), text: str | None = None
) -> list[dict[str, str]]:
    """Return the rows of the table `name`, whose header must be exactly `columns`; `key` names the unique columns.

    Args:
        name: file name in this package, without a folder.
        columns: the header.
        key: the columns whose values together may occur once only (default: no such rule).
        text: the table's text, if it is not to be read from the package.

    Raises:
        FactError: with `file:line:`, the header or a row is not as it must be.
    """
    if text is None:
        text = resources.files("generator").joinpath("tables", name).read_text(encoding="utf-8")
    lines = text.splitlines()
    if not lines or lines[0].split("\t") != list(columns):
        raise FactError(f"{name}:1: the header must be: {' '.join(columns)}", hint="columns are separated by tabs")
    rows: list[dict[str, str]] = []
    seen: dict[tuple[str, ...], int] = {}
    for line_number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(columns) or not all(cells):
            raise FactError(f"{name}:{line_number}: {len(columns)} filled cells expected", hint="write - for nothing")
        row = dict(zip(columns, cells, strict=True))
        identity = tuple(row[column] for column in key)
        if key and identity in seen:
            raise FactError(f"{name}:{line_number}: {' '.join(identity)} stands in line {seen[identity]} already")
        seen[identity] = line_number
        rows.append(row)
    return rows


def parse_lines(text: str) -> tuple[LineTemplate, ...]:
    """Read a cell with lines of code: `STRING : TOKEN, TOKEN ; STRING : TOKEN`, or `-` for none."""
    if text == "-":
        return ()
    parts = (line.partition(" :") for line in text.split(" ; "))
    return tuple(
        (string.strip(), tuple(token.strip() for token in tokens.split(",") if token.strip()))
        for string, _, tokens in parts
    )
