"""Shared by `uopscope analyze` and `uopscope.analyze`: machines, and code with its source lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.block.markers import marked_code
from analysis.errors import AnalysisError
from analysis.explanation import SourceLine
from analysis.function.flow import flow_of
from analysis.function.loops import predict_loop
from analysis.machines import is_known, open_machines
from analysis.prediction import PredictionMode, Tools
from runner.host.cpu import choose, read_cpu
from runner.own_code.reading.listing import list_text
from xed_convert.assembly.assembler import shipped_assembler
from xed_convert.errors import AssemblyError, UopscopeError
from xed_convert.numbers import decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from analysis.bounds.components import Running
    from analysis.function.flow import Flow, Loop
    from analysis.function.loops import LoopPrediction
    from analysis.memory.environment import Environment
    from analysis.prediction import Prediction
    from runner.own_code.reading.listing import Listing
    from runner.own_code.reading.text import OperandSyntax
    from simulator.machines.machine import MachineModel

AUTO = "auto"
"""The loop that most likely takes the time."""

MOST_NAMES = 20
"""Names that a message lists."""


def tools_for(name: str, data: Path | None, environment: Environment | None = None) -> Tools:
    """Return what analyzes code for a CPU ("": the only one of the file, or the CPU at hand).

    `environment` is what registers and memory hold in the beginning (None: anything).

    Raises:
        UopscopeError: there is nothing about it.
    """
    return tools_of(machines_for([name], data)[0], environment)


def machines_for(names: Sequence[str], data: Path | None) -> list[MachineModel]:
    """Return the machines of some names ("": as in `tools_for`). A file is read as rarely as possible.

    Raises:
        UopscopeError: there is nothing about one of them.
    """
    return open_machines([name or ("" if data is not None else this_cpu()) for name in names], data)


def tools_of(machine: MachineModel, environment: Environment | None = None) -> Tools:
    """Return what analyzes code for a machine."""
    return Tools.of(machine, shipped_assembler().decoder, environment)


def this_cpu() -> str:
    """Return the name of the CPU at hand if something is shipped about it, else ""."""
    try:
        name = read_cpu(choose()).architecture
    except UopscopeError:
        return ""
    return name if is_known(name) else ""


@dataclass(frozen=True)
class Given:
    """Code to analyze: its bytes, where they begin in memory, what it is called, and where instructions come from.

    `labels` are the names in it that may be those of functions, by offset in bytes.
    """

    code: bytes
    name: str
    address: int = 0
    line_at: Callable[[int], SourceLine | None] = lambda _offset: None
    labels: Mapping[str, int] = field(default_factory=dict)

    def predict(self, tools: Tools, running: Running, mode: PredictionMode = PredictionMode.BOUNDS) -> Prediction:
        """Predict what it takes on one machine.

        Raises:
            AnalysisError: it cannot be analyzed, or not run like that.
        """
        found = tools.predict(self.code, running, mode)
        lines = [self.line_at(offset) for offset in found.bounds.block.offsets]
        return replace(found, lines=lines) if any(lines) else found

    def flow(self) -> Flow:
        """Return its control flow.

        Raises:
            AnalysisError: there is no instruction.
        """
        return flow_of(self.code, self.address)

    def remark(self, loop: str | None) -> str:
        """Return what a prediction of all the code, or of a `loop` in it, leaves out ("": nothing)."""
        flow = self.flow()
        if not all(map(flow.is_reached, self.labels.values())):
            taken = "all of them count as one row of instructions" if loop is None else "only loops of the first count"
            names = ", ".join(sorted(self.labels, key=self.labels.__getitem__)[:MOST_NAMES])
            return f"the code has several functions, and {taken}: --function NAME takes one of {names}"
        if loop is None and flow.loops and not flow.is_one_loop:
            many = "a loop" if len(flow.loops) == 1 else f"{len(flow.loops)} loops"
            return f"the code has {many}, and each instruction counts once: --loop auto predicts an iteration"
        return ""

    def predict_loop(
        self,
        tools: Tools,
        chosen: str,
        taken: Mapping[int, float],
        mode: PredictionMode = PredictionMode.BOUNDS,
        times: Mapping[int, int] | None = None,
    ) -> LoopPrediction:
        """Predict what a loop in it takes.

        Args:
            tools: what analyzes code on one machine.
            chosen: "auto", or the number of a loop.
            taken: how likely branches are taken, by the address behind them.
            mode: how each way through it is predicted.
            times: how often loops inside run whenever they are entered, by their numbers.

        Raises:
            AnalysisError: there is no such loop, or no branch there.
        """
        flow = self.flow()
        loop = _loop(flow, chosen)
        ends = {flow.blocks[begin].end for begin in loop.blocks}
        for address in taken:
            if address - self.address not in ends:
                raise AnalysisError(f"no block of the loop ends at {address:#x}", hint="the report lists its branches")
        offsets = {address - self.address: share for address, share in taken.items()}
        inside = flow.inside(loop)
        if others := [number for number in times or {} if number not in inside]:
            hint = f"inside are: {', '.join(map(str, inside)) or 'none'}"
            raise AnalysisError(f"--times: loop {others[0]} is not inside the chosen one", hint=hint)
        heads = {inside[number].head: count for number, count in (times or {}).items()}
        return predict_loop(
            lambda code, how, ends: tools.predict(code, how, mode, ends).facts,
            flow,
            loop,
            offsets,
            self.line_at,
            heads,
        )


def _loop(flow: Flow, chosen: str) -> Loop:
    if chosen == AUTO:
        return flow.innermost()
    number = decimal(chosen)
    if number is None:
        raise AnalysisError(f"--loop {chosen}: not a number", hint="auto, or the number of a loop in the report")
    return flow.loop_number(number)


def of_text(
    text: str,
    name: str = "",
    syntax: OperandSyntax | None = None,
    function: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Given:
    """Return the code of the region that is marked in a text, or of all of it without marks.

    Args:
        text: assembly text.
        name: the file that it is from ("": none; then lines are not shown).
        syntax: how it is written (None: AT&T if registers have percent signs).
        function: only the code from this label to the next one that is not local.
        progress: called with the statements that are done, and all.

    Raises:
        AssemblyError: a statement cannot be read or encoded; the message names file and line.
        AnalysisError: half of the marks is missing, or there is no such label.
    """
    try:
        listing = list_text(text, syntax, progress)
    except AssemblyError as error:
        raise error.of_file(name) from error
    if function is not None:
        listing = _function(listing, function)

    def line_at(offset: int) -> SourceLine | None:
        place = listing.place_at(offset)
        if place is None or not name:
            return None
        return SourceLine(name, place.line, f"{place.source[0]}:{place.source[1]}" if place.source else "")

    return Given(listing.code, function or name, 0, line_at, _functions(listing))


def _functions(listing: Listing) -> dict[str, int]:
    """Return the labels that are not local, and where they are."""
    return {label: at for label, at in listing.labels.items() if label[0] not in "._"}


def _function(listing: Listing, name: str) -> Listing:
    begin = listing.labels.get(name)
    functions = _functions(listing)
    if begin is None:
        listed = ", ".join(sorted(functions)[:MOST_NAMES]) or "no label at all"
        raise AnalysisError(f"there is no label {name!r}", hint=f"there are: {listed}")
    end = min((at for at in functions.values() if at > begin), default=len(listing.code))
    return listing.part(begin, end)


def of_bytes(code: bytes) -> Given:
    """Return the code of the region that is marked by bytes, or all of it without marks.

    Raises:
        AnalysisError: half of the marks is missing.
    """
    return Given(marked_code(code), "code")


def of_object(path: Path, function: str, *, whole: bool) -> Given:
    """Return a function of an ELF file, or the region that is marked in it by bytes.

    Args:
        path: the file.
        function: its name.
        whole: keep a RET at its end.

    Raises:
        ObjectError: the file cannot be read, or has no such function.
        AnalysisError: half of the marks is missing.
    """
    from runner.own_code.reading.debug_lines import lines_of  # noqa: PLC0415 - other code has no DWARF
    from runner.own_code.reading.objects import function_of, read_program, without_return  # noqa: PLC0415

    symbol, code = function_of(read_program(path), path, function)
    line_of = lines_of(path, symbol.address, symbol.address + len(code))
    marked = marked_code(code)
    shift = code.find(marked) if marked != code else 0

    def line_at(offset: int) -> SourceLine | None:
        line = line_of(symbol.address + shift + offset)
        return None if line is None else SourceLine(line[0], line[1], _source_text(*line))

    return Given(marked if whole else without_return(marked), function, symbol.address + shift, line_at)


LARGEST_SOURCE = 4 << 20
"""Bytes of a source file whose lines are shown."""


def _source_text(file: str, line: int) -> str:
    """Return a line of a source file, "" if there is no such file."""
    lines = _lines_of_source(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


@lru_cache(maxsize=64)
def _lines_of_source(file: str) -> tuple[str, ...]:
    path = Path(file)
    try:
        if path.stat().st_size > LARGEST_SOURCE:
            return ()
        return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())
    except (OSError, ValueError):
        return ()
