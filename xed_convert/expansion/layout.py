"""What a pattern of XED's says of the bytes of an instruction: encoding space, map, opcode, fields, immediates.

The rules are those of the datafiles' own nonterminals (xed-immediates.txt, apx-f/apx-evex-dec.txt), here as tables from
the nonterminal's name to its meaning in 64-bit mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from xed_convert.datafiles.pattern import BitRange, Bits, Call, Constraint, Literal
from xed_convert.encoding.form import FIELDS, SPACES
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xed_convert.datafiles.pattern import Token

Conditions = dict[str, tuple[int, ...]]
Constraints = dict[str, frozenset[int]]

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
    "TZCNT": {0},
    "LZCNT": {0},
    "P4": {0},
    "MODEP5": {1},
    "CLDEMOTE": {0},
    "CET": {0},
    "MPXMODE": {0},
    "WBNOINVD": {0},
    "PREFETCHIT": {0},
    "PREFETCHRST": {0},
    "IBHF": {0},
    "MODE_SHORT_UD0": {1},
    "MODE_FIRST_PREFIX": {1},
}
"""Constraints on the processor rather than the bytes, and the value that only processors without the extension have."""

_KNOWN = _CONDITIONS.keys() | _HANDLED | _IGNORED | _OLD_PROCESSORS.keys()

_IMMEDIATES = {
    "UIMM8": ("IMM0", ("U8", "U8", "U8")),
    "SIMM8": ("IMM0", ("S8", "S8", "S8")),
    "UIMM16": ("IMM0", ("U16", "U16", "U16")),
    "UIMM32": ("IMM0", ("U32", "U32", "U32")),
    "UIMM8_1": ("IMM1", ("U8", "U8", "U8")),
    "SE_IMM8": ("IMM0", ("U4", "U4", "U4")),
    "BRDISP8": ("RELBR", ("D8", "D8", "D8")),
    "BRDISP32": ("RELBR", ("D32", "D32", "D32")),
    "BRDISP64": ("ABSBR", ("D64", "D64", "D64")),
    "MEMDISPv": ("MEM0", ("O", "O", "O")),
    "SIMMz": ("IMM0", ("S16", "S32", "S32")),
    "UIMMv": ("IMM0", ("U16", "U32", "U64")),
    "BRDISPz": ("RELBR", ("D16", "D32", "D32")),
}
"""Nonterminals that read immediates: the operand that they are for, and the codes for EOSZ 1, 2 and 3."""

_FIXED_LENGTH = {"FIX_ROUND_LEN128": 0, "FIX_ROUND_LEN256": 1, "FIX_ROUND_LEN512": 2}

_VECTOR_ADDRESSES = {"XMM": "MX", "YMM": "MY", "ZMM": "MZ"}
"""Codes of addresses with a vector of indices by the ending of the nonterminal that reads them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a pattern says, before a variant is chosen.

    `conditions` are by our names of the fields; `immediates` gives the codes by the name of the operand, one for each
    operand size; `address` is the code of an operand in memory, "" without ModRM. `tuple_type` (NELEM_x),
    `element_bits` (ESIZE_x_BITS) and `fixed_length` (FIX_ROUND_LENx; 0 to 2 as in EVEX.L'L, None without) say what an
    8-bit displacement is multiplied by. `rounding` says that the vector length bits hold a rounding mode,
    `size_is_free` that the operand size does not matter, `old` that only old processors read the bytes this way.
    """

    space: str
    map: int
    opcode: int
    in_opcode: bool
    suffix: int | None
    has_modrm: bool
    conditions: Conditions
    calls: tuple[str, ...]
    immediates: Mapping[str, tuple[str, str, str]]
    address: str
    tuple_type: str
    element_bits: int
    fixed_length: int | None
    rounding: bool
    size_is_free: bool
    old: bool


def read_layout(tokens: Iterable[Token]) -> Layout:
    """Read a pattern whose macros are expanded.

    Raises:
        EncodingError: the pattern says something that this module does not know.
    """
    constraints: Constraints = {}
    opcodes: list[int] = []
    suffix: int | None = None
    calls: list[str] = []
    fields: set[str] = set()
    in_opcode = False
    for token in tokens:
        if isinstance(token, Constraint):
            _constrain(constraints, token.field, _allowed(token.field, token.value, token.negated))
        elif isinstance(token, Call):
            calls.append(token.name)
        elif isinstance(token, Bits):
            fields.add(token.field)
            if token.fixed is not None:
                _constrain(constraints, token.field, frozenset({token.fixed}))
        elif isinstance(token, BitRange):
            fields.add(token.field)
            _constrain(constraints, token.field, frozenset(range(token.low, token.high + 1)))
        elif not isinstance(token, Literal):
            message = f"cannot encode: unknown token {token}"
            raise EncodingError(message)
        elif token.width_bits < 8:
            opcodes.append(token.value << (8 - token.width_bits))
            in_opcode = True
        elif "RM" in fields:
            suffix = token.value
        else:
            opcodes.append(token.value)
    if unknown := constraints.keys() - _KNOWN:
        message = f"cannot encode: nothing is known of constraints on {', '.join(sorted(unknown))}"
        raise EncodingError(message)
    space, map_number, opcode = _place_of_opcode(constraints, opcodes)
    has_modrm = "RM" in fields
    return Layout(
        space=space,
        map=map_number,
        opcode=opcode,
        in_opcode=in_opcode,
        suffix=suffix,
        has_modrm=has_modrm,
        conditions=_conditions(constraints, calls, has_modrm=has_modrm),
        calls=tuple(calls),
        immediates=_immediates(calls),
        address=_address(calls) if has_modrm else "",
        tuple_type=next((call.removeprefix("NELEM_") for call in calls if call.startswith("NELEM_")), ""),
        element_bits=next((int(call.split("_")[1]) for call in calls if call.startswith("ESIZE_")), 8),
        fixed_length=next((_FIXED_LENGTH[call] for call in calls if call in _FIXED_LENGTH), None),
        rounding=any(call.endswith("_ROUND") for call in calls),
        size_is_free="SKIP_OSZ" in constraints,
        old=any(constraints[name] == _OLD_PROCESSORS[name] for name in constraints.keys() & _OLD_PROCESSORS.keys()),
    )


def _constrain(constraints: Constraints, name: str, values: frozenset[int]) -> None:
    """Leave only those values to a field."""
    constraints[name] = constraints[name] & values if name in constraints else values


@cache
def _allowed(name: str, value: int | str, negated: bool) -> frozenset[int]:
    """Return the values that `name=value` or `name!=value` leaves."""
    if not isinstance(value, int):
        message = f"cannot encode: expected a number as {name}, not {value!r}"
        raise EncodingError(message)
    if not negated:
        return frozenset({value})
    field = _CONDITIONS.get(name)
    width = FIELDS[field][1] if field else 5
    return frozenset(range(1 << width)) - {value, 1 if name == "REP" else value}


def _place_of_opcode(constraints: Constraints, opcodes: list[int]) -> tuple[str, int, int]:
    """Return encoding space, map and opcode; the first bytes of a legacy opcode say the map."""
    space = SPACES[min(constraints.get("VEXVALID", {0}))]
    if space != "leg":
        return space, min(constraints.get("MAP", {0})), opcodes[0]
    if opcodes[0] != 0x0F or len(opcodes) == 1:
        return space, 0, opcodes[0]
    if opcodes[1] in (0x38, 0x3A) and len(opcodes) > 2:
        return space, 2 if opcodes[1] == 0x38 else 3, opcodes[2]
    return space, 1, opcodes[1]


def _conditions(constraints: Constraints, calls: list[str], *, has_modrm: bool) -> Conditions:
    """Give the constraints our names."""
    conditions = {
        _CONDITIONS[name]: tuple(sorted(values)) for name, values in constraints.items() if name in _CONDITIONS
    }
    if "pp" in conditions:
        conditions["pp"] = tuple(sorted(_PP[number] for number in conditions["pp"]))
    _vector_conditions(conditions, constraints, calls)
    _address_conditions(conditions, constraints)
    if has_modrm and len(conditions.get("mod", ())) == 4:
        del conditions["mod"]
    return conditions


def _vector_conditions(conditions: Conditions, constraints: Constraints, calls: list[str]) -> None:
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


def _address_conditions(conditions: Conditions, constraints: Constraints) -> None:
    """Add what the address size says: in 64-bit mode EASZ is 3 without a prefix 67 and 2 with it."""
    sizes = constraints.get("EASZ", {2, 3})
    if sizes & {2, 3} == {3}:
        conditions["asz"] = (0,)
    elif sizes & {2, 3} == {2}:
        conditions["asz"] = (1,)


def _immediates(calls: list[str]) -> dict[str, tuple[str, str, str]]:
    """Return the codes of the immediates that are read; of several for an operand the first counts."""
    return dict(_IMMEDIATES[call] for call in reversed(calls) if call in _IMMEDIATES)


def _address(calls: list[str]) -> str:
    """Return the code of the address that ModRM stands for."""
    vector = next((call for call in calls if "VMODRM_" in call), "")
    return _VECTOR_ADDRESSES[vector[-3:]] if vector else "M"
