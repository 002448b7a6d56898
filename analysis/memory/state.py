"""Registers and memory while code is followed: what each of them holds, as a symbol and an offset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from analysis.memory.accesses import ForwardedLoad
from analysis.memory.commits import NUMBER
from simulator.instructions.locations import is_high_byte, location_of, width_of

if TYPE_CHECKING:
    from analysis.memory.accesses import MemoryAccess
    from analysis.memory.commits import Stored
    from analysis.memory.environment import Environment
    from analysis.memory.pages import Touched
    from results.machine.constants import MemoryRenaming
    from xed_convert.model import MemoryAddress

Value = tuple[int, int]
"""(symbol, offset); symbol 0 is a number of 64 bits."""

BASED_SEGMENTS = ("FS", "GS")
"""The segments whose base is not 0 in 64-bit mode (Intel SDM volume 1, section 3.4.2.1)."""

FULL = (1 << 64) - 1

Spelling = tuple[object, ...]
"""An address as rename sees it: registers, how often each was written before, scale, displacement, segment."""


@dataclass(frozen=True, slots=True, eq=False)
class _Written:
    """The last store to a byte. `offset` is where its address leads, `moved` the address minus that."""

    iteration: int
    position: int
    moved: int
    offset: int
    access: MemoryAccess
    spelling: Spelling


class InstancePlace(NamedTuple):
    """An iteration, and the position of an instruction in it."""

    iteration: int
    position: int


@dataclass(slots=True)
class SymbolicState:
    """Registers and memory while a block is followed."""

    environment: Environment | None
    renaming: MemoryRenaming | None = None
    registers: dict[str, Value] = field(default_factory=dict)
    contents: dict[Value, tuple[int, Value]] = field(default_factory=dict)
    """By address: bytes and value of the last store there, or of what a load found there."""
    writers: dict[Value, _Written] = field(default_factory=dict)
    """By byte: the last store there."""
    versions: dict[str, int] = field(default_factory=dict)
    """By register: how often it was written, other than by the stack engine."""
    stack_moved: int = 0
    """By how many bytes the stack engine moved RSP."""
    meanings: dict[tuple[object, ...], int] = field(default_factory=dict)
    symbols: int = 0
    here: int = 0
    """Where the instruction ends, from the beginning of the first copy of the block."""
    stored: list[Stored] = field(default_factory=list)
    """All stores, in order."""
    touched: list[Touched] = field(default_factory=list)
    """The accesses in this iteration whose address is a number."""

    def fresh(self) -> Value:
        """Return a value of which nothing is known."""
        self.symbols += 1
        return (self.symbols, 0)

    def register(self, location: str) -> Value:
        """Return what a whole register holds."""
        found = self.registers.get(location)
        if found is None:
            found = self._initial(location)
            self.registers[location] = found
        return found

    def _initial(self, location: str) -> Value:
        if self.environment is None:
            return self.fresh()
        return (NUMBER, self.environment.others.get(location, self.environment.value))

    def read(self, name: str) -> Value:
        """Return what a register holds, by any of its names."""
        symbol, offset = self.register(location_of(name))
        width = width_of(name)
        if width in (0, 64):
            return (symbol, offset)
        if symbol != NUMBER:
            return self.fresh()
        return (NUMBER, (offset >> 8 if is_high_byte(name) else offset) & ((1 << width) - 1))

    def write(self, name: str, value: Value) -> None:
        """Write to a register by any of its names; 32 bits clear the upper half, and less keeps the rest."""
        location, width = location_of(name), width_of(name)
        self.versions[location] = self.versions.get(location, 0) + 1
        symbol, offset = value
        if width == 32:
            value = (NUMBER, offset & 0xFFFFFFFF) if symbol == NUMBER else self.fresh()
        elif 0 < width < 32:
            old_symbol, old = self.register(location)
            if symbol == old_symbol == NUMBER:
                shift = 8 if is_high_byte(name) else 0
                mask = ((1 << width) - 1) << shift
                value = (NUMBER, (old & ~mask) | (offset << shift & mask))
            else:
                value = self.fresh()
        self.registers[location] = value

    def address(self, place: MemoryAddress) -> Value:
        """Return the address of an access: what LEA gives, in a segment."""
        value = self.effective(place)
        return self._plus(value, (self.named(place.segment), 0)) if place.segment in BASED_SEGMENTS else value

    def effective(self, place: MemoryAddress) -> Value:
        """Return what an address is as a number, as LEA gives it."""
        value: Value = (NUMBER, place.displacement & FULL)
        if place.base in ("RIP", "EIP"):
            value = (self.named("code"), place.displacement + self.here)
        elif place.base:
            value = self._plus(value, self.read(place.base))
        if place.index and location_of(place.index).startswith("ZMM"):
            return self.fresh()
        if place.index:
            symbol, offset = self.read(place.index)
            scaled = symbol if symbol == NUMBER or place.scale == 1 else self.named("scaled", symbol, place.scale)
            value = self._plus(value, (scaled, offset * place.scale))
        return value

    def physical(self, address: Value) -> Value:
        """Return where an address leads; one page stands for all if there is an environment."""
        symbol, offset = address
        if symbol == NUMBER and self.environment is not None:
            return (NUMBER, offset % self.environment.page_bytes)
        return address

    def named(self, *meaning: object) -> int:
        """Return the symbol for something that is the same each time."""
        found = self.meanings.get(meaning)
        if found is None:
            found = self.meanings[meaning] = self.fresh()[0]
        return found

    def _plus(self, one: Value, other: Value) -> Value:
        (first, a), (second, b) = one, other
        if NUMBER in (first, second):
            return (first or second, a + b & FULL)
        return (self.named("sum", min(first, second), max(first, second)), a + b & FULL)

    def load(self, address: Value, size: int) -> Value:
        """Return the value of `size` bytes at an address."""
        address = self.physical(address)
        known = self.contents.get(address)
        if known is not None and known[0] == size:
            return known[1]
        if self.environment is not None and not address[0] and size <= 8 and not self._is_written(address[1], size):
            twice = self.environment.value << 64 | self.environment.value  # numbers of 64 bits, one after another
            value = (NUMBER, twice >> 8 * (address[1] % 8) & ((1 << 8 * size) - 1))
        else:
            value = self.fresh()
        if known is None:
            self.contents[address] = (size, value)
        return value

    def _is_written(self, number: int, size: int) -> bool:
        """Whether a store wrote one of `size` bytes at an address that is a number."""
        return any((NUMBER, number + byte) in self.writers for byte in range(size))

    def spelled(self, place: MemoryAddress) -> Spelling:
        """Return how an address is written, as rename sees it."""
        base, index = location_of(place.base), location_of(place.index)
        moved = self.stack_moved if base == "RSP" else 0
        versions = self.versions.get(base, 0), self.versions.get(index, 0)
        return (base, index, *versions, place.scale, place.displacement + moved, place.segment)

    def store(
        self, access: MemoryAccess, address: Value, value: Value, when: InstancePlace, spelling: Spelling
    ) -> None:
        """Write a value to an address that is spelled so (none: no matter how)."""
        symbol, offset = place = self.physical(address)
        written = _Written(*when, address[1] - offset, offset, access, spelling)
        size = access.size
        self.stored.append((symbol, offset, size))
        for byte in range(-31, size):
            near = (symbol, offset + byte)
            if byte < 0 and near in self.contents and self.contents[near][0] > -byte:
                del self.contents[near]
            elif byte >= 0:
                self.contents.pop(near, None)
                self.writers[near] = written
        self.contents[place] = (size, value)

    def _is_predictable(self, access: MemoryAccess) -> bool:
        return self.renaming is not None and access.can_be_predicted(self.renaming)

    def wrote(
        self, access: MemoryAccess, address: Value, when: InstancePlace, spelling: Spelling
    ) -> set[tuple[ForwardedLoad, int]]:
        """Return the stores that wrote what a load reads, and the distance of each.

        The distance is how many bytes after the store the load begins. The store can be forwarded if it wrote all of
        what is read, at the same address; that two addresses lead to one place is not recognized. It is renamed if both
        addresses are spelled alike (none: it never is), and predictable however they are spelled.
        """
        symbol, offset = self.physical(address)
        moved = address[1] - offset
        found = {self.writers.get((symbol, offset + byte)) for byte in range(access.size)}
        links = set()
        for one in found:
            if one is not None:
                whole = len(found) == 1 and one.moved == moved
                renamed = whole and spelling != () and one.spelling == spelling
                vectors = access.is_vector and one.access.is_vector
                back = when.iteration - one.iteration
                known = whole and self._is_predictable(access) and self._is_predictable(one.access)
                forwarded = ForwardedLoad(when.position, one.position, back, whole, renamed, vectors, known)
                links.add((forwarded, offset - one.offset))
        return links
