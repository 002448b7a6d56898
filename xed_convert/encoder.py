"""Encodes an instruction variant with chosen operands.

`encode` is the simple way; an `Encoder` keeps what it found out about a variant, for many instructions of it. Of
several legal encodings the shortest is chosen, unless the variant or an operand's value says otherwise: two-byte VEX,
no superfluous REX or displacement. An immediate keeps the width that the variant names.

Values are given by operand index for every explicit operand, mask operands included; one with a fixed value may be left
out. The key `ROUNDING` (0) may give the rounding mode of a variant with embedded rounding, as in assembly (`ru-sae`);
without it it is to nearest (`rn-sae`).

Sources: Intel SDM volume 2A, chapter 2 (prefixes, REX, VEX, EVEX); AMD64 Architecture Programmer's Manual volume 3,
section 1.2 (XOP); the Intel APX architecture specification, section 3.1 (REX2 and extended EVEX).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xed_convert.address import AddressBytes, AddressShape, encode_address
from xed_convert.errors import EncodingError
from xed_convert.form import parse_encoding
from xed_convert.model import MemoryAddress
from xed_convert.registers import FORBIDS_REX, NEEDS_REX, NUMBERS, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xed_convert.form import Form
    from xed_convert.model import InstructionVariant, Operand, OperandValue

LONGEST = 15
"""The length limit of an instruction in bytes (Intel SDM volume 2A, section 2.3.11)."""

ROUNDING = 0
"""The key of the rounding mode among the values."""

ROUNDING_MODES = ("rn-sae", "rd-sae", "ru-sae", "rz-sae")
"""Embedded rounding modes in the order of EVEX.L'L (Intel SDM volume 2A, section 2.7.7)."""

_ESCAPES = {0: b"", 1: b"\x0f", 2: b"\x0f\x38", 3: b"\x0f\x3a"}
_REX_FLAGS = NEEDS_REX | FORBIDS_REX
_LIMITS = {"3": 8, "4": 16, "5": 32, "X": 32}


class _Fields:
    """The fields of one instruction while it is put together; register numbers have up to five bits."""

    __slots__ = ("aaa", "address", "immediate", "mode", "nibbles", "reg", "rex", "rm", "srm", "vvvv")

    def __init__(self, form: PreparedForm) -> None:
        self.reg: int = form.reg
        self.rm: int = form.rm
        self.vvvv: int = form.vvvv
        self.aaa: int = form.aaa
        self.srm: int = form.srm
        self.rex = 0
        self.nibbles = 0
        self.mode = 0
        self.immediate = b""
        self.address: AddressBytes | None = None


class PreparedForm:
    """One form of a variant's encoding, with all that does not depend on the values worked out."""

    def __init__(self, form: Form, variant: InstructionVariant) -> None:
        """Prepare `form` for `variant`."""
        condition = {name: values[0] for name, values in form.conditions.items()}
        self.form = form
        self.condition = condition
        self.reg = condition.get("reg", 0)
        self.rm = condition.get("rm", 0)
        self.vvvv = condition.get("v", 0) | condition.get("v4", 0) << 4
        self.aaa = condition.get("a", 0)
        self.srm = condition.get("srm", 0)
        self.steps = tuple(_step(variant, variant.operand(index), code, form) for index, code in form.places)
        self.checks = tuple(name for name in ("b3", "b4", "r3", "r4", "srm") if name in form.conditions)
        self.has_nibbles = any(code in ("Q", "U4") for _, code in form.places)
        self.opcode = form.opcode
        self.suffix = b"" if form.suffix is None else bytes((form.suffix,))
        self.assemble: Callable[[_Fields], bytes]
        self.assemble = _ASSEMBLERS[form.space](self, condition)

    def encode(self, values: Mapping[int, OperandValue]) -> bytes:
        """Put the fields together.

        Raises:
            EncodingError: a value is missing or does not fit.
        """
        fields = _Fields(self)
        for index, fixed, place, argument in self.steps:
            value = values.get(index, fixed)
            if value is None:
                raise EncodingError(f"operand {index} has no value")
            if fixed is not None and value != fixed:
                raise EncodingError(f"operand {index} is always {fixed}, not {value}")
            place(fields, value, argument)
        if self.form.differ or self.form.unlike:
            check_distinct(self.form, values)
        if self.form.rounding:
            fields.mode = _rounding_mode(values)
        data = self.assemble(fields)
        if len(data) > LONGEST:
            raise EncodingError(f"it would take {len(data)} bytes; an instruction has at most {LONGEST}")
        return data

    def tail(self, fields: _Fields) -> bytes:
        """Return what follows the opcode: ModRM, SIB, displacement, immediates."""
        immediate = bytes((fields.nibbles,)) if self.has_nibbles else fields.immediate
        address = fields.address
        if address is not None:
            return bytes((address.modrm | (fields.reg & 7) << 3,)) + address.tail + immediate + self.suffix
        if self.form.has_modrm:
            return bytes((0xC0 | (fields.reg & 7) << 3 | fields.rm & 7,)) + immediate + self.suffix
        return immediate


def _place_reg(fields: _Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    number = _number(value, numbers)
    fields.reg = number & 31
    fields.rex |= number & _REX_FLAGS


def _place_rm(fields: _Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    number = _number(value, numbers)
    fields.rm = number & 31
    fields.rex |= number & _REX_FLAGS


def _place_vvvv(fields: _Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    fields.vvvv = _number(value, numbers) & 31


def _place_mask(fields: _Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    fields.aaa = _number(value, numbers)


def _place_srm(fields: _Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    number = _number(value, numbers)
    fields.srm = number & 31
    fields.rex |= number & _REX_FLAGS


def _place_is4(fields: _Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    fields.nibbles |= _number(value, numbers) << 4


def _place_nibble(fields: _Fields, value: OperandValue, _argument: object) -> None:
    fields.nibbles |= _integer(value, 4, signed=False) & 15


def _place_default_flags(fields: _Fields, value: OperandValue, _argument: object) -> None:
    fields.vvvv = fields.vvvv & 16 | 15 - (_integer(value, 4, signed=False) & 15)


def _place_immediate(fields: _Fields, value: OperandValue, argument: tuple[int, bool, bool]) -> None:
    width, branch, not_zero = argument
    number = _integer(value, width, signed=branch)
    if not_zero and not number:
        raise EncodingError("the immediate 0 belongs to the variant with immzero=1")
    fields.immediate += (number & (1 << width) - 1).to_bytes(width // 8, "little")


def _place_memory(fields: _Fields, value: OperandValue, shape: AddressShape) -> None:
    if not isinstance(value, MemoryAddress):
        raise EncodingError(f"expected an address, not {value!r}")
    fields.address = encode_address(value, shape)


def _place_offset(fields: _Fields, value: OperandValue, _argument: object) -> None:
    if not isinstance(value, MemoryAddress) or value.base or value.index:
        raise EncodingError(f"expected an absolute address, not {value!r}")
    prefixes = encode_address(MemoryAddress(segment=value.segment), AddressShape()).prefixes
    width = value.displacement_bits or 64
    fields.address = AddressBytes(-1, b"", 0, 0, prefixes + b"\x67" * (width == 32))
    number = _integer(value.displacement, width, signed=False)
    fields.immediate += (number & (1 << width) - 1).to_bytes(width // 8, "little")


def _number(value: OperandValue, numbers: Mapping[OperandValue, int]) -> int:
    """Return a register's number."""
    try:
        return numbers[value]
    except (KeyError, TypeError):
        raise EncodingError(f"{value} is not one of {', '.join(map(str, numbers))}") from None


def _integer(value: OperandValue, width: int, *, signed: bool) -> int:
    """Return an integer that fits into `width` bits: as a signed number, or, unless `signed`, as an unsigned one."""
    if not isinstance(value, int):
        raise EncodingError(f"expected a number, not {value!r}")
    if not -(1 << (width - 1)) <= value < 1 << (width - signed):
        raise EncodingError(f"{value:#x} does not fit into {width} bits")
    return value


_PLACERS: dict[str, Callable[[_Fields, OperandValue, Any], None]] = {
    "R": _place_reg,
    "B": _place_rm,
    "V": _place_vvvv,
    "K": _place_mask,
    "S": _place_srm,
    "Q": _place_is4,
    "F": _place_default_flags,
    "M": _place_memory,
    "O": _place_offset,
}

_Step = tuple[int, "OperandValue | None", "Callable[[_Fields, OperandValue, Any], None]", object]


def _step(variant: InstructionVariant, operand: Operand, code: str, form: Form) -> _Step:
    """Prepare the placing of one operand: its index, fixed value, function and that function's argument."""
    if code == "U4":
        return operand.index, None, _place_nibble, None
    if code[0] in "UD" or (code[0] == "S" and code != "S5"):
        fixed = int(operand.value, 0) if operand.value else None
        not_zero = variant.attributes.get("immzero") == "0" and operand.name == "IMM0"
        return operand.index, fixed, _place_immediate, (int(code[1:]), code in ("D8", "D16", "D32"), not_zero)
    if code[0] == "M":
        return operand.index, None, _place_memory, address_shape(variant, code, form)
    if code in ("O", "F"):
        return operand.index, None, _PLACERS[code], None
    numbers = numbers_of(operand.registers, extended=has_extended_registers(form))
    limit = _LIMITS.get(code[1:], 32)
    return operand.index, None, _PLACERS[code[0]], {name: n for name, n in numbers.items() if n & 31 < limit}


def address_shape(variant: InstructionVariant, code: str, form: Form) -> AddressShape:
    """Return what a form says of its memory operand."""
    agen = variant.attributes.get("agen", "0")
    return AddressShape(
        code=code,
        scale=form.scale,
        needs_sib=4 in form.conditions.get("rm", ()),
        modes=form.conditions.get("mod", (0, 1, 2)),
        agen="" if agen == "0" else agen,
        rip=not form.no_rip,
    )


def has_extended_registers(form: Form) -> bool:
    """Whether R16 to R31 can be encoded: with a REX2 prefix (maps 0 and 1 only) or in EVEX."""
    if form.space == "leg":
        return form.map < 2 and 1 in form.conditions.get("rex2", (0, 1))
    return form.space == "evex"


def check_distinct(form: Form, values: Mapping[int, OperandValue]) -> None:
    """Refuse registers that make the instruction undefined.

    Raises:
        EncodingError: two operands use the same register where they must not.
    """
    used = {index: _register_number(values[index]) for index in form.differ or form.unlike}
    first = used[form.unlike[0]] if form.unlike else -1
    if (form.differ and len(set(used.values())) < len(used)) or list(used.values()).count(first) > 1:
        operands = ", ".join(map(str, used))
        message = (
            f"operands {operands} must be different registers" if form.differ else "destination and sources must differ"
        )
        raise EncodingError(message, hint="Otherwise the instruction raises #UD.")


def _register_number(value: OperandValue) -> int:
    """Return the number of a register, or of an address's index."""
    name = value.index if isinstance(value, MemoryAddress) else str(value)
    return NUMBERS[name] & 31


def _rounding_mode(values: Mapping[int, OperandValue]) -> int:
    """Return the number of the rounding mode.

    Raises:
        EncodingError: there is no such mode.
    """
    mode = values.get(ROUNDING, ROUNDING_MODES[0])
    if mode not in ROUNDING_MODES:
        raise EncodingError(f"{mode!r} is not a rounding mode", hint=f"There are {', '.join(ROUNDING_MODES)}.")
    return ROUNDING_MODES.index(str(mode))


class _Assembler:
    """Puts an instruction together; one for each encoding space, holding a form's constant parts."""

    def __init__(self, form: PreparedForm, condition: Mapping[str, int]) -> None:
        self.form = form
        self.w = condition.get("w", 0)
        self.l = condition.get("l", 0)
        self.pp = condition.get("pp", 0)
        self.allowed = form.form.conditions

    def __call__(self, fields: _Fields) -> bytes:
        """Return the bytes of the instruction."""
        raise NotImplementedError

    def check(self, fields: _Fields, base: int) -> None:
        """Refuse register numbers that a condition forbids (`XCHG RAX, RAX` is not NOP).

        Raises:
            EncodingError: the form is for other registers.
        """
        actual = {"b3": base >> 3 & 1, "b4": base >> 4 & 1, "r3": fields.reg >> 3 & 1, "r4": fields.reg >> 4 & 1}
        actual["srm"] = fields.srm & 7
        if any(actual[name] not in self.allowed[name] for name in self.form.checks):
            raise EncodingError("the registers belong to another variant")


class _Legacy(_Assembler):
    """Prefixes, REX or REX2, escape bytes, opcode."""

    def __init__(self, form: PreparedForm, condition: Mapping[str, int]) -> None:
        super().__init__(form, condition)
        self.prefixes = b"\x67" * condition.get("asz", 0) + b"\xf0" * condition.get("lock", 0)
        self.prefixes += b"\x66" * condition.get("osz", 0) + {0: b"", 2: b"\xf2", 3: b"\xf3"}[condition.get("rep", 0)]
        self.map = form.form.map
        self.escape = _ESCAPES[self.map]
        self.always_rex2 = condition.get("rex2", 0) == 1
        self.may_rex2 = has_extended_registers(form.form)

    def __call__(self, fields: _Fields) -> bytes:
        """Return the bytes of the instruction."""
        address = fields.address
        prefixes = self.prefixes
        index = 0
        if address is None:
            base = fields.rm | fields.srm
        else:
            base, index = address.base, address.index
            prefixes = address.prefixes + prefixes
        reg = fields.reg
        if self.form.checks:
            self.check(fields, base)
        rex = self.w << 3 | reg >> 1 & 4 | index >> 2 & 2 | base >> 3 & 1
        escape = self.escape
        if (reg | index | base) & 16 or self.always_rex2:
            prefixes += self.rex2(rex | (reg & 16) << 2 | (index & 16) << 1 | base & 16, fields.rex)
            escape = b""
        elif rex or fields.rex & NEEDS_REX:
            if fields.rex & FORBIDS_REX:
                raise EncodingError("AH, CH, DH and BH cannot be encoded together with a REX prefix")
            prefixes += bytes((0x40 | rex,))
        opcode = bytes((self.form.opcode | fields.srm & 7,))
        if address is not None and address.modrm < 0:
            return prefixes + escape + opcode + fields.immediate
        return prefixes + escape + opcode + self.form.tail(fields)

    def rex2(self, payload: int, flags: int) -> bytes:
        """Return the REX2 prefix, which takes the place of the escape byte 0F too.

        Raises:
            EncodingError: the form does not allow REX2.
        """
        if not self.may_rex2:
            raise EncodingError("R16 to R31 cannot be used here")
        if flags & FORBIDS_REX:
            raise EncodingError("AH, CH, DH and BH cannot be encoded together with a REX2 prefix")
        return bytes((0xD5, payload | self.map << 7))


class _Vex(_Assembler):
    """A VEX prefix of two or three bytes, or an XOP prefix."""

    def __init__(self, form: PreparedForm, condition: Mapping[str, int]) -> None:
        super().__init__(form, condition)
        self.lead = 0x8F if form.form.space == "xop" else 0xC4
        self.map = form.form.map
        self.short = form.form.space == "vex" and self.map == 1 and not self.w
        self.opcode = bytes((form.opcode,))

    def __call__(self, fields: _Fields) -> bytes:
        """Return the bytes of the instruction."""
        address = fields.address
        index, prefixes = 0, b""
        if address is None:
            base = fields.rm
        else:
            base, index, prefixes = address.base, address.index, address.prefixes
        reg = fields.reg
        if (reg | index | base | fields.vvvv) & 16:
            raise EncodingError("registers above 15 cannot be used here")
        if self.form.checks:
            self.check(fields, base)
        last = (~fields.vvvv & 15) << 3 | self.l << 2 | self.pp
        if self.short and not (index | base) & 8:
            prefix = bytes((0xC5, (~reg & 8) << 4 | last))
        else:
            inverted = (~reg & 8) << 4 | (~index & 8) << 3 | (~base & 8) << 2
            prefix = bytes((self.lead, inverted | self.map, self.w << 7 | last))
        return prefixes + prefix + self.opcode + self.form.tail(fields)


class _Evex(_Assembler):
    """An EVEX prefix."""

    def __init__(self, form: PreparedForm, condition: Mapping[str, int]) -> None:
        super().__init__(form, condition)
        self.map = form.form.map
        self.u = condition.get("u", 1)
        self.p2 = condition.get("z", 0) << 7 | condition.get("b", 0) << 4
        self.vector_rm = any(code == "BX" for _, code in form.form.places)
        self.vector_index = any(code in ("MX", "MY", "MZ") for _, code in form.form.places)
        self.rounding = form.form.rounding
        self.opcode = bytes((form.opcode,))

    def __call__(self, fields: _Fields) -> bytes:
        """Return the bytes of the instruction."""
        address = fields.address
        reg, vvvv = fields.reg, fields.vvvv
        prefixes, u = b"", self.u
        base, x, b4 = fields.rm, 0, 0
        if address is not None:
            base, x, prefixes = address.base, address.index, address.prefixes
            b4 = base & 16
            if self.vector_index:
                vvvv |= x & 16
            elif x & 16:
                u = 0
        elif self.vector_rm:
            x = base >> 1
        else:
            b4 = base & 16
        if self.form.checks:
            self.check(fields, base)
        p0 = (~reg & 8) << 4 | (~x & 8) << 3 | (~base & 8) << 2 | ~reg & 16 | b4 >> 1 | self.map
        p1 = self.w << 7 | (~vvvv & 15) << 3 | u << 2 | self.pp
        length = fields.mode if self.rounding else self.l
        p2 = self.p2 | length << 5 | (~vvvv & 16) >> 1 | fields.aaa
        return prefixes + bytes((0x62, p0, p1, p2)) + self.opcode + self.form.tail(fields)


_ASSEMBLERS: dict[str, type[_Assembler]] = {"leg": _Legacy, "vex": _Vex, "xop": _Vex, "evex": _Evex}


class Encoder:
    """Encodes instructions of one variant, which is prepared once."""

    def __init__(self, variant: InstructionVariant) -> None:
        """Prepare a variant.

        Raises:
            EncodingError: the catalogue does not say how the variant is encoded.
        """
        if not variant.encoding:
            message = f"{variant.string}: the catalogue does not say how it is encoded"
            raise EncodingError(message, hint="Use a catalogue made by this program's converter.")
        self.variant = variant
        self.forms = tuple(PreparedForm(form, variant) for form in parse_encoding(variant.encoding))
        self._first = self.forms[0]

    def encode(self, values: Mapping[int, OperandValue]) -> bytes:
        """Return the bytes of the instruction with these values of its operands.

        Raises:
            EncodingError: a value is missing or does not fit; the message names variant and operand.
        """
        try:
            return self._first.encode(values)
        except EncodingError as error:
            return self._encode_otherwise(values, error)

    def _encode_otherwise(self, values: Mapping[int, OperandValue], first: EncodingError) -> bytes:
        """Try the further forms."""
        for form in self.forms[1:]:
            try:
                return form.encode(values)
            except EncodingError:
                continue
        message = f"{self.variant.string}: {first.message}"
        raise EncodingError(message, hint=first.hint) from first


class _Identity:
    """A variant as a key of a cache: variants hold mappings, which cannot be hashed, and are compared by identity."""

    __slots__ = ("variant",)

    def __init__(self, variant: InstructionVariant) -> None:
        self.variant = variant

    def __hash__(self) -> int:
        return id(self.variant)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.variant is other.variant


@lru_cache(maxsize=32768)
def _encoder(key: _Identity) -> Encoder:
    """Return the prepared encoder of a variant."""
    return Encoder(key.variant)


def encode(variant: InstructionVariant, values: Mapping[int, OperandValue]) -> bytes:
    """Return the bytes of an instruction: a variant with a value for each explicit operand, by operand index.

    Raises:
        EncodingError: a value is missing or does not fit; the message names variant and operand.
    """
    return _encoder(_Identity(variant)).encode(values)
