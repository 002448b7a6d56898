"""The small tables of the datafiles: widths, element types, fields, pointer names, broadcast strings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xed_convert.numbers import decimal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xed_convert.datafiles.source import FileLine


@dataclass(frozen=True, slots=True)
class Width:
    """A width code (oc2): its default element type and its size in bits for EOSZ 1, 2 and 3."""

    code: str
    xtype: str
    bits: tuple[int, int, int]

    @property
    def varies(self) -> bool:
        """Whether the size depends on the operand size."""
        return len(set(self.bits)) > 1


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type (xtype): its base type (INT, SINGLE ...) and size in bits (0: the whole operand)."""

    name: str
    base: str
    bits: int


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the decoder: the default visibility of operands with its name, and whether it is internal."""

    name: str
    visibility: str
    internal: bool


def read_widths(lines: Iterable[FileLine]) -> dict[str, Width]:
    """Read `code xtype size` or `code xtype size16 size32 size64`; sizes are in bytes unless they end in `bits`.

    Raises:
        ConversionError: a line is not of that form.
    """
    widths: dict[str, Width] = {}
    for line in lines:
        words = line.text.split()
        if len(words) not in (3, 5):
            raise line.error("expected a width code, an element type, and one size or three")
        sizes = [_size_bits(word, line) for word in words[2:]]
        three = (sizes[0], sizes[0], sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1], sizes[2])
        widths[words[0]] = Width(words[0], words[1], three)
    return widths


def _size_bits(text: str, line: FileLine) -> int:
    """Read a size in bytes (`8`) or bits (`5bits`)."""
    match = re.fullmatch(r"(\d+)(bits)?", text)
    if not match:
        raise line.error(f"expected a size in bytes or, as `5bits`, in bits, not {text!r}")
    return int(match[1]) * (1 if match[2] else 8)


def read_element_types(lines: Iterable[FileLine]) -> dict[str, ElementType]:
    """Read `xtype BASE bits`.

    Raises:
        ConversionError: a line is not of that form.
    """
    types: dict[str, ElementType] = {}
    for line in lines:
        words = line.text.split()
        bits = decimal(words[2]) if len(words) == 3 else None
        if bits is None:
            raise line.error("expected an element type, its base type and its size in bits")
        types[words[0]] = ElementType(words[0], words[1], bits)
    return types


def read_fields(lines: Iterable[FileLine]) -> dict[str, Field]:
    """Read `name SCALAR type bits VISIBILITY PRINT|NOPRINT INTERNAL|PUBLIC ...`.

    Raises:
        ConversionError: a line is not of that form.
    """
    fields: dict[str, Field] = {}
    for line in lines:
        words = line.text.split()
        if len(words) < 7 or words[4] not in ("EXPLICIT", "IMPLICIT", "SUPPRESSED"):
            raise line.error("expected name, SCALAR, type, bits, visibility, PRINT or NOPRINT, INTERNAL or PUBLIC")
        fields[words[0]] = Field(words[0], words[4], words[6] == "INTERNAL")
    return fields


def read_extra_widths(lines: Iterable[FileLine]) -> dict[str, str]:
    """Read `reg|nt|imm_const NAME code`: default width codes of registers and nonterminals.

    Raises:
        ConversionError: a line is not of that form.
    """
    extra: dict[str, str] = {}
    for line in lines:
        words = line.text.split()
        if len(words) != 3 or words[0] not in ("reg", "nt", "imm_const"):
            raise line.error("expected reg, nt or imm_const, a name, and a width code")
        extra[words[1]] = words[2]
    return extra


def read_pointer_names(lines: Iterable[FileLine]) -> dict[int, str]:
    """Read `bytes name suffix`: the assembler's name of memory operands by their size in bits.

    Raises:
        ConversionError: a line is not of that form.
    """
    names: dict[int, str] = {}
    for line in lines:
        words = line.text.split()
        size = decimal(words[0]) if len(words) >= 2 else None
        if size is None:
            raise line.error("expected a size in bytes and the name of pointers of that size")
        names[size * 8] = words[1]
    return names


@dataclass(frozen=True, slots=True)
class ConversionTable:
    """Strings for the values of a field: `NAME(FIELD)::` with lines `value -> 'string'`."""

    name: str
    field: str
    strings: dict[int, str]


def read_conversion_tables(lines: Iterable[FileLine]) -> dict[str, ConversionTable]:
    """Read conversion tables.

    Raises:
        ConversionError: a line is not of the known forms, or a value is listed twice.
    """
    tables: dict[str, ConversionTable] = {}
    current: ConversionTable | None = None
    for line in lines:
        if head := re.fullmatch(r"(\w+)\((\w+)\)::", line.text):
            current = tables.setdefault(head[1], ConversionTable(head[1], head[2], {}))
            continue
        row = re.fullmatch(r"(\d+)\s*->\s*'([^']*)'", line.text)
        if not row or current is None:
            raise line.error("expected `NAME(FIELD)::` or `value -> 'string'`")
        value = int(row[1])
        if value in current.strings:
            raise line.error(f"{current.name} lists {value} twice")
        current.strings[value] = row[2]
    return tables
