"""A prediction as compiler messages, `file:line: level: text`, so that editors show them beside the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.explanation import latency_text
from analysis.report.text import cycles_text, reason_of, route
from results.text import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        said = [_ports(facts, position), f"latency {latency_text(item)}"]
        if position in facts.on_cycle and bounds.cycle is not None:
            said.append(f"on the chain from iteration to iteration ({route(facts.in_order(bounds.cycle))})")
        if position in facts.on_path:
            said.append("on the critical path")
        if bounds.block.fused[position]:
            said.append("fused with the jump after it")
        limits = position in facts.on_cycle and bounds.cycle is not None and bounds.cycle.ratio == bounds.cycles
        yield f"{place}: {'warning' if limits else 'note'}: {machine}: {item.text}: {', '.join(said)}"


def _ports(facts: PredictionFacts, position: int) -> str:
    """Return the ports of an instruction in words."""
    text = facts.ports_text(position)
    if text in _IN_WORDS:
        return _IN_WORDS[text]
    return text + (" by time alone" if facts.bounds.block.items[position].knowledge.by_time else "")


_IN_WORDS = {"-": "no port", UNKNOWN: "ports not known"}


def _place(facts: PredictionFacts, position: int, name: str) -> str:
    line = facts.line_of(position)
    return f"{name}:{position + 1}" if line is None else f"{line.file}:{line.line}"
