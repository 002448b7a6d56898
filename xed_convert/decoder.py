"""Decodes bytes back to an instruction variant and the values of its operands.

The bytes are taken apart into fields (prefixes, opcode, ModRM, SIB, displacement), the fields that matter for an opcode
select the forms of variants that match, and the first whose operands fit is the result: the more a variant demands, the
earlier it is tried (`ADD_R0 (R8l, 0)` before `ADD_R0 (R8l, I8)`).

Sources: Intel SDM volume 2A, chapter 2; AMD64 Architecture Programmer's Manual volume 3, section 1.2 (XOP); the Intel
APX architecture specification, section 3.1 (REX2, extended EVEX).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xed_convert.address import RawAddress, decode_address, displacement_size
from xed_convert.catalogue import Catalogue
from xed_convert.encoder import LONGEST, ROUNDING, ROUNDING_MODES, address_shape, check_distinct, has_extended_registers
from xed_convert.errors import DecodingError, EncodingError
from xed_convert.form import FIELDS, SPACES, parse_encoding
from xed_convert.model import MemoryAddress
from xed_convert.registers import FORBIDS_REX, NEEDS_REX, names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from xed_convert.address import AddressShape
    from xed_convert.form import Form
    from xed_convert.model import InstructionVariant, OperandValue

_SEGMENTS = {0x26: "", 0x2E: "", 0x36: "", 0x3E: "", 0x64: "FS", 0x65: "GS"}
_PREFIXES = frozenset({*_SEGMENTS, 0x66, 0x67, 0xF0, 0xF2, 0xF3, *range(0x40, 0x50)})
_SHIFT = {name: shift for name, (shift, _) in FIELDS.items()}
_MODRM_STATE = tuple((m >> 6) << 4 | (m >> 3 & 7) << 6 | (m & 7) << 9 for m in range(256))


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decoded instruction.

    `values` has a value for each explicit operand by operand index (and the rounding mode under `encoder.ROUNDING` if
    it is not the default). `address_bits` is 32 if a prefix 67 makes implicit addresses 32 bits wide, else 64.
    """

    variant: InstructionVariant
    values: Mapping[int, OperandValue]
    length_bytes: int
    address_bits: int = 64


class _Raw(RawAddress):
    """The fields of an instruction; register numbers have up to five bits.

    `state` collects the fields by which forms are selected, `immediate` is where the immediates begin, `bytes8` says
    that the numbers 4 to 7 mean SPL to DIL, `missing` by how many bytes an absolute address is shorter than 8.
    """

    __slots__ = (
        "aaa",
        "bytes8",
        "data",
        "immediate",
        "length",
        "lock",
        "missing",
        "osz",
        "reg",
        "rep",
        "rex",
        "rm",
        "rmx",
        "srm",
        "state",
        "vvvv",
    )

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.modrm = self.sib = self.displacement = self.base_high = self.index_high = self.vector_high = 0
        self.reg = self.rm = self.rmx = self.srm = self.vvvv = self.aaa = self.length = 0
        self.osz = self.rep = self.lock = self.rex = self.state = self.immediate = self.missing = 0
        self.bytes8 = False
        self.wide = True
        self.segment = ""


def _take_reg(raw: _Raw, argument: _Registers) -> OperandValue | None:
    return (argument[0] if raw.bytes8 else argument[1]).get(raw.reg & argument[2])


def _take_rm(raw: _Raw, argument: _Registers) -> OperandValue | None:
    return (argument[0] if raw.bytes8 else argument[1]).get(raw.rm & argument[2])


def _take_vector_rm(raw: _Raw, argument: _Registers) -> OperandValue | None:
    return argument[0].get(raw.rmx)


def _take_vvvv(raw: _Raw, argument: _Registers) -> OperandValue | None:
    return argument[0].get(raw.vvvv & argument[2])


def _take_mask(raw: _Raw, argument: _Registers) -> OperandValue | None:
    return argument[0].get(raw.aaa)


def _take_srm(raw: _Raw, argument: _Registers) -> OperandValue | None:
    return (argument[0] if raw.bytes8 else argument[1]).get(raw.srm)


def _take_is4(raw: _Raw, argument: _Registers) -> OperandValue | None:
    return argument[0].get(raw.data[raw.immediate] >> 4)


def _take_nibble(raw: _Raw, _argument: object) -> OperandValue | None:
    return raw.data[raw.immediate] & 15


def _take_default_flags(raw: _Raw, _argument: object) -> OperandValue | None:
    return 15 - (raw.vvvv & 15)


def _take_memory(raw: _Raw, shape: AddressShape) -> OperandValue | None:
    return decode_address(raw, shape)


def _take_offset(raw: _Raw, offset: int) -> OperandValue | None:
    start = raw.immediate + offset
    if raw.wide:
        value = int.from_bytes(raw.data[start : start + 8], "little", signed=True)
        return MemoryAddress(displacement=value, segment=raw.segment)
    raw.missing = 4
    value = int.from_bytes(raw.data[start : start + 4], "little")
    return MemoryAddress(displacement=value, segment=raw.segment, displacement_bits=32)


def _take_immediate(raw: _Raw, argument: tuple[int, int, bool, int | None, bool]) -> OperandValue | None:
    offset, size, signed, fixed, not_zero = argument
    start = raw.immediate + offset
    value = int.from_bytes(raw.data[start : start + size], "little", signed=signed)
    if (fixed is not None and value != fixed) or (not_zero and not value):
        return None
    return value


_TAKERS: dict[str, Callable[[_Raw, Any], OperandValue | None]] = {
    "R": _take_reg,
    "B": _take_rm,
    "V": _take_vvvv,
    "K": _take_mask,
    "S": _take_srm,
    "Q": _take_is4,
    "F": _take_default_flags,
}

_Registers = tuple[dict[int, str], dict[int, str], int]
_Step = tuple[int, "Callable[[_Raw, Any], OperandValue | None]", object]


class _Candidate:
    """One form of one variant, prepared for decoding."""

    __slots__ = ("distinct", "immediate_size", "key", "rounding", "selects", "steps", "suffix", "variant")

    def __init__(self, variant: InstructionVariant, form: Form) -> None:
        self.variant = variant
        self.suffix = form.suffix
        self.distinct = form if form.differ or form.unlike else None
        self.rounding = form.rounding
        self.immediate_size = int(any(code in ("Q", "U4") for _, code in form.places))
        self.steps: tuple[_Step, ...] = tuple(self._step(index, code, form) for index, code in form.places)
        self.selects = tuple(
            (_SHIFT[name], (1 << FIELDS[name][1]) - 1, frozenset(values)) for name, values in form.conditions.items()
        )
        fixed = sum(bool(operand.value) for operand in variant.operands)
        agen = variant.attributes.get("agen", "0") != "0"
        self.key = (form.old, -len(form.conditions) - fixed - agen)

    def _step(self, index: int, code: str, form: Form) -> _Step:
        """Prepare the reading of one operand."""
        operand = self.variant.operand(index)
        if code == "U4":
            return index, _take_nibble, None
        if code == "O":
            self.immediate_size += 8
            return index, _take_offset, self.immediate_size - 8
        if code[0] in "UD" or (code[0] == "S" and code != "S5"):
            offset, size = self.immediate_size, int(code[1:]) // 8
            self.immediate_size += size
            signed = code[0] == "S" or code in ("D8", "D16", "D32")
            fixed = int(operand.value, 0) if operand.value else None
            not_zero = self.variant.attributes.get("immzero") == "0" and operand.name == "IMM0"
            return index, _take_immediate, (offset, size, signed, fixed, not_zero)
        if code[0] == "M":
            return index, _take_memory, address_shape(self.variant, code, form)
        names = names_of(operand.registers, extended=has_extended_registers(form))
        with_rex = {number & 31: name for number, name in names.items() if not number & FORBIDS_REX}
        without = {number & 31: name for number, name in names.items() if not number & NEEDS_REX}
        mask = {"3": 7, "4": 15}.get(code[1:], 31)
        return index, _take_vector_rm if code == "BX" else _TAKERS[code[0]], (with_rex, without, mask)

    def matches(self, state: int) -> bool:
        """Whether the fields are those of the form."""
        return all(state >> shift & mask in values for shift, mask, values in self.selects)

    def extract(self, raw: _Raw) -> dict[int, OperandValue] | None:
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


def _are_distinct(form: Form, values: Mapping[int, OperandValue]) -> bool:
    """Whether the registers differ that have to."""
    try:
        check_distinct(form, values)
    except EncodingError:
        return False
    return True


class _Opcode:
    """All forms with one opcode; prepared when the opcode is met for the first time."""

    __slots__ = ("_candidates", "_memo", "_pending", "has_modrm", "ignores_mod", "mask")

    def __init__(self) -> None:
        self._pending: list[tuple[Callable[[], InstructionVariant], int]] = []
        self._candidates: list[_Candidate] = []
        self._memo: dict[int, tuple[_Candidate, ...]] = {}
        self.mask = 0
        self.has_modrm = False
        self.ignores_mod = True

    def add(self, load: Callable[[], InstructionVariant], number: int) -> None:
        """Add the form with that number of the variant that `load` returns."""
        self._pending.append((load, number))

    def prepare(self) -> None:
        """Prepare what was added."""
        for load, number in self._pending:
            variant = load()
            form = parse_encoding(variant.encoding)[number]
            self._candidates.append(_Candidate(variant, form))
            self.has_modrm |= form.has_modrm and not form.old
            self.ignores_mod &= "mod" not in form.conditions
            for name in form.conditions:
                shift, width = FIELDS[name]
                self.mask |= (1 << width) - 1 << shift
        self._pending.clear()
        self._candidates.sort(key=lambda candidate: candidate.key)

    def select(self, state: int) -> tuple[_Candidate, ...]:
        """Return the forms with these fields, those that demand most first."""
        state &= self.mask
        found = self._memo.get(state)
        if found is None:
            found = self._memo[state] = tuple(one for one in self._candidates if one.matches(state))
        return found

    @property
    def pending(self) -> bool:
        """Whether `prepare` has something to do."""
        return bool(self._pending)


class Decoder:
    """Decodes instructions of a catalogue."""

    def __init__(self, catalogue: Catalogue | Iterable[InstructionVariant]) -> None:
        """Sort the catalogue's variants by opcode; variants without encoding are left out."""
        known = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
        self._maps: dict[str, list[list[_Opcode | None]]] = {
            space: [[None] * 256 for _ in range(32)] for space in SPACES.values()
        }
        for load, encoding in known.encodings():
            for number, form in enumerate(encoding.split(" | ") if encoding else ()):
                self._add(load, number, form.partition(" ")[0])
        self._legacy = self._maps["leg"]

    def _add(self, load: Callable[[], InstructionVariant], number: int, head: str) -> None:
        """Enter a form under its opcode, by the first word of the form (`leg.1.AF`)."""
        space, map_number, text = head.split(".")[:3]
        first = int(text[:2], 16)
        table = self._maps[space][int(map_number)]
        for opcode in range(first, first + 8) if text.endswith("+") else (first,):
            entry = table[opcode]
            if entry is None:
                entry = table[opcode] = _Opcode()
            entry.add(load, number)

    def decode(self, data: bytes, offset: int = 0) -> Decoded:
        """Decode the instruction that begins at `offset`.

        Raises:
            DecodingError: the bytes are not an instruction of the catalogue; the message names the offset.
        """
        try:
            return self._decode(data, offset)
        except IndexError:
            message = f"offset {offset}: the instruction is truncated: {data[offset : offset + LONGEST].hex(' ')}"
            raise DecodingError(message) from None

    def _decode(self, data: bytes, offset: int) -> Decoded:
        """Decode; an IndexError means that the data ends too early."""
        raw = _Raw(data)
        position = offset
        byte = data[position]
        if byte in _PREFIXES:
            position = _read_prefixes(raw, position)
            byte = data[position]
        if byte in _VECTOR_LEADS and (byte != 0x8F or data[position + 1] & 0x1F >= 8):
            entry, position = self._read_vector(raw, position)
        else:
            entry, position = self._read_legacy(raw, position)
        if entry is None:
            raise _unknown(data, offset)
        if entry.pending:
            entry.prepare()
        if entry.has_modrm:
            position = _read_modrm(raw, position, registers=entry.ignores_mod)
        raw.immediate = position
        for candidate in entry.select(raw.state):
            values = candidate.extract(raw)
            if values is not None:
                end = position + candidate.immediate_size + (candidate.suffix is not None) - raw.missing
                if end > len(data):
                    raise IndexError
                if end - offset > LONGEST:
                    break
                return Decoded(candidate.variant, values, end - offset, 64 if raw.wide else 32)
        raise _unknown(data, offset)

    def _read_legacy(self, raw: _Raw, position: int) -> tuple[_Opcode | None, int]:
        """Read REX2, escape bytes and opcode."""
        data = raw.data
        byte = data[position]
        rex = raw.rex
        map_number = 0
        if byte == 0xD5 and not rex:
            payload = data[position + 1]
            map_number, byte = payload >> 7, data[position + 2]
            position += 2
            rex = payload & 0x7F
            raw.state = 1 << _SHIFT["rex2"]
            raw.bytes8 = True
        else:
            raw.bytes8 = rex != 0
            if byte == 0x0F:
                position += 1
                byte, map_number = data[position], 1
                if byte in (0x38, 0x3A):
                    map_number = 2 if byte == 0x38 else 3
                    position += 1
                    byte = data[position]
        b = (rex & 1) << 3 | rex & 0x10
        r = (rex & 4) << 1 | (rex & 0x40) >> 2 if raw.state else (rex & 4) << 1
        if not raw.state:
            b &= 8
        raw.base_high = raw.rm = raw.rmx = b
        raw.index_high = (rex & 2) << 2 | ((rex & 0x20) >> 1 if raw.state else 0)
        raw.reg = r
        raw.srm = byte & 7 | b
        raw.state |= (
            raw.osz
            | raw.rep << 1
            | (rex & 8)
            | (b & 8) << 10
            | (b & 16) << 10
            | (r & 8) << 12
            | (r & 16) << 12
            | (not raw.wide) << 17
            | raw.lock << 18
            | (byte & 7) << 34
        )
        return self._legacy[map_number][byte], position + 1

    def _read_vector(self, raw: _Raw, position: int) -> tuple[_Opcode | None, int]:
        """Read a VEX, EVEX or XOP prefix and the opcode."""
        if raw.osz or raw.rep or raw.lock or raw.rex:
            return None, position
        data = raw.data
        lead = data[position]
        raw.bytes8 = True
        if lead == 0x62:
            return self._read_evex(raw, position)
        first = data[position + 1]
        if lead == 0xC5:
            map_number, second = 1, first & 0x7F
            position += 2
            raw.reg = ~first >> 4 & 8
        else:
            map_number, second = first & 0x1F, data[position + 2]
            position += 3
            raw.reg = ~first >> 4 & 8
            raw.index_high = raw.vector_high = ~first >> 3 & 8
            raw.base_high = raw.rm = raw.rmx = ~first >> 2 & 8
        raw.vvvv = ~second >> 3 & 15
        raw.state = (
            (second >> 7) << 3
            | (raw.rm & 8) << 10
            | (raw.reg & 8) << 12
            | (not raw.wide) << 17
            | (second & 3) << 19
            | (second >> 2 & 1) << 21
            | raw.vvvv << 23
        )
        table = self._maps["xop" if lead == 0x8F else "vex"][map_number]
        return table[data[position]], position + 1

    def _read_evex(self, raw: _Raw, position: int) -> tuple[_Opcode | None, int]:
        """Read an EVEX prefix and the opcode."""
        data = raw.data
        p0, p1, p2 = data[position + 1], data[position + 2], data[position + 3]
        x, b = ~p0 >> 3 & 8, ~p0 >> 2 & 8
        raw.reg = ~p0 >> 4 & 8 | ~p0 & 16
        raw.vvvv = ~p1 >> 3 & 15 | ~p2 << 1 & 16
        raw.base_high = raw.rm = b | p0 << 1 & 16
        raw.rmx = b | x << 1
        raw.index_high = x | (~p1 << 2 & 16)
        raw.vector_high = x | raw.vvvv & 16
        raw.aaa = p2 & 7
        raw.length = p2 >> 5 & 3
        raw.state = (
            (p1 >> 7) << 3
            | (raw.rm & 8) << 10
            | (raw.rm & 16) << 10
            | (raw.reg & 8) << 12
            | (raw.reg & 16) << 12
            | (not raw.wide) << 17
            | (p1 & 3) << 19
            | raw.length << 21
            | raw.vvvv << 23
            | (p2 >> 4 & 1) << 28
            | (p2 >> 7) << 29
            | raw.aaa << 30
            | (p1 >> 2 & 1) << 33
        )
        return self._maps["evex"][p0 & 7][data[position + 4]], position + 5


_VECTOR_LEADS = frozenset({0xC4, 0xC5, 0x62, 0x8F})


def _read_prefixes(raw: _Raw, position: int) -> int:
    """Read legacy prefixes and REX; a REX that is not the last prefix counts for nothing."""
    data = raw.data
    byte = data[position]
    while byte in _PREFIXES:
        if byte >> 4 == 4:
            raw.rex = byte
        else:
            raw.rex = 0
            if byte == 0x66:
                raw.osz = 1
            elif byte == 0x67:
                raw.wide = False
            elif byte >= 0xF2:
                raw.rep = byte & 3 if byte == 0xF3 else 2
            elif byte == 0xF0:
                raw.lock = 1
            else:
                raw.segment = _SEGMENTS[byte] or raw.segment
        position += 1
        byte = data[position]
    return position


def _read_modrm(raw: _Raw, position: int, *, registers: bool) -> int:
    """Read ModRM, SIB and displacement, and return where the immediates begin.

    With `registers`, ModRM.mod counts for nothing and is taken for 3 (MOV to and from control registers).
    """
    data = raw.data
    modrm = raw.modrm = data[position]
    raw.state |= _MODRM_STATE[modrm]
    raw.reg |= modrm >> 3 & 7
    raw.rm |= modrm & 7
    raw.rmx |= modrm & 7
    position += 1
    if modrm >= 0xC0 or registers:
        return position
    if modrm & 7 == 4:
        raw.sib = data[position]
        position += 1
    size = displacement_size(modrm, raw.sib)
    if size:
        raw.displacement = int.from_bytes(data[position : position + size], "little", signed=True)
    return position + size


def _unknown(data: bytes, offset: int) -> DecodingError:
    """Return the error for bytes that are no instruction."""
    return DecodingError(
        f"offset {offset}: not an instruction of the catalogue: {data[offset : offset + LONGEST].hex(' ')}"
    )
