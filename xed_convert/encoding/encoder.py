"""Encodes an instruction variant with chosen operands.

`encode` encodes one instruction. An `Encoder` prepares a variant once, for many instructions of it.

Of several legal encodings the shortest is chosen: two-byte VEX, no superfluous REX or displacement. The variant or an
operand's value can demand a longer one. An immediate keeps the width that the variant names.

Values are given by operand index for every explicit operand, masks included. An operand with a fixed value may be left
out. The key `ROUNDING` (0) gives the mode of a variant with embedded rounding as in assembly (`ru-sae`); the default is
`rn-sae`.

This module turns operands into fields, and `spaces.py` turns fields into bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xed_convert.encoding.address import AddressBytes, AddressShape, encode_address
from xed_convert.encoding.fields import Fields, FixedParts
from xed_convert.encoding.form import parse_encoding
from xed_convert.encoding.registers import FORBIDS_REX, NEEDS_REX, NUMBERS, numbers_of
from xed_convert.encoding.spaces import SPACE_ENCODERS
from xed_convert.errors import EncodingError
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xed_convert.encoding.form import EncodingForm
    from xed_convert.model import InstructionVariant, Operand, OperandValue

LONGEST = 15
"""The length limit of an instruction in bytes (Intel SDM volume 2A, section 2.3.11)."""

ROUNDING = 0
"""The key of the rounding mode among the values."""

ROUNDING_MODES = ("rn-sae", "rd-sae", "ru-sae", "rz-sae")
"""Embedded rounding modes in the order of EVEX.L'L (Intel SDM volume 2A, section 2.7.7)."""

_REX_FLAGS = NEEDS_REX | FORBIDS_REX
_LIMITS = {"3": 8, "4": 16, "5": 32, "X": 32}


class PreparedForm:
    """One form of a variant's encoding; what does not depend on the values is prepared."""

    def __init__(self, form: EncodingForm, variant: InstructionVariant) -> None:
        """Prepare `form` for `variant`."""
        self.form = form
        self.fixed = FixedParts(form)
        self.steps = tuple(_step(variant, variant.operand(index), code, form) for index, code in form.places)
        self.assemble: Callable[[Fields], bytes] = SPACE_ENCODERS[form.space](self.fixed)

    def encode(self, values: Mapping[int, OperandValue]) -> bytes:
        """Return the bytes of the instruction.

        Raises:
            EncodingError: a value is missing or does not fit.
        """
        fields = Fields(self.fixed)
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


def _place_reg(fields: Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    number = _number(value, numbers)
    fields.reg = number & 31
    fields.rex |= number & _REX_FLAGS


def _place_rm(fields: Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    number = _number(value, numbers)
    fields.rm = number & 31
    fields.rex |= number & _REX_FLAGS


def _place_vvvv(fields: Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    fields.vvvv = _number(value, numbers) & 31


def _place_mask(fields: Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    fields.aaa = _number(value, numbers)


def _place_srm(fields: Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    number = _number(value, numbers)
    fields.srm = number & 31
    fields.rex |= number & _REX_FLAGS


def _place_is4(fields: Fields, value: OperandValue, numbers: Mapping[OperandValue, int]) -> None:
    fields.nibbles |= _number(value, numbers) << 4


def _place_nibble(fields: Fields, value: OperandValue, _argument: object) -> None:
    fields.nibbles |= _integer(value, 4, signed=False) & 15


def _place_default_flags(fields: Fields, value: OperandValue, _argument: object) -> None:
    fields.vvvv = fields.vvvv & 16 | 15 - (_integer(value, 4, signed=False) & 15)


class _Immediate(NamedTuple):
    """The width of an immediate in bits, whether it is a signed displacement, and whether 0 is another variant."""

    width_bits: int
    branch: bool
    not_zero: bool


def _place_immediate(fields: Fields, value: OperandValue, one: _Immediate) -> None:
    number = _integer(value, one.width_bits, signed=one.branch)
    if one.not_zero and not number:
        raise EncodingError("the immediate 0 belongs to the variant with immzero=1")
    fields.immediate += (number & (1 << one.width_bits) - 1).to_bytes(one.width_bits // 8, "little")


def _place_memory(fields: Fields, value: OperandValue, shape: AddressShape) -> None:
    if not isinstance(value, MemoryAddress):
        raise EncodingError(f"expected an address, not {value!r}")
    fields.address = encode_address(value, shape)


def _place_offset(fields: Fields, value: OperandValue, _argument: object) -> None:
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
    """Return an integer that fits into `width` bits: as a signed number or, unless `signed`, as an unsigned one."""
    if not isinstance(value, int):
        raise EncodingError(f"expected a number, not {value!r}")
    if not -(1 << (width - 1)) <= value < 1 << (width - signed):
        raise EncodingError(f"{value:#x} does not fit into {width} bits")
    return value


_PLACERS: dict[str, Callable[[Fields, OperandValue, Any], None]] = {
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


class _Step(NamedTuple):
    """How to place one operand: its number, its fixed value (None: it has none), the function and its argument."""

    operand: int
    fixed: OperandValue | None
    place: Callable[[Fields, OperandValue, Any], None]
    argument: object


def _step(variant: InstructionVariant, operand: Operand, code: str, form: EncodingForm) -> _Step:
    """Return how to place one operand."""
    if code == "U4":
        return _Step(operand.index, None, _place_nibble, None)
    if code[0] in "UD" or (code[0] == "S" and code != "S5"):
        fixed = int(operand.value, 0) if operand.value else None
        not_zero = variant.attributes.get("immzero") == "0" and operand.name == "IMM0"
        immediate = _Immediate(int(code[1:]), code in ("D8", "D16", "D32"), not_zero)
        return _Step(operand.index, fixed, _place_immediate, immediate)
    if code[0] == "M":
        return _Step(operand.index, None, _place_memory, address_shape(variant, code, form))
    if code in ("O", "F"):
        return _Step(operand.index, None, _PLACERS[code], None)
    numbers = numbers_of(operand.registers, extended=form.has_extended_registers)
    limit = _LIMITS.get(code[1:], 32)
    encodable = {name: number for name, number in numbers.items() if number & 31 < limit}
    return _Step(operand.index, None, _PLACERS[code[0]], encodable)


def address_shape(variant: InstructionVariant, code: str, form: EncodingForm) -> AddressShape:
    """Return the shape of a form's memory operand."""
    agen = variant.attributes.get("agen", "0")
    return AddressShape(
        code=code,
        scale=form.scale,
        needs_sib=4 in form.conditions.get("rm", ()),
        modes=form.conditions.get("mod", (0, 1, 2)),
        agen="" if agen == "0" else agen,
        rip=not form.no_rip,
    )


def check_distinct(form: EncodingForm, values: Mapping[int, OperandValue]) -> None:
    """Refuse equal registers where they make the instruction undefined.

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


class Encoder:
    """Encodes instructions of one variant."""

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
    """A variant as a key of a cache, compared by identity: variants hold mappings, which cannot be hashed."""

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
