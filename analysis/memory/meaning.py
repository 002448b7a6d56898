"""What one instruction does to registers and memory, as far as addresses may depend on it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from analysis.memory.accesses import MemoryAccess
from analysis.memory.commits import NUMBER
from analysis.memory.pages import Touched
from analysis.memory.state import FULL, InstancePlace
from results.machine.graph import tracked
from simulator.instructions.locations import GENERAL, VECTORS, location_of, width_of
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.memory.accesses import ForwardedLoad
    from analysis.memory.state import SymbolicState, Value
    from results.machine.constants import MemoryRenaming
    from simulator.core.compiler import Compiled
    from xed_convert.model import Operand

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "ADD": operator.add,
    "SUB": operator.sub,
    "AND": operator.and_,
    "OR": operator.or_,
    "XOR": operator.xor,
    "IMUL": operator.mul,
    "SHL": lambda a, b: a << (b & 63),
    "SHR": lambda a, b: a >> (b & 63),
}
"""Operations on two numbers of 64 bits, by mnemonic."""

PLAIN_LOADS = frozenset({"MOV", "POP", "LEAVE"})
"""Mnemonics of loads of 32 and 64 bits that do not change what they load."""

FRAME_BYTES = 8
"""What LEAVE loads in 64-bit code."""

COPIES = frozenset({"MOV", "MOVZX", "PUSH"})
"""Mnemonics whose result is their last operand."""


class Meaning:
    """What one instruction does to registers and memory, as far as addresses may depend on it."""

    __slots__ = ("accesses", "iclass", "operands", "renamable", "stack_change", "values", "written")

    def __init__(self, one: Compiled | None, renaming: MemoryRenaming | None) -> None:
        self.accesses: list[MemoryAccess] = []
        self.renamable: list[bool] = []
        self.operands: list[Operand] = []
        self.values: dict[int, object] = {}
        self.written: list[str] = []
        self.iclass, self.stack_change = "", 0
        if one is None:
            return
        self.iclass, self.stack_change = one.variant.iclass, one.stack_change
        self.values = dict(one.values)
        self.operands = [operand for operand in one.variant.operands if operand.explicit or operand.implicit]
        for operand in one.variant.operands:
            self._note(one, operand)
        self.renamable = [renaming is not None and access.can_be_renamed(renaming) for access in self.accesses]

    def _note(self, one: Compiled, operand: Operand) -> None:
        writes = operand.written or operand.conditional_write
        if operand.kind is OperandKind.MEMORY:
            place = self._place(operand)
            size = max(1, (operand.width_bits or 64) // 8)
            registers = [other.registers[0] for other in one.variant.operands if other.registers and tracked(other)]
            places = {location_of(name) for name in registers}
            is_plain = writes or self.iclass in PLAIN_LOADS
            general, vector = places.issubset(GENERAL), not places.isdisjoint(VECTORS)
            self.accesses.append(MemoryAccess(place, min(size, 64), operand.read, writes, general, vector, is_plain))
        elif writes and tracked(operand):
            name = one.register_of(operand)
            if name and (location_of(name) != "RSP" or not self.stack_change):
                self.written.append(name)

    def _place(self, operand: Operand) -> MemoryAddress:
        value = self.values.get(operand.index)
        if isinstance(value, MemoryAddress):
            return value
        shape = operand.memory
        base = shape.base if shape is not None else ""
        moved = self.stack_change if base == "RSP" and self.stack_change < 0 else 0
        return MemoryAddress(base, shape.index if shape is not None else "", 1, moved)

    def follow(self, state: SymbolicState, when: InstancePlace) -> set[tuple[ForwardedLoad, int]]:
        """Execute it; return the stores that its loads read from, with the distance of each load and store."""
        found: set[tuple[ForwardedLoad, int]] = set()
        places = [state.address(access.place) for access in self.accesses]
        spelled = [
            state.spelled(access.place) if renamable else ()
            for access, renamable in zip(self.accesses, self.renamable, strict=True)
        ]
        state.touched += [
            Touched(when.position, offset, access.reads)
            for access, (symbol, offset) in zip(self.accesses, places, strict=True)
            if symbol == NUMBER
        ]
        for access, address, spelling in zip(self.accesses, places, spelled, strict=True):
            if access.reads:
                found |= state.wrote(access, address, when, spelling)
        result = self._result(state, places)
        known = self._left_frame(state, places)
        if result is not None:
            known[self.target] = result
        for name in self.written:
            state.write(name, known.get(name) or state.fresh())
        for access, address, spelling in zip(self.accesses, places, spelled, strict=True):
            if access.writes:
                stored = result if result is not None else state.fresh()
                state.store(access, address, stored, when, spelling)
        if self.stack_change:
            symbol, offset = state.register("RSP")
            state.registers["RSP"] = (symbol, offset + self.stack_change & FULL)
            state.stack_moved += self.stack_change
        return found

    def _left_frame(self, state: SymbolicState, places: list[Value]) -> dict[str, Value]:
        """Return what LEAVE makes of RBP and RSP: what was pushed there, and the place above (Intel SDM volume 2A)."""
        if self.iclass != "LEAVE" or self.accesses[0].size != FRAME_BYTES:
            return {}
        ((symbol, offset),) = places
        return {"RBP": state.load(places[0], FRAME_BYTES), "RSP": (symbol, offset + FRAME_BYTES & FULL)}

    @property
    def target(self) -> str:
        """The register that the first operand names, "" if it is none."""
        first = self.values.get(self.operands[0].index) if self.operands else None
        if first is None and self.operands and self.operands[0].registers:
            first = self.operands[0].registers[0]
        return first if isinstance(first, str) else ""

    def _result(self, state: SymbolicState, places: list[Value]) -> Value | None:
        """Return the value of the first operand, None if it is not followed."""
        name, operands = self.iclass, self.operands
        found: Value | None = None
        if not operands:
            return None
        if name == "LEA":
            value = self.values.get(operands[1].index)
            found = state.effective(value) if isinstance(value, MemoryAddress) else None
        elif name == "POP":
            found = state.load(places[-1], self.accesses[-1].size)
        elif name in COPIES:
            found = self._operand(state, operands[-1], places)
        elif name in ("INC", "DEC"):
            symbol, offset = self._operand(state, operands[0], places)
            found = (symbol, offset + (1 if name == "INC" else -1) & FULL)
        elif name in OPERATIONS and len(operands) in (2, 3):
            found = self._combined(state, name, [self._operand(state, one, places) for one in operands[-2:]])
        elif name in ("MOVSX", "MOVSXD"):
            found = self._extended(state, operands[1], places)
        return found

    def _extended(self, state: SymbolicState, operand: Operand, places: list[Value]) -> Value:
        symbol, offset = self._operand(state, operand, places)
        width = operand.width_bits or 32
        if symbol != NUMBER:
            return state.fresh()
        offset &= (1 << width) - 1
        return (NUMBER, (offset - (1 << width) if offset >> (width - 1) else offset) & FULL)

    def _operand(self, state: SymbolicState, operand: Operand, places: list[Value]) -> Value:
        value = self.values.get(operand.index)
        if operand.kind is OperandKind.IMMEDIATE:
            return (NUMBER, value & FULL) if isinstance(value, int) else state.fresh()
        if operand.kind is OperandKind.MEMORY and places:
            return state.load(places[0], self.accesses[0].size)
        if operand.kind is OperandKind.REGISTER:
            name = value if isinstance(value, str) else (operand.registers or ("",))[0]
            return state.read(name) if name and width_of(name) else state.fresh()
        return state.fresh()

    def _combined(self, state: SymbolicState, name: str, values: list[Value]) -> Value:
        (first, a), (second, b) = values
        if first == second == NUMBER:
            return (NUMBER, OPERATIONS[name](a, b) & FULL)
        if name in ("XOR", "SUB") and values[0] == values[1]:
            return (NUMBER, 0)
        if name == "ADD" and NUMBER in (first, second):
            return (first or second, a + b & FULL)
        if name == "SUB" and second == NUMBER:
            return (first, a - b & FULL)
        return state.fresh()
