"""Chooses registers, addresses and immediates for operands.

Which registers the harness and the chains keep for themselves is in `generator.operands.reserved`. Memory operands are
`[R14 + displacement]` unless something else is asked for. Beside AH, CH, DH or BH the base is RDI, because R14 needs a
REX prefix. Nothing here is random: the same calls give the same instances.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import count, islice
from typing import TYPE_CHECKING

from generator.cache import PerObject
from generator.errors import AllocationError
from generator.facts import read_facts
from generator.operands.effects import further_registers, registers_of_address
from generator.operands.registers import family, is_high8, needs_rex, number, part, register_class
from generator.operands.reserved import BASE_REGISTER, INDEX_REGISTER, reserved_registers
from xed_convert.model import Instance, InstructionVariant, MemoryAddress, Operand, OperandKind, OperandValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BASE_WITHOUT_REX = "RDI"
SLOT_BYTES = 64
"""Distance between two memory places that are given to different instances: a cache line."""

ABSOLUTE_AREA = 0x2000_0000
"""Address of the page that MOV with a 64-bit absolute address reads and writes; loaders map it there."""

FIRST_CHOICES = ("RBX", "RDX", "RCX", "RAX", "R8", "R9", "R10", "RBP", "R11", "R12", "RSI", "RDI")
"""Order in which general purpose registers are given away; those that instructions use implicitly come late."""


@cache
def immediates() -> dict[tuple[str, int], int]:
    """Return the immediates of `immediates.tsv` by instruction class and operand index."""
    rows = read_facts("immediates.tsv", ("iclass", "operand", "value", "reason", "source"), ("iclass", "operand"))
    return {(row["iclass"], int(row["operand"])): int(row["value"], 0) for row in rows}


def default_immediate(variant: InstructionVariant, operand: Operand) -> int:
    """Return the immediate that is used where nothing else is asked for: the fixed value, 2, or a large one.

    A value of more than 8 bits needs the whole immediate, so that no assembler could have taken a shorter form.
    """
    if operand.value:
        return int(operand.value, 0)
    if (chosen := immediates().get((variant.iclass, operand.index))) is not None:
        return chosen
    bits = operand.width_bits or 8
    return 2 if bits <= 8 else 1 << (bits - 8)


class Allocator:
    """Gives registers, addresses and immediates to operands, never the ones that are to be avoided.

    Families in `avoid` are not given to operands that are free to choose. Operands that the caller or the variant fixes
    may be anything. Temporaries of `reserved_registers.tsv` are given away last.
    """

    def __init__(self, avoid: Iterable[str] = ()) -> None:
        """Start with the harness's registers and the families of `avoid` taken."""
        self._taken = {family(register) for register in avoid} | {
            name for name, use in reserved_registers().items() if use != "temporary"
        }

    def hold(self, *registers: str) -> None:
        """Take registers, so that no operand gets them from now on."""
        self._taken.update(family(register) for register in registers)

    def register(self, choices: Iterable[str], *, avoid: Iterable[str] = (), rex: bool = True) -> str:
        """Return the first free register of `choices` (operand registers), without holding it.

        Raises:
            AllocationError: all are taken.
        """
        names = tuple(choices)
        taken = self._taken | {family(register) for register in avoid}
        for name, widest, with_rex in _in_order(names):
            if widest not in taken and (rex or not with_rex):
                return name
        raise AllocationError(f"no register left of {', '.join(names[:8])}", hint="use fewer instances at a time")

    def instance(
        self,
        variant: InstructionVariant,
        fixed: Mapping[int, OperandValue] | None = None,
        *,
        slot: int = 0,
        indexed: bool = False,
    ) -> Instance:
        """Return an instance of a variant, with different registers for all operands that are free to choose.

        Args:
            variant: the variant.
            fixed: values for some explicit operands, by operand index.
            slot: which memory place (see `SLOT_BYTES`) addresses refer to.
            indexed: address memory as [base + index] where the form allows it.

        Raises:
            AllocationError: there is no register left for an operand.
        """
        values: dict[int, OperandValue] = dict(fixed or {})
        occupied, explicit = _roles(variant)
        used = {name for value in values.values() for name in _registers_of(value)} | occupied
        rex = not any(map(is_high8, used)) and not variant.attributes.get("high8")
        for operand in explicit:
            if operand.index in values:
                continue
            value = self._value(variant, operand, used, rex=rex, slot=slot, indexed=indexed)
            values[operand.index] = value
            used.update(_registers_of(value))
            used.update(further_registers(operand, value))
        return Instance(variant, dict(sorted(values.items())))

    def _value(
        self, variant: InstructionVariant, operand: Operand, used: set[str], *, rex: bool, slot: int, indexed: bool
    ) -> OperandValue:
        """Choose the value of one operand."""
        if operand.kind is OperandKind.REGISTER:
            try:
                return self.register(operand.registers, avoid=used, rex=rex)
            except AllocationError as error:
                raise AllocationError(
                    f"{variant.string}: operand {operand.index}: {error.message}", hint=error.hint
                ) from error
        if operand.kind is OperandKind.IMMEDIATE:
            return default_immediate(variant, operand)
        if operand.kind is OperandKind.MEMORY:
            return self._address(operand, used, rex=rex, slot=slot, indexed=indexed)
        if operand.kind is OperandKind.AGEN:
            return self._effective_address(variant, used)
        return 0

    def _address(self, operand: Operand, used: set[str], *, rex: bool, slot: int, indexed: bool) -> MemoryAddress:
        """Return an address for a memory operand."""
        shape = operand.memory
        displacement = slot * SLOT_BYTES
        if shape and shape.moffs:
            return MemoryAddress(displacement=ABSOLUTE_AREA + displacement)
        if shape and shape.vsib:
            vectors = tuple(f"{shape.vsib}{position}" for position in range(16))
            return MemoryAddress(BASE_REGISTER, self.register(vectors, avoid=used), displacement=displacement)
        if not rex:
            return MemoryAddress(BASE_WITHOUT_REX, "RSI" if indexed else "", displacement=displacement)
        return MemoryAddress(BASE_REGISTER, INDEX_REGISTER if indexed else "", displacement=displacement)

    def _effective_address(self, variant: InstructionVariant, used: set[str]) -> MemoryAddress:
        """Return the address form that the attribute `agen` asks for, with registers that nothing else uses."""
        form = variant.attributes.get("agen", "B").split("_")
        base = index = ""
        bases = [part(name, 64) for name in FIRST_CHOICES if name != "RBP"]
        if "R" in form:
            base = "RIP"
        elif "B" in form:
            base = self.register(bases, avoid=used)
        if "I" in form or "IS" in form:
            index = self.register(bases, avoid={*used, base} - {""})
        bits = 8 if "D8" in form else 32 if "D32" in form else 0
        displacement = {0: 0, 8: 8, 32: 0x1000}[bits]
        return MemoryAddress(base, index, 4 if "IS" in form else 1, displacement, displacement_bits=bits)


def plain_addresses(variant: InstructionVariant) -> list[Operand]:
    """Return the memory operands whose address is a base register that could have an index besides."""
    return [
        operand
        for operand in variant.operands
        if operand.kind is OperandKind.MEMORY and operand.explicit and operand.memory
        if not (operand.memory.vsib or operand.memory.moffs or operand.memory.base)
    ]


def has_plain_address(variant: InstructionVariant) -> bool:
    """Whether it has a memory operand that could be addressed with an index."""
    return bool(plain_addresses(variant))


class _IndependentInstances:
    """Caches the longest sequence asked for of each variant (object), which begins with the shorter ones."""

    MOST = 256
    """Sequences: a variant under test and its blocking instructions take some ten each."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, frozenset[str]], tuple[list[Instance], Iterator[Instance]]] = {}

    def __call__(self, variant: InstructionVariant, count: int, avoid: Iterable[str] = ()) -> list[Instance]:
        """Return `count` instances that do not depend on each other through registers that they are free to choose.

        Each has written registers and a memory place of its own; registers that are only read are shared. When the
        written registers run out, those of the first instances are used again, oldest first, so that fewer are
        independent.

        Raises:
            AllocationError: there are not enough registers for one instance.
        """
        key = (id(variant), frozenset(map(family, avoid)))
        if key not in self._known:
            if len(self._known) >= self.MOST:
                self._known.clear()
            instances = _independent_instances(variant, key[1])
            # The first one at once: it may raise, and it keeps the variant, so that no other one gets its id
            self._known[key] = [next(instances)], instances
        known, further = self._known[key]
        try:
            known.extend(islice(further, max(0, count - len(known))))
        except AllocationError:
            del self._known[key]  # nothing further comes out of it
            raise
        return known[:count]


independent_instances = _IndependentInstances()


def _independent_instances(variant: InstructionVariant, avoid: Iterable[str]) -> Iterator[Instance]:
    """Yield the instances of a sequence without end, one after the other."""
    allocator = Allocator(avoid)
    first = allocator.instance(variant)
    operands = [operand for operand in variant.operands if operand.explicit and operand.kind is OperandKind.REGISTER]
    shared = {operand.index: first.values[operand.index] for operand in operands if not operand.written}
    allocator.hold(*(str(value) for value in shared.values()))
    different: list[Instance] = []
    for position in count():
        try:
            instance = allocator.instance(variant, shared, slot=position)
        except AllocationError:
            if not different:
                raise
            again = different[position % len(different)]
            yield Instance(variant, {**again.values, **_moved(variant, shared, position, allocator)})
            continue
        different.append(instance)
        allocator.hold(*(str(instance.values[operand.index]) for operand in operands if operand.written))
        yield instance


@PerObject
def fixed_registers(variant: InstructionVariant) -> frozenset[str]:
    """Return the families of the registers that every instance of a variant uses, whatever it is given."""
    occupied, explicit = _roles(variant)
    return frozenset(map(family, occupied | {one.registers[0] for one in explicit if len(one.registers) == 1}))


def _moved(
    variant: InstructionVariant, shared: Mapping[int, OperandValue], slot: int, allocator: Allocator
) -> dict[int, OperandValue]:
    """Return the memory operands of an instance at another place."""
    registers = {o.index: o.registers[0] for o in variant.operands if o.explicit and o.kind is OperandKind.REGISTER}
    moved = allocator.instance(variant, {**registers, **shared}, slot=slot)
    return {o.index: moved.values[o.index] for o in variant.operands if o.explicit and o.kind is OperandKind.MEMORY}


def _fixed_registers(operand: Operand) -> tuple[str, ...]:
    """Return the registers that an implicit or suppressed operand occupies."""
    return (*operand.registers, *registers_of_address(operand, None))


@PerObject
def _roles(variant: InstructionVariant) -> tuple[frozenset[str], list[Operand]]:
    """Return the registers that operands are fixed to, and the other operands, those with the least choice first."""
    occupied = {name for operand in variant.operands if not operand.explicit for name in _fixed_registers(operand)}
    explicit = [operand for operand in variant.operands if operand.explicit]
    explicit.sort(key=lambda operand: (operand.kind is not OperandKind.REGISTER, len(operand.registers)))
    return frozenset(occupied), explicit


def _registers_of(value: OperandValue) -> tuple[str, ...]:
    """Return the registers in an operand's value."""
    if isinstance(value, str):
        return (value,)
    return tuple(name for name in (value.base, value.index) if name) if isinstance(value, MemoryAddress) else ()


@lru_cache(maxsize=4096)
def _in_order(names: tuple[str, ...]) -> tuple[tuple[str, str, bool], ...]:
    """Return registers in the order in which they are given away, each with its family and whether it needs REX."""
    return tuple((name, family(name), needs_rex(name)) for name in sorted(names, key=_preference))


def _preference(name: str) -> tuple[int, int]:
    """Order registers: temporaries last, general purpose registers as in `FIRST_CHOICES`, others by number."""
    widest = family(name)
    temporary = reserved_registers().get(widest) == "temporary"
    if register_class(name) == "GPR":
        return (temporary, FIRST_CHOICES.index(widest) if widest in FIRST_CHOICES else len(FIRST_CHOICES))
    return (temporary, number(name) if any(map(str.isdigit, name)) else 0)
