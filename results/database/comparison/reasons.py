"""Reasons why a published value may differ from ours: rules about numbers and operands, never about names.

    published 1.00 (its own ports need 0.67), ours 0.67: AS_PORTS, ours is what the published ports need
    published 0.43, a load alone 0.50, ours 0.50: BELOW_LOAD, the published value is less than its load takes

A rule is evidence from the two tables alone, not a proof. A difference that no rule explains is left to people. So is
one by more than `MOST_APART`, if the only evidence is that ours is less.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from results.database.comparison.published import overlap, split_string
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from results.database.comparison.published import Latency, Published, Tolerance
    from results.database.reader import ArchitectureResult
    from xed_convert.model import InstructionVariant

TWICE = Fraction(106, 100)
"""Two times that differ by no more than this factor are the same time, measured twice (two runs differ by 5 %)."""

MOST_APART = 2
"""A factor: one dependency or conflict more may double a time. Values that are further apart are of other work, such as
other operand values or a failed request, or one of them is wrong. No table tells which."""

CONSTANTS = frozenset({OperandKind.IMMEDIATE, OperandKind.RELATIVE_BRANCH, OperandKind.DEFAULT_FLAGS})
"""What an instruction reads of its own bytes: nothing depends on it."""

PARTIAL_BITS = 16
"""Bits: an instruction that writes no more of a register than this keeps the rest of it."""


@dataclass(frozen=True, slots=True)
class PlainLoads:
    """The least published throughput of plain loads in cycles, by the kinds of their operands: ("XMM", "M128")."""

    least: Mapping[tuple[str, str], Fraction]

    @classmethod
    def of(cls, rows: Iterable[tuple[Published, InstructionVariant]]) -> PlainLoads:
        """Find them: what moves data, and has one register and one memory operand that it reads."""
        found: dict[tuple[str, str], Fraction] = {}
        for row, variant in rows:
            operands = tuple(_operands(variant))
            if row.throughput is None or variant.category != "DATAXFER" or len(operands) != 2:
                continue
            if operands[0] in VECTORS and operands[1].startswith("M"):
                key = (operands[0], operands[1])
                found[key] = min(found.get(key, row.throughput), row.throughput)
        return cls(found)

    def within(self, variant: InstructionVariant) -> Fraction | None:
        """Return what the load takes that an instruction with vectors contains (None: not known)."""
        operands = list(_operands(variant))
        registers = [name for name in operands if name in VECTORS]
        memory = [name for name in operands if name.startswith("M") and name[1:].isdigit()]
        known = registers and memory and variant.read_memory
        return self.least.get((registers[0], memory[0])) if known else None


VECTORS = ("XMM", "YMM", "ZMM")


def _operands(variant: InstructionVariant) -> Iterable[str]:
    return (part for part in split_string(variant.string)[1].strip("()").split(", ") if part)


@dataclass(frozen=True, slots=True)
class TimeCase:
    """A throughput that differs: `published` and `ours` in cycles, and all that there is to know of both."""

    row: Published
    variant: InstructionVariant
    result: ArchitectureResult
    published: Fraction
    ours: Fraction
    tolerance: Tolerance
    loads: PlainLoads

    def near(self, one: Fraction, other: Fraction) -> bool:
        """Whether two throughputs agree."""
        return abs(one - other) <= max(self.tolerance.share * other, self.tolerance.cycles)

    def measured(self, *names: str) -> list[Fraction]:
        """Return numbers of ours: those of attributes that may hold several."""
        values = self.result.measurement or {}
        return [Fraction(text) for name in names for text in values.get(name, "").split()]


def _below_ports(case: TimeCase) -> bool:
    computed = case.row.computed
    if computed is None or not case.near(case.ours, computed):
        return False
    return case.published < computed * (1 - case.tolerance.share) + Fraction(1, 200)


def _below_load(case: TimeCase) -> bool:
    load = case.loads.within(case.variant)
    return load is not None and case.published < load * (1 - case.tolerance.share) and case.near(case.ours, load)


def _is_faster(case: TimeCase) -> bool:
    """Whether ours is less, and by no more than one conflict explains."""
    return case.ours < case.published <= case.ours * MOST_APART


def _as_ports(case: TimeCase) -> bool:
    computed = case.row.computed
    return computed is not None and _is_faster(case) and case.near(case.ours, computed)


def _is_possible(case: TimeCase) -> bool:
    """Whether ours is no less than the published ports allow, as far as these are known."""
    computed = case.row.computed
    return computed is None or case.ours >= computed or case.near(case.ours, computed)


def _twice(case: TimeCase) -> bool:
    times = case.measured("TP_unrolled", "TP_loop")
    again = len(times) == 2 and max(times) < case.published and max(times) <= min(times) * TWICE
    return again and _is_faster(case) and _is_possible(case)


def _rhythm(case: TimeCase) -> bool:
    others = case.measured("TP_unrolled", "TP_loop", "rhythms_unrolled", "rhythms_loop")
    slower = case.ours < case.published and any(case.near(case.published, one) for one in others)
    return slower and _is_possible(case)


@dataclass(frozen=True, slots=True)
class LatencyCase:
    """A latency that differs, or a range of them. `of_all` says that the range is over all pairs of operands."""

    variant: InstructionVariant
    published: Latency
    ours: Latency
    tolerance: Tolerance
    of_all: bool = True

    @property
    def greatest_agree(self) -> bool:
        """Whether the greatest latencies agree."""
        return overlap(self.published.greatest, self.ours.greatest, self.tolerance)


def _is_zero(case: LatencyCase) -> bool:
    operands = [one for one in case.variant.operands if one.kind not in CONSTANTS]
    pairs = sum(one.read for one in operands) * sum(one.written for one in operands)
    is_of_another_pair = case.of_all and pairs > 1 and case.greatest_agree
    return is_of_another_pair and case.published.least.high == 0 < case.ours.least.low


def _conditional(case: LatencyCase) -> bool:
    """Whether flags are written on a condition, and what was published for all operand values holds ours."""
    is_conditional = any(o.kind is OperandKind.FLAGS and o.conditional_write for o in case.variant.operands)
    holds = case.published.least.low <= case.ours.least.high and case.ours.greatest.low <= case.published.greatest.high
    return is_conditional and holds


def _merged(case: LatencyCase) -> bool:
    operands = [o for o in case.variant.operands if o.kind is OperandKind.REGISTER and o.written and not o.read]
    partial = any(0 < (o.width_bits or 0) <= PARTIAL_BITS and o.explicit for o in operands)
    is_of_the_rest = case.of_all and partial and case.greatest_agree
    return is_of_the_rest and case.published.least.high < case.ours.least.low


def _faster(case: LatencyCase) -> bool:
    pairs = ((case.published.least, case.ours.least), (case.published.greatest, case.ours.greatest))
    apart = [(theirs, ours) for theirs, ours in pairs if not overlap(theirs, ours, case.tolerance)]
    return bool(apart) and all(ours.high < theirs.low <= ours.high * MOST_APART for theirs, ours in apart)


@dataclass(frozen=True, slots=True)
class DifferenceReason:
    """A rule, and what it means where it holds."""

    name: str
    text: str


BELOW_PORTS = DifferenceReason(
    "below ports", "the published value is less than the published ports allow, and ours equals what they need"
)
BELOW_LOAD = DifferenceReason(
    "below load", "the published value is less than that of its load alone, and ours equals the load's"
)
AS_PORTS = DifferenceReason("as ports", "ours is less, and equals what the published ports need")
TWICE_LESS = DifferenceReason("twice less", "ours is less, and was measured twice: unrolled and in a loop")
RHYTHM = DifferenceReason("rhythm", "ours is less, and other code or another rhythm of ours takes the published time")
ZERO = DifferenceReason("zero", "the published 0 is of a pair without a dependency; the greatest latencies agree")
CONDITION = DifferenceReason(
    "condition", "flags are written on a condition, and ours is in the published range over operand values"
)
MERGED = DifferenceReason("merged", "the published range counts the rest of a partly written register as an input")
FASTER = DifferenceReason("faster chain", "a chain of ours takes less time than the published latency allows")

TIME_RULES: tuple[tuple[DifferenceReason, Callable[[TimeCase], bool]], ...] = (
    (BELOW_PORTS, _below_ports),
    (BELOW_LOAD, _below_load),
    (AS_PORTS, _as_ports),
    (TWICE_LESS, _twice),
    (RHYTHM, _rhythm),
)
LATENCY_RULES: tuple[tuple[DifferenceReason, Callable[[LatencyCase], bool]], ...] = (
    (ZERO, _is_zero),
    (CONDITION, _conditional),
    (MERGED, _merged),
    (FASTER, _faster),
)
"""The first that holds is the reason."""

TEXTS = {reason.name: reason.text for reason, _ in (*TIME_RULES, *LATENCY_RULES)}
"""What each reason means, by name, in the order in which they are tried."""


def reason_of_time(case: TimeCase) -> str:
    """Return the name of the rule that explains a throughput ("": none does)."""
    return next((reason.name for reason, holds in TIME_RULES if holds(case)), "")


def reason_of_latency(case: LatencyCase) -> str:
    """Return the name of the rule that explains a latency ("": none does)."""
    return next((reason.name for reason, holds in LATENCY_RULES if holds(case)), "")
