"""Instructions that generators use by name: variants of the catalogue with operands, as lines of code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from generator.assemble import assemble
from generator.operands.places import STATUS_FLAGS
from xed_convert.model import Instance, InstructionVariant, OperandValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from generator.facts import LineTemplate
    from generator.microbenchmark import Line


MOST_LINES = 1 << 15
"""Lines in a factory's cache, some ten megabytes: setups and breakers use the same ones again and again."""


class VariantSource(Protocol):
    """What a generator needs of a catalogue."""

    def by_string(self, string: str) -> InstructionVariant:
        """Return the variant with that string."""

    def get(self, string: str) -> InstructionVariant | None:
        """Return the variant with that string, None if there is none."""


class InstructionFactory:
    """Makes lines out of the catalogue's strings and operand values."""

    def __init__(self, catalogue: VariantSource) -> None:
        """Look instructions up in this catalogue."""
        self._catalogue = catalogue
        self._lines: dict[tuple[str, tuple[OperandValue, ...]], Line] = {}

    def variant(self, string: str) -> InstructionVariant:
        """Return the variant with that string.

        Raises:
            UnknownInstructionError: the catalogue has no such variant.
        """
        return self._catalogue.by_string(string)

    def get(self, string: str) -> InstructionVariant | None:
        """Return the variant with that string, None if the catalogue has none."""
        return self._catalogue.get(string)

    def instance(self, string: str, *values: OperandValue) -> Instance:
        """Return an instance of a variant with values for its explicit operands, in order.

        Raises:
            UnknownInstructionError: the catalogue has no such variant.
            ValueError: it has another number of explicit operands.
        """
        variant = self.variant(string)
        explicit = [operand.index for operand in variant.operands if operand.explicit]
        return Instance(variant, dict(zip(explicit, values, strict=True)))

    def line(self, string: str, *values: OperandValue) -> Line:
        """Return the line of `instance(string, *values)`.

        Raises:
            EncodingError: the operands cannot be encoded.
        """
        key = (string, values)
        found = self._lines.get(key)
        if found is None:
            if len(self._lines) >= MOST_LINES:
                self._lines.clear()
            found = self._lines[key] = assemble(self.instance(string, *values))
        return found

    def writes_flags(self, lines: Iterable[LineTemplate]) -> bool:
        """Whether any of some lines writes a status flag.

        Raises:
            UnknownInstructionError: the catalogue has no such variant.
        """
        operands = (operand for string, _ in lines for operand in self.variant(string).operands)
        return any(flag in STATUS_FLAGS and access != "r" for one in operands for flag, access in one.flags.items())
