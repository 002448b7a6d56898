"""The iform of records that give none: ICLASS and a name for each operand that is neither internal nor suppressed."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xed_convert.datafiles.operand_spec import OperandSpec
    from xed_convert.datafiles.records import Record

_SUFFIX = re.compile(r"_S[RBE]$")
_FIELD = re.compile(r"_[RBNEI].*$")
_NUMBERED = {"MEM0": "MEM", "MEM1": "MEM", "IMM0": "IMM", "IMM1": "IMM"}


def iform_of(record: Record, specs: tuple[OperandSpec, ...]) -> str:
    """Return the iform that the record gives, or the one that XED makes from its operands."""
    if record.iform:
        return record.iform
    shown = [spec for spec in specs if not spec.internal and spec.visibility != "SUPPRESSED"]
    return "_".join([record.iclass, *(_operand_name(spec) for spec in shown)])


def _operand_name(spec: OperandSpec) -> str:
    """Return an operand's part of the iform."""
    if spec.nonterminal:
        oc2 = spec.oc2
        base = nonterminal_base(spec.nonterminal)
        return base if base == "X87" or (oc2 == "v" and base.endswith("v")) else base + oc2
    if spec.register:
        oc2 = spec.oc2
        return spec.register + ("" if oc2 == "f80" else oc2)
    return _NUMBERED.get(spec.name, spec.name) + spec.oc2


@cache
def nonterminal_base(name: str) -> str:
    """Return a register nonterminal's name without the field that it reads: GPRv_R and VGPRv_B are both GPRv."""
    base = _FIELD.sub("", _SUFFIX.sub("", name)).removeprefix("FINAL_")
    return base.replace("VGPR", "GPR", 1) if base.startswith("VGPR") else base
