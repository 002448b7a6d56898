"""Encoding strings out of XED's patterns: a pattern says how to encode as much as how to decode.

The rules are those of the datafiles' own nonterminals (xed-eOSZ.txt, xed-immediates.txt, avx512f/avx512-disp8.txt,
apx-f/apx-evex-dec.txt), here as tables from the nonterminal's name to its meaning in 64-bit mode.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from xed_convert.errors import EncodingError
from xed_convert.form import FIELDS, SPACES, Form
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xed_convert.model import InstructionVariant, Operand

Conditions = dict[str, tuple[int, ...]]

_CONDITIONS = {
    "OSZ": "osz",
    "REP": "rep",
    "REXW": "w",
    "MOD": "mod",
    "REG": "reg",
    "RM": "rm",
    "SRM": "srm",
    "REX2": "rex2",
    "REXB": "b3",
    "REXB4": "b4",
    "REXR": "r3",
    "REXR4": "r4",
    "ASZ": "asz",
    "LOCK": "lock",
    "VEX_PREFIX": "pp",
    "VL": "l",
    "VEXDEST4": "v4",
    "BCRC": "b",
    "ND": "b",
    "ZEROING": "z",
    "MASK": "a",
    "UBIT": "u",
}
"""XED's name of a constrained field to ours."""

_PP = {0: 0, 1: 1, 2: 3, 3: 2}
"""VEX_PREFIX numbers the implied prefixes as none, 66, F2, F3; the bits pp as none, 66, F3, F2."""

_HANDLED = frozenset({"VEXVALID", "MAP", "NEED_SIB", "NF", "SCC", "VEXDEST3", "VEXDEST210", "EASZ"})
"""Constraints that become something else than a condition of the same meaning."""

_IGNORED = frozenset({"MODE", "SKIP_OSZ", "NOREX2", "ENC_DELETE", "EVVSPACE", "DUMMY", "REX", "ENCODER_PREFERRED"})
"""Constraints that say nothing about the bytes in 64-bit mode."""

_OLD_PROCESSORS = {
    "TZCNT": 0,
    "LZCNT": 0,
    "P4": 0,
    "MODEP5": 1,
    "CLDEMOTE": 0,
    "CET": 0,
    "MPXMODE": 0,
    "WBNOINVD": 0,
    "PREFETCHIT": 0,
    "PREFETCHRST": 0,
    "IBHF": 0,
    "MODE_SHORT_UD0": 1,
    "MODE_FIRST_PREFIX": 1,
}
"""Constraints on the processor rather than the bytes, and the value that only processors without the extension have."""

_IMMEDIATES = {
    "UIMM8": ("IMM0", "U8"),
    "SIMM8": ("IMM0", "S8"),
    "UIMM16": ("IMM0", "U16"),
    "UIMM32": ("IMM0", "U32"),
    "UIMM8_1": ("IMM1", "U8"),
    "SE_IMM8": ("IMM0", "U4"),
    "BRDISP8": ("RELBR", "D8"),
    "BRDISP32": ("RELBR", "D32"),
    "BRDISP64": ("ABSBR", "D64"),
    "MEMDISPv": ("MEM0", "O"),
}
"""Nonterminals that read immediates: the operand that they are for, and the code."""

_IMMEDIATES_BY_SIZE = {
    "SIMMz": ("IMM0", ("S16", "S32", "S32")),
    "UIMMv": ("IMM0", ("U16", "U32", "U64")),
    "BRDISPz": ("RELBR", ("D16", "D32", "D32")),
}
"""The same where the width depends on the operand size: for EOSZ 1, 2 and 3."""

_VSIB = {"XMM": "MX", "YMM": "MY", "ZMM": "MZ"}

_TUPLES: dict[str, tuple[str, int]] = {
    "FULL": ("vector", 1),
    "FULLMEM": ("vector", 1),
    "HALF": ("vector", 2),
    "HALFMEM": ("vector", 2),
    "QUARTER": ("vector", 4),
    "QUARTERMEM": ("vector", 4),
    "EIGHTHMEM": ("vector", 8),
    "ONE": ("elements", 1),
    "TUPLE2": ("elements", 2),
    "TUPLE4": ("elements", 4),
    "TUPLE8": ("elements", 8),
    "TUPLE1_4X": ("elements", 4),
    "MEM128": ("bytes", 16),
}
"""NELEM_x of avx512f/avx512-disp8.txt: a vector divided by, so many elements, or so many bytes; MOVDDUP is special."""

_EMITTED = frozenset({"osz=1", "asz=1", "lock=1", "rep=2", "rep=3", "w=1", "b3=1", "rex2=1"})
"""Conditions that cost a prefix."""

_FIXED_LENGTH = {"FIX_ROUND_LEN128": 0, "FIX_ROUND_LEN256": 1, "FIX_ROUND_LEN512": 2}

_TOKEN = re.compile(r"([A-Z][A-Z0-9_]*)(!?=)(\w+)")
_BITS = re.compile(r"([A-Z]\w*)\[([^\]]+)\]")


_REGISTER_PLACES = {
    "MASK1": "K",
    "MASKNOT0": "K",
    "X87": "B3",
    "SEG": "R3",
    "SEG_MOV": "R3",
    "MASK_B": "B3",
    "MMX_R": "R3",
    "MMX_B": "B3",
}
"""Register nonterminals whose name or width of the field does not follow the rule of the others."""


@dataclass(slots=True)
class _Pattern:
    """What a pattern says, before a variant is chosen."""

    space: str
    map: int
    opcode: int
    in_opcode: bool
    suffix: int | None
    has_modrm: bool
    conditions: Conditions
    calls: tuple[str, ...]
    size_is_free: bool
    old: bool


@lru_cache(maxsize=16384)
def _read_pattern(pattern: str) -> _Pattern:
    """Read a pattern whose macros are expanded."""
    constraints: dict[str, set[int]] = {}
    literals: list[int] = []
    trailing: list[int] = []
    calls: list[str] = []
    fields: set[str] = set()
    partial_bits = 0
    for token in pattern.split():
        if token.endswith("()"):
            calls.append(token[:-2])
        elif match := _TOKEN.fullmatch(token):
            _constrain(constraints, match[1], match[3], negated=match[2] == "!=")
        elif match := _BITS.fullmatch(token):
            fields.add(match[1])
            _constrain_bits(constraints, match[1], match[2])
        elif token.startswith("0x"):
            (trailing if "RM" in fields else literals).append(int(token, 16))
        elif token.startswith("0b"):
            digits = token[2:].replace("_", "")
            partial_bits = len(digits)
            literals.append(int(digits, 2) << (8 - partial_bits))
        else:
            message = f"cannot encode the pattern {pattern!r}: unknown token {token!r}"
            raise EncodingError(message)
    return _pattern_of(constraints, literals, trailing, tuple(calls), fields, in_opcode=bool(partial_bits))


def _constrain(constraints: dict[str, set[int]], name: str, value: str, *, negated: bool) -> None:
    """Add `name=value` or `name!=value`."""
    try:
        number = int(value, 0)
    except ValueError as error:
        message = f"cannot encode: expected a number as {name}, not {value!r}"
        raise EncodingError(message) from error
    field = _CONDITIONS.get(name)
    width = FIELDS[field][1] if field else 5
    values = set(range(1 << width)) - {number} if negated else {number}
    if name == "REP" and negated:
        values -= {1}
    constraints[name] = constraints.get(name, values) & values


def _constrain_bits(constraints: dict[str, set[int]], name: str, bits: str) -> None:
    """Add `NAME[bits]`."""
    if bits.startswith("0b"):
        _constrain(constraints, name, bits.replace("_", ""), negated=False)
    elif match := re.fullmatch(r"(\d+)-(\d+)", bits):
        values = set(range(int(match[1]), int(match[2]) + 1))
        constraints[name] = constraints.get(name, values) & values


def _pattern_of(
    constraints: dict[str, set[int]],
    literals: list[int],
    trailing: list[int],
    calls: tuple[str, ...],
    fields: set[str],
    *,
    in_opcode: bool,
) -> _Pattern:
    """Give the constraints our names and find map and opcode."""
    space = SPACES[min(constraints.get("VEXVALID", {0}))]
    if space == "leg":
        map_number, opcodes = _legacy_map(literals)
    else:
        map_number, opcodes = min(constraints.get("MAP", {0})), literals
    conditions: Conditions = {}
    for name, values in constraints.items():
        if name in _CONDITIONS:
            conditions[_CONDITIONS[name]] = tuple(
                sorted(_PP[n] for n in values) if name == "VEX_PREFIX" else sorted(values)
            )
        elif name not in _HANDLED | _IGNORED | _OLD_PROCESSORS.keys():
            message = f"cannot encode: nothing is known of the constraint {name}={sorted(values)}"
            raise EncodingError(message)
    _vector_conditions(conditions, constraints, calls)
    _address_conditions(conditions, constraints)
    has_modrm = "RM" in fields
    if has_modrm and len(conditions.get("mod", ())) == 4:
        del conditions["mod"]
    return _Pattern(
        space=space,
        map=map_number,
        opcode=opcodes[0],
        in_opcode=in_opcode,
        suffix=trailing[0] if trailing else None,
        has_modrm=has_modrm,
        conditions=conditions,
        calls=calls,
        size_is_free="SKIP_OSZ" in constraints,
        old=any(constraints.get(name) == {value} for name, value in _OLD_PROCESSORS.items()),
    )


def _legacy_map(literals: list[int]) -> tuple[int, list[int]]:
    """Split the opcode bytes of a legacy encoding into map and opcode."""
    if literals[0] != 0x0F or len(literals) == 1:
        return 0, literals
    if literals[1] in (0x38, 0x3A) and len(literals) > 2:
        return (2 if literals[1] == 0x38 else 3), literals[2:]
    return 1, literals[1:]


def _vector_conditions(conditions: Conditions, constraints: Mapping[str, set[int]], calls: tuple[str, ...]) -> None:
    """Add what the fields of VEX and EVEX that have several meanings must be."""
    if "VEXDEST3" in constraints:
        conditions["v"] = (0,)
    if "EVAPX" in calls:
        conditions["a"] = tuple(4 * value for value in sorted(constraints.get("NF", {0})))
    if "EVAPX_SCC" in calls and "SCC" in constraints:
        condition = min(constraints["SCC"])
        conditions |= {"a": (condition & 7,), "v4": (1 - (condition >> 3),)}
    if "u" in conditions and conditions.get("mod") != (3,):
        del conditions["u"]  # in memory forms the bit is X4


def _address_conditions(conditions: Conditions, constraints: Mapping[str, set[int]]) -> None:
    """Add what the address size says: in 64-bit mode EASZ is 3 without a prefix 67 and 2 with it."""
    sizes = constraints.get("EASZ", {2, 3})
    if sizes & {2, 3} == {3}:
        conditions["asz"] = (0,)
    elif sizes & {2, 3} == {2}:
        conditions["asz"] = (1,)


def encoding_of(
    pattern: str, sources: Mapping[str, str], variant: InstructionVariant, marks: Collection[str] = ()
) -> str:
    """Make the encoding string of a variant.

    Args:
        pattern: XED's pattern with all macros expanded, tokens separated by spaces.
        sources: what the record says of each operand: its name (`REG0`) to its nonterminal or register (`GPRv_B`,
            `XED_REG_AL`; "" where there is none, as for memory).
        variant: the variant, complete but for its encoding.
        marks: the record's ATTRIBUTES, in upper case.

    Raises:
        EncodingError: the pattern says something that this module does not know.
    """
    facts = _read_pattern(pattern)
    conditions = dict(facts.conditions)
    attributes = variant.attributes  # the string instructions have eosz without depending on it
    size = 0 if variant.iclass.startswith("REP") else int(attributes.get("eosz", "0") or "0")
    conditions |= _size_conditions(facts, conditions, size)
    conditions |= _variant_conditions(facts, variant)
    places = [(operand.index, code) for operand in variant.operands if (code := _place(operand, sources, facts, size))]
    form = Form(
        space=facts.space,
        map=facts.map,
        opcode=facts.opcode,
        conditions={name: conditions[name] for name in FIELDS if name in conditions},
        places=tuple(places),
        has_modrm=facts.has_modrm,
        in_opcode=facts.in_opcode,
        suffix=facts.suffix,
        scale=_displacement_scale(facts, conditions),
        rounding=any(call.endswith("_ROUND") for call in facts.calls),
        differ=_registers(places) if {"NO_REG_MATCH", "GATHER"} & set(marks) else (),
        unlike=_registers(places) if "NO_SRC_DEST_MATCH" in marks else (),
        no_rip="NO_RIP_REL" in marks,
        old=facts.old,
    )
    return str(form)


def merge_encodings(first: str, second: str) -> str:
    """Join the encodings of two records that make the same variant.

    Forms with fewer prefixes come first, so that the encoder takes the shortest, and forms of old processors last.
    """
    forms = list(dict.fromkeys(form for text in (first, second) if text for form in text.split(" | ")))
    forms.sort(key=lambda form: (" old" in form, len(_EMITTED & set(form.split()))))
    return " | ".join(forms)


def _size_conditions(facts: _Pattern, conditions: Conditions, size: int) -> Conditions:
    """Return the conditions on prefix 66 and W that give the effective operand size `size` (1 to 3; 0: any)."""
    if not size:
        return {}
    legacy = facts.space == "leg"
    name = "osz" if legacy else "pp"
    narrow = conditions.get(name, (0, 1) if legacy else (0,))
    fitting = [
        (osz, w) for osz in narrow for w in conditions.get("w", (0, 1)) if _effective_size(facts, osz, w) == size
    ]
    if not fitting and facts.size_is_free:
        return {}
    if not fitting:
        message = f"cannot encode: no prefixes give operand size {size}"
        raise EncodingError(message)
    result: Conditions = {}
    if len({osz for osz, _ in fitting}) == 1:
        result[name] = (fitting[0][0],)
    if len({w for _, w in fitting}) == 1:
        result["w"] = (fitting[0][1],)
    return result


def _effective_size(facts: _Pattern, osz: int, w: int) -> int:
    """Return EOSZ in 64-bit mode by xed-eOSZ.txt: what OSZ_NONTERM gives, as the pattern's nonterminals change it."""
    narrow = osz == 1 and (facts.space == "leg" or (facts.space == "evex" and facts.map == 4))
    size = 3 if w else 1 if narrow else 2
    for call in facts.calls:
        if call == "DF64":
            size = 1 if narrow and not w else 3
        elif call in ("REFINING66", "IGNORE66", "IMMUNE66"):
            size = 3 if w else 2
        elif call in ("CR_WIDTH", "IMMUNE66_LOOP64", "FORCE64"):
            size = 3
        elif call == "IMMUNE_REXW":
            size = 1 if narrow and not w else 2
    return size


def _variant_conditions(facts: _Pattern, variant: InstructionVariant) -> Conditions:
    """Return what the variant's attributes say beyond its record."""
    attributes = variant.attributes
    result: Conditions = {}
    if facts.space == "evex":
        if "mask" in attributes and "a" not in facts.conditions:
            result["a"] = (1, 2, 3, 4, 5, 6, 7) if attributes["mask"] == "1" else (0,)
        if "zeroing" in attributes:
            result["z"] = (int(attributes["zeroing"]),)
        if "b" not in facts.conditions:
            result["b"] = (int(attributes.get("bcast", "0") not in ("", "0")),)
        if not any(call in _FIXED_LENGTH for call in facts.calls) and "l" not in facts.conditions:
            result["l"] = (0, 1, 2)
    elif facts.space == "leg":
        result["lock"] = facts.conditions.get("lock", (0,))
    return result


def _place(operand: Operand, sources: Mapping[str, str], facts: _Pattern, size: int) -> str:
    """Return the code of where an operand is encoded, "" if it is not."""
    kind = operand.kind
    if kind is OperandKind.FLAGS or operand.suppressed:
        return ""
    if kind is OperandKind.DEFAULT_FLAGS:
        return "F"
    if kind is OperandKind.REGISTER:
        return _register_place(sources.get(operand.name, ""), facts)
    code = _immediate_place(operand.name, facts, size)
    if not code and kind in (OperandKind.MEMORY, OperandKind.AGEN) and facts.has_modrm:
        vector = next((call for call in facts.calls if "VMODRM_" in call), "")
        code = _VSIB[vector[-3:]] if vector else "M"
    return code


def _immediate_place(name: str, facts: _Pattern, size: int) -> str:
    """Return the code of the immediate that is for the operand of that name, "" if there is none."""
    for call in facts.calls:
        if _IMMEDIATES.get(call, ("", ""))[0] == name:
            return _IMMEDIATES[call][1]
        if call in _IMMEDIATES_BY_SIZE and _IMMEDIATES_BY_SIZE[call][0] == name:
            return _IMMEDIATES_BY_SIZE[call][1][(size or 2) - 1]
    return ""


def _register_place(source: str, facts: _Pattern) -> str:
    """Return the field that a register nonterminal reads, and how many bits of it.

    XED names the nonterminals after the field: `_R` ModRM.reg, `_B` ModRM.rm, `_N` vvvv, `_SB` and `_SR` the opcode,
    `_SE` the immediate, `3` behind it the fifth bit of vector registers.
    """
    if not source or source.startswith("XED_REG_") or source in _REGISTER_PLACES:
        return _REGISTER_PLACES.get(source, "")
    parts = source.removesuffix("_NORSP").split("_")
    general = len(parts) > 1 and "GPR" in parts[-2]
    evex = facts.space == "evex"
    wide = evex or (facts.space == "leg" and (general or parts[0] in ("CR", "DR")))
    places = {
        "R": "R5" if wide else "R4",
        "B": ("B5" if general else "BX") if evex else "B5" if wide else "B4",
        "N": "V5" if wide else "V4",
        "SB": "S5",
        "SR": "S5",
        "SE": "Q",
    }
    return places.get(parts[-1].rstrip("3"), "")


def _registers(places: list[tuple[int, str]]) -> tuple[int, ...]:
    """Return the operands that are registers or addresses with a vector index, but for masks."""
    return tuple(index for index, code in places if code in _VSIB.values() or (code[0] in "RBV" and code != "B3"))


def _displacement_scale(facts: _Pattern, conditions: Conditions) -> int:
    """Return what an 8-bit displacement is multiplied by, in bytes (1 outside of EVEX)."""
    kind = next((call.removeprefix("NELEM_") for call in facts.calls if call.startswith("NELEM_")), "")
    if not kind:
        return 1
    element = next((int(call.split("_")[1]) for call in facts.calls if call.startswith("ESIZE_")), 8)
    length = next((_FIXED_LENGTH[call] for call in facts.calls if call in _FIXED_LENGTH), None)
    vector = 16 << (length if length is not None else conditions.get("l", (0,))[0])
    if kind == "MOVDDUP":
        return 8 if vector == 16 else vector
    if kind not in _TUPLES:
        message = f"cannot encode: nothing is known of NELEM_{kind}"
        raise EncodingError(message)
    if kind in ("FULL", "HALF", "QUARTER") and conditions.get("b") == (1,):
        return element // 8
    unit, count = _TUPLES[kind]
    return {"vector": vector // count, "elements": element * count // 8, "bytes": count}[unit]
