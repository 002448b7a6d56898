"""The result table: one row per variant for people (rich), the same as a data frame for programs (pandas, CSV)."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from results import sentences
from results.model import SPECIAL_FORMS, Form
from results.text import cycles_text, latencies_text, machine_text, taken_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    import pandas as pd

    from results.model import Characterization, PortUsage, Provenance
    from xed_convert.model import InstructionVariant

UNKNOWN = "?"
NOTHING = "-"
FAILED = "✗"
NAMED_AT_MOST = 8
"""So many variants are named for each reason beneath the table; the rest are counted."""


COLUMNS = {
    "architecture": "str",
    "is_model": "bool",
    "iform": "str",
    "string": "str",
    "uops": "Int64",
    "ports": "object",
    "TP_unrolled": "float64",
    "TP_loop": "float64",
    "TP_ports": "float64",
    "latencies": "str",
    "failures": "str",
    "skipped": "str",
}
"""The columns of the data frame with their types; those that may be missing have one that allows it."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A variant with what was concluded about it; the variant is None where the catalogue does not have it."""

    result: Characterization
    variant: InstructionVariant | None


@dataclass(frozen=True, slots=True)
class Footing:
    """What stands beneath the table: the machine, why something is unknown, and the time taken (None: not told).

    `lost_seconds` of that time went into waiting for a core that nobody else used, and measuring again.
    """

    provenance: Provenance
    unknown: tuple[str, ...] = ()
    seconds: float | None = None
    lost_seconds: float = 0.0


def render(rows: Sequence[ResultRow]) -> Table:
    """Return the table of all variants that were not skipped."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("Instruction", overflow="fold")
    for name in ("µops", "Ports", "TP unrolled", "TP loop", "TP ports"):
        table.add_column(name, justify="left" if name == "Ports" else "right", overflow="fold")
    table.add_column("Latency", overflow="fold")
    for row in rows:
        if not row.result.skipped:
            table.add_row(*_cells(row), style="red" if row.result.failures else "")
    return table


def footing_lines(rows: Sequence[ResultRow], footing: Footing) -> Iterator[Text]:
    """Yield the lines beneath the table."""
    results = [row.result for row in rows]
    for result in results:
        for failure in result.failures:
            yield Text(f"{FAILED} {result.string}: {sentences.failure(failure)}", style="red")
    for reason, names in _by_reason(results).items():
        yield Text(f"skipped, {reason}: {_enumeration(names)}", style="yellow")
    if any(_has_unknown(result) for result in results):
        for reason in footing.unknown:
            yield Text(f"{UNKNOWN} {reason}", style="dim")
    yield Text(machine_text(footing.provenance))
    for caveat in footing.provenance.caveats:
        yield Text(f"  {caveat}", style="dim")
    if footing.seconds is not None:
        yield Text(f"{_counts(results)} in {taken_text(footing.seconds, footing.lost_seconds)}")


def frame(rows: Iterable[tuple[ResultRow, Provenance]]) -> pd.DataFrame:
    """Return a data frame with one row per variant and machine: numbers as numbers, missing where unknown."""
    import pandas as pd  # noqa: PLC0415 - takes most of a second to load, and few starts need it

    records = [_record(row, provenance) for row, provenance in rows]
    return pd.DataFrame(records, columns=list(COLUMNS)).astype(COLUMNS)


def write_csv(rows: Iterable[tuple[ResultRow, Provenance]]) -> str:
    """Return the data frame as CSV text."""
    return str(frame(rows).to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC))


def _record(row: ResultRow, provenance: Provenance) -> dict[str, object]:
    result = row.result
    return {
        "architecture": provenance.architecture,
        "is_model": provenance.is_model,
        "iform": result.iform,
        "string": result.string,
        "uops": result.uops,
        "ports": _ports_text(result.ports, unknown=None),
        "TP_unrolled": _decimal(result.throughput.unrolled),
        "TP_loop": _decimal(result.throughput.loop),
        "TP_ports": _decimal(result.throughput.ports),
        "latencies": latencies_text(result.latencies, row.variant),
        "failures": "; ".join(map(sentences.failure, result.failures)),
        "skipped": result.skipped,
    }


def _cells(row: ResultRow) -> Iterator[Text]:
    result, throughput = row.result, row.result.throughput
    yield Text(f"{FAILED} {result.string}" if result.failures else result.string)
    yield Text(UNKNOWN if result.uops is None else str(result.uops))
    yield Text(_ports_text(result.ports, unknown=UNKNOWN) or NOTHING)
    for value in (throughput.unrolled, throughput.loop, throughput.ports):
        yield Text(UNKNOWN if value is None else f"{float(value):.2f}")
    texts = (latencies_text(result.latencies, row.variant), *(_form_text(result, form) for form in SPECIAL_FORMS))
    yield Text("; ".join(filter(None, texts)) or NOTHING)


def _form_text(result: Characterization, form: Form) -> str:
    """Say what is different in a special form, latencies apart (they are among the latencies)."""
    if form not in result.forms:
        return ""
    special, plain = result.of(form), result.of(Form.PLAIN)
    parts = []
    if special.ports is not None and special.ports != plain.ports:
        parts.append(f"ports {_ports_text(special.ports, unknown=UNKNOWN) or NOTHING}")
    times = [one.throughput.unrolled for one in (special, plain)]
    texts = ["" if time is None else cycles_text(time) for time in times]
    if texts[0] not in {"", texts[1]}:
        parts.append(f"TP {texts[0]}")
    return f"{form.short}: {', '.join(parts)}" if parts else ""


def _ports_text(ports: PortUsage | None, *, unknown: str | None) -> str | None:
    return unknown if ports is None else str(ports)


def _decimal(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _has_unknown(result: Characterization) -> bool:
    throughput = result.throughput
    numbers = (result.uops, result.ports, throughput.unrolled, throughput.loop, throughput.ports)
    return not result.skipped and any(number is None for number in numbers)


def _by_reason(results: Iterable[Characterization]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for result in results:
        if result.skipped:
            found[result.skipped].append(result.string)
    return found


def _enumeration(names: Sequence[str]) -> str:
    """Name the first and count the rest."""
    more = len(names) - NAMED_AT_MOST
    return "; ".join(names[:NAMED_AT_MOST]) + (f"; and {more} more" if more > 0 else "")


def _counts(results: Sequence[Characterization]) -> str:
    failed = sum(bool(result.failures) for result in results)
    skipped = sum(bool(result.skipped) for result in results)
    counts = [f"{len(results) - skipped} variant{'' if len(results) - skipped == 1 else 's'}"]
    counts += [f"{failed} with failed checks"] * bool(failed) + [f"{skipped} skipped"] * bool(skipped)
    return ", ".join(counts)
