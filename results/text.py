"""Conclusions as short texts for people: cycles, latencies, machines, durations, bars."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from results.model import LatencyPart
from results.model import is_by_time as has_made_up_name
from results.whole_cycles import NEAR_WHOLE, whole_cycles
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from results.model import LatencyKey, LatencyResult, PortUsage, Provenance
    from xed_convert.model import InstructionVariant

UNKNOWN = "?"
CERTAIN = f"+{UNKNOWN} behind ports: there may be further µops, whose ports are not known"
FREE = "none or ≥"
"""Stands before a number of ports (`results.findings.ports_if_any`)."""
FREE_MEANS = f"{FREE}N: no port is used, or any of N or more, so many that nothing keeps all of them busy"
BY_TIME = "ports were inferred by time alone: counts are cycles that a port is occupied, and no µops"
NAMES = "r0, r1 ... are ports whose published names are not known"

PART_NAMES = {
    LatencyPart.NONE: "",
    LatencyPart.ADDRESS: " addr",
    LatencyPart.ADDRESS_INDEX: " index",
    LatencyPart.MEMORY: " mem",
}


def by_time_text(usages: Iterable[PortUsage]) -> str:
    """Say what port usages mean that were inferred by time alone, and what the names in them stand for."""
    made_up = any(has_made_up_name(port) for usage in usages for ports in usage.uops for port in ports)
    return f"{BY_TIME}; {NAMES}" if made_up else BY_TIME


def counted(number: int, noun: str) -> str:
    """Return a number with a noun: `1 loop`, `2 loops`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def first_of(names: Sequence[str], most: int) -> str:
    """List the first names, and say how many more there are: `ADC, ADD and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def cycles_text(cycles: Fraction) -> str:
    """Write cycles for people: an integer as such, anything else with two decimals."""
    return str(cycles.numerator) if cycles.denominator == 1 else f"{float(cycles):.2f}"


def latency_text(latency: LatencyResult) -> str:
    """Write a latency's cycles: `4`, `≤4`, `[≤6;≤7]`, `[0;1]`, `90.30±0.90` (`results.whole_cycles`)."""
    least, most, is_bound = whole_cycles(latency)
    mark = "≤" if is_bound else ""
    if least < most:
        return f"[{mark}{least};{mark}{most}]" if least else f"[{least};{most}]"
    if not is_bound and abs(latency.cycles - least) > NEAR_WHOLE:
        return f"{cycles_text(latency.cycles)}±{cycles_text(latency.spread or latency.cycles)}"
    return f"{mark}{least}"


def pair_text(latency: LatencyResult | LatencyKey, variant: InstructionVariant | None) -> str:
    """Write the source and destination of a latency: `2→1`, `CF→1`, `2 addr→1`; the variant says which are flags."""
    source = _operand_text(latency.source, latency.source_flag, variant) + PART_NAMES[latency.part]
    return f"{source}→{_operand_text(latency.destination, latency.destination_flag, variant)}"


def latency_name(latency: LatencyResult | LatencyKey, variant: InstructionVariant | None) -> str:
    """Write the name of a latency: `2→1`, `2→1 (same register)`, `3→1 (fast operand values)`."""
    circumstances = [
        text
        for text, holds in (("same register", latency.same_register), ("fast operand values", latency.fast_values))
        if holds
    ]
    return pair_text(latency, variant) + (f" ({', '.join(circumstances)})" if circumstances else "")


def latencies_text(latencies: Iterable[LatencyResult], variant: InstructionVariant | None) -> str:
    """Write all latencies of a variant: `1→1 1; 2→1 3 (same reg 1); CF→1 ≤2; 3→1 26 (fast 21)`."""
    groups: dict[str, dict[str, list[LatencyResult]]] = defaultdict(lambda: defaultdict(list))
    for latency in latencies:
        groups[pair_text(latency, variant)][_circumstances(latency)].append(latency)
    return "; ".join(f"{pair} {_group_text(group)}" for pair, group in groups.items())


def _group_text(group: dict[str, list[LatencyResult]]) -> str:
    """Write the latencies of one pair: the plain one first, then the special ones."""
    texts = {what: latency_text(min(found, key=lambda each: each.cycles)) for what, found in group.items()}
    plain = texts.pop("", "")
    special = ", ".join(f"{what} {text}" for what, text in texts.items() if text != plain)
    if not plain:
        return special
    return f"{plain} ({special})" if special else plain


def _circumstances(latency: LatencyResult) -> str:
    return " ".join(
        word for word, holds in (("same reg", latency.same_register), ("fast", latency.fast_values)) if holds
    )


def _operand_text(index: int, flag: str, variant: InstructionVariant | None) -> str:
    if flag:
        return flag
    is_flags = variant is not None and any(
        operand.index == index and operand.kind is OperandKind.FLAGS for operand in variant.operands
    )
    return "flags" if is_flags else str(index)


def machine_text(provenance: Provenance) -> str:
    """Describe the machine of some results in a line; a model is called a model."""
    if provenance.is_model:
        return f"{provenance.architecture}: {provenance.cpu} (a model, not a CPU), backend {provenance.backend}"
    details = [provenance.cpu_signature, provenance.microcode and f"microcode {provenance.microcode}"]
    known = ", ".join(filter(None, details))
    return f"{provenance.architecture}: {provenance.cpu}{f' ({known})' if known else ''}, backend {provenance.backend}"


def duration_text(seconds: float) -> str:
    """Write a duration: `0.42 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def taken_text(seconds: float, lost_seconds: float, consequence: str = "throughputs may be too high") -> str:
    """Write a duration.

    If other users of the core took a second or more, say how much, and warn of the consequence if it is a large share.
    """
    lost = f", {duration_text(lost_seconds)} of it lost to other users of the core" if lost_seconds >= 1 else ""
    busy = f"; the machine was busy, {consequence}" if lost and lost_seconds >= BUSY_SHARE * seconds else ""
    return duration_text(seconds) + lost + busy


BUSY_SHARE = 0.1
"""A run that lost this share of its time was on a busy machine: a quiet one loses less than a second."""


EIGHTHS = " ▏▎▍▌▋▊▉"
"""Blocks of no to seven eighths of a character's width."""


def bar(share: Fraction | float, characters: int) -> str:
    """Return a bar of blocks: a share of 1 is so many characters long, one below 0 has no bar."""
    whole, eighths = divmod(round(max(share, 0) * characters * 8), 8)
    return "█" * whole + EIGHTHS[eighths].strip()
