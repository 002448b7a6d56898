"""A campaign against measurements that others published of the same CPU: `uopscope db compare`.

    published  "ADCX (R32, M32)"  latency [1;≤7]  throughput 0.50
    campaign   latency 1→1: 1, address 2→1: at most 7, TP_unrolled 0.51: both agree

What others published is an instructions.xml, or a table of uops.info's pages as CSV, with the columns `string`,
`latency` and `throughput`. A latency there is a number, `≤` an upper bound, or `[least;greatest]` over all pairs of
operands. A throughput is `computed from ports / measured`, or the measured one alone.

Latencies agree where neither contradicts the other: an upper bound allows every smaller number. Throughputs agree
within a share, or within a few hundredths of a cycle. The published one is the least of all sequences, so the least of
ours is compared with it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from results.database.merge import current_key
from results.database.reader import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from results.database.reader import ArchitectureResult, Entry
    from xed_convert.model import InstructionVariant

GOALS = {"latency": Fraction(999, 1000), "throughput": Fraction(99, 100)}
"""The share of the variants' values of a kind that should agree with measurements of the same CPU."""

RATIOS = (Fraction(5, 4), Fraction(3, 2), Fraction(2), Fraction(4))
"""Differences are grouped by the ratio of the two values: the first of these that it does not exceed."""

WRITTEN_AS_ZERO = {"latency": Fraction(1, 2), "throughput": Fraction(1, 200)}
"""Cycles that may be written as 0, by kind: latencies are whole numbers, throughputs have two decimals."""

COLUMNS = ("string", "latency", "throughput")
"""Columns that a table must have."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far ours may be from a published value: a share of it, and for throughputs a least number of cycles."""

    share: Fraction = Fraction(1, 10)
    cycles: Fraction = Fraction(2, 100)


class Bounds(NamedTuple):
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

    least: Bounds
    greatest: Bounds

    @property
    def text(self) -> str:
        """The latency as tables write it."""
        return self.least.text if self.least == self.greatest else f"[{self.least.text};{self.greatest.text}]"


@dataclass(frozen=True, slots=True)
class Published:
    """What was published of a variant: latencies by what they are of ("" for all pairs), throughput in cycles.

    `key` is the variant's key in the shipped catalogue, "" where only its string is known.
    """

    string: str
    latencies: Mapping[str, Latency]
    throughput: Fraction | None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that does not agree. `published` and `measured` are as tables write them.

    `direction`, `ratio` and `factor` say by how much ours is more or less; `operands` are the kinds of the explicit
    operands; `name` is the pair of operands and the part that a latency is of ("": of all, or a throughput).
    """

    string: str
    kind: str
    direction: str
    ratio: str
    extension: str
    operands: str
    category: str
    name: str
    published: str
    measured: str
    factor: float


GROUPINGS = ("direction", "ratio", "extension", "operands", "category")
"""What differences can be grouped by, besides their kind."""


@dataclass(slots=True)
class Comparison:
    """What became of every published variant.

    `compared`, `agreed` and `equal` count variants by kind of value: equal are those that say the same, bounds
    included. `missing` are published variants that the campaign has no result of, by string; `without` counts values
    that the campaign lacks, by kind.
    """

    variants: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    without: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    def share(self, kind: str) -> Fraction | None:
        """Return the share of the values of a kind that agree (None: there are none)."""
        return Fraction(self.agreed[kind], self.compared[kind]) if self.compared[kind] else None

    def missed(self) -> list[str]:
        """Return the kinds whose share is below its goal."""
        return [kind for kind, goal in GOALS.items() if (share := self.share(kind)) is not None and share < goal]

    def groups(self, by: Sequence[str] = GROUPINGS) -> list[tuple[tuple[str, ...], list[Difference]]]:
        """Return the differences by kind and those fields, the largest groups first, in each the worst first."""
        found: dict[tuple[str, ...], list[Difference]] = defaultdict(list)
        for one in self.differences:
            found[one.kind, *(str(getattr(one, name)) for name in by)].append(one)
        for group in found.values():
            group.sort(key=_badness)
        return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))

    def worst(self) -> list[Difference]:
        """Return the differences, those by the greatest factor first."""
        return sorted(self.differences, key=_badness)


def compare_published(
    published: Iterable[Published], entries: Iterable[Entry], tolerance: Tolerance, architecture: str = ""
) -> Comparison:
    """Compare what was published with a campaign.

    Args:
        published: what others measured.
        entries: the campaign's, with results of one architecture, or of that one among others.
        tolerance: how far values may be apart.
        architecture: which of the entries' results count ("": the only one).
    """
    found = Comparison()
    rows = list(published)
    ours = Measured(entries, architecture, {row.string for row in rows})
    for row in rows:
        pair = ours.find(row)
        if pair is None:
            found.missing.append(row.string)
            continue
        found.variants += 1
        _compare_variant(found, row, *pair, tolerance)
    return found


class Measured:
    """The campaign's variants, found by key, by string, or by instruction and operands if only one has these.

    A later XED may rename a variant, when a new one would share its name. BLSI (R32, M32) is BLSI_MEMD (R32, M32) since
    BLSI_APX (R32, M32) was added, which an older CPU does not have.
    """

    def __init__(self, entries: Iterable[Entry], architecture: str, taken: set[str]) -> None:
        """Take entries with a result of the architecture; `taken` are the strings of all published variants."""
        self._by_key: dict[str, tuple[InstructionVariant, ArchitectureResult]] = {}
        self._by_string: dict[str, tuple[InstructionVariant, ArchitectureResult]] = {}
        self._by_form: dict[tuple[str, str], list[tuple[InstructionVariant, ArchitectureResult]]] = defaultdict(list)
        for entry in entries:
            for result in entry.results.values():
                if result.measurement is not None and architecture in {"", result.architecture}:
                    self._add(entry.variant, result, taken)

    def _add(self, variant: InstructionVariant, result: ArchitectureResult, taken: set[str]) -> None:
        pair = variant, result
        self._by_key[variant.key] = self._by_string[variant.string] = pair
        if variant.string not in taken:
            name, operands = _split(variant.string)
            parts = name.split("_")
            for end in range(1, len(parts) + 1):
                self._by_form["_".join(parts[:end]), operands].append(pair)

    def find(self, row: Published) -> tuple[InstructionVariant, ArchitectureResult] | None:
        """Return the variant that was published, None if it was not measured or cannot be told from others."""
        known = self._by_key.get(row.key) or self._by_string.get(row.string)
        if known is not None:
            return known
        same = self._by_form.get(_split(row.string), [])
        return same[0] if len(same) == 1 else None


def _split(string: str) -> tuple[str, str]:
    """Split `ADC_11 (R64, R64)` into its name and its operands."""
    name, _, operands = string.partition(" ")
    return name, operands


def _compare_variant(
    found: Comparison, row: Published, variant: InstructionVariant, result: ArchitectureResult, tolerance: Tolerance
) -> None:
    measured = latencies_of(result, by_pair="" not in row.latencies)
    for name, published in row.latencies.items():
        candidates = measured.get(name, ())
        if not candidates:
            found.without["latency"] += 1
            continue
        ours = next((one for one in candidates if _agree(published, one, tolerance)), candidates[0])
        found.compared["latency"] += 1
        found.equal["latency"] += published in candidates
        if _agree(published, ours, tolerance):
            found.agreed["latency"] += 1
        else:
            what = ("latency", name, published.text, ours.text)
            found.differences.append(_difference(variant, what, *_apart(published, ours, tolerance)))
    _compare_throughput(found, row, variant, result, tolerance)


def _compare_throughput(
    found: Comparison, row: Published, variant: InstructionVariant, result: ArchitectureResult, tolerance: Tolerance
) -> None:
    if row.throughput is None:
        return
    ours = throughput_of(result)
    if ours is None:
        found.without["throughput"] += 1
        return
    found.compared["throughput"] += 1
    found.equal["throughput"] += ours == row.throughput
    if abs(ours - row.throughput) <= max(tolerance.share * row.throughput, tolerance.cycles):
        found.agreed["throughput"] += 1
        return
    what = ("throughput", "", f"{float(row.throughput):.2f}", f"{float(ours):.2f}")
    found.differences.append(_difference(variant, what, row.throughput, ours))


def _difference(
    variant: InstructionVariant, what: tuple[str, str, str, str], published: Fraction, ours: Fraction
) -> Difference:
    kind, name, published_text, text = what
    larger, smaller = max(published, ours), min(published, ours)
    ratio = next((limit for limit in RATIOS if larger <= limit * smaller), None)
    return Difference(
        string=variant.string,
        kind=kind,
        direction="more" if ours > published else "less",
        ratio=f"more than {float(RATIOS[-1]):g} times" if ratio is None else f"up to {float(ratio):g} times",
        extension=variant.extension,
        operands=operands_text(variant),
        category=variant.category,
        name=name,
        published=published_text,
        measured=text,
        factor=float(larger / max(smaller, WRITTEN_AS_ZERO[kind])),
    )


def _badness(one: Difference) -> tuple[float, str, str]:
    return -one.factor, one.string, one.name


def _apart(published: Latency, ours: Latency, tolerance: Tolerance) -> tuple[Fraction, Fraction]:
    """Of the numbers that should agree, return the two that are farthest apart: the published one first."""
    pairs = [
        (one.low, other.high) if one.low > other.high else (one.high, other.low)
        for one, other in ((published.least, ours.least), (published.greatest, ours.greatest))
        if not _overlap(one, other, tolerance)
    ]
    return max(pairs, key=lambda pair: abs(pair[0] - pair[1]))


def _agree(one: Latency, other: Latency, tolerance: Tolerance) -> bool:
    return _overlap(one.least, other.least, tolerance) and _overlap(one.greatest, other.greatest, tolerance)


def _overlap(one: Bounds, other: Bounds, tolerance: Tolerance) -> bool:
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
    """Return latencies by what they are of: by pair of operands and part ("1→2 cycles_mem"), or "" for all of them.

    All pairs together give two latencies: with those of the same register in several operands, and without. Tables have
    the one or the other: the 0 cycles of a zero idiom are the least of VPXOR, but not of VPCMPEQB.
    """
    found: dict[str, list[tuple[str, Bounds, bool]]] = defaultdict(list)
    for row in result.latencies:
        for name, text in row.values.items():
            if "cycles" not in name or name.endswith("_is_upper_bound"):
                continue
            cycles = Fraction(text)
            bounds = Bounds(Fraction(0) if f"{name}_is_upper_bound" in row.values else cycles, cycles)
            plain = name.removeprefix("min_").removeprefix("max_")
            place = f"{row.start}→{row.target} {plain}" if by_pair else ""
            found[place].append((name, bounds, name.endswith("_same_reg")))
    return {place: tuple(dict.fromkeys(_ranges(values))) for place, values in found.items()}


def _ranges(values: Sequence[tuple[str, Bounds, bool]]) -> Iterator[Latency]:
    plain = [bounds for _, bounds, same in values if not same]
    for some in filter(None, ([bounds for _, bounds, _ in values], plain)):
        yield range_of(some)


def range_of(values: Sequence[Bounds]) -> Latency:
    """Return the least and the greatest of some latencies. Where one is a bound, so are these."""
    low = min(one.low for one in values)
    exact = [one.high for one in values if one.low == one.high]
    least = min(one.high for one in values)
    greatest = max(one.high for one in values)
    return Latency(Bounds(low, least), Bounds(max(exact, default=Fraction(0)), greatest))


def operands_text(variant: InstructionVariant) -> str:
    """Return the kinds of the explicit operands, which many variants share: `R64, M`, `XMM, K, I`."""
    return ", ".join(_operand_kind(part) for part in _split(variant.string)[1].strip("()").split(", ") if part)


def _operand_kind(text: str) -> str:
    """Return `M` for `M64` and `M32_1to8`, `I` for `I8` and for a fixed value; registers as they are."""
    if re.fullmatch(r"M\d.*", text):
        return "M"
    return "I" if re.fullmatch(r"I\d+|\d+", text) else text


def number_text(value: Fraction) -> str:
    """Write a number as short as it is exact to two decimals."""
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
            yield Published(entry.variant.string, latencies, throughput_of(result), key)


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
        raise DatabaseError(f"{path}: not a readable table: {error}", hint=_TABLE_HINT) from error


_TABLE_HINT = "a table is CSV with the columns string, latency and throughput; see docs/database.md"


def _row(row: Mapping[str, str | None], where: str) -> Published:
    string, latency, throughput = ((row[name] or "").strip() for name in COLUMNS)
    if not string:
        raise DatabaseError(f"{where}: the row has no string", hint=_TABLE_HINT)
    try:
        ranges = {"": parse_latency(latency)} if latency else {}
        measured = throughput.rpartition("/")[2].strip()
        return Published(string, ranges, _number(measured) if measured else None)
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


def _bounds(text: str) -> Bounds:
    value = _number(text.strip().removeprefix("≤"))
    return Bounds(Fraction(0) if text.strip().startswith("≤") else value, value)


def _number(text: str) -> Fraction:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        message = f"not a number of cycles: {text!r}"
        raise ValueError(message)
    return Fraction(text)


FIELDS = tuple(one.name for one in fields(Difference))
"""The columns of a table of differences."""
