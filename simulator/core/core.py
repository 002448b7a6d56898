"""The out-of-order core: the cycles in which each µop is issued, dispatched and retired.

Each cycle issues a fixed number of µops in program order (fused domain), while the reorder buffer and the scheduler
have room. A µop is bound to one of its ports by the machine's rule (`binding`). By default it is bound at issue to the
port with the shortest queue; among equals, to the one that was chosen longest ago. Every cycle each port dispatches the
oldest of its µops whose inputs are ready; µops without a port are done at issue. The divider takes its µops in program
order. Retirement is in order, a fixed number of µops per cycle.

Under these rules no µop can delay an older one, so `advance` does not walk through the cycles. It takes the µops in
program order and gives each the first cycle in which its port is free. Tests compare the outcome with a core that walks
through all cycles. Repeated code is not simulated to the end. Once the state after a copy equals that after an earlier
one, but for a shift in time, everything repeats.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.core.binding import BY_SLOT, LAST, RULES, WAITING, begin_group, by_scheduler
from simulator.core.compiler import TICKS
from simulator.core.delivery import Delivery
from simulator.core.sharing import RegisterFile, Sharing, SharingPipeline
from simulator.core.steps import (
    BELOW_RESULT,
    COMMIT,
    FETCH,
    FILE_BITS,
    LOAD,
    NO_PORT,
    PARTIAL,
    PORT,
    REPLAY,
    RESULT,
    RESULT_BITS,
    ROTATE,
    SHARED,
    TASK_BITS,
    UNIT,
    HighByte,
)
from simulator.instructions.transfers import EITHER
from simulator.machines.machine import Binding
from simulator.machines.units import UopTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simulator.core.delivery import Fetched
    from simulator.core.steps import CoreStep, PlainStep
    from simulator.machines.machine import Parameters

LONG_WAIT = 2000
"""Cycles that are walked through one by one while µops wait; then the next dispatch is looked for at once."""

_ENDLESS = 1 << 62

MOST_PORTS = 16
"""Bits of ports in a mask of `Core.busy`. The bits above them are results that come in (`Parameters.results`)."""

PORT_BITS = (1 << MOST_PORTS) - 1


class Moment(NamedTuple):
    """What happened to a µop, in absolute cycles: its issue, and when its operands and its result were ready.

    The front end had delivered it at `arrived`. `logged` is the number of dispatches that were logged up to it: one
    more than before it, if it was dispatched to a port. Of a LOAD, `needed` is when it got its entry of the load queue,
    and `done` is when that is free again.
    """

    issued: int
    arrived: int
    needed: int
    done: int
    logged: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened in a stretch of code: core cycles, µops per port (task by task), cycles of the divider.

    `front` are µops from the decoders and from the microcode sequencer, None without a front end.
    """

    cycles: int
    ports: tuple[int, ...]
    divider: int
    front: tuple[int, int] | None = None

    def plus(self, other: Counts, times: int = 1) -> Counts:
        """Return the sum with another stretch, counted a number of times."""
        return Counts(
            self.cycles + times * other.cycles,
            tuple(a + times * b for a, b in zip(self.ports, other.ports, strict=True)),
            self.divider + times * other.divider,
            self._front_plus(other, times),
        )

    def _front_plus(self, other: Counts, times: int) -> tuple[int, int] | None:
        if self.front is None or other.front is None:
            return self.front
        return (self.front[0] + times * other.front[0], self.front[1] + times * other.front[1])


class ReadyLocations(list[int]):
    """Locations whose values are always ready: no µop waits for what is written there."""

    def __setitem__(self, _index: Any, _cycle: Any) -> None:  # noqa: ANN401 - a list takes slices, too
        """Ignore when a value is ready."""

    def copy(self) -> ReadyLocations:
        """Return as many locations that are always ready."""
        return ReadyLocations(self)


class Core:
    """The state of the core between two instructions; a fresh one is drained."""

    __slots__ = (
        "before",
        "busy",
        "choose",
        "committed",
        "counts",
        "cycle",
        "divided",
        "divider_free",
        "eliminated",
        "fetched",
        "free_slots",
        "front",
        "given",
        "high_bytes",
        "hint_from",
        "hint_to",
        "last_cycle",
        "last_load",
        "last_port",
        "last_retired",
        "left",
        "loads",
        "locations",
        "log",
        "looks",
        "parameters",
        "remembers",
        "results",
        "retired",
        "retiring",
        "same",
        "seen",
        "sequence",
        "sharing",
        "turns",
        "units",
        "waiting",
        "weights",
    )

    def __init__(self, parameters: Parameters, locations: int, order: Sequence[int] = ()) -> None:
        """Begin drained at cycle 0, with all locations (registers, flags, memory) ready.

        `order` are the ports in the order in which they were last chosen (none: as they are numbered).
        """
        ports = len(parameters.ports)
        self.parameters = parameters
        self.locations = [0] * locations
        self.cycle, self.free_slots = 0, parameters.issue_width
        self.busy: dict[int, int] = {}
        self.weights, self.sequence, self.waiting = list(range(ports)), ports, 0
        for location, port in enumerate(order):
            self.weights[port] = location
        self.counts, self.divided = [0] * (ports * (len(UopTask) if parameters.by_task else 1)), 0
        self.hint_from, self.hint_to = [0] * ports, [0] * ports
        self.retired = [0] * parameters.reorder_buffer  # when entries were freed; all are free from the start
        self.loads: list[int] = []  # when entries of the load queue become free, a heap
        self.last_load = 0  # and the last of these cycles
        self.last_port, self.last_cycle = 0, 0  # of the last dispatch
        self.log: list[tuple[int, int]] | None = None
        self.last_retired, self.retiring = 0, 0
        self.committed = 0  # when the last store began its way into the cache: one does per cycle, in order
        self.divider_free, self.eliminated = 0, 0
        self.units: dict[int, int] = {}  # the tick from which each unit is free
        self.choose = by_scheduler if parameters.schedulers is not None else RULES[parameters.binding]
        # The issue slots that are left in the group, and its µops by port, where µops are given to schedulers in groups
        self.left, self.given = 0, [0] * ports if parameters.schedulers is not None else []
        self.results = parameters.results
        self.remembers = parameters.binding is Binding.FEWEST_WAITING  # when a port was chosen by any µop
        self.turns = frozenset(
            [tuple(sorted(map(parameters.ports.index, group))) for group in parameters.alternating.split()]
        )
        self.looks = parameters.binding in BY_SLOT
        self.front = Delivery(parameters.front) if parameters.front is not None else None
        self.fetched: Sequence[Fetched] = ()  # the instructions that steps of the kind FETCH begin
        self.sharing = Sharing(*parameters.elimination)
        if parameters.pipeline is not None:
            cycles, kept = parameters.pipeline
            self.sharing = SharingPipeline(*parameters.elimination, cycles, all_overwritten=kept)
        self.high_bytes: dict[int, int] = {}  # the high bytes that were written last, and their registers
        self.seen = [0] * ports  # how many µops waited at the beginning of the cycle, where the rule looks at it
        self.before = self.seen  # and at the beginning of the cycle before
        self.same: dict[tuple[int, ...], int] = {}  # the µops of this cycle by their ports, where the rule counts them

    def copy(self) -> Core:
        """Return an independent core in the same state."""
        other = Core.__new__(Core)
        for name in Core.__slots__:
            value = getattr(self, name)
            copied = isinstance(value, (list, dict, Delivery, Sharing)) and name != "fetched"
            setattr(other, name, value.copy() if copied else value)
        return other

    def totals(self) -> Counts:
        """Return what has happened once everything issued so far has retired."""
        return self.counted(max(self.last_retired, self.cycle))

    def counted(self, cycles: int) -> Counts:
        """Return what has happened so far, in `cycles` core cycles."""
        front = (self.front.counts[0], self.front.counts[1]) if self.front is not None else None
        return Counts(cycles, tuple(self.counts), self.divided, front)

    @property
    def queued_loads(self) -> Fraction:
        """The share of the load queue's entries that are taken (0 if there is no such queue)."""
        queue = self.parameters.load_queue
        return Fraction(sum(cycle > self.cycle for cycle in self.loads), queue.entries) if queue else Fraction(0)

    def outline(self) -> tuple[object, ...]:
        """Return a part of the state that is cheap to make: states with different outlines are different."""
        lag, order = self.last_retired - self.cycle, self.order()
        return (lag, self.waiting, self.free_slots, len(self.busy), order, self.eliminated)

    def state(self, watched: Iterable[int] | None = None) -> tuple[object, ...]:
        """Return everything that the future depends on, relative to the current cycle.

        `watched` are the locations that matter (None: all of them).
        """
        now, locations = self.cycle, self.locations
        indices = range(len(locations)) if watched is None else watched
        return (
            self.free_slots,
            tuple([locations[index] - now if locations[index] > now else 0 for index in indices]),
            frozenset([(cycle - now, ports) for cycle, ports in self.busy.items()]),
            tuple([weight // WAITING for weight in self.weights]),
            self.order(),
            tuple([cycle - now for cycle in self.retired[bisect_right(self.retired, now) :]]),
            self.retiring if self.last_retired > now else 0,
            tuple(sorted([cycle - now for cycle in self.loads if cycle > now])),
            (max(0, self.divider_free - now), max(0, self.committed - now)),
            self.eliminated,
            (self.left, tuple(self.given)),
            (tuple(self.seen), tuple(self.before), frozenset(self.same.items())),
            self.front.state(now) if self.front is not None else None,
            self.sharing.state(now),
            frozenset(self.high_bytes),
            frozenset([(unit, tick - now * TICKS) for unit, tick in self.units.items() if tick > now * TICKS]),
        )

    def order(self) -> tuple[int, ...]:
        """Return the ports in the order in which they were last chosen, as far as the binding rule depends on it."""
        if self.looks:
            weights = self.weights
            return tuple([port for group in self.turns for port in sorted(group, key=lambda one: weights[one] & LAST)])
        return tuple([port for _, port in sorted([(w % WAITING, port) for port, w in enumerate(self.weights)])])

    def advance(  # noqa: C901, PLR0912, PLR0915 - the inner loop of all simulations: one more call per µop would be felt
        self, steps: Sequence[PlainStep], log: list[tuple[int, int]] | None = None, trace: list[Moment] | None = None
    ) -> None:
        """Execute the steps once.

        `log` receives (cycle, index in `counts`) of every dispatch, `trace` a moment of every µop.
        """
        width, capacity = self.parameters.issue_width, self.parameters.scheduler
        grouped = self.parameters.whole_groups and width < capacity  # without a limit of issue there are no groups
        capacity -= width - 1 if grouped else 0
        locations, retired, dispatch = self.locations, self.retired, self._dispatch
        self.log = log
        now, free = self.cycle, self.free_slots
        issued, complete = len(retired) - self.parameters.reorder_buffer, 0
        front, arrived = self.front, 0
        shared = self.sharing.group_of
        given = self.parameters.schedulers is not None
        for kind, ports, latency, sources, targets, extra, slot, end in steps:
            if kind == PARTIAL:
                if not self._merges(HighByte(extra), sources):
                    continue
                if free < width:
                    now, free = self._wait(now, now + 1, _ENDLESS), width
            # Issue: wait for a slot of the cycle, for entries of the reorder buffer, and for the scheduler
            until = 0
            if slot:
                until = retired[issued]
                until = max(until, arrived)
                issued += 1
                if given:
                    self._count_slot(new=arrived > now)
                if not free and until <= now:
                    until = now + 1
            if until > now or (self.waiting >= capacity and ports and (free == width or not grouped)):
                now, free = self._wait(now, until, capacity if ports else _ENDLESS), width
            free -= slot

            # Wait for what is read
            ready = now
            for location in sources:
                if locations[location] > ready:  # noqa: PLR1730 - a call of max() here makes all simulations slower
                    ready = locations[location]

            # Execute: dispatch to a port, or be done at rename
            needed = ready
            if kind == PORT or (kind == SHARED and not self._eliminates(extra & BELOW_RESULT, sources, targets, now)):
                other = extra if kind == PORT else extra & ~BELOW_RESULT
                ready = dispatch(ports, ready if ready > now else now + 1, other, free) + latency
            elif kind == NO_PORT:
                ready += latency
            elif kind == REPLAY:
                locations[targets[0]] = self._replay(ready, latency, free)
                continue
            elif kind == ROTATE:
                self._rotate(targets, latency)
                continue
            elif kind == FETCH and front is not None:
                arrived = front.fetch(self.fetched[extra], now)
                continue
            elif kind == COMMIT:
                self.committed = max(self.last_retired, self.committed + 1)
                locations[targets[0]] = self.committed + latency
                continue
            elif kind == LOAD:
                until, leaving = self._enter(ready, latency)
                if trace is not None:
                    trace.append(Moment(now, arrived, until, leaving, len(log or ())))
                if until > now:
                    now, free = self._wait(now, until, _ENDLESS), width
                continue
            elif kind == UNIT:
                complete = max(complete, self._use(targets[0], now, latency))
                continue
            elif kind == RESULT:
                complete = max(complete, self._come_in(extra, max(ready, now + 1) + latency))
                continue
            elif kind == PARTIAL:
                ready, free = dispatch(ports, max(ready, now + 1), 0, free) + latency, 0
            if shared and kind != SHARED:
                self.sharing.overwrite(targets, now)
            if trace is not None:
                trace.append(Moment(now, arrived, needed, ready, len(log or ())))
            for location in targets:
                locations[location] = ready

            # Retire the instruction when the last of its µops is complete
            if ready > complete:  # noqa: PLR1730 - likewise
                complete = ready
            if end:
                self._retire(complete if complete > now else now + 1, end)
                complete = 0
        self.cycle, self.free_slots = now, free

    def _count_slot(self, *, new: bool) -> None:
        """Take an issue slot of the group of µops that are given to schedulers together, or of a new group."""
        if new or not self.left:
            begin_group(self)
        self.left -= 1

    def _come_in(self, extra: int, ready: int) -> int:
        """Let the result of a transfer come in through a port, not before a cycle; return when it does.

        `extra` is that of its step.
        """
        port = extra >> RESULT_BITS
        if port not in self.results:
            return ready
        bit = _result_bits(port, extra)
        while self.busy.get(ready, 0) & bit:
            ready += 1
        self.busy[ready] = self.busy.get(ready, 0) | bit
        return ready

    def _wait(self, now: int, until: int, capacity: int) -> int:
        """Advance to cycle `until` at least, and until fewer than `capacity` µops wait; return the cycle reached."""
        busy, weights, bits, waiting = self.busy, self.weights, _BITS, self.waiting
        begun, entered, mask = now, now, 0
        while now < until or waiting >= capacity:
            now += 1
            if now - begun > LONG_WAIT:  # nothing happens before the next dispatch: look for it once
                begun = now = max(now, min(busy, default=until) if now >= until else min((until, *busy)))
            mask = busy.pop(now, 0)
            for port in bits[mask & PORT_BITS]:
                weights[port] -= WAITING
                waiting -= 1
        self.waiting, self.cycle = waiting, now
        if self.looks:
            self._look(mask, at_once=now == entered + 1)
        return now

    def _look(self, mask: int, *, at_once: bool) -> None:
        """Note how many µops wait for each port at the beginning of a cycle.

        One µop has just left each port of `mask`. With `at_once` µops were issued in the cycle before.
        """
        seen = [weight // WAITING for weight in self.weights]
        self.before = self.seen if at_once else [count + (mask >> port & 1) for port, count in enumerate(seen)]
        self.seen = seen
        if self.same:
            self.same = {}

    def _dispatch(self, ports: tuple[int, ...], ready: int, extra: int, free: int) -> int:
        """Bind a µop whose inputs are ready in a cycle to one of its ports; return when it dispatches.

        `extra` is that of its step: for how many cycles it keeps the divider busy (0: it does not divide), what it
        writes, and its task. It leaves `free` issue slots.
        """
        weights, busy = self.weights, self.busy
        divided = extra & BELOW_RESULT
        if divided and self.divider_free > ready:
            ready = self.divider_free
        alone = len(ports) == 1 and not self.given
        port = ports[0] if alone else self.choose(self, ports, ready, free)
        bit = 1 << port
        start = ready
        hints = self.hint_to
        if port in self.results:  # a cycle that this µop cannot use may be free for another one
            bit |= _result_bits(port, extra >> RESULT_BITS)
        elif ready < hints[port] and self.hint_from[port] <= ready:
            start, ready = self.hint_from[port], hints[port]
        taken = busy.get(ready, 0)
        while taken & bit:
            ready += 1
            taken = busy.get(ready, 0)
        busy[ready] = taken | bit
        self.last_port, self.last_cycle = port, ready
        self.hint_from[port], hints[port] = start, ready + 1
        weights[port] += WAITING
        if self.remembers:
            self.sequence = sequence = self.sequence + 1
            weights[port] += sequence - (weights[port] & LAST)
        self.waiting += 1
        cell = port + (extra >> TASK_BITS) * len(weights)
        self.counts[cell] += 1
        if divided:
            self.divider_free = ready + divided
            self.divided += divided
        if self.log is not None:
            self.log.append((ready, cell))
        return ready

    def _replay(self, ready: int, patience: int, free: int) -> int:
        """Let the last µop take its port once more for data that are `ready` in a cycle; return when it does.

        It has them at once if they come no more than `patience` cycles after its dispatch.
        """
        if ready <= self.last_cycle + patience:
            return ready
        port, log = self.last_port, self.log
        self.log = None
        ready = self._dispatch((port,), ready, 0, free)
        self.log = log
        self.counts[port] -= 1
        return ready

    def _use(self, unit: int, now: int, ticks: int) -> int:
        """Occupy a unit for some ticks as soon as it is free; return the cycle in which it is free again."""
        self.units[unit] = free = max(self.units.get(unit, 0), now * TICKS) + ticks
        return -(-free // TICKS)

    def _retire(self, complete: int, entries: int) -> None:
        """Retire an instruction with its reorder buffer entries, not before a cycle."""
        last, retiring, width = self.last_retired, self.retiring, self.parameters.retire_width
        for _ in range(entries):
            if complete > last:
                last, retiring = complete, 1
            elif retiring == width:
                last, retiring = last + 1, 1
            else:
                retiring += 1
            self.retired.append(last)
        self.last_retired, self.retiring = last, retiring

    def _eliminates(self, share: int, sources: tuple[int, ...], targets: tuple[int, ...], now: int) -> bool:
        """Whether this instance of a move is eliminated: e of n instances are (`share`), unless slots are lacking."""
        self.eliminated += share >> 8 & 0xFF
        wanted = self.eliminated >= share & 0xFF
        if wanted:
            self.eliminated -= share & 0xFF
        file = RegisterFile(share >> FILE_BITS)
        if wanted and file is not RegisterFile.NONE and self.sharing.is_limited:
            return self.sharing.move(file, sources[0], targets[0], now)
        self.sharing.overwrite(targets, now)
        return wanted

    def _merges(self, what: HighByte, places: tuple[int, ...]) -> bool:
        """Note what happens to a register and its high byte; return whether a µop has to merge them."""
        register, high = places
        if what is HighByte.APART:
            self.high_bytes[high] = register
            return False
        return self.high_bytes.pop(high, None) is not None and what is HighByte.MERGED

    def _enter(self, ready: int, latency: int) -> tuple[int, int]:
        """Take an entry of the load queue for a load whose address is `ready` in a cycle.

        Return when there is one, and when it is free again.
        """
        queue = self.parameters.load_queue
        if queue is None:
            return 0, 0
        entered = heappop(self.loads) if len(self.loads) >= queue.entries else 0
        free = max(ready, entered) + latency + queue.cycles
        if queue.in_order:
            free = self.last_load = max(free, self.last_load)
        heappush(self.loads, free)
        return entered, free

    def _rotate(self, targets: tuple[int, ...], turn: int) -> None:
        """Turn the x87 stack: what was ST(0) becomes ST(1) (turn 1), or the other way round (turn -1)."""
        values = [self.locations[location] for location in targets]
        values = values[-1:] + values[:-1] if turn == 1 else values[1:] + values[:1]
        for location, value in zip(targets, values, strict=True):
            self.locations[location] = value


def _result_bits(port: int, written: int) -> int:
    """Return the bits in a mask of `Core.busy` of what is written at a port; `written` has `Written` as lowest bits."""
    return (written & EITHER) << MOST_PORTS + EITHER.bit_length() * port


def _bits_of(mask: int) -> tuple[int, ...]:
    return tuple(port for port in range(MOST_PORTS) if mask >> port & 1)


class _Bits(dict[int, tuple[int, ...]]):
    """The ports of a mask, worked out once."""

    def __missing__(self, mask: int) -> tuple[int, ...]:
        self[mask] = _bits_of(mask)
        return self[mask]


_BITS = _Bits()


class RepeatedRun:
    """Code that is repeated after a prefix, asked for the state after increasing numbers of copies.

    More copies continue where fewer ended. Once the state repeats, only the rest of the last period is simulated. Short
    code is executed several copies at a time (a batch).
    """

    BATCH_STEPS = 16
    LONG_STEPS = 48
    """Steps of a batch of several copies, at most; and steps from which on the state is compared after each batch.

    In so long a batch, comparing takes less time than simulating one batch too many.
    """

    def __init__(self, core: Core, unit: Sequence[CoreStep]) -> None:
        """Start after the prefix, in the state of `core`, which this object owns from now on."""
        self.core, self.unit = core, [step[:] for step in unit]
        self._per_batch = max(1, self.BATCH_STEPS // max(1, len(self.unit)))
        self._batch = self.unit * self._per_batch
        self._watched = sorted({location for step in unit for location in (*step.sources, *step.targets)})
        self._settled = max(core.locations, default=0)
        self._done = 0
        self._outlines: set[tuple[object, ...]] = set()
        self._seen: dict[tuple[object, ...], tuple[int, Counts, int]] = {}
        self._period: tuple[int, Counts, int] | None = None

    @property
    def copies(self) -> int:
        """How many copies were simulated so far; fewer cannot be asked for any more."""
        return self._done * self._per_batch

    def after(self, copies: int) -> tuple[Core, Counts]:
        """Return the core after `copies` copies, and what to add to its counts for copies that were skipped.

        Raises:
            ValueError: fewer copies than were already asked for.
        """
        if copies < self.copies:
            message = "copies have to be asked for in increasing order"
            raise ValueError(message)
        batches, rest = divmod(copies, self._per_batch)
        while self._done < batches and self._period is None:
            self.core.advance(self._batch)
            self._done += 1
            self._look_for_period()
        core = self.core.copy()
        skipped = Counts(0, (0,) * len(core.counts), 0, (0, 0))
        if self._period is not None:
            length, per_period, size_bytes = self._period
            periods, left = divmod(batches - self._done, length)
            skipped = skipped.plus(per_period, periods)
            if core.front is not None:
                core.front.address += periods * size_bytes
            core.advance(self._batch * left)
        core.advance(self.unit * rest)
        return core, skipped

    def _look_for_period(self) -> None:
        core = self.core
        if core.cycle < self._settled:
            return  # the prefix is not yet done
        if len(self._batch) < self.LONG_STEPS:
            outline = core.outline()
            if outline not in self._outlines:
                self._outlines.add(outline)
                return
        state = core.state(self._watched)
        here = core.counted(core.cycle)
        address = core.front.address if core.front is not None else 0
        if state in self._seen:
            done, then, before = self._seen[state]
            self._period = (self._done - done, here.plus(then, -1), address - before)
            self._seen.clear()
            self._outlines.clear()
        else:
            self._seen[state] = (self._done, here, address)
