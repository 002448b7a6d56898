"""Simulates a block until its timing repeats, or with notes about each instance."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.simulation.program import Programs
from analysis.simulation.results import Explanation, InstanceTimes, Simulated
from analysis.simulation.waits import Watcher
from simulator.core.core import Core, ReadyLocations, RepeatedRun
from simulator.core.delivery import CodeLayout
from simulator.core.steps import FETCH
from simulator.instructions.locations import VECTORS
from simulator.machines.machine import PortSchedulers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.block.code import Block
    from analysis.block.reader import CodeReader
    from analysis.memory.addresses import Followed
    from analysis.simulation.program import Program
    from results.machine.constants import CoreConstants
    from simulator.core.core import Counts
    from simulator.machines.machine import MachineModel, Parameters

FEW_INSTRUCTIONS, MORE_INSTRUCTIONS = 150, 150
"""Instructions until the buffers of a Haswell are full, and instructions after them whose time counts."""

QUEUE_INSTRUCTIONS = 400
"""Instructions that are simulated once more, and then those whose time counts, if the load queue is nearly full."""

NEARLY_FULL = Fraction(9, 10)
"""Share of the load queue's entries. A queue with fewer loads has room for all that follow."""

HASWELL_ENTRIES = 192
"""Entries of the reorder buffer of a Haswell. A larger one takes more instructions to fill."""

WATCHED_INSTRUCTIONS = 400
"""Instructions with notes: means over fewer would depend on where they begin."""

SHOWN_INSTRUCTIONS = 24
"""Instructions in a timeline, rounded up to whole iterations."""

MOST_SHOWN = 500
"""Instances in a timeline at most: of longer blocks it shows the beginning of one iteration."""

MANY_COPIES = 1_000_000
"""Copies in a row: more than any cache holds."""

ADD_TO_STACK = bytes.fromhex("4883c408")
"""ADD RSP, 8: the µop that brings RSP up to date is an addition."""


class Simulation:
    """Simulates blocks on one machine."""

    def __init__(self, machine: MachineModel, reader: CodeReader, code_offset: int = 0) -> None:
        """Take a machine and its code reader; copies in a row begin `code_offset` bytes after a multiple of 16."""
        self.code_offset = code_offset
        core = machine.parameters.front
        alternating = bool(machine.parameters.alternating)
        rule = machine.parameters.published
        published = machine.with_parameters(binding=rule) if alternating else machine
        pipeline = (core.elimination.cycles, core.elimination.all_overwritten) if core is not None else None
        queue = core.load_queue if core is not None else None
        self.parameters: Parameters = replace(
            published.parameters,
            pipeline=pipeline,
            load_queue=queue,
            whole_groups=alternating,
            schedulers=_schedulers_of(core, published.parameters.port_names),
            results=_results_of(core, published.parameters.port_names),
        )
        addition = reader.block(ADD_TO_STACK).items[0].compiled
        ports = [uop.ports for uop in (addition.uops if addition is not None else None) or () if uop.ports]
        every = tuple(range(len(self.parameters.ports)))
        self.vector_cycles = 0 if core is None else core.memory.vector_cycles
        self.interruptible_pairs = core is not None and core.fusion.interruptible
        loads = frozenset(every if core is None else map(self.parameters.ports.index, core.ports.load))
        self._filling = FEW_INSTRUCTIONS * max(HASWELL_ENTRIES, self.parameters.reorder_buffer) // HASWELL_ENTRIES
        self.programs = Programs(ports[0] if ports else every, loads, core, machine.parameters.merging)

    def run(self, block: Block, followed: Followed) -> Simulated:
        """Simulate a block; unknown instructions take a slot and no time.

        Args:
            block: the code.
            followed: what came out of following its addresses, with the way in which it runs.
        """
        program = self.programs.program(block, followed)
        found = self.simulate(program, self.parameters)
        pages = page_cycles(followed, self.programs.page_cycles)
        return Simulated(found.cycles + pages, found.ports, found.iterations, pages)

    def simulate(self, program: Program, parameters: Parameters, *, independent: bool = False) -> Simulated:
        """Simulate a program on a core, which may be another one than that of the machine.

        In an `independent` program no µop waits for a value, but moves are eliminated as usual.
        """
        core = self._core(program, parameters)
        if independent:
            core.locations = ReadyLocations(core.locations)
        run = RepeatedRun(core, program.steps)
        groups = max(1, len(program.groups))
        few = -(-self._filling // groups)
        more = few + -(-MORE_INSTRUCTIONS // groups)
        first, last = _totals(run, few, more)
        if run.core.queued_loads > NEARLY_FULL:
            longer = -(-QUEUE_INSTRUCTIONS // groups)
            few, more = more + longer, more + 2 * longer
            first, last = _totals(run, few, more)
        per = (more - few) * program.copies
        ports = zip(self.parameters.port_names, first.ports, last.ports, strict=True)
        return Simulated(
            Fraction(last.cycles - first.cycles, per), {name: Fraction(b - a, per) for name, a, b in ports}, per
        )

    def explain(self, block: Block, followed: Followed) -> Explanation:
        """Return what happens to each instruction: a timeline from an empty core on, means once buffers are full."""
        program = self.programs.program(block, followed)
        core = self._core(program, self.parameters)
        steps, count = program.steps, max(1, len(program.groups))
        begun = Watcher(core, program, len(block.items)).watch(-(-SHOWN_INSTRUCTIONS // count), MOST_SHOWN)
        for _ in range(-(-self._filling // count)):
            core.advance(steps)
        settled = Watcher(core, program, len(block.items)).watch(-(-WATCHED_INSTRUCTIONS // count), 0)
        return Explanation(settled.instructions, begun.timeline)

    def _core(self, program: Program, parameters: Parameters) -> Core:
        """Return an empty core at the beginning of the code, which is that of a cache line for a loop."""
        core = Core(parameters, program.locations)
        core.fetched = program.fetched
        if core.front is not None and parameters.front is not None and parameters.front.uop_cache is not None:
            items = [program.fetched[step.extra] for step in program.steps if step.kind == FETCH]
            layout = CodeLayout(items, parameters.front.uop_cache)
            core.front.begin(layout, program.loop_copies or MANY_COPIES, 0 if program.loop_copies else self.code_offset)
        return core

    def steady(self, block: Block, followed: Followed) -> tuple[InstanceTimes, ...]:
        """Return instances of whole iterations once buffers are full, in program order.

        The loop begins after an interrupt, on an empty core. There vectors are ready later, by as many cycles as a load
        of a vector takes longer. So of two chains of equal length, the one through vectors stays behind.
        """
        self.programs.program(block, followed)  # numbers what the block uses before the vectors are numbered
        vectors = [self.programs.number_of(name) for name in sorted(VECTORS)]
        program = self.programs.program(block, followed)
        core = self._core(program, self.parameters)
        for number in vectors:
            core.locations[number] = self.vector_cycles
        count = max(1, len(program.groups))
        for _ in range(-(-self._filling // count)):
            core.advance(program.steps)
        watcher, copies = Watcher(core, program, len(block.items)), -(-WATCHED_INSTRUCTIONS // count)
        return watcher.watch(copies, copies * count).timeline


def _totals(run: RepeatedRun, few: int, more: int) -> tuple[Counts, Counts]:
    """Return what has happened after fewer and after more copies."""
    first, last = (state.totals().plus(skipped) for state, skipped in map(run.after, (few, more)))
    return first, last


def _schedulers_of(core: CoreConstants | None, names: Sequence[str]) -> PortSchedulers | None:
    """Return the schedulers that µops are given to in groups, if the machine has ports of these names."""
    known = core.integer_schedulers if core is not None else None
    if core is None or known is None or not set(names).issuperset(name for ports in known.ports for name in ports):
        return None
    each = [tuple(map(names.index, ports)) for ports in known.ports]
    mates = {port: ports for ports in each for port in ports}
    computing = frozenset(ports[0] for ports in each)
    return PortSchedulers(mates, computing, known.per_group, known.step, core.back_end.issue_width)


def _results_of(core: CoreConstants | None, names: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the ports through which results of transfers come in."""
    if core is None or core.transfers is None:
        return frozenset()
    return frozenset(names.index(name) for name in (core.transfers.port, core.transfers.apart_port) if name in names)


def page_cycles(followed: Followed, each: int) -> Fraction:
    """Return the core cycles per iteration for new pages that streams of addresses reach, at `each` cycles a page.

    Accesses before the page is known begin anew: two accesses are lost per cycle.
    """
    return sum((min(each * one.pages, Fraction(one.accesses, 2)) for one in followed.reached.streams), Fraction(0))
