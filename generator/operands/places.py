"""Places of inputs and outputs of an instance: the sources and destinations of latencies.

A place is a register, a group of status flags, a memory operand's data, or the base or index register of an address.
Status flags are taken in two groups: the carry flag, and the others. Every Intel and AMD core since the Pentium Pro
renames those together or not at all (Fog, "Microarchitecture", chapters on partial flags). Other bits of the flags
operand (DF, x87 condition codes) are a third group, which chains do not reach.
"""

from __future__ import annotations

from dataclasses import dataclass

from generator.operands.registers import family, is_high8, register_class, width_bits
from results.model import LatencyPart
from xed_convert.model import Instance, MemoryAddress, Operand, OperandKind

CARRY = ("CF",)
OTHER_FLAGS = ("ZF", "SF", "PF", "OF", "AF")
"""The flags besides the carry flag, in the order in which one of them stands for the group."""

STATUS_FLAGS = frozenset(CARRY + OTHER_FLAGS)
"""The flags that chains reach and breakers replace."""


@dataclass(frozen=True, slots=True)
class Place:
    """One input or output of an instance.

    Attributes:
        operand: the operand's index.
        part: which part of a memory operand ("" for others).
        resource: what carries the dependency: a register family, a flag, or `memory` with the operand's index.
        register: the register's name as the operand has it, "" for flags and memory data.
        node: the kind of place, as in `chain_links.tsv`; "" if no chain instruction reaches it.
        flags: for flags, the members of the group that the instance has.
    """

    operand: int
    part: LatencyPart
    resource: str
    register: str
    node: str
    flags: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The flag that stands for the group ("" for other places)."""
        return self.flags[0] if self.flags else ""

    def __str__(self) -> str:
        """Write it as in tables: `2`, `2_addr`, `CF`."""
        if self.flags:
            return self.flag
        return f"{self.operand}_{self.part.value}" if self.part is not LatencyPart.NONE else str(self.operand)


def sources(instance: Instance) -> list[Place]:
    """Return all inputs: registers, flags and memory data that are read, and address registers.

    What is written on a condition is read, too: it may keep its old value.
    """
    places: list[Place] = []
    for operand in instance.variant.operands:
        read = operand.read or operand.conditional_write
        if operand.kind is OperandKind.FLAGS:
            places += _flags(operand, ("r", "cw"))
        elif operand.kind is OperandKind.REGISTER and read:
            places.append(_register(instance, operand))
        elif operand.kind in {OperandKind.MEMORY, OperandKind.AGEN}:
            places += _address(instance, operand)
            if operand.kind is OperandKind.MEMORY and read:
                places.append(_memory(operand))
    return places


def destinations(instance: Instance) -> list[Place]:
    """Return all outputs: registers, flags (undefined ones excepted) and memory that are written."""
    places: list[Place] = []
    for operand in instance.variant.operands:
        if operand.kind is OperandKind.FLAGS:
            places += _flags(operand, ("w", "cw"))
        elif operand.kind is OperandKind.REGISTER and (operand.written or operand.conditional_write):
            places.append(_register(instance, operand))
        elif operand.kind is OperandKind.MEMORY and (operand.written or operand.conditional_write):
            places.append(_memory(operand))
    return places


def _flags(operand: Operand, accesses: tuple[str, ...]) -> list[Place]:
    """Return the groups of flags that are accessed in one of these ways."""
    found = []
    control = tuple(flag for flag in operand.flags if flag not in CARRY + OTHER_FLAGS)
    for group in (CARRY, OTHER_FLAGS, control):
        members = tuple(flag for flag in group if set(operand.flags.get(flag, "").split("/")) & set(accesses))
        if members:
            found.append(Place(operand.index, LatencyPart.NONE, members[0], "", members[0], members))
    return found


def _register(instance: Instance, operand: Operand) -> Place:
    """Return the place of a register operand."""
    value = instance.values.get(operand.index)
    register = str(value) if value is not None else next(iter(operand.registers), "")
    node = node_of(register, vex=is_vex(instance))
    return Place(operand.index, LatencyPart.NONE, family(register), register, node)


def _memory(operand: Operand) -> Place:
    """Return the place of a memory operand's data."""
    scattered = operand.memory is not None and bool(operand.memory.vsib)
    node = f"M{operand.width_bits}" if operand.width_bits and not scattered else ""
    return Place(operand.index, LatencyPart.MEMORY, f"memory{operand.index}", "", node)


def _address(instance: Instance, operand: Operand) -> list[Place]:
    """Return the places of an address's base and index register."""
    value = instance.values.get(operand.index)
    shape = operand.memory
    base, index = (value.base, value.index) if isinstance(value, MemoryAddress) else ("", "")
    if value is None and shape:
        base, index = shape.base, shape.index
    places = []
    effective = operand.kind is OperandKind.AGEN
    for register, part in ((base, LatencyPart.ADDRESS), (index, LatencyPart.ADDRESS_INDEX)):
        if register and register != "RIP":
            ordinary = effective or register_class(register) != "GPR"
            node = node_of(register, vex=True) if ordinary else "ADDR"
            places.append(Place(operand.index, part, family(register), register, node))
    return places


def is_vex(instance: Instance) -> bool:
    """Whether the instance is encoded with VEX, EVEX or XOP, so that vector chains must be, too."""
    attributes = instance.variant.attributes
    return attributes.get("vex") == "1" or attributes.get("evex") == "1" or instance.variant.extension == "XOP"


def node_of(register: str, *, vex: bool) -> str:
    """Return the kind of place that a register is ("" if chains cannot reach it)."""
    group = register_class(register)
    if group == "GPR":
        if is_high8(register):
            return "R8H"
        return f"R{width_bits(register)}"
    if group == "VEC":
        return "V" + {"XMM": "128", "YMM": "256", "ZMM": "512"}[register[:3]] if vex else "XMM"
    if register == "ST(0)":
        return "X87"
    return group if group in {"K", "MMX", "TMM"} else ""
