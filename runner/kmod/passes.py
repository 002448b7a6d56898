"""Which counters are read together: every event on a counter that can count it, in as few runs as the hardware allows.

Fixed counters cost nothing; a programmable one can be limited to some events. One run's assignment is a maximum
matching of events to counters (augmenting paths), and events are taken in the order in which they were asked for, the
most constrained first, so that the same request always gives the same runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.kmod import abi

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

CLOCK = tuple(Slot(name, abi.COUNTER_TSC, index, 0) for index, name in enumerate(("tsc", "calibration", "witness")))
"""What there always is; see `generator.native.clocked`."""


def without_events(features: int) -> tuple[Slot, ...]:
    """Return what is read where no PMU counts core cycles, by the module's features."""
    return FREE_RUNNING if features & abi.Feature.APERFMPERF else CLOCK


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the PMU of this CPU has, as the module reports it."""

    programmable: int
    fixed: int
    config_mask: int

    def can_count(self, event: Event) -> bool:
        """Whether some counter here counts that event."""
        return self._is_fixed(event) or bool(self.places(event))

    def places(self, event: Event) -> tuple[int, ...]:
        """Return the programmable counters that can count it."""
        if event.selector & ~self.config_mask:
            return ()
        return tuple(index for index in event.counters if index < self.programmable)

    def _is_fixed(self, event: Event) -> bool:
        return event.fixed is not None and event.fixed < self.fixed

    def fixed_slot(self, event: Event) -> Slot | None:
        """Return the fixed counter of an event, None if it has none here."""
        if event.fixed is None or not self._is_fixed(event):
            return None
        return Slot(event.counter, abi.COUNTER_FIXED, event.fixed, 0)


def countable(uarch: Microarchitecture, hardware: Hardware) -> tuple[str, ...]:
    """Return the names of the counters that can be had here, derived ones last."""
    plain = {event.counter for event in uarch.events if hardware.can_count(event)}
    names = [event.counter for event in uarch.events if event.counter in plain]
    for row in uarch.derived:
        if set(row.plus + row.minus) <= set(names):
            names.append(row.counter)
    return tuple(names)


def needed(uarch: Microarchitecture, counters: Iterable[str]) -> tuple[str, ...]:
    """Return the counters that have events, in the order given, with derived ones replaced by what they are made of."""
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
    while rest:
        placed = _match(rest, hardware)
        slots = [Slot(event.counter, abi.COUNTER_PROG, place, event.selector) for event, place in placed]
        runs.append(_cycles_first((*(fixed if not runs else cycles), *slots)))
        taken = {event.counter for event, _ in placed}
        rest = [event for event in rest if event.counter not in taken]
    return runs or ([_cycles_first(fixed)] if fixed else [])


def _cycles_first(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Put the core cycles where they are read closest to the code (see `generator.harness.Reader`)."""
    return tuple(sorted(slots, key=lambda slot: slot.counter != "core_cycles"))


def _match(events: Sequence[Event], hardware: Hardware) -> list[tuple[Event, int]]:
    """Return as many events as fit at once, with their counters, in the order of `events`."""
    owner: dict[int, Event] = {}
    for event in sorted(events, key=lambda item: len(hardware.places(item))):
        _augment(event, hardware, owner, set())
    where = {event.counter: place for place, event in owner.items()}
    return [(event, where[event.counter]) for event in events if event.counter in where]


def _augment(event: Event, hardware: Hardware, owner: dict[int, Event], seen: set[int]) -> bool:
    for place in hardware.places(event):
        if place in seen:
            continue
        seen.add(place)
        if place not in owner or _augment(owner[place], hardware, owner, seen):
            owner[place] = event
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
