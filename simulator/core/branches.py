"""Targets of branches: direct ones by their displacement, indirect ones by the code before them.

A copy of the code under test is followed once. Addresses of code are known from LEA relative to RIP, from moves of them
through registers and memory, and from return addresses on the stack. A branch to anywhere else is a fault: a real CPU
could not go on there either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.errors import SimulatedFaultError
from simulator.instructions.locations import location_of
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.core.compiler import Compiled
    from xed_convert.model import OperandValue

DIRECT = ("COND_BR", "UNCOND_BR", "CALL")
"""Categories of branches that can have a displacement."""

COPYING = frozenset({"MOV", "LEA", "PUSH", "POP"})
"""Mnemonics that copy an address of the code."""


def branch_target(one: Compiled, offset: int) -> int | None:
    """Return where a direct branch leads, None for anything else."""
    for operand in one.variant.operands:
        if operand.kind is OperandKind.RELATIVE_BRANCH and one.variant.category in DIRECT:
            displacement = one.values.get(operand.index, 0)
            return offset + one.size_bytes + displacement if isinstance(displacement, int) else None
    return None


def is_indirect(one: Compiled) -> bool:
    """Whether it is a jump or call through a register or memory.

    XABORT is not: outside of a transaction it does nothing (Intel SDM volume 2), and transactions are not simulated.
    """
    if one.variant.category not in ("UNCOND_BR", "CALL"):
        return False
    kinds = {operand.kind for operand in one.variant.operands if operand.explicit}
    return not kinds.isdisjoint((OperandKind.REGISTER, OperandKind.MEMORY))


def returns(one: Compiled) -> bool:
    """Whether it goes back to the address on the stack."""
    return one.variant.iclass == "RET_NEAR"


class BranchFollower:
    """Walks through code from its beginning to its end; notes where registers, memory and stack hold its addresses."""

    def __init__(self, fetch: Callable[[int], Compiled], size_bytes: int) -> None:
        """Follow code of that size; `fetch` decodes the instruction at an offset."""
        self._fetch, self._size_bytes = fetch, size_bytes
        self._known: dict[OperandValue, int] = {}
        self._stack: list[int | None] = []

    def executed(self) -> list[Compiled] | None:
        """Return the executed instructions; None if a direct branch goes back, out of the code, or is conditional.

        Raises:
            SimulatedFaultError: an indirect branch leads to no known address of the code.
        """
        found: list[Compiled] = []
        offset = 0
        while offset < self._size_bytes:
            one = self._fetch(offset)
            following = offset + one.size_bytes
            target = self._target(one, offset, following)
            elsewhere = target != following and one.variant.category == "COND_BR"
            back = target < following and branch_target(one, offset) is not None
            if elsewhere or back or target > self._size_bytes or len(found) == self._size_bytes:
                return None
            found.append(one)
            self._note(one, following)
            offset = target
        return found

    def _target(self, one: Compiled, offset: int, following: int) -> int:
        """Return where an instruction leads."""
        direct = branch_target(one, offset)
        if direct is not None:
            return direct
        if returns(one):
            target = self._stack.pop() if self._stack else None
        elif is_indirect(one):
            target = self._known.get(_name(next(iter(one.values.values()), 0)))
        else:
            return following
        if target is None or not 0 <= target <= self._size_bytes:
            raise SimulatedFaultError(f"{one.variant.string} leads to no known address of the code")
        return target

    def _note(self, one: Compiled, following: int) -> None:
        """Note where addresses of the code are after an instruction."""
        iclass = one.variant.iclass
        explicit = [_name(one.values[o.index]) for o in one.variant.operands if o.index in one.values]
        value = self._source(one, explicit, following)
        if one.variant.category == "CALL":
            self._stack.append(following)
        elif iclass == "PUSH":
            self._stack.append(value)
        elif iclass == "POP":
            value = self._stack.pop() if self._stack else None
        for operand in one.variant.operands:
            if not operand.written:
                continue
            name = _name(one.values.get(operand.index, next(iter(operand.registers), "")))
            self._known.pop(name, None)
            if value is not None and iclass in COPYING and operand.explicit:
                self._known[name] = value

    def _source(self, one: Compiled, explicit: list[OperandValue], following: int) -> int | None:
        """Return the address of the code that an instruction copies (None: it copies none)."""
        if one.variant.iclass not in COPYING or not explicit:
            return None
        last = explicit[-1]
        if isinstance(last, MemoryAddress) and last.base == "RIP":
            return following + last.displacement if one.variant.iclass == "LEA" else None
        return self._known.get(last) if one.variant.iclass != "LEA" else None


def _name(value: OperandValue) -> OperandValue:
    """Return the key of a register or of a location in memory."""
    if isinstance(value, MemoryAddress):
        return MemoryAddress(value.base, value.index, value.scale, value.displacement)
    return location_of(value) if isinstance(value, str) else value
