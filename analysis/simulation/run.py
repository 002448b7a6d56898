"""Runs a block on the simulated core until it repeats, or with notes about each instance."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.simulation.program import PAGE_CYCLES, Programs
from analysis.simulation.results import Explanation, Instance, Simulated
from analysis.simulation.waits import Watcher
from simulator.core.core import FETCH, Core, RepeatedRun
from simulator.core.delivery import Layout
from simulator.machines.machine import Binding

if TYPE_CHECKING:
    from analysis.addresses import Followed
    from analysis.code import Block, Reader
    from analysis.simulation.program import Program
    from simulator.machines.machine import MachineModel, Parameters

FEW_INSTRUCTIONS, MORE_INSTRUCTIONS = 150, 300
"""Instructions after which the buffers are full, and so many more, whose time counts."""

WATCHED_INSTRUCTIONS = 400
"""Instructions of which there are notes: means over fewer would depend on where they begin."""

SHOWN_INSTRUCTIONS = 24
"""Instructions that a timeline has, but always whole iterations."""

MOST_SHOWN = 500
"""Instances that it has at most: of longer blocks it shows the beginning of one iteration."""

MANY_COPIES = 1_000_000
"""More than any cache holds."""

ADD_TO_STACK = bytes.fromhex("4883c408")
"""ADD RSP, 8: the µop that brings RSP up to date is an addition."""


class Simulation:
    """Simulates blocks on one machine."""

    def __init__(self, machine: MachineModel, reader: Reader, code_offset: int = 0) -> None:
        """Take a machine, what reads code for it, and how far behind a multiple of 16 bytes copies in a row begin."""
        self.code_offset = code_offset
        core = machine.parameters.front
        alternating = bool(machine.parameters.alternating)
        published = machine.with_parameters(binding=Binding.INTEL) if alternating else machine
        self.parameters: Parameters = published.parameters
        addition = reader.block(ADD_TO_STACK).items[0].compiled
        ports = [uop.ports for uop in (addition.uops if addition is not None else None) or () if uop.ports]
        every = tuple(range(len(self.parameters.ports)))
        loads = frozenset(every if core is None else map(self.parameters.ports.index, core.ports.load))
        fast = core is not None and core.memory.fast_pointer_chasing
        self.programs = Programs(ports[0] if ports else every, loads, fast=fast, fetches=core is not None)

    def run(self, block: Block, followed: Followed, *, loop: bool) -> Simulated:
        """Simulate a block; instructions of which nothing is known take a place and no time."""
        found = self.simulate(self.programs.program(block, followed), self.parameters, loop=loop)
        pages = page_cycles(followed)
        return Simulated(found.cycles + pages, found.ports, found.iterations, pages)

    def simulate(self, program: Program, parameters: Parameters, *, loop: bool) -> Simulated:
        """Simulate a program on a core, which may be another one than that of the machine."""
        steps = program.steps
        run = RepeatedRun(self._core(program, parameters, loop=loop), steps)
        few = -(-FEW_INSTRUCTIONS // max(1, len(program.groups)))
        more = few + -(-MORE_INSTRUCTIONS // max(1, len(program.groups)))
        found = []
        for copies in (few, more):
            state, skipped = run.after(copies)
            found.append(state.totals().plus(skipped))
        first, last = found
        per = (more - few) * program.copies
        ports = zip(self.parameters.port_names, first.ports, last.ports, strict=True)
        return Simulated(
            Fraction(last.cycles - first.cycles, per), {name: Fraction(b - a, per) for name, a, b in ports}, per
        )

    def explain(self, block: Block, followed: Followed, *, loop: bool) -> Explanation:
        """Say what happens to each instruction: first from a drained core on, then as a mean once buffers are full."""
        program = self.programs.program(block, followed)
        core = self._core(program, self.parameters, loop=loop)
        steps, count = program.steps, max(1, len(program.groups))
        begun = Watcher(core, program, len(block.items)).watch(-(-SHOWN_INSTRUCTIONS // count), MOST_SHOWN)
        for _ in range(-(-FEW_INSTRUCTIONS // count)):
            core.advance(steps)
        settled = Watcher(core, program, len(block.items)).watch(-(-WATCHED_INSTRUCTIONS // count), 0)
        return Explanation(settled.lines, begun.timeline)

    def _core(self, program: Program, parameters: Parameters, *, loop: bool) -> Core:
        """Return a drained core at the beginning of the code."""
        core = Core(parameters, program.locations)
        core.fetched = program.fetched
        if core.front is not None and parameters.front is not None and parameters.front.uop_cache is not None:
            items = [program.fetched[step[5]] for step in program.steps if step[0] == FETCH]
            layout = Layout(items, parameters.front.uop_cache)
            core.front.begin(layout, 1 if loop else MANY_COPIES, 0 if loop else self.code_offset)
        return core

    def steady(self, block: Block, followed: Followed, *, loop: bool) -> tuple[Instance, ...]:
        """Return instances of whole iterations once buffers are full, in program order."""
        program = self.programs.program(block, followed)
        core = self._core(program, self.parameters, loop=loop)
        count = max(1, len(program.groups))
        for _ in range(-(-FEW_INSTRUCTIONS // count)):
            core.advance(program.steps)
        watcher, copies = Watcher(core, program, len(block.items)), -(-WATCHED_INSTRUCTIONS // count)
        return watcher.watch(copies, copies * count).timeline


def page_cycles(followed: Followed) -> Fraction:
    """Return the core cycles per iteration for pages that streams of addresses come to.

    What is accessed until the page is known begins anew: two accesses are lost per cycle.
    """
    return sum((min(PAGE_CYCLES * one.pages, Fraction(one.accesses, 2)) for one in followed.streams), Fraction(0))
