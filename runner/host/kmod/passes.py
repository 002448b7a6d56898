"""Which counters are read together: every event on a counter that can count it, in as few runs as the hardware allows.

Fixed counters cost nothing; a programmable one can be limited to some events. In N runs each counter has N seats. The
least N is taken with which every event finds a seat (a matching by augmenting paths, the most constrained events
first). The same request always gives the same runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from runner.backend import CLOCK_COUNTERS
from runner.host.kmod import abi

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.uarch.tables import Event, Microarchitecture

FIXED_RDPMC = 0x40000000
"""Added to the number of a fixed counter for RDPMC (Intel SDM volume 2, RDPMC)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One counter of a run: our name for it, what the module programs, and its index for RDPMC."""

    counter: str
    kind: int
    index: int
    config: int

    @property
    def rdpmc(self) -> int:
        """The value of ECX that reads it, by RDPMC (of kind MSR by RDMSR)."""
        return self.index | (FIXED_RDPMC if self.kind == abi.COUNTER_FIXED else 0)


FREE_RUNNING = (
    Slot("core_cycles", abi.COUNTER_MSR, abi.MSR_APERF, 0),
    Slot("reference_cycles", abi.COUNTER_MSR, abi.MSR_MPERF, 0),
)
"""What counts without a PMU: core and reference cycles while not halted (Intel SDM volume 3, 15.2)."""

CLOCK = tuple(Slot(name, abi.COUNTER_TSC, index, 0) for index, name in enumerate(CLOCK_COUNTERS))
"""What every CPU has; see `generator.harness.native.clocked`."""


def without_events(features: int) -> tuple[Slot, ...]:
    """Return what is read where no PMU counts core cycles, by the module's features."""
    return FREE_RUNNING if features & abi.Feature.APERFMPERF else CLOCK


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the PMU of this CPU has: the numbers of its counters, and what an event may select."""

    programmable: frozenset[int]
    fixed: frozenset[int]
    config_mask: int

    @classmethod
    def of_counts(cls, programmable: int, fixed: int, config_mask: int) -> Hardware:
        """Return a PMU with this many counters, numbered from 0."""
        return cls(frozenset(range(programmable)), frozenset(range(fixed)), config_mask)

    @classmethod
    def of_masks(cls, programmable: int, fixed: int, config_mask: int) -> Hardware:
        """Return a PMU with a counter for each bit that is set: there may be gaps."""
        return cls(_bits_of(programmable), _bits_of(fixed), config_mask)

    def can_count(self, event: Event) -> bool:
        """Whether some counter here counts that event."""
        return self._is_fixed(event) or bool(self.places(event))

    def places(self, event: Event) -> tuple[int, ...]:
        """Return the programmable counters that can count it."""
        if event.selector & ~self.config_mask:
            return ()
        return tuple(index for index in event.counters if index in self.programmable)

    def _is_fixed(self, event: Event) -> bool:
        return event.fixed is not None and event.fixed in self.fixed

    def fixed_slot(self, event: Event) -> Slot | None:
        """Return the fixed counter of an event, None if it has none here."""
        if event.fixed is None or not self._is_fixed(event):
            return None
        return Slot(event.counter, abi.COUNTER_FIXED, event.fixed, 0)


def _bits_of(mask: int) -> frozenset[int]:
    return frozenset(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def countable(uarch: Microarchitecture, hardware: Hardware) -> tuple[str, ...]:
    """Return the names of the counters that can be had here, derived ones last."""
    plain = {event.counter for event in uarch.events if hardware.can_count(event)}
    names = [event.counter for event in uarch.events if event.counter in plain]
    for row in uarch.derived:
        if set(row.plus + row.minus) <= set(names):
            names.append(row.counter)
    return tuple(names)


def needed(uarch: Microarchitecture, counters: Iterable[str]) -> tuple[str, ...]:
    """Return counters that have events, in the order given; those that a derived counter is made of take its place."""
    derived = {row.counter: row.plus + row.minus for row in uarch.derived}
    found: dict[str, None] = {}
    waiting = list(counters)
    while waiting:
        name = waiting.pop(0)
        if name in derived:
            waiting = list(derived[name]) + waiting
        else:
            found[name] = None
    return tuple(found)


def plan(uarch: Microarchitecture, hardware: Hardware, counters: Sequence[str]) -> list[tuple[Slot, ...]]:
    """Return the runs that count those counters; the core cycles are in every run if they have a fixed counter.

    Raises:
        MicroarchitectureError: this microarchitecture has no such counter.
    """
    events = [uarch.event(name) for name in needed(uarch, counters)]
    fixed = [slot for event in events if (slot := hardware.fixed_slot(event))]
    rest = [event for event in events if not hardware.fixed_slot(event) and hardware.can_count(event)]
    cycles = [slot for slot in fixed if slot.counter == "core_cycles"]
    runs: list[tuple[Slot, ...]] = []
    for placed in _fewest(rest, hardware):
        slots = [Slot(event.counter, abi.COUNTER_PROG, place, event.selector) for event, place in placed]
        runs.append(_cycles_first((*(fixed if not runs else cycles), *slots)))
    return runs or ([_cycles_first(fixed)] if fixed else [])


@dataclass(frozen=True, slots=True)
class CounterPass:
    """Counters that are read together, and the registers that are written before."""

    slots: tuple[Slot, ...]
    writes: tuple[tuple[int, int], ...] = ()


Needs: TypeAlias = "Mapping[str, tuple[tuple[int, int], ...]]"
"""Registers and their values, in order, by the counter that needs them."""


def together(counters: Sequence[str], needs: Needs, most: int) -> list[tuple[list[str], tuple[tuple[int, int], ...]]]:
    """Part counters into groups of at most `most` in which no register needs two values; each with what it writes.

    A counter that needs nothing is in the first group that has room.
    """
    groups: list[tuple[list[str], dict[int, int]]] = []
    for name in counters:
        wanted = dict(needs.get(name, ()))
        for names, writes in groups:
            merged = writes | wanted
            agree = all(writes.get(msr, value) == value for msr, value in wanted.items())
            if agree and len(names) < most and len(merged) <= abi.MAX_WRITES:
                names.append(name)
                writes.update(wanted)
                break
        else:
            groups.append(([name], wanted))
    return [(names, tuple(writes.items())) for names, writes in groups]


def _cycles_first(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Put the core cycles where they are read closest to the code (see `generator.harness.harness.CounterReader`)."""
    return tuple(sorted(slots, key=lambda slot: slot.counter != "core_cycles"))


def _fewest(events: Sequence[Event], hardware: Hardware) -> list[list[tuple[Event, int]]]:
    """Return all events in as few runs as possible, with their counters, in the order of `events`."""
    count = -(-len(events) // len(hardware.programmable)) if events else 0
    while (places := _seated(events, hardware, count)) is None:
        count += 1
    runs: list[list[tuple[Event, int]]] = [[] for _ in range(count)]
    for event, place in zip(events, places, strict=True):
        next(run for run in runs if place not in (taken for _, taken in run)).append((event, place))
    return runs


def _seated(events: Sequence[Event], hardware: Hardware, count: int) -> list[int] | None:
    """Return a counter for each event so that none has more than `count`; None if that is impossible."""
    owner: dict[tuple[int, int], Event] = {}
    for event in sorted(events, key=lambda item: len(hardware.places(item))):
        if not _augment(event, hardware, count, owner, set()):
            return None
    where = {event.counter: place for (place, _), event in owner.items()}
    return [where[event.counter] for event in events]


def _augment(
    event: Event, hardware: Hardware, count: int, owner: dict[tuple[int, int], Event], seen: set[tuple[int, int]]
) -> bool:
    for seat in ((place, number) for number in range(count) for place in hardware.places(event)):
        if seat in seen:
            continue
        seen.add(seat)
        if seat not in owner or _augment(owner[seat], hardware, count, owner, seen):
            owner[seat] = event
            return True
    return False


def derive(uarch: Microarchitecture, samples: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Add the derived counters whose parts are there."""
    found = dict(samples)
    for row in uarch.derived:
        if not set(row.plus + row.minus) <= set(found):
            continue
        plus = [found[name] for name in row.plus]
        minus = [found[name] for name in row.minus]
        sums = [sum(values) for values in zip(*plus, strict=True)]
        less = [sum(values) for values in zip(*minus, strict=True)] if minus else [0] * len(sums)
        found[row.counter] = tuple(a - b for a, b in zip(sums, less, strict=True))
    return found
