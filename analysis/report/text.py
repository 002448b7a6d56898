"""A prediction as text for a terminal."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.bounds.components import Component, Running
from analysis.explanation import latency_text
from analysis.report.timeline import timeline_lines, waits_lines
from results.model import port_set_name
from results.text import counted
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from analysis.block.code import Block
    from analysis.bounds.components import Bounds
    from analysis.explanation import MeasuredCycles, PredictionFacts
    from xed_convert.model import InstructionVariant

JUMPS = ("COND_BR", "UNCOND_BR")
"""Categories of jumps. Direct ones are left out where code is measured."""

RUNS = {Running.LOOP: "as a loop", Running.UNROLLED: "copies in a row"}
MOST_NAMED = 8
"""Instructions of a path, unknown instructions, dependencies, or changes that are shown."""


def lines_of(facts: PredictionFacts) -> Iterator[str]:
    """Yield the lines of a report: cycles, why, each bound, paths, loads of ports, each instruction."""
    bounds, machine = facts.bounds, facts.machine
    block = bounds.block
    count = f"{counted(len(block.items), 'instruction')}, {counted(block.size_bytes, 'byte')}"
    yield f"{machine.name}: {count}, {RUNS[bounds.running]}"
    yield f"  {machine.origin.text}"
    yield ""
    yield f"{cycles_text(facts.cycles)} cycles per iteration{error_bars(facts)}. {reason_of(facts)}"
    yield from unknown_lines(block)
    yield from warning_lines(facts)
    if facts.measured:
        yield ""
        yield measured_on(facts)
        yield from _measured(facts.measured)
    yield ""
    width = max(len(one.value) for one in bounds.cycles_of)
    yield f"{'bound':{width}}  cycles"
    for component, cycles in sorted(bounds.cycles_of.items(), key=lambda pair: -pair[1]):
        mark = "*" if component in bounds.limits else " "
        yield f"{component.value:{width}} {mark}{cycles_text(cycles):>6}  {detail(facts, component)}".rstrip()
    if facts.gains:
        yield ""
        yield "what if"
        yield from (f"{cycles_text(one.cycles):>6}  {one.change}" for one in facts.gains[:MOST_NAMED])
    yield ""
    yield from path_lines(facts)
    yield from _ports(facts)
    yield ""
    yield from _listing(facts)
    if facts.explained is not None:
        yield ""
        yield from waits_lines(facts)
        yield ""
        yield from timeline_lines(facts.explained)


MUCH = Fraction(21, 20)
"""Factor: the largest bound explains a simulated time of up to this many times the bound."""


def reason_of(facts: PredictionFacts) -> str:
    """Say in words what limits the code; where no bound explains the simulated time, say what would help most."""
    bounds = facts.bounds
    if facts.study is None or facts.cycles <= bounds.cycles * MUCH:
        return sentence(bounds)
    most = f" Most is gained by: {facts.gains[0].change} ({cycles_text(facts.gains[0].cycles)})." if facts.gains else ""
    return f"No component alone explains it: the largest bound is {cycles_text(bounds.cycles)}.{most}"


def error_bars(facts: PredictionFacts) -> str:
    """Return the interval that the data allow as text, "" if they allow one prediction only."""
    interval = facts.interval
    if interval is None:
        return ""
    high = "more" if interval.high is None else cycles_text(interval.high)
    return f" ({cycles_text(interval.low)} to {high}: {'; '.join(interval.reasons)})"


def cycles_text(cycles: Fraction) -> str:
    """Return cycles with two decimals."""
    return f"{float(cycles):.2f}"


def sentence(bounds: Bounds) -> str:
    """Say in words what limits the code."""
    if not bounds.cycles:
        return "Nothing in it takes time."
    return f"What limits it: {listed([_REASONS[one].format(unit=bounds.unit) for one in bounds.limits])}."


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + list(names[-1:]))


_REASONS = {
    Component.PREDECODER: "the predecoder (it finds instructions in one block of code per cycle)",
    Component.DECODERS: "the decoders",
    Component.UOP_CACHE: "the µop cache",
    Component.LOOP_BUFFER: "the loop buffer",
    Component.ISSUE: "the number of µops that are issued per cycle",
    Component.PORTS: "the ports",
    Component.DEPENDENCIES: "a chain of dependencies from iteration to iteration",
    Component.STORES: "the commit of stores to the cache",
    Component.DIVIDER: "the divider",
    Component.UNIT: "a unit that is busy ({unit})",
    Component.TRANSITIONS: "AVX mixed with legacy SSE instructions, where VZEROUPPER is missing",
}


def detail(facts: PredictionFacts, component: Component) -> str:
    """Return what sets a bound: the busiest ports or unit, the slowest dependency cycle; "" for other components."""
    bounds = facts.bounds
    if component is Component.PORTS and bounds.full:
        return f"{counted(bounds.full_uops, 'µop')} on {port_set_name(bounds.full)}"
    if component is Component.UNIT:
        return bounds.unit
    if component is Component.DEPENDENCIES and bounds.cycle is not None:
        cycle = bounds.cycle
        over = f" over {cycle.iterations} iterations" if cycle.iterations > 1 else ""
        return f"{counted(cycle.cycles, 'cycle')}{over}: {route(facts.in_order(cycle))}"
    return ""


def route(positions: Sequence[int]) -> str:
    """Return the instructions of a path by their lines: `lines 1 → 3`."""
    shown = [str(one + 1) for one in positions[:MOST_NAMED]] + ["…"] * (len(positions) > MOST_NAMED)
    return f"line{'s' * (len(positions) > 1)} {' → '.join(shown)}"


def side_by_side(found: Sequence[tuple[str, Fraction, Mapping[str, Fraction]]]) -> Iterator[str]:
    """Yield a table of CPUs: the prediction for each, and its bounds by component."""
    names = list(dict.fromkeys(name for _, _, bounds in found for name in bounds))
    width = max(map(len, [*names, "prediction"]))
    yield f"{'cycles':{width}}  " + " ".join(f"{machine:>8}" for machine, _, _ in found)
    yield f"{'prediction':{width}}  " + " ".join(f"{cycles_text(cycles):>8}" for _, cycles, _ in found)
    for name in names:
        cells = [cycles_text(bounds[name]) if name in bounds else "-" for _, _, bounds in found]
        yield f"{name:{width}}  " + " ".join(f"{cell:>8}" for cell in cells)


LONGER = "the real time is longer, or the same."
"""What it means that something is not known of an instruction."""


def unknown_lines(block: Block) -> Iterator[str]:
    """Yield a warning about instructions of which nothing is known, and one about those without a latency."""
    yield from unknown_names([item.name for item in block.unknown])
    if block.untimed:
        yield f"! No latency is known of {_named([item.name for item in block.untimed])}: {LONGER}"


def unknown_names(names: Sequence[str]) -> Iterator[str]:
    """Yield a warning about instructions of these names of which nothing is known, if there are any."""
    if names:
        yield f"! Nothing is known of {_named(names)}: {LONGER}"


def _named(names: Sequence[str]) -> str:
    """Return the names of instructions, each once."""
    counts = Counter(names)
    named = [f"{name}{f' ({times} times)' if times > 1 else ''}" for name, times in counts.most_common(MOST_NAMED)]
    more = f" and {len(counts) - MOST_NAMED} more" if len(counts) > MOST_NAMED else ""
    return f"{', '.join(named)}{more}"


def warning_lines(facts: PredictionFacts) -> Iterator[str]:
    """Yield a warning for each thing that was left out because the block is too long, and for each caveat."""
    yield from (f"! The code is long: {one}." for one in facts.left_out)
    yield from (f"! {one[0].upper()}{one[1:]}." for one in facts.caveats)


def measured_on(facts: PredictionFacts) -> str:
    """Say on which CPU the code was measured, that it had no jumps, and whether the prediction is for another one."""
    where = facts.measured[0]
    is_other = where.architecture != facts.machine.name
    note = f", and predicted for {facts.machine.name}: differences are expected" if is_other else ""
    compiled = [item.compiled for item in facts.bounds.block.items]
    without = " without jumps" if any(one is not None and _is_direct_jump(one.variant) for one in compiled) else ""
    cpu = ", ".join(filter(None, (where.cpu, where.backend and f"backend {where.backend}")))
    return f"Measured{without} on {where.architecture} ({cpu}){note}."


def _is_direct_jump(variant: InstructionVariant) -> bool:
    return variant.category in JUMPS and any(one.kind is OperandKind.RELATIVE_BRANCH for one in variant.operands)


def _measured(rows: Sequence[MeasuredCycles]) -> Iterator[str]:
    """Yield the table of what was predicted and measured."""
    yield "                 predicted  measured  spread  error"
    for one in rows:
        if one.cycles is None or one.error is None:
            yield f"{one.running:16} {one.predicted:9.2f}         -       -  {one.reason}"
        else:
            numbers = f"{one.predicted:9.2f} {one.cycles:9.2f} {spread_text(one):>7} {100 * one.error:+6.1f}%"
            yield f"{one.running:16} {numbers}"


def spread_text(one: MeasuredCycles) -> str:
    """Return the spread of what was measured as text, `-` if it is not known."""
    return "-" if one.spread is None else f"{one.spread:.2f}"


def path_lines(facts: PredictionFacts) -> Iterator[str]:
    """Yield the critical path of an iteration, and what leads from iteration to iteration."""
    if facts.path.nodes:
        cycles = counted(facts.path.cycles, "cycle")
        yield f"critical path of an iteration: {cycles}: {route(facts.positions(facts.path.nodes))}"
    for one in facts.carried[:MOST_NAMED]:
        over = f" in {one.iterations} iterations" if one.iterations > 1 else ""
        yield f"from iteration to iteration: {counted(one.cycles, 'cycle')}{over}: {route(facts.in_order(one))}"
    if len(facts.carried) > MOST_NAMED:
        yield f"  and {len(facts.carried) - MOST_NAMED} faster ones"


def _ports(facts: PredictionFacts) -> Iterator[str]:
    """Yield the loads of the ports: best, and with each port of a µop getting the same share."""
    loads = facts.loads
    names = sorted({*loads.best, *loads.even}, key=facts.bounds.port_names.index)
    if not names:
        return
    yield ""
    yield "port  " + " ".join(f"{name:>5}" for name in names)
    rows = [("best", loads.best), ("even", loads.even)]
    if facts.study is not None:
        rows.append(("sim.", dict(facts.study.simulated.ports)))
    for title, load in rows:
        yield f"{title:5} " + " ".join(f"{float(load.get(name, 0)):5.2f}" for name in names)


def _listing(facts: PredictionFacts) -> Iterator[str]:
    """Yield a line per instruction."""
    block = facts.bounds.block
    rows = []
    for position, item in enumerate(block.items):
        usage = facts.ports_text(position)
        line = facts.line_of(position)
        text = item.text if line is None else f"{item.text}   [{line.file}:{line.line}]"
        rows.append((position + 1, mark_of(facts, position), item.effects.slots, usage, latency_text(item), text))
    width = max(5, *(len(row[3]) for row in rows))
    yield f"line    µops  {'ports':{width}}  latency  instruction"
    for number, mark, slots, usage, latency, text in rows:
        yield f"{number:4} {mark:2} {slots:4}  {usage:{width}} {latency:>8}  {text}"
    yield "* on the slowest chain from iteration to iteration, c on the critical path of an iteration,"
    yield "+ fused with the jump after it, ? nothing is known of it"
    yield from facts.port_notes


def mark_of(facts: PredictionFacts, position: int) -> str:
    """Return the marks of an instruction in the listing: `?`, or up to two of `*`, `c` and `+`."""
    if not facts.bounds.block.items[position].known:
        return "?"
    marks = "*" * (position in facts.on_cycle) + "c" * (position in facts.on_path)
    return (marks + "+" * facts.bounds.block.fused[position])[:2]
