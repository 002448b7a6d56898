"""Properties of an instruction's bytes that its variant does not have: the place of the opcode, and the prefixes."""

from __future__ import annotations

PREFIXES = frozenset({0x66, 0x67, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0xF0, 0xF2, 0xF3})

VECTOR_PREFIX_BYTES = {0xC5: 2, 0xC4: 3, 0x62: 4}
"""Bytes of VEX and EVEX prefixes; the opcode follows (Intel SDM volume 2A, sections 2.3.5 and 2.7.1)."""


def prefix_bytes(data: bytes) -> int:
    """Return the number of legacy prefixes of an instruction."""
    return next((at for at, byte in enumerate(data) if byte not in PREFIXES), max(0, len(data) - 1))


def opcode_offset(data: bytes) -> int:
    """Return the offset of the opcode: after prefixes and escape bytes."""
    at = prefix_bytes(data)
    if at >= len(data) - 1:
        return at
    if data[at] in VECTOR_PREFIX_BYTES:
        return min(at + VECTOR_PREFIX_BYTES[data[at]], len(data) - 1)
    if data[at] & 0xF0 == 0x40:
        at += 1
    if at < len(data) - 1 and data[at] == 0x0F:
        at += 2 if data[at + 1] in (0x38, 0x3A) else 1
    return min(at, len(data) - 1)
