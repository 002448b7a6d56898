"""Addresses in memory for the instances of a sequence.

    read only      MOV RAX, [R14]    MOV RBX, [R14+8]      side by side in one cache line, again and again
    written        MOV [R14], RAX    MOV [R14+8], RAX      side by side; a cache line apart in another sequence
    caches only    PREFETCHT0 [R14]  PREFETCHT0 [R14+64]   a cache line apart

Two loads of a cycle must not use the same bank of the level-1 data cache in different lines. On Zen 4 loads of two
lines at the same offset take 0.50 or 0.75 cycles (three loads per cycle: 0.33 or 0.58). Those of one line never take
more than 0.50. On Emerald Rapids, three loads of a cycle must not all use the same 8 bytes of a line. A MOV from one
place takes 0.50 cycles, from places side by side 0.33. Two stores are committed in one cycle if they belong to the same
half of the same line. A MOV to memory takes 0.50 cycles side by side, and 1.00 a line apart (Zen 4; Ice Lake and later
are alike, Intel's optimization manual, "Store bandwidth"). Other cores may differ, so both are measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from generator.operands.allocation import SLOT_BYTES
from xed_convert.model import Instance, MemoryAddress, Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xed_convert.model import InstructionVariant, OperandValue

LEAST_BYTES = 8
"""Distance of places side by side, at least: stores to bytes that adjoin are slower than to words 8 bytes apart."""


def nearer(instances: Sequence[Instance], read_slot: int = 0) -> list[Instance]:
    """Return instances, whose places are `SLOT_BYTES` apart, with places side by side.

    What is only read stays within one cache line: that of slot `read_slot`.
    """
    if not instances or has_line_each(variant := instances[0].variant):
        return list(instances)
    indices = [operand.index for operand in memory_operands(variant)]
    places = [slot * _bytes(variant) for slot in range(len(instances))]
    if not is_written(variant):
        places = [read_slot * SLOT_BYTES + place % SLOT_BYTES for place in places]
    moves = [place - slot * SLOT_BYTES for slot, place in enumerate(places)]
    return [
        Instance(one.variant, {**one.values, **{index: _moved(one.values[index], move) for index in indices}})
        for one, move in zip(instances, moves, strict=True)
    ]


def is_written(variant: InstructionVariant) -> bool:
    """Whether it writes places that could be side by side or apart."""
    return writes_memory(variant) and _bytes(variant) < SLOT_BYTES


def has_line_each(variant: InstructionVariant) -> bool:
    """Whether each instance has a cache line for itself."""
    if writes_memory(variant):
        return _bytes(variant) == SLOT_BYTES
    # What writes nothing at all is there for the sake of the cache
    return bool(memory_operands(variant)) and not any(operand.written for operand in variant.operands)


def is_changed(variant: InstructionVariant) -> bool:
    """Whether it reads and writes a place, so that the next instance with that place waits for it."""
    return any(operand.read and operand.written for operand in memory_operands(variant))


def writes_memory(variant: InstructionVariant) -> bool:
    """Whether it writes memory at an address that is free to choose."""
    return any(operand.written for operand in memory_operands(variant))


def memory_operands(variant: InstructionVariant) -> list[Operand]:
    """Return the operands that are memory at an address that is free to choose."""
    return [operand for operand in variant.operands if operand.kind is OperandKind.MEMORY and operand.explicit]


def _bytes(variant: InstructionVariant) -> int:
    """Return the distance of places side by side, `LEAST_BYTES` to `SLOT_BYTES`."""
    widest = max((o.width_bits or 8 * SLOT_BYTES for o in memory_operands(variant)), default=0) // 8
    return min(SLOT_BYTES, max(LEAST_BYTES, 1 << (widest - 1).bit_length()))


def _moved(value: OperandValue, move: int) -> OperandValue:
    assert isinstance(value, MemoryAddress)
    return replace(value, displacement=value.displacement + move)
