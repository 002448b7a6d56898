"""NOPs that take no issue slot, since they fuse with the instruction before."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.block.code import Item
from results.machine.graph import Decoding
from simulator.core.compiler import BRANCHES
from simulator.instructions.locations import GENERAL, location_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

NOPS = frozenset({"NOP", "ENDBR64"})
"""Mnemonics of instructions that fuse with the one before, on cores where NOPs do."""

UNFUSED = frozenset({*BRANCHES, "PREFETCH"})
"""Categories of instructions with which no NOP fuses. Nor does a NOP fuse with instructions that use vectors or the x87
stack, have an immediate of 64 bits, or an address relative to RIP. Measured on a Zen 4, with rows of instructions and
NOPs."""

LONGEST_IMMEDIATE = 32
"""Bits of an immediate that leaves room for a NOP."""


class FusedNops:
    """Takes the slots of NOPs that fuse; those without a slot are kept, since the same ones come again and again."""

    def __init__(self) -> None:
        """Begin without NOPs."""
        self._riding: dict[Item, Item] = {}

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """Return the instructions; a NOP that fuses with the one before takes no slot."""
        found: list[Item] = []
        free = False
        for item in items:
            rides = free and item.mnemonic in NOPS
            free = not rides and _takes_nop(item)
            found.append(self._without_place(item) if rides else item)
        return found

    def _without_place(self, nop: Item) -> Item:
        """Return a NOP that takes no slot in the fused domain."""
        if nop not in self._riding:
            one, fetched = nop.compiled, nop.effects.fetched
            seen = None if fetched is None else replace(fetched, decoding=Decoding(0))
            other = None if one is None else replace(one, uops=(), slots=0, unit_ticks=0, fetched=seen)
            effects = replace(nop.effects, port_masks=(), fused_masks=(), slots=0, occupies=Fraction(0), fetched=seen)
            self._riding[nop] = Item(nop.data, other, effects)
        return self._riding[nop]


def _takes_nop(item: Item) -> bool:
    """Whether a NOP after it fuses with it, where NOPs fuse."""
    one = item.compiled
    if one is None or not item.known or one.variant.category in UNFUSED or one.relative:
        return False
    operands = one.variant.operands
    if any(o.kind is OperandKind.IMMEDIATE and (o.width_bits or 0) > LONGEST_IMMEDIATE for o in operands):
        return False
    names = {location_of(name) for o in operands if o.kind is OperandKind.REGISTER for name in o.registers}
    return names.issubset(GENERAL)
