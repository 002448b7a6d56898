"""Runs a block on the simulated core until it repeats."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.simulation.program import PAGE_CYCLES, Programs
from analysis.simulation.results import Simulated
from simulator.core.core import FETCH, Core, RepeatedRun
from simulator.core.delivery import Layout

if TYPE_CHECKING:
    from analysis.addresses import Followed
    from analysis.code import Block, Reader
    from analysis.simulation.program import Program
    from simulator.machines.machine import MachineModel, Parameters

FEW_INSTRUCTIONS, MORE_INSTRUCTIONS = 150, 300
"""Instructions after which the buffers are full, and so many more, whose time counts."""

MANY_COPIES = 1_000_000
"""More than any cache holds."""

ADD_TO_STACK = bytes.fromhex("4883c408")
"""ADD RSP, 8: the µop that brings RSP up to date is an addition."""


class Simulation:
    """Simulates blocks on one machine."""

    def __init__(self, machine: MachineModel, reader: Reader) -> None:
        """Take a machine, and what reads code for it."""
        self.parameters: Parameters = machine.parameters
        core = machine.parameters.front
        addition = reader.block(ADD_TO_STACK).items[0].compiled
        ports = [uop.ports for uop in (addition.uops if addition is not None else None) or () if uop.ports]
        every = tuple(range(len(self.parameters.ports)))
        loads = frozenset(every if core is None else map(self.parameters.ports.index, core.ports.load))
        fast = core is not None and core.memory.fast_pointer_chasing
        self.programs = Programs(ports[0] if ports else every, loads, fast=fast)

    def run(self, block: Block, followed: Followed, *, loop: bool) -> Simulated:
        """Simulate a block; instructions of which nothing is known take a place and no time."""
        program = self.programs.program(block, followed)
        steps = program.steps
        run = RepeatedRun(self._core(program, loop=loop), steps)
        instructions = len(block.items) * program.copies
        few = -(-FEW_INSTRUCTIONS // instructions)
        more = few + -(-MORE_INSTRUCTIONS // instructions)
        found = []
        for copies in (few, more):
            state, skipped = run.after(copies)
            found.append(state.totals().plus(skipped))
        first, last = found
        per = (more - few) * program.copies
        ports = zip(self.parameters.ports, first.ports, last.ports, strict=True)
        pages = sum((min(PAGE_CYCLES * one.pages, Fraction(one.accesses, 2)) for one in followed.streams), Fraction(0))
        cycles = Fraction(last.cycles - first.cycles, per) + pages
        return Simulated(cycles, {name: Fraction(b - a, per) for name, a, b in ports}, pages)

    def _core(self, program: Program, *, loop: bool) -> Core:
        """Return a drained core at the beginning of the code."""
        core = Core(self.parameters, program.locations)
        core.fetched = program.fetched
        front = self.parameters.front
        if core.front is not None and front is not None and front.uop_cache is not None:
            items = [program.fetched[step[5]] for step in program.steps if step[0] == FETCH]
            core.front.begin(Layout(items, front.uop_cache), 1 if loop else MANY_COPIES)
        return core
