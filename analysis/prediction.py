"""One call from code to a prediction that shows itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from analysis.addresses import BHIVE
from analysis.bounds import Analyzer
from analysis.code import Reader
from analysis.explanation import Facts
from analysis.report.data import json_of
from analysis.report.dot import dependency_dot
from analysis.report.drawing import dependency_svg
from analysis.report.text import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.bounds import Bounds, Running
    from analysis.explanation import Measured, SourceLine
    from simulator.machines.machine import MachineModel
    from xed_convert.encoding.decoder import Decoder


@dataclass(frozen=True)
class Prediction:
    """What code takes on a machine, and why; as text it is the report of the command.

    `lines` has where each instruction comes from, or nothing. `measured` is what was measured beside.
    """

    bounds: Bounds
    machine: MachineModel
    lines: Sequence[SourceLine | None] = ()
    measured: Sequence[Measured] = ()

    @cached_property
    def facts(self) -> Facts:
        """All that reports say."""
        return Facts(self.bounds, self.machine, self.lines, self.measured)

    @property
    def cycles(self) -> float:
        """Core cycles per iteration."""
        return float(self.bounds.cycles)

    @property
    def limits(self) -> list[str]:
        """What limits the code."""
        return [one.value for one in self.bounds.limits]

    def json(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return json_of(self.facts)

    def html(self, title: str = "code") -> str:
        """Return all of it as a page that needs no other file."""
        from analysis.report.page import Section, page_of  # noqa: PLC0415 - templates are slow to load

        return page_of([Section.of(self.facts)], title)

    def svg(self) -> str:
        """Return the dependency graph as SVG."""
        return dependency_svg(self.facts)

    def dot(self) -> str:
        """Return the dependency graph for Graphviz."""
        return dependency_dot(self.facts)

    def __repr__(self) -> str:
        """Write the report."""
        return "\n".join(lines_of(self.facts))


@dataclass(frozen=True, slots=True)
class Tools:
    """What reads code and works out its bounds on one machine."""

    machine: MachineModel
    reader: Reader
    analyzer: Analyzer

    @classmethod
    def of(cls, machine: MachineModel, decoder: Decoder, *, bhive: bool = False) -> Tools:
        """Prepare a machine; with `bhive`, registers and memory begin as BHive sets them."""
        return cls(machine, Reader(machine, decoder), Analyzer(machine, BHIVE if bhive else None))

    def predict(self, code: bytes, running: Running) -> Prediction:
        """Predict what code takes.

        Raises:
            AnalysisError: it cannot be analyzed, or not run like that.
        """
        return Prediction(self.analyzer.bounds(self.reader.block(code), running), self.machine)
