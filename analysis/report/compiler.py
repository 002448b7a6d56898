"""A prediction as compiler messages, `file:line: level: text`, so that editors show them beside the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.explanation import latency_text
from analysis.report.flow import uncounted_lines
from analysis.report.text import MOST_NAMED, cycles_text, error_bars, listed, measured_on, reason_of
from results.text import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.block.code import Item
    from analysis.explanation import PredictionFacts
    from analysis.function.loops import LoopPrediction


def loop_messages(found: LoopPrediction, name: str) -> Iterator[str]:
    """Yield the messages about a loop: what all ways take together, what is not counted, and those about each way."""
    first = found.facts[0]
    beginning = f"{_place(first, 0, name)}: "
    machine = first.machine.name
    is_mean = len(found.ways) > 1
    if is_mean or found.is_limited_by_branches:
        of = f" on average of {len(found.ways)} ways" if is_mean else ""
        time = f"{cycles_text(found.cycles)} cycles per iteration{of}. What limits it: {listed(found.limits)}."
        yield f"{beginning}note: {machine}: {time}"
    for line in uncounted_lines(found.flow, found.loop):
        yield f"{beginning}warning: {line}"
    for number, (way, facts) in enumerate(zip(found.ways, found.facts, strict=True), 1):
        alone = f"way {number} of {len(found.ways)} ({100 * way.probability:.0f}%), alone: " if is_mean else ""
        yield from messages_of(facts, name, alone or "without this limit: " * found.is_limited_by_branches)


def messages_of(facts: PredictionFacts, name: str, how: str = "") -> Iterator[str]:
    """Yield the messages: one for all of the code, some about what was measured, and one for each instruction.

    Args:
        facts: the prediction.
        name: what the code is called where no line is known.
        how: for which iterations it holds.
    """
    bounds = facts.bounds
    machine = facts.machine.name
    beginning = f"{_place(facts, 0, name)}: note: "
    time = f"{cycles_text(facts.cycles)} cycles per iteration{error_bars(facts)}"
    yield f"{beginning}{machine}: {how}{time}. {reason_of(facts)}"
    if facts.measured:
        yield f"{beginning}{measured_on(facts)}"
    for row in facts.measured:
        measured = f"{row.cycles:.2f} cycles measured" if row.cycles is not None else f"not measured: {row.reason}"
        yield f"{beginning}{row.running}: {measured}, {row.predicted:.2f} predicted"
    for position, item in enumerate(bounds.block.items):
        place = _place(facts, position, name)
        if not item.known:
            yield f"{place}: warning: {machine}: nothing is known of {item.name}"
            continue
        said = [_ports(facts, position), *_latency(item)]
        if position in facts.on_cycle and bounds.cycle is not None:
            route = _route(facts, facts.in_order(bounds.cycle), position, name)
            said.append(f"on the chain from iteration to iteration ({route})")
        if position in facts.on_path:
            said.append("on the critical path")
        if bounds.block.fused[position]:
            said.append("fused with the jump after it")
        limits = position in facts.on_cycle and bounds.cycle is not None and bounds.cycle.ratio == bounds.cycles
        yield f"{place}: {'warning' if limits else 'note'}: {machine}: {item.text}: {', '.join(said)}"


def _latency(item: Item) -> list[str]:
    """Return the latency of an instruction in words, [] if no register or flag passes through it."""
    text = latency_text(item)
    return {"-": [], UNKNOWN: ["latency not known"]}.get(text, [f"latency {text}"])


def _route(facts: PredictionFacts, positions: Sequence[int], from_position: int, name: str) -> str:
    """Return a path by the lines of its instructions, each once in a row; with the file where that is another one."""
    here = _file_and_line(facts, from_position, name)[0]
    places = [_file_and_line(facts, one, name) for one in positions]
    named = [line if file == here else f"{file}:{line}" for file, line in places]
    lines = [one for one, before in zip(named, ["", *named], strict=False) if one != before]
    shown = lines[:MOST_NAMED] + ["…"] * (len(lines) > MOST_NAMED)
    return f"line{'s' * (len(lines) > 1)} {' → '.join(shown)}"


def _ports(facts: PredictionFacts, position: int) -> str:
    """Return the ports of an instruction in words."""
    text = facts.ports_text(position)
    if text in _IN_WORDS:
        return _IN_WORDS[text]
    knowledge = facts.bounds.block.items[position].knowledge
    return text + (" in a model" if knowledge.modelled else " by time alone" if knowledge.by_time else "")


_IN_WORDS = {"-": "no port", UNKNOWN: "ports not known"}


def _place(facts: PredictionFacts, position: int, name: str) -> str:
    return ":".join(_file_and_line(facts, position, name))


def _file_and_line(facts: PredictionFacts, position: int, name: str) -> tuple[str, str]:
    line = facts.line_of(position)
    return (name, str(position + 1)) if line is None else (line.file, str(line.line))
