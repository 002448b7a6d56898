"""Memory: a pass over the trace that adds cache latencies and store forwarding to loads and stores.

It is used if a machine has `Parameters.memory`. Addresses are followed through moves and simple arithmetic, as a symbol
(the first content of a register) and an offset in bytes. Different symbols are never near each other. Counters (DEC)
are not followed, since every iteration of a loop would be different.

A store gets a µop without a port that writes its data as soon as these are known. A load is split. Its µop has the
latency of its level of cache. A second µop, without a port, waits for the first and for forwarded data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from simulator.core.compiler import LocatedUop
from simulator.core.runs import executed
from simulator.instructions.locations import location_of, width_of
from simulator.memory.buffer import BufferAccess, Forwarded, StoreBuffer
from simulator.memory.caches import Caches
from xed_convert.model import MemoryAddress, OperandKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from simulator.core.compiler import Compiled, Location
    from simulator.core.frontend import Frontend
    from simulator.core.runs import Repetition, Run
    from simulator.memory.parameters import MemoryParameters
    from xed_convert.model import Operand, OperandValue

Value: TypeAlias = tuple[str, int]
"""A symbol ("" for a plain number), and what is added to it."""

MOST_COPIES = 5000
"""Copies that are followed. If memory still changes after this many, all later copies count as the last one."""
FULL = (1 << 64) - 1
DRAINS = frozenset({"MFENCE", "SFENCE", "CPUID", "LFENCE"})
"""Instructions that wait until stores are done. LFENCE is one, since this simulator drains the core there."""
FLUSHES = frozenset({"CLFLUSH", "CLFLUSHOPT"})


class MemoryPass:
    """Goes through the trace of one program."""

    def __init__(self, frontend: Frontend, memory: MemoryParameters) -> None:
        """Begin with empty caches and buffers, knowing nothing."""
        self.frontend, self.memory = frontend, memory
        self.caches = Caches(memory)
        self.buffer = StoreBuffer(memory.forwarding) if memory.forwarding is not None else None
        self.registers: dict[str, Value] = {}
        self.words: dict[Value, Value | None] = {}
        self._made = frontend.memory_forms

    def resolve(self, runs: Sequence[Run | Repetition]) -> list[Run | Repetition]:
        """Execute a trace and return it, with loads that wait for caches and stores."""
        return executed(runs, self._executed, self._state, MOST_COPIES)

    def _executed(self, run: Run) -> Run:
        return self.frontend.run_of(tuple([self._execute(one) for one in run.code]), run.reads)

    def _state(self) -> Hashable:
        stores = tuple(self.buffer.stores) if self.buffer else ()
        values = frozenset(self.registers.items()), frozenset(self.words.items())
        return (*values, stores, self.caches.state())

    def _execute(self, one: Compiled) -> Compiled:
        """Execute one instruction; return its form with the latencies and µops of its memory accesses."""
        iclass = one.variant.iclass
        if iclass in DRAINS and self.buffer:
            self.buffer.drain()
        places = {
            operand.index: place
            for operand in one.variant.operands
            if operand.kind is OperandKind.MEMORY and (place := self._place(one, operand)) is not None
        }
        if iclass in FLUSHES:
            for place in places.values():
                self.caches.drop(place.symbol, place.offset)
            places = {}
        form = one
        for operand in one.variant.operands:
            place = places.get(operand.index)
            if place is not None and operand.read:
                extra = self.caches.load(place.symbol, place.offset, place.size_bytes)
                form = self._loading(form, extra, self.buffer.load(place) if self.buffer else None)
            if place is not None and operand.written:
                self.caches.load(place.symbol, place.offset, place.size_bytes)
                if self.buffer:
                    self.buffer.store(place)
                    form = self._storing(form, place)
        self._follow(one, places)
        return form

    def _place(self, one: Compiled, operand: Operand) -> BufferAccess | None:
        """Return the access of an operand, None if its address is not known."""
        value = one.values.get(operand.index)
        if not isinstance(value, MemoryAddress) or value.base == "RIP":
            return None
        address = self._address(value)
        if address is None or not operand.width_bits:
            return None
        files = {width_of(name) > 0 for name in self._registers(one)} or {True}
        file = "general" if True in files else "vector"
        return BufferAccess(address[0], address[1], operand.width_bits // 8, file)

    def _registers(self, one: Compiled) -> list[str]:
        """Return the registers that are explicit operands."""
        explicit = (o for o in one.variant.operands if o.explicit and o.kind is OperandKind.REGISTER)
        return [str(one.values[o.index]) for o in explicit if o.index in one.values]

    def _address(self, value: MemoryAddress) -> Value | None:
        symbol, total = "", value.displacement
        for register, scale in ((value.base, 1), (value.index, value.scale)):
            if not register:
                continue
            part = self._register(register)
            if part[0] and (symbol or scale != 1):
                return None
            symbol, total = symbol or part[0], total + part[1] * scale
        return symbol, total

    def _register(self, name: str) -> Value:
        """Return what a register holds; one of which nothing is known stands for itself."""
        location = location_of(name)
        return self.registers.get(location, (location, 0))

    def _follow(self, one: Compiled, places: dict[int, BufferAccess]) -> None:
        """Note what registers and memory hold after an instruction."""
        explicit = [operand for operand in one.variant.operands if operand.explicit]
        result = self._result(one, explicit, places)
        for operand in one.variant.operands:
            is_first = bool(explicit) and operand.index == explicit[0].index
            if operand.written and operand.index in places:
                place = places[operand.index]
                self._write(place, result if is_first and place.size_bytes == 8 else None)
            elif (operand.written or operand.conditional_write) and operand.kind is OperandKind.REGISTER:
                self._set(one, operand, result if is_first else None)

    def _write(self, place: BufferAccess, value: Value | None) -> None:
        for offset in range(place.offset - 7, place.offset + place.size_bytes):
            self.words.pop((place.symbol, offset), None)
        self.words[place.symbol, place.offset] = value

    def _set(self, one: Compiled, operand: Operand, value: Value | None) -> None:
        target = one.values.get(operand.index, next(iter(operand.registers), ""))
        name = str(target)
        if not width_of(name):
            return
        if value is None or width_of(name) < 32:
            value = (f"{one.variant.iclass} {location_of(name)}", 0)
        if not value[0]:
            value = ("", value[1] & ((1 << width_of(name)) - 1))
        self.registers[location_of(name)] = value

    def _result(self, one: Compiled, explicit: Sequence[Operand], places: dict[int, BufferAccess]) -> Value | None:
        """Return what the first operand becomes, None if that is not known."""
        if not explicit:
            return None
        iclass = one.variant.iclass
        values = [self._read(one, operand, places) for operand in explicit]
        names = [one.values.get(operand.index) for operand in explicit]
        if iclass in {"XOR", "SUB"} and len(names) >= 2 and names[-1] == names[-2]:
            return ("", 0)
        if iclass == "LEA":
            address = one.values.get(explicit[-1].index)
            known = isinstance(address, MemoryAddress) and address.base != "RIP"
            return self._address(address) if known and isinstance(address, MemoryAddress) else None
        if iclass in {"MOV", "MOVZX"} and len(values) == 2:
            return values[1]
        return _computed(iclass, values[0], values[-1]) if len(values) == 2 else None

    def _read(self, one: Compiled, operand: Operand, places: dict[int, BufferAccess]) -> Value | None:
        value: OperandValue | None = one.values.get(operand.index)
        if operand.index in places:
            place = places[operand.index]
            at = (place.symbol, place.offset)
            if at in self.words:
                word = self.words[at]
                is_number = word is not None and not word[0]
                return word if place.size_bytes == 8 else (_low(word, place.size_bytes) if is_number else None)
            return (f"[{place.symbol}{place.offset:+}]", 0) if place.size_bytes == 8 else None
        if isinstance(value, int):
            return ("", value)
        if isinstance(value, str) and width_of(value) >= 32:
            known = self._register(value)
            return known if width_of(value) == 64 or not known[0] else None
        return None

    def _loading(self, one: Compiled, extra: int, forwarded: Forwarded | None) -> Compiled:
        """Return an instruction whose load takes `extra` cycles longer for its level of cache, or waits for stores."""
        key = (one, (extra, forwarded))
        if key not in self._made:
            made = loading(one.uops or (), extra, forwarded, shadows=self.buffer is not None)
            self._made[key] = replace(one, uops=made) if one.uops else one
        return self._made[key]

    def _storing(self, one: Compiled, place: BufferAccess) -> Compiled:
        key = (one, place)
        if key not in self._made:
            self._made[key] = replace(one, uops=storing(one.uops or (), place)) if one.uops else one
        return self._made[key]


def _low(word: Value | None, size_bytes: int) -> Value | None:
    return None if word is None else ("", word[1] & ((1 << 8 * size_bytes) - 1))


def _computed(iclass: str, first: Value | None, second: Value | None) -> Value | None:
    """Return a sum, difference, product or conjunction, None if it is not known."""
    if iclass in {"AND", "IMUL"} and ("", 0) in (first, second):
        return ("", 0)
    if first is None or second is None:
        return None
    found: Value | None = None
    plain = not second[0]
    if iclass == "ADD" and (plain or not first[0]):
        found = (first[0] or second[0], first[1] + second[1])
    elif iclass == "SUB" and plain:
        found = (first[0], first[1] - second[1])
    elif iclass == "IMUL" and ("", 1) in (first, second):
        found = second if first == ("", 1) else first
    elif plain and not first[0] and iclass in {"AND", "IMUL"}:
        found = ("", (first[1] & second[1] if iclass == "AND" else first[1] * second[1]) & FULL)
    return found


def is_memory(location: Location) -> bool:
    """Whether a location is one in memory, named by its address as written."""
    return isinstance(location, tuple)


def loading(
    uops: Sequence[LocatedUop], extra: int, forwarded: Forwarded | None, *, shadows: bool
) -> tuple[LocatedUop, ...]:
    """Return the µops with loads that take longer, and wait for forwarded data.

    Args:
        uops: those of the instruction.
        extra: additional cycles of the load.
        forwarded: what it gets from stores (None: nothing).
        shadows: whether stores are known by their addresses. Then addresses as written do not count.
    """
    found: list[LocatedUop] = []
    moved: dict[int, int] = {}
    for number, uop in enumerate(uops):
        results = tuple(moved[one] for one in uop.results)
        reads = tuple(one for one in uop.reads if not (shadows and is_memory(one)))
        is_load = any(is_memory(one) for one in uop.reads)
        plain = replace(uop, results=results, reads=reads, latency=uop.latency + (extra if is_load else 0))
        if not is_load or forwarded is None:
            found.append(plain)
        else:
            found.append(replace(plain, writes=()))
            load = len(found) - 1
            stored = tuple(store.name for store in forwarded.stores)
            found.append(LocatedUop((), forwarded.cycles, stored, (), (), 0))
            waits = (len(found) - 1,) if forwarded.renamed else (load, len(found) - 1)
            found.append(LocatedUop((), 0, (), waits, uop.writes, 0))
        moved[number] = len(found) - 1
    return tuple(found)


def storing(uops: Sequence[LocatedUop], place: BufferAccess) -> tuple[LocatedUop, ...]:
    """Return the µops of a store and one more, whose result is ready when the data is known.

    The µops that write memory are address and data. The data µop reads earlier results or the register that is stored.
    If it also reads address registers, the address µop reads them, too.
    """
    writers = [uop for uop in uops if any(is_memory(one) for one in uop.writes)]
    addresses = {one for uop in uops if uop not in writers for one in uop.reads} if len(writers) < len(uops) else set()
    if len(writers) > 1:
        addresses = set(writers[0].reads)
    data = tuple(one for uop in writers for one in uop.reads if one not in addresses)
    results = tuple(one for uop in writers for one in uop.results)
    known = LocatedUop((), 0, data, results, (place.name,), 0)
    return (*uops, known)
