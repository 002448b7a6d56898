"""Additions of APX: attributes that tell its encodings apart, the default flags of CCMP and CTEST, names.

Source: the APX datafiles, and the Intel APX architecture specification, section 3.1 (extended EVEX and REX2 prefixes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xed_convert.expansion.facts import EVEX, LEGACY
from xed_convert.expansion.iform import nonterminal_base
from xed_convert.model import Operand, OperandKind

if TYPE_CHECKING:
    from xed_convert.expansion.facts import RecordFacts

PREFIXES = ("NP", "66", "F2", "F3")
"""Implied prefixes by VEX_PREFIX as XED numbers them."""


def is_promoted(facts: RecordFacts) -> bool:
    """Whether a record is an APX one with an EVEX prefix."""
    return facts.is_apx and facts.encoding_space == EVEX


def has_new_data_destination(facts: RecordFacts) -> bool:
    """Whether the destination is a register of its own (in EVEX.vvvv)."""
    return any(spec.name == "REG0" and spec.nonterminal.split("_")[-1] == "N" for spec in facts.specs)


def is_zero_upper(facts: RecordFacts) -> bool:
    """Whether EVEX.ND says that the upper bits of the destination are zeroed (SETcc.ZU, IMUL.ZU)."""
    return facts.record.iform.endswith("_ZU")


def suppresses_flags(facts: RecordFacts) -> bool:
    """Whether the form leaves the flags as they are (NF)."""
    return "APX_NF" in facts.record.attributes


def condition(facts: RecordFacts) -> str:
    """Return the source condition of CCMP and CTEST ("B", "NLE" ...), "" of other instructions."""
    if "DEFAULT_FLAGS" not in facts.record.attributes:
        return ""
    return facts.record.iclass.removeprefix("CCMP").removeprefix("CTEST")


def attributes(facts: RecordFacts) -> dict[str, str]:
    """Return the attributes of a promoted form."""
    value = {name: min(facts.constraints.get(name, frozenset({0}))) for name in ("MAP", "VEX_PREFIX", "NF")}
    scc = condition(facts)
    found = {
        "map": str(value["MAP"]),
        "opcode": f"{facts.opcode:02X}",
        "pp": PREFIXES[value["VEX_PREFIX"]],
        "nf": "0" if scc else str(value["NF"]),
        "ndd": str(int(has_new_data_destination(facts))),
        "zu": "1" if is_zero_upper(facts) else "",
        "scc": scc,
    }
    return {name: text for name, text in found.items() if text}


def default_flags_operand(facts: RecordFacts) -> Operand | None:
    """Return the default flags of CCMP and CTEST, which they set if their condition does not hold; None elsewhere."""
    if not condition(facts):
        return None
    return Operand(0, OperandKind.DEFAULT_FLAGS, "DFV", read=True, width_bits=4)


def extended_registers(facts: RecordFacts) -> dict[str, str]:
    """Return `egpr` where R16 to R31 can be an operand, base or index, and `rex2` where they take a REX2 prefix.

    REX2 works in the legacy maps 0 and 1, except where a pattern excludes it. EVEX prefixes have bits of their own.
    """
    if not any(_is_general(spec.nonterminal) for spec in facts.specs) and "MODRM" not in facts.calls:
        return {}
    if facts.encoding_space == EVEX:
        return {"egpr": "1"}
    excluded = facts.fixes("REX2", 0) or facts.legacy_map > 1
    return {} if facts.encoding_space != LEGACY or excluded else {"egpr": "1", "rex2": "1"}


def _is_general(nonterminal: str) -> bool:
    """Whether a nonterminal stands for encoded general-purpose registers."""
    return bool(nonterminal) and nonterminal_base(nonterminal).startswith(("GPR", "A_GPR"))


def asm_prefix(facts: RecordFacts, *, has_legacy_form: bool) -> str:
    """Return the assembler's prefix of a promoted form."""
    if suppresses_flags(facts):
        return "{nf}"
    unique = has_new_data_destination(facts) or is_zero_upper(facts) or condition(facts)
    return "{evex}" if has_legacy_form and not unique else ""


def name_suffix(facts: RecordFacts, *, has_legacy_form: bool) -> str:
    """Return the suffix of a promoted form's name in `string`."""
    zero_upper = "_ZU" if is_zero_upper(facts) else ""
    return zero_upper + {"{nf}": "_NF", "{evex}": "_EVEX", "": ""}[asm_prefix(facts, has_legacy_form=has_legacy_form)]
