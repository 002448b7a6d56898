"""Memory operands as ModRM, SIB and displacement bytes, and back, for 64-bit mode.

Sources: Intel SDM volume 2A, section 2.1.5 (tables 2-2 and 2-3), section 2.2.1.6 (RIP-relative), section 2.3.12 (vector
SIB) and section 2.7.5 (compressed displacement); the Intel APX architecture specification, section 3.1 (R16 to R31).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from xed_convert.encoding.registers import CLASSES, GPR, NUMBERS
from xed_convert.errors import EncodingError
from xed_convert.model import MemoryAddress

SEGMENT_PREFIXES = {"FS": 0x64, "GS": 0x65}
"""Segment overrides that have an effect in 64-bit mode."""

_SCALES = {1: 0, 2: 1, 4: 2, 8: 3}
_RIP = {"RIP": 64, "EIP": 32}
_INDEX_CLASSES = {"MX": CLASSES["XMM"], "MY": CLASSES["YMM"], "MZ": CLASSES["ZMM"]}
_GPR64, _GPR32 = GPR[64], GPR[32]
_BASES = {name: (NUMBERS[name], width) for width in (32, 64) for name in GPR[width]}


@dataclass(frozen=True, slots=True)
class AddressShape:
    """What a form says of its memory operand.

    - `code`: the place's code (`M`, `MX` ...).
    - `scale`: the unit of an 8-bit displacement in bytes.
    - `needs_sib`: there must be a SIB byte.
    - `modes`: the allowed values of ModRM.mod.
    - `agen`: the variant's attribute of that name.
    - `rip`: the address may be relative to RIP.
    """

    code: str = "M"
    scale: int = 1
    needs_sib: bool = False
    modes: tuple[int, ...] = (0, 1, 2)
    agen: str = ""
    rip: bool = True


@dataclass(frozen=True, slots=True)
class AddressBytes:
    """An encoded address: ModRM without reg, SIB and displacement, numbers of base and index, and prefixes."""

    modrm: int
    tail: bytes
    base: int
    index: int
    prefixes: bytes


def agen_form(address: MemoryAddress, displacement_bits: int) -> str:
    """Return the catalogue's name of an address form: B, I, IS, R joined with D8 or D32 (`B_IS_D8`)."""
    parts = ["R" if address.base in _RIP else "B"] if address.base else []
    if address.index:
        parts.append("IS" if address.scale > 1 else "I")
    if displacement_bits:
        parts.append(f"D{displacement_bits}")
    return "_".join(parts)


@lru_cache(maxsize=65536)
def encode_address(address: MemoryAddress, shape: AddressShape) -> AddressBytes:
    """Encode an address in the shortest legal form, or with the width of displacement that it demands.

    Raises:
        EncodingError: 64-bit mode has no such address, or the form does not allow it.
    """
    prefixes = _segment_prefix(address.segment)
    if address.base in _RIP:
        return _encode_rip(address, shape, prefixes)
    base, index, width = _numbers(address, shape)
    if width == 32:
        prefixes += b"\x67"
    mod, displacement = _displacement(address, shape, base)
    if not address.index and base & 7 != 4 and base >= 0 and not shape.needs_sib:
        return AddressBytes(mod << 6 | base & 7, displacement, base, 0, prefixes)
    sib = _SCALES[address.scale] << 6 | (index & 7) << 3 | (5 if base < 0 else base & 7)
    return AddressBytes(
        mod << 6 | 4, bytes((sib,)) + displacement, max(base, 0), index if address.index else 0, prefixes
    )


def _segment_prefix(segment: str) -> bytes:
    """Return the prefix of a segment override."""
    if not segment:
        return b""
    if segment not in SEGMENT_PREFIXES:
        raise EncodingError(f"segment {segment} has no effect in 64-bit mode", hint="Leave it out, or use FS or GS.")
    return bytes((SEGMENT_PREFIXES[segment],))


def _encode_rip(address: MemoryAddress, shape: AddressShape, prefixes: bytes) -> AddressBytes:
    """Encode an address relative to the next instruction."""
    if address.index or shape.needs_sib or shape.code != "M":
        raise EncodingError(f"{address.base} cannot be combined with an index")
    if 0 not in shape.modes or shape.agen not in ("", "R_D32") or not shape.rip:
        raise EncodingError(f"{address.base}-relative addresses do not fit here")
    prefixes += b"\x67" if address.base == "EIP" else b""
    return AddressBytes(5, _signed(address.displacement, 4), 0, 0, prefixes)


def _numbers(address: MemoryAddress, shape: AddressShape) -> tuple[int, int, int]:
    """Return the numbers of base (-1: none) and index (4: none), and the address width in bits."""
    base, width = _BASES.get(address.base, (-1, 0))
    if base < 0 and address.base:
        raise EncodingError(f"{address.base} cannot be the base of an address", hint="Use a 64-bit general register.")
    if address.scale not in _SCALES:
        raise EncodingError(f"an index cannot be scaled by {address.scale}", hint="Use 1, 2, 4 or 8.")
    if shape.code != "M":
        names = _INDEX_CLASSES[shape.code]
        if address.index not in names:
            raise EncodingError(f"the index must be one of {names[0]} to {names[-1]}, not {address.index or 'missing'}")
        return base, NUMBERS[address.index], width or 64
    if not address.index:
        return base, 4, width or 64
    index, index_width = _BASES.get(address.index, (4, 0))
    if index == 4 or (width and width != index_width):
        raise EncodingError(f"{address.index} cannot be the index of an address with base {address.base or 'none'}")
    return base, index, index_width


def _displacement(address: MemoryAddress, shape: AddressShape, base: int) -> tuple[int, bytes]:
    """Return ModRM.mod and the bytes of the displacement."""
    modes = [mod for mod in _modes(address, shape, base) if mod in shape.modes]
    for mod in modes:
        width = 4 if base < 0 or mod == 2 else mod
        if shape.agen and agen_form(address, 8 * width) != shape.agen:
            continue
        return mod, _signed(address.displacement // (shape.scale if width == 1 else 1), width)
    hint = f"The variant is for addresses of the form {shape.agen}." if shape.agen else ""
    raise EncodingError(f"the address does not fit: displacement {address.displacement:#x}", hint=hint)


def _modes(address: MemoryAddress, shape: AddressShape, base: int) -> tuple[int, ...]:
    """Return the values of ModRM.mod that can express the displacement, shortest first."""
    displacement, bits = address.displacement, address.displacement_bits
    if base < 0:
        return (0,) if bits in (0, 32) else ()
    fits = []
    if not displacement and not bits and base & 7 != 5:
        fits.append(0)
    if bits in (0, 8) and displacement % shape.scale == 0 and -128 <= displacement // shape.scale <= 127:
        fits.append(1)
    if bits in (0, 32):
        fits.append(2)
    return tuple(fits)


def _signed(value: int, size: int) -> bytes:
    """Return a signed little-endian number."""
    try:
        return value.to_bytes(size, "little", signed=True)
    except OverflowError:
        raise EncodingError(f"the displacement {value:#x} does not fit into {8 * size} bits") from None


class RawAddress:
    """The fields of an encoded address.

    `displacement` is the encoded number, not yet scaled. The prefixes add `base_high`, `index_high` (0, 8, 16, 24) and,
    for a vector index, `vector_high` to the register numbers. `wide`: addresses have 64 bits.
    """

    __slots__ = ("base_high", "displacement", "index_high", "modrm", "segment", "sib", "vector_high", "wide")

    modrm: int
    sib: int
    displacement: int
    base_high: int
    index_high: int
    vector_high: int
    wide: bool
    segment: str


def displacement_size(modrm: int, sib: int) -> int:
    """Return the size of the displacement in bytes, from ModRM (mod not 3) and SIB (if ModRM.rm is 4)."""
    mod = modrm >> 6
    if mod:
        return 1 if mod == 1 else 4
    rm = modrm & 7
    return 4 if rm == 5 or (rm == 4 and sib & 7 == 5) else 0


def decode_address(raw: RawAddress, shape: AddressShape) -> MemoryAddress | None:
    """Return the address that the fields encode; None if the shape does not allow it.

    Its `displacement_bits` is 0 where the encoder would choose the same width.
    """
    names = _GPR64 if raw.wide else _GPR32
    modrm, sib = raw.modrm, raw.sib
    mod, rm = modrm >> 6, modrm & 7
    base, index, scale = "", "", 1
    width = 1 if mod == 1 else 4 if mod == 2 else displacement_size(modrm, sib)
    if rm == 4:
        if shape.code != "M":
            index, scale = _INDEX_CLASSES[shape.code][(sib >> 3 & 7) + raw.vector_high], 1 << (sib >> 6)
        elif (number := (sib >> 3 & 7) + raw.index_high) != 4:
            index, scale = names[number], 1 << (sib >> 6)
        if mod or sib & 7 != 5:
            base = names[(sib & 7) + raw.base_high]
    elif shape.needs_sib or shape.code != "M":
        return None
    elif mod == 0 and rm == 5:
        if not shape.rip:
            return None
        base = "RIP" if raw.wide else "EIP"
    else:
        base = names[rm + raw.base_high]
    displacement = raw.displacement
    bits = 0
    if width:
        if width == 1:
            displacement *= shape.scale
        bits = _forced_bits(base, displacement, width, shape)
    address = MemoryAddress(base, index, scale, displacement, raw.segment, bits)
    if shape.agen and agen_form(address, 8 * width) != shape.agen:
        return None
    return address


def _forced_bits(base: str, displacement: int, width: int, shape: AddressShape) -> int:
    """Return the displacement's width in bits if the encoder would choose another one, else 0."""
    if base in _RIP or not base or shape.agen:
        return 0
    if width == 1:
        return 0 if displacement or _BASES[base][0] & 7 == 5 else 8
    short = displacement % shape.scale == 0 and -128 <= displacement // shape.scale <= 127
    return 32 if short else 0
