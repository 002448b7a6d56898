"""Locations: the carriers of values between µops (registers, flags, memory), by one name each.

A location is a string. All names of one register are one location (RAX, EAX, AX, AL and AH are "RAX"; XMM3, YMM3 and
ZMM3 are "ZMM3"), and every flag is a location of its own. A location in memory is named by its address as written:
base, index, scale and displacement, not their values.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from xed_convert.model import Operand

GENERAL = ("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", *(f"R{number}" for number in range(8, 32)))
STACK = tuple(f"ST{number}" for number in range(8))
VECTORS = frozenset(f"ZMM{number}" for number in range(32))


def _general_names() -> dict[str, tuple[str, int, bool]]:
    """Map every name of a general-purpose register to its location, width in bits, and whether it is a high byte."""
    names: dict[str, tuple[str, int, bool]] = {}
    for location in GENERAL[:8]:
        stem = location[1:]
        low = stem[0] + "L" if stem.endswith("X") else stem + "L"
        names |= {location: (location, 64, False), "E" + stem: (location, 32, False), stem: (location, 16, False)}
        names[low] = (location, 8, False)
        if stem.endswith("X"):
            names[stem[0] + "H"] = (location, 8, True)
    for location in GENERAL[8:]:
        names |= {location: (location, 64, False), location + "D": (location, 32, False)}
        names |= {location + "W": (location, 16, False), location + "B": (location, 8, False)}
    return names


_GENERAL_NAMES = _general_names()


@functools.cache
def location_of(register: str) -> str:
    """Return the location of a register."""
    if register in _GENERAL_NAMES:
        return _GENERAL_NAMES[register][0]
    vector = re.fullmatch(r"[XYZ]MM(\d+)", register)
    if vector:
        return f"ZMM{vector[1]}"
    stack = re.fullmatch(r"ST\(?(\d)\)?", register)
    return f"ST{stack[1]}" if stack else register


@functools.cache
def width_of(register: str) -> int:
    """Return the width of a general-purpose register in bits, 0 for other registers."""
    return _GENERAL_NAMES[register][1] if register in _GENERAL_NAMES else 0


@functools.cache
def is_high_byte(register: str) -> bool:
    """Whether it is AH, CH, DH or BH."""
    return register in _GENERAL_NAMES and _GENERAL_NAMES[register][2]


@functools.cache
def merges(register: str) -> bool:
    """Whether writing it keeps the rest of its location, and so depends on what was there before."""
    return 0 < width_of(register) < 32


@functools.cache
def high_byte_of(location: str) -> str:
    """Return the name of the high byte of a register ("": it has none)."""
    return next((name for name, (place, _, high) in _GENERAL_NAMES.items() if high and place == location), "")


def is_vector(operand: Operand) -> bool:
    """Whether an operand is an XMM, YMM or ZMM register."""
    is_named = operand.kind is OperandKind.REGISTER and bool(operand.registers)
    return is_named and location_of(operand.registers[0]) in VECTORS
