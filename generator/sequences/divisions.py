"""Code with an instance of an instruction among divisions, for the time that each keeps the divider busy.

Operands with fixed registers are overwritten before each instance and each division of integers. So none of them waits
for another one's result, and the values are those that take long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.allocation import Allocator, independent_instances
from generator.operands.effects import effects_of
from generator.operands.registers import register_class
from generator.operands.values import ValueKind, values_of
from generator.sequences.blocking import Combiner, registers_of
from generator.sequences.throughput import SUBJECT_SLOT, ThroughputFactory, setup_of

if TYPE_CHECKING:
    from generator.factory import InstructionFactory
    from xed_convert.model import Instance, InstructionVariant

NOP = Line(b"\x90", "NOP")


@dataclass(frozen=True)
class IntegerDivisions:
    """Divisions of one kind, with the lines before each that overwrite what they read and write."""

    instructions: InstructionFactory
    division: InstructionVariant

    @cached_property
    def instance(self) -> Instance:
        """A division; all use the same divisor."""
        (instance,) = independent_instances(self.division, 1)
        return instance

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """One division and what stands before it."""
        return _independent(self.instructions, self.instance)

    def among_nops(self, count: int, nops: int) -> Microbenchmark:
        """Return `count` divisions with `nops` NOPs behind each."""
        values = values_of(self.division, ValueKind.SLOW)
        setup = setup_of(self.instructions, [self.instance], values)
        purpose = f"issue slots of {self.division.string}: {count} of them, with {nops} NOPs behind each"
        return Microbenchmark(setup, (*self.lines, *[NOP] * nops) * count, purpose, count)

    def among(self, variant: InstructionVariant, count: int) -> Microbenchmark:
        """Return `count` divisions and one instance of a variant.

        Raises:
            AllocationError: there are not enough registers.
        """
        divisor = registers_of(self.instance) - effects_of(self.instance).writes
        instance = Allocator(divisor).instance(variant, slot=SUBJECT_SLOT)
        own, others = values_of(variant, ValueKind.SLOW), values_of(self.division, ValueKind.SLOW)
        setup = (*setup_of(self.instructions, [instance], own), *setup_of(self.instructions, [self.instance], others))
        body = (*self.lines * count, *_independent(self.instructions, instance))
        purpose = f"divider of {variant.string} among {count} of {self.division.string}"
        return Microbenchmark(setup, body, purpose, 1, variant.cpl == 0)


def among_vectors(
    instructions: InstructionFactory, variant: InstructionVariant, division: InstructionVariant, count: int
) -> Microbenchmark:
    """Return `count` divisions of vectors and one instance of a variant.

    Raises:
        AllocationError: there are not enough registers.
    """
    values = values_of(variant, ValueKind.SLOW)
    instance = Allocator().instance(variant, slot=SUBJECT_SLOT)
    breakers = _breakers(instructions, instance)
    return Combiner(instructions, variant, values, instance, breakers=breakers).combined([(division, count)])


def _independent(instructions: InstructionFactory, instance: Instance) -> tuple[Line, ...]:
    return (*_breakers(instructions, instance), assemble(instance))


def _breakers(instructions: InstructionFactory, instance: Instance) -> list[Line]:
    """Return what overwrites the fixed general purpose registers that instances depend on each other through."""
    factory = ThroughputFactory(instructions, instance.variant)
    fixed = frozenset(name for name in factory.carried() if register_class(name) == "GPR")
    return factory.breakers(instance, values_of(instance.variant, ValueKind.SLOW), fixed)
