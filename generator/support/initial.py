"""Initial values of vectors, masks, x87 registers and tiles: values that are neither slow nor fault.

Vectors hold 2.0 in every lane: as 32-bit numbers exactly, as 64-bit numbers but for the last bits. Nothing is denormal
or NaN. Index registers of VSIB addresses are zero, masks are all ones, and the x87 stack has a few 1.0. Tiles are
configured to their full size (Intel SDM volume 1, sections 4.8 and 8.1; volume 2A, LDTILECFG).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from generator.operands.effects import address_registers, effects_of
from generator.operands.places import is_vex
from generator.operands.registers import family, is_high8, number, part, register_class
from generator.operands.reserved import INDEX_REGISTER
from generator.operands.values import DEFAULT_VALUE
from generator.support.breakers import COPIES, vector_bits
from xed_convert.model import Instance, MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line
    from generator.operands.values import Values

TWO = 0x4000000040000000
"""2.0 twice as a 32-bit number; as a 64-bit number a little more than 2.0."""

ONES = -1
"""A mask that leaves nothing out."""

STACK_DEPTH = 4
"""How many values are pushed onto the x87 stack: instructions that pop find some, those that push find room."""

_AREA = 0x400
"""Where the setup stores patterns, in bytes from R14: after the places of sixteen instances, 64 bytes each."""

_TILE_AREA = 0x440
"""Where it stores the configuration of tiles: after the 64 bytes of the widest pattern."""

_TILE_CONFIGURATION = {0: 1, 16: 0x0040004000400040, 24: 0x0040004000400040, 48: 0x1010101010101010}
"""Palette 1; 64 bytes per row and 16 rows for each of the eight tiles, as 64-bit words by offset."""


def general_values(instance: Instance, values: Values, names: Iterable[str]) -> dict[str, int]:
    """Return what general purpose registers hold before an instance, by name."""
    if not values.places and not any(isinstance(v, str) and is_high8(v) for v in instance.values.values()):
        return dict.fromkeys(names, DEFAULT_VALUE)
    return {name: _general_value(instance, values, name) for name in names}


def general_value(instance: Instance, values: Values, name: str) -> int:
    """Return what a general purpose register holds before an instance: AH, BH, CH and DH have the value, too."""
    return general_values(instance, values, (name,))[name]


def _general_value(instance: Instance, values: Values, name: str) -> int:
    operands = instance.variant.operands
    written = {o.index: value for o in operands if isinstance(value := instance.values.get(o.index), str)}
    mine = {index: register for index, register in written.items() if family(register) == name}
    places = [f"op{index}" for index in mine if f"op{index}" in values.places]
    value = values.places[places[0]] if places else values.places.get(name, DEFAULT_VALUE)
    in_both = any(map(is_high8, mine.values())) and 0 <= value < 1 << 8
    return value | value << 8 if in_both else value


def other_files_setup(instructions: InstructionFactory, instances: Sequence[Instance], values: Values) -> list[Line]:
    """Return the lines that initialize vector, mask, MMX, x87 and tile registers that instances use; RAX is lost.

    Raises:
        UnknownInstructionError: the catalogue lacks an instruction for it.
    """
    used = _used_files(instances)
    lines: list[Line] = []
    if "VEC" in used:
        lines += _vectors(instructions, instances, values)
    if "K" in used:
        lines.append(long_constant(instructions, "RAX", ONES))
        lines += [instructions.line("KMOVQ (K, R64)", name, "RAX") for name in dict.fromkeys((*used["K"], COPIES["K"]))]
    if "MMX" in used:
        lines.append(long_constant(instructions, "RAX", TWO))
        lines += [
            instructions.line("MOVQ (MM, R64)", name, "RAX") for name in dict.fromkeys((*used["MMX"], COPIES["MMX"]))
        ]
    if "X87" in used:
        lines += [instructions.line("FLD1 (ST0, ST(0))")] * STACK_DEPTH
    if "TMM" in used:
        lines += _tiles(instructions, used["TMM"])
    return lines


def _used_files(instances: Sequence[Instance]) -> dict[str, list[str]]:
    """Return the registers of other files than the general purpose one that instances use, by file."""
    found: dict[str, set[str]] = {}
    for instance in instances:
        for file, names in effects_of(instance).other_files.items():
            found.setdefault(file, set()).update(names)
    return {file: sorted(names) for file, names in found.items()}


def vector_patterns(instance: Instance, names: list[str], values: Values) -> dict[str, int]:
    """Return what each vector register holds, as 64 bits that are repeated. Breakers copy what outputs hold."""
    patterns = dict.fromkeys((*names, COPIES["VEC"]), values.places.get("VEC", TWO))
    if not values.places:
        return patterns
    for operand in instance.variant.operands:
        value = instance.values.get(operand.index)
        pattern = values.places.get(f"op{operand.index}")
        if isinstance(value, str) and pattern is not None and family(value) in patterns:
            patterns[family(value)] = pattern
            if operand.written:
                patterns[COPIES["VEC"]] = pattern
    return patterns


def _vectors(instructions: InstructionFactory, instances: Sequence[Instance], values: Values) -> list[Line]:
    """Load the patterns, index registers excepted, which become zero."""
    patterns: dict[str, int] = {}
    for instance in instances:
        patterns |= vector_patterns(instance, effects_of(instance).other_files.get("VEC", []), values)
    indices = {name for instance in instances for name in _indices(instance)}
    lines = [
        instructions.line("VMOVQ (XMM, R64)", part(name, 128), INDEX_REGISTER) for name in patterns if name in indices
    ]
    widest = max(instances, key=lambda instance: (is_vex(instance), vector_bits(instance)))
    return lines + load_vectors(instructions, widest, {n: p for n, p in patterns.items() if n not in indices})


def load_vectors(instructions: InstructionFactory, instance: Instance, patterns: dict[str, int]) -> list[Line]:
    """Store each pattern and load it into its registers, with the kind of code that the instance is; RAX is lost."""
    vex = is_vex(instance)
    bits = vector_bits(instance) if vex else 128
    width = {128: "XMM", 256: "YMM", 512: "ZMM"}[bits]
    string = f"VMOVUPS ({width}, M{bits})" if vex else "MOVUPS (XMM, M128)"
    evex = f"VMOVUPS_EVEX ({width}, M{bits})" if bits < 512 else string
    lines: list[Line] = []
    for pattern in dict.fromkeys(patterns.values()):
        lines.append(long_constant(instructions, "RAX", pattern))
        lines += [instructions.line("MOV (M64, R64)", _at(_AREA + 8 * word), "RAX") for word in range(bits // 64)]
        lines += [
            instructions.line(string if number(name) < 16 else evex, part(name, bits), _at(_AREA))
            for name, found in patterns.items()
            if found == pattern
        ]
    return lines


def _indices(instance: Instance) -> set[str]:
    """Return the families of vector registers that are an index of an address."""
    return {name for name in address_registers(instance) if register_class(name) == "VEC"}


def _tiles(instructions: InstructionFactory, names: list[str]) -> list[Line]:
    """Configure all tiles and clear the used ones."""
    lines: list[Line] = []
    for offset in range(0, 64, 8):
        lines.append(long_constant(instructions, "RAX", _TILE_CONFIGURATION.get(offset, 0)))
        lines.append(instructions.line("MOV (M64, R64)", _at(_TILE_AREA + offset), "RAX"))
    lines.append(instructions.line("LDTILECFG (M512)", _at(_TILE_AREA)))
    return [*lines, *(instructions.line("TILEZERO (TMM)", name) for name in names)]


def constant(instructions: InstructionFactory, register: str, value: int) -> Line:
    """Return the line that puts a value into a general purpose register."""
    if 0 <= value < 1 << 31:
        return instructions.line("MOV (R32, I32)", part(register, 32), value)
    return long_constant(instructions, register, value)


def long_constant(instructions: InstructionFactory, register: str, value: int) -> Line:
    """Return the same, always with 64 bits of immediate."""
    return instructions.line("MOV (R64, I64)", part(register, 64), value - (1 << 64) if value >= 1 << 63 else value)


@cache
def _at(displacement: int) -> MemoryAddress:
    """Return a place in the memory of the code under test."""
    return MemoryAddress("R14", displacement=displacement)


def memory_values(instance: Instance, values: Values) -> list[tuple[MemoryAddress, int, int]]:
    """Return the memory operands that must have a value: address, width in bits, and 64 bits that are repeated."""
    return [
        (address, operand.width_bits or 64, value)
        for operand in instance.variant.operands
        if operand.kind is OperandKind.MEMORY
        if isinstance(address := instance.values.get(operand.index), MemoryAddress)
        if (value := values.places.get(f"op{operand.index}")) is not None
    ]


def store_pattern(
    instructions: InstructionFactory, address: MemoryAddress, bits: int, value: int, register: str
) -> list[Line]:
    """Return the lines that fill a memory operand with 64 bits over and over; the register is lost."""
    lines = [long_constant(instructions, register, value)]
    for word in range(max(1, bits // 64)):
        place = replace(address, displacement=address.displacement + 8 * word)
        lines.append(instructions.line("MOV (M64, R64)", place, part(register, 64)))
    return lines


def stack_balance(instructions: InstructionFactory, instance: Instance) -> list[Line]:
    """Return the lines that take off the x87 stack what the instance has pushed."""
    return [instructions.line("FSTP (ST, ST0, ST(0))", "ST(0)")] * max(0, _stack_growth(instance))


def stack_refill(instructions: InstructionFactory, instance: Instance) -> list[Line]:
    """Return the lines that push onto the x87 stack as much as the instance has popped."""
    return [instructions.line("FLD1 (ST0, ST(0))")] * max(0, -_stack_growth(instance))


def _stack_growth(instance: Instance) -> int:
    """Return by how many values the x87 stack is higher after the instance."""
    names = [o.registers[0] for o in instance.variant.operands if o.kind is OperandKind.REGISTER and o.registers]
    return names.count("X87PUSH") - names.count("X87POP") - 2 * names.count("X87POP2")
