"""The performance monitoring unit: the counts of a program on a simulated machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.core.core import Core, RepeatedRun
from simulator.core.delivery import CodeLayout
from simulator.core.frontend import Frontend
from simulator.core.late_forms import LateForms
from simulator.core.memory import MemoryPass
from simulator.core.runs import (
    STATIC,
    Repetition,
    Run,
    Sequel,
    add,
    flat,
    has_high_bytes,
    reads,
    segments,
    values_matter,
)
from simulator.core.steps import FETCH, Numbering, steps_of
from simulator.core.streams import StreamKeys
from simulator.core.trace import Tracer
from simulator.core.values import KnownValues
from simulator.errors import SimulatedFaultError
from simulator.machines.units import UopTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simulator.core.compiler import Compiled
    from simulator.core.core import Counts
    from simulator.core.frontend import DecodesInstructions
    from simulator.core.runs import Read, Segment
    from simulator.core.steps import CoreStep
    from simulator.core.trace import Copies
    from simulator.machines.machine import MachineModel, Parameters

EventCounts = tuple[int, ...]
"""Counts of all events, in the order of `event_names`."""

Order = tuple[int, ...]
"""The ports in the order in which they were last chosen (none: as they are numbered)."""


def event_names(parameters: Parameters) -> tuple[str, ...]:
    """Return the names of all events: cycles, divider, `STATIC`, executed µops, and µops by port.

    If µops are counted by task, the last are those of every port with every task ("ALU p0").
    """
    ports = tuple(f"p{port}" for port in parameters.ports)
    tasks = [f"{task.name} " for task in UopTask] if parameters.by_task else [""]
    return (
        "core_cycles",
        "divider_active",
        *STATIC,
        "uops_executed",
        *(task + port for task in tasks for port in ports),
    )


def _event_counts(counts: Counts, static: EventCounts) -> EventCounts:
    """Return all counts; if there is a front end, its counts replace the static ones of MITE and MS."""
    if counts.front is not None:
        static = (*static[: -len(counts.front)], *counts.front)
    return (counts.cycles, counts.divider, *static, sum(counts.ports), *counts.ports)


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """The counts of a segment in total and up to each read of a counter in it, and the order of ports after it."""

    total: EventCounts
    reads: tuple[tuple[Read, EventCounts], ...]
    order: Order


@dataclass(frozen=True, slots=True)
class Readings:
    """What was read: per counter index (-1: RDTSC) and event, at the start and at the end.

    A reading is the sum of two rows: the counts before the segment of the read, and within it.
    """

    names: Mapping[str, int]
    start: Mapping[int, tuple[EventCounts, EventCounts]]
    end: Mapping[int, tuple[EventCounts, EventCounts]]

    def difference(self, index: int, event: str) -> int:
        """Return by how much an event's count grew between the two reads of a counter.

        Raises:
            SimulatedFaultError: that counter is not read at both ends.
            KeyError: there is no such event.
        """
        at = self.names[event]
        if index not in self.start or index not in self.end:
            raise SimulatedFaultError("the code did not reach the counter reads after it")
        (start, started), (end, ended) = self.start[index], self.end[index]
        return end[at] + ended[at] - start[at] - started[at]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A segment without reads: what is before its first repetition, the repeated unit, and what is behind it.

    A segment without a repetition is a unit of one copy.
    """

    before: Segment
    unit: Segment
    copies: int
    rest: Segment

    @staticmethod
    def of(segment: Segment) -> _Stretch:
        """Cut a segment."""
        for place, run in enumerate(segment):
            if isinstance(run, Repetition):
                return _Stretch(segment[:place], run.runs, run.count, segment[place + 1 :])
        return _Stretch((), segment, 1, ())


class Simulator:
    """Runs programs on a machine. Segments that were simulated before are taken from a cache.

    So are those that differ from one of these only in the numbers of locations (`simulator.core.streams`).
    """

    CACHED_SEGMENTS = 4096
    REMEMBERED_STREAMS = 1 << 16
    """Streams whose counts are kept (0: none). Each takes less than 1 kB, so all take less than 64 MB."""

    def __init__(self, machine: MachineModel, decoder: DecodesInstructions) -> None:
        """Keep the machine; the decoder turns bytes into variants."""
        self.machine = machine
        self.frontend = Frontend(machine, decoder)
        self._names = {name: number for number, name in enumerate(event_names(machine.parameters))}
        self._results: dict[tuple[Segment, Order], SegmentResult] = {}
        self._runs: dict[tuple[object, ...], RepeatedRun] = {}
        self._layouts: dict[Segment, CodeLayout] = {}
        self._numberings: dict[bool, Numbering] = {}
        self._numbering = Numbering()
        self._keys = StreamKeys()
        self._streams: dict[bytes, tuple[Counts, Order]] = {}

    @property
    def parameters(self) -> Parameters:
        """The machine's parameters."""
        return self.machine.parameters

    def run(self, data: bytes, copies: Copies | None = None) -> Readings:
        """Run a blob and return its readings of counters.

        Of several reads of a counter before the copies the last counts, and of those after them the first.

        Raises:
            SimulatedFaultError: the code faults.
            SimulatedHangError: the code does not end.
            ModelError: the machine has nothing about an instruction between the reads.
        """
        runs = Tracer(self.frontend, data, copies).run()
        if self.parameters.memory is not None:
            runs = MemoryPass(self.frontend, self.parameters.memory).resolve(runs)
        if values_matter(runs):
            runs = KnownValues(self.frontend).resolve(runs)
        if self.parameters.late_rules:
            runs = LateForms(self.frontend, self.parameters.late_rules).resolve(runs)
        trace = segments(runs)
        timed = [number for number, (part, _) in enumerate(trace) if not isinstance(part, Sequel) and reads(part)]
        now: EventCounts = (0,) * len(self._names)
        order: Order = ()
        start: dict[int, tuple[EventCounts, EventCounts]] = {}
        end: dict[int, tuple[EventCounts, EventCounts]] = {}
        for part, times in trace[timed[0] : timed[-1] + 1] if timed else []:
            if isinstance(part, Sequel) or not reads(part):
                total, order = self._repeated(part, times, order)
                now = add(now, total)
                continue
            # The ports that the harness chose are forgotten, so that results do not depend on how counters are read
            result, order = self._segment(part, ()), ()
            for read, row in result.reads:
                if not read.after and (copies is not None or read.index not in start):
                    start[read.index] = (now, row)
                elif copies is None or read.index not in end:
                    end[read.index] = (now, row)
            now = add(now, result.total, times)
        return Readings(self._names, start, end)

    def _repeated(self, part: Segment | Sequel, times: int, order: Order) -> tuple[EventCounts, Order]:
        """Simulate a part without reads several times; each time begins with the order of ports after the last one."""
        if times == 1:
            return self._once(part, order)
        totals: list[EventCounts] = [(0,) * len(self._names)]
        seen: dict[Order, int] = {}
        while len(totals) <= times and order not in seen:
            seen[order] = len(totals) - 1
            row, order = self._once(part, order)
            totals.append(add(totals[-1], row))
        done = len(totals) - 1
        if done == times:
            return totals[-1], order
        first = seen[order]
        periods, left = divmod(times - done, done - first)
        total = add(totals[-1], add(totals[-1], totals[first], -1), periods)
        return add(total, add(totals[first + left], totals[first], -1)), list(seen)[first + left]

    def _once(self, part: Segment | Sequel, order: Order) -> tuple[EventCounts, Order]:
        if not isinstance(part, Sequel):
            result = self._segment(part, order)
            return result.total, result.order
        total: EventCounts = (0,) * len(self._names)
        for inner, times in part.parts:
            row, order = self._repeated(inner, times, order)
            total = add(total, row)
        return total, order

    def _segment(self, segment: Segment, order: Order) -> SegmentResult:
        result = self._results.get((segment, order))
        if result is None:
            if len(self._results) >= self.CACHED_SEGMENTS:
                self._results.clear()
                self._runs.clear()
                self._layouts.clear()
                self._numberings.clear()
            self._numbering = self._numbering_for(segment)
            result = self._simulate_reads(segment) if reads(segment) else self._simulate(segment, order)
            self._results[segment, order] = result
        return result

    def _numbering_for(self, segment: Segment) -> Numbering:
        """Return the numbering for a segment: high bytes that are renamed separately need steps of their own."""
        apart = has_high_bytes(segment)
        if apart not in self._numberings:
            merging = self.parameters.merging if apart else ()
            self._numberings[apart] = Numbering(merging=merging, bypass=self.parameters.bypass)
        return self._numberings[apart]

    def _simulate(self, segment: Segment, order: Order) -> SegmentResult:
        """Simulate a segment without reads, if none of the same stream of steps was simulated before."""
        stretch = _Stretch.of(segment)
        steps = tuple([steps_of(flat(part), self._numbering) for part in (stretch.before, stretch.unit, stretch.rest)])
        key = self._keys.key(steps, self._numbering.fetched, stretch.copies, order)
        found = self._streams.pop(key, None)
        if found is None:
            found = self._simulate_steps(stretch, steps, order)
        self._remember(key, found)
        counts, order = found
        return SegmentResult(_event_counts(counts, _static_of(segment)), (), order)

    def _remember(self, key: bytes, found: tuple[Counts, Order]) -> None:
        """Keep what a stream took as the last to be forgotten."""
        self._streams[key] = found
        if len(self._streams) > self.REMEMBERED_STREAMS:
            del self._streams[next(iter(self._streams))]

    def _simulate_steps(
        self, stretch: _Stretch, steps: Sequence[Sequence[CoreStep]], order: Order
    ) -> tuple[Counts, Order]:
        """Simulate the steps before, in and behind a repetition, which is simulated only until its state repeats.

        A run of the same code with fewer copies is continued where it ended.
        """
        before, unit, rest = steps
        key = (*stretch.before, stretch.unit, order, self._cached(stretch, unit))
        run = self._runs.get(key)
        if run is None or run.copies > stretch.copies:
            core = self._core(order)
            core.advance(before)
            if core.front is not None:
                core.front.begin(self._layout(stretch.unit, unit), stretch.copies)
            run = self._runs[key] = RepeatedRun(core, unit)
        core, skipped = run.after(stretch.copies)
        core.locations += [0] * (len(self._numbering) - len(core.locations))
        if core.front is not None:
            core.front.end()
        core.advance(rest)
        return core.totals().plus(skipped), core.order()

    def _core(self, order: Order) -> Core:
        """Return a drained core that knows the instructions that were numbered."""
        core = Core(self.parameters, len(self._numbering), order)
        core.fetched = self._numbering.fetched
        return core

    def _layout(self, unit: Segment, steps: Sequence[CoreStep]) -> CodeLayout:
        """Return the layout of repeated code with these steps."""
        assert self.parameters.front is not None
        assert self.parameters.front.uop_cache is not None
        if unit not in self._layouts:
            items = [self._numbering.fetched[step.extra] for step in steps if step.kind == FETCH]
            self._layouts[unit] = CodeLayout(items, self.parameters.front.uop_cache)
        return self._layouts[unit]

    def _cached(self, stretch: _Stretch, steps: Sequence[CoreStep]) -> bool:
        """Whether the µop cache holds all copies of a unit with these steps (always true without a front end)."""
        return self.parameters.front is None or self._layout(stretch.unit, steps).fits(stretch.copies)

    def _simulate_reads(self, segment: Segment) -> SegmentResult:
        """Simulate a segment with reads in it, in pieces; a read counts the µops dispatched until it retires."""
        pieces = _pieces(segment)
        prepared = [steps_of(piece, self._numbering) for piece, _ in pieces]
        core = self._core(())
        log: list[tuple[int, int]] = []
        moments: list[tuple[Read, int, EventCounts]] = []
        static: EventCounts = (0,) * len(STATIC)
        for (piece, read), steps in zip(pieces, prepared, strict=True):
            core.advance(steps, log)
            static = add(static, self.frontend.run_of(tuple(piece)).static) if piece else static
            if core.front is not None:
                static = (*static[: -len(core.front.counts)], *core.front.counts)
            if read is not None:
                moments.append((read, core.last_retired, static))
        seen = tuple((read, self._until(when, log, so_far)) for read, when, so_far in moments)
        return SegmentResult(_event_counts(core.totals(), static), seen, ())

    def _until(self, when: int, log: Sequence[tuple[int, int]], static: EventCounts) -> EventCounts:
        ports = [0] * (len(self._names) - len(static) - 3)  # all names but those of cycles, divider and executed µops
        for cycle, port in log:
            ports[port] += cycle <= when
        return (when, 0, *static, sum(ports), *ports)


def _pieces(segment: Segment) -> list[tuple[list[Compiled], Read | None]]:
    """Cut a segment after each read; repetitions are written out."""
    pieces: list[tuple[list[Compiled], Read | None]] = [([], None)]
    for run in segment:
        read_at = dict(run.reads) if isinstance(run, Run) else {}
        for number, one in enumerate(run.code if isinstance(run, Run) else flat((run,))):
            pieces[-1][0].append(one)
            if number in read_at:
                pieces[-1] = (pieces[-1][0], read_at[number])
                pieces.append(([], None))
    return pieces


def _static_of(runs: Sequence[Run | Repetition]) -> EventCounts:
    total: EventCounts = (0,) * len(STATIC)
    for run in runs:
        total = add(total, run.static) if isinstance(run, Run) else add(total, _static_of(run.runs), run.count)
    return total
