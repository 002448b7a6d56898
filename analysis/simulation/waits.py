"""Which instructions waited, for what, and because of which others: from the times of each µop of some iterations.

Instructions are taken in program order. SUACA shows the same of a simulated pipeline (Meerkamp, "Statically predicting
performance of basic blocks", bachelor's thesis, Saarland University 2018).

- **Front end**: cycles in which a µop could have been issued, if it had been delivered.
- **Load queue**: further cycles until there was an entry for a load. The load that kept it causes them. Where entries
  are freed in program order, that is the oldest one that was not done.
- **Buffer**: further cycles until there was an entry in the reorder buffer and in the scheduler. The instruction at the
  head of the reorder buffer causes them, if it had not yet executed.
- **Operand**: cycles from the one after issue until the last operand is ready. The instruction that made it is the
  cause; an operand that another µop of the same instruction made does not count.
- **Port**: cycles from then until dispatch. Each is caused by the instruction that had the port in that cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.simulation.results import Explanation, InstanceTimes, InstructionTimes, UopTimes, Wait
from simulator.core.steps import LOAD, PARTIAL, TRACED, HighByte

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from analysis.simulation.program import Program
    from simulator.core.core import Core, Moment
    from simulator.core.steps import CoreStep


@dataclass(slots=True)
class _Sums:
    """Sums of one instruction over iterations: µops by port, and cycles by cause."""

    ports: dict[str, int] = field(default_factory=dict)
    waits: dict[Wait, int] = field(default_factory=dict)
    caused: dict[Wait, int] = field(default_factory=dict)

    def means(self, iterations: int) -> InstructionTimes:
        """Return the means per iteration."""
        return InstructionTimes(
            {name: Fraction(count, iterations) for name, count in sorted(self.ports.items())},
            {one: Fraction(count, iterations) for one, count in self.waits.items() if count},
            {one: Fraction(count, iterations) for one, count in self.caused.items() if count},
        )


@dataclass(frozen=True, slots=True)
class _Passed:
    """An instance that was executed: its position, and the cycles in which it had executed and was retired."""

    position: int
    executed: int
    retired: int


class Watcher:
    """Executes iterations on a core, and notes what each instruction waits for."""

    def __init__(self, core: Core, program: Program, instructions: int) -> None:
        """Take a core in the state after some copies of a program, and how many instructions the block has."""
        self.core, self.program = core, program
        self.names = core.parameters.port_names
        self.sums = [_Sums() for _ in range(instructions)]
        self.made: dict[int, tuple[int, int]] = {}  # by location: when it was ready, and the instance that wrote it
        self.passed: list[_Passed] = []
        self.users: dict[tuple[int, int], int] = {}  # by cycle and port: the position of the instruction
        self.owners: dict[int, int] = {}  # by entry of the reorder buffer: the number of the instance
        self.keepers: dict[int, int] = {}  # by the cycle that frees entries of the load queue: the first instance
        self.cycle, self.used = core.cycle, core.parameters.issue_width - core.free_slots

    def watch(self, repetitions: int, most: int) -> Explanation:
        """Execute the program some times; the timeline has `most` instances at most."""
        shown: list[InstanceTimes] = []
        for repetition in range(repetitions):
            before, copy = -1, -1
            for position, steps in self.program.groups:
                copy += position <= before
                before = position
                one = self._instance(position, repetition * self.program.copies + max(0, copy), steps)
                if len(shown) < most:
                    shown.append(one)
        first = shown[0].issued if shown else 0
        iterations = repetitions * self.program.copies
        means = tuple(sums.means(iterations) for sums in self.sums)
        return Explanation(means, tuple(_moved(one, first) for one in shown))

    def _instance(self, position: int, iteration: int, steps: Sequence[CoreStep]) -> InstanceTimes:
        """Execute the steps of one instruction; return its times."""
        core, sums = self.core, self.sums[position]
        log: list[tuple[int, int]] = []
        trace: list[Moment] = []
        entry = len(core.retired) - core.parameters.reorder_buffer
        self.owners |= dict.fromkeys(range(len(core.retired), len(core.retired) + len(steps)), len(self.passed))
        core.advance(steps, log, trace)
        waited = (0, 0)
        uops: list[UopTimes] = []
        executed, logged, entered = 0, 0, 0
        for step, moment in zip([step for step in steps if _is_traced(step)], trace, strict=True):
            if step.kind == LOAD:
                entered = max(entered, moment.needed)
                self.keepers.setdefault(moment.done, len(self.passed))
                continue
            if step.slot:
                self._issued(sums, moment, entered, entry, alone=_merges(step))
                entry += 1
            executed = max(executed, moment.done)
            if moment.logged > logged:
                logged = moment.logged
                cycle, port = log[logged - 1]
                waited = max(waited, self._dispatched(position, step, moment, cycle, port), key=sum)
                ready = max(moment.needed, moment.issued + 1)
                uops.append(UopTimes(self.names[port], ready, cycle, moment.done))
            self.made |= dict.fromkeys(step.targets, (moment.done, len(self.passed)))
        _add(sums.waits, Wait.OPERAND, waited[0])
        _add(sums.waits, Wait.PORT, waited[1])
        self.passed.append(_Passed(position, executed, core.last_retired))
        first = min((one.dispatched for one in uops), default=None)
        return InstanceTimes(position, iteration, self.cycle, first, executed, core.last_retired, tuple(uops))

    def _issued(self, sums: _Sums, moment: Moment, entered: int, entry: int, *, alone: bool) -> None:
        """Note how long a µop waited for its issue, which may have a cycle `alone`.

        It had an entry of the load queue from the cycle `entered` on, and takes an `entry` of the reorder buffer.
        """
        width = self.core.parameters.issue_width
        full = self.used >= (1 if alone else width)
        possible = self.cycle + 1 if full else self.cycle
        delivered = min(max(possible, moment.arrived), moment.issued)
        _add(sums.waits, Wait.FRONT_END, delivered - possible)
        queued = min(max(possible, delivered), moment.issued)
        room = min(max(queued, entered), moment.issued)
        _add(sums.waits, Wait.LOAD_QUEUE, room - queued)
        _add(sums.waits, Wait.BUFFER, moment.issued - room)
        if room > queued:
            self._kept(entered, room - queued)
        if moment.issued > room:
            self._blocked(entry, moment.issued - room)
        self.used = width if alone else 1 if moment.issued > self.cycle else self.used + 1
        self.cycle = moment.issued

    def _kept(self, entered: int, cycles: int) -> None:
        """Blame the load that kept an entry of the load queue until a cycle."""
        number = self.keepers.get(entered)
        if number is not None and number < len(self.passed):
            _add(self.sums[self.passed[number].position].caused, Wait.LOAD_QUEUE, cycles)

    def _blocked(self, entry: int, cycles: int) -> None:
        """Blame the instruction that kept an entry of the reorder buffer: the oldest that had not executed."""
        number = self.owners.get(entry)
        if number is None or number >= len(self.passed):
            return
        while number and self.passed[number].executed < self.passed[number].retired == self.passed[number - 1].retired:
            number -= 1
        _add(self.sums[self.passed[number].position].caused, Wait.BUFFER, cycles)

    def _dispatched(self, position: int, step: CoreStep, moment: Moment, cycle: int, port: int) -> tuple[int, int]:
        """Note what a µop waited for that was dispatched in a cycle to a port; return cycles for operand and port."""
        sums = self.sums[position]
        name = self.names[port]
        sums.ports[name] = sums.ports.get(name, 0) + 1
        self.users[cycle, port] = position
        ready = max(moment.needed, moment.issued + 1)
        operand = ready - (moment.issued + 1)
        if operand:
            number = self._maker(step.sources)
            if number == len(self.passed):
                operand = 0
            elif number is not None:
                _add(self.sums[self.passed[number].position].caused, Wait.OPERAND, operand)
        for taken in range(ready, cycle):
            user = self.users.get((taken, port))
            if user is not None:
                _add(self.sums[user].caused, Wait.PORT, 1)
        return operand, cycle - ready

    def _maker(self, sources: Iterable[int]) -> int | None:
        """Return the number of the instance that made the last of some locations, None if none was seen."""
        return max([self.made[one] for one in sources if one in self.made], default=(0, None))[1]


def _merges(step: CoreStep) -> bool:
    """Whether it is a µop that merges a high byte; a program has one only where the byte is apart."""
    return step.kind == PARTIAL and step.extra == HighByte.MERGED


def _is_traced(step: CoreStep) -> bool:
    """Whether a step has a moment in a trace."""
    return step.kind in TRACED or step.kind == LOAD or _merges(step)


def _add(sums: dict[Wait, int], key: Wait, cycles: int) -> None:
    if cycles > 0:
        sums[key] = sums.get(key, 0) + cycles


def _moved(one: InstanceTimes, first: int) -> InstanceTimes:
    """Return an instance with its cycles counted from cycle `first`."""
    return InstanceTimes(
        one.position,
        one.iteration,
        one.issued - first,
        None if one.dispatched is None else one.dispatched - first,
        one.executed - first,
        one.retired - first,
        tuple(UopTimes(uop.port, uop.ready - first, uop.dispatched - first, uop.done - first) for uop in one.uops),
    )
