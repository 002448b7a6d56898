"""Counters by execution unit: they count µops with certain tasks, on certain ports.

Some cores have no counter per port. They count by execution unit (Lion Cove), or on the pipes of one kind only (the
integer ports of small cores, the floating-point pipes of AMD's). `models/units.tsv` says what these counters count on a
simulated core. A simulated µop has one task, its `UopTask`:

- `LOAD`, `STORE_ADDRESS`, `STORE_DATA`: as the model says;
- `VECTOR`: computations of instructions with a vector, mask or x87 register;
- `JUMP`: those of branches, `SHIFT`: of shifts and rotations;
- `SLOW`: other computations of more than a cycle, `ALU`: of one.

Vendors document no more than "execution unit". So these rules are invented; tests with them show that inference finds
them again.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from enum import IntEnum
from importlib import resources
from typing import TYPE_CHECKING

from results.machine.graph import UopKind
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from results.machine.graph import Uop
    from simulator.machines.machine import Parameters
    from xed_convert.model import InstructionVariant

VECTORS = ("XMM", "YMM", "ZMM", "MM", "ST", "K")
"""Beginnings of the names of registers that only vector and floating-point units use."""

SHIFTS = ("SHIFT", "ROTATE")
BRANCHES = ("COND_BR", "UNCOND_BR", "CALL", "RET")
"""Categories of instructions."""

ANYWHERE = "*"
"""The place of a counter that counts on all ports."""


class UopTask(IntEnum):
    """What a µop does."""

    ALU = 0
    SHIFT = 1
    JUMP = 2
    SLOW = 3
    VECTOR = 4
    LOAD = 5
    STORE_ADDRESS = 6
    STORE_DATA = 7


OF_MEMORY = {
    UopKind.LOAD: UopTask.LOAD,
    UopKind.STORE_ADDRESS: UopTask.STORE_ADDRESS,
    UopKind.STORE_DATA: UopTask.STORE_DATA,
}


@dataclass(frozen=True, slots=True)
class UnitCounter:
    """A counter of µops with some tasks; `place` is the number of a computing port, from 0 on (None: any port)."""

    name: str
    tasks: frozenset[UopTask]
    place: int | None

    def ports(self, parameters: Parameters) -> str:
        """Return the ports whose µops it counts on a machine: none, if the machine has fewer computing ports."""
        if self.place is None:
            return parameters.ports
        return parameters.computing[self.place : self.place + 1]

    def counts(self, task: UopTask, ports: frozenset[str], parameters: Parameters) -> bool:
        """Whether a µop that may use these ports can be counted."""
        return task in self.tasks and bool(ports & set(self.ports(parameters)))


def task_of(variant: InstructionVariant, uop: Uop) -> UopTask:
    """Return the task of a µop of a variant."""
    if uop.kind in OF_MEMORY:
        return OF_MEMORY[uop.kind]
    names = [o.registers[0] for o in variant.operands if o.kind is OperandKind.REGISTER and o.registers]
    if any(name.startswith(VECTORS) for name in names):
        return UopTask.VECTOR
    if variant.category in BRANCHES:
        return UopTask.JUMP
    if variant.category in SHIFTS:
        return UopTask.SHIFT
    return UopTask.SLOW if uop.latency > 1 else UopTask.ALU


def unit_counters(core: str) -> tuple[UnitCounter, ...]:
    """Return the counters of a core that count by unit, or on some ports only (none: it has no such counters)."""
    return _table().get(core, ())


@functools.cache
def _table() -> dict[str, tuple[UnitCounter, ...]]:
    text = resources.files("simulator").joinpath("models/units.tsv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    found: dict[str, tuple[UnitCounter, ...]] = {}
    for row in csv.DictReader(lines, delimiter="\t"):
        tasks = frozenset(UopTask[name] for name in row["tasks"].split(","))
        place = None if row["place"] == ANYWHERE else int(row["place"])
        for core in row["cores"].split(","):
            found[core] = (*found.get(core, ()), UnitCounter(row["counter"], tasks, place))
    return found
