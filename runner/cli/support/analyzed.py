"""Carries out `uopscope analyze`: predictions, measurements beside them, and every kind of report."""

from __future__ import annotations

import sys
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from analysis.errors import AnalysisError
from analysis.memory.environment import BHIVE, MEASURED
from analysis.report.compiler import loop_messages, messages_of
from analysis.report.data import json_pieces
from analysis.report.dot import dependency_dot, flow_dot
from analysis.report.drawing import dependency_svg, flow_svg
from analysis.report.flow import loop_json, loop_lines
from analysis.report.page import PageSection, page_of
from analysis.report.text import lines_of, side_by_side
from runner.cli.support.counting import Counting, reading
from runner.cli.support.own_code import write_pieces, write_text
from runner.own_code.analyzing.analyzed import machines_for, tools_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from analysis.bounds.components import Running
    from analysis.explanation import PredictionFacts
    from analysis.function.loops import LoopPrediction
    from analysis.prediction import Prediction, PredictionMode
    from runner.own_code.analyzing.analyzed import Given
    from simulator.machines.machine import MachineModel


PARTS = 4
"""Of an analysis: bounds, simulation, explanation, reports."""


@dataclass(frozen=True)
class AnalyzeOptions:
    """The options: CPUs, their data, how the code runs and is predicted, its loop, measuring, the reports."""

    architectures: Sequence[str]
    data: Path | None
    running: Running
    mode: PredictionMode
    bhive: bool
    loop: str | None
    taken: Mapping[int, float]
    times: Mapping[int, int]
    measure: bool
    cpu: int | None
    format: str
    json_file: str | None
    html_file: str | None
    svg_file: str | None
    dot_file: str | None
    graph: str


@dataclass(frozen=True)
class CpuPrediction:
    """What was predicted for one CPU; `loop`, for a loop of a function, has the mean of its ways, too."""

    facts: PredictionFacts
    loop: LoopPrediction | None

    @property
    def section(self) -> PageSection:
        """What the page says of it."""
        return PageSection.of(self.facts) if self.loop is None else PageSection.of_loop(self.loop)

    def json(self, name: str) -> PredictionFacts | dict[str, Any]:
        """Return what becomes its JSON."""
        return self.facts if self.loop is None else loop_json(self.loop, name)

    def text(self, name: str) -> str:
        """Return it as text."""
        return "\n".join(lines_of(self.facts) if self.loop is None else loop_lines(self.loop, name))

    def messages(self, name: str) -> Iterator[str]:
        """Yield it as messages of a compiler."""
        yield from messages_of(self.facts, name) if self.loop is None else loop_messages(self.loop, name)


def write_reports(given: Given, wanted: AnalyzeOptions) -> None:
    """Predict, measure if that is wanted, and write all reports."""
    with reading(str(wanted.data or "the shipped measurements")):
        machines = machines_for(wanted.architectures, wanted.data)
    found = [_predict(given, wanted, machine) for machine in machines]
    if remark := given.remark(wanted.loop):
        with suppress(BrokenPipeError):  # reports count for more than a note that nobody reads
            print(f"note: {remark}", file=sys.stderr)
    if wanted.measure:
        found = _measured(found, machines, given, wanted.cpu)
    first, title = found[0], given.name or "code"
    write_pieces(wanted.json_file, lambda: json_pieces([one.json(title) for one in found]))
    write_text(wanted.html_file, lambda: page_of([one.section for one in found], title, first.loop))
    write_text(wanted.svg_file, lambda: _svg(first, wanted.graph, title))
    write_text(wanted.dot_file, lambda: _dot(first, wanted.graph))
    if "-" in (wanted.json_file, wanted.html_file, wanted.svg_file, wanted.dot_file):
        return
    if wanted.format == "compiler":
        print("\n".join(line for one in found for line in one.messages(title)))
        return
    if len(found) > 1:
        rows = [(one.facts.machine.name, one.section.cycles, one.section.means) for one in found]
        print("\n".join(side_by_side(rows)) + "\n")
    print("\n\n".join(one.text(title) for one in found))


def _predict(given: Given, wanted: AnalyzeOptions, machine: MachineModel) -> CpuPrediction:
    tools = tools_of(machine, BHIVE if wanted.bhive else None)
    if wanted.loop is None:
        return CpuPrediction(_worked_out(given.predict(tools, wanted.running, wanted.mode)), None)
    loop = given.predict_loop(tools, wanted.loop, wanted.taken, wanted.mode, wanted.times)
    return CpuPrediction(loop.facts[0], loop)


def _worked_out(prediction: Prediction) -> PredictionFacts:
    """Return the facts of a prediction; for long code they take a while, so progress is shown."""
    with Counting("parts of the analysis") as counting:
        counting(1, PARTS)
        facts = prediction.facts
        counting(2, PARTS)
        if facts.explained is not None:
            _ = facts.explained.explanation
        counting(3, PARTS)
    return facts


def _measured(
    found: Sequence[CpuPrediction], machines: Sequence[MachineModel], given: Given, cpu: int | None
) -> list[CpuPrediction]:
    """Return the predictions with what was measured beside."""
    from runner.backends.registry import open_backend  # noqa: PLC0415 - only measuring needs backends
    from runner.own_code.analyzing.beside import beside, measure_code, without_jumps  # noqa: PLC0415

    code = given.code
    if found[0].loop is not None:
        if len(found[0].loop.ways) > 1 or not found[0].loop.loop.is_innermost:
            message = "a loop with several ways or with loops inside cannot be measured"
            raise AnalysisError(message, hint="leave out --measure")
        code = found[0].loop.flow.code_of(found[0].loop.ways[0].blocks)
    if not without_jumps(code):
        raise AnalysisError("without its jumps nothing of the code is left to be measured", hint="leave out --measure")
    with closing(open_backend("auto", cpu=cpu)) as backend:
        timings = measure_code(code, backend)
        where = backend.info().provenance
    made = []
    for one, machine in zip(found, machines, strict=True):
        rows = beside(code, timings, tools_of(machine, MEASURED), where)
        facts = replace(one.facts, measured=rows)
        made.append(CpuPrediction(facts, one.loop and replace(one.loop, facts=[facts])))
    return made


def _svg(found: CpuPrediction, graph: str, title: str) -> str:
    if graph == "flow" and found.loop is not None:
        return flow_svg(found.loop.flow, f"Control flow of {title}")
    return dependency_svg(found.facts)


def _dot(found: CpuPrediction, graph: str) -> str:
    if graph == "flow" and found.loop is not None:
        return flow_dot(found.loop.flow)
    return dependency_dot(found.facts)
