"""Unfinished chains and their setups, which give every register that is read a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from generator.chains.links import GPR_NODES, VECTOR_NODES
from generator.operands.effects import effects_of, implicit_bases, settable, unset_indices
from generator.operands.registers import family, part
from generator.operands.reserved import BASE_REGISTER
from generator.support.breakers import restore_address
from generator.support.initial import (
    constant,
    general_values,
    load_vectors,
    memory_values,
    other_files_setup,
    store_pattern,
)

if TYPE_CHECKING:
    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line
    from generator.operands.values import Values
    from xed_convert.model import Instance

_GPR_TEMPORARIES = ("R12", "R11", "RBX", "RDX", "RCX", "RAX", "R8", "R9", "R10", "RBP")
_HIGH8_TEMPORARIES = ("RBX", "RDX", "RCX", "RAX")
_TEMPORARIES = {"VEC": ("XMM14", "XMM13", "XMM12"), "K": ("K6", "K5"), "MMX": ("MM6", "MM5")}


@dataclass(slots=True)
class UnfinishedChain:
    """A chain in the making: registers in use, lines, what the setup has to do."""

    used: set[str]
    lines: list[Line] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    constants: dict[str, int] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, int] = field(default_factory=dict)
    restored: set[str] = field(default_factory=set)
    last_link: int = 0
    clobbers_flags: bool = False
    isolated: bool = True

    def temporary(self, node: str, *, high8: bool = False) -> str:
        """Take a register for an intermediate place."""
        group = "GPR" if node in GPR_NODES | {"R8H"} else "VEC" if node in VECTOR_NODES else node
        names = _HIGH8_TEMPORARIES if high8 or node == "R8H" else _TEMPORARIES.get(group, _GPR_TEMPORARIES)
        for name in names:
            if family(name) not in self.used:
                self.used.add(family(name))
                return name
        message = f"no temporary register left for {node}"
        raise LookupError(message)


class ChainSetup:
    """Makes the setups of the chains of one instance with given operand values."""

    def __init__(self, instructions: InstructionFactory, instance: Instance, values: Values) -> None:
        self.instructions, self.instance, self.values = instructions, instance, values

    def lines(self, unfinished: UnfinishedChain) -> tuple[Line, ...]:
        """Return the lines that give every register that is read its value."""
        constants = self._constants | unfinished.constants
        lines = list(self._files_setup)
        lines += load_vectors(self.instructions, self.instance, unfinished.vectors) + self._memory_setup(unfinished)
        copies = dict.fromkeys(implicit_bases(self.instance), BASE_REGISTER) | unfinished.copies
        lines += [
            restore_address(self.instructions, copy, part(address, 64)) for copy, address in sorted(copies.items())
        ]
        lines += [constant(self.instructions, name, value) for name, value in sorted(constants.items())]
        return tuple(lines)

    @cached_property
    def _files_setup(self) -> list[Line]:
        """The lines that initialize vector, mask, MMX, x87 and tile registers, the same in all chains."""
        return other_files_setup(self.instructions, (self.instance,), self.values)

    @cached_property
    def _constants(self) -> dict[str, int]:
        """The values of the general purpose registers that the instance reads, but for addresses."""
        names = settable(self.instance, effects_of(self.instance).touched - set(implicit_bases(self.instance)))
        constants = general_values(self.instance, self.values, names)
        return constants | dict.fromkeys(unset_indices(self.instance), 0)

    def _memory_setup(self, unfinished: UnfinishedChain) -> list[Line]:
        """Return the lines that store values which memory operands must have."""
        lines: list[Line] = []
        for address, bits, value in memory_values(self.instance, self.values):
            lines += store_pattern(self.instructions, address, bits, value, unfinished.temporary("R64"))
        return lines
