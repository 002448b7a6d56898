"""A prediction as compiler messages, `file:line: level: text`, so that editors show them beside the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.explanation import latency_text, ports_text
from analysis.report.text import cycles_text, reason_of, route
from results.machine.graph import KnownShare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.block.code import Item
    from analysis.explanation import PredictionFacts


def messages_of(facts: PredictionFacts, name: str) -> Iterator[str]:
    """Yield the messages: one for all of the code, and one for each instruction.

    Args:
        facts: the prediction.
        name: what the code is called where no line is known.
    """
    bounds = facts.bounds
    machine = facts.machine.name
    time = f"{cycles_text(facts.cycles)} cycles per iteration"
    yield f"{_place(facts, 0, name)}: note: {machine}: {time}. {reason_of(facts)}"
    for position, item in enumerate(bounds.block.items):
        place = _place(facts, position, name)
        if not item.known:
            yield f"{place}: warning: {machine}: nothing is known of {item.name}"
            continue
        said = [_ports(facts, item), f"latency {latency_text(item)}"]
        if position in facts.on_cycle and bounds.cycle is not None:
            said.append(f"on the chain from iteration to iteration ({route(facts.in_order(bounds.cycle))})")
        if position in facts.on_path:
            said.append("on the critical path")
        if bounds.block.fused[position]:
            said.append("fused with the jump after it")
        limits = position in facts.on_cycle and bounds.cycle is not None and bounds.cycle.ratio == bounds.cycles
        yield f"{place}: {'warning' if limits else 'note'}: {machine}: {item.text}: {', '.join(said)}"


def _ports(facts: PredictionFacts, item: Item) -> str:
    """Return the ports of an instruction in words."""
    knowledge = item.knowledge
    if knowledge.ports is KnownShare.NONE:
        return "ports not known"
    if knowledge.ports is KnownShare.ALL and not item.effects.port_masks:
        return "no port"
    return ports_text(item, facts.machine) + (" by time alone" if knowledge.by_time else "")


def _place(facts: PredictionFacts, position: int, name: str) -> str:
    line = facts.line_of(position)
    return f"{name}:{position + 1}" if line is None else f"{line.file}:{line.line}"
