"""The timeline as SVG: a row per instruction and iteration, with bars for what it does in which cycles."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.explanation import PredictionFacts
    from analysis.simulation.results import InstanceTimes

MOST_ROWS = 200
MOST_CYCLES = 400
"""Rows and cycles of the drawing; what comes later is left out."""
CYCLE, ROW, LEFT, TOP = 14, 18, 330, 24
"""Pixels: width of a cycle, height of a row, room on the left for the text, and on top for the numbers of cycles."""
LONGEST_LABEL = 42

STYLE = """
.timeline { color-scheme: light dark; font: 11px ui-monospace, monospace; }
.timeline text { fill: #1a1a1a; } .timeline .grid { stroke: #d5d9df; stroke-width: 1; }
.timeline .waits { fill: #e9b44c; } .timeline .executes { fill: #2f6fb3; } .timeline .done { fill: #b9c4d0; }
.timeline .odd { fill: #f2f4f7; }
@media (prefers-color-scheme: dark) {
.timeline text { fill: #e8e8e8; } .timeline .grid { stroke: #343b44; } .timeline .odd { fill: #20252c; }
.timeline .executes { fill: #6aa9e9; } .timeline .done { fill: #4c5763; } }
"""


def timeline_svg(facts: PredictionFacts) -> str:
    """Return the first iterations of the simulation as SVG, "" without a simulation.

    Yellow: issued, waits. Blue: from the first µop that begins until its result is ready. Grey: until it retires.
    """
    if facts.explained is None:
        return ""
    instances = facts.explained.explanation.timeline
    shown = [one for one in instances[:MOST_ROWS] if one.issued < MOST_CYCLES]
    last = min(MOST_CYCLES, 1 + max((one.retired for one in shown), default=0))
    title = f"Timeline on {facts.machine.name}"
    width, height = LEFT + CYCLE * last + 8, TOP + ROW * len(shown) + 8
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" role="img" aria-label="{escape(title)}" {size}>',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        *_stripes(shown, width),
        *_grid(last, height),
        *(part for row, one in enumerate(shown) for part in _row(facts, row, one, last)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _stripes(shown: Sequence[InstanceTimes], width: int) -> Iterator[str]:
    """Yield a background for every second iteration."""
    for row, one in enumerate(shown):
        if one.iteration % 2:
            yield f'<rect class="odd" x="0" y="{TOP + ROW * row}" width="{width}" height="{ROW}"/>'


def _grid(last: int, height: int) -> Iterator[str]:
    for cycle in range(0, last + 1, 5):
        x = LEFT + CYCLE * cycle
        yield f'<line class="grid" x1="{x}" y1="{TOP - 4}" x2="{x}" y2="{height}"/>'
        yield f'<text x="{x + 2}" y="12">{cycle}</text>'


def _row(facts: PredictionFacts, row: int, one: InstanceTimes, last: int) -> Iterator[str]:
    """Yield the text and the bars of one instruction in one iteration."""
    text = f"{one.iteration:2}.{one.position + 1:<3} {facts.bounds.block.items[one.position].text}"
    label = text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
    top = TOP + ROW * row
    begun = one.executed if one.dispatched is None else one.dispatched
    ports = ", ".join(f"port {uop.port} in cycle {uop.dispatched}, done {uop.done}" for uop in one.uops)
    said = f"{text}: issued {one.issued}, executed {one.executed}, retired {one.retired}{f'; {ports}' if ports else ''}"
    yield f'<g><title>{escape(said)}</title><text x="4" y="{top + 13}">{escape(label)}</text>'
    for kind, begin, end in (
        ("waits", one.issued, begun),
        ("executes", begun, one.executed),
        ("done", one.executed, one.retired + 1),
    ):
        left, right = min(begin, last), min(end, last)
        if right > left:
            size = f'width="{CYCLE * (right - left) - 1}" height="{ROW - 4}"'
            yield f'<rect class="{kind}" x="{LEFT + CYCLE * left}" y="{top + 2}" {size}/>'
    yield "</g>"
