"""Producers: instructions that write a register, each in another way, with the same value.

    MOV ECX, 1                  SHLX takes 1 cycle behind it on Alder Lake
    MOV ECX, 0; ADD RCX, 1      SHLX takes 3 cycles behind it: rename keeps the sum apart from the register

`producers.tsv` has a row per place and name. A place is a register file, or `uppers`: the upper halves of all vectors.
Lines are as in `prologues.tsv`. Their operands are the register (`OP32`, `OPV`), its value (`VALUE`), memory that holds
it (`MEM`), a vector that nothing else uses (`FREE256`), and registers and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from generator.facts import parse_lines, read_facts
from generator.operands.places import is_vex
from generator.operands.registers import number, part, register_class, width_bits
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.factory import InstructionFactory
    from generator.facts import LineTemplate
    from generator.microbenchmark import Line
    from xed_convert.model import Instance, OperandValue

COLUMNS = ("place", "name", "value", "setup", "code", "reason", "source")

UPPERS = "uppers"
"""The place of producers that no operand is given to."""

MEMORY_AREA = 0x480
"""Where the setup stores values for loads, in bytes from R14: after the patterns and the configuration of tiles."""

MEMORY_BYTES = 64
"""The widest register, in bytes."""

_LARGEST_IMMEDIATE = (1 << 31) - 1
_NEEDS_VALUE = frozenset({"VALUE", "BEFORE", "LOW"})
_VEX_REGISTERS = 16


@dataclass(frozen=True, slots=True)
class Produced:
    """A register that is produced: which operand it is, its place in the table, its number in the area of memory.

    `value` is what a general-purpose register holds.
    """

    operand: int
    register: str
    place: str
    slot: int
    value: int = 0

    @property
    def tokens(self) -> Mapping[str, OperandValue]:
        """What the names in lines stand for."""
        address = MemoryAddress("R14", displacement=MEMORY_AREA + MEMORY_BYTES * self.slot)
        named: dict[str, OperandValue] = {
            "VALUE": self.value,
            "BEFORE": self.value - 1,
            "LOW": signed_byte(self.value),
            "MEM": address,
            "OPV": self.register,
        }
        if self.place == "R":
            named |= {f"OP{bits}": part(self.register, bits) for bits in (8, 32, 64)}
            named["NEXT"] = MemoryAddress(part(self.register, 64), displacement=1)
        if register_class(self.register) == "VEC":
            named["OP128"] = part(self.register, 128)
        return named


@dataclass(frozen=True, slots=True)
class Producer:
    """A row of the table; lines are variants' strings with the names of their operands."""

    place: str
    name: str
    keeps_value: bool
    setup: tuple[LineTemplate, ...]
    code: tuple[LineTemplate, ...]

    def fits(self, produced: Produced) -> bool:
        """Whether the producer can write that register with its value, or with zero."""
        named = {token for _, tokens in self.code for token in tokens}
        small = 1 <= produced.value <= _LARGEST_IMMEDIATE
        return self.place == produced.place and (small or not named & _NEEDS_VALUE)

    def lines(
        self, instructions: InstructionFactory, tokens: Mapping[str, OperandValue], *, setup: bool = False
    ) -> list[Line]:
        """Return the lines, or those of the setup, with names filled in.

        Raises:
            UnknownInstructionError: the catalogue lacks an instruction.
            EncodingError: a register cannot be named so.
        """
        return named_lines(instructions, self.setup if setup else self.code, tokens)


def named_lines(
    instructions: InstructionFactory, rows: Sequence[LineTemplate], tokens: Mapping[str, OperandValue]
) -> list[Line]:
    """Return the lines of a table's cell, with names filled in.

    Raises:
        UnknownInstructionError: the catalogue lacks an instruction.
        EncodingError: a register cannot be named so.
    """
    return [
        instructions.line(string, *(named_value(token, tokens) for token in names if token)) for string, names in rows
    ]


def signed_byte(value: int) -> int:
    """Return the lowest byte of a value as a signed number."""
    return (value + 128) % 256 - 128


def named_value(token: str, tokens: Mapping[str, OperandValue]) -> OperandValue:
    """Return the operand that a token stands for: what is named so, a number, or a register."""
    if token in tokens:
        return tokens[token]
    return int(token, 0) if token[0].isdigit() else token


@cache
def producers(place: str) -> tuple[Producer, ...]:
    """Return the rows for a place, in order."""
    return tuple(
        Producer(row["place"], row["name"], row["value"] == "kept", parse_lines(row["setup"]), parse_lines(row["code"]))
        for row in read_facts("producers.tsv", COLUMNS, ("place", "name"))
        if row["place"] == place
    )


def place_of(instance: Instance, register: str) -> str:
    """Return the place in the table of a register ("": there are no producers of it)."""
    group = register_class(register)
    if group == "VEC":
        bits = width_bits(register)
        evex_alone = bits < 512 and number(register) >= _VEX_REGISTERS
        return "" if evex_alone else f"V{bits}" if is_vex(instance) else "XMM"
    return {"GPR": "R", "K": "K"}.get(group, "")


def fitting(place: str, all_produced: Sequence[Produced]) -> tuple[Producer, ...]:
    """Return the producers of a place that can write all those registers."""
    mine = [one for one in all_produced if one.place == place]
    return tuple(one for one in producers(place) if all(one.fits(produced) for produced in mine))
