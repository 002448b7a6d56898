"""What every report says: a prediction with its paths, loads, changes, source lines and measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from analysis.bounds.components import Component, Running
from analysis.bounds.front_end import predecoder_bound
from analysis.loads import loads_of
from analysis.paths import all_carried, critical_path, loop_carried
from analysis.simulation.changes import MOST_INSTRUCTIONS, faster_ways
from analysis.simulation.study import MOST_EXPLAINED
from analysis.whatif import what_ifs
from results.machine.graph import KnownShare
from results.model import PortUsage
from results.text import CERTAIN, UNKNOWN, by_time_text, counted, cycles_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.block.code import Item
    from analysis.bounds.components import Bounds
    from analysis.bounds.dependencies import Cycle
    from analysis.intervals import Interval
    from analysis.loads import PortLoads
    from analysis.paths import DependencyPath
    from analysis.simulation.study import Study
    from analysis.whatif import WhatIf
    from simulator.machines.machine import MachineModel


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an instruction comes from: a file, a line in it (from 1), and its text ("": not known)."""

    file: str
    line: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredCycles:
    """Core cycles per iteration that were measured beside those predicted for the same way of running.

    `cycles` is None if it could not be measured; `reason` says why. `spread` is half the distance from the fastest
    round to the median one. `architecture` and `cpu` are those that it was measured on, with `backend`.
    """

    running: str
    predicted: float
    cycles: float | None
    spread: float | None = None
    reason: str = ""
    architecture: str = ""
    cpu: str = ""
    backend: str = ""

    @property
    def error(self) -> float | None:
        """The prediction's error, as a share of what was measured."""
        return (self.predicted - self.cycles) / self.cycles if self.cycles else None


@dataclass(frozen=True)
class PredictionFacts:
    """A prediction and what follows from it. `lines` has an entry per instruction, or none at all.

    `study` is the simulation of the same code (None: the bounds are the prediction). `interval` says how far the data
    leave the prediction open (None: they do not).
    """

    bounds: Bounds
    machine: MachineModel
    lines: Sequence[SourceLine | None] = ()
    measured: Sequence[MeasuredCycles] = ()
    study: Study | None = None
    interval: Interval | None = None

    @property
    def cycles(self) -> Fraction:
        """The prediction: core cycles per iteration."""
        return self.bounds.cycles if self.study is None else self.study.cycles

    @cached_property
    def path(self) -> DependencyPath:
        """The critical path of one iteration."""
        return critical_path(self.bounds)

    @cached_property
    def carried(self) -> list[Cycle]:
        """The dependencies from iteration to iteration, the slowest first."""
        return loop_carried(self.bounds)

    @cached_property
    def loads(self) -> PortLoads:
        """The loads of the ports."""
        return loads_of(self.bounds)

    @cached_property
    def gains(self) -> list[WhatIf]:
        """What would make the code faster."""
        return what_ifs(self.bounds) if self.study is None else faster_ways(self.study)

    @property
    def explained(self) -> Study | None:
        """The simulation, if there are notes about each instruction."""
        return self.study if self.study is not None and self.study.is_explained else None

    @cached_property
    def left_out(self) -> list[str]:
        """What was not worked out because the block is too long, in words."""
        found = []
        if not self.bounds.searched:
            found.append("the search for the slowest dependency was given up, so there may be a slower one")
        if not all_carried(self.bounds):
            found.append("of the dependencies from iteration to iteration only the slowest is shown")
        if self.study is not None and len(self.bounds.block.items) > MOST_INSTRUCTIONS:
            found.append(
                f"what would help follows from the bounds (simulated up to {MOST_INSTRUCTIONS:,} instructions)"
            )
        if self.study is not self.explained:
            found.append(f"there are no waits and no timeline (up to {MOST_EXPLAINED:,} instructions)")
        return found

    @cached_property
    def caveats(self) -> list[str]:
        """What may make the code slower by rules that are not known, in words."""
        decoded = self._decoded_each_time
        if decoded <= self.cycles:
            return []
        some = "the loop has length-changing prefixes (an immediate of 16 bits). Some such loops are decoded each time"
        return [f"{some}; this one would take {cycles_text(decoded)} cycles or more then"]

    @property
    def _decoded_each_time(self) -> Fraction:
        """Core cycles of a loop if it came from the decoders (0: nothing keeps it there that is not simulated).

        On a Cascade Lake, loops do that have six ADD, AND, CMP, SUB or TEST without memory in a row in 32 bytes, with
        immediates of 16 bits. With NOPs between them they do not, nor do loops of what fuses with no jump.
        """
        core, bounds = self.machine.parameters.front, self.bounds
        fetched = [item.effects.fetched for item in bounds.block.items]
        may_stay = any(one is not None and one.length_changing and one.fusible for one in fetched)
        is_decoded = bounds.running is not Running.LOOP or Component.PREDECODER in bounds.cycles_of
        if core is None or core.front_end is None or is_decoded or not may_stay:
            return Fraction(0)
        found = predecoder_bound(bounds.block, core.front_end, loop=True)
        without = predecoder_bound(bounds.block, replace(core.front_end, length_changing_cycles=0), loop=True)
        return found if found > without else Fraction(0)

    @cached_property
    def port_notes(self) -> list[str]:
        """What the ports of the instructions mean where they were not counted, in words."""
        known = [item for item in self.bounds.block.items if item.known]
        alone = [item for n, item in enumerate(self.bounds.block.items) if item.known and not self.joins(n)]
        shares = [item.knowledge.ports for item in alone]
        by_time = [item for item in known if item.knowledge.by_time and item.knowledge.ports is not KnownShare.NONE]
        found = [by_time_text(port_usage(item, self.machine) for item in by_time)] if by_time else []
        if modelled := [item.knowledge.modelled for item in known if item.knowledge.modelled]:
            of = counted(len(modelled), "instruction")
            found.append(f"the measurements lack the ports of {of}, whose µops and latency are those of {modelled[0]}")
        if KnownShare.SOME in shares:
            found.append(CERTAIN)
        if missing := shares.count(KnownShare.NONE):
            of = counted(missing, "instruction")
            found.append(f"{UNKNOWN} under ports: those of {of} are not known; {UNPORTED}")
        return found

    def joins(self, position: int) -> bool:
        """Whether an instruction is a jump that is one µop with the instruction before it."""
        return position > 0 and self.bounds.block.fused[position - 1]

    def ports_text(self, position: int) -> str:
        """Return the ports of an instruction: `1*p06`, with `+?` if there may be more, `?` if unknown, `-` if none.

        A fused jump whose ports are not known has those of the instruction before it.
        """
        item = self.bounds.block.items[position]
        share = item.knowledge.ports
        if share is KnownShare.NONE:
            return "-" if item.known and self.joins(position) else UNKNOWN
        usage = str(port_usage(item, self.machine)) or "-"
        return usage if share is KnownShare.ALL else f"{usage}+{UNKNOWN}"

    @cached_property
    def on_path(self) -> set[int]:
        """The positions of the instructions on the critical path."""
        return set(self.positions(self.path.nodes))

    @cached_property
    def on_cycle(self) -> set[int]:
        """The positions of the instructions on the slowest dependency cycle."""
        cycle = self.bounds.cycle
        return set(self.positions(cycle.nodes)) if cycle is not None else set()

    def positions(self, nodes: Sequence[int]) -> list[int]:
        """Return the positions of the instructions of results, each once, in this order."""
        return list(dict.fromkeys(self.bounds.nodes[number].position for number in nodes))

    def in_order(self, cycle: Cycle) -> list[int]:
        """Return the positions of a dependency cycle's instructions, from the first one in the code on."""
        found = self.positions(cycle.nodes)
        start = found.index(min(found))
        return [*found[start:], *found[:start]]

    def line_of(self, position: int) -> SourceLine | None:
        """Return where an instruction comes from, None if that is not known."""
        return self.lines[position] if position < len(self.lines) else None


UNPORTED = "only a measured throughput counts there (of jumps nothing), and no port: the real time may be longer"
"""What unknown ports mean for a prediction."""


def port_usage(item: Item, machine: MachineModel) -> PortUsage:
    """Return the µops of an instruction by their ports."""
    names = machine.parameters.port_names
    return PortUsage(
        {
            frozenset(name for number, name in enumerate(names) if mask >> number & 1): count
            for mask, count in item.effects.port_masks
        }
    )


def latencies(item: Item) -> list[int]:
    """Return the core cycles from each register or flag that is read to each that is written, none if not known."""
    if not item.knowledge.latency:
        return []
    return [cycles for output in item.effects.outputs if output.names for _, cycles in output.waits]


def latency_text(item: Item) -> str:
    """Return the cycles between what is read and what is written, as a range."""
    if not item.knowledge.latency:
        return UNKNOWN
    found = latencies(item)
    if not found:
        return "-"
    least, most = min(found), max(found)
    return str(most) if least == most else f"{least}-{most}"
