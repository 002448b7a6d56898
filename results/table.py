"""The result table: one row per variant for people (rich), the same as CSV for programs."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from results import sentences
from results.findings import certain_ports, is_by_time, ports_if_any
from results.model import SPECIAL_FORMS, Form
from results.text import (
    CERTAIN,
    FREE,
    FREE_MEANS,
    UNKNOWN,
    by_time_text,
    cycles_text,
    latencies_text,
    machine_text,
    taken_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from results.model import Characterization, PortUsage, Provenance
    from xed_convert.model import InstructionVariant

NOTHING = "-"
FAILED = "✗"
NAMED_AT_MOST = 8
"""Variants that are named for each reason beneath the table; the rest are counted."""


COLUMNS = (
    *("architecture", "is_model", "iform", "string", "uops", "ports", "some_ports", "ports_by_time"),
    *("TP_unrolled", "TP_loop", "TP_ports", "TP_unrolled_rhythms", "TP_loop_rhythms"),
    *("latencies", "failures", "skipped"),
)
"""The columns of CSV."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A variant with what was concluded about it; the variant is None where the catalogue does not have it."""

    result: Characterization
    variant: InstructionVariant | None


@dataclass(frozen=True, slots=True)
class Footing:
    """The lines below the table: the machine, reasons for unknown values, and the time taken (None: left out).

    `lost_seconds` of that time went into waiting for a core that nobody else used, and measuring again.
    """

    provenance: Provenance
    unknown: tuple[str, ...] = ()
    seconds: float | None = None
    lost_seconds: float = 0.0


HEADER = ("Instruction", "µops", "Ports", "TP unrolled", "TP loop", "TP ports", "Latency")
RIGHT = {1, 3, 4, 5}
"""Columns of numbers."""

GAP = "  "


def table_lines(rows: Sequence[ResultRow], width: int) -> Iterator[Text]:
    """Yield the lines of the table of all variants that were not skipped, for a terminal of `width` columns.

    If the table is too wide, latencies stand on lines of their own beneath each row. If it still is, each number has a
    line of its own, with its name. Port usages and latencies are never broken.
    """
    shown = [row for row in rows if not row.result.skipped]
    cells = [tuple(_cells(row)) for row in shown]
    styles = ["red" if row.result.failures else "" for row in shown]
    widths = [max(map(len, column)) for column in zip(HEADER, *cells, strict=True)]
    if sum(widths) + len(GAP) * (len(widths) - 1) <= width:
        latency_beneath, count = False, len(HEADER)
    else:
        latency_beneath, count = True, len(HEADER) - 1
    if sum(widths[:count]) + len(GAP) * (count - 1) > width:
        for row, style in zip(cells, styles, strict=True):
            yield from (Text(line, style=style) for line in _as_lines(row, width))
        return
    yield Text(_aligned(HEADER[:count], widths), style="bold")
    for row, style in zip(cells, styles, strict=True):
        yield Text(_aligned(row[:count], widths), style=style)
        if latency_beneath:
            yield from (Text(line, style=style) for line in _wrapped(row[-1].split("; "), "; ", width))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = enumerate(zip(cells, widths, strict=False))
    return GAP.join(f"{text:{'>' if at in RIGHT else '<'}{width}}" for at, (text, width) in pairs).rstrip()


def _as_lines(cells: Sequence[str], width: int) -> Iterator[str]:
    """Yield a row as lines: the instruction, then each number with its name."""
    yield cells[0]
    named = [f"{name} {text}" for name, text in zip(HEADER[1:-1], cells[1:-1], strict=True)]
    yield from _wrapped(named, ", ", width)
    yield from _wrapped(f"Latency {cells[-1]}".split("; "), "; ", width)


def _wrapped(parts: Sequence[str], separator: str, width: int) -> Iterator[str]:
    """Yield indented lines of parts; only a part that is longer than a line is longer than the width."""
    line = "   "
    for at, part in enumerate(parts):
        text = part + (separator.rstrip() if at < len(parts) - 1 else "")
        if line.strip() and len(line) + 1 + len(text) > width:
            yield line
            line = "   "
        line += f" {text}"
    yield line


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
    if any(result.ports is None and certain_ports(result.failures).total for result in results):
        yield Text(CERTAIN, style="dim")
    if any(map(ports_if_any, results)):
        yield Text(FREE_MEANS, style="dim")
    if any(map(is_by_time, results)):
        shown = (result.ports or certain_ports(result.failures) for result in results)
        yield Text(by_time_text(shown), style="dim")
    yield Text(machine_text(footing.provenance))
    for caveat in footing.provenance.caveats:
        yield Text(f"  {caveat}", style="dim")
    if footing.seconds is not None:
        yield Text(f"{_counts(results)} in {taken_text(footing.seconds, footing.lost_seconds)}")


def write_csv(rows: Iterable[tuple[ResultRow, Provenance]]) -> str:
    """Return CSV with a row per variant and machine: numbers as numbers, nothing where they are unknown."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writeheader()
    writer.writerows(record(row, provenance) for row, provenance in rows)
    return text.getvalue()


def record(row: ResultRow, provenance: Provenance) -> dict[str, object]:
    """Return a row by the names of its columns."""
    result = row.result
    return {
        "architecture": provenance.architecture,
        "is_model": provenance.is_model,
        "iform": result.iform,
        "string": result.string,
        "uops": result.uops,
        "ports": _ports_text(result.ports, unknown=None),
        "some_ports": str(certain_ports(result.failures)) if result.ports is None else "",
        "ports_by_time": is_by_time(result),
        "TP_unrolled": _decimal(result.throughput.unrolled),
        "TP_loop": _decimal(result.throughput.loop),
        "TP_ports": _decimal(result.throughput.ports),
        "TP_unrolled_rhythms": " ".join(f"{float(one):.2f}" for one in result.throughput.unrolled_rhythms),
        "TP_loop_rhythms": " ".join(f"{float(one):.2f}" for one in result.throughput.loop_rhythms),
        "latencies": latencies_text(result.latencies, row.variant),
        "failures": "; ".join(map(sentences.failure, result.failures)),
        "skipped": result.skipped,
    }


def _cells(row: ResultRow) -> Iterator[str]:
    result, throughput = row.result, row.result.throughput
    yield f"{FAILED} {result.string}" if result.failures else result.string
    yield UNKNOWN if result.uops is None else str(result.uops)
    yield _ports_text(result.ports, unknown=_known_of_ports(result)) or NOTHING
    yield _time_text(throughput.unrolled, throughput.unrolled_rhythms)
    yield _time_text(throughput.loop, throughput.loop_rhythms)
    yield _time_text(throughput.ports)
    forms = (_form_text(result, form) for form in SPECIAL_FORMS)
    texts = (latencies_text(result.latencies, row.variant), *forms, _decoding_text(result))
    yield "; ".join(filter(None, texts)) or NOTHING


def _known_of_ports(result: Characterization) -> str:
    """Write what is known of ports where the usage is not."""
    certain = certain_ports(result.failures)
    if certain.total:
        return f"{certain}+{UNKNOWN}"
    choice = ports_if_any(result)
    return UNKNOWN if choice is None else f"{FREE}{choice}"


def _decoding_text(result: Characterization) -> str:
    """Say how it is decoded, unless any decoder makes all of its µops."""
    microcoded = result.attributes.get("uops_MS", 0)
    parts = [f"{microcoded} µops from microcode"] if microcoded else []
    if result.attributes.get("complex_decoder"):
        beside = result.attributes.get("available_simple_decoders")
        parts.append("first decoder only" + (f", {beside} beside it" if beside is not None else ""))
    return f"decoding: {', '.join(parts)}" if parts else ""


def _time_text(time: Fraction | None, rhythms: Sequence[Fraction] = ()) -> str:
    """Write a throughput; where a core runs the same code in several rhythms, all of them: `0.56/0.66/0.97`."""
    return UNKNOWN if time is None else "/".join(f"{float(one):.2f}" for one in (time, *rhythms))


def _form_text(result: Characterization, form: Form) -> str:
    """Say what is different in a special form; its latencies are among the latencies."""
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
