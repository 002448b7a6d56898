"""Code that writes one register over and over, to see whether an instruction waits for what it only writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.errors import AllocationError
from generator.microbenchmark import Microbenchmark
from generator.operands.registers import family
from generator.operands.values import Values
from generator.sequences.throughput import Shape, setup_of
from generator.support.prologue import with_prologue
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from generator.microbenchmark import Line
    from generator.sequences.throughput import ThroughputFactory
    from xed_convert.model import Instance


def only_written(factory: ThroughputFactory) -> bool:
    """Whether instances depend on nothing but one explicit register at most, which they only write."""
    variant = factory.variant
    explicit = [o for o in variant.operands if o.explicit and o.kind is OperandKind.REGISTER]
    written = [o for o in explicit if o.written or o.conditional_write]
    plain = len(written) == 1 and not (written[0].read or written[0].conditional_write)
    stored = any(o.kind is OperandKind.MEMORY and (o.written or o.suppressed) for o in variant.operands)
    return plain and not stored and not factory.has_prologue and not factory.carried()


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


def _instance(factory: ThroughputFactory) -> Instance:
    (instance,) = factory.instances(Shape(1))
    return instance


def _benchmark(factory: ThroughputFactory, behind: list[Line], what: str) -> Microbenchmark:
    instance = _instance(factory)
    body = [*with_prologue(factory.instructions, instance), *behind]
    setup = setup_of(factory.instructions, [instance], Values())
    purpose = f"dependency of {factory.variant.string} on its result: {what}"
    return Microbenchmark(setup, tuple(body), purpose, 1, factory.variant.cpl == 0)
