"""The numbers of an instructions.xml about one variant on one architecture.

docs/database.md describes the attributes. Files of others leave many of them out; missing numbers are None. If a
latency is a range, the least counts, because the rest is due to the other instructions of the chain. For a division the
greatest counts, and the least is that of fast operand values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from results.model import Form, LatencyPart, PortUsage
from results.ports import is_issued_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from results.database.reader import ArchitectureResult, LatencyRow

UPPER_BOUND = "_is_upper_bound"
SAME_REGISTER = Form.SAME_REGISTER.suffix

PARTS = {
    "cycles": LatencyPart.NONE,
    "cycles_addr": LatencyPart.ADDRESS,
    "cycles_addr_index": LatencyPart.ADDRESS_INDEX,
    "cycles_mem": LatencyPart.MEMORY,
}
"""Attributes of a latency, and which part of its source they are about."""


BY_TIME = ("ports_by_time", "some_ports_by_time")
"""Attributes that say that ports were inferred by time alone."""


@dataclass(frozen=True, slots=True)
class LatencyPair:
    """From which operand (and part of it) to which a latency is: operand indices."""

    source: int
    part: LatencyPart
    target: int


@dataclass(frozen=True, slots=True)
class Cycles:
    """A latency in core cycles; `fast` is that of fast operand values, `bounded` says that it may be less."""

    cycles: int
    fast: int
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class FormFacts:
    """What is known of one form: port usage, µops executed, and how the front end takes it.

    `complex` says whether only the first decoder takes it (None: that is not stated), `simple` how many other decoders
    can work beside it then. `throughput` is the least measured time in core cycles per instruction. `some_ports` are
    the µops that are certain where `ports` is not known, `issue_slots` what time tells of its slots. `by_time`: ports
    were inferred by time alone.
    """

    ports: PortUsage | None = None
    uops: int | None = None
    retire_slots: int | None = None
    decoded: int | None = None
    microcoded: int | None = None
    complex: bool | None = None
    simple: int | None = None
    throughput: Fraction | None = None
    some_ports: PortUsage | None = None
    issue_slots: int | None = None
    by_time: bool = False

    def possible_slots(self, width: int) -> int | None:
        """Return the issue slots that time tells, None if `width` per cycle are too few for them in its throughput."""
        if self.issue_slots is None or self.throughput is None:
            return self.issue_slots
        return self.issue_slots if is_issued_in(self.issue_slots, self.throughput, width) else None


@dataclass(frozen=True, slots=True)
class VariantFacts:
    """All that is known of a variant.

    `latencies` are of different registers, `same_register` where all are one. `macro_fusible` are mnemonics of
    conditional jumps (None: not known; with `fusion_known` the file says it of others, so there are none). A form that
    is nowhere mentioned is not in `forms`. `result_dependency` are core cycles from a register that is only written to
    the result there (0: none is known).
    """

    forms: Mapping[Form, FormFacts] = field(default_factory=dict)
    latencies: Mapping[LatencyPair, Cycles] = field(default_factory=dict)
    same_register: Mapping[LatencyPair, Cycles] = field(default_factory=dict)
    divider_cycles: int = 0
    macro_fusible: frozenset[str] | None = None
    fusion_known: bool = True
    result_dependency: int = 0

    @property
    def plain(self) -> FormFacts:
        """What is known of the plain form."""
        return self.forms.get(Form.PLAIN, FormFacts())


def facts_of(result: ArchitectureResult) -> VariantFacts | None:
    """Return what a file says of a variant, None if nothing was measured.

    Raises:
        ValueError: a value is not of the form of docs/database.md.
    """
    values = result.measurement
    if values is None:
        return None
    divider = int(values.get("div_cycles", 0))
    jumps = values.get("macro_fusible")
    return VariantFacts(
        {form: facts for form in Form if (facts := _form(values, form)) is not None},
        dict(_latencies(result.latencies, "", greatest=divider > 0)),
        dict(_latencies(result.latencies, SAME_REGISTER, greatest=divider > 0)),
        divider,
        frozenset(one.split(" ")[0] for one in jumps.split(";") if one) if jumps is not None else None,
        result_dependency=int(values.get("result_dependency", 0)),
    )


def shortened(facts: VariantFacts) -> VariantFacts:
    """Return facts with one cycle for each latency that is an upper bound: there is no shorter dependency."""

    def least(latencies: Mapping[LatencyPair, Cycles]) -> dict[LatencyPair, Cycles]:
        return {pair: Cycles(1, 1) if one.bounded and one.cycles > 1 else one for pair, one in latencies.items()}

    return replace(facts, latencies=least(facts.latencies), same_register=least(facts.same_register))


def _form(values: Mapping[str, str], form: Form) -> FormFacts | None:
    """Return the facts about a form; a form without ports and µops of its own has those of the plain form."""
    ports = values.get(f"ports{form.suffix}")
    uops, slots, decoded, microcoded, simple = (
        int(text) if (text := values.get(name + form.suffix)) is not None else None
        for name in ("uops", "uops_retire_slots", "uops_MITE", "uops_MS", "available_simple_decoders")
    )
    times = [Fraction(text) for name in ("TP_unrolled", "TP_loop") if (text := values.get(name + form.suffix))]
    known = (ports, uops, slots, decoded, microcoded, *times)
    if form is not Form.PLAIN and all(value is None for value in known):
        return None
    usage = PortUsage.parse(ports) if ports is not None else PortUsage({}) if uops == 0 else None
    stated = values.get(f"complex_decoder{form.suffix}")
    needs = None if stated is None else stated == "1"
    some = PortUsage.parse(values["some_ports"]) if form is Form.PLAIN and "some_ports" in values else None
    timed = int(values["issue_slots"]) if form is Form.PLAIN and "issue_slots" in values else None
    by_time = not values.keys().isdisjoint(BY_TIME)
    fastest = min(times, default=None)
    return FormFacts(usage, uops, slots, decoded, microcoded, needs, simple, fastest, some, timed, by_time)


def _latencies(rows: tuple[LatencyRow, ...], suffix: str, *, greatest: bool) -> Iterator[tuple[LatencyPair, Cycles]]:
    """Yield the latencies whose attributes end with `suffix`."""
    for row in rows:
        for name, part in PARTS.items():
            found = {prefix: row.values.get(f"{prefix}{name}{suffix}") for prefix in _ENDS}
            known = {prefix: int(value) for prefix, value in found.items() if value is not None}
            if not known:
                continue
            prefix = max(known, key=known.__getitem__) if greatest else min(known, key=known.__getitem__)
            bounded = f"{prefix}{name}{suffix}{UPPER_BOUND}" in row.values
            cycles = Cycles(known[prefix], min(known.values()), bounded)
            yield LatencyPair(row.start, part, row.target), cycles


_ENDS = ("", "min_", "max_")
"""What stands before the name of a latency: nothing, or which end of a range it is."""
