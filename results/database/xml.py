"""instructions.xml with measurements: the format that uops.info publishes and that other tools read.

The attributes and the rules for readers are in docs/database.md. Never written: sentinels, negative numbers, empty
`ports`, fractions where readers expect integers. Simulated results are marked (`simulated="1"`). Results of a software
model are in an element of the model's name, never in `<measurement>`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from results.database.reader import Analysis, ArchitectureResult, Entry, LatencyRow
from results.findings import Stated, certain_ports, is_by_time, issue_slots
from results.model import Form, LatencyPart
from results.sentences import failure, reason
from results.whole_cycles import whole_cycles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.model import Characterization, LatencyResult, PortUsage, Provenance, Throughput
    from xed_convert.model import InstructionVariant

MAX_CYCLES = Fraction(1_000_000)
"""Anything above is no throughput or latency of an instruction, but a fault of a measurement: it is not written."""

SOFTWARE_MODELS = {"llvm-mca": "LLVM"}
"""Element names of software models by the name of the backend that asks them."""

PARTS = {
    LatencyPart.NONE: "cycles",
    LatencyPart.ADDRESS: "cycles_addr",
    LatencyPart.ADDRESS_INDEX: "cycles_addr_index",
    LatencyPart.MEMORY: "cycles_mem",
}

_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class ConcludedVariant:
    """What was concluded about one variant and the machine that they are about."""

    result: Characterization
    provenance: Provenance


def measurement_attributes(result: Characterization) -> dict[str, str]:
    """Return the attributes of `<measurement>`: those that are known, in the forms that readers expect."""
    attributes = {name: str(value) for name, value in result.attributes.items() if _NAME.match(name) and value >= 0}
    if result.uops is not None:
        attributes["uops"] = str(result.uops)
    for form, found in result.forms.items():
        attributes |= _ports(found.ports, form.suffix) | _throughput(found.throughput, form.suffix)
    if certain := str(certain_ports(result.failures)):
        attributes["some_ports"] = certain
        if is_by_time(result):
            attributes["some_ports_by_time"] = "1"
    if (slots := issue_slots(result.failures)) is not None:
        attributes["issue_slots"] = str(slots)
    if result.macro_fusible:
        attributes["macro_fusible"] = ";".join(result.macro_fusible)
    for form in Form:  # the rule `divider` of results.database.rules
        if f"TP_loop{form.suffix}" not in attributes:
            attributes.pop(f"div_cycles{form.suffix}", None)
    return attributes


def latency_attributes(latencies: Iterable[LatencyResult]) -> dict[tuple[int, int], dict[str, str]]:
    """Return the attributes of each `<latency>` by its operands (start, target).

    Where flags, operand values or passes differ, `min_` and `max_` stand for the range.
    """
    groups: dict[tuple[int, int], dict[str, list[LatencyResult]]] = defaultdict(lambda: defaultdict(list))
    for latency in latencies:
        if 0 <= latency.cycles <= MAX_CYCLES:
            name = PARTS[latency.part] + ("_same_reg" if latency.same_register else "")
            groups[latency.source, latency.destination][name].append(latency)
    return {
        pair: {attribute: text for name, found in group.items() for attribute, text in _range(name, found).items()}
        | _spread(latency for found in group.values() for latency in found)
        for pair, group in sorted(groups.items())
    }


def rounded(cycles: Fraction) -> int:
    """Round to the nearest integer, halves up."""
    return int(cycles + Fraction(1, 2))


def _spread(latencies: Iterable[LatencyResult]) -> dict[str, str]:
    """Return the greatest spread as an attribute, if any was recorded and shows in two decimals."""
    spread = max((latency.spread for latency in latencies if latency.spread is not None), default=Fraction(0))
    text = f"{float(min(spread, MAX_CYCLES)):.2f}"
    return {"spread": text} if text != "0.00" else {}


def _range(name: str, latencies: list[LatencyResult]) -> dict[str, str]:
    found: dict[int, list[bool]] = defaultdict(list)
    for least, most, is_bound in map(whole_cycles, latencies):
        found[least].append(is_bound and (least == most or least > 0))
        found[most].append(is_bound)
    ends = {"": min(found)} if len(found) == 1 else {"min_": min(found), "max_": max(found)}
    attributes = {}
    for prefix, value in ends.items():
        attributes[prefix + name] = str(value)
        if all(found[value]):
            attributes[f"{prefix}{name}_is_upper_bound"] = "1"
    return attributes


def _ports(ports: PortUsage | None, suffix: str) -> dict[str, str]:
    if ports is None:
        return {}
    return {f"ports{suffix}": str(ports)} if ports.total else {f"uops{suffix}": "0"}


def _throughput(throughput: Throughput, suffix: str) -> dict[str, str]:
    values = {"unrolled": throughput.unrolled, "loop": throughput.loop, "ports": throughput.ports}
    spreads = {"unrolled": throughput.unrolled_spread, "loop": throughput.loop_spread}
    written = {f"TP_{name}{suffix}": value for name, value in values.items()}
    written |= {f"TP_{name}{suffix}_spread": value for name, value in spreads.items() if value}
    rhythms = {"unrolled": throughput.unrolled_rhythms, "loop": throughput.loop_rhythms}
    found = {
        name: f"{float(value):.2f}" for name, value in written.items() if value is not None and 0 <= value <= MAX_CYCLES
    }
    for name, others in rhythms.items():
        if texts := " ".join(f"{float(value):.2f}" for value in others if value <= MAX_CYCLES):
            found[f"rhythms_{name}{suffix}"] = texts
    return found


def _element_name(provenance: Provenance) -> str:
    return SOFTWARE_MODELS.get(provenance.backend, "measurement")


def database_entry(variant: InstructionVariant, conclusions: Iterable[ConcludedVariant]) -> Entry:
    """Put conclusions about a variant, at most one per architecture and kind of element, into a database entry.

    Latencies of operands without a name (the status flags of x87) are left out: uiCA's converter wants one.
    """
    named = frozenset(operand.index for operand in variant.operands if operand.name)
    found: dict[str, ArchitectureResult] = {}
    for conclusion in conclusions:
        name = conclusion.provenance.architecture
        found[name] = _merged(found.get(name, ArchitectureResult(name)), conclusion, named)
    return Entry(variant, found)


def _merged(before: ArchitectureResult, conclusion: ConcludedVariant, named: frozenset[int]) -> ArchitectureResult:
    result, provenance = conclusion.result, conclusion.provenance
    element = _element_name(provenance)
    attributes = measurement_attributes(result)
    if element != "measurement":
        attributes["version"] = provenance.options.get("version", provenance.cpu)
        return replace(before, analyses=(*before.analyses, Analysis(element, attributes)))
    if provenance.is_model:
        attributes["simulated"] = "1"
    rows = latency_attributes(one for one in result.latencies if {one.source, one.destination} <= named)
    return replace(
        before,
        measurement=attributes,
        latencies=tuple(LatencyRow(*pair, values) for pair, values in rows.items()),
        failures=tuple(Stated(reason(one), failure(one)) for one in result.failures),
    )
