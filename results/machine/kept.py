"""Results that wait for the register that they go to, although the catalogue says that it is only written.

A file states such a wait as `result_dependency`. Where it does not, this rule stands in: a legacy instruction that
writes less than 128 bits of a vector register keeps the rest of it (MOVSD between registers; Intel SDM volume 2B). So
it waits for it as long as for its first other register.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from results.machine.facts import Cycles, LatencyPair
from results.model import LatencyPart

if TYPE_CHECKING:
    from results.machine.facts import VariantFacts
    from xed_convert.model import InstructionVariant

VECTOR_BITS = 128


def with_kept_registers(variant: InstructionVariant, facts: VariantFacts) -> VariantFacts:
    """Return facts with the latency from a register that is only written to its result there, if there is one."""
    target = variant.only_written
    if target is None:
        return facts
    rule = 0 if kept_register(variant) is None else _first_latency(facts, target.index)
    cycles = facts.result_dependency or rule
    if not cycles:
        return facts
    own = {LatencyPair(target.index, LatencyPart.NONE, target.index): Cycles(cycles, cycles)}
    return replace(facts, latencies={**facts.latencies, **own})


def kept_register(variant: InstructionVariant) -> int | None:
    """Return the operand whose other bits the encoding keeps, although the catalogue says that it is only written."""
    target = variant.only_written
    if target is None or not target.registers[0].startswith("XMM"):
        return None
    is_legacy = variant.attributes.keys().isdisjoint(("vex", "evex"))
    return target.index if is_legacy and (target.width_bits or VECTOR_BITS) < VECTOR_BITS else None


def _first_latency(facts: VariantFacts, target: int) -> int:
    """Return the latency from the first register that has one, 0 if none has."""
    known = {pair.source: one.cycles for pair, one in facts.latencies.items() if _is_register_pair(pair, target)}
    return known[min(known)] if known else 0


def _is_register_pair(pair: LatencyPair, target: int) -> bool:
    return pair.target == target and pair.part is LatencyPart.NONE
