"""Code for rename: repeated writes to one register, and moves of a register to itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.errors import AllocationError
from generator.microbenchmark import Microbenchmark
from generator.operands.registers import family, part, register_class
from generator.operands.values import Values
from generator.sequences.throughput import SequenceShape, setup_of
from generator.support.prologue import with_prologue
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from generator.microbenchmark import Line
    from generator.sequences.throughput import ThroughputFactory
    from xed_convert.model import Instance, InstructionVariant


def only_written(factory: ThroughputFactory) -> bool:
    """Whether instances depend on nothing but one explicit register at most, which they only write."""
    variant = factory.variant
    stored = any(o.kind is OperandKind.MEMORY and (o.written or o.suppressed) for o in variant.operands)
    return variant.only_written is not None and not stored and not factory.has_prologue and not factory.carried()


def repeated(factory: ThroughputFactory) -> Microbenchmark:
    """Return one instance.

    Raises:
        AllocationError: there are not enough registers for one instance.
        EncodingError: it cannot be encoded.
    """
    return _benchmark(factory, [], "one instance, which writes the same register in every copy")


def overwritten(factory: ThroughputFactory) -> Microbenchmark:
    """Return one instance, and what overwrites its result.

    Raises:
        AllocationError: there are not enough registers, or nothing overwrites the result.
        EncodingError: it cannot be encoded.
    """
    instance = _instance(factory)
    operand = next(o for o in factory.variant.operands if o.explicit and o.written)
    name = str(instance.values.get(operand.index, next(iter(operand.registers), "")))
    lines = factory.breakers(instance, Values(), frozenset({family(name)}))
    if not lines:
        raise AllocationError(f"{factory.variant.string}: nothing overwrites {name}")
    return _benchmark(factory, lines, "one instance, whose result is overwritten in every copy")


def is_partial(factory: ThroughputFactory) -> bool:
    """Whether the register that is only written is a part of one: 8 or 16 bits of a general-purpose register."""
    results = [o for o in factory.variant.operands if o.explicit and o.kind is OperandKind.REGISTER and o.written]
    return len(results) == 1 and results[0].width_bits in (8, 16) and register_class(results[0].registers[0]) == "GPR"


def read_after(factory: ThroughputFactory) -> tuple[Microbenchmark, Microbenchmark]:
    """Return an instance with a read of the whole register that it writes a part of, and that read alone.

    The read writes the same register, and no flags. If the part is not renamed separately, both form a chain.

    Raises:
        AllocationError: there are not enough registers for one instance.
        EncodingError: it cannot be encoded.
    """
    instance = _instance(factory)
    operand = next(o for o in factory.variant.operands if o.explicit and o.written)
    name = str(instance.values[operand.index])
    read = factory.instructions.line("MOVSXD (R64, R32)", part(name, 64), part(name, 32))
    whole = _benchmark(factory, [read], "one instance, and a read of all of the register in every copy")
    return whole, Microbenchmark((), (read,), f"a read of all of {family(name)} alone", 1)


def is_move(variant: InstructionVariant) -> bool:
    """Whether a variant has just two explicit operands: a register that it writes, and one like it that it reads."""
    explicit = [o for o in variant.operands if o.explicit]
    if len(explicit) != 2 or any(o.kind is not OperandKind.REGISTER for o in explicit):
        return False
    result, source = explicit
    return (result.written, result.read, source.written, source.read) == (True, False, False, True) and (
        result.width_bits == source.width_bits
    )


def may_be_eliminated(variant: InstructionVariant) -> bool:
    """Whether rename may eliminate some or all instances of a variant: it only moves a register to one like it."""
    return variant.category == "DATAXFER" and is_move(variant)


def moved_to_itself(factory: ThroughputFactory) -> Microbenchmark:
    """Return instances of a move, each of which has one register as source and result; `divisor` is how many.

    Raises:
        AllocationError: a register of the source cannot be the result.
        EncodingError: an instance cannot be encoded.
    """
    result, source = (o.index for o in factory.variant.operands if o.explicit)
    instances = []
    for instance in factory.instances(SequenceShape()):
        name = instance.values[source]
        if name not in factory.variant.operand(result).registers:
            raise AllocationError(f"{factory.variant.string}: {name} cannot be both operands")
        instances.append(replace(instance, values={**instance.values, result: name}))
    setup = setup_of(factory.instructions, instances, Values())
    purpose = f"{factory.variant.string}: {len(instances)} instances, each with one register in both operands"
    body = tuple(assemble(instance) for instance in instances)
    return Microbenchmark(setup, body, purpose, len(instances), factory.variant.cpl == 0)


def _instance(factory: ThroughputFactory) -> Instance:
    (instance,) = factory.instances(SequenceShape(1))
    return instance


def _benchmark(factory: ThroughputFactory, behind: list[Line], what: str) -> Microbenchmark:
    instance = _instance(factory)
    body = [*with_prologue(factory.instructions, instance), *behind]
    setup = setup_of(factory.instructions, [instance], Values())
    purpose = f"dependency of {factory.variant.string} on its result: {what}"
    return Microbenchmark(setup, tuple(body), purpose, 1, factory.variant.cpl == 0)
