"""Addresses in memory for the instances of a sequence.

    read only      MOV RAX, [R14]    MOV RBX, [R14]        all the same place
    written        MOV [R14], RAX    MOV [R14+8], RAX      side by side; a cache line apart in another sequence
    caches only    PREFETCHT0 [R14]  PREFETCHT0 [R14+64]   a cache line apart

Two loads of a cycle must not use the same bank of the level-1 data cache in different lines. On Zen 4 loads of two
lines at the same offset take 0.50 or 0.75 cycles (three loads per cycle: 0.33 or 0.58). Those of one line never take
more than 0.50. Two stores are committed in one cycle if they belong to the same half of the same line. A MOV to memory
takes 0.50 cycles side by side, and 1.00 a line apart (Zen 4; Ice Lake and later are alike, Intel's optimization manual,
"Store bandwidth"). Other cores may differ, so both are measured.
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


def nearer(instances: Sequence[Instance]) -> list[Instance]:
    """Return instances, whose places are `SLOT_BYTES` apart, with places side by side, or with one for all."""
    if not instances or (step := _step(instances[0].variant)) == SLOT_BYTES:
        return list(instances)
    indices = [operand.index for operand in memory_operands(instances[0].variant)]
    return [
        Instance(one.variant, {**one.values, **{index: _moved(one.values[index], slot, step) for index in indices}})
        for slot, one in enumerate(instances)
    ]


def is_written(variant: InstructionVariant) -> bool:
    """Whether it writes places that could be side by side or apart."""
    return 0 < _step(variant) < SLOT_BYTES


def has_line_each(variant: InstructionVariant) -> bool:
    """Whether each instance has a cache line for itself."""
    return bool(memory_operands(variant)) and _step(variant) == SLOT_BYTES


def is_changed(variant: InstructionVariant) -> bool:
    """Whether it reads and writes a place, so that the next instance with that place waits for it."""
    return any(operand.read and operand.written for operand in memory_operands(variant))


def memory_operands(variant: InstructionVariant) -> list[Operand]:
    """Return the operands that are memory at an address that is free to choose."""
    return [operand for operand in variant.operands if operand.kind is OperandKind.MEMORY and operand.explicit]


def _step(variant: InstructionVariant) -> int:
    """Return the distance of an instance's place from the last one's (0: all have the same)."""
    memory = memory_operands(variant)
    if not any(operand.written for operand in memory):
        # What writes nothing at all is there for the sake of the cache
        return 0 if memory and any(operand.written for operand in variant.operands) else SLOT_BYTES
    widest = max((operand.width_bits or 8 * SLOT_BYTES) // 8 for operand in memory)
    return min(SLOT_BYTES, max(LEAST_BYTES, 1 << (widest - 1).bit_length()))


def _moved(value: OperandValue, slot: int, step: int) -> OperandValue:
    assert isinstance(value, MemoryAddress)
    return replace(value, displacement=value.displacement + slot * (step - SLOT_BYTES))
