"""Decodes bytes back to an instruction variant and the values of its operands.

`raw.py` takes the bytes apart into fields (prefixes, opcode, ModRM, SIB, displacement). The fields select forms of
variants, and the first form whose operands fit is the result (`candidates.py`).

Sources: Intel SDM volume 2A, chapter 2; AMD64 Architecture Programmer's Manual volume 3, section 1.2 (XOP); the Intel
APX architecture specification, section 3.1 (REX2, extended EVEX).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.candidates import Opcode
from xed_convert.encoding.encoder import LONGEST
from xed_convert.encoding.form import SPACES
from xed_convert.encoding.raw import PREFIXES, SHIFT, Raw, read_modrm, read_prefixes
from xed_convert.errors import DecodingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from xed_convert.model import InstructionVariant, OperandValue


def bytes_of(text: str) -> bytes:
    """Read hexadecimal bytes; spaces, commas, and prefixes of numbers do not matter.

    Raises:
        DecodingError: it is no hexadecimal text, or an empty one.
    """
    compact = text.replace("0x", " ").replace("\\x", " ").replace(",", " ")
    try:
        data = bytes.fromhex(compact)
    except ValueError as error:
        message = f"not bytes in hexadecimal: {text[:60]!r}"
        raise DecodingError(message, hint="for example: 62d164da580e") from error
    if not data:
        message = "there are no bytes to decode"
        raise DecodingError(message)
    return data


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decoded instruction.

    `values` has each explicit operand by index, and under `encoder.ROUNDING` a rounding mode that is not the default.
    `address_bits` is 32 if a prefix 67 makes implicit addresses 32 bits wide, else 64.
    """

    variant: InstructionVariant
    values: Mapping[int, OperandValue]
    length_bytes: int
    address_bits: int = 64


class Decoder:
    """Decodes instructions of a catalogue."""

    def __init__(self, catalogue: Catalogue | Iterable[InstructionVariant]) -> None:
        """Sort the catalogue's variants by opcode. Variants without encoding are left out."""
        self._catalogue = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
        self._maps: dict[str, list[list[Opcode | None]]] = {
            space: [[None] * 256 for _ in range(32)] for space in SPACES.values()
        }
        entries = cache(self._entries)
        for number, opcodes in enumerate(self._catalogue.opcodes):
            for form_number, entry in entries(opcodes):
                entry.add(number, form_number)
        self._legacy = self._maps["leg"]

    def _entries(self, opcodes: str) -> list[tuple[int, Opcode]]:
        """Return the entries of a variant's forms (`leg.1.AF vex.2.F7`), each with the form's number."""
        found: list[tuple[int, Opcode]] = []
        for number, form in enumerate(opcodes.split()):
            space, map_number, text = form.split(".")[:3]
            first = int(text[:2], 16)
            table = self._maps[space][int(map_number)]
            for opcode in range(first, first + 8) if text.endswith("+") else (first,):
                entry = table[opcode] = table[opcode] or Opcode()
                found.append((number, entry))
        return found

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

    def decode_all(self, data: bytes) -> Iterator[tuple[bytes, Decoded]]:
        """Yield the instructions of which the data consists, each with its bytes.

        Raises:
            DecodingError: bytes are not an instruction of the catalogue; the message names the offset.
        """
        offset = 0
        while offset < len(data):
            one = self.decode(data, offset)
            yield data[offset : offset + one.length_bytes], one
            offset += one.length_bytes

    def _decode(self, data: bytes, offset: int) -> Decoded:
        """Decode. Raises IndexError if the data ends too early."""
        raw = Raw(data)
        position = offset
        byte = data[position]
        if byte in PREFIXES:
            position = read_prefixes(raw, position)
            byte = data[position]
        if byte in _VECTOR_LEADS and (byte != 0x8F or data[position + 1] & 0x1F >= 8):
            entry, position = self._read_vector(raw, position)
        else:
            entry, position = self._read_legacy(raw, position)
        if entry is None:
            raise _unknown(data, offset)
        if entry.pending:
            entry.prepare(self._catalogue)
        if entry.has_modrm:
            position = read_modrm(raw, position, registers=entry.ignores_mod)
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

    def _read_legacy(self, raw: Raw, position: int) -> tuple[Opcode | None, int]:
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
            raw.state = 1 << SHIFT["rex2"]
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

    def _read_vector(self, raw: Raw, position: int) -> tuple[Opcode | None, int]:
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

    def _read_evex(self, raw: Raw, position: int) -> tuple[Opcode | None, int]:
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


def _unknown(data: bytes, offset: int) -> DecodingError:
    """Return the error for bytes that are no instruction."""
    return DecodingError(
        f"offset {offset}: not an instruction of the catalogue: {data[offset : offset + LONGEST].hex(' ')}"
    )
