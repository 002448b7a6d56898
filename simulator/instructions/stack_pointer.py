"""Which instructions read the stack pointer as a value, and which only move it or address memory with it.

The stack engine knows by how much PUSH and POP moved RSP. Moves, LEA and addresses have that added. For a value, some
cores bring RSP up to date first (`results.machine.constants.StackEngine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.instructions.locations import location_of
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xed_convert.model import InstructionVariant, OperandValue

STACK_POINTER = "RSP"
"""The location that PUSH and POP move."""

LEAST_MOVED_BITS = 32
"""Bits of a register that a move of the stack pointer overwrites: narrower moves keep the rest of it."""


def reads_stack_pointer(variant: InstructionVariant, values: Mapping[int, OperandValue]) -> bool:
    """Whether an instruction reads RSP as a value.

    Neither a move does, nor an address. But LEA adds RSP and an index in one step if there is no displacement.
    """
    if _is_move(variant):
        return False
    return any(
        place.index and not place.displacement and location_of(place.base) == STACK_POINTER
        if isinstance(place, MemoryAddress)
        else location_of(place) == STACK_POINTER
        for place in _read(variant, values)
    )


def copies_stack_pointer(variant: InstructionVariant, values: Mapping[int, OperandValue]) -> bool:
    """Whether RSP or ESP, or an address that begins with them, is all that an instruction reads."""
    return [
        location_of(place.base if isinstance(place, MemoryAddress) else place) for place in _read(variant, values)
    ] == [STACK_POINTER]


def _read(variant: InstructionVariant, values: Mapping[int, OperandValue]) -> Iterator[str | MemoryAddress]:
    """Yield the registers that an instruction is written with and reads, and the address that LEA computes."""
    for operand in variant.operands:
        value = values.get(operand.index)
        is_read = operand.read if operand.kind is OperandKind.REGISTER else operand.kind is OperandKind.AGEN
        if is_read and isinstance(value, str | MemoryAddress):
            yield value


def _is_move(variant: InstructionVariant) -> bool:
    """Whether it copies one register to another one, and overwrites all of it."""
    widths = [operand.width_bits or 0 for operand in variant.operands if operand.kind is OperandKind.REGISTER]
    return variant.iclass == "MOV" and len(widths) == len(variant.operands) and min(widths) >= LEAST_MOVED_BITS
