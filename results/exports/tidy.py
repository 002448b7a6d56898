"""The database as three tidy tables.

One row per observation, one column per variable; numbers are numbers, what is not known is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from results.database.entries import entries_of, is_model
from results.model import SPECIAL_FORMS, Form, PortUsage, port_set_name
from results.rows import Rows
from xed_convert.numbers import decimal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from results.database.reader import ArchitectureResult, Entry

VARIANT_COLUMNS = ("key", "string", "iform", "iclass", "extension", "isa_set", "category", "architecture", "is_model")
LATENCY_COLUMNS = (
    *("key", "string", "architecture", "is_model"),
    *("source", "destination", "part", "kind", "same_register", "cycles", "at_most"),
)
PORT_COLUMNS = (
    *("key", "string", "architecture", "is_model"),
    *(form.name.lower() for form in SPECIAL_FORMS),
    *("port_set", "uops"),
)


SHOWN = 5
"""Rows of each table that are shown where all three are."""


@dataclass(frozen=True, slots=True, repr=False)
class Tables:
    """Three tables, joined by `key` and `architecture`.

    `variants`: a row per variant and architecture, with every attribute of its measurement (throughputs in core
    cycles). `latencies`: a row per number of cycles, in `cycles` if it is exact, in `at_most` if it is an upper bound.
    `part` is "", "addr", "addr_index" or "mem", `kind` is "", "min" or "max". `same_register` marks the case of equal
    registers. `ports`: a row per port set, with its µops; a column for each special form (`results.model.Form`) tells
    whether the row is about it. Everywhere `is_model` says that a machine model said so, and no CPU.
    """

    variants: Rows
    latencies: Rows
    ports: Rows

    def __repr__(self) -> str:
        return "\n\n".join(f"{name}\n{rows[:SHOWN]!r}\n{len(rows)} rows" for name, rows in self._named())

    def _repr_html_(self) -> str:
        """Return the beginnings of the tables for a notebook."""
        return "".join(f"<h4>{name}, {len(rows)} rows</h4>{rows[:SHOWN]._repr_html_()}" for name, rows in self._named())

    def _named(self) -> Iterator[tuple[str, Rows]]:
        return ((name, getattr(self, name)) for name in self.__slots__)


def load(path: Path | str) -> Tables:
    """Load an instructions.xml (plain, .gz, .xz) or a campaign's SQLite file.

    Raises:
        DatabaseError: the XML cannot be read.
        StoreError: the campaign cannot be read.
    """
    return tables(entries_of(Path(path)))


def tables(entries: Iterable[Entry]) -> Tables:
    """Make the tables of any entries."""
    variants: list[dict[str, object]] = []
    latencies: list[dict[str, object]] = []
    ports: list[dict[str, object]] = []
    for entry in entries:
        for result in entry.results.values():
            variants.append(_variant_row(entry, result))
            latencies += _latency_rows(entry, result)
            ports += _port_rows(entry, result)
    return Tables(Rows.of(variants, VARIANT_COLUMNS), Rows.of(latencies, LATENCY_COLUMNS), Rows.of(ports, PORT_COLUMNS))


def _variant_row(entry: Entry, result: ArchitectureResult) -> dict[str, object]:
    variant = entry.variant
    row: dict[str, object] = {name: getattr(variant, name) for name in VARIANT_COLUMNS if hasattr(variant, name)}
    row |= {"architecture": result.architecture, "is_model": is_model(result.measurement)}
    return row | {name: number(value) for name, value in (result.measurement or {}).items() if name != "simulated"}


def number(text: str) -> object:
    """Return an int or a float if the text is one, else the text."""
    whole = decimal(text)
    try:
        return float(text) if whole is None else whole
    except ValueError:
        return text


def _latency_rows(entry: Entry, result: ArchitectureResult) -> Iterator[dict[str, object]]:
    for row in result.latencies:
        for name, value in row.values.items():
            if "cycles" not in name or name.endswith("_is_upper_bound"):
                continue
            plain = name.removesuffix(Form.SAME_REGISTER.suffix)
            kind = plain.split("_", 1)[0] if plain.startswith(("min_", "max_")) else ""
            bounded = f"{name}_is_upper_bound" in row.values
            yield {
                "key": entry.variant.key,
                "string": entry.variant.string,
                "architecture": result.architecture,
                "is_model": is_model(result.measurement),
                "source": row.start,
                "destination": row.target,
                "part": plain.split("cycles", 1)[1].lstrip("_"),
                "kind": kind,
                "same_register": name.endswith(Form.SAME_REGISTER.suffix),
                "cycles": None if bounded else number(value),
                "at_most": number(value) if bounded else None,
            }


def _port_rows(entry: Entry, result: ArchitectureResult) -> Iterator[dict[str, object]]:
    for form in Form:
        text = (result.measurement or {}).get(f"ports{form.suffix}")
        for ports, uops in PortUsage.parse(text).uops.items() if text else ():
            yield {
                "key": entry.variant.key,
                "string": entry.variant.string,
                "architecture": result.architecture,
                "is_model": is_model(result.measurement),
                **{special.name.lower(): special is form for special in SPECIAL_FORMS},
                "port_set": port_set_name(ports),
                "uops": uops,
            }
