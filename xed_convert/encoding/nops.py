"""Long NOPs, for padding."""

from __future__ import annotations

from functools import cache

NOPS = ("", "90", "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000", "0f1f840000000000")
"""The recommended multi-byte NOPs by length in bytes (Intel SDM volume 2, NOP, table 4-12)."""

OPERAND_SIZE = b"\x66"
"""The prefix that makes a NOP longer."""


@cache
def nops(size: int) -> bytes:
    """Return `size` bytes of NOPs, as few NOPs as possible."""
    longest = len(NOPS) - 1
    return bytes.fromhex(NOPS[longest]) * (size // longest) + bytes.fromhex(NOPS[size % longest])


def long_nop(size: int) -> bytes:
    """Return one NOP of 1 to 15 bytes: the longest recommended one with operand size prefixes before it."""
    longest = len(NOPS) - 1
    return OPERAND_SIZE * max(0, size - longest) + nops(min(size, longest))
