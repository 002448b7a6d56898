"""Rules that an instructions.xml must follow so that other tools can read it: `uopscope db check`.

Each rule is one function in `RULES`, with the reader that needs it: uiCA's converter or OSACA's importer.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from results.database.reader import fault_of
from results.model import SPECIAL_FORMS, WRITTEN_PORT_USAGE, Form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from results.database.reader import ArchitectureResult, Entry, LatencyRow

FORMS = "|".join(form.suffix for form in SPECIAL_FORMS)
"""The endings of attributes of special forms, as a part of regular expressions."""

INTEGER_ATTRIBUTES = re.compile(
    r"(uops|uops_retire_slots|uops_MITE|uops_MS|div_cycles|complex_decoder|available_simple_decoders)"
    rf"({FORMS})?"
    r"|(some_)?ports_by_time|issue_slots"
    r"|(slower|faster)_with_\w+|slower_after_\w+|bypass_\w+"
)
LATENCY_CYCLES = re.compile(r"((min_|max_)?cycles(_(addr|addr_index|mem))?|(min_|max_)cycles_\w+?)(_same_reg)?")
UPPER_BOUND = re.compile(r"\w*cycles\w*_is_upper_bound")
PORTS = re.compile(WRITTEN_PORT_USAGE)
"""OSACA's importer reads the counts, and AMD's resources (FP01) besides ports; `r01` are ports found by time alone."""

THROUGHPUT = re.compile(rf"TP_(unrolled|loop|ports)({FORMS})?")
OPERAND_TYPES = {"reg", "mem", "imm", "agen", "relbr", "dfv"}
"""OSACA knows all but `dfv` (default flags), which is written as an immediate."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that an entry breaks; `architecture` is "" where the instruction itself does."""

    rule: str
    string: str
    architecture: str
    what: str


@dataclass(frozen=True, slots=True)
class EntryRule:
    """A rule, who needs it, and what checks it on one entry."""

    name: str
    needed_by: str
    check: Callable[[Entry], Iterator[tuple[str, str]]]


@dataclass(slots=True)
class Extent:
    """How much of the instruction set a file has results of; filled while its entries are checked.

    `results`: the number of variants by architecture. `with_ports`: architectures with a port usage, `counted`: with
    one that was counted. `anchors`: whether the anchor has one, by architecture, where it was measured at all.
    """

    variants: int = 0
    results: Counter[str] = field(default_factory=Counter)
    with_ports: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    anchors: dict[str, bool] = field(default_factory=dict)

    def note(self, entry: Entry) -> None:
        """Take in an entry."""
        self.variants += 1
        self.results.update(entry.results.keys())
        for name, result in entry.results.items():
            values = result.measurement or {}
            has_ports = "ports" in values
            if has_ports:
                self.with_ports.add(name)
            if has_ports and "ports_by_time" not in values:
                self.counted.add(name)
            if entry.variant.iform == ANCHOR_IFORM:
                self.anchors[name] = self.anchors.get(name, False) or has_ports

    @property
    def without_anchor(self) -> list[str]:
        """The architectures with port usages in which the anchor has none, but those that contradict themselves.

        They are a part, or time alone does not tell the anchor's ports: there are as many as issue slots.
        """
        return sorted(one for one in self.with_ports.difference(self.contradictory) if not self.anchors.get(one))

    @property
    def contradictory(self) -> list[str]:
        """The architectures with counted ports in which the anchor was measured, but has none."""
        return sorted(name for name in self.counted & self.anchors.keys() if not self.anchors[name])


def check_entries(entries: Iterable[Entry], extent: Extent | None = None) -> Iterator[Violation]:
    """Yield every violation, those of the whole file last.

    A variant that was not measured breaks no rule. `extent` is told what there is.
    """
    extent = Extent() if extent is None else extent
    strings: dict[str, str] = {}
    keys: dict[str, str] = {}
    for entry in entries:
        for rule in RULES:
            for architecture, what in rule.check(entry):
                yield Violation(rule.name, entry.variant.string, architecture, what)
        yield from _twice("unique-string", strings, entry.variant.string, entry.variant.string)
        yield from _twice("unique-key", keys, entry.variant.key, entry.variant.string)
        extent.note(entry)
    for architecture in extent.contradictory:
        yield Violation("anchor", ANCHOR_IFORM, architecture, "it has no ports, which uiCA needs")


def needed_by(rule: str) -> str:
    """Return the readers that need a rule, "" if it is about the file as a whole."""
    return next((one.needed_by for one in RULES if one.name == rule), "")


ANCHOR_IFORM = "AND_GPRv_IMMb"
"""uiCA's converter takes the ports of this iform as those of every ALU operation of an architecture."""


def _twice(rule: str, seen: dict[str, str], value: str, string: str) -> Iterator[Violation]:
    if value in seen:
        yield Violation(rule, string, "", f"{value!r} stands also at {seen[value]!r}")
    seen[value] = string


def _named(entry: Entry) -> Iterator[tuple[str, str]]:
    for name in ("iform", "string", "category", "asm", "extension"):
        if not getattr(entry.variant, name):
            yield "", f"the attribute {name} is empty"


def _operand_types(entry: Entry) -> Iterator[tuple[str, str]]:
    for operand in entry.variant.operands:
        if operand.kind.value not in OPERAND_TYPES and not operand.suppressed:
            yield "", f"operand {operand.index} is of the type {operand.kind.value}, but not suppressed"


def _latency_operands(entry: Entry) -> Iterator[tuple[str, str]]:
    named = {operand.index: operand.name for operand in entry.variant.operands}
    for result, row in _latencies(entry):
        for index in (row.start, row.target):
            if not named.get(index):
                yield result.architecture, f"a latency refers to operand {index}, which does not exist or has no name"


def _latency_values(entry: Entry) -> Iterator[tuple[str, str]]:
    for result, row in _latencies(entry):
        for name, value in row.values.items():
            if UPPER_BOUND.fullmatch(name):
                if value != "1":
                    yield result.architecture, f'{name}="{value}", expected "1"'
            elif name == "spread":
                if not re.fullmatch(r"\d+\.\d\d", value):
                    yield result.architecture, f'{name}="{value}" is not a number with two decimals'
            elif LATENCY_CYCLES.fullmatch(name):
                if not value.isdigit():
                    yield result.architecture, f'{name}="{value}" is not a whole number of cycles'
            else:
                yield result.architecture, f"unknown latency attribute {name}"


def _latency_pairs(entry: Entry) -> Iterator[tuple[str, str]]:
    for result, row in _latencies(entry):
        for name in row.values:
            if name.startswith("min_") and not UPPER_BOUND.fullmatch(name) and "max_" + name[4:] not in row.values:
                yield result.architecture, f"{name} without {'max_' + name[4:]}"
            if UPPER_BOUND.fullmatch(name) and name.removesuffix("_is_upper_bound") not in row.values:
                yield result.architecture, f"{name} of a value that is not there"


def _integers(entry: Entry) -> Iterator[tuple[str, str]]:
    for result in entry.results.values():
        for name, value in (result.measurement or {}).items():
            if INTEGER_ATTRIBUTES.fullmatch(name) and not value.isdigit():
                yield result.architecture, f'{name}="{value}" is not a whole number'


def _ports(entry: Entry) -> Iterator[tuple[str, str]]:
    for result in entry.results.values():
        for name, value in (result.measurement or {}).items():
            if re.fullmatch(rf"some_ports|ports({FORMS})?", name) and not PORTS.fullmatch(value):
                yield result.architecture, f'{name}="{value}" is not of the form 1*p0156+1*p06'


def _throughputs(entry: Entry) -> Iterator[tuple[str, str]]:
    for result in entry.results.values():
        values = result.measurement or {}
        for name, value in values.items():
            if THROUGHPUT.fullmatch(name) and not _DECIMALS.fullmatch(value):
                yield result.architecture, f'{name}="{value}" is not a number with two decimals'
        missing = [name for name in ("TP_unrolled", "TP_loop", "TP_ports") if name not in values]
        if "ports" in values and missing:
            yield result.architecture, f"a port usage without {', '.join(missing)}"


def _divider(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield cycles of a divider without the time in a loop, which uiCA's converter takes instead on a Haswell."""
    for result in entry.results.values():
        values = result.measurement or {}
        for form in Form:
            time = f"TP_loop{form.suffix}"
            if f"div_cycles{form.suffix}" in values and time not in values:
                yield result.architecture, f"div_cycles{form.suffix} without {time}"


APART = 1.25
"""Times of unrolled code and of a loop of a form may differ by this factor: rhythms of real cores differ so much."""

ROUNDED = 0.01
"""Throughputs have two decimals: in cycles, the most that two of them differ by when both are rounded."""


def _contradictions(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield throughputs that cannot both be true.

    No code is faster than its ports allow. If unrolled code of the plain form is as fast as a loop of it, the same
    holds for every other form. If not, unrolled instances wait for something that those in the loop do not wait for.
    """
    for result in entry.results.values():
        values = numbers(result.measurement or {})
        for form, name in product(Form, ("TP_unrolled", "TP_loop")):
            time, least = values.get(name + form.suffix), values.get(f"TP_ports{form.suffix}")
            if time is not None and least is not None and time + ROUNDED < least / APART:
                yield result.architecture, f"{name}{form.suffix} {time:.2f} is less than its ports allow, {least:.2f}"
        for form in SPECIAL_FORMS:
            if is_dubious(values, form):
                times = [f"{name} {values[name]:.2f}" for name in _times(form)]
                yield result.architecture, f"{' and '.join(times)} are times of the same code"


def _times(form: Form) -> tuple[str, str]:
    return f"TP_unrolled{form.suffix}", f"TP_loop{form.suffix}"


def is_dubious(values: Mapping[str, float], form: Form) -> bool:
    """Whether unrolled code is clearly slower than a loop of it, in this form but not in the plain one."""
    return _waits(values, form) and not _waits(values, Form.PLAIN)


def _waits(values: Mapping[str, float], form: Form) -> bool:
    """Whether unrolled code of a form is clearly slower than a loop of it."""
    unrolled, looped = (values.get(name) for name in _times(form))
    return unrolled is not None and looped is not None and unrolled > looped * APART + ROUNDED


def numbers(measurement: Mapping[str, str]) -> dict[str, float]:
    """Return the attributes of a measurement that have two decimals."""
    return {name: float(value) for name, value in measurement.items() if _DECIMALS.fullmatch(value)}


_DECIMALS = re.compile(r"\d{1,9}\.\d\d")


def _sentinels(entry: Entry) -> Iterator[tuple[str, str]]:
    for result in entry.results.values():
        rows = [result.measurement or {}, *(row.values for row in result.latencies)]
        for name, value in ((name, value) for row in rows for name, value in row.items()):
            if reason := fault_of(name, value):
                yield result.architecture, f'{name}="{value}" is {reason}'


def _latencies(entry: Entry) -> Iterator[tuple[ArchitectureResult, LatencyRow]]:
    return ((result, row) for result in entry.results.values() for row in result.latencies)


RULES = (
    EntryRule("named", "uiCA, OSACA", _named),
    EntryRule("operand-types", "OSACA", _operand_types),
    EntryRule("latency-operands", "uiCA", _latency_operands),
    EntryRule("latency-values", "uiCA, OSACA", _latency_values),
    EntryRule("latency-pairs", "OSACA", _latency_pairs),
    EntryRule("integers", "uiCA", _integers),
    EntryRule("ports", "uiCA, OSACA", _ports),
    EntryRule("throughputs", "OSACA", _throughputs),
    EntryRule("divider", "uiCA", _divider),
    EntryRule("contradictions", "all", _contradictions),
    EntryRule("sentinels", "all", _sentinels),
)
