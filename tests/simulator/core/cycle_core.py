"""The core written as plainly as possible, cycle by cycle: only for comparison with `simulator.core.core`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulator.core.core import Counts
from simulator.core.steps import NO_PORT, PORT, ROTATE, SHARED
from simulator.machines.machine import Binding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.core.steps import CoreStep
    from simulator.machines.machine import Parameters


@dataclass(eq=False)
class InFlight:
    step: CoreStep
    sources: list[InFlight]
    issued: int
    ports: tuple[int, ...] = ()
    port: int | None = None
    dispatched: int | None = None
    complete: int | None = None
    divider: int = 0
    latency: int = 0
    retire_slots: int = 0
    group: list[InFlight] = field(default_factory=list)


class CycleCore:
    """Issue, dispatch, complete, retire: one cycle after another."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.cycle = 0
        self.writers: dict[int, InFlight] = {}
        self.window: list[InFlight] = []
        self.dividers: list[InFlight] = []
        self.divider_free = 0
        self.divided = 0
        self.last_bound = list(range(len(parameters.ports)))
        self.bound = len(parameters.ports)
        self.turn = 0
        self.counts = [0] * len(parameters.ports)
        self.unretired: list[list[InFlight]] = []
        self.entries = 0
        self.eliminated = 0
        self.last_retired = 0
        self.begin = [0] * len(parameters.ports)
        self.before = self.begin
        self.same: list[tuple[int, ...]] = []

    def run(self, steps: Sequence[CoreStep]) -> Counts:
        position = 0
        group: list[InFlight] = []
        while position < len(steps) or self.unretired or self.window:
            self._retire()
            self._dispatch()
            waiting_now = [one.port for one in self.window if one.ports and one.dispatched is None]
            self.before, self.begin = self.begin, [waiting_now.count(p) for p in range(len(self.counts))]
            self.same = []
            free = self.parameters.issue_width
            while position < len(steps):
                step = steps[position]
                if step.kind == ROTATE:
                    self._rotate(step)
                    position += 1
                    continue
                full = self.entries + step.slot > self.parameters.reorder_buffer
                waiting = sum(one.dispatched is None for one in self.window if one.ports)
                if step.slot > free or (step.slot and full) or (step.ports and waiting >= self.parameters.scheduler):
                    break
                free -= step.slot
                self.entries += step.slot
                one = self._issue(step, max(0, self.parameters.issue_width - free - 1))
                group.append(one)
                if step.retiring:
                    one.retire_slots = step.retiring
                    self.unretired.append(group)
                    group = []
                position += 1
            self.cycle += 1
        return Counts(self.last_retired, tuple(self.counts), self.divided)

    def _rotate(self, step: CoreStep) -> None:
        places = step.targets
        old = [self.writers.get(place) for place in places]
        turned = old[-1:] + old[:-1] if step.latency == 1 else old[1:] + old[:1]
        for place, writer in zip(places, turned, strict=True):
            if writer is None:
                self.writers.pop(place, None)
            else:
                self.writers[place] = writer

    def _issue(self, step: CoreStep, slot: int) -> InFlight:
        kind, ports, latency, sources, targets, extra, _, _ = step
        one = InFlight(step, [self.writers[place] for place in sources if place in self.writers], self.cycle)
        one.latency = latency
        if kind == SHARED:
            self.eliminated += extra >> 8 & 0xFF
            if self.eliminated >= extra & 0xFF:
                self.eliminated -= extra & 0xFF
                kind, one.latency = NO_PORT, 0
            else:
                kind, extra = PORT, 0
        if kind == PORT:
            one.ports = ports
            if self.parameters.binding is not Binding.DISPATCH:
                self._bind(one, ports[0] if len(ports) == 1 else self._choose(ports, slot))
            one.divider = extra
            if extra:
                self.dividers.append(one)
        self.window.append(one)
        for place in targets:
            self.writers[place] = one
        self._complete_without_port()
        return one

    def _bind(self, one: InFlight, port: int) -> None:
        one.port = port
        self.bound += 1
        self.last_bound[port] = self.bound
        self.counts[port] += 1

    def _choose(self, ports: tuple[int, ...], slot: int) -> int:
        """The port that a rule at issue gives to a µop in that issue slot of the cycle."""
        rule = self.parameters.binding
        if rule in (Binding.INTEL, Binding.INTEL_6, Binding.INTEL_10):
            return self._choose_like_intel(ports, slot)
        waiting = [sum(o.port == p and o.dispatched is None for o in self.window) for p in range(len(self.counts))]
        return min(ports, key=lambda p: (waiting[p], p if rule is Binding.LOWEST else self.last_bound[p]))

    def _choose_like_intel(self, ports: tuple[int, ...], slot: int) -> int:
        if [self.parameters.ports[p] for p in ports] == list(self.parameters.alternating):
            self.turn += 1
            return ports[(self.turn - 1) % len(ports)]
        older = [o.port for o in self.window if o.dispatched is None and o.issued < self.cycle]
        if self.parameters.binding is Binding.INTEL_6:
            return _choose_of_six(ports, slot, older)
        if self.parameters.binding is Binding.INTEL_10:
            return self._choose_of_ten(ports, slot)
        least = max((p for p in ports), key=lambda p: (-older.count(p), p))
        second = max((p for p in ports if p != least), key=lambda p: (-older.count(p), p))
        if slot % 2 == 0 or older.count(second) - older.count(least) >= 3:
            return least
        return second

    def _choose_of_ten(self, ports: tuple[int, ...], slot: int) -> int:
        near = [p for p in ports if self.before[p] < min(self.before[other] for other in ports) + 5]
        ranked = sorted(near, key=lambda p: (self.before[p], -p))
        place = self.same.count(ports)
        self.same.append(ports)
        if slot == 4:
            return ranked[0]
        return ranked[(1 if slot == 3 and not place else place) % len(ranked)]

    def _complete_without_port(self) -> None:
        for one in self.window:
            if not one.ports and one.complete is None and all(s.complete is not None for s in one.sources):
                ready = max([one.issued, *(s.complete or 0 for s in one.sources)])
                one.complete = ready + one.latency
                one.dispatched = one.issued
        self.window = [one for one in self.window if one.dispatched is None]

    def _dispatch(self) -> None:
        """Every port takes its oldest ready µop; unbound ones take, oldest first, the lowest port that is left."""
        free = set(range(len(self.counts)))
        for one in self.window:
            if not one.ports or not self._ready(one):
                continue
            if one.port is None and free & set(one.ports):
                self._bind(one, min(free & set(one.ports)))
            if one.port in free:
                free.remove(one.port)
                self._start(one)
        self._complete_without_port()

    def _start(self, one: InFlight) -> None:
        one.dispatched = self.cycle
        one.complete = self.cycle + one.latency
        if one.divider:
            self.dividers.remove(one)
            self.divider_free = self.cycle + one.divider
            self.divided += one.divider

    def _ready(self, one: InFlight) -> bool:
        if one.dispatched is not None or one.issued >= self.cycle:
            return False
        if one.divider and (self.dividers[0] is not one or self.divider_free > self.cycle):
            return False
        return all(s.complete is not None and s.complete <= self.cycle for s in one.sources)

    def _retire(self) -> None:
        """Retire in order; an instruction's entries may take several cycles."""
        free = self.parameters.retire_width
        while self.unretired and free:
            group = self.unretired[0]
            if any(one.complete is None or one.complete > self.cycle for one in group):
                return
            last = group[-1]
            done = min(free, last.retire_slots)
            last.retire_slots -= done
            free -= done
            self.entries -= done
            self.last_retired = self.cycle
            if last.retire_slots:
                return
            self.unretired.pop(0)


def _choose_of_six(ports: tuple[int, ...], slot: int, older: list[int | None]) -> int:
    waiting = {p: older.count(p) for p in ports}
    first = min(ports, key=lambda p: (waiting[p], p))
    if max(waiting.values()) - waiting[first] >= 3 or slot % 4 == 0:
        return first
    if len(ports) == 3:
        rest = sorted(p for p in ports if p != first)
        return {1: rest[1], 2: rest[0], 3: first}[slot % 4]
    return first if slot % 2 == 0 else max((p for p in ports if p != first), key=lambda p: (waiting[p], p))
