"""The forms that an opcode can stand for, selected by fields; and the operands that the fields give.

Of several forms that fit, the one with the most conditions comes first (`ADD_R0 (R8l, 0)` before `ADD_R0 (R8l, I8)`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from xed_convert.encoding.address import decode_address
from xed_convert.encoding.encoder import ROUNDING, ROUNDING_MODES, address_shape, check_distinct
from xed_convert.encoding.form import FIELDS, parse_encoding
from xed_convert.encoding.raw import SHIFT
from xed_convert.encoding.registers import FORBIDS_REX, NEEDS_REX, names_of
from xed_convert.errors import EncodingError
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.encoding.address import AddressShape
    from xed_convert.encoding.form import EncodingForm
    from xed_convert.encoding.raw import Raw
    from xed_convert.model import InstructionVariant, OperandValue


class _Registers(NamedTuple):
    """Names of registers by number, with and without a REX prefix, and the bits of the number that count."""

    with_rex: dict[int, str]
    without_rex: dict[int, str]
    mask: int


class _Immediate(NamedTuple):
    """Where an immediate stands, in bytes behind the first one, and which values fit (`fixed`: only that one)."""

    offset: int
    size: int
    signed: bool
    fixed: int | None
    not_zero: bool


class _Step(NamedTuple):
    """How to read one operand: the number of the operand, the function, and that function's argument."""

    operand: int
    take: Callable[[Raw, Any], OperandValue | None]
    argument: object


def _take_reg(raw: Raw, registers: _Registers) -> OperandValue | None:
    return (registers.with_rex if raw.bytes8 else registers.without_rex).get(raw.reg & registers.mask)


def _take_rm(raw: Raw, registers: _Registers) -> OperandValue | None:
    return (registers.with_rex if raw.bytes8 else registers.without_rex).get(raw.rm & registers.mask)


def _take_vector_rm(raw: Raw, registers: _Registers) -> OperandValue | None:
    return registers.with_rex.get(raw.rmx)


def _take_vvvv(raw: Raw, registers: _Registers) -> OperandValue | None:
    return registers.with_rex.get(raw.vvvv & registers.mask)


def _take_mask(raw: Raw, registers: _Registers) -> OperandValue | None:
    return registers.with_rex.get(raw.aaa)


def _take_srm(raw: Raw, registers: _Registers) -> OperandValue | None:
    return (registers.with_rex if raw.bytes8 else registers.without_rex).get(raw.srm)


def _take_is4(raw: Raw, registers: _Registers) -> OperandValue | None:
    return registers.with_rex.get(raw.data[raw.immediate] >> 4)


def _take_nibble(raw: Raw, _argument: object) -> OperandValue | None:
    return raw.data[raw.immediate] & 15


def _take_default_flags(raw: Raw, _argument: object) -> OperandValue | None:
    return 15 - (raw.vvvv & 15)


def _take_memory(raw: Raw, shape: AddressShape) -> OperandValue | None:
    return decode_address(raw, shape)


def _take_offset(raw: Raw, offset: int) -> OperandValue | None:
    start = raw.immediate + offset
    if raw.wide:
        value = int.from_bytes(raw.data[start : start + 8], "little", signed=True)
        return MemoryAddress(displacement=value, segment=raw.segment)
    raw.missing = 4
    value = int.from_bytes(raw.data[start : start + 4], "little")
    return MemoryAddress(displacement=value, segment=raw.segment, displacement_bits=32)


def _take_immediate(raw: Raw, one: _Immediate) -> OperandValue | None:
    start = raw.immediate + one.offset
    value = int.from_bytes(raw.data[start : start + one.size], "little", signed=one.signed)
    if (one.fixed is not None and value != one.fixed) or (one.not_zero and not value):
        return None
    return value


_TAKERS: dict[str, Callable[[Raw, Any], OperandValue | None]] = {
    "R": _take_reg,
    "B": _take_rm,
    "V": _take_vvvv,
    "K": _take_mask,
    "S": _take_srm,
    "Q": _take_is4,
    "F": _take_default_flags,
}


class DecodableForm:
    """One form of one variant, prepared for decoding."""

    __slots__ = ("distinct", "immediate_size", "key", "rounding", "selects", "steps", "suffix", "variant")

    def __init__(self, variant: InstructionVariant, form: EncodingForm) -> None:
        self.variant = variant
        self.suffix = form.suffix
        self.distinct = form if form.differ or form.unlike else None
        self.rounding = form.rounding
        self.immediate_size = int(any(code in ("Q", "U4") for _, code in form.places))
        self.steps: tuple[_Step, ...] = tuple(self._step(index, code, form) for index, code in form.places)
        self.selects = tuple(
            (SHIFT[name], (1 << FIELDS[name][1]) - 1, frozenset(values)) for name, values in form.conditions.items()
        )
        fixed = sum(bool(operand.value) for operand in variant.operands)
        agen = variant.attributes.get("agen", "0") != "0"
        self.key = (form.old, -len(form.conditions) - fixed - agen)

    def _step(self, index: int, code: str, form: EncodingForm) -> _Step:
        """Prepare the reading of one operand."""
        operand = self.variant.operand(index)
        if code == "U4":
            return _Step(index, _take_nibble, None)
        if code == "O":
            self.immediate_size += 8
            return _Step(index, _take_offset, self.immediate_size - 8)
        if code[0] in "UD" or (code[0] == "S" and code != "S5"):
            offset, size = self.immediate_size, int(code[1:]) // 8
            self.immediate_size += size
            signed = code[0] == "S" or code in ("D8", "D16", "D32")
            fixed = int(operand.value, 0) if operand.value else None
            not_zero = self.variant.attributes.get("immzero") == "0" and operand.name == "IMM0"
            return _Step(index, _take_immediate, _Immediate(offset, size, signed, fixed, not_zero))
        if code[0] == "M":
            return _Step(index, _take_memory, address_shape(self.variant, code, form))
        names = names_of(operand.registers, extended=form.has_extended_registers)
        with_rex = {number & 31: name for number, name in names.items() if not number & FORBIDS_REX}
        without = {number & 31: name for number, name in names.items() if not number & NEEDS_REX}
        mask = {"3": 7, "4": 15}.get(code[1:], 31)
        take = _take_vector_rm if code == "BX" else _TAKERS[code[0]]
        return _Step(index, take, _Registers(with_rex, without, mask))

    def matches(self, state: int) -> bool:
        """Whether the fields meet the form's conditions."""
        return all(state >> shift & mask in values for shift, mask, values in self.selects)

    def extract(self, raw: Raw) -> dict[int, OperandValue] | None:
        """Return the values of the operands, None if an operand does not fit."""
        if self.suffix is not None and raw.data[raw.immediate] != self.suffix:
            return None
        values: dict[int, OperandValue] = {}
        for index, take, argument in self.steps:
            value = take(raw, argument)
            if value is None:
                return None
            values[index] = value
        if self.distinct is not None and not _are_distinct(self.distinct, values):
            return None
        if self.rounding and raw.length:
            values[ROUNDING] = ROUNDING_MODES[raw.length]
        return values


def _are_distinct(form: EncodingForm, values: Mapping[int, OperandValue]) -> bool:
    """Whether those registers differ that must differ."""
    try:
        check_distinct(form, values)
    except EncodingError:
        return False
    return True


class Opcode:
    """All forms with one opcode. They are prepared when the decoder first meets it."""

    __slots__ = ("_candidates", "_pending", "_selected", "has_modrm", "ignores_mod", "mask")

    def __init__(self) -> None:
        self._pending: list[tuple[int, int]] = []
        self._candidates: list[DecodableForm] = []
        self._selected: dict[int, tuple[DecodableForm, ...]] = {}
        self.mask = 0
        self.has_modrm = False
        self.ignores_mod = True

    def add(self, number: int, form_number: int) -> None:
        """Add a form of the variant with that number."""
        self._pending.append((number, form_number))

    def prepare(self, catalogue: Catalogue) -> None:
        """Prepare the forms added since the last call; their variants are those of the catalogue."""
        for number, form_number in self._pending:
            variant = catalogue.variant(number)
            form = parse_encoding(variant.encoding)[form_number]
            self._candidates.append(DecodableForm(variant, form))
            self.has_modrm |= form.has_modrm and not form.old
            self.ignores_mod &= "mod" not in form.conditions
            for name in form.conditions:
                shift, width = FIELDS[name]
                self.mask |= (1 << width) - 1 << shift
        self._pending.clear()
        self._candidates.sort(key=lambda candidate: candidate.key)

    def select(self, state: int) -> tuple[DecodableForm, ...]:
        """Return the forms that these fields allow, those with the most conditions first."""
        state &= self.mask
        found = self._selected.get(state)
        if found is None:
            found = self._selected[state] = tuple(one for one in self._candidates if one.matches(state))
        return found

    @property
    def pending(self) -> bool:
        """Whether `prepare` has something to do."""
        return bool(self._pending)
