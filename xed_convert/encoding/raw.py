"""The fields of an instruction while it is decoded, and the reading of prefixes and ModRM.

Source: Intel SDM volume 2A, chapter 2.
"""

from __future__ import annotations

from xed_convert.encoding.address import RawAddress, displacement_size
from xed_convert.encoding.form import FIELDS

_SEGMENTS = {0x26: "", 0x2E: "", 0x36: "", 0x3E: "", 0x64: "FS", 0x65: "GS"}
PREFIXES = frozenset({*_SEGMENTS, 0x66, 0x67, 0xF0, 0xF2, 0xF3, *range(0x40, 0x50)})
"""Legacy prefixes and REX."""

SHIFT = {name: shift for name, (shift, _) in FIELDS.items()}
"""The lowest bit of each field in `Raw.state`."""

_MODRM_STATE = tuple((m >> 6) << 4 | (m >> 3 & 7) << 6 | (m & 7) << 9 for m in range(256))


class Raw(RawAddress):
    """The fields of an instruction; register numbers have up to five bits.

    - `state`: the fields that select forms, each at its place by `form.FIELDS`.
    - `immediate`: where the immediates begin.
    - `bytes8`: the byte registers 4 to 7 are SPL to DIL.
    - `missing`: by how many bytes an absolute address is shorter than 8.
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


def read_prefixes(raw: Raw, position: int) -> int:
    """Read legacy prefixes and REX, and return where they end. A REX that is not the last prefix is ignored."""
    data = raw.data
    byte = data[position]
    while byte in PREFIXES:
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


def read_modrm(raw: Raw, position: int, *, registers: bool) -> int:
    """Read ModRM, SIB and displacement, and return where the immediates begin.

    With `registers`, ModRM.mod is ignored and taken for 3 (MOV to and from control registers).
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
