"""What the core executes: steps, which compiled instructions become. Locations get numbers, pairs fuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from results.machine.graph import ModelError
from simulator.core.sharing import RegisterFile
from simulator.instructions.domains import seen_by
from simulator.instructions.locations import GENERAL, STACK, VECTORS, high_byte_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simulator.core.compiler import Compiled, LocatedUop, Location, PartialAccess
    from simulator.core.delivery import Fetched
    from simulator.instructions.transfers import Written
    from simulator.machines.bypass import BypassDelays

PORT, NO_PORT, SHARED, ROTATE, UNIT, FETCH, COMMIT, PARTIAL, LOAD, REPLAY, RESULT = range(11)
"""Kinds of steps.

- PORT, NO_PORT: a µop with ports, and one without.
- SHARED: a move that is eliminated now and then.
- ROTATE: a turn of the x87 stack.
- UNIT: the use of a unit that instances of one variant share.
- FETCH: the begin of an instruction, on a core with a front end.
- COMMIT: the commit of a store to the cache. It begins when everything before it is retired, and a cycle or more after
  the previous commit.
- PARTIAL: what happens to a high byte that is renamed separately from its register (`HighByte`).
- LOAD: a load takes an entry of the load queue. Its data are there so many cycles after its address, which it reads.
- REPLAY: the load before takes its port again if the data of a store come later than so many cycles after its dispatch.
- RESULT: the result of a transfer comes in through a port, so many cycles after what it reads is ready.
"""


class HighByte(IntEnum):
    """What a step of the kind PARTIAL does to AH, BH, CH or DH.

    It is written (APART); its register is written with it (JOINED); its register is read (MERGED). In the last case a
    µop merges both, if the high byte was written last. That µop is issued alone in its cycle (Intel 64 and IA-32
    Architectures Optimization Reference Manual, section on partial register stalls, Sandy Bridge).
    """

    APART = 0
    JOINED = 1
    MERGED = 2


TRACED = (PORT, NO_PORT, SHARED)
"""The kinds of steps that are µops. Each has a `Moment` in a trace; so has a LOAD, and a µop that merges high bytes."""

FILE_BITS = 16
"""The lowest bit of the register file in `extra`, in steps of the kind SHARED."""

RESULT_BITS = 28
"""The lowest bit of what a µop writes (`simulator.instructions.transfers.Written`) in `extra`."""

BELOW_RESULT = (1 << RESULT_BITS) - 1

TASK_BITS = 32
"""The lowest bit of the µop's task in `extra` (`simulator.machines.units`)."""


class CoreStep(NamedTuple):
    """A step of the core, by kind; locations are numbers (`Numbering`).

    - `latency`: core cycles; for UNIT the ticks for which the unit is busy, and `targets` has that unit.
    - `sources`, `targets`: the locations that it reads and writes. For PARTIAL, the sources are a register and its high
      byte.
    - `extra`: the cycles for which the divider is occupied. For SHARED it is the share that is eliminated, e of n as
      e << 8 | n, and the register file (`FILE_BITS`). For PARTIAL it is a `HighByte`. For FETCH it is the number of the
      instruction in `Core.fetched`. What a µop writes (`Written`) is in the bits from `RESULT_BITS` on, its task in
      those from `TASK_BITS` on (0: nothing is counted by task). For RESULT it is what comes in, and from `RESULT_BITS`
      on the port.
    - `slot`: issue slots, 0 or 1.
    - `retiring`: reorder buffer entries that retire with this µop, the last of its instruction (else 0).
    """

    kind: int
    ports: tuple[int, ...] = ()
    latency: int = 0
    sources: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    extra: int = 0
    slot: int = 0
    retiring: int = 0


PlainStep = tuple[int, tuple[int, ...], int, tuple[int, ...], tuple[int, ...], int, int, int]
"""The fields of a `CoreStep`. Python takes plain tuples apart in a third of the time, which counts in repeated code."""


@dataclass(slots=True)
class Numbering:
    """Gives locations their numbers in the core; µop results within an instruction have numbers too.

    `fetched` are the instructions that steps of the kind FETCH begin. `known` keeps the steps of instructions (with
    fused jumps), by the bytes that the stack has moved. `merging` are the ports of the µop that merges a high byte into
    its register ((): the code has none that is renamed separately). `bypass` are the delays between the domains of
    vectors (None: there are none).
    """

    numbers: dict[Location, int] = field(default_factory=dict)
    known: dict[tuple[Compiled, Compiled | None, int], list[CoreStep]] = field(default_factory=dict)
    fetched: list[Fetched] = field(default_factory=list)
    merging: tuple[int, ...] = ()
    bypass: BypassDelays | None = None

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return len(self.numbers)

    def of(self, location: Location) -> int:
        """Return the number of a location, a new one if need be; the x87 stack gets its eight at once."""
        if location not in self.numbers:
            for one in STACK if location in STACK else (location,):
                self.numbers[one] = len(self.numbers)
        return self.numbers[location]

    def fetch(self, item: Fetched) -> CoreStep:
        """Return the step that begins an instruction, or one and the jump that is fused with it."""
        self.fetched.append(item)
        return CoreStep(FETCH, extra=len(self.fetched) - 1)


def steps_of(instructions: Sequence[Compiled], numbering: Numbering) -> list[CoreStep]:
    """Return the core's steps for a stretch of code.

    Raises:
        ModelError: the machine has nothing about one of the instructions.
    """
    steps: list[CoreStep] = []
    offset = 0
    position = 0
    while position < len(instructions):
        one = instructions[position]
        if one.uops is None:
            raise ModelError(f"the simulated machine has nothing about {one.variant.string}")
        follower = instructions[position + 1] if position + 1 < len(instructions) else None
        fused = follower is not None and one.fuses_with(follower)
        steps += _known_steps(one, follower if fused else None, numbering, offset)
        # Instructions that write RSP otherwise restore the value that it had at the beginning
        offset = 0 if one.resets_stack else offset + (0 if fused else one.stack_change)
        position += 2 if fused else 1
    return steps


def _known_steps(one: Compiled, jump: Compiled | None, numbering: Numbering, offset: int) -> list[CoreStep]:
    """Return the steps of an instruction, fused with a jump if there is one, made when they are first needed."""
    found = numbering.known.get((one, jump, offset))
    if found is None:
        made = _instruction_steps(one, numbering, offset)
        made = _with_bypass(made, one.domain, numbering, numbering.bypass) if numbering.bypass else made
        made = made if jump is None else _fused_steps(made, jump)
        made = _with_high_bytes(made, one.partial, numbering) if numbering.merging and one.partial else made
        if one.fetched is not None:
            seen = jump.fetched if jump is not None else None
            made = [numbering.fetch(one.fetched if seen is None else one.fetched.fused_with(seen)), *made]
        found = numbering.known[one, jump, offset] = made
    return found


def _with_bypass(steps: list[CoreStep], domain: str, numbering: Numbering, bypass: BypassDelays) -> list[CoreStep]:
    """Return steps that read vectors as their domain sees them, and whose results other domains see later."""
    registers = [one for one in numbering.numbers if isinstance(one, str) and one in VECTORS]
    views = {numbering.of(one): {name: numbering.of(seen_by(name, one)) for name in bypass.names} for one in registers}
    own = domain or bypass.names[0]
    delays = [(name, bypass.between(domain, name)) for name in bypass.names if name != own]
    found: list[CoreStep] = []
    for step in steps:
        sources = tuple([views[place][own] if place in views else place for place in step.sources])
        targets = tuple([views[place][own] if place in views else place for place in step.targets])
        found.append(step._replace(sources=sources, targets=targets))
        written = [views[place] for place in step.targets if place in views]
        found += [
            CoreStep(NO_PORT, latency=cycles, sources=(seen[own],), targets=(seen[name],))
            for seen in written
            for name, cycles in delays
        ]
    return found


def _with_high_bytes(steps: list[CoreStep], partial: PartialAccess, numbering: Numbering) -> list[CoreStep]:
    """Return steps that merge high bytes before their registers are read, and note which writes separate them."""

    def step(what: HighByte, register: str) -> CoreStep:
        places = numbering.of(register), numbering.of(high_byte_of(register))
        if what is HighByte.MERGED:
            return CoreStep(PARTIAL, numbering.merging, 1, places, places, what, slot=1, retiring=1)
        return CoreStep(PARTIAL, sources=places, extra=what)

    together = {numbering.of(one): numbering.of(high_byte_of(one)) for one in partial.written}
    written = [
        one._replace(targets=(*one.targets, *(together[place] for place in one.targets if place in together)))
        for one in steps
    ]
    return [
        *(step(HighByte.MERGED, one) for one in partial.read),
        *written,
        *(step(HighByte.JOINED, one) for one in partial.written),
        *(step(HighByte.APART, one) for one in partial.high_written),
    ]


def _shifted(location: Location, offset: int) -> Location:
    """Return a location on the stack relative to RSP at the beginning of the code."""
    if offset and isinstance(location, tuple) and location[0] == "RSP":
        return (location[0], location[1], location[2], location[3] + offset)
    return location


def _numbers(locations: Iterable[Location], numbering: Numbering, offset: int) -> tuple[int, ...]:
    return tuple([numbering.of(_shifted(location, offset)) for location in locations])


def _instruction_steps(one: Compiled, numbering: Numbering, offset: int) -> list[CoreStep]:
    """Return the steps of one instruction: its unit, its µops, and the writes at its end."""
    uops = one.uops or ()
    slots = _slots(one.slots, len(uops))
    late = _late_writes(uops)
    used = {earlier for uop in uops for earlier in uop.results}.union(*late.values())
    steps: list[CoreStep] = []
    stack = _numbers(STACK, numbering, 0) if one.stack_turn else ()
    if one.unit_ticks:
        unit = numbering.of(f"unit of {one.unit or one.variant.string}")
        steps.append(CoreStep(UNIT, latency=one.unit_ticks, targets=(unit,)))
    if one.arrival is not None:
        steps.append(_arrival(one.arrival, uops, numbering, offset))
    if one.stack_turn < 0:
        steps.append(CoreStep(ROTATE, latency=1, targets=stack))
    total = sum(slots) + max(0, one.slots - len(uops))
    steps += [CoreStep(NO_PORT, slot=1)] * (total - sum(slots))
    for number, uop in enumerate(uops):
        sources = _numbers(uop.reads, numbering, offset)
        sources += tuple([numbering.of(f"uop {earlier}") for earlier in uop.results])
        targets = _numbers([location for location in uop.writes if location not in late], numbering, offset)
        if number in used:
            targets += (numbering.of(f"uop {number}"),)
        last = number == len(uops) - 1 and not late
        ports, latency = uop.ports, uop.latency
        kind = PORT if ports else NO_PORT
        extra = uop.divider_cycles
        if one.eliminated_share[0] and kind == PORT:
            kind, extra = SHARED, one.eliminated_share[0] << 8 | one.eliminated_share[1]
        elif one.uneliminated and kind == NO_PORT:
            kind, ports, latency, extra = SHARED, one.uneliminated, 1, 1 << 8 | 1
        if kind == SHARED:
            extra |= _register_file(uop) << FILE_BITS
        extra |= uop.task << TASK_BITS | uop.written << RESULT_BITS
        steps.append(CoreStep(kind, ports, latency, sources, targets, extra, slots[number], total if last else 0))
    for position, (location, writers) in enumerate(late.items(), 1):
        retiring = total if position == len(late) else 0
        sources = tuple([numbering.of(f"uop {number}") for number in writers])
        targets = _numbers((location,), numbering, offset)
        steps.append(CoreStep(NO_PORT, sources=sources, targets=targets, retiring=retiring))
    steps += [CoreStep(ROTATE, latency=-1, targets=stack)] * max(0, one.stack_turn)
    return steps


def _arrival(arrival: tuple[int, Written], uops: Sequence[LocatedUop], numbering: Numbering, offset: int) -> CoreStep:
    """Return the step by which the result of a transfer comes in."""
    port, what = arrival
    read = tuple(dict.fromkeys(place for uop in uops for place in _numbers(uop.reads, numbering, offset)))
    latency = max(uop.latency for uop in uops) - 1
    return CoreStep(RESULT, latency=latency, sources=read, extra=port << RESULT_BITS | what)


def _register_file(uop: LocatedUop) -> RegisterFile:
    """Return the register file in which a µop copies one register to another (NONE: it is no copy)."""
    places = [*uop.reads, *uop.writes]
    if (len(uop.reads), len(uop.writes)) != (1, 1) or uop.results:
        return RegisterFile.NONE
    if all(place in GENERAL for place in places):
        return RegisterFile.GENERAL
    return RegisterFile.VECTOR if all(place in VECTORS for place in places) else RegisterFile.NONE


def _late_writes(uops: Sequence[LocatedUop]) -> dict[Location, list[int]]:
    """Return the locations that are written at the instruction's end only, with the µops that write them.

    A later µop of the instruction may read the location as it was before. A location that several µops write is ready
    when all of them are done (address and data of a store).
    """
    writers: dict[Location, list[int]] = {}
    for number, uop in enumerate(uops):
        for location in uop.writes:
            writers.setdefault(location, []).append(number)
    return {
        location: numbers
        for location, numbers in writers.items()
        if len(numbers) > 1 or any(location in later.reads for later in uops[numbers[0] + 1 :])
    }


def _slots(slots: int, uops: int) -> list[int]:
    """Return the issue slots of each µop, 1 or 0: micro-fused µops share the slot of one before them."""
    given = min(slots, uops)
    return [1] * given + [0] * (uops - given)


def _fused_steps(first: Sequence[CoreStep], jump: Compiled) -> list[CoreStep]:
    """Return the steps of a macro-fused pair: the computing µop uses the jump's ports, a load stays; one slot in all.

    If the ports of the jump are not known, the µop keeps its own.
    """
    *before, last = first
    jumping = (jump.uops or ())[-1]
    pair = last._replace(latency=max(1, last.latency), extra=jumping.task << TASK_BITS, slot=0, retiring=1)
    if jumping.ports:
        pair = pair._replace(kind=PORT, ports=jumping.ports)
    steps = [*(step._replace(slot=0, retiring=0) for step in before), pair]
    steps[0] = steps[0]._replace(slot=1)
    return steps
