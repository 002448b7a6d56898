"""The instructions of a block, as a machine executes them.

Instructions that the machine's file lacks stay in the block: they take an issue slot, have no µops on ports and hand on
values in no time. `Block.unknown` lists them, since a prediction without them is too low.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from analysis.block.effects import effects_of
from results.machine.graph import NOTHING_KNOWN
from xed_convert.assembly.formatting import format_instance

if TYPE_CHECKING:
    from analysis.block.effects import InstructionEffects
    from results.machine.graph import Knowledge
    from simulator.core.compiler import Compiled


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One instruction, by its bytes. `compiled` is None if the bytes are no instruction of the catalogue."""

    data: bytes
    compiled: Compiled | None
    effects: InstructionEffects

    @property
    def known(self) -> bool:
        """Whether the machine says what it does."""
        return self.knowledge.anything

    @property
    def knowledge(self) -> Knowledge:
        """What the machine says of it."""
        return NOTHING_KNOWN if self.compiled is None else self.compiled.knowledge

    @property
    def mnemonic(self) -> str:
        """The mnemonic ("": it is not known)."""
        return "" if self.compiled is None else self.compiled.variant.iclass

    @property
    def text(self) -> str:
        """Assembly text in Intel syntax."""
        if self.compiled is None:
            return f"(bytes {self.data.hex(' ')})"
        text = format_instance(self.compiled.variant, self.compiled.values)
        return text.partition("} ")[2] if text.startswith("{") else text  # `{store} MOV`: which of two encodings

    @property
    def name(self) -> str:
        """The variant as the catalogue writes it, or the bytes."""
        return self.text if self.compiled is None else self.compiled.variant.string

    def in_form(self, compiled: Compiled) -> Item:
        """Return the instruction with other µops."""
        return Item(self.data, compiled, effects_of(compiled, self.data))


@dataclass(frozen=True)
class Block:
    """Instructions that run one after another, again and again."""

    items: tuple[Item, ...]

    @cached_property
    def size_bytes(self) -> int:
        """The size of the code."""
        return sum(len(item.data) for item in self.items)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each instruction begins."""
        found, offset = [], 0
        for item in self.items:
            found.append(offset)
            offset += len(item.data)
        return tuple(found)

    @cached_property
    def unknown(self) -> tuple[Item, ...]:
        """The instructions of which the machine says nothing."""
        return tuple(item for item in self.items if not item.known)

    @cached_property
    def untimed(self) -> tuple[Item, ...]:
        """The instructions of which the machine says something, but no latency."""
        return tuple(item for item in self.items if item.known and not item.knowledge.latency)

    @cached_property
    def is_wide(self) -> bool:
        """Whether a load or store is wider than what a port moves in a cycle, or its port is not known."""
        return any(item.compiled is not None and item.compiled.is_wide for item in self.items)

    @cached_property
    def fused(self) -> tuple[bool, ...]:
        """Say for each instruction whether it is one µop with the conditional jump after it."""
        compiled = [item.compiled for item in self.items]
        pairs = zip(compiled, [*compiled[1:], None], strict=True)
        return tuple(bool(one and one.fuses and jump and one.fuses_with(jump)) for one, jump in pairs)

    @cached_property
    def port_masks(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The µops of each instruction by port set.

        Of an instruction that is fused with a jump, the computing µop is the jump's, if the jump's ports are known. By
        time alone they are not: then the pair has those of the computing µop.
        """
        effects = [item.effects for item in self.items]
        pairs = zip(effects, self.fused, [*effects[1:], None], strict=True)
        return tuple(
            own.fused_masks if fused and jump is not None and jump.port_masks else own.port_masks
            for own, fused, jump in pairs
        )

    @property
    def uops_by_ports(self) -> Counter[int]:
        """How many µops each port set has, in all instructions."""
        found: Counter[int] = Counter()
        for mask, count in chain.from_iterable(self.port_masks):
            found[mask] += count
        return found

    @cached_property
    def is_loop(self) -> bool:
        """Whether the last instruction jumps back."""
        last = self.items[-1].effects.fetched if self.items else None
        return last is not None and last.jumps_bytes is not None and last.jumps_bytes < 0
