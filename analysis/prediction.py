"""One call from code to a prediction, which can be printed and drawn (`Tools.predict`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from analysis.block.reader import CodeReader
from analysis.bounds.components import Analyzer
from analysis.explanation import PredictionFacts
from analysis.intervals import interval_of
from analysis.report.data import json_of
from analysis.report.dot import dependency_dot
from analysis.report.drawing import dependency_svg
from analysis.report.text import lines_of
from analysis.simulation.run import Simulation
from analysis.simulation.study import Study

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from fractions import Fraction

    from analysis.bounds.components import Bounds, Running
    from analysis.explanation import MeasuredCycles, SourceLine
    from analysis.memory.environment import Environment
    from simulator.machines.machine import MachineModel
    from xed_convert.encoding.decoder import Decoder


@dataclass(frozen=True)
class Prediction:
    """How long code takes on a machine, and why; `repr` is the report of the command.

    `lines` has the source line of each instruction, or is empty. `measured` are measurements of the same code, `study`
    is its simulation (None: the bounds are the prediction). `shortest` returns the prediction with every latency that
    is an upper bound as short as it can be (None: there is none).
    """

    bounds: Bounds
    machine: MachineModel
    lines: Sequence[SourceLine | None] = ()
    measured: Sequence[MeasuredCycles] = ()
    study: Study | None = None
    shortest: Callable[[], Fraction] | None = None

    @cached_property
    def facts(self) -> PredictionFacts:
        """The prediction with all that reports say of it."""
        shortest = self.shortest if self.shortest is not None else lambda: self.exact_cycles
        interval = interval_of(self.bounds.block, self.exact_cycles, shortest)
        return PredictionFacts(self.bounds, self.machine, self.lines, self.measured, self.study, interval)

    @property
    def exact_cycles(self) -> Fraction:
        """Core cycles per iteration, as a fraction."""
        return self.bounds.cycles if self.study is None else self.study.cycles

    @property
    def cycles(self) -> float:
        """Core cycles per iteration."""
        return float(self.exact_cycles)

    @property
    def limits(self) -> list[str]:
        """What limits the code."""
        return [one.value for one in self.bounds.limits]

    def json(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return json_of(self.facts)

    def html(self, title: str = "code") -> str:
        """Return all of it as a page that needs no other file."""
        from analysis.report.page import PageSection, page_of  # noqa: PLC0415 - templates are slow to load

        return page_of([PageSection.of(self.facts)], title)

    def svg(self) -> str:
        """Return the dependency graph as SVG."""
        return dependency_svg(self.facts)

    def dot(self) -> str:
        """Return the dependency graph for Graphviz."""
        return dependency_dot(self.facts)

    def __repr__(self) -> str:
        """Write the report."""
        return "\n".join(lines_of(self.facts))


class PredictionMode(StrEnum):
    """How code is predicted: by the largest bound, or by simulating it."""

    BOUNDS = "bounds"
    SIMULATION = "simulation"


@dataclass(frozen=True)
class Tools:
    """Reads code, works out its bounds on one machine, and simulates it there."""

    machine: MachineModel
    reader: CodeReader
    analyzer: Analyzer

    @classmethod
    def of(cls, machine: MachineModel, decoder: Decoder, environment: Environment | None = None) -> Tools:
        """Prepare a machine; `environment` is what registers and memory hold in the beginning (None: anything)."""
        zero_vectors = environment is not None and environment.zero_vectors
        return cls(machine, CodeReader(machine, decoder, zero_vectors=zero_vectors), Analyzer(machine, environment))

    @cached_property
    def simulation(self) -> Simulation:
        """The simulation on this machine."""
        return Simulation(self.machine, self.reader, self.analyzer.code_offset)

    @cached_property
    def restarting(self) -> Tools:
        """The same for code whose registers hold their initial values again after each iteration."""
        environment = self.analyzer.follower.environment
        if environment is None:
            return self
        return Tools(self.machine, self.reader, Analyzer(self.machine, replace(environment, restarts=True)))

    @cached_property
    def shortest(self) -> Tools | None:
        """The same for the machine with the shortest latencies that its data allow, None if all are known exactly."""
        if self.machine.shortest is None:
            return None
        machine = self.machine.shortest()
        return Tools.of(machine, self.reader.decoder, self.analyzer.follower.environment)

    def predict(
        self,
        code: bytes,
        running: Running,
        mode: PredictionMode = PredictionMode.BOUNDS,
        taken: Container[int] = (),
    ) -> Prediction:
        """Predict how long code takes.

        Args:
            code: its bytes.
            running: as a loop, or unrolled.
            mode: by bounds or by simulation.
            taken: offsets of the ends of the forward conditional jumps that are taken.

        Raises:
            AnalysisError: the code cannot be analyzed, or cannot run like that.
        """
        bounds = self.analyzer.bounds(self.reader.block(code, taken), running)
        study = Study(self.simulation, self.analyzer.follower, bounds) if mode is PredictionMode.SIMULATION else None
        short = self.shortest
        shortest = None if short is None else lambda: short.predict(code, running, mode, taken).exact_cycles
        return Prediction(bounds, self.machine, study=study, shortest=shortest)
