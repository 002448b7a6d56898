"""How far predicted cycles of blocks are from measured ones, how long that takes, and what each component is for.

    python -m benchmarks.predictions bhive-haswell.csv.xz --data HSW.uops-info.xml.xz --arch HSW --initial-state bhive
    python -m benchmarks.predictions bhive-haswell.csv.xz --data HSW.uops-info.xml.xz --without --every 20

The table of blocks has columns `hex` and `cycles` (copies in a row, as BHive measures them), and may have `source`.
Blocks are divided by a hash of their bytes: one half may be looked at while rules are made (`--half tuning`), the
figures to publish are those of the other half. The error of a block is |predicted - measured| / measured; τ is
Kendall's, by `scipy`. `--without` leaves out one part of the simulation at a time.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import lzma
import platform
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.stats import kendalltau

from analysis.addresses import BHIVE, Followed
from analysis.bounds import Analyzer, Component, Running
from analysis.code import Reader
from analysis.errors import AnalysisError
from analysis.machines import open_machine
from analysis.simulation.run import Simulation
from analysis.simulation.study import Study
from simulator.core.core import FETCH
from simulator.machines.machine import Binding
from xed_convert.assembly.assembler import shipped_assembler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from analysis.bounds import Bounds


@dataclass(frozen=True, slots=True)
class Row:
    """A block of the table: its code, measured cycles, and the program that it is from."""

    code: bytes
    measured: float
    source: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """A block: what was measured and predicted. Cycles are per iteration.

    `bounds` are by component, `without` is what is simulated without a part. `linked` says that a load reads from a
    store.
    """

    row: Row
    bounds: Mapping[Component, float]
    simulated: float
    linked: bool
    unknown: bool
    without: Mapping[str, float] = field(default_factory=dict)

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

    def bound_without(self, component: Component) -> float:
        """Return the prediction of the bounds as if a component took no time."""
        return max((cycles for one, cycles in self.bounds.items() if one is not component), default=0)


@dataclass(frozen=True, slots=True)
class Setting:
    """How to predict: machine, its file, the initial state, and whether parts are left out."""

    data: Path | None
    architecture: str
    bhive: bool
    without: bool


class Predictor:
    """Predicts blocks."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.machine = open_machine(setting.architecture, setting.data)
        self.reader = Reader(self.machine, shipped_assembler().decoder)
        self.analyzer = Analyzer(self.machine, BHIVE if setting.bhive else None)
        self.simulation = Simulation(self.machine, self.reader, self.analyzer.code_offset)
        self.seconds = {"bounds": 0.0, "simulation": 0.0}

    def outcome(self, row: Row) -> Outcome:
        """Predict a block."""
        begun = time.process_time()
        bounds = self.analyzer.bounds(self.reader.block(row.code), Running.UNROLLED)
        middle = time.process_time()
        study = Study(self.simulation, self.analyzer.follower, bounds)
        cycles, followed = study.cycles, study.followed
        self.seconds["bounds"] += middle - begun
        self.seconds["simulation"] += time.process_time() - middle
        return Outcome(
            row,
            {one: float(cycles) for one, cycles in bounds.cycles_of.items()},
            float(cycles),
            bool(followed.forwardings),
            bool(bounds.block.unknown),
            self.parts_left_out(bounds, followed) if self.setting.without else {},
        )

    def parts_left_out(self, bounds: Bounds, followed: Followed) -> dict[str, float]:
        """Simulate a block without one part at a time."""
        block, simulation, usual = bounds.block, self.simulation, self.simulation.parameters
        program = simulation.programs.program(block, followed)
        unfetched = program.changed(lambda _c, _p, step: None if step[0] == FETCH else step)
        alone = program.changed(lambda _c, _p, step: (*step[:3], (), *step[4:]))
        whole = replace(followed, forwardings=tuple(replace(one, whole=True) for one in followed.forwardings))
        pages = replace(followed, streams=(), far=frozenset())
        page_cycles = float(simulation.run(block, followed, loop=False).page_cycles)
        deep = replace(usual, reorder_buffer=16 * usual.reorder_buffer, scheduler=16 * usual.scheduler)
        fewest = replace(usual, binding=Binding.FEWEST_WAITING)
        changed = {
            "front end": (unfetched, replace(usual, front=None)),
            "dependencies": (alone, usual),
            "buffers of limited size": (program, deep),
            "Intel's rule of binding": (program, fewest),
        }
        found = {
            name: page_cycles + float(simulation.simulate(one, how, loop=False).cycles)
            for name, (one, how) in changed.items()
        }
        for name, other in (
            ("dependencies through memory", replace(followed, forwardings=())),
            ("failed forwarding", whole),
            ("new pages", pages),
        ):
            found[name] = float(simulation.run(block, other, loop=False).cycles)
        return found


def half_of(code: str) -> str:
    """Return the half that a block belongs to."""
    return "tuning" if hashlib.sha256(code.encode()).digest()[0] % 2 == 0 else "evaluation"


def rows_of(path: Path, half: str, every: int) -> Iterator[Row]:
    """Yield every n-th block of a half ("all": of both)."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
        chosen = (row for row in csv.DictReader(file) if half in ("all", half_of(row["hex"])))
        for number, row in enumerate(chosen):
            if number % every == 0:
                yield Row(bytes.fromhex(row["hex"]), float(row["cycles"]), row.get("source") or "")


def predict(rows: Sequence[Row], setting: Setting) -> tuple[list[Outcome], dict[str, float]]:
    """Predict blocks, and say how many CPU seconds each mode took; what cannot be analyzed is named."""
    predictor = Predictor(setting)
    found = []
    for row in rows:
        try:
            found.append(predictor.outcome(row))
        except AnalysisError as error:
            print(f"{row.code.hex()}: {error}", file=sys.stderr)
    return found, predictor.seconds


def predict_all(rows: Sequence[Row], setting: Setting, jobs: int) -> tuple[list[Outcome], dict[str, float]]:
    """Predict blocks in several processes."""
    if jobs == 1:
        return predict(rows, setting)
    parts = [rows[number::jobs] for number in range(jobs)]
    found: list[Outcome] = []
    seconds: dict[str, float] = defaultdict(float)
    with ProcessPoolExecutor(jobs) as pool:
        for outcomes, spent in pool.map(predict, parts, [setting] * jobs):
            found += outcomes
            for name, cpu in spent.items():
                seconds[name] += cpu
    return found, seconds


def tables(found: Sequence[Outcome], seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of the tables: accuracy and speed, then by what limits, by source, and without each part."""
    yield "| mode | blocks | MAPE | τ | ms per block |"
    yield "|---|--:|--:|--:|--:|"
    apart = [one for one in found if not one.linked]
    modes: dict[str, Callable[[Outcome], float]] = {
        "bounds": lambda one: one.bound,
        "simulation": lambda one: one.simulated,
    }
    for name, predicted in modes.items():
        spent = 1000 * seconds[name] / len(found)
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


def _sources(found: Sequence[Outcome]) -> Iterator[str]:
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


def _accuracy(found: Sequence[Outcome], predicted: Callable[[Outcome], float]) -> str:
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
    parser.add_argument("--jobs", type=int, default=1, help="so many processes")
    parser.add_argument("--without", action="store_true", help="also leave out one part at a time")
    options = parser.parse_args()
    setting = Setting(options.data, options.arch, options.initial_state == "bhive", options.without)
    rows = list(rows_of(options.blocks, options.half, options.every))
    found, seconds = predict_all(rows, setting, options.jobs)
    machine = open_machine(options.arch, options.data)
    print(f"{machine.name} ({machine.origin.text}); half: {options.half}; initial state: {options.initial_state}")
    print(f"CPython {platform.python_version()} on {_cpu()}\n")
    print("\n".join(tables(found, seconds)))


def _cpu() -> str:
    """Return the name of the CPU at hand."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
