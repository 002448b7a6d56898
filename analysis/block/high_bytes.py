"""AH, BH, CH and DH on cores that rename them apart from their registers: which code merges both, and which waits.

Such a byte is apart from its register once it is written. A µop merges both before 16 bits or more of the register are
read; it is issued alone in its cycle (Intel 64 and IA-32 Architectures Optimization Reference Manual, section on
partial register stalls). While the byte is a part of its register, an instruction that reads it takes a cycle longer to
use it (Abel and Reineke, uiCA, ICS 2022, and its artifact). Measured latencies are those of bytes that are apart.

Code runs again and again, so what is apart at its end is apart at its beginning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.block.effects import merging
from analysis.block.repeated import in_repeated
from simulator.core.compiler import LocatedUop
from simulator.instructions.locations import high_byte_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.block.code import Item
    from simulator.core.compiler import Compiled

LATER_CYCLES = 1
"""By how many core cycles a byte comes later that is a part of its register."""


class HighBytes:
    """Follows through code which high bytes are apart; adds the µops that merge them, and lets instructions wait."""

    def __init__(self, merge_ports: int) -> None:
        """Take the ports of the µop that merges, as bits. Changed instructions are kept, since they come again."""
        self.merge_ports = merge_ports
        self._changed: dict[tuple[Item, tuple[str, ...], frozenset[str]], Item] = {}

    def __call__(self, items: list[Item]) -> list[Item]:
        """Return the instructions as they are if the code runs again and again."""
        partials = [item.compiled.partial for item in items if item.compiled is not None]
        if not any(one is not None and one.high for one in partials):
            return items
        apart: set[str] = set()
        return in_repeated(items, lambda item: self._executed(item, apart))

    def _executed(self, item: Item, apart: set[str]) -> Item:
        """Return an instruction behind those before, and update which registers have their high byte `apart`."""
        partial = item.compiled.partial if item.compiled is not None else None
        if partial is None:
            return item
        merged = tuple(register for register in partial.read if register in apart)
        apart.difference_update(merged)
        found = self._in_place(item, merged, partial.high - apart)
        apart.difference_update(partial.written)
        apart.update(partial.high_written)
        return found

    def _in_place(self, item: Item, merged: tuple[str, ...], together: frozenset[str]) -> Item:
        """Return an instruction before which registers are merged.

        It may use the high bytes of registers that are `together` with them.
        """
        key = item, merged, together
        if key not in self._changed:
            late = _with_later_bytes(item.compiled, together) if item.compiled is not None else None
            found = item if late is None else item.in_form(late)
            if merged:
                found = replace(found, effects=merging(found.effects, merged, self.merge_ports))
            self._changed[key] = found
        return self._changed[key]


def _with_later_bytes(one: Compiled, registers: frozenset[str]) -> Compiled | None:
    """Return an instruction that takes the high bytes of some registers out of these, None if it reads none of them."""
    places = {high_byte_of(register): register for register in registers}
    read = {place for uop in one.uops or () for place in uop.reads if place in places}
    return replace(one, uops=_later(one.uops or (), {place: places[place] for place in read})) if read else None


def _later(uops: Sequence[LocatedUop], places: dict[str, str]) -> tuple[LocatedUop, ...]:
    """Return µops that wait for registers instead of their high bytes, for a cycle more."""
    waits = {place: number for number, place in enumerate(sorted(places))}
    begun = [LocatedUop((), LATER_CYCLES, (places[place],), (), (), 0) for place in waits]
    changed = [
        replace(
            uop,
            reads=tuple(place for place in uop.reads if place not in waits),
            results=(
                *(number + len(begun) for number in uop.results),
                *(waits[place] for place in uop.reads if place in waits),
            ),
        )
        for uop in uops
    ]
    return (*begun, *changed)
