"""Domains of vectors: integers and floating-point numbers, between which results may have a bypass delay.

With a bypass delay, a vector register is two locations, one for each domain. A result is available at once in the
domain of its instruction, and later in the other one. The result of a load is available in both at once.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from simulator.core.locations import VECTORS, location_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant


class Domain(StrEnum):
    """What a vector instruction computes with."""

    INTEGER = "integer"
    FLOAT = "float"
    NONE = ""
    """Neither: it only loads, or has no vectors."""


_FLOAT_NAME = re.compile(r".*[PS][SDH](2[A-Z0-9]+)?")
"""Names of instructions on floating-point numbers end with packed or scalar, and the width (Intel SDM, volume 2)."""


def domain_of(variant: InstructionVariant) -> Domain:
    """Return the domain of an instruction."""
    vectors = [
        operand
        for operand in variant.operands
        if operand.kind is OperandKind.REGISTER and operand.registers and location_of(operand.registers[0]) in VECTORS
    ]
    read = any(operand.read for operand in vectors)
    if not vectors or (not read and any(one.kind is OperandKind.MEMORY for one in variant.operands)):
        return Domain.NONE
    return Domain.FLOAT if _FLOAT_NAME.fullmatch(variant.iclass) else Domain.INTEGER


def seen_by_integers(location: str) -> str:
    """Return the location of a vector register as integers see it."""
    return f"{location} of integers"
