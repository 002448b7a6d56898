"""A function's control flow and the prediction of one of its loops, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.function.flow import branches_in
from analysis.report.data import SCHEMA, json_of
from analysis.report.text import cycles_text, lines_of, listed
from results.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.function.flow import Flow, FlowBlock, Loop
    from analysis.function.loops import LoopPrediction

MOST_SHOWN = 4
"""Ways that are shown one by one, the most probable ones."""

EACH_ALONE = "The average is of the bounds. What follows predicts each way as if all iterations took it."
"""Why the predictions of the ways may have another mean: a simulated way waits for itself only."""


def loop_lines(found: LoopPrediction, function: str) -> Iterator[str]:
    """Yield the control flow, the loops, and the prediction of the chosen one; for a single way its whole report."""
    yield from flow_lines(found.flow, function, found.loop)
    yield ""
    if len(found.ways) == 1:
        if found.is_limited_by_branches:
            yield _branches_text(found)
            yield ""
        yield from lines_of(found.facts[0])
        return
    machine = found.facts[0].machine
    ways = counted(len(found.ways), "way")
    yield f"{machine.name}: {ways} through an iteration"
    yield f"  {machine.origin.text}"
    yield ""
    yield f"{cycles_text(found.cycles)} cycles per iteration on average. What limits it: {listed(found.limits)}."
    if found.left_out:
        yield f"! Other ways, {100 * found.left_out:.1f}% of the iterations, are left out."
    yield ""
    width = max(map(len, found.bounds))
    yield f"{'mean bound':{width}}  cycles"
    for name, cycles in sorted(found.bounds.items(), key=lambda pair: -pair[1]):
        yield f"{name:{width}} {'*' if name in found.limits else ' '}{cycles_text(cycles):>6}"
    yield ""
    yield "A core predicts its branches. Those that it mispredicts take time that is not counted here."
    yield EACH_ALONE
    for way, one in list(zip(found.ways, found.facts, strict=True))[:MOST_SHOWN]:
        blocks = " → ".join(f"{found.flow.address + begin:#x}" for begin in way.blocks)
        yield ""
        yield f"{100 * way.probability:.0f}%: {blocks}; branches taken: {way.taken}"
        yield ""
        yield from lines_of(one)
    if len(found.ways) > MOST_SHOWN:
        yield ""
        yield f"and {len(found.ways) - MOST_SHOWN} less probable ways"


def _branches_text(found: LoopPrediction) -> str:
    """Say what the taken branches of a single way take, if that is more than its code takes in a row."""
    taken = found.ways[0].taken
    branches = f"{taken} taken {'branch' if taken == 1 else 'branches'}"
    headline = f"{cycles_text(found.cycles)} cycles per iteration. What limits it: {branches}."
    return f"{headline} What follows leaves this limit out."


def flow_lines(flow: Flow, function: str, chosen: Loop | None) -> Iterator[str]:
    """Yield the blocks of a function and its loops; for the chosen loop also the branches for `--taken`."""
    count = counted(len(flow.blocks), "block")
    yield f"{function} at {flow.address:#x}: {count}, {counted(len(flow.loops), 'loop')}"
    for begin, block in flow.blocks.items():
        depth = sum(begin in loop.blocks for loop in flow.loops)
        yield f"  {flow.address + begin:#x} {'| ' * depth}{_block(flow, block)}"
    for number, loop in enumerate(flow.loops, 1):
        mark = "*" if loop == chosen else " "
        inner = "" if loop.is_innermost else ", has loops inside"
        size = f"{counted(len(loop.blocks), 'block')}, {counted(flow.size_of(loop), 'instruction')}"
        yield f"{mark} loop {number} at {flow.address + loop.head:#x}: {size}{inner}"
    if chosen is None:
        return
    yield from (f"! {line}" for line in uncounted_lines(flow, chosen))
    for block in branches_in(flow, chosen):
        end = flow.address + block.end
        yield f"  its branch before {end:#x} goes either way: --taken {end:#x}=0.5"


def uncounted_lines(flow: Flow, chosen: Loop) -> Iterator[str]:
    """Yield a warning about the calls in a loop, and about each jump to where the code does not show."""
    calls = sum(flow.blocks[begin].calls for begin in chosen.blocks)
    if calls:
        yield f"{counted(calls, 'call')} in it: the time of the called functions is not counted."
    for end in flow.hidden_jumps(chosen):
        where = f"The jump before {flow.address + end:#x}"
        yield f"{where} leads to addresses that the code does not show: those ways are not counted."


def _block(flow: Flow, block: FlowBlock) -> str:
    calls = f", {counted(block.calls, 'call')}" if block.calls else ""
    to = ", ".join(f"{flow.address + one:#x}" for one in block.successors)
    return f"{counted(block.instructions, 'instruction')}{calls}, {block.ending.value}{f' to {to}' if to else ''}"


def loop_json(found: LoopPrediction, function: str) -> dict[str, Any]:
    """Return a loop's prediction as JSON."""
    flow, machine = found.flow, found.facts[0].machine
    return {
        "schema": SCHEMA,
        "architecture": machine.name,
        "machine": machine.origin.text,
        "running": "loop",
        "cycles_per_iteration": float(found.cycles),
        "limits": found.limits,
        "bounds": {name: float(cycles) for name, cycles in found.bounds.items()},
        "left_out": found.left_out,
        "control_flow": flow_json(flow, function) | {"chosen": 1 + flow.loops.index(found.loop)},
        "ways": [
            {
                "probability": way.probability,
                "taken_branches": way.taken,
                "blocks": [flow.address + begin for begin in way.blocks],
                "prediction": json_of(one),
            }
            for way, one in zip(found.ways, found.facts, strict=True)
        ],
    }


def flow_json(flow: Flow, function: str) -> dict[str, Any]:
    """Return a control-flow graph as JSON; blocks are named by their addresses."""
    return {
        "function": function,
        "address": flow.address,
        "blocks": [
            {
                "address": flow.address + begin,
                "instructions": block.instructions,
                "ending": block.ending.value,
                "successors": [flow.address + one for one in block.successors],
            }
            for begin, block in flow.blocks.items()
        ],
        "loops": [
            {
                "head": flow.address + loop.head,
                "blocks": [flow.address + begin for begin in sorted(loop.blocks)],
                "depth": loop.depth,
                "innermost": loop.is_innermost,
            }
            for loop in flow.loops
        ],
    }
