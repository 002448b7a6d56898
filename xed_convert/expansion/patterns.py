"""Encoding strings from XED's patterns, which describe decoding but are enough to encode.

`layout.py` reads the pattern; here it is narrowed down to one variant. The tables give the meaning of XED's
nonterminals in 64-bit mode. Their rules are in the datafiles xed-eOSZ.txt and avx512f/avx512-disp8.txt.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from xed_convert.encoding.form import FIELDS, EncodingForm
from xed_convert.errors import EncodingError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xed_convert.expansion.facts import RecordFacts
    from xed_convert.expansion.layout import Conditions, PatternLayout
    from xed_convert.model import Operand

_VSIB = frozenset({"MX", "MY", "MZ"})
"""Codes of addresses with a vector of indices."""

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
"""The memory of each NELEM_x: a vector divided by n, n elements, or n bytes. MOVDDUP is not regular."""

_EMITTED = frozenset({"osz=1", "asz=1", "lock=1", "rep=2", "rep=3", "w=1", "b3=1", "rex2=1"})
"""Conditions that cost a prefix."""

_ALL_DIFFER = frozenset({"NO_REG_MATCH", "GATHER"})
"""Attributes that demand different registers for all operands."""

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
"""Places of the register nonterminals that the rule for names (`_register_place`) does not cover."""


def encoding_of(facts: RecordFacts, attributes: Mapping[str, str], operands: Iterable[Operand]) -> str:
    """Return the encoding string of one variant of a record.

    Raises:
        EncodingError: the record's pattern says something that is not known.
    """
    layout = facts.layout
    record = facts.record
    # REP forms have the attribute eosz, but no prefix depends on it
    size = 0 if record.iclass.startswith("REP") else int(attributes.get("eosz", "0"))
    conditions = layout.conditions | _size_conditions(layout, size) | _variant_conditions(layout, attributes)
    places = [(operand.index, code) for operand in operands if (code := _place(operand, facts, size))]
    form = EncodingForm(
        space=layout.space,
        map=layout.map,
        opcode=layout.opcode,
        conditions={name: conditions[name] for name in FIELDS if name in conditions},
        places=tuple(places),
        has_modrm=layout.has_modrm,
        in_opcode=layout.in_opcode,
        suffix=layout.suffix,
        scale=_displacement_scale(layout, conditions),
        rounding=layout.rounding,
        differ=() if record.attributes.isdisjoint(_ALL_DIFFER) else _registers(places),
        unlike=_registers(places) if "NO_SRC_DEST_MATCH" in record.attributes else (),
        no_rip="NO_RIP_REL" in record.attributes,
        old=layout.old,
    )
    return str(form)


def merge_encodings(encodings: Iterable[str]) -> str:
    """Join the encodings of the records that make the same variant.

    Forms with fewer prefixes come first, so that the encoder takes the shortest, and forms of old processors last.
    """
    forms = list(dict.fromkeys(encodings))
    if len(forms) > 1:
        forms.sort(key=lambda form: (" old" in form, len(_EMITTED.intersection(form.split()))))
    return " | ".join(forms)


def _size_conditions(layout: PatternLayout, size: int) -> Conditions:
    """Return the conditions on prefix 66 and W for an effective operand size (1 to 3 for 16 to 64 bits; 0: any)."""
    if not size:
        return {}
    legacy = layout.space == "leg"
    name = "osz" if legacy else "pp"
    narrow = layout.conditions.get(name, (0, 1) if legacy else (0,))
    fitting = [
        (osz, w)
        for osz in narrow
        for w in layout.conditions.get("w", (0, 1))
        if _effective_size(layout, osz, w) == size
    ]
    if not fitting and layout.size_is_free:
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


def _effective_size(layout: PatternLayout, osz: int, w: int) -> int:
    """Return EOSZ in 64-bit mode: what OSZ_NONTERM of xed-eOSZ.txt gives, changed by the pattern's nonterminals."""
    narrow = osz == 1 and (layout.space == "leg" or (layout.space == "evex" and layout.map == 4))
    size = 3 if w else 1 if narrow else 2
    for call in layout.calls:
        if call == "DF64":
            size = 1 if narrow and not w else 3
        elif call in ("REFINING66", "IGNORE66", "IMMUNE66"):
            size = 3 if w else 2
        elif call in ("CR_WIDTH", "IMMUNE66_LOOP64", "FORCE64"):
            size = 3
        elif call == "IMMUNE_REXW":
            size = 1 if narrow and not w else 2
    return size


def _variant_conditions(layout: PatternLayout, attributes: Mapping[str, str]) -> Conditions:
    """Return the conditions that a variant's attributes add to those of its record."""
    result: Conditions = {}
    if layout.space == "evex":
        if "mask" in attributes and "a" not in layout.conditions:
            result["a"] = (1, 2, 3, 4, 5, 6, 7) if attributes["mask"] == "1" else (0,)
        if "zeroing" in attributes:
            result["z"] = (int(attributes["zeroing"]),)
        if "b" not in layout.conditions:
            result["b"] = (int(attributes.get("bcast", "0") not in ("", "0")),)
        if layout.fixed_length is None and "l" not in layout.conditions:
            result["l"] = (0, 1, 2)
    elif layout.space == "leg":
        result["lock"] = layout.conditions.get("lock", (0,))
    return result


def _place(operand: Operand, facts: RecordFacts, size: int) -> str:
    """Return the code of the place where an operand is encoded, "" if it is not encoded."""
    kind = operand.kind
    if kind is OperandKind.FLAGS or operand.suppressed:
        return ""
    if kind is OperandKind.DEFAULT_FLAGS:
        return "F"
    layout = facts.layout
    if kind is OperandKind.REGISTER:
        return _register_place(facts.sources.get(operand.name, ""), layout.space)
    if codes := layout.immediates.get(operand.name):
        return codes[(size or 2) - 1]
    return layout.address if kind in (OperandKind.MEMORY, OperandKind.AGEN) else ""


@cache
def _register_place(source: str, space: str) -> str:
    """Return the code of the field from which a register nonterminal reads.

    XED's name ends in the field: `_R` ModRM.reg, `_B` ModRM.rm, `_N` vvvv, `_SB` and `_SR` the opcode, `_SE` the
    immediate. A `3` behind it adds the fifth bit of vector registers.
    """
    if not source or source in _REGISTER_PLACES:
        return _REGISTER_PLACES.get(source, "")
    parts = source.removesuffix("_NORSP").split("_")
    general = len(parts) > 1 and "GPR" in parts[-2]
    evex = space == "evex"
    wide = evex or (space == "leg" and (general or parts[0] in ("CR", "DR")))
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
    """Return the operands that are registers, without masks, or addresses with a vector index."""
    return tuple(index for index, code in places if code in _VSIB or (code[0] in "RBV" and code != "B3"))


def _displacement_scale(layout: PatternLayout, conditions: Conditions) -> int:
    """Return the factor of an 8-bit displacement in bytes (1 outside of EVEX)."""
    kind, element, length = layout.tuple_type, layout.element_bits, layout.fixed_length
    if not kind:
        return 1
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
