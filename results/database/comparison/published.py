"""Numbers that others published of a CPU, and the same numbers of a campaign: latencies as ranges, and throughputs.

The published file is an instructions.xml, or a table of uops.info's pages as CSV: `string`, `latency`, `throughput`,
and other columns. A latency is a number, `≤` an upper bound, or `[least;greatest]` over all pairs of operands. A
throughput is the measured one, or `computed from ports / measured`. A column `ports` is read, too, if there is one.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from results.database.merge import current_key
from results.database.reader import DatabaseError
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from results.database.reader import ArchitectureResult, Entry
    from xed_convert.model import InstructionVariant

COLUMNS = ("string", "latency", "throughput")
"""Columns that a table must have."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far ours may be from a published value: a share of it, and for throughputs a least number of cycles."""

    share: Fraction = Fraction(1, 10)
    cycles: Fraction = Fraction(2, 100)


class LatencyBounds(NamedTuple):
    """Between which cycles a latency is: an exact one has two equal ends, an upper bound begins at 0."""

    low: Fraction
    high: Fraction

    @property
    def text(self) -> str:
        """The latency as tables write it."""
        return number_text(self.high) if self.low == self.high else f"≤{number_text(self.high)}"


@dataclass(frozen=True, slots=True)
class Latency:
    """The least and the greatest of some latencies, as far as they are known."""

    least: LatencyBounds
    greatest: LatencyBounds

    @property
    def text(self) -> str:
        """The latency as tables write it."""
        return self.least.text if self.least == self.greatest else f"[{self.least.text};{self.greatest.text}]"


@dataclass(frozen=True, slots=True)
class Published:
    """What was published of a variant: latencies by pair of operands ("" for all pairs), throughput in cycles.

    `key` is the variant's key in the shipped catalogue, "" where only its string is known. `computed` are the cycles
    that its published ports need, None where that is not said. `ports` is its port usage, None if none was published.
    """

    string: str
    latencies: Mapping[str, Latency]
    throughput: Fraction | None
    key: str = ""
    computed: Fraction | None = None
    ports: PortUsage | None = None


# How they compare


def agree(one: Latency, other: Latency, tolerance: Tolerance) -> bool:
    """Whether two latencies, or ranges of them, do not contradict each other."""
    return overlap(one.least, other.least, tolerance) and overlap(one.greatest, other.greatest, tolerance)


def overlap(one: LatencyBounds, other: LatencyBounds, tolerance: Tolerance) -> bool:
    """Whether both contain the same number, within the tolerance."""
    lower, upper = max(one.low, other.low), min(one.high, other.high)
    return lower - upper <= tolerance.share * lower


# What we measured


def throughput_of(result: ArchitectureResult) -> Fraction | None:
    """Return the least measured throughput in cycles per instruction."""
    values = result.measurement or {}
    found = [Fraction(values[name]) for name in ("TP_unrolled", "TP_loop") if name in values]
    return min(found, default=None)


def latencies_of(result: ArchitectureResult, *, by_pair: bool) -> dict[str, tuple[Latency, ...]]:
    """Return latencies by pair of operands and part ("1→2 cycles_mem"), or all of them under "".

    All pairs together give two latencies: with those of the same register in several operands, and without. Tables have
    the one or the other: the 0 cycles of a zero idiom are the least of VPXOR, but not of VPCMPEQB.
    """
    found: dict[str, list[tuple[str, LatencyBounds, bool]]] = defaultdict(list)
    for row in result.latencies:
        for name, text in row.values.items():
            if "cycles" not in name or name.endswith("_is_upper_bound"):
                continue
            cycles = Fraction(text)
            bounds = LatencyBounds(Fraction(0) if f"{name}_is_upper_bound" in row.values else cycles, cycles)
            plain = name.removeprefix("min_").removeprefix("max_")
            place = f"{row.start}→{row.target} {plain}" if by_pair else ""
            found[place].append((name, bounds, name.endswith("_same_reg")))
    return {place: tuple(dict.fromkeys(_ranges(values))) for place, values in found.items()}


def _ranges(values: Sequence[tuple[str, LatencyBounds, bool]]) -> Iterator[Latency]:
    plain = [bounds for _, bounds, same in values if not same]
    for some in filter(None, ([bounds for _, bounds, _ in values], plain)):
        yield range_of(some)


def range_of(values: Sequence[LatencyBounds]) -> Latency:
    """Return the least and the greatest of some latencies. Where one is a bound, so are these."""
    low = min(one.low for one in values)
    exact = [one.high for one in values if one.low == one.high]
    least = min(one.high for one in values)
    greatest = max(one.high for one in values)
    return Latency(LatencyBounds(low, least), LatencyBounds(max(exact, default=Fraction(0)), greatest))


def operands_text(variant: InstructionVariant) -> str:
    """Return the kinds of the explicit operands, which many variants share: `R64, M`, `XMM, K, I`."""
    return ", ".join(_operand_kind(part) for part in split_string(variant.string)[1].strip("()").split(", ") if part)


def _operand_kind(text: str) -> str:
    """Return `M` for `M64` and `M32_1to8`, `I` for `I8` and for a fixed value; registers as they are."""
    if re.fullmatch(r"M\d.*", text):
        return "M"
    return "I" if re.fullmatch(r"I\d+|\d+", text) else text


def number_text(value: Fraction) -> str:
    """Write a number with two decimals at most, without zeros at the end."""
    return f"{float(value):.2f}".rstrip("0").rstrip(".")


# What others published


def read_published(path: Path, entries: Iterable[Entry], architecture: str) -> Iterator[Published]:
    """Yield what was published of each variant: by a table (.csv), or by an instructions.xml with these entries.

    Raises:
        DatabaseError: the table is not of the known form; names the line.
    """
    if path.suffix == ".csv":
        yield from read_table(path)
    else:
        yield from chain.from_iterable(_published_entry(entry, architecture) for entry in entries)


def _published_entry(entry: Entry, architecture: str) -> Iterator[Published]:
    for result in entry.results.values():
        if result.measurement is not None and architecture in {"", result.architecture}:
            latencies = {name: ranges[-1] for name, ranges in latencies_of(result, by_pair=True).items()}
            key = current_key(entry.variant.key)
            values = result.measurement or {}
            computed = Fraction(values["TP_ports"]) if values.get("TP_ports") else None
            ports = PortUsage.parse(values["ports"]) if values.get("ports") else None
            yield Published(entry.variant.string, latencies, throughput_of(result), key, computed, ports)


def read_table(path: Path) -> Iterator[Published]:
    """Yield the rows of a table.

    Raises:
        DatabaseError: it cannot be read, lacks a column, or has a value that is not of the known form.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            if lacking := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                raise DatabaseError(f"{path}:1: no column {', '.join(lacking)}", hint=_TABLE_HINT)
            for row in rows:
                yield _row(row, f"{path}:{rows.line_num}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        what = getattr(error, "strerror", None) or error
        raise DatabaseError(f"{path}: not a readable table: {what}", hint=_TABLE_HINT) from error


_TABLE_HINT = "a table is CSV with the columns string, latency and throughput; see docs/database.md"


def _row(row: Mapping[str, str | None], where: str) -> Published:
    string, latency, throughput = ((row[name] or "").strip() for name in COLUMNS)
    if not string:
        raise DatabaseError(f"{where}: the row has no string", hint=_TABLE_HINT)
    try:
        ranges = {"": parse_latency(latency)} if latency else {}
        computed, _, measured = (part.strip() for part in throughput.rpartition("/"))
        numbers = [_number(text) if text else None for text in (measured, computed)]
        ports = (row.get("ports") or "").strip()
        usage = PortUsage.parse(ports) if ports else None
        return Published(string, ranges, numbers[0], computed=numbers[1], ports=usage)
    except ValueError as error:
        raise DatabaseError(f"{where}: {string}: {error}", hint=_TABLE_HINT) from error


def parse_latency(text: str) -> Latency:
    """Read `4`, `≤9`, or `[1;≤9]`.

    Raises:
        ValueError: the text is not of these forms.
    """
    match = re.fullmatch(r"\[([^;]+);([^;]+)\]|([^;\[\]]+)", text)
    if match is None:
        message = f"not a latency: {text!r} (expected the form 4, ≤9 or [1;≤9])"
        raise ValueError(message)
    least, greatest, only = match.groups()
    return Latency(_bounds(only or least), _bounds(only or greatest))


def _bounds(text: str) -> LatencyBounds:
    value = _number(text.strip().removeprefix("≤"))
    return LatencyBounds(Fraction(0) if text.strip().startswith("≤") else value, value)


def _number(text: str) -> Fraction:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        message = f"not a number of cycles: {text!r}"
        raise ValueError(message)
    return Fraction(text)


def split_string(string: str) -> tuple[str, str]:
    """Split `ADC_11 (R64, R64)` into its name and its operands."""
    name, _, operands = string.partition(" ")
    return name, operands
