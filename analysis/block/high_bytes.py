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

from simulator.core.compiler import LocatedUop
from simulator.instructions.locations import high_byte_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.core.compiler import Compiled

PASSES = 2
"""How often the code is followed: the second time it begins as the first one has ended."""

LATER_CYCLES = 1
"""By how many core cycles a byte comes later that is a part of its register."""

Followed = tuple["Compiled | None", tuple[str, ...]]
"""An instruction as it is in its place, and the registers that are merged with their high bytes before it."""


class HighBytes:
    """Follows through code which high bytes are apart, and replaces the instructions that wait longer."""

    def __init__(self) -> None:
        """Begin without instructions. Replaced ones are kept, since the same ones come again and again."""
        self._later: dict[tuple[Compiled, frozenset[str]], Compiled] = {}

    def followed(self, code: Sequence[Compiled | None]) -> list[Followed] | None:
        """Return the instructions in their places (None: one that is not known), None if none has a high byte."""
        if not any(one is not None and one.partial is not None and one.partial.high for one in code):
            return None
        apart: set[str] = set()
        found: list[Followed] = []
        for _ in range(PASSES):
            found = [self._executed(one, apart) for one in code]
        return found

    def forget(self) -> None:
        """Drop what is known of instructions."""
        self._later.clear()

    def _executed(self, one: Compiled | None, apart: set[str]) -> Followed:
        """Return an instruction behind those before, and update which registers have their high byte `apart`."""
        if one is None or one.partial is None:
            return one, ()
        partial = one.partial
        merged = tuple(register for register in partial.read if register in apart)
        apart.difference_update(merged)
        found = self._with_later_bytes(one, partial.high - apart)
        apart.difference_update(partial.written)
        apart.update(partial.high_written)
        return found, merged

    def _with_later_bytes(self, one: Compiled, registers: frozenset[str]) -> Compiled:
        """Return an instruction that takes the high bytes of some registers out of these."""
        places = {high_byte_of(register): register for register in registers}
        read = {place for uop in one.uops or () for place in uop.reads if place in places}
        if not read:
            return one
        key = one, registers
        if key not in self._later:
            self._later[key] = replace(one, uops=_later(one.uops or (), {place: places[place] for place in read}))
        return self._later[key]


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
