"""A report as one self-contained HTML page, for screens of any size, light or dark."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from analysis.explanation import latency_text
from analysis.report.drawing import dependency_svg, flow_svg
from analysis.report.flow import EACH_ALONE, uncounted_lines
from analysis.report.text import (
    RUNS,
    cycles_text,
    detail,
    error_bars,
    listed,
    mark_of,
    measured_on,
    path_lines,
    reason_of,
    spread_text,
    unknown_lines,
    warning_lines,
)
from analysis.report.timeline_drawing import timeline_svg
from analysis.simulation.results import Wait
from results.html import templates
from results.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from analysis.explanation import MeasuredCycles, PredictionFacts
    from analysis.function.loops import LoopPrediction

WIDEST_BAR = 8
"""The width of the longest bar beside the bounds, in rem."""
MOST_ROWS = 2000
"""Instructions in the table."""


@dataclass(frozen=True, slots=True)
class PageSection:
    """What the page says of one CPU: one prediction, or the ways through a loop with their headings."""

    facts: Sequence[tuple[str, PredictionFacts]]
    cycles: Fraction
    limits: Sequence[str]
    means: Mapping[str, Fraction]

    @classmethod
    def of(cls, facts: PredictionFacts) -> PageSection:
        """Return the section of a prediction."""
        bounds = facts.bounds
        means = {one.value: cycles for one, cycles in bounds.cycles_of.items()}
        return cls([("", facts)], facts.cycles, [one.value for one in bounds.limits], means)

    @classmethod
    def of_loop(cls, found: LoopPrediction) -> PageSection:
        """Return the section of a loop."""
        pairs = zip(found.ways, found.facts, strict=True)
        named = [(f"{100 * way.probability:.0f}% of the iterations", one) for way, one in pairs]
        if len(named) == 1 and not found.is_limited_by_branches:
            return cls.of(named[0][1])
        return cls(named, found.cycles, found.limits, found.bounds)


def page_of(sections: Sequence[PageSection], title: str, loop: LoopPrediction | None = None) -> str:
    """Return the page.

    Args:
        sections: one for each CPU.
        title: what the code is called.
        loop: the loop that was analyzed, whose function's control flow is shown.
    """
    style = resources.files("analysis.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    return (
        templates("analysis.report")
        .get_template("page.html.j2")
        .render(
            title=title,
            style=Markup(style),  # noqa: S704 - our own file
            several=len(sections) > 1,
            views=[_view(number, one) for number, one in enumerate(sections)],
            components=list(_components(sections)),
            flow=None if loop is None else _flow_view(loop, title),
        )
    )


def _components(sections: Sequence[PageSection]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the bounds side by side."""
    names = list(dict.fromkeys(name for one in sections for name in one.means))
    return [
        (
            name,
            [
                {"cycles": cycles_text(one.means[name]) if name in one.means else "-", "limits": name in one.limits}
                for one in sections
            ],
        )
        for name in names
    ]


def _flow_view(loop: LoopPrediction, title: str) -> dict[str, Any]:
    flow = loop.flow
    number = 1 + flow.loops.index(loop.loop)
    summary = f"{counted(len(flow.blocks), 'block')}, {counted(len(flow.loops), 'loop')}; loop {number} is analyzed."
    warnings = [f"! {line}" for line in uncounted_lines(flow, loop.loop)]
    return {"summary": summary, "warnings": warnings, "drawing": _drawn(flow_svg(flow, f"Control flow of {title}"))}


def _drawn(svg: str) -> Markup:
    """Return a drawing of ours as it is: all text in it is escaped."""
    return Markup(svg)  # noqa: S704


def _view(number: int, section: PageSection) -> dict[str, Any]:
    first = section.facts[0][1]
    block, machine = first.bounds.block, first.machine
    is_loop = any(name for name, _ in section.facts)
    size = f"{counted(len(block.items), 'instruction')}, {RUNS[first.bounds.running]}"
    ways = f"{counted(len(section.facts), 'way')} through an iteration"
    return {
        "anchor": f"cpu{number}",
        "name": machine.name,
        "heading": f"{machine.name}: {ways if is_loop else size}",
        "origin": machine.origin.text,
        "cycles": cycles_text(section.cycles),
        "bars": "" if is_loop else error_bars(first),
        "sentence": f"What limits it: {listed(section.limits)}." if is_loop else reason_of(first),
        "warnings": list(
            dict.fromkeys(
                line
                for _, facts in section.facts
                for line in (*unknown_lines(facts.bounds.block), *warning_lines(facts))
            )
        ),
        "means": [(name, cycles_text(c), name in section.limits) for name, c in section.means.items()]
        if is_loop
        else [],
        "each_alone": EACH_ALONE if len(section.facts) > 1 else "",
        "parts": [_part(f"{number}-{way}", *pair) for way, pair in enumerate(section.facts)],
    }


def _part(number: str, heading: str, facts: PredictionFacts) -> dict[str, Any]:
    bounds = facts.bounds
    loads = facts.loads
    names = sorted({*loads.best, *loads.even}, key=bounds.port_names.index)
    size = len(bounds.block.items)
    return {
        "number": number,
        "heading": heading,
        "measured": [_measured(one) for one in facts.measured],
        "measured_on": measured_on(facts) if facts.measured else "",
        "bounds": [
            {
                "name": component.value,
                "cycles": cycles_text(cycles),
                "limits": component in bounds.limits,
                "share": round(WIDEST_BAR * float(cycles / bounds.cycles), 2) if bounds.cycles else 0,
                "detail": detail(facts, component),
            }
            for component, cycles in sorted(bounds.cycles_of.items(), key=lambda pair: -pair[1])
        ],
        "gains": [{"cycles": cycles_text(one.cycles), "change": one.change} for one in facts.gains],
        "ports": [
            {
                "name": name,
                "best": _number(loads.best.get(name)),
                "simulated": "" if facts.study is None else _number(facts.study.simulated.ports.get(name)),
                "even": _number(loads.even.get(name)),
                "full": name in bounds.full,
            }
            for name in names
        ],
        "has_source": any(one is not None for one in facts.lines),
        "rows": [_row(facts, position, names) | _source(facts, position) for position in range(min(size, MOST_ROWS))],
        "more": f"… and {size - MOST_ROWS} more" if size > MOST_ROWS else "",
        "port_notes": facts.port_notes,
        "paths": list(path_lines(facts)),
        "drawing": _drawn(dependency_svg(facts)),
        "timeline": _drawn(timeline_svg(facts)),
        "waits": [head.value for head in Wait] if facts.explained is not None else [],
    }


def _row(facts: PredictionFacts, position: int, ports: Sequence[str]) -> dict[str, Any]:
    item = facts.bounds.block.items[position]
    on_path = "critical" if position in facts.on_path else ""
    return {
        "number": position + 1,
        "mark": mark_of(facts, position),
        "kind": "cycle" if position in facts.on_cycle else on_path if item.known else "unknown",
        "text": item.text,
        "uops": item.effects.slots,
        "ports": facts.ports_text(position),
        "latency": latency_text(item),
        "loads": [_number(_load_of(facts, position).get(name)) for name in ports],
        "waits": _waits(facts, position),
    }


def _source(facts: PredictionFacts, position: int) -> dict[str, str]:
    """Return where an instruction is from: the file as it is given, the place in short, and the line's text.

    Neighbours from the same line would repeat it, so that only the first one has the text.
    """
    line = facts.line_of(position)
    if line is None:
        return {"file": "", "place": "", "source": ""}
    is_repeated = position > 0 and facts.line_of(position - 1) == line
    place = f"{line.file.rpartition('/')[2]}:{line.line}"
    return {"file": line.file, "place": place, "source": "" if is_repeated else line.text}


def _load_of(facts: PredictionFacts, position: int) -> Mapping[str, Fraction]:
    """Return the load of one instruction: as simulated, or else the best one."""
    if facts.explained is None:
        return facts.loads.best_of[position]
    return facts.explained.explanation.instructions[position].ports


def _waits(facts: PredictionFacts, position: int) -> list[str]:
    """Return how long an instruction waited, by kind, and how long others waited for it; [] without a simulation."""
    if facts.explained is None:
        return []
    times = facts.explained.explanation.instructions[position]
    return [*(_number(times.waits.get(kind)) for kind in Wait), _number(times.made_wait)]


def _number(value: Fraction | None) -> str:
    return "" if not value else f"{float(value):.2f}"


def _measured(one: MeasuredCycles) -> dict[str, str]:
    return {
        "running": one.running,
        "predicted": f"{one.predicted:.2f}",
        "cycles": "-" if one.cycles is None else f"{one.cycles:.2f}",
        "spread": spread_text(one),
        "error": one.reason if one.error is None else f"{100 * one.error:+.1f}%",
    }
