"""Self-contained SVG drawings: rows of text, and arcs between them.

1 MOV ─┐        arcs forward are on the right,
2 ADD ◀┘        those that lead back (into the next iteration, to the head of a loop) on the left
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from results.machine.graph import read_flags

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.explanation import PredictionFacts
    from analysis.function.flow import Flow

MOST_ROWS = 300
"""Rows that are drawn; a drawing of more says how many are left out."""
MOST_ARCS = 2000
LONGEST_LABEL = 64
ROW, CHARACTER, LANE = 26, 7.3, 9
"""Pixels: height of a row, width of a character, and how far longer arcs stand out."""
MOST_LANES = 16

STYLE = """
.drawing { color-scheme: light dark; font: 12px ui-monospace, monospace; }
.drawing text { fill: #1a1a1a; } .drawing rect { fill: #f2f4f7; stroke: #c8c8c8; }
.drawing path { fill: none; stroke: #8a94a3; stroke-width: 1.2; } .drawing .head { fill: #8a94a3; stroke: none; }
.drawing .cycle { stroke: #c4271b; stroke-width: 2.2; } .drawing .head.cycle { fill: #c4271b; stroke: none; }
.drawing .critical { stroke: #0b57a8; stroke-width: 2.2; } .drawing .head.critical { fill: #0b57a8; stroke: none; }
.drawing .back { stroke-dasharray: 5 3; } .drawing text.small { font-size: 10px; }
@media (prefers-color-scheme: dark) {
.drawing text { fill: #e8e8e8; } .drawing rect { fill: #20252c; stroke: #444b55; }
.drawing .cycle { stroke: #ff8a80; } .drawing .head.cycle { fill: #ff8a80; }
.drawing .critical { stroke: #8ec2ff; } .drawing .head.critical { fill: #8ec2ff; } }
"""


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """A row of a drawing: its text, its kind ("cycle", "critical" or ""), its indentation, and a tooltip."""

    text: str
    kind: str = ""
    depth: int = 0
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Arc:
    """An arc between two rows, with a label and a kind as rows have; `is_back` puts it on the left."""

    source: int
    target: int
    label: str
    kind: str = ""
    is_back: bool = False


def draw(rows: Sequence[DrawnRow], arcs: Sequence[Arc], title: str) -> str:
    """Return rows and arcs as an SVG document of its own."""
    shown = rows[:MOST_ROWS]
    kept = [arc for arc in arcs if arc.source < len(shown) and arc.target < len(shown)]
    important = sorted(kept, key=lambda arc: (not arc.kind, abs(arc.target - arc.source)))[:MOST_ARCS]
    left = 24 + LANE * max((_lane(arc) for arc in important if arc.is_back), default=0)
    right = 40 + LANE * max((_lane(arc) for arc in important if not arc.is_back), default=0)
    longest = max((len(row.text) + 2 * row.depth for row in shown), default=0)
    box = 16 + CHARACTER * min(longest, LONGEST_LABEL)
    omitted = len(rows) - len(shown)
    height = ROW * (len(shown) + (omitted > 0)) + 8
    width = left + box + right
    size = f'width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" role="img" aria-label="{escape(title)}" {size}>',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        *(_arc(arc, left, left + box) for arc in sorted(important, key=lambda arc: bool(arc.kind))),
        *(_row(number, row, left, box) for number, row in enumerate(shown)),
    ]
    if omitted > 0:
        lines.append(f'<text x="{left:.1f}" y="{height - 12}">… and {omitted} more</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _lane(arc: Arc) -> int:
    return min(MOST_LANES, 1 + abs(arc.target - arc.source))


def _row(number: int, row: DrawnRow, left: float, box: float) -> str:
    text = row.text if len(row.text) <= LONGEST_LABEL else row.text[: LONGEST_LABEL - 1] + "…"
    top, shift = 4 + ROW * number, 14 * row.depth
    remark = f"<title>{escape(row.remark)}</title>" if row.remark else ""
    return (
        f'<g>{remark}<rect class="{row.kind}" x="{left + shift:.1f}" y="{top}" width="{box - shift:.1f}"'
        f' height="{ROW - 6}" rx="3"/><text x="{left + shift + 8:.1f}" y="{top + 14}">{escape(text)}</text></g>'
    )


def _arc(arc: Arc, left: float, right: float) -> str:
    side, out = (left, -1) if arc.is_back else (right, 1)
    begin, end = (4 + ROW * row + (ROW - 6) / 2 for row in (arc.source, arc.target))
    begin, end = (begin + 3, end - 3) if arc.target != arc.source else (begin + 5, end - 5)
    reach = side + out * (14 + LANE * _lane(arc))
    kind = f"{arc.kind}{' back' if arc.is_back else ''}"
    head = f"{side:.1f},{end:.1f} {side + out * 7:.1f},{end - 3.5:.1f} {side + out * 7:.1f},{end + 3.5:.1f}"
    middle = side + out * (11 + LANE * _lane(arc) * 0.75)
    return (
        f"<g><title>{escape(arc.label)}</title>"
        f'<path class="{kind}" d="M{side:.1f},{begin:.1f} C{reach:.1f},{begin:.1f} {reach:.1f},{end:.1f}'
        f' {side + out * 6:.1f},{end:.1f}"/><polygon class="head {arc.kind}" points="{head}"/>'
        f'<text class="small" text-anchor="middle" x="{middle:.1f}" y="{(begin + end) / 2 + 4:.1f}">'
        f"{escape(arc.label.partition(' ')[0])}</text></g>"
    )


@dataclass(frozen=True, slots=True)
class Dependency:
    """One instruction waits for another one: positions, core cycles, iterations back, and the kind of its arc."""

    source: int
    target: int
    cycles: int
    iterations: int
    kind: str
    through_memory: bool

    @property
    def label(self) -> str:
        """Cycles, and from which iteration."""
        back = f" from {self.iterations} iteration{'s' * (self.iterations > 1)} ago" if self.iterations else ""
        return f"{self.cycles} cycle{'s' * (self.cycles != 1)}{back}{' through memory' * self.through_memory}"


def dependencies(facts: PredictionFacts) -> list[Dependency]:
    """Return which instruction waits for which, with the longest latency; kinds are "cycle", "critical" or ""."""
    nodes = facts.bounds.nodes
    cycle = facts.bounds.cycle
    around = set() if cycle is None else set(zip(cycle.nodes, (*cycle.nodes[1:], cycle.nodes[0]), strict=True))
    path = set(zip(facts.path.nodes, facts.path.nodes[1:], strict=False))
    found: dict[tuple[int, int, int], Dependency] = {}
    for number, node in enumerate(nodes):
        for edge in node.edges:
            pair = (edge.source, number)
            on_path = pair in path and not edge.iterations
            kind = "cycle" if pair in around else "critical" if on_path else ""
            one = Dependency(
                nodes[edge.source].position, node.position, edge.cycles, edge.iterations, kind, edge.through_memory
            )
            key = (one.source, one.target, one.iterations)
            old = found.get(key)
            if old is None or (bool(one.kind), one.cycles) > (bool(old.kind), old.cycles):
                found[key] = one
    for one in _without_results(facts):
        found.setdefault((one.source, one.target, one.iterations), one)
    return sorted(found.values(), key=lambda one: (one.source, one.target, one.iterations))


def _without_results(facts: PredictionFacts) -> Iterator[Dependency]:
    """Yield what instructions without a result wait for, such as conditional jumps for flags."""
    made = {name: node.position for node in facts.bounds.nodes for name in node.names}
    here: dict[str, int] = {}
    results = {position: list(nodes) for position, nodes in groupby(facts.bounds.nodes, key=lambda node: node.position)}
    for position, item in enumerate(facts.bounds.block.items):
        for node in results.get(position, ()):
            here |= dict.fromkeys(node.names, position)
        if item.effects.outputs or item.compiled is None:
            continue
        used = {name for uop in item.compiled.uops or () for name in uop.reads if isinstance(name, str)}
        used |= {flag for operand in item.compiled.variant.operands for flag in read_flags(operand)}
        for name in sorted(used):
            source = here.get(name, made.get(name))
            if source is not None:
                iterations = 0 if name in here else 1
                yield Dependency(source, position, 0, iterations, "", through_memory=False)


def dependency_rows(facts: PredictionFacts) -> tuple[list[DrawnRow], list[Arc]]:
    """Return the dependency graph: a row per instruction, an arc per dependency."""
    rows = [
        DrawnRow(
            f"{position + 1:3} {item.text}",
            "cycle" if position in facts.on_cycle else "critical" if position in facts.on_path else "",
        )
        for position, item in enumerate(facts.bounds.block.items)
    ]
    arcs = [Arc(one.source, one.target, one.label, one.kind, is_back=one.iterations > 0) for one in dependencies(facts)]
    return rows, arcs


def dependency_svg(facts: PredictionFacts) -> str:
    """Return the dependency graph as SVG. Red: the slowest loop-carried dependency. Blue: the critical path."""
    return draw(*dependency_rows(facts), f"Dependencies on {facts.machine.name}")


def flow_svg(flow: Flow, title: str) -> str:
    """Return a control-flow graph as SVG: blocks in the order of the code, those of loops indented."""
    order = sorted(flow.blocks)
    place = {begin: number for number, begin in enumerate(order)}
    depth = {begin: sum(begin in loop.blocks for loop in flow.loops) for begin in order}
    heads = {loop.head: number for number, loop in enumerate(flow.loops, 1)}
    rows = [_flow_row(flow, begin, depth[begin], heads.get(begin)) for begin in order]
    return draw(rows, list(_flow_arcs(flow, place)), title)


def _flow_row(flow: Flow, begin: int, depth: int, loop: int | None) -> DrawnRow:
    block = flow.blocks[begin]
    named = f", head of loop {loop}" if loop else ""
    calls = f", {block.calls} call{'s' * (block.calls > 1)}" if block.calls else ""
    count = f"{block.instructions} instruction{'s' * (block.instructions > 1)}"
    text = f"{flow.address + begin:#x}  {count}{calls}, {block.ending.value}{named}"
    return DrawnRow(text, "critical" if loop else "", depth)


def _flow_arcs(flow: Flow, place: dict[int, int]) -> Iterator[Arc]:
    for begin, block in flow.blocks.items():
        both = block.target is not None and block.behind is not None
        for target in block.successors:
            label = ("taken" if target == block.target else "else") if both else ""
            kind = "cycle" if flow.leads_back(begin, target) else ""
            yield Arc(place[begin], place[target], label, kind, is_back=target <= begin)
