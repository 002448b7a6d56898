"""Producers that carry a chain: they write a register in another way each, and read what they write.

    NEG RBX; NOT RBX; ADD RBX, 1        x again, as the sum of a register and an immediate
    AND RBX, R13; MOV RBX, [R14+RBX]    a load whose address waits for the old value; R13 holds 0

`carriers.tsv` has a row per place, role and name. A place is a register file, or `ADDR`: a register that an address
uses. Readers are instructions that only show what a producer takes by itself. The operands of lines are:

- the register: `OP8`, `OP32`, `OP64`, `OPV`; a general-purpose register that nothing else uses: `TMP64`;
- memory that holds its value: `MEM`; the same at an address that waits for it: `MEM_AT`, `MEM_SELF`, `MEM_AT_TMP`;
- `NEXT`, `PREVIOUS`: 1 more and 1 less, as addresses; `LOW`: the lowest byte of its value; and registers and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from generator.facts import parse_lines, read_facts
from generator.operands.registers import family, part
from generator.operands.reserved import BASE_REGISTER, INDEX_REGISTER
from generator.support.producers import MEMORY_AREA, named_lines, signed_byte
from results.model import LatencyPart
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.factory import InstructionFactory
    from generator.facts import LineTemplate
    from generator.microbenchmark import Line
    from generator.operands.places import Place
    from xed_convert.model import OperandValue

COLUMNS = ("place", "role", "name", "setup", "code", "reason", "source")
ADDRESS = "ADDR"
"""The place of registers that addresses use: they keep all 64 bits."""

_PLACES = {"R8": "R", "R16": "R", "R32": "R", "R64": "R", "ADDR": ADDRESS, "K": "K", "MMX": "MMX", "X87": "X87"}
_WHOLE = frozenset({"R32", "R64"})
_STACK = "RSP"


@dataclass(frozen=True, slots=True)
class Carried:
    """A register in a chain: its place in the table, what it holds, and a free register."""

    register: str
    place: str
    value: int
    free: str
    index: bool = False

    @property
    def tokens(self) -> Mapping[str, OperandValue]:
        """What the names in lines stand for."""
        named: dict[str, OperandValue] = {
            "MEM": MemoryAddress(BASE_REGISTER, displacement=MEMORY_AREA),
            "MEM_AT_TMP": MemoryAddress(BASE_REGISTER, index=self.free, displacement=MEMORY_AREA),
            "OPV": self.register,
            "TMP64": self.free,
            "LOW": signed_byte(self.value),
        }
        if self.place in {"R", ADDRESS}:
            whole = part(self.register, 64)
            at = MemoryAddress(BASE_REGISTER, index=whole, displacement=MEMORY_AREA)
            itself = MemoryAddress(whole, displacement=MEMORY_AREA)
            named |= {f"OP{bits}": part(self.register, bits) for bits in (8, 32, 64)}
            named |= {"MEM_AT": at, "MEM_SELF": itself}
            named |= {name: MemoryAddress(whole, displacement=by) for name, by in (("NEXT", 1), ("PREVIOUS", -1))}
        return named


@dataclass(frozen=True, slots=True)
class Carrier:
    """A row of the table; lines are variants' strings with the names of their operands."""

    place: str
    name: str
    setup: tuple[LineTemplate, ...]
    code: tuple[LineTemplate, ...]

    def lines(self, instructions: InstructionFactory, carried: Carried, *, setup: bool = False) -> tuple[Line, ...]:
        """Return the lines, or those of the setup, with names filled in.

        Raises:
            UnknownInstructionError: the catalogue lacks an instruction.
            EncodingError: a register cannot be named so.
        """
        return tuple(named_lines(instructions, self.setup if setup else self.code, carried.tokens))

    @property
    def needs_a_base(self) -> bool:
        """Whether it takes the register for the base of an address; an index does not point anywhere."""
        return any("MEM_SELF" in names for _, names in self.code)

    @property
    def writes_a_part(self) -> bool:
        """Whether it writes a byte alone, so that the rest carries the chain."""
        return any("OP8" in names for _, names in self.code)

    @property
    def clears_the_upper_half(self) -> bool:
        """Whether it writes 32 bits, so that the upper half of the register becomes zero."""
        return any("OP32" in names for _, names in self.code)


@cache
def carriers(place: str, role: str) -> tuple[Carrier, ...]:
    """Return the rows for a place that are `producer`s or `reader`s, in order."""
    return tuple(
        Carrier(row["place"], row["name"], parse_lines(row["setup"]), parse_lines(row["code"]))
        for row in read_facts("carriers.tsv", COLUMNS, ("place", "role", "name"))
        if (row["place"], row["role"]) == (place, role)
    )


def carried_place(place: Place) -> str:
    """Return the place in the table of an instance's input ("": nothing carries a chain there).

    The stack pointer is none: interrupts use the stack.
    """
    if place.flags or place.part is LatencyPart.MEMORY or place.resource == _STACK:
        return ""
    fixed = family(place.register) in {BASE_REGISTER, INDEX_REGISTER}
    return ADDRESS if fixed else _PLACES.get(place.node, "")


def fitting(place: Place, carried: Carried, *, restored: bool) -> tuple[Carrier, ...]:
    """Return the producers that can carry a chain into an input.

    Args:
        place: the input.
        carried: its register.
        restored: the chain puts back its value, which the producers then have to keep.
    """
    wide = restored and carried.value >> 32
    return tuple(
        one
        for one in carriers(carried.place, "producer")
        if not (one.writes_a_part and place.node not in _WHOLE)
        and not (one.clears_the_upper_half and wide)
        and not (one.needs_a_base and carried.index)
    )
