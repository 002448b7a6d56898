"""Which store a load reads from: addresses followed through arithmetic, over iterations.

Every register holds a symbol plus an offset; with symbol 0 the offset is the whole value, a known number. Moves,
additions of numbers, LEA and stack instructions keep both known. Other instructions make a new symbol, unless all that
they read are numbers. Two addresses are the same if symbol and offset are. So a store to [RAX+8] feeds a load of [RAX]
after ADD RAX, 8. A load counts as reading from a store if it does so in each iteration, at the same distance: a store
that passes the load's address only once does not count. FS and GS have bases of their own.

At the beginning each register holds a symbol of its own, so different registers never point to the same place. With
an `Environment` all registers and all of memory hold one number, and all pages are one page of physical memory. So
BHive's blocks were measured (Chen et al., IISWC 2019, section 3).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from analysis.block.commits import NUMBER, commit_cycles
from analysis.block.pages import NOTHING, Reached, Touched, reached
from results.machine.graph import tracked
from simulator.instructions.locations import GENERAL, VECTORS, is_high_byte, location_of, width_of
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from analysis.block.code import Item
    from analysis.block.commits import Stored
    from results.machine.constants import CoreConstants, MemoryRenaming
    from simulator.core.compiler import Compiled
    from xed_convert.model import Operand

Value = tuple[int, int]
"""(symbol, offset); symbol 0 is a number of 64 bits."""


BASED_SEGMENTS = ("FS", "GS")
"""The segments whose base is not 0 in 64-bit mode (Intel SDM volume 1, section 3.4.2.1)."""

FULL = (1 << 64) - 1

ITERATIONS = 4
"""Iterations that are followed. By then a load reads from the same store each time, unless addresses wrap around."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What registers and memory hold in the beginning, and the bytes of the one page to which all addresses lead.

    `others` are registers that hold something else. Copies in a row begin `code_offset` bytes after a multiple of 16.
    If the code `restarts`, all registers hold this again after each iteration. With `zero_vectors`, vector registers
    are zero (else nothing is known of them).
    """

    value: int
    page_bytes: int
    others: Mapping[str, int] = field(default_factory=dict)
    code_offset: int = 0
    restarts: bool = False
    zero_vectors: bool = False


BHIVE = Environment(0x2324000, 4096, {"RSP": 0x2324800, "RBP": 0x2324A40}, code_offset=15)
"""BHive's harness (github.com/ithemal/bhive, timing-harness): INIT_VALUE, PAGE_SIZE, and the stack in mid-page.

Two things follow from the times of the tuning half. The code begins where all blocks are explained best: the error of
the bounds is 0.2% less than with any even offset. RBP is neither RSP nor the value of the others, and no multiple of
512. So eight times RBP leads to another place of the page than eight times the others. Its exact value makes hardly any
difference.
"""


MEASURED = Environment(0x2324000, 4096, zero_vectors=True)
"""As this program measures blocks (`runner.own_code.blocks`): all registers hold one value, RSP and RBP too.

Vectors are zero: on a Zen 4, CVTSS2SD XMM1, XMM2 takes half a cycle there, and does not wait for XMM1.
"""


@dataclass(frozen=True, slots=True)
class ForwardedLoad:
    """A load reads what a store wrote `iterations` ago (0: in the same one).

    With `whole` the store wrote all that is read, at the same address: it can be forwarded. Else the load waits until
    it is in the cache. `renamed` says that the core sees at rename where the value is, so that nothing is forwarded;
    `predictable` that it can learn so in a loop; `vectors` that both are of vector registers.
    """

    load: int
    store: int
    iterations: int
    whole: bool
    renamed: bool = False
    vectors: bool = False
    predictable: bool = False


@dataclass(frozen=True, slots=True)
class Followed:
    """What came out of following addresses: which loads read from which stores, and what is reached for the first time.

    `reached` is known with an `Environment` only. `commit_cycles` are those per iteration that the stores take into the
    cache, where the core's are known. All of it is true of code that runs with `loop_copies` of the block in an
    iteration of a loop (0: copies follow each other without end).
    """

    forwardings: tuple[ForwardedLoad, ...] = ()
    reached: Reached = NOTHING
    commit_cycles: Fraction = Fraction(0)
    loop_copies: int = 0


Spelling = tuple[object, ...]
"""An address as rename sees it: registers, how often each was written before, scale, displacement, segment."""


@dataclass(frozen=True, slots=True, eq=False)
class _Written:
    """The last store to a byte. `offset` is where its address leads, `moved` the address minus that."""

    iteration: int
    position: int
    moved: int
    offset: int
    access: _Access
    spelling: Spelling


class _When(NamedTuple):
    """An iteration, and the position of an instruction in it."""

    iteration: int
    position: int


@dataclass(slots=True)
class _State:
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
        self.symbols += 1
        return (self.symbols, 0)

    def register(self, location: str) -> Value:
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

    def store(self, access: _Access, address: Value, value: Value, when: _When, spelling: Spelling) -> None:
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

    def _is_predictable(self, access: _Access) -> bool:
        return self.renaming is not None and access.can_be_predicted(self.renaming)

    def wrote(self, access: _Access, address: Value, when: _When, spelling: Spelling) -> set[tuple[ForwardedLoad, int]]:
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


@dataclass(frozen=True, slots=True)
class _Access:
    """A memory access of an instruction: address and bytes. In the address of PUSH, RSP is already moved.

    `is_general` says that the value comes from, or goes to, general-purpose registers only; `is_vector` that a vector
    register is among them. `is_plain` says that what is read is neither computed with nor stored again.
    """

    place: MemoryAddress
    size: int
    reads: bool
    writes: bool
    is_general: bool
    is_vector: bool
    is_plain: bool

    def can_be_renamed(self, renaming: MemoryRenaming) -> bool:
        """Whether its width and its address are such that it may be renamed: not absolute, nor relative to RIP."""
        named = self.place.base in renaming.bases if renaming.bases else self._has_base
        return self._is_of_kind(renaming) and named and (renaming.indexed or not self.place.index)

    def can_be_predicted(self, renaming: MemoryRenaming) -> bool:
        """Whether it may be renamed in a loop: likewise, but with any address, unless it both reads and writes."""
        return self._is_of_kind(renaming) and (self._has_base or not (self.reads and self.writes))

    def _is_of_kind(self, renaming: MemoryRenaming) -> bool:
        return self.is_general and self.is_plain and 8 * self.size in renaming.widths

    @property
    def _has_base(self) -> bool:
        return self.place.base not in ("", "RIP", "EIP")


class AddressFollower:
    """Follows the addresses of blocks; what an instruction does to values is worked out once."""

    def __init__(self, environment: Environment | None = None, core: CoreConstants | None = None) -> None:
        """Take what registers and memory hold (None: anything), and the core (None: nothing is known of it)."""
        self.environment = environment
        self.renaming = core.memory_renaming if core is not None else None
        self.commit = core.store_commit if core is not None else None
        self._known: dict[Item, _Meaning] = {}

    def follow(self, items: Sequence[Item], loop_copies: int = 0) -> Followed:
        """Follow the addresses of a block through a few iterations.

        Args:
            items: its instructions.
            loop_copies: how many copies of it are one iteration of a loop (0: copies follow each other without end).
        """
        meanings = [self._meaning(item) for item in items]
        accesses = [access for meaning in meanings for access in meaning.accesses]
        stores = sum(one.writes for one in accesses)
        linked = stores and (any(one.reads for one in accesses) or (stores > 1 and self.commit is not None))
        if not linked and (self.environment is None or not accesses):
            return Followed(loop_copies=loop_copies)
        state = _State(self.environment, self.renaming)
        touched: list[list[Touched]] = []
        before: set[tuple[ForwardedLoad, int]] = set()
        found: set[tuple[ForwardedLoad, int]] = set()
        for iteration in range(ITERATIONS):
            before, found = found, set()
            state.here, state.touched = self._begin(items, iteration, loop_copies), []
            for position, meaning in enumerate(meanings):
                state.here += len(items[position].data)
                meaning.follow(state, iteration, position, found)
            touched.append(state.touched)
        steady = {one for one, _ in found & before}
        known = self._with_predicted(steady, loop_copies)
        forwardings = tuple(sorted(known, key=lambda one: (one.load, one.store, one.iterations)))
        committed = Fraction(0)
        if self.commit is not None and state.stored:
            committed = commit_cycles(state.stored, ITERATIONS, self.commit)
        return Followed(forwardings, self._reached(touched, max(1, loop_copies)), committed, loop_copies)

    def _begin(self, items: Sequence[Item], iteration: int, loop_copies: int) -> int:
        """Return where an iteration begins, in bytes from the first one.

        Measured copies stand behind each other, so an address relative to RIP is another one in each. Without an
        `Environment` it is that of a variable, wherever the code stands.
        """
        if self.environment is None:
            return 0
        copy = iteration % loop_copies if loop_copies else iteration
        return copy * sum(len(item.data) for item in items)

    def _reached(self, touched: Sequence[Sequence[Touched]], copies: int) -> Reached:
        """Return what is reached under new addresses: nothing, if code restarts before it leaves a page."""
        if self.environment is None:
            return NOTHING
        page_bytes = self.environment.page_bytes
        return reached(touched, page_bytes, page_bytes / copies if self.environment.restarts else 0)

    def _with_predicted(self, loads: Iterable[ForwardedLoad], loop_copies: int) -> Iterable[ForwardedLoad]:
        """Return forwarded loads; in a loop with few enough of them, those that are predictable are renamed.

        The core also learns of loads that gain nothing by it, such as those of vectors.
        """
        learned = {one.load for one in loads if not one.renamed}
        most = self.renaming.predicted_loads if self.renaming is not None else 0
        if not 0 < len(learned) * loop_copies <= most:
            return loads
        return [replace(one, renamed=True) if one.predictable else one for one in loads]

    def _meaning(self, item: Item) -> _Meaning:
        found = self._known.get(item)
        if found is None:
            found = self._known[item] = _Meaning(item.compiled, self.renaming)
        return found


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


class _Meaning:
    """What one instruction does to registers and memory, as far as addresses may depend on it."""

    __slots__ = ("accesses", "iclass", "operands", "renamable", "stack_change", "values", "written")

    def __init__(self, one: Compiled | None, renaming: MemoryRenaming | None) -> None:
        self.accesses: list[_Access] = []
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
            self.accesses.append(_Access(place, min(size, 64), operand.read, writes, general, vector, is_plain))
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

    def follow(self, state: _State, iteration: int, position: int, found: set[tuple[ForwardedLoad, int]]) -> None:
        """Execute it, and note the stores that its loads read from, with the distance of load and store."""
        places = [state.address(access.place) for access in self.accesses]
        spelled = [
            state.spelled(access.place) if renamable else ()
            for access, renamable in zip(self.accesses, self.renamable, strict=True)
        ]
        state.touched += [
            Touched(position, offset, access.reads)
            for access, (symbol, offset) in zip(self.accesses, places, strict=True)
            if symbol == NUMBER
        ]
        for access, address, spelling in zip(self.accesses, places, spelled, strict=True):
            if access.reads:
                found |= state.wrote(access, address, _When(iteration, position), spelling)
        result = self._result(state, places)
        known = self._left_frame(state, places)
        if result is not None:
            known[self.target] = result
        for name in self.written:
            state.write(name, known.get(name) or state.fresh())
        for access, address, spelling in zip(self.accesses, places, spelled, strict=True):
            if access.writes:
                stored = result if result is not None else state.fresh()
                state.store(access, address, stored, _When(iteration, position), spelling)
        if self.stack_change:
            symbol, offset = state.register("RSP")
            state.registers["RSP"] = (symbol, offset + self.stack_change & FULL)
            state.stack_moved += self.stack_change

    def _left_frame(self, state: _State, places: list[Value]) -> dict[str, Value]:
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

    def _result(self, state: _State, places: list[Value]) -> Value | None:
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

    def _extended(self, state: _State, operand: Operand, places: list[Value]) -> Value:
        symbol, offset = self._operand(state, operand, places)
        width = operand.width_bits or 32
        if symbol != NUMBER:
            return state.fresh()
        offset &= (1 << width) - 1
        return (NUMBER, (offset - (1 << width) if offset >> (width - 1) else offset) & FULL)

    def _operand(self, state: _State, operand: Operand, places: list[Value]) -> Value:
        value = self.values.get(operand.index)
        if operand.kind is OperandKind.IMMEDIATE:
            return (NUMBER, value & FULL) if isinstance(value, int) else state.fresh()
        if operand.kind is OperandKind.MEMORY and places:
            return state.load(places[0], self.accesses[0].size)
        if operand.kind is OperandKind.REGISTER:
            name = value if isinstance(value, str) else (operand.registers or ("",))[0]
            return state.read(name) if name and width_of(name) else state.fresh()
        return state.fresh()

    def _combined(self, state: _State, name: str, values: list[Value]) -> Value:
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
