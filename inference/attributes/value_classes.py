"""Whether operand values change an instruction's time: denormals, NaN, zeros, masks, counts, lengths.

The same code is measured with the usual values and with those of each class (`generator.chains.value_classes`). A
difference that exceeds noise is noted in cycles.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from generator.chains.value_classes import timed_classes
from results.findings import ClassTime
from results.model import VALUE_CLASSES, Derivation
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from inference.builder import ConclusionBuilder
    from inference.context import Context
    from inference.experiment import Measured, Procedure

LEAST_CYCLES = Fraction(1, 2)
"""Cycles. A dependence on values costs or saves a whole cycle; half of it is more than noise."""

LEAST_SHARE = Fraction(3, 100)
"""Share of the time. Each of two measurements may be off by 1 %."""

SPREADS = 4
"""Times the spreads of both measurements (half the distances between quartiles) that a difference must exceed."""


def measure_value_classes(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Note the classes of values with which an instruction takes another time, in cycles beyond the usual ones."""
    try:
        timed = timed_classes(context.instructions, found.variant)
    except (UopscopeError, LookupError):
        return
    if not timed:
        return
    answers = yield [context.calibrations.request(code) for _, code in timed]
    usual = answers[0]
    if not usual.ok:
        return
    steps: list[ClassTime] = []
    for (one, _), measured in zip(timed, answers, strict=True):
        if not measured.ok:
            continue
        steps.append(ClassTime(one.name, one.text, measured.cycles))
        more = round(measured.cycles - usual.cycles)
        if more and differs(usual, measured):
            found.attributes[f"{'slower' if more > 0 else 'faster'}_with_{one.name}"] = abs(more)
    if any(name.partition("_with_")[1] for name in found.attributes):
        ids = tuple(code.id for (_, code), one in zip(timed, answers, strict=True) if one.ok)
        found.derivations.append(Derivation(VALUE_CLASSES, tuple(steps), ids))


def differs(usual: Measured, other: Measured) -> bool:
    """Whether two times differ by more than noise."""
    apart = abs(other.cycles - usual.cycles)
    spread = usual.cycles_spread + other.cycles_spread
    return apart >= max(LEAST_CYCLES, LEAST_SHARE * max(usual.cycles, other.cycles), SPREADS * spread)
