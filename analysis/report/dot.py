"""Dependency graphs and control-flow graphs for Graphviz (its DOT language, https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.drawing import dependencies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.explanation import PredictionFacts
    from analysis.function.flow import Flow

COLOURS = {"cycle": "#c4271b", "critical": "#0b57a8", "": "#8a94a3"}
"""Red: the slowest loop-carried dependency. Blue: the critical path of an iteration."""


def dependency_dot(facts: PredictionFacts) -> str:
    """Return the dependency graph; edges into a later iteration are dashed."""
    return "\n".join(["digraph dependencies {", *_dependency_lines(facts), "}"]) + "\n"


def _dependency_lines(facts: PredictionFacts) -> Iterator[str]:
    yield '  node [shape=box, fontname="monospace"];'
    for position, item in enumerate(facts.bounds.block.items):
        kind = "cycle" if position in facts.on_cycle else "critical" if position in facts.on_path else ""
        yield f"  n{position} [label={_quoted(f'{position + 1}: {item.text}')}, color={_quoted(COLOURS[kind])}];"
    for one in dependencies(facts):
        style = "dashed" if one.iterations else "solid"
        width = 2 if one.kind else 1
        label = str(one.cycles) + (f" (-{one.iterations})" if one.iterations else "")
        constraint = ", constraint=false" if one.iterations else ""
        yield (
            f"  n{one.source} -> n{one.target} [label={_quoted(label)}, color={_quoted(COLOURS[one.kind])},"
            f" style={style}, penwidth={width}{constraint}];"
        )


def flow_dot(flow: Flow) -> str:
    """Return the control-flow graph; heads of loops are blue, edges that lead back are red."""
    return "\n".join(["digraph flow {", *_flow_lines(flow), "}"]) + "\n"


def _flow_lines(flow: Flow) -> Iterator[str]:
    yield '  node [shape=box, fontname="monospace"];'
    heads = {loop.head: number for number, loop in enumerate(flow.loops, 1)}
    for begin, block in flow.blocks.items():
        loop = f"\nloop {heads[begin]}" if begin in heads else ""
        label = f"{flow.address + begin:#x}\n{block.instructions} instructions, {block.ending.value}{loop}"
        yield f"  b{begin} [label={_quoted(label)}, color={_quoted(COLOURS['critical' if loop else ''])}];"
        for target in block.successors:
            label = "taken" if target == block.target and block.behind is not None else ""
            colour = COLOURS["cycle" if flow.leads_back(begin, target) else ""]
            yield f"  b{begin} -> b{target} [label={_quoted(label)}, color={_quoted(colour)}];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
