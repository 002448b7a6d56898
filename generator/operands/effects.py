"""Reads and writes of an instance, except memory: registers, flags, the registers of its addresses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from generator.cache import PerInstance, PerObject
from generator.operands.registers import family, number, register_class, width_bits
from generator.operands.reserved import INDEX_REGISTER, LOOP_REGISTER, harness_registers
from xed_convert.model import Instance, InstructionVariant, MemoryAddress, Operand, OperandKind, OperandValue

MOVING_CATEGORIES = frozenset({"STRINGOP", "IOSTRINGOP"})
"""String instructions move the registers of their addresses (Intel SDM volume 1, section 7.3.9.2); the catalogue says
nothing of it."""

OTHER_FILES = frozenset({"VEC", "K", "MMX", "X87", "TMM"})


@dataclass(frozen=True)
class Effects:
    """What an instance reads and writes: register families and status flags ("CF"); memory is left out.

    `reads` includes the registers of addresses. `merged` are families of which only a part is written, or that are
    written on a condition. Their old value is an input, even if the catalogue does not call it one.
    """

    reads: frozenset[str]
    writes: frozenset[str]
    merged: frozenset[str]

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Everything that the result may depend on."""
        return self.reads | self.merged

    @cached_property
    def touched(self) -> frozenset[str]:
        """Everything that it depends on or writes."""
        return self.inputs | self.writes

    @cached_property
    def other_files(self) -> dict[str, list[str]]:
        """The members of `touched` that need a setup and are not general purpose registers, by file."""
        found: dict[str, list[str]] = {}
        for name in sorted(name for name in self.touched if register_class(name) in OTHER_FILES):
            found.setdefault(register_class(name), []).append(name)
        return found


_Sets = tuple[set[str], set[str], set[str]]
"""What is read, written and merged."""


@dataclass(frozen=True, slots=True)
class _Roles:
    """What all instances of a variant have in common.

    `fixed` are the effects of operands that are not explicit. `bases` are the registers of their addresses.
    """

    explicit: tuple[Operand, ...]
    addresses: tuple[Operand, ...]
    takes_address: bool
    bases: tuple[str, ...]
    fixed: _Sets


@PerObject
def _roles(variant: InstructionVariant) -> _Roles:
    fixed: _Sets = set(), set(), set()
    for operand in variant.operands:
        if not operand.explicit:
            _add_effects(variant, operand, None, fixed)
    addresses = tuple(o for o in variant.operands if o.kind in {OperandKind.MEMORY, OperandKind.AGEN})
    return _Roles(
        explicit=tuple(operand for operand in variant.operands if operand.explicit),
        addresses=addresses,
        takes_address=any(operand.kind is OperandKind.AGEN for operand in addresses),
        bases=tuple(o.memory.base for o in variant.operands if o.memory and o.memory.base and not o.explicit),
        fixed=fixed,
    )


@PerInstance
def effects_of(instance: Instance) -> Effects:
    """Return which registers and flags an instance reads, writes and merges, with implicit and suppressed ones."""
    roles = _roles(instance.variant)
    reads, writes, merged = map(set, roles.fixed)
    for operand in roles.explicit:
        _add_effects(instance.variant, operand, instance.values.get(operand.index), (reads, writes, merged))
    return Effects(frozenset(reads), frozenset(writes), frozenset(merged))


def fixed_effects(variant: InstructionVariant) -> Effects:
    """Return what all instances of a variant read, write and merge: implicit registers and flags."""
    return Effects(*map(frozenset, _roles(variant).fixed))


def _add_effects(variant: InstructionVariant, operand: Operand, value: OperandValue | None, into: _Sets) -> None:
    """Add what an operand with that value (None: it is fixed) reads, writes and merges."""
    if operand.kind is OperandKind.REGISTER:
        _register_effects(operand, str(value) if value is not None else next(iter(operand.registers), ""), *into)
    elif operand.kind in {OperandKind.MEMORY, OperandKind.AGEN}:
        registers = set(map(family, registers_of_address(operand, value)))
        into[0].update(registers)
        if variant.category in MOVING_CATEGORIES:
            into[1].update(registers)
    elif operand.kind is OperandKind.FLAGS:
        _flag_effects(operand, *into)


def _register_effects(operand: Operand, register: str, reads: set[str], writes: set[str], merged: set[str]) -> None:
    """Add what a register operand reads, writes and merges."""
    names = {family(register), *map(family, further_registers(operand, register))}
    if operand.read:
        reads |= names
    if operand.written:
        writes |= names
        partial = register_class(register) == "GPR" and width_bits(register) < 32
        if partial or operand.conditional_write:
            merged |= names


def _flag_effects(operand: Operand, reads: set[str], writes: set[str], merged: set[str]) -> None:
    """Add what the flags operand reads and writes; undefined flags count as written."""
    for flag, access in operand.flags.items():
        if access.startswith("r"):
            reads.add(flag)
        if access != "r":
            writes.add(flag)
        if access.endswith("cw"):
            merged.add(flag)


@PerObject
def general_inputs(instance: Instance) -> list[str]:
    """Return the families of general purpose registers that the setup has to give a value, but for addresses."""
    return settable(instance, effects_of(instance).inputs)


def settable(instance: Instance, names: frozenset[str]) -> list[str]:
    """Return those of some families that are general purpose registers and neither the harness's nor an address's.

    Addresses of LEA and its like count: these use an address as a number.
    """
    names -= harness_registers()
    if not _roles(instance.variant).takes_address:
        names -= address_registers(instance)
    return sorted(name for name in names if register_class(name) == "GPR")


@PerObject
def address_registers(instance: Instance) -> frozenset[str]:
    """Return the families of all registers that the instance's addresses use."""
    return frozenset(
        family(name)
        for operand in _roles(instance.variant).addresses
        for name in registers_of_address(operand, instance.values.get(operand.index))
    )


@PerObject
def unset_indices(instance: Instance) -> list[str]:
    """Return the families of general purpose index registers that the setup has to make zero.

    The harness does so with R13; where a REX prefix is forbidden the index is RSI, which holds an address.
    """
    addresses = [
        value
        for operand in _roles(instance.variant).addresses
        if operand.kind is OperandKind.MEMORY
        if isinstance(value := instance.values.get(operand.index), MemoryAddress)
    ]
    indices = {family(address.index) for address in addresses if address.index}
    return sorted(name for name in indices if register_class(name) == "GPR" and name != INDEX_REGISTER)


def implicit_bases(instance: Instance) -> list[str]:
    """Return the families of registers that the variant takes as addresses, and that the harness does not set up.

    MOVDIR64B has its first operand as address; XED gives the place of that as R15.
    """
    found = set()
    for fixed in _roles(instance.variant).bases:
        base = fixed
        if base == LOOP_REGISTER:
            base = str(next((value for value in instance.values.values() if isinstance(value, str)), ""))
        if base and family(base) not in harness_registers() | {"RBP"}:
            found.add(family(base))
    return sorted(found)


def registers_of_address(operand: Operand, value: OperandValue | None) -> tuple[str, ...]:
    """Return the registers of an address, chosen or fixed by the variant."""
    if isinstance(value, MemoryAddress):
        return tuple(name for name in (value.base, value.index) if name)
    shape = operand.memory
    return tuple(name for name in (shape.base, shape.index) if name) if shape else ()


def further_registers(operand: Operand, value: OperandValue) -> tuple[str, ...]:
    """Return the further registers of an operand that stands for several consecutive ones."""
    if not operand.multireg or not isinstance(value, str):
        return ()
    prefix = value.rstrip("0123456789")
    return tuple(f"{prefix}{number(value) + step}" for step in range(1, operand.multireg))
