"""How far predicted cycles of blocks are from measured ones, how long that takes, and what each component is for.

    python -m benchmarks.predictions.error bhive-haswell.csv.xz --data HSW.uops-info.xml.xz --initial-state bhive
    python -m benchmarks.predictions.error bhive-haswell.csv.xz --data HSW.uops-info.xml.xz --without --every 20

The table of blocks has columns `hex` and `cycles` (copies in a row, as BHive measures them), and may have `source`. A
hash of their bytes divides the blocks into two halves. One may be looked at while rules are made (`--half tuning`);
published figures are those of the other half. The error of a block is |predicted - measured| / measured; τ is
Kendall's, by `scipy`. `--without` leaves out one part of the simulation at a time. With `--keep FILE` each predicted
block becomes a line of JSON in a file, and blocks that the file has are not predicted again. Other code, another
machine or another initial state needs another file.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import lzma
import platform
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.stats import kendalltau

from analysis.block.reader import CodeReader
from analysis.bounds.components import Analyzer, Component, Running
from analysis.errors import AnalysisError
from analysis.machines import open_machine
from analysis.memory.environment import BHIVE
from analysis.memory.pages import NOTHING
from analysis.simulation.run import Simulation
from analysis.simulation.study import Study
from simulator.core.steps import FETCH
from simulator.machines.machine import Binding
from xed_convert.assembly.assembler import shipped_assembler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from analysis.bounds.components import Bounds
    from analysis.memory.addresses import Followed


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block of the table: its code, measured cycles, and the program that it is from."""

    code: bytes
    measured: float
    source: str


@dataclass(frozen=True, slots=True)
class PredictedBlock:
    """A block: what was measured and predicted. Cycles are per iteration.

    `bounds` are by component, `without` is what is simulated without a part, `seconds` is CPU time by mode. `linked`
    says that a load reads from a store.
    """

    row: BlockRow
    bounds: Mapping[Component, float]
    simulated: float
    linked: bool
    unknown: bool
    without: Mapping[str, float]
    seconds: Mapping[str, float]

    @property
    def bound(self) -> float:
        """The largest bound."""
        return max(self.bounds.values(), default=0)

    @property
    def limit(self) -> Component:
        """The component with the largest bound."""
        return max(self.bounds, key=self.bounds.__getitem__)

    def error(self, predicted: float) -> float:
        """Return the relative error of a prediction."""
        return abs(predicted - self.row.measured) / self.row.measured

    @classmethod
    def kept(cls, line: str) -> PredictedBlock:
        """Return what `line` wrote."""
        found = json.loads(line)
        row = BlockRow(bytes.fromhex(found.pop("hex")), found.pop("measured"), found.pop("source"))
        bounds = {Component(name): cycles for name, cycles in found.pop("bounds").items()}
        return cls(row, bounds, **found)

    @property
    def line(self) -> str:
        """All of it as a line of JSON."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "row"}
        row = {"hex": self.row.code.hex(), "measured": self.row.measured, "source": self.row.source}
        return json.dumps(row | found) + "\n"

    def bound_without(self, component: Component) -> float:
        """Return the prediction of the bounds as if a component took no time."""
        return max((cycles for one, cycles in self.bounds.items() if one is not component), default=0)


@dataclass(frozen=True, slots=True)
class Setting:
    """How to predict: machine, its file, the initial state, whether parts are left out, and where outcomes are kept."""

    data: Path | None
    architecture: str
    bhive: bool
    without: bool
    keep: Path | None = None


class Predictor:
    """Predicts blocks."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.machine = open_machine(setting.architecture, setting.data)
        self.reader = CodeReader(self.machine, shipped_assembler().decoder)
        self.analyzer = Analyzer(self.machine, BHIVE if setting.bhive else None)
        self.simulation = Simulation(self.machine, self.reader, self.analyzer.code_offset)

    def outcome(self, row: BlockRow) -> PredictedBlock:
        """Predict a block."""
        begun = time.process_time()
        bounds = self.analyzer.bounds(self.reader.block(row.code), Running.UNROLLED)
        middle = time.process_time()
        study = Study(self.simulation, self.analyzer.follower, bounds)
        cycles, followed = study.cycles, study.followed
        seconds = {"bounds": middle - begun, "simulation": time.process_time() - middle}
        return PredictedBlock(
            row,
            {one: float(cycles) for one, cycles in bounds.cycles_of.items()},
            float(cycles),
            bool(followed.forwardings),
            bool(bounds.block.unknown),
            self.parts_left_out(bounds, followed) if self.setting.without else {},
            seconds,
        )

    def parts_left_out(self, bounds: Bounds, followed: Followed) -> dict[str, float]:
        """Simulate a block without one part at a time."""
        block, simulation, usual = bounds.block, self.simulation, self.simulation.parameters
        program = simulation.programs.program(block, followed)
        unfetched = program.changed(lambda _c, _p, step: None if step.kind == FETCH else step)
        whole = replace(followed, forwardings=tuple(replace(one, whole=True) for one in followed.forwardings))
        pages = replace(followed, reached=NOTHING)
        page_cycles = float(simulation.run(block, followed).page_cycles)
        deep = replace(usual, reorder_buffer=16 * usual.reorder_buffer, scheduler=16 * usual.scheduler, load_queue=None)
        fewest = replace(usual, binding=Binding.FEWEST_WAITING)
        changed = {
            "front end": (unfetched, replace(usual, front=None)),
            "buffers of limited size": (program, deep),
            "Intel's rule of binding": (program, fewest),
        }
        found = {
            name: page_cycles + float(simulation.simulate(one, how).cycles) for name, (one, how) in changed.items()
        }
        alone = simulation.simulate(program, usual, independent=True)
        found["dependencies"] = page_cycles + float(alone.cycles)
        for name, other in (
            ("dependencies through memory", replace(followed, forwardings=())),
            ("failed forwarding", whole),
            ("new pages", pages),
        ):
            found[name] = float(simulation.run(block, other).cycles)
        return found


def half_of(code: str) -> str:
    """Return the half that a block belongs to."""
    return "tuning" if hashlib.sha256(code.encode()).digest()[0] % 2 == 0 else "evaluation"


def rows_of(path: Path, half: str, every: int) -> Iterator[BlockRow]:
    """Yield every n-th block of a half ("all": of both)."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
        chosen = (row for row in csv.DictReader(file) if half in ("all", half_of(row["hex"])))
        for number, row in enumerate(chosen):
            if number % every == 0:
                yield BlockRow(bytes.fromhex(row["hex"]), float(row["cycles"]), row.get("source") or "")


def predict(rows: Sequence[BlockRow], setting: Setting) -> list[PredictedBlock]:
    """Predict blocks; what cannot be analyzed is named."""
    predictor = Predictor(setting)
    found = []
    for row in rows:
        try:
            outcome = predictor.outcome(row)
        except AnalysisError as error:
            print(f"{row.code.hex()}: {error}", file=sys.stderr)
            continue
        found.append(outcome)
        if setting.keep is not None:
            with setting.keep.open("a") as file:  # opened anew: processes append whole lines to one file
                file.write(outcome.line)
    return found


def predict_all(rows: Sequence[BlockRow], setting: Setting, jobs: int) -> list[PredictedBlock]:
    """Predict blocks in several processes, but those that were kept."""
    chosen, kept = {row.code for row in rows}, kept_in(setting.keep)
    found = [one for code, one in kept.items() if code in chosen]
    left = [row for row in rows if row.code not in kept]
    if jobs == 1 or not left:
        return found + predict(left, setting)
    with ProcessPoolExecutor(jobs) as pool:
        for outcomes in pool.map(predict, [left[number::jobs] for number in range(jobs)], [setting] * jobs):
            found += outcomes
    return found


def kept_in(path: Path | None) -> dict[bytes, PredictedBlock]:
    """Return the outcomes that a file has, by code; a last line that was not written to its end does not count."""
    if path is None or not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return {one.row.code: one for one in map(PredictedBlock.kept, whole.splitlines())}


def tables(found: Sequence[PredictedBlock]) -> Iterator[str]:
    """Yield the lines of the tables: accuracy and speed, then by what limits, by source, and without each part."""
    yield "| mode | blocks | MAPE | τ | ms per block |"
    yield "|---|--:|--:|--:|--:|"
    apart = [one for one in found if not one.linked]
    modes: dict[str, Callable[[PredictedBlock], float]] = {
        "bounds": lambda one: one.bound,
        "simulation": lambda one: one.simulated,
    }
    for name, predicted in modes.items():
        spent = 1000 * sum(one.seconds[name] for one in found) / len(found)
        yield f"| {name} | {_accuracy(found, predicted)} | {spent:.2f} |"
        yield f"| {name}, no load reads from a store | {_accuracy(apart, predicted)} | |"
    yield ""
    yield f"{sum(one.unknown for one in found)} blocks have instructions of which nothing is known."
    yield ""
    yield "| component | limits | simulated, error there | bounds, error there | bounds, error without it |"
    yield "|---|--:|--:|--:|--:|"
    limiting = Counter(one.limit for one in found)
    for component, times in limiting.most_common():
        there = [one for one in found if one.limit is component]
        without = _mean(one.error(one.bound_without(component)) for one in found)
        simulated, bounds = (_mean(one.error(modes[name](one)) for one in there) for name in ("simulation", "bounds"))
        yield f"| {component.value} | {_percent(times / len(found))} | {simulated} | {bounds} | {without} |"
    yield from _sources(found)
    names = list(found[0].without) if found else []
    if names:
        yield ""
        yield "| part | simulated, error without it |"
        yield "|---|--:|"
        yield from (f"| {name} | {_mean(one.error(one.without[name]) for one in found)} |" for name in names)


def _sources(found: Sequence[PredictedBlock]) -> Iterator[str]:
    """Yield the table by source, where the blocks name theirs."""
    if not any(one.row.source for one in found):
        return
    yield ""
    yield "| source | blocks | simulated | bounds |"
    yield "|---|--:|--:|--:|"
    for source in sorted({one.row.source for one in found}):
        there = [one for one in found if one.row.source == source]
        simulated, bounds = (
            _mean(one.error(one.simulated) for one in there),
            _mean(one.error(one.bound) for one in there),
        )
        yield f"| {source} | {len(there)} | {simulated} | {bounds} |"


def _accuracy(found: Sequence[PredictedBlock], predicted: Callable[[PredictedBlock], float]) -> str:
    """Return cells with the number of blocks, their mean error, and τ."""
    if len(found) < 2:
        return f"{len(found)} | - | -"
    tau = kendalltau([predicted(one) for one in found], [one.row.measured for one in found]).statistic
    return f"{len(found)} | {_mean(one.error(predicted(one)) for one in found)} | {tau:.3f}"


def _mean(errors: Iterable[float]) -> str:
    listed = list(errors)
    return _percent(sum(listed) / len(listed)) if listed else "-"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def main() -> None:
    """Read the options, predict, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blocks", type=Path)
    parser.add_argument("--data", type=Path, help="an instructions.xml")
    parser.add_argument("--arch", default="")
    parser.add_argument("--half", choices=("tuning", "evaluation", "all"), default="evaluation")
    parser.add_argument("--every", type=int, default=1, help="take every n-th block")
    parser.add_argument("--initial-state", choices=("any", "bhive"), default="bhive")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--without", action="store_true", help="also leave out one part at a time")
    parser.add_argument("--keep", type=Path, help="a file for the outcome of each block; go on where it ends")
    options = parser.parse_args()
    setting = Setting(options.data, options.arch, options.initial_state == "bhive", options.without, options.keep)
    rows = list(rows_of(options.blocks, options.half, options.every))
    found = predict_all(rows, setting, options.jobs)
    if not found:
        parser.error(f"{options.blocks}: no block of it was predicted (half: {options.half}, every {options.every})")
    machine = open_machine(options.arch, options.data)
    print(f"{machine.name} ({machine.origin.text}); half: {options.half}; initial state: {options.initial_state}")
    print(f"CPython {platform.python_version()} on {_cpu()}\n")
    print("\n".join(tables(found)))


def _cpu() -> str:
    """Return the name of the CPU at hand."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
