"""A machine's memory for people: the matrix of store forwarding as text."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from results.memory.model import Addressing, ForwardingOutcome, LineCrossing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from results.memory.model import ForwardingMatrix, ForwardingRow, MeasuredLevel, MemoryReport, Replacement, Time

PLACES = {
    LineCrossing.LINE: "inside a line",
    LineCrossing.LINES: "across two lines",
    LineCrossing.PAGES: "across two pages",
}
ADDRESSINGS = {
    Addressing.SAME: "the same base register",
    Addressing.BASE: "another base register",
    Addressing.INDEX: "the same base and index registers",
    Addressing.OTHER_INDEX: "another index register",
}
MARKS = {
    ForwardingOutcome.RENAMED: "=",
    ForwardingOutcome.FORWARDED: "",
    ForwardingOutcome.FAILED: "!",
    ForwardingOutcome.UNKNOWN: "",
}
"""Behind a number of cycles."""
LEGEND = "= renamed, ! failed (the load waits until the store is done), ? not measured"
WIDTH = 7


def lines_of(report: MemoryReport, *, every_offset: bool = False) -> Iterator[str]:
    """Yield a report as lines; with `every_offset` every case of the matrix, else those at the same address."""
    if report.forwarding is not None:
        yield from forwarding_lines(report.forwarding, every_offset=every_offset)
        yield ""
    yield from _time_lines(report.times)
    rates = report.stores_per_cycle
    if rates is not None:
        same, other = map(float, rates)
        yield f"64-bit stores per cycle: {same:.2f} side by side in a line, {other:.2f} to a line each"
        yield ""
    if report.levels:
        yield "levels of cache, by a pointer followed through more and more bytes, core cycles per load"
        yield from map(_level_line, report.levels)
        yield ""
    yield from map(_replacement_line, report.replacements)
    yield from (f"! {problem}" for problem in report.problems)
    where = report.provenance
    yield f"{'model of ' if where.is_model else ''}{where.architecture} ({where.cpu}), backend {where.backend}"
    yield from (f"  {caveat}" for caveat in where.caveats)


def _time_lines(times: Sequence[Time]) -> Iterator[str]:
    """Yield loads and stores by kind, a line each."""
    for kind, group in groupby(sorted(times, key=lambda one: one.kind), key=lambda one: one.kind):
        yield f"{kind}, core cycles"
        for one in group:
            told = ", ".join(f"{name} {value}" for name, value in one.parameters)
            yield f"  {float(one.cycles):8.2f}  {told}"
        yield ""


def _replacement_line(one: Replacement) -> str:
    ways = "" if one.ways is None else f", {one.ways} ways"
    return f"{one.level}{ways}: replacement {' or '.join(one.policies) or f'not known ({one.reason})'}"


def _level_line(level: MeasuredLevel) -> str:
    size = f"{level.size_bytes >> 10} KiB" if level.size_bytes < 1 << 20 else f"{level.size_bytes / (1 << 20):g} MiB"
    return f"  {float(level.cycles):8.2f}  {'as far as was measured' if level.is_last else 'up to'} {size}"


def forwarding_lines(forwarding: ForwardingMatrix, *, every_offset: bool) -> Iterator[str]:
    """Yield the matrix: a table of the same address, what happens at other offsets, and the penalty."""
    yield f"store forwarding, core cycles from the stored register to the loaded one; {LEGEND}"
    for place, addressing in dict.fromkeys((row.place, row.addressing) for row in forwarding.rows):
        yield ""
        yield f"{title(place, addressing)}, load at the address of the store (rows: stores, columns: loads)"
        yield from _table(forwarding, place, addressing)
        for name, count in _counts(forwarding, place, addressing):
            yield f"  {name}: {count}"
        if every_offset:
            rows = [row for row in forwarding.rows if (row.place, row.addressing) == (place, addressing)]
            yield from map(_runs_line, rows)
    yield ""
    for file in ("general", "vector"):
        penalty = forwarding.penalty(file)
        if penalty is not None:
            note = " (LLVM's StoreLoadForwardingPenalty)" if file == "general" else ""
            yield f"a load whose forwarding fails takes {float(penalty):.1f} cycles more, {file} registers{note}"


def title(place: LineCrossing, addressing: Addressing) -> str:
    """Say where store and load are, and how they name the place."""
    return f"{PLACES[place]}, {ADDRESSINGS[addressing]}"


def cell_text(cell: tuple[Fraction | None, ForwardingOutcome] | None) -> str:
    """Write one case: cycles with the mark of the outcome, "" where there is none."""
    if cell is None:
        return ""
    cycles, outcome = cell
    return "?" if cycles is None else f"{float(cycles):.1f}{MARKS[outcome]}"


def _table(forwarding: ForwardingMatrix, place: LineCrossing, addressing: Addressing) -> Iterator[str]:
    sizes = forwarding.sizes
    yield f"{'':{WIDTH}}" + "".join(f"{one.name:>{WIDTH}}" for one in sizes)
    for store in sizes:
        cells = (_at_same_address(forwarding.row(store.name, load.name, place, addressing)) for load in sizes)
        yield f"{store.name:{WIDTH}}" + "".join(f"{cell:>{WIDTH}}" for cell in cells)


def _at_same_address(row: ForwardingRow | None) -> str:
    return "" if row is None else cell_text(row.at(0))


def _counts(forwarding: ForwardingMatrix, place: LineCrossing, addressing: Addressing) -> Iterator[tuple[str, str]]:
    """Yield what happens at all offsets, for loads inside of what was stored, and for others."""
    for name, wanted in (("loads inside of the store", True), ("loads that reach beyond it", False)):
        found: Counter[ForwardingOutcome] = Counter()
        for row in forwarding.rows:
            if (row.place, row.addressing) == (place, addressing):
                last = row.store.size_bytes - row.load.size_bytes
                pairs = enumerate(row.outcomes, row.first_offset)
                found.update(one for offset, one in pairs if (0 <= offset <= last) is wanted)
        found.pop(ForwardingOutcome.UNKNOWN, None)
        if found:
            yield name, ", ".join(f"{count} {one.value}" for one, count in found.most_common())


def _runs_line(row: ForwardingRow) -> str:
    """Write a store and a load at all offsets: ranges of offsets with their cycles."""
    known = [run for run in row.runs() if run[3] is not ForwardingOutcome.UNKNOWN]
    parts = [
        f"{first if first == last else f'{first}..{last}'}: {cell_text((cycles, outcome))}"
        for first, last, cycles, outcome in known
    ]
    return f"  {row.store.name} → {row.load.name}  " + "  ".join(parts)
