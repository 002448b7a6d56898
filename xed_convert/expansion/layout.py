"""The layout of an instruction's bytes from XED's pattern: encoding space, map, opcode, fields, immediates.

The tables here give the meaning of XED's nonterminals in 64-bit mode by their names. Their rules are in the datafiles
xed-immediates.txt and apx-f/apx-evex-dec.txt.
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
"""Our name of each field that XED constrains."""

_PP = {0: 0, 1: 1, 2: 3, 3: 2}
"""The bits pp by VEX_PREFIX: XED numbers the implied prefixes none, 66, F2, F3, the bits none, 66, F3, F2."""

_HANDLED = frozenset({"VEXVALID", "MAP", "NEED_SIB", "NF", "SCC", "VEXDEST3", "VEXDEST210", "EASZ"})
"""Constraints with functions of their own; `_CONDITIONS` does not name them."""

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
"""Constraints on the processor, not on the bytes. The value is that of processors without the extension."""

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
"""Nonterminals that read immediates: the operand that gets the value, and the codes for EOSZ 1, 2 and 3."""

_FIXED_LENGTH = {"FIX_ROUND_LEN128": 0, "FIX_ROUND_LEN256": 1, "FIX_ROUND_LEN512": 2}

_VECTOR_ADDRESSES = {"XMM": "MX", "YMM": "MY", "ZMM": "MZ"}
"""Codes of addresses with a vector of indices by the ending of the nonterminal that reads them."""


@dataclass(frozen=True, slots=True)
class PatternLayout:
    """What a pattern says of all variants of its record.

    - `conditions`: allowed values by our names of the fields.
    - `immediates`: by operand name, a code for each operand size.
    - `address`: the code of an operand in memory, "" without ModRM.
    - `tuple_type` (NELEM_x), `element_bits` (ESIZE_x_BITS), `fixed_length` (FIX_ROUND_LENx as in EVEX.L'L, or None):
      they determine the factor of an 8-bit displacement.
    - `rounding`: the vector length bits hold a rounding mode.
    - `size_is_free`: the operand size does not matter.
    - `old`: only old processors read the bytes this way.
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


class _PatternReader:
    """Takes the tokens of a pattern in order and collects what they say."""

    def __init__(self) -> None:
        self.constraints: Constraints = {}
        self.opcodes: list[int] = []
        self.calls: list[str] = []
        self.fields: set[str] = set()
        self.suffix: int | None = None
        self.in_opcode = False

    def read(self, token: Token) -> None:
        """Take in one token."""
        if isinstance(token, Constraint):
            self._constrain(token.field, _allowed(token.field, token.value, token.negated))
        elif isinstance(token, Call):
            self.calls.append(token.name)
        elif isinstance(token, Bits):
            self.fields.add(token.field)
            if token.fixed is not None:
                self._constrain(token.field, frozenset({token.fixed}))
        elif isinstance(token, BitRange):
            self.fields.add(token.field)
            self._constrain(token.field, frozenset(range(token.low, token.high + 1)))
        elif isinstance(token, Literal):
            self._read_literal(token)
        else:
            raise EncodingError(f"cannot encode: unknown token {token}")

    def _read_literal(self, token: Literal) -> None:
        """Take in fixed bits: an opcode byte, the upper bits of one, or the byte after the operands (3DNow!)."""
        if token.width_bits < 8:
            self.opcodes.append(token.value << (8 - token.width_bits))
            self.in_opcode = True
        elif "RM" in self.fields:
            self.suffix = token.value
        else:
            self.opcodes.append(token.value)

    def _constrain(self, name: str, values: frozenset[int]) -> None:
        """Leave only those values to a field."""
        self.constraints[name] = self.constraints.get(name, values) & values


def read_layout(tokens: Iterable[Token]) -> PatternLayout:
    """Read a pattern whose macros are expanded.

    Raises:
        EncodingError: the pattern says something that this module does not know.
    """
    reader = _PatternReader()
    for token in tokens:
        reader.read(token)
    constraints, calls = reader.constraints, reader.calls
    if unknown := constraints.keys() - _KNOWN:
        raise EncodingError(f"cannot encode: nothing is known of constraints on {', '.join(sorted(unknown))}")
    space, map_number, opcode = _place_of_opcode(constraints, reader.opcodes)
    has_modrm = "RM" in reader.fields
    return PatternLayout(
        space=space,
        map=map_number,
        opcode=opcode,
        in_opcode=reader.in_opcode,
        suffix=reader.suffix,
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
    """Return encoding space, map and opcode. In legacy encodings the opcode's first bytes give the map."""
    space = SPACES[min(constraints.get("VEXVALID", {0}))]
    if space != "leg":
        return space, min(constraints.get("MAP", {0})), opcodes[0]
    if opcodes[0] != 0x0F or len(opcodes) == 1:
        return space, 0, opcodes[0]
    if opcodes[1] in (0x38, 0x3A) and len(opcodes) > 2:
        return space, 2 if opcodes[1] == 0x38 else 3, opcodes[2]
    return space, 1, opcodes[1]


def _conditions(constraints: Constraints, calls: list[str], *, has_modrm: bool) -> Conditions:
    """Return the constraints on bytes by our names."""
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
    """Add the conditions on those fields of VEX and EVEX that have several meanings."""
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
    """Add the condition on prefix 67: in 64-bit mode EASZ is 3 without it and 2 with it."""
    sizes = constraints.get("EASZ", {2, 3})
    if sizes & {2, 3} == {3}:
        conditions["asz"] = (0,)
    elif sizes & {2, 3} == {2}:
        conditions["asz"] = (1,)


def _immediates(calls: list[str]) -> dict[str, tuple[str, str, str]]:
    """Return the immediates' codes by operand. If several nonterminals read one, the first counts."""
    return dict(_IMMEDIATES[call] for call in reversed(calls) if call in _IMMEDIATES)


def _address(calls: list[str]) -> str:
    """Return the code of the address in ModRM."""
    vector = next((call for call in calls if "VMODRM_" in call), "")
    return _VECTOR_ADDRESSES[vector[-3:]] if vector else "M"
