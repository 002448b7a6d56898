"""How long an instruction keeps the divider busy, by time alone, if there is no counter for it.

One instance is put among divisions that are known to use the divider:

    12 DIVPS XMM1, XMM0 ...; VDIVSD       12 * 7 cycles, plus the instance's time on the divider
    18 DIVPS XMM1, XMM0 ...; VDIVSD       6 more divisions: 42 more cycles

The slope is the time of one division. The intercept is the instance's time on the divider. It is zero for an
instruction that only shares the divisions' port. Three numbers of divisions must lie on a line. Other µops of the
instance may delay a division on their port. So the result is never more than the instance's own throughput, and all
kinds of divisions that give a result must give the same one. Operand values are slow ones, as with the counter.

Vector divisions have one µop each, so they use the divider if they take longer than a cycle. There may be another
divider for integers. Integer divisions have several µops, which could keep a port busy for as long. So they count only
if they take fewer issue slots than cycles. Divisions among NOPs tell the slots: their time, less the NOPs and less
what overwrites the operands.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from generator.operands.values import kinds_of
from generator.sequences.blocking import CodeKind, kind_of, register_files
from generator.sequences.divisions import IntegerDivisions, among_vectors
from inference.experiment import Procedure, Request, Want
from results.findings import DivisionTime, DivisionTimes
from results.model import Derivation
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.builder import ConclusionBuilder
    from inference.context import Context
    from xed_convert.model import InstructionVariant

COUNTER = "divider_active"
"""The counter of cycles in which the divider is busy."""

BUSY, BY_TIME = "div_cycles", "div_cycles_by_time"
"""Attributes: cycles for which an instance keeps the divider busy; and the mark that they were found by time."""

DIVISIONS = {
    CodeKind.WITHOUT_AVX: ("DIVPS (XMM, XMM)", "DIVPD (XMM, XMM)"),
    CodeKind.WITHOUT_SSE: ("VDIVPS (XMM, XMM, XMM)", "VDIVPD (XMM, XMM, XMM)"),
    CodeKind.WIDE: ("VDIVPS (XMM, XMM, XMM)", "VDIVPD (XMM, XMM, XMM)"),
}
"""Divisions of one µop, which the divider of vectors serves, by the code that they stand in."""

INTEGER_DIVISIONS = ("DIV (R32)", "IDIV (R32)")
"""Divisions of few µops, which an integer divider serves where there is one."""

FEWEST_INTEGER = 4
"""Divisions of integers: with 16 issue slots each, twice as many fit into a reorder buffer of 128."""

NOPS_PER_CYCLE = 8
"""NOPs for each cycle of a division: more than any core issues, so that issue is what limits the code with them."""

FEWEST = 12
"""Divisions: as many as have registers of their own, and longer than the latency of one."""

MOST = 40
"""Divisions: three quarters of the smallest schedulers hold them."""

LEAST_CYCLES = 2
"""Cycles of a division, at least: a faster instruction needs no divider."""

NEAR = Fraction(1, 4)
"""Cycles by which the time left over may be off a whole number, and times off a line."""


def measure_divider(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude for how many cycles an instance keeps the divider busy, if its time depends on operand values."""
    variant = found.variant
    if found.first is None or found.fastest is None or COUNTER in context.counters or len(kinds_of(variant)) < 2:
        return
    # An instance waits for itself in the copy before: the divisions have to last longer
    few = min(MOST, max(FEWEST, 2 * ceil(found.first.cycles / 3)))
    made: list[Microbenchmark] = []
    steps: list[DivisionTimes] = []
    for name in DIVISIONS[kind_of(variant)]:
        division = context.instructions.variant(name)
        steps += yield from _timed(
            name, few, partial(among_vectors, context.instructions, variant, division), made, loop=context.loops_only
        )
    if register_files(variant) <= {"GPR"}:
        for name in INTEGER_DIVISIONS:
            steps += yield from _among_integers(variant, context, name, made)
    if not steps:
        return
    found.derivations.append(Derivation(BUSY, tuple(steps), tuple(one.id for one in made)))
    possible = {one.left for one in steps if one.left is not None and one.left <= found.fastest.cycles + NEAR}
    if len(possible) == 1:
        found.attributes.update({BUSY: possible.pop(), BY_TIME: 1})


def _timed(
    division: str, few: int, code: Callable[[int], Microbenchmark], made: list[Microbenchmark], *, loop: bool = False
) -> Procedure[list[DivisionTimes]]:
    """Time an instance among `few` divisions, half as many more, and twice as many; return [] if they did not run."""
    counts = (few, few * 3 // 2, few * 2)
    try:
        codes = [code(count) for count in counts]
    except UopscopeError:
        return []
    measured = yield [Request(one, Want.CYCLES, loop=loop) for one in codes]
    made += codes
    return [_judged(division, counts, [one.cycles for one in measured])] if all(one.ok for one in measured) else []


def _among_integers(
    variant: InstructionVariant, context: Context, name: str, made: list[Microbenchmark]
) -> Procedure[list[DivisionTimes]]:
    """Time an instance among divisions of integers, if these need a divider."""
    divisions = IntegerDivisions(context.instructions, context.instructions.variant(name))
    times = yield from _timed(name, FEWEST_INTEGER, partial(divisions.among, variant), made, loop=context.loops_only)
    if not times or times[0].left is None:
        return times
    nops = ceil(NOPS_PER_CYCLE * times[0].each)
    codes = [divisions.among_nops(FEWEST_INTEGER, number) for number in (nops, 2 * nops)]
    few, many = yield [Request(one, Want.CYCLES, loop=True) for one in codes]
    made += codes
    slots = None
    if few.ok and many.ok and many.cycles > few.cycles:
        # Issue limits both, so the time of a NOP is their difference divided by the additional NOPs
        slots = few.cycles * nops / (many.cycles - few.cycles) - nops - (len(divisions.lines) - 1)
    few_enough = slots is not None and slots + NEAR < times[0].each
    return [times[0] if few_enough else replace(times[0], left=None)]


def _judged(division: str, counts: Sequence[int], cycles: Sequence[Fraction]) -> DivisionTimes:
    """Return the instance's own cycles on the divider, if the times lie on a line."""
    first, middle, last = cycles
    each = (last - first) / (counts[-1] - counts[0])
    left = first - counts[0] * each
    is_line = abs(middle - left - counts[1] * each) <= NEAR and each >= LEAST_CYCLES
    # Where something else delays divisions, too, they take no whole or half number of cycles
    is_line &= counts[0] * abs(each - Fraction(round(2 * each), 2)) <= NEAR
    whole = is_line and abs(left - round(left)) <= NEAR and round(left) >= LEAST_CYCLES
    times = tuple(DivisionTime(count, one) for count, one in zip(counts, (first, middle, last), strict=True))
    return DivisionTimes(division, times, each, round(left) if whole else None)
