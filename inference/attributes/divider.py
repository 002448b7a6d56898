"""How long an instruction keeps the divider busy, by time alone, if there is no counter for it.

One instance is put among divisions that are known to use the divider:

    12 DIVPS XMM1, XMM0 ...; VDIVSD       12 * 7 cycles, plus the instance's time on the divider
    18 DIVPS XMM1, XMM0 ...; VDIVSD       6 more divisions: 42 more cycles

The slope is the time of one division. The intercept is the instance's time on the divider. It is zero for an
instruction that only shares the divisions' port. Three numbers of divisions must lie on a line. Other µops of the
instance may delay a division on their port. So the result is never more than the instance's own throughput, and two
kinds of divisions must give the same number. Operand values are slow ones, as with the counter.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from generator.operands.values import kinds_of, values_of
from generator.sequences.blocking import CodeKind, Combiner, kind_of
from inference.experiment import Procedure, Request, Want
from results.findings import DivisionTime, DivisionTimes
from results.model import Derivation
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.builder import ConclusionBuilder
    from inference.context import Context

COUNTER = "divider_active"
"""The counter that says it."""

BUSY, BY_TIME = "div_cycles", "div_cycles_by_time"
"""The attribute, and the one that marks it."""

DIVISIONS = {
    CodeKind.WITHOUT_AVX: ("DIVPS (XMM, XMM)", "DIVPD (XMM, XMM)"),
    CodeKind.WITHOUT_SSE: ("VDIVPS (XMM, XMM, XMM)", "VDIVPD (XMM, XMM, XMM)"),
    CodeKind.WIDE: ("VDIVPS (XMM, XMM, XMM)", "VDIVPD (XMM, XMM, XMM)"),
}
"""Divisions of one µop, which the divider of vectors serves, by the code that they stand in."""

FEWEST = 12
"""Divisions: as many as have registers of their own, and longer than the latency of one."""

MOST = 40
"""Divisions: three quarters of the smallest schedulers hold them."""

LEAST_CYCLES = 2
"""Cycles of a division, at least: what takes less needs no divider."""

NEAR = Fraction(1, 4)
"""Cycles by which the time left over may be off a whole number, and times off a line."""


def measure_divider(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude for how many cycles an instance keeps the divider busy, if its time depends on operand values."""
    values = kinds_of(found.variant)
    if found.first is None or found.fastest is None or COUNTER in context.counters or len(values) < 2:
        return
    # An instance waits for itself in the copy before: the divisions have to last longer
    few = min(MOST, max(FEWEST, 2 * ceil(found.first.cycles / 3)))
    counts = (few, few * 3 // 2, few * 2)
    divisions = DIVISIONS[kind_of(found.variant)]
    try:
        combiner = Combiner(context.instructions, found.variant, values_of(found.variant, values[0]))
        variants = [context.instructions.variant(one) for one in divisions]
        codes = [combiner.combined([(one, count)]) for one in variants for count in counts]
    except UopscopeError:
        return
    measured = yield [Request(code, Want.CYCLES, loop=context.loops_only) for code in codes]
    size = len(counts)
    beside = {one: measured[n * size : (n + 1) * size] for n, one in enumerate(divisions)}
    ran = {one: [each.cycles for each in some] for one, some in beside.items() if all(each.ok for each in some)}
    if not ran:
        return
    steps = [_judged(one, counts, cycles) for one, cycles in ran.items()]
    found.derivations.append(Derivation(BUSY, tuple(steps), tuple(one.id for one in codes)))
    possible = {one.left for one in steps if one.left is not None and one.left <= found.fastest.cycles + NEAR}
    if len(possible) == 1:
        found.attributes.update({BUSY: possible.pop(), BY_TIME: 1})


def _judged(division: str, counts: Sequence[int], cycles: Sequence[Fraction]) -> DivisionTimes:
    """Return what is left over for the instance, if the times lie on a line."""
    first, middle, last = cycles
    each = (last - first) / (counts[-1] - counts[0])
    left = first - counts[0] * each
    is_line = abs(middle - left - counts[1] * each) <= NEAR and each >= LEAST_CYCLES
    whole = is_line and abs(left - round(left)) <= NEAR and round(left) >= LEAST_CYCLES
    times = tuple(DivisionTime(count, one) for count, one in zip(counts, (first, middle, last), strict=True))
    return DivisionTimes(division, times, each, round(left) if whole else None)
