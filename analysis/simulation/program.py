"""A block as steps of the simulated core (`simulator/core/steps.py`).

The steps of an instruction are made once. They differ from those of a microbenchmark:

- Loads wait for the stores that the followed addresses name (`analysis.memory.addresses`), not for those whose
  addresses are written alike.
- A load that waits for the data of a store takes its port once more when they are there. So of two loads that wait for
  the same data on one port, the younger comes a cycle later. This holds for cores whose loads take their ports by turns
  (Abel and Reineke, uiCA, ICS 2022). It follows from chains of 6 cycles through memory in BHive's tuning half. With an
  even number of loads from the one to the other, 50 of 51 take at least 6.5 cycles; with an odd number, 19 of 57.
- A load that cannot be forwarded waits until the store is in the cache. The store retires when its data could be
  forwarded, and is in the cache as many cycles later as a failed forwarding costs. Stores commit in order, one per
  cycle, so those before it count as well.
- A µop brings RSP up to date where RSP is used after PUSH or POP (`synchronizations`).
- A µop merges a high byte with its register where the block's instructions say so (`InstructionEffects.merged`).
- Flags that nothing in the block reads are left out, which saves time.
- Unknown instructions take a slot in the front end and at issue.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from analysis.bounds.components import (
    NEW_ADDRESSES,
    Component,
    forwarding_units,
    new_address_cycles,
    transition_cycles,
)
from analysis.bounds.dependencies import synchronizations
from analysis.bounds.front_end import unknown_fetched
from analysis.memory.pointers import has_chain_of_loads, quick_loads
from results.machine.graph import FLAGS
from simulator.core.compiler import TICKS
from simulator.core.steps import (
    COMMIT,
    LOAD,
    NO_PORT,
    PARTIAL,
    PORT,
    REPLAY,
    UNIT,
    CoreStep,
    HighByte,
    Numbering,
    steps_of,
)
from simulator.instructions.locations import high_byte_of
from simulator.instructions.stack_pointer import STACK_POINTER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from analysis.block.code import Block, Item
    from analysis.memory.accesses import ForwardedLoad
    from analysis.memory.addresses import Followed
    from results.machine.constants import CoreConstants
    from simulator.core.compiler import LocatedUop, Location
    from simulator.core.delivery import Fetched

LOAD_PORTS = 2
"""Ports that loads take by turns on the cores whose waiting loads take their port once more: a Haswell showed it."""

PAGE_CYCLES = 8
"""Core cycles for a page that misses the first-level TLB and hits the second one.

Intel's Optimization Reference Manual states 7 more than for a hit in the first level (chapter 2, cache and TLB
parameters); the load begins anew in the cycle after them. Cores of which `alias_cycles` are known have their own times.
"""

MOST_COPIES = 4
"""Copies of a block in a program: as many as iterations lie between a store and its load, and no more than this."""

MOST_LOCATIONS = 20_000
"""Locations in a numbering; when it is full, a new one begins."""

REPLAYED = "what is loaded again"
"""The name for the location of data that a load gets when it takes its port once more."""

LOADED, STORED = "what is loaded", "what is stored"
"""Names for the locations in memory of one instruction, until they are known."""


@dataclass(frozen=True, slots=True)
class Program:
    """Steps of one or more copies of a block, by instruction.

    `groups` are (position in the block, steps); a jump that is fused with the instruction before has no group.
    `locations` is how many locations there are, `fetched` what the steps of kind FETCH mean. It runs with `loop_copies`
    of the block in an iteration of a loop (0: copies follow each other without end).
    """

    groups: tuple[tuple[int, tuple[CoreStep, ...]], ...]
    copies: int
    locations: int
    fetched: Sequence[Fetched]
    loop_copies: int

    def changed(self, change: Callable[[int, int, CoreStep], CoreStep | None]) -> Program:
        """Return the program with other steps: `change` maps (copy, position, step) to a step, or None to drop it."""
        groups, copy, before = [], -1, 0
        for number, (position, group) in enumerate(self.groups):
            copy += not number or position <= before
            before = position
            made = (change(copy, position, step) for step in group)
            groups.append((position, tuple([step for step in made if step is not None])))
        return replace(self, groups=tuple(groups))

    def twice(self) -> Program:
        """Return the program with twice as many copies."""
        return replace(self, groups=self.groups * 2, copies=self.copies * 2)

    @property
    def steps(self) -> list[CoreStep]:
        """All steps in order."""
        return [step for _, group in self.groups for step in group]


@dataclass(frozen=True, slots=True)
class _Template:
    """The steps of an instruction: `alone` if neither its loads nor its stores are linked to others in the block."""

    steps: tuple[CoreStep, ...]
    alone: tuple[CoreStep, ...]


class _TemplateKey(NamedTuple):
    """All that the steps of an instruction depend on, but for the stores that its loads read from.

    - `jump`: the jump that is fused with it (None: there is none).
    - `flags_read`: the flags that the block reads.
    - `longer`: by how many core cycles its loads take longer than usual.
    - `units`: the units that it occupies besides its own: names, and ticks.
    - `queued`: whether its loads take entries of the load queue.
    """

    item: Item
    jump: Item | None
    flags_read: frozenset[str]
    longer: int
    units: tuple[tuple[str, int], ...]
    queued: bool


class Programs:
    """Makes programs for one machine."""

    def __init__(
        self,
        stack_ports: tuple[int, ...],
        load_ports: frozenset[int],
        core: CoreConstants | None,
        merge_ports: tuple[int, ...] = (),
    ) -> None:
        """Begin without any instruction.

        Args:
            stack_ports: ports of the µop that brings RSP up to date.
            load_ports: ports of loads.
            core: the constants of the core with its front end (None: there is none).
            merge_ports: ports of the µop that merges a high byte with its register.
        """
        self._merge_ports = merge_ports
        self._stack_ports, self.load_ports = stack_ports, load_ports
        self._fast = core is not None and core.memory.fast_pointer_chasing
        self._ways = core.memory.ways if core is not None and core.memory_renaming is not None else ()
        self._failed = core.memory.failed_forwarding + sum(self._ways[:1]) if core is not None else 0
        self._fetches, self._core = core is not None, core
        turns = core is not None and core.ports.load in core.ports.alternating.split()
        self._replays = turns and len(load_ports) == LOAD_PORTS and not self._ways
        self.page_cycles = PAGE_CYCLES if core is None or not core.memory.alias_cycles else 0
        self._begin()

    def _begin(self) -> None:
        self._numbering = Numbering()
        self._templates: dict[_TemplateKey, _Template] = {}
        self._loaded, self._stored, self._pointer, self._replayed = (
            self._numbering.of(name) for name in (LOADED, STORED, STACK_POINTER, REPLAYED)
        )

    def program(self, block: Block, followed: Followed) -> Program:
        """Return the steps of a block with its loads linked to its stores."""
        forwardings = followed.forwardings
        if len(self._numbering) > MOST_LOCATIONS:
            self._begin()
        templates = self._templates_of(block, followed)
        synchronized = synchronizations(block, self._core)
        copies = min(MOST_COPIES, max([1, *(one.iterations + (one.store < one.load) for one in forwardings)]))
        places = _Places(block.items, forwardings, copies, len(self._numbering), apart=bool(self._ways))
        groups: list[tuple[int, tuple[CoreStep, ...]]] = []
        for copy in range(copies):
            for position, template in templates:
                before = (self._synchronization(),) if position in synchronized else ()
                linked = self._linked(position, copy, template, places)
                groups.append((position, before + linked if before else linked))
        locations = len(self._numbering) + places.count
        return Program(tuple(groups), copies, locations, self._numbering.fetched, followed.loop_copies)

    def number_of(self, register: str) -> int:
        """Return the number of a register's location."""
        return self._numbering.of(register)

    def _templates_of(self, block: Block, followed: Followed) -> list[tuple[int, _Template]]:
        far = followed.reached.far
        besides = self._units_besides(block, followed)
        read = flags_read(block.items)
        quick = quick_loads(block.items, followed.forwardings) if self._fast else set()
        queued = self._core is not None and self._core.load_queue is not None and has_chain_of_loads(block.items)
        found: list[tuple[int, _Template]] = []
        fused = block.fused
        for position, item in enumerate(block.items):
            if position and fused[position - 1]:
                continue
            jump = block.items[position + 1] if fused[position] else None
            longer = self.page_cycles if position in far else -1 if position in quick else 0
            paths = item.compiled.data_paths if block.is_wide and item.compiled is not None else ()
            key = _TemplateKey(item, jump, read, longer, (*paths, *besides[position]), queued)
            template = self._templates.get(key)
            if template is None:
                template = self._templates[key] = self._template(key)
            found.append((position, template))
        return found

    def _units_besides(self, block: Block, followed: Followed) -> defaultdict[int, list[tuple[str, int]]]:
        """Return further units that instructions occupy, by position: their names, and ticks."""
        found: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)

        def share(name: str, cycles: Fraction, positions: Collection[int]) -> None:
            for position in positions if cycles else ():
                found[position].append((name, round(cycles * TICKS / len(positions))))

        stores = [n for n, item in enumerate(block.items) if item.effects.stores]
        share("way into the cache", followed.commit_cycles, stores)
        share(NEW_ADDRESSES, new_address_cycles(self._core, followed), followed.reached.moving)
        for position, changing in transition_cycles(self._core, block).items():
            share(Component.TRANSITIONS.value, Fraction(changing), [position])
        for position, (name, cycles) in forwarding_units(self._core, followed).items():
            share(name, cycles, [position])
        return found

    def _template(self, key: _TemplateKey) -> _Template:
        """Make the steps of an instruction and of the jump that is fused with it."""
        item, jump = key.item, key.jump
        one = item.compiled
        if one is None or one.uops is None:
            steps = self._unknown(item)
            return _Template(steps, steps)
        uops = [self._adapted(uop, key) for uop in one.uops]
        code = [replace(one, uops=_needed(uops), stack_change=0)]
        if jump is not None and jump.compiled is not None:
            code.append(jump.compiled)
        steps = tuple(steps_of(code, self._numbering))
        units = [CoreStep(UNIT, latency=ticks, targets=(self._numbering.of(name),)) for name, ticks in key.units]
        begin = 1 if self._fetches else 0
        merges = [step for register in item.effects.merged for step in self._merge(register)]
        entries = self._entries(item) if key.queued else ()
        steps = (*steps[:begin], *merges, *units, *entries, *steps[begin:])
        return _Template(steps, tuple([self._placed(step, (), ()) for step in steps]))

    def _entries(self, item: Item) -> Iterator[CoreStep]:
        """Yield what the loads of an instruction do to the load queue."""
        assert self._core is not None
        for load in item.effects.loads:
            address = tuple(map(self._numbering.of, load.registers))
            yield CoreStep(LOAD, latency=self._core.memory.load_latency[load.of_vectors], sources=address)

    def _unknown(self, item: Item) -> tuple[CoreStep, ...]:
        fetch = self._numbering.fetch(item.effects.fetched or unknown_fetched(item))
        place = CoreStep(NO_PORT, slot=1, retiring=1)
        return (fetch, place) if self._fetches else (place,)

    def _adapted(self, uop: LocatedUop, key: _TemplateKey) -> LocatedUop:
        """Return a µop with names for its locations in memory, without writes of flags that nothing reads."""
        reads = tuple(LOADED if isinstance(place, tuple) else place for place in uop.reads)
        moved = key.item.effects.moves_stack
        writes: list[Location] = []
        for place in uop.writes:
            if isinstance(place, tuple):
                writes.append(STORED)
            elif (place in key.flags_read or place not in FLAGS) and not (moved and place == STACK_POINTER):
                writes.append(place)
        loads = uop.ports and self.load_ports.issuperset(uop.ports) and uop.latency > 1
        latency = uop.latency + key.longer if loads else uop.latency
        return replace(uop, reads=reads, writes=tuple(writes), latency=latency)

    def _placed(self, step: CoreStep, loaded: tuple[int, ...], stored: tuple[int, ...]) -> CoreStep:
        """Return a step with the locations that its instruction loads from and stores to, in place of their names."""
        if self._loaded in step.sources:
            step = step._replace(sources=(*(one for one in step.sources if one != self._loaded), *loaded))
        if self._stored in step.targets:
            step = step._replace(targets=(*(one for one in step.targets if one != self._stored), *stored))
        return step

    def _linked(self, position: int, copy: int, template: _Template, places: _Places) -> tuple[CoreStep, ...]:
        """Return the steps of an instruction in one copy, with the locations that it loads from and stores to."""
        committed = places.committed(position, copy)
        if not (position in places.loads or position in places.feeding):
            return template.alone if committed is None else (*template.alone, self._commit(committed))
        loaded = places.loaded(position, copy)
        stored = places.stored(position, copy)
        steps = template.steps
        if self._replays and position in places.waiting:
            steps, loaded = self._replaying(steps, loaded)
        found = [self._placed(step, loaded, stored) for step in steps]
        if committed is not None:
            found.append(self._commit(committed))
        for kind, cycles in zip(FORWARDED, self._ways, strict=False):
            for data, forwarded in places.forwarded(position, copy, kind):
                found.append(CoreStep(NO_PORT, latency=cycles, sources=(data,), targets=(forwarded,)))
        return tuple(found)

    def _replaying(
        self, steps: tuple[CoreStep, ...], loaded: tuple[int, ...]
    ) -> tuple[tuple[CoreStep, ...], tuple[int, ...]]:
        """Return steps whose first load takes its port once more for stored data, and the location that has them then.

        What waits for the data comes behind the load. Each place among the steps keeps its issue slot.
        """
        loads = [n for n, step in enumerate(steps) if step.kind == PORT and self.load_ports.issuperset(step.ports)]
        load = next((number for number in loads if steps[number].latency > 1), None)
        if load is None:
            return steps, loaded
        late = {self._loaded}
        before: list[CoreStep] = []
        behind: list[CoreStep] = []
        for step in steps[:load]:
            waits = not late.isdisjoint(step.sources)
            (behind if waits else before).append(step)
            late |= set(step.targets) if waits else set()
        if not late.isdisjoint(steps[load].sources):
            return steps, loaded
        moved = (*before, steps[load], *behind, *steps[load + 1 :])
        moved = tuple([step._replace(slot=old.slot) for step, old in zip(moved, steps, strict=True)])
        place = len(before) + 1
        again = CoreStep(REPLAY, latency=steps[load].latency - 1, sources=loaded, targets=(self._replayed,))
        return (*moved[:place], again, *moved[place:]), (self._replayed,)

    def _synchronization(self) -> CoreStep:
        """Return the step of the µop that brings RSP up to date."""
        places = (self._pointer,)
        if self._core is not None and self._core.updates_for_values:
            return CoreStep(NO_PORT, latency=1, sources=places, targets=places)
        return CoreStep(PORT, self._stack_ports, 1, places, places, slot=1, retiring=1)

    def _merge(self, register: str) -> tuple[CoreStep, CoreStep]:
        """Return the steps of a µop that merges a high byte, which is apart from its register."""
        places = self._numbering.of(register), self._numbering.of(high_byte_of(register))
        return (
            CoreStep(PARTIAL, sources=places, extra=HighByte.APART),
            CoreStep(PARTIAL, self._merge_ports, 1, places, places[:1], HighByte.MERGED, slot=1, retiring=1),
        )

    def _commit(self, location: int) -> CoreStep:
        """Return the step that commits a store to the cache; a location says when it is there."""
        return CoreStep(COMMIT, latency=self._failed, targets=(location,))


class _Data(IntEnum):
    """Where a load finds the data of a store: at rename or in the store buffer, in the cache, forwarded to the load."""

    WRITTEN = 0
    CACHED = 1
    FORWARDED = 2
    FORWARDED_VECTOR = 3


FORWARDED = (_Data.FORWARDED, _Data.FORWARDED_VECTOR)
"""Forwarded data; the second kind if both sides are vector registers."""


class _Places:
    """Location numbers for the data of stores in each copy of a block, by `_Data`.

    Written and forwarded data have one number, unless the time between store and load is `apart` from both. If any load
    waits for the cache, all stores that commit before count; those that no load reads share one number.
    """

    def __init__(
        self, items: Sequence[Item], forwardings: Sequence[ForwardedLoad], copies: int, first: int, *, apart: bool
    ) -> None:
        self.copies, self.first, self.apart = copies, first, apart
        self.loads: dict[int, list[ForwardedLoad]] = {}
        for one in forwardings:
            self.loads.setdefault(one.load, []).append(one)
        self.waiting = {one.load for one in forwardings if one.whole}
        stores = sorted({one.store for one in forwardings})
        self.feeding: Mapping[int, int] = {store: number for number, store in enumerate(stores)}
        self.failing = {one.store for one in forwardings if not one.whole}
        self.sent = {(one.store, self._kind(one)) for one in forwardings}
        self.count = len(_Data) * len(stores) * copies + 1
        self.committing = {n for n, item in enumerate(items) if self.failing and item.effects.stores}

    def _number(self, store: int, copy: int) -> int:
        return self.first + len(_Data) * (self.feeding[store] * self.copies + copy % self.copies)

    def _kind(self, one: ForwardedLoad) -> _Data:
        """Return where a load finds the data of a store."""
        if not one.whole:
            return _Data.CACHED
        return FORWARDED[one.vectors] if self.apart and not one.renamed else _Data.WRITTEN

    def loaded(self, position: int, copy: int) -> tuple[int, ...]:
        """Return the locations that a load waits for."""
        found = self.loads.get(position, ())
        return tuple([self._number(one.store, copy - one.iterations) + self._kind(one) for one in found])

    def stored(self, position: int, copy: int) -> tuple[int, ...]:
        """Return the location of a store's data, () if no load reads it."""
        return (self._number(position, copy),) if position in self.feeding else ()

    def committed(self, position: int, copy: int) -> int | None:
        """Return the location of a store's data in the cache, None if no load waits for a commit."""
        if position in self.failing:
            return self._number(position, copy) + _Data.CACHED
        return self.first + self.count - 1 if position in self.committing else None

    def forwarded(self, position: int, copy: int, kind: _Data) -> tuple[tuple[int, int], ...]:
        """Return the locations of a store's data before and after forwarding, () if no load takes it that way."""
        if (position, kind) not in self.sent:
            return ()
        number = self._number(position, copy)
        return ((number + _Data.WRITTEN, number + kind),)


def flags_read(items: Sequence[Item]) -> frozenset[str]:
    """Return the flags that any instruction of a block reads."""
    return frozenset([name for item in items for name in item.effects.flags_read])


def _needed(uops: Sequence[LocatedUop]) -> tuple[LocatedUop, ...]:
    """Leave out µops without ports that no result waits for."""
    used: set[int] = set()
    kept: list[int] = []
    for number in range(len(uops) - 1, -1, -1):
        uop = uops[number]
        if uop.ports or uop.writes or number in used:
            kept.append(number)
            used.update(uop.results)
    kept.reverse()
    if not kept:
        return tuple(uops[:1])
    places = {old: new for new, old in enumerate(kept)}
    return tuple(replace(uops[old], results=tuple(places[result] for result in uops[old].results)) for old in kept)
