"""The data of a page, as plain values that templates only arrange."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from results import sentences
from results.database.cycles import range_cycles
from results.findings import NoPorts, Unplaced
from results.model import SPECIAL_FORMS, Form, PortUsage, port_order, port_set_name
from results.ports import least_choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from results.database.reader import ArchitectureResult, Entry, LatencyRow
    from xed_convert.model import Operand

_NOT_IN_FILE_NAMES = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class OperandView:
    """A row of the table of operands."""

    index: int
    name: str
    kind: str
    access: str
    width_bits: str
    values: str


@dataclass(frozen=True, slots=True)
class LatencyCell:
    """A cell of the latency matrix: lines as `≤ 5 (address)`, and whether all of them are upper bounds."""

    lines: tuple[str, ...]
    bound: bool


@dataclass(frozen=True, slots=True)
class Matrix:
    """Latencies with sources as rows and destinations as columns; `rows` pairs a source with its cells."""

    destinations: tuple[str, ...]
    rows: tuple[tuple[str, tuple[LatencyCell | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class PortBar:
    """A port and the µops that an even distribution puts on it; `share` is in percent of the fullest port."""

    port: str
    load: str
    share: int


@dataclass(frozen=True, slots=True)
class Throughputs:
    """A meaning of throughput with its value, its spread, and the values of slower rhythms ("" if there are none)."""

    meaning: str
    value: str
    spread: str
    rhythms: str = ""


@dataclass(frozen=True, slots=True)
class ArchitectureSummary:
    """One architecture's numbers in a line: the cells of the big table and of the comparison beside a variant."""

    architecture: str
    uops: str
    ports: str
    throughput: str
    latency: str
    page: str


def slug(string: str) -> str:
    """Return a variant's string as a file name: `ADC_11 (R64, R64)` is `adc-11-r64-r64`."""
    return _NOT_IN_FILE_NAMES.sub("-", string.lower()).strip("-") or "x"


def slugs(strings: Iterable[str]) -> dict[str, str]:
    """Return unique file names for strings; where two would be the same, the later ones are numbered."""
    seen: Counter[str] = Counter()
    names = {}
    for string in strings:
        name = slug(string)
        seen[name] += 1
        names[string] = name if seen[name] == 1 else f"{name}-{seen[name]}"
    return names


def operand_views(entry: Entry) -> list[OperandView]:
    """Return the operands for people, the flags one by one."""
    return [
        OperandView(
            operand.index,
            operand.name,
            _kind(operand),
            _access(operand),
            str(operand.width_bits or ""),
            _allowed(operand),
        )
        for operand in entry.variant.operands
    ]


_KINDS = {
    "reg": "register",
    "mem": "memory",
    "imm": "immediate",
    "agen": "address",
    "relbr": "branch",
    "dfv": "default flags",
}


def _kind(operand: Operand) -> str:
    kind = _KINDS.get(operand.kind.value, operand.kind.value)
    return f"{kind} (implicit)" if operand.suppressed or operand.implicit else kind


def _access(operand: Operand) -> str:
    access = ("r" if operand.read else "") + ("w" if operand.written else "")
    return f"{access} (conditional)" if operand.conditional_write else access


def _allowed(operand: Operand) -> str:
    if operand.flags:
        return ", ".join(f"{flag}: {access}" for flag, access in sorted(operand.flags.items()))
    return ", ".join(collapse(operand.registers)) or operand.value


def collapse(registers: Iterable[str]) -> list[str]:
    """Write runs of numbered registers as one: YMM0, YMM1, YMM2 as YMM0-YMM2."""
    found: list[str] = []
    last = ("", -2)
    for register in registers:
        match = re.fullmatch(r"([A-Z]+)(\d+)", register)
        place = (match[1], int(match[2])) if match else (register, -2)
        if match and place == (last[0], last[1] + 1):
            found[-1] = f"{found[-1].split('-')[0]}-{register}"
        else:
            found.append(register)
        last = place
    return found


def latency_matrix(entry: Entry, result: ArchitectureResult) -> Matrix | None:
    """Return the matrix of latencies, or None if there is none."""
    if not result.latencies:
        return None
    names = {operand.index: _operand_name(operand) for operand in entry.variant.operands}
    sources = sorted({row.start for row in result.latencies})
    targets = sorted({row.target for row in result.latencies})
    cells = {(row.start, row.target): _cell(row) for row in result.latencies}
    return Matrix(
        tuple(names.get(target, str(target)) for target in targets),
        tuple(
            (names.get(source, str(source)), tuple(cells.get((source, target)) for target in targets))
            for source in sources
        ),
    )


def _operand_name(operand: Operand) -> str:
    """Return an operand as a row or column is called: `1 (REG0)`, or the only register that it can be, as `2 (RAX)`."""
    only = operand.registers[0] if len(operand.registers) == 1 else ""
    return f"{operand.index} ({'flags' if operand.flags else only or operand.name or operand.kind.value})"


_PARTS = {"": "", "addr": "address", "addr_index": "index", "mem": "memory"}


def _cell(row: LatencyRow) -> LatencyCell:
    lines, bounds = [], []
    for name, value in sorted(row.values.items()):
        if "cycles" not in name or name.endswith("_is_upper_bound") or name.startswith("max_"):
            continue
        bound = f"{name}_is_upper_bound" in row.values
        if name.startswith("min_"):
            value = f"{value}; {row.values.get('max_' + name[4:], '?')}"  # noqa: PLW2901 - both ends of a range
        lines.append(f"{'≤ ' if bound else ''}{value}{_remark(name)}")
        bounds.append(bound)
    lines += _maxima(row.values)
    return LatencyCell(tuple(lines), bool(bounds) and all(bounds))


def _maxima(values: Mapping[str, str]) -> list[str]:
    """Return lines for maxima without minima, which published files have."""
    alone = [name for name in sorted(values) if name.startswith("max_") and not name.endswith("_is_upper_bound")]
    return [
        f"{'≤ ' if f'{name}_is_upper_bound' in values else ''}{values[name]}{_remark(name)}"
        for name in alone
        if "min_" + name[4:] not in values
    ]


def _remark(name: str) -> str:
    plain = re.sub(r"^(min|max)_", "", name).removesuffix(Form.SAME_REGISTER.suffix)
    part = _PARTS.get(plain.removeprefix("cycles").lstrip("_"), "")
    form = Form.SAME_REGISTER if name.endswith(Form.SAME_REGISTER.suffix) else Form.PLAIN
    remarks = [remark for remark in (part, form.words) if remark]
    return f" ({', '.join(remarks)})" if remarks else ""


def port_bars(usage: PortUsage, ports: Iterable[str]) -> list[PortBar]:
    """Return each port's load if every µop is distributed evenly over the ports that it can use."""
    loads: dict[str, Fraction] = {port: Fraction(0) for port in sorted(ports, key=port_order)}
    for allowed, count in usage.uops.items():
        for port in allowed:
            loads[port] = loads.get(port, Fraction(0)) + Fraction(count, len(allowed))
    fullest = max(loads.values(), default=Fraction(0)) or Fraction(1)
    return [
        PortBar(port_set_name(frozenset({port})), f"{float(load):.2f}", round(100 * load / fullest))
        for port, load in loads.items()
    ]


def throughput_views(values: Mapping[str, str]) -> list[Throughputs]:
    """Return the three meanings of throughput, for each form that has them."""
    meanings = {
        "TP_unrolled": "unrolled",
        "TP_loop": "in a loop",
        "TP_ports": "computed from the port usage",
    }
    return [
        Throughputs(
            meaning + (f", {form.words}" if form.words else ""),
            values[name + form.suffix],
            values.get(f"{name}{form.suffix}_spread", ""),
            values.get(f"{name.replace('TP', 'rhythms')}{form.suffix}", "").replace(" ", ", "),
        )
        for name, meaning in meanings.items()
        for form in Form
        if name + form.suffix in values
    ]


def ports_text(result: ArchitectureResult) -> str:
    """Return the port usage of every form that has one of its own."""
    values = result.measurement or {}
    plain = values.get("ports", "none" if values.get("uops") == "0" else _unknown_ports(result))
    special = [(form, values.get(f"ports{form.suffix}", "")) for form in SPECIAL_FORMS]
    return "; ".join([plain, *(f"{ports} ({form.words})" for form, ports in special if ports)])


def _unknown_ports(result: ArchitectureResult) -> str:
    """Say what is known of ports where the usage is not: how many there are at least, if there are any."""
    values = result.measurement or {}
    times = [Fraction(values[name]) for name in ("TP_unrolled", "TP_loop") if name in values]
    is_free = "some_ports" not in values and any(failure.reason == _FREE for failure in result.failures)
    choice = least_choice(times) if is_free else None
    return "not known" if choice is None else f"none, or {choice} or more to choose from"


_FREE = sentences.reason(NoPorts(Form.PLAIN, Unplaced(PortUsage({}), None)))
"""Why the ports are not known of what no set of ports delays, as files state it."""


def summary(result: ArchitectureResult, page: str) -> ArchitectureSummary:
    """Return an architecture's numbers in a line."""
    values = result.measurement or {}
    throughputs = [float(values[name]) for name in ("TP_unrolled", "TP_loop") if name in values]
    return ArchitectureSummary(
        result.architecture,
        values.get("uops", ""),
        values.get("ports", ""),
        f"{min(throughputs):.2f}" if throughputs else "",
        latency_range(result),
        page,
    )


def headline(result: ArchitectureResult) -> str:
    """Return the answer in a sentence, as `Latency 1 cycle; up to 4 per cycle; 1 µop; ports 1*p06.`; "" without any."""
    values = result.measurement or {}
    found = summary(result, "")
    phrases = []
    if found.latency:
        by_operands = ", depending on the operands" if "-" in found.latency else ""
        phrases.append(f"Latency {found.latency.replace('-', ' to ')} cycle{'s' * (found.latency != '1')}{by_operands}")
    if found.throughput:
        cycles = float(found.throughput)
        often = "one per cycle" if cycles == 1 else f"one every {cycles:g} cycles"
        phrases.append(f"up to {1 / cycles:.1f} per cycle" if 0 < cycles < 1 else often)
    if found.uops:
        phrases.append(f"{found.uops} µop{'s' * (found.uops != '1')}")
    if found.ports:
        phrases.append(f"ports {found.ports}" + (", by time alone" if values.get("ports_by_time") == "1" else ""))
    text = "; ".join(phrases)
    return text[:1].upper() + text[1:] + "." if text else ""


def latency_range(result: ArchitectureResult) -> str:
    """Return the least and greatest latency as `1-5`, either with ≤ if it is only a bound; "" without any.

    The least may be that of fast operand values only (divisions).
    """
    cycles = sorted({int(number) for row in result.latencies for number in range_cycles(row.values)})
    exact = {int(number) for row in result.latencies for number in range_cycles(row.values, exact=True)}
    ends = cycles[:1] + cycles[1:][-1:]
    return "-".join(str(one) if one in exact else f"≤{one}" for one in ends)


@dataclass(frozen=True, slots=True)
class PortSet:
    """A set of ports, how many variants have µops for exactly these, and what blocks them ("" if nothing does)."""

    ports: str
    variants: int
    blocker: str
    throughput: str


def port_sets(found: Iterable[tuple[Entry, ArchitectureResult]]) -> list[PortSet]:
    """Return all port sets in use, smaller ones first, each with the fastest instruction of one µop for just these."""
    counts: Counter[frozenset[str]] = Counter()
    blockers: dict[frozenset[str], tuple[float, str]] = {}
    for entry, result in found:
        values = result.measurement or {}
        usage = PortUsage.parse(values.get("ports", "")).uops
        counts.update(usage.keys())
        uops = values.get("uops", str(sum(usage.values())))
        if uops == "1" and len(usage) == 1 and "TP_unrolled" in values and not result.failures:
            (ports,) = usage
            candidate = float(values["TP_unrolled"]), entry.variant.string
            blockers[ports] = min(blockers.get(ports, candidate), candidate)
    ordered = sorted(counts.items(), key=lambda item: (len(item[0]), sorted(map(port_order, item[0]))))
    return [
        PortSet(
            port_set_name(ports),
            count,
            blockers[ports][1] if ports in blockers else "",
            f"{blockers[ports][0]:.2f}" if ports in blockers else "",
        )
        for ports, count in ordered
    ]


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Why something is not known, of how many variants that is said, and the first of them."""

    reason: str
    variants: int
    example: str


def failures(found: Iterable[tuple[Entry, ArchitectureResult]]) -> list[FailureCount]:
    """Return why something is not known, by reason, the most frequent first."""
    examples: dict[str, list[str]] = defaultdict(list)
    for entry, result in found:
        for reason in dict.fromkeys(failure.reason for failure in result.failures):
            examples[reason].append(entry.variant.string)
    ordered = sorted(examples.items(), key=lambda item: (-len(item[1]), item[0]))
    return [FailureCount(reason, len(strings), strings[0]) for reason, strings in ordered]
