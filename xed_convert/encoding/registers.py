"""Registers by name: number in an encoding, class, width.

Numbers are those of Intel's Software Developer's Manual, volume 2A, table 3-1 and section 2.2.1.2 (REX), and of the APX
architecture specification, section 3.1 (R16 to R31). The byte registers with the numbers 4 to 7 have flags beside the
number: SPL to DIL need a REX prefix, AH to BH forbid it.
"""

from __future__ import annotations

from functools import lru_cache

NEEDS_REX = 0x100
"""Set in the number of SPL, BPL, SIL and DIL."""

FORBIDS_REX = 0x200
"""Set in the number of AH, CH, DH and BH."""

_LOW = ("AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI")
_SUFFIX = {8: "B", 16: "W", 32: "D", 64: ""}


def _gpr_names(width_bits: int) -> tuple[str, ...]:
    """Return the 32 general purpose registers of a width, without AH to BH."""
    if width_bits == 8:
        low = tuple(name[0] + "L" if name[1] == "X" else name + "L" for name in _LOW)
    else:
        low = tuple({16: "", 32: "E", 64: "R"}[width_bits] + name for name in _LOW)
    return low + tuple(f"R{number}{_SUFFIX[width_bits]}" for number in range(8, 32))


GPR = {width: _gpr_names(width) for width in (8, 16, 32, 64)}
"""The 32 general purpose registers by width in bits, in the order of their numbers."""

HIGH8 = ("AH", "CH", "DH", "BH")
"""Bits 15 to 8 of AX, CX, DX, BX: the numbers 4 to 7 without a REX prefix."""

CLASSES: dict[str, tuple[str, ...]] = {
    **{f"GPR{width}": names for width, names in GPR.items()},
    "XMM": tuple(f"XMM{number}" for number in range(32)),
    "YMM": tuple(f"YMM{number}" for number in range(32)),
    "ZMM": tuple(f"ZMM{number}" for number in range(32)),
    "MMX": tuple(f"MM{number}" for number in range(8)),
    "K": tuple(f"K{number}" for number in range(8)),
    "TMM": tuple(f"TMM{number}" for number in range(8)),
    "X87": tuple(f"ST({number})" for number in range(8)),
    "SEG": ("ES", "CS", "SS", "DS", "FS", "GS"),
    "CR": tuple(f"CR{number}" for number in range(16)),
    "DR": tuple(f"DR{number}" for number in range(16)),
    "BND": tuple(f"BND{number}" for number in range(4)),
    "BSR": tuple(f"BSR{number}" for number in range(2)),
}
"""Register classes, each in the order of the numbers in an encoding."""

_ALIASES = {
    **{f"ST{number}": f"ST({number})" for number in range(8)},
    "ST": "ST(0)",
    **{f"MMX{number}": f"MM{number}" for number in range(8)},
    **{f"R{number}L": f"R{number}B" for number in range(8, 32)},
}


def _all_numbers() -> dict[str, int]:
    """Return the number of every register."""
    numbers = {name: number for names in CLASSES.values() for number, name in enumerate(names)}
    for number in range(4, 8):
        numbers[GPR[8][number]] = number | NEEDS_REX
        numbers[HIGH8[number - 4]] = number | FORBIDS_REX
    return numbers


NUMBERS: dict[str, int] = _all_numbers()
"""The number of each register, with NEEDS_REX and FORBIDS_REX."""

CLASS_OF: dict[str, str] = {name: kind for kind, names in CLASSES.items() for name in names} | dict.fromkeys(
    HIGH8, "GPR8"
)
"""The class of each register."""


def needs_rex(name: str) -> bool:
    """Whether a legacy encoding reaches the register only with a REX prefix, which AH to BH forbid."""
    return NUMBERS.get(name, 0) & ~FORBIDS_REX > 7


def canonical(name: str) -> str:
    """Return the catalogue's name of a register as people write it (`st(1)`, `mmx0`, `r8l`), in upper case."""
    upper = name.upper()
    return _ALIASES.get(upper, upper)


@lru_cache(maxsize=4096)
def numbers_of(registers: tuple[str, ...], *, extended: bool) -> dict[str, int]:
    """Return the numbers of the registers that an operand may be, by name.

    `extended` adds R16 to R31, which the catalogue need not list. If R8 is possible, R16 and R24 are, and so on.
    """
    numbers = {name: NUMBERS[name] for name in registers if name in NUMBERS}
    if extended:
        for names in GPR.values():
            numbers |= {names[n]: NUMBERS[names[n]] for n in range(16, 32) if names[8 + n % 8] in numbers}
    return numbers


@lru_cache(maxsize=4096)
def names_of(registers: tuple[str, ...], *, extended: bool) -> dict[int, str]:
    """Return the inverse of `numbers_of`: numbers (with NEEDS_REX and FORBIDS_REX) to names."""
    return {number: name for name, number in numbers_of(registers, extended=extended).items()}
