"""Latencies from one kind of register to another, of which only sums are known.

A chain from a vector register to a general-purpose register has to come back by another instruction. So a file has an
upper bound for each of both: the whole way, less the one cycle that the other takes at least. Two bounds in one chain
are almost twice the truth:

    VMOVQ RAX, XMM0; VMOVQ XMM0, RAX      6 cycles on a Zen 4; stated: at most 5, and at most 5

Here each way has a half of the quickest round trip between its two kinds, and what its own bound is above the least
one. So the quickest round trip takes as long as it was measured, however it is divided. Others do if each bound was
measured with a quickest one. The part of a single instruction is a model.

Instructions of SSE have round trips of their own: they are measured with each other. Instructions with memory tell
nothing of the quickest one: a gather clears its mask whatever its index is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from results.machine.facts import UPPER_BOUND, Cycles
from results.machine.graph import tracked
from results.model import LatencyPart
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from results.database.reader import ArchitectureResult
    from results.machine.facts import LatencyPair, VariantFacts
    from xed_convert.model import InstructionVariant, Operand

KINDS = {"XMM": "vector", "YMM": "vector", "ZMM": "vector", "MM": "mmx", "K": "mask", "ST": "x87", "X87": "x87"}
"""Kinds of registers by the beginning of their names. All others, and flags, are general."""

GENERAL = "general"

STATED = "cycles"
"""The attribute of a latency that is not of an address or of memory."""


class RegisterWay(NamedTuple):
    """From which kind of register to which a latency is, and whether both are operands of an instruction of SSE."""

    source: str
    target: str
    is_legacy: bool

    @property
    def back(self) -> RegisterWay:
        """The same in the other direction."""
        return RegisterWay(self.target, self.source, self.is_legacy)


def corrections(found: Iterable[tuple[InstructionVariant, ArchitectureResult]]) -> dict[RegisterWay, int]:
    """Return by how many cycles bounds are longer than the part of the round trip that they get."""
    least: dict[RegisterWay, int] = {}
    for variant, result in found:
        has_memory = any(operand.kind is OperandKind.MEMORY for operand in variant.operands)
        ways = {} if has_memory else _ways(variant)
        for row in result.latencies:
            way = ways.get((row.start, row.target))
            if way is not None and STATED in row.values and STATED + UPPER_BOUND in row.values:
                cycles = int(row.values[STATED])
                least[way] = min(cycles, least.get(way, cycles))
    longer: dict[RegisterWay, int] = {}
    for way, cycles in least.items():
        if way.back in least and way.source < way.target:
            whole = min(cycles, least[way.back]) + 1
            back = whole // 2
            longer |= {way: max(0, back - 1), way.back: max(0, whole - back - 1)}
    return longer


def with_round_trips(
    variant: InstructionVariant, facts: VariantFacts, longer: Mapping[RegisterWay, int]
) -> VariantFacts:
    """Return facts with parts of round trips in the place of upper bounds that are longer by these cycles."""
    ways = _ways(variant)

    def part(pair: LatencyPair, one: Cycles) -> Cycles:
        less = longer.get(ways[pair.source, pair.target]) if (pair.source, pair.target) in ways else None
        if less is None or not one.bounded or pair.part is not LatencyPart.NONE:
            return one
        return Cycles(max(1, one.cycles - less), max(1, one.fast - less))

    if not ways:
        return facts
    return replace(facts, latencies={pair: part(pair, one) for pair, one in facts.latencies.items()})


def _ways(variant: InstructionVariant) -> dict[tuple[int, int], RegisterWay]:
    """Return the pairs of operands whose latency is from one kind of register to another."""
    kinds = {operand.index: kind for operand in variant.operands if (kind := _kind(operand))}
    if len(set(kinds.values())) < 2:
        return {}
    is_legacy = not variant.iclass.startswith(("V", "K"))
    return {
        (source, target): RegisterWay(start, end, is_legacy)
        for source, start in kinds.items()
        for target, end in kinds.items()
        if start != end
    }


def _kind(operand: Operand) -> str:
    """Return the kind of register that an operand is ("": it is none that carries a dependency)."""
    if operand.kind is OperandKind.FLAGS:
        return GENERAL
    if not tracked(operand) or not operand.registers:
        return ""
    name = operand.registers[0]
    return next((kind for begin, kind in KINDS.items() if name.startswith(begin)), GENERAL)
