"""Compares inferred latencies with those of a machine."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from results.model import Bound
from results.whole_cycles import whole_cycles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.machine.graph import Endpoint
    from results.model import LatencyResult
    from simulator.machines.truth import Truth
    from xed_convert.model import InstructionVariant


def undefined_flags(variant: InstructionVariant) -> set[str]:
    """Return the flags that the variant leaves undefined: models write them, inference does not measure them."""
    return {flag for operand in variant.operands for flag, access in operand.flags.items() if access == "undef"}


def meant(
    variant: InstructionVariant, truth: Truth, result: LatencyResult
) -> Iterator[tuple[Endpoint, Endpoint, Fraction]]:
    """Yield the model's latencies that a result stands for: all flags where it names none.

    A chain into a flag writes all flags besides CF, so one of these as a source stands for them all. With the same
    register in all operands all of them are the source.
    """
    equal = {operand.index for operand in variant.explicit_registers}
    undefined = undefined_flags(variant)
    if result.same_register and truth.same_register:
        truth = truth.same_register
    table: Mapping[tuple[Endpoint, Endpoint], Fraction] = truth.latencies
    if result.fast_values and truth.fast_latencies:
        table = truth.fast_latencies
    for (start, end), cycles in table.items():
        if (
            (start.part, end.operand) == (result.part, result.destination)
            and (start.operand == result.source or (result.same_register and start.operand in equal))
            and (result.source_flag in {"", start.flag} or "CF" not in {result.source_flag, start.flag})
            and result.destination_flag in {"", end.flag}
            and end.flag not in undefined
        ):
            yield start, end, cycles


def expected(variant: InstructionVariant, truth: Truth, result: LatencyResult) -> Fraction | None:
    """Return the model's latency for a result (None: no path), the longest over what the result stands for."""
    found = [cycles for _, _, cycles in meant(variant, truth, result)]
    return max(found) * (1 - truth.eliminated_share) if found else None


SUBTRACTED = 10
"""Cycles of links and breakers that are subtracted from a long chain."""


def judge(variant: InstructionVariant, truth: Truth, result: LatencyResult, share: Fraction = Fraction(0)) -> str:
    """Return how a result compares to the model; `share` is the systematic error of counters.

    `port contention`: an exact result is more than the model's longest path, but by fewer cycles than the instruction
    has other µops. They want the same ports when the input arrives. A machine with that latency would behave the same.
    """
    wanted = expected(variant, truth, result)
    if wanted is None:
        idiom = result.same_register and result.cycles == 0
        return "right" if idiom else "not told" if result.bound is Bound.UPPER else "no dependency"
    unseen = share * (wanted + SUBTRACTED)
    if result.bound is Bound.UPPER:
        return "bound" if result.cycles >= wanted - Fraction(1, 20) - unseen else "bound too low"
    if abs(result.cycles - wanted) <= Fraction(1, 5) + unseen:
        return "right"
    said = whole_cycles(result)
    if said.is_bound:
        return "bound" if said.least >= wanted - unseen else "bound too low"
    return "port contention" if truth.uops > 1 and wanted < result.cycles < wanted + truth.uops else "wrong"


def missing(variant: InstructionVariant, truth: Truth, found: Iterable[LatencyResult]) -> list[tuple[int, int]]:
    """Return the operands (source, destination) between which the model has a latency, but nothing was found."""
    undefined = undefined_flags(variant)
    pairs = {(start.operand, end.operand) for start, end in truth.latencies if end.flag not in undefined}
    known = {(result.source, result.destination) for result in found}
    return sorted(pairs - known)
