"""Values on their way from vector and mask registers to general-purpose registers and flags, and back.

Time alone does not tell the ports of such instructions. But different ones keep each other waiting: MOVQ RDX, XMM0 and
CVTTSD2SI RAX, XMM1 take two cycles together on a Zen 4, and so do COMISD and PTEST. So each two share a unit.

The result comes in through a port of the integer side, which cannot write another result of the same kind in that
cycle. A µop that writes only flags does not keep a register waiting, nor the other way round. The queues of the integer
side do not foresee it: with k µops for any of four ports, a transfer takes 1 + k/4 cycles on a Zen 4.

The units are taken to be independent. One instruction of each takes a cycle or more, up to two and a quarter, depending
on issue slots: COMISD and MOVD take 0.96 cycles in this order, and 2.00 in the other. How is not known.
"""

from __future__ import annotations

from enum import IntFlag, StrEnum
from typing import TYPE_CHECKING

from results.machine.graph import FLAGS, written_flags
from simulator.instructions.locations import GENERAL, is_vector, location_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.machine.constants import CoreConstants
    from xed_convert.model import InstructionVariant, Operand


class Written(IntFlag):
    """What a µop, or a transfer, writes at the end of a port."""

    NOTHING = 0
    REGISTER = 1
    FLAGS = 2


EITHER = int(Written.REGISTER | Written.FLAGS)
"""The bits of `Written`."""

MASKS, MMX = "K", "MM"
"""How the names of mask registers and of MMX registers begin."""


class TransferUnit(StrEnum):
    """What transfers share; each is busy for as long as the instruction takes alone."""

    TO_GENERAL = "values to general-purpose registers"
    TO_FLAGS = "values and signs to flags"
    TO_VECTORS = "values to vector registers"


TO_INTEGER = frozenset({TransferUnit.TO_GENERAL, TransferUnit.TO_FLAGS})
"""The units of transfers whose results come in through a port of the integer side."""


def written_to(places: Iterable[object]) -> Written:
    """Return what is among locations that are written: general-purpose registers, flags, or both."""
    written = set(places)
    registers = Written.NOTHING if written.isdisjoint(GENERAL) else Written.REGISTER
    return registers if written.isdisjoint(FLAGS) else registers | Written.FLAGS


def transfer_unit(variant: InstructionVariant, core: CoreConstants) -> TransferUnit | None:
    """Return the unit that a variant shares with others, None if it makes no transfer or the core has no such units."""
    registers = [operand for operand in variant.operands if operand.explicit and operand.kind is OperandKind.REGISTER]
    implicit = any(operand.suppressed and operand.registers and operand.written for operand in variant.operands)
    in_memory = any(operand.kind is OperandKind.MEMORY for operand in variant.operands)
    if core.transfers is None or implicit:
        return None
    read = [operand for operand in registers if operand.read and not operand.opmask]
    written = [operand for operand in registers if operand.written]
    if not written and any(map(_is_wide, read)) and any(map(written_flags, variant.operands)):
        return TransferUnit.TO_FLAGS
    if in_memory:
        return None
    if writes_general(variant) and any(map(_is_wide, read)):
        is_apart = variant.iclass.removeprefix("V") in core.transfers.apart
        return TransferUnit.TO_FLAGS if is_apart else TransferUnit.TO_GENERAL
    if any(map(_is_wide, written)) and any(map(_is_general, read)):
        return TransferUnit.TO_VECTORS
    return None


def writes_general(variant: InstructionVariant) -> bool:
    """Whether an explicit general-purpose register is written."""
    return any(operand.explicit and operand.written and _is_general(operand) for operand in variant.operands)


def _is_wide(operand: Operand) -> bool:
    """Whether an operand is a vector or a mask."""
    return is_vector(operand) or operand.registers[0].startswith((MASKS, MMX))


def _is_general(operand: Operand) -> bool:
    return operand.kind is OperandKind.REGISTER and location_of(operand.registers[0]) in GENERAL
