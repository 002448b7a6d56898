"""Domains of vectors: integers, floating-point numbers, others; between two there may be a bypass delay.

With bypass delays, a vector register is a location for each domain. A result is available at once in the domain of its
instruction, and later in the others. The result of a load is available in all at once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simulator.instructions.locations import is_vector
from simulator.machines.bypass import FLOAT, INTEGER
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from simulator.machines.bypass import BypassDelays
    from xed_convert.model import InstructionVariant

_FLOAT_NAME = re.compile(r".*[PS][SDH](2[A-Z0-9]+)?")
"""Names of instructions on floating-point numbers end with packed or scalar, and the width (Intel SDM, volume 2)."""


def domain_of(variant: InstructionVariant, bypass: BypassDelays) -> str:
    """Return the domain of an instruction ("": it only loads, or has no vectors)."""
    vectors = [operand for operand in variant.operands if is_vector(operand)]
    read = any(operand.read for operand in vectors)
    if not vectors or (not read and any(one.kind is OperandKind.MEMORY for one in variant.operands)):
        return ""
    usual = FLOAT if _FLOAT_NAME.fullmatch(variant.iclass) else INTEGER
    return next((domain for iclass, domain in bypass.domains if iclass == variant.iclass), usual)


def seen_by(domain: str, location: str) -> str:
    """Return the location of a vector register as a domain sees it; floating-point numbers see the plain one."""
    return location if domain == FLOAT else f"{location} of {domain}"
