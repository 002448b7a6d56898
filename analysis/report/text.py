"""A prediction for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from analysis.bounds import Component, Running
from analysis.report.facts import latencies, port_usage, positions_on_cycle
from analysis.whatif import what_ifs
from results.model import port_set_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from analysis.bounds import Bounds
    from analysis.code import Block, Item
    from analysis.dependencies import Cycle, Node
    from simulator.machines.machine import MachineModel

RUNS = {Running.LOOP: "as a loop", Running.UNROLLED: "copies in a row"}
MOST_NAMED = 8
"""Instructions of a cycle, or unknown ones, that a sentence names."""


def lines_of(bounds: Bounds, machine: MachineModel) -> Iterator[str]:
    """Yield a prediction for people: cycles, why, each bound, each instruction."""
    block = bounds.block
    count = f"{counted(len(block.items), 'instruction')}, {counted(block.size_bytes, 'byte')}"
    yield f"{machine.name}: {count}, {RUNS[bounds.running]}"
    yield f"  {machine.origin.text}"
    yield ""
    yield f"{_cycles(bounds.cycles)} cycles per iteration. {sentence(bounds)}"
    yield from _unknown(block)
    yield ""
    width = max(len(one.value) for one in bounds.cycles_of)
    yield f"{'bound':{width}}  cycles"
    for component, cycles in sorted(bounds.cycles_of.items(), key=lambda pair: -pair[1]):
        mark = "*" if component in bounds.limits else " "
        yield f"{component.value:{width}} {mark}{_cycles(cycles):>6}  {_detail(bounds, component)}".rstrip()
    if gains := what_ifs(bounds)[:MOST_NAMED]:
        yield ""
        yield "what if"
        yield from (f"{_cycles(one.cycles):>6}  {one.change}" for one in gains)
    yield ""
    yield from _listing(bounds, machine)


def counted(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _cycles(cycles: Fraction) -> str:
    return f"{float(cycles):.2f}"


def sentence(bounds: Bounds) -> str:
    """Say in words what limits the code."""
    if not bounds.cycles:
        return "Nothing in it takes time."
    return f"What limits it: {' and '.join(_REASONS[one] for one in bounds.limits)}."


_REASONS = {
    Component.PREDECODER: "the predecoder, which finds instructions in a block of code per cycle",
    Component.DECODERS: "the decoders",
    Component.UOP_CACHE: "the µop cache",
    Component.LOOP_BUFFER: "the loop buffer",
    Component.ISSUE: "the number of µops that are issued per cycle",
    Component.PORTS: "the ports",
    Component.DEPENDENCIES: "a chain of dependencies from iteration to iteration",
    Component.DIVIDER: "the divider",
    Component.UNIT: "an instruction whose next instance has to wait",
}


def _detail(bounds: Bounds, component: Component) -> str:
    """Return what a bound comes from, as far as there is more to say."""
    if component is Component.PORTS and bounds.full:
        return f"{counted(bounds.full_uops, 'µop')} on {port_set_name(bounds.full)}"
    if component is Component.DEPENDENCIES and bounds.cycle is not None:
        cycle = bounds.cycle
        over = f" over {cycle.iterations} iterations" if cycle.iterations > 1 else ""
        return f"{counted(cycle.cycles, 'cycle')}{over}: {_around(bounds.nodes, cycle)}"
    return ""


def _around(nodes: Sequence[Node], cycle: Cycle) -> str:
    """Write the instructions of a cycle by their lines."""
    lines = list(dict.fromkeys(nodes[number].position + 1 for number in cycle.nodes))
    shown = [str(line) for line in lines[:MOST_NAMED]] + ["…"] * (len(lines) > MOST_NAMED)
    return f"line{'s' * (len(lines) > 1)} {' → '.join(shown)}"


def _unknown(block: Block) -> Iterator[str]:
    """Yield a warning about instructions of which nothing is known."""
    counts = Counter(item.name for item in block.unknown)
    if not counts:
        return
    named = [f"{name}{f' ({times} times)' if times > 1 else ''}" for name, times in counts.most_common(MOST_NAMED)]
    more = f" and {len(counts) - MOST_NAMED} more" if len(counts) > MOST_NAMED else ""
    yield f"! Nothing is known of {', '.join(named)}{more}: the real time is longer, or the same."


def _listing(bounds: Bounds, machine: MachineModel) -> Iterator[str]:
    """Yield a line per instruction."""
    on_cycle = positions_on_cycle(bounds)
    rows = []
    for position, item in enumerate(bounds.block.items):
        fused = bounds.block.fused[position]
        mark = "*" if position in on_cycle else "+" if fused else " " if item.known else "?"
        usage = str(port_usage(item, machine)) if item.known else "?"
        rows.append((position + 1, mark, item.effects.slots, usage or "-", _latency(item), item.text))
    width = max(5, *(len(row[3]) for row in rows))
    yield f"line  µops  {'ports':{width}}  latency  instruction"
    for line, mark, slots, usage, latency, text in rows:
        yield f"{line:4}{mark} {slots:4}   {usage:{width}} {latency:>8}  {text}"
    yield "* on the chain of dependencies, + one µop with the jump behind it, ? nothing is known of it"


def _latency(item: Item) -> str:
    """Return the cycles between what is read and what is written, as a range."""
    found = latencies(item)
    if not found:
        return "-"
    least, most = min(found), max(found)
    return str(most) if least == most else f"{least}-{most}"
