"""Registers as storage: which names are parts of the same register, and how wide each name is.

The register that a name is part of is called its family and named by its widest member: RAX for EAX, AX, AL and AH,
ZMM3 for YMM3 and XMM3. Two names depend on each other exactly if they have the same family (Intel SDM volume 1,
sections 3.4.1 and 14.1).
"""

from __future__ import annotations

from functools import cache

from xed_convert.errors import UopscopeError


class RegisterError(UopscopeError):
    """A register name is unknown, or has no part of the width asked for."""


LEGACY_GPR = ("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI")
"""The eight registers that no REX prefix is needed for, in encoding order."""

HIGH8 = {"AH": "RAX", "CH": "RCX", "DH": "RDX", "BH": "RBX"}
"""Bits 8 to 15 of the first four; usable only without a REX prefix."""

VECTOR_PREFIX = {128: "XMM", 256: "YMM", 512: "ZMM"}
GPR_FAMILIES = (*LEGACY_GPR, *(f"R{number}" for number in range(8, 32)))


def _gpr_names(family: str) -> dict[int, str]:
    """Return the names of a general purpose register by width in bits."""
    if family not in LEGACY_GPR:
        return {64: family, 32: family + "D", 16: family + "W", 8: family + "B"}
    short = family[1:]
    low = short[0] + "L" if short.endswith("X") else short + "L"
    return {64: family, 32: "E" + short, 16: short, 8: low}


@cache
def _gpr_by_name() -> dict[str, tuple[str, int]]:
    """Map each general purpose register name to its family and width in bits."""
    table = {name: (family, width) for family in GPR_FAMILIES for width, name in _gpr_names(family).items()}
    table.update({name: (family, 8) for name, family in HIGH8.items()})
    return table


@cache
def family(register: str) -> str:
    """Return the widest register that `register` is part of; names that have no parts are their own family."""
    entry = _gpr_by_name().get(register)
    if entry:
        return entry[0]
    if register[:3] in {"XMM", "YMM"}:
        return "ZMM" + register[3:]
    if register in {"RIP", "EIP", "IP"}:
        return "RIP"
    return register


@cache
def register_class(register: str) -> str:
    """Return the register file: GPR, VEC, MMX, K, X87, TMM, BND, SEG, CR, DR, FLAGS or OTHER."""
    widest = family(register)
    if widest in GPR_FAMILIES:
        return "GPR"
    for prefix, name in (
        ("ZMM", "VEC"),
        ("MM", "MMX"),
        ("ST(", "X87"),
        ("TMM", "TMM"),
        ("BND", "BND"),
        ("CR", "CR"),
        ("DR", "DR"),
    ):
        if widest.startswith(prefix) and widest[len(prefix) :].rstrip(")").isdigit():
            return name
    if widest[:1] == "K" and widest[1:].isdigit():
        return "K"
    return "SEG" if widest in {"CS", "DS", "ES", "FS", "GS", "SS"} else "OTHER"


@cache
def width_bits(register: str) -> int:
    """Return the width of a register's name in bits (0: it has none, such as a tile)."""
    entry = _gpr_by_name().get(register)
    if entry:
        return entry[1]
    for width, prefix in VECTOR_PREFIX.items():
        if register.startswith(prefix):
            return width
    return {"MMX": 64, "K": 64, "X87": 80, "BND": 128, "SEG": 16}.get(register_class(register), 0)


def is_high8(register: str) -> bool:
    """Whether the register is AH, CH, DH or BH."""
    return register in HIGH8


@cache
def part(register: str, bits: int) -> str:
    """Return the low part of that width of the register's family: `part("RAX", 16)` is AX, `part("XMM1", 256)` is YMM1.

    Raises:
        RegisterError: there is no such part.
    """
    widest, group = family(register), register_class(register)
    if group == "GPR" and bits in {8, 16, 32, 64}:
        return _gpr_names(widest)[bits]
    if group == "VEC" and bits in VECTOR_PREFIX:
        return VECTOR_PREFIX[bits] + widest[3:]
    if group not in {"GPR", "VEC"}:
        return register
    message = f"{register} has no part of {bits} bits"
    raise RegisterError(message, hint="general purpose registers have 8, 16, 32 and 64 bits, vectors 128, 256 and 512")


@cache
def name_among(registers: tuple[str, ...], name: str) -> str:
    """Return which of some registers is the same as the one that `name` is part of ("": none).

    A high byte is the same as itself only: BH and BL share no bit, and many cores rename BH apart from RBX.
    """
    if name in registers:
        return name
    group = register_class(name)
    if is_high8(name) or group not in {"GPR", "VEC"}:
        return ""
    widths = (8, 16, 32, 64) if group == "GPR" else tuple(VECTOR_PREFIX)
    return next((other for width in widths if (other := part(name, width)) in registers), "")


def number(register: str) -> int:
    """Return the register's number in its file (RAX is 0, RDI 7, XMM12 12).

    Raises:
        RegisterError: it is not a numbered register.
    """
    widest = family(register)
    if widest in LEGACY_GPR:
        return LEGACY_GPR.index(widest)
    digits = "".join(character for character in widest if character.isdigit())
    if digits:
        return int(digits)
    message = f"{register} has no number"
    raise RegisterError(message, hint="only registers of a numbered file can be asked for")


def needs_rex(register: str) -> bool:
    """Whether encoding the register takes a REX prefix (or a VEX/EVEX bit): R8 to R31, SPL, BPL, SIL, DIL."""
    if register in {"SPL", "BPL", "SIL", "DIL"}:
        return True
    return register_class(register) == "GPR" and family(register) not in LEGACY_GPR
