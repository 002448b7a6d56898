"""The page about a machine's memory: a table of store forwarding for each place and addressing, with every offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.memory.model import ForwardingOutcome
from results.memory.text import cell_text, title
from results.site.pages import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.memory.model import Addressing, ForwardingMatrix, ForwardingRow, LineCrossing, MemoryReport

NAMES = {"general": "general registers", "vector": "vector registers"}


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell of a table: what stands in it, its class for the style sheet, and every offset as a text."""

    text: str
    outcome: str
    offsets: str


@dataclass(frozen=True, slots=True)
class PanelView:
    """The table of a place and an addressing: rows are stores with their cells, one for each load."""

    title: str
    rows: tuple[tuple[str, tuple[CellView, ...]], ...]


def page(report: MemoryReport, architectures: Sequence[str]) -> str:
    """Return the page of a report."""
    forwarding = report.forwarding
    where = report.provenance
    penalties = {} if forwarding is None else {name: forwarding.penalty(file) for file, name in NAMES.items()}
    return render(
        "memory.html.j2",
        root="../",
        architectures=architectures,
        name=where.architecture,
        provenance=where,
        problems=report.problems,
        sizes=() if forwarding is None else forwarding.sizes,
        penalties={name: f"{float(cycles):.1f}" for name, cycles in penalties.items() if cycles is not None},
        levels=report.levels,
        times=report.times,
        replacements=report.replacements,
        panels=[] if forwarding is None else panels(forwarding),
    )


def panels(forwarding: ForwardingMatrix) -> list[PanelView]:
    """Return the tables of a matrix."""
    pairs = dict.fromkeys((row.place, row.addressing) for row in forwarding.rows)
    return [_panel(forwarding, place, addressing) for place, addressing in pairs]


def _panel(forwarding: ForwardingMatrix, place: LineCrossing, addressing: Addressing) -> PanelView:
    names = [one.name for one in forwarding.sizes]
    rows = ((store, tuple(_cell(forwarding.row(store, load, place, addressing)) for load in names)) for store in names)
    return PanelView(title(place, addressing), tuple(rows))


def _cell(row: ForwardingRow | None) -> CellView:
    """Return the case at the same address, or where there is none, the first one."""
    if row is None:
        return CellView("", ForwardingOutcome.UNKNOWN.value, "")
    known = [run for run in row.runs() if run[3] is not ForwardingOutcome.UNKNOWN]
    texts = (
        f"{first if first == last else f'{first} to {last}'}: {cell_text((cycles, outcome))} {outcome.value}"
        for first, last, cycles, outcome in known
    )
    shown = row.at(0) or (row.cycles[0], row.outcomes[0])
    return CellView(cell_text(shown), shown[1].value, "\n".join(texts))
