"""Values on their way from vector and mask registers to general-purpose registers and flags, and back.

Time alone does not tell the ports of such instructions. But different ones keep each other waiting: MOVQ RDX, XMM0 and
CVTTSD2SI RAX, XMM1 take two cycles together on a Zen 4. So they share a unit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from results.machine.graph import VECTORS, written_flags
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.machine.constants import CoreConstants
    from xed_convert.model import InstructionVariant, Operand

MASKS = "K"
"""How the names of mask registers begin."""

FOREIGN = (*VECTORS, MASKS, "ST", "CR", "DR", "CS", "DS", "ES", "FS", "GS", "SS", "BND", "TMM", "GDTR", "IDTR", "LDTR")
"""How the names of registers begin that are not general-purpose ones."""


class TransferUnit(StrEnum):
    """What transfers share; each is busy for as long as the instruction takes alone."""

    TO_GENERAL = "values to general-purpose registers"
    SIGNS = "signs to general-purpose registers"
    TO_VECTORS = "values to vector registers"


def transfer_unit(variant: InstructionVariant, core: CoreConstants) -> TransferUnit | None:
    """Return the unit that a variant shares with others, None if it makes no transfer or the core has no such units."""
    registers = [operand for operand in variant.operands if operand.explicit and operand.kind is OperandKind.REGISTER]
    implicit = any(operand.suppressed and operand.registers and operand.written for operand in variant.operands)
    in_memory = any(operand.kind is OperandKind.MEMORY for operand in variant.operands)
    if core.transfers is None or implicit or in_memory:
        return None
    read = [operand for operand in registers if operand.read and not operand.opmask]
    if writes_general(variant) and _any_of(read, (*VECTORS, MASKS)):
        is_apart = variant.iclass.removeprefix("V") in core.transfers.apart
        return TransferUnit.SIGNS if is_apart else TransferUnit.TO_GENERAL
    written = [operand for operand in registers if operand.written]
    if not written and _any_of(read, VECTORS) and any(map(written_flags, variant.operands)):
        return TransferUnit.TO_GENERAL
    if _any_of(written, (*VECTORS, MASKS)) and any(map(_is_general, read)):
        return TransferUnit.TO_VECTORS
    return None


def writes_general(variant: InstructionVariant) -> bool:
    """Whether an explicit general-purpose register is written."""
    return any(operand.explicit and operand.written and _is_general(operand) for operand in variant.operands)


def _any_of(operands: Iterable[Operand], kinds: tuple[str, ...]) -> bool:
    return any(operand.registers[0].startswith(kinds) for operand in operands)


def _is_general(operand: Operand) -> bool:
    return operand.kind is OperandKind.REGISTER and not operand.registers[0].startswith(FOREIGN)
