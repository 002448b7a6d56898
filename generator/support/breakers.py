"""Instructions that cut a dependency: they overwrite a place without reading it.

After every copy, each output of the instruction under test is overwritten, unless it is part of the chain. This
includes outputs that the catalogue does not call inputs. They can be false inputs (POPCNT, LZCNT and TZCNT on some
cores), and results of 8 and 16 bits are merged into their register. Flags are overwritten only if the instruction
reads any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from generator.cache import PerObject
from generator.facts import parse_lines, read_facts
from generator.operands.places import is_vex
from generator.operands.registers import part, register_class
from xed_convert.model import Instance, MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.factory import InstructionFactory
    from generator.facts import LineTemplate
    from generator.microbenchmark import Line
    from xed_convert.model import OperandValue

COPIES = {"VEC": "XMM15", "K": "K7", "MMX": "MM7"}
"""Temporaries that hold what breakers put into registers of each file."""


VEX_REGISTERS = 16
"""Vector registers that VEX code can name; EVEX code names 32 (Intel SDM volume 2, section 2.7)."""

EVEX_BITS = 512
"""Vector registers of this width have EVEX code only."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """A row of `dependency_breakers.tsv`: an instruction with tokens for its operands, or several."""

    lines: tuple[LineTemplate, ...]


@cache
def _breakers() -> dict[str, Breaker]:
    """Return the rows by place; general purpose registers have one each for values of 32 and 64 bits."""
    found = {}
    for row in read_facts("dependency_breakers.tsv", ("place", "bits", "line", "reason"), ("place", "bits")):
        name = row["place"] + row["bits"] if row["place"] == "GPR" else row["place"]
        found[name] = Breaker(parse_lines(row["line"]))
    return found


def break_stack(instructions: InstructionFactory) -> list[Line]:
    """Return the lines that put another value on the top of the x87 stack."""
    return _lines(instructions, _breakers()["X87"], {"ST(0)": "ST(0)"})


def break_register(
    instructions: InstructionFactory, register: str, value: int, *, vex: bool = False, bits: int = 128
) -> Line | None:
    """Return the line that puts a value into a general purpose register, or the temporary's content into another one.

    Args:
        instructions: makes the line.
        register: any name of the register.
        value: the value, for general purpose registers.
        vex: whether vector registers are to be written with VEX code.
        bits: how wide a vector register is used.
    """
    group = register_class(register)
    if group == "GPR":
        row = _breakers()["GPR32" if 0 <= value < 1 << 31 else "GPR64"]
        return _line(instructions, row, {"TO32": part(register, 32), "TO64": part(register, 64), "VALUE": value})
    if group not in COPIES:
        return None
    if group == "VEC":
        row = _breakers()[_vector_row(register, bits) if vex else "XMM"]
        copy = {f"COPY{width}": part(COPIES[group], width) for width in (128, 256, 512)}
        return _line(instructions, row, {**{f"TO{width}": part(register, width) for width in (128, 256, 512)}, **copy})
    return _line(instructions, _breakers()[group], {"TO": register, "COPY": COPIES[group]})


def _vector_row(register: str, bits: int) -> str:
    """Return the place in the table of a vector register: without EVEX only the first sixteen can be named."""
    return f"V{bits}_EVEX" if bits < EVEX_BITS and int(register[3:]) >= VEX_REGISTERS else f"V{bits}"


def restore_address(instructions: InstructionFactory, register: str, copy: str) -> Line:
    """Return the line that puts an address back from a copy of it."""
    return _line(instructions, _breakers()["ADDRESS"], {"TO64": part(register, 64), "COPY": copy})


def break_memory(instructions: InstructionFactory, bits: int | None, address: MemoryAddress) -> Line | None:
    """Return the store that replaces a memory operand's content (None: there is none of that width)."""
    row = _breakers().get(f"M{bits}")
    return _line(instructions, row, {"MEM": address, "COPY128": COPIES["VEC"]}) if row else None


def break_flags_by_idiom(instructions: InstructionFactory, scratch: str) -> list[Line]:
    """Return the line that overwrites all status flags: a zero idiom of a register."""
    return [_line(instructions, _breakers()["FLAGS_IDIOM"], {"SCRATCH": scratch})]


def break_flags(instructions: InstructionFactory, read: frozenset[str], source: str, scratch: str) -> list[Line]:
    """Return lines after which the flags that are read depend on nothing, but for `source` ("": none is kept).

    Of the flags besides CF none can be replaced alone; they are kept if `source` is one of them.
    """
    others = read - {source}
    if not others:
        return []
    if not source:
        name = "FLAGS"
    elif source == "CF":
        name = "NOT_CF"
    elif "CF" in others:
        name = "CF"
    else:
        return []
    return [_line(instructions, _breakers()[name], {"R15": "R15", "SCRATCH": scratch})]


def memory_widths(instance: Instance) -> Mapping[MemoryAddress, int | None]:
    """Return the memory operands that the instance both reads and writes, with their widths in bits."""
    return {
        value: operand.width_bits
        for operand in instance.variant.operands
        if operand.kind is OperandKind.MEMORY and operand.read and (operand.written or operand.conditional_write)
        if isinstance(value := instance.values.get(operand.index), MemoryAddress)
    }


@PerObject
def vector_bits(instance: Instance) -> int:
    """Return the width of the widest vector register that the instance names (128 if there is none)."""
    widths = {"XMM": 128, "YMM": 256, "ZMM": 512}
    names = [str(value) for value in instance.values.values() if isinstance(value, str)]
    return max((widths.get(name[:3], 128) for name in names), default=128)


def break_register_of(instructions: InstructionFactory, instance: Instance, register: str, value: int) -> Line | None:
    """Return the breaker for a register of an instance, in the kind of code that the instance is."""
    return break_register(instructions, register, value, vex=is_vex(instance), bits=vector_bits(instance))


def _line(instructions: InstructionFactory, row: Breaker, operands: Mapping[str, OperandValue]) -> Line:
    """Fill in a row of one instruction."""
    (line,) = _lines(instructions, row, operands)
    return line


def _lines(instructions: InstructionFactory, row: Breaker, operands: Mapping[str, OperandValue]) -> list[Line]:
    """Fill in a row."""
    return [
        instructions.line(string, *(operands[name] if name in operands else int(name) for name in names))
        for string, names in row.lines
    ]
