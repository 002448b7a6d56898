"""How far predicted cycles of blocks are from measured ones, how long that takes, and what each component is for.

    python -m benchmarks.predictions bhive-haswell.csv.xz --data HSW.uops-info.xml.xz --arch HSW --initial-state bhive

The table of blocks has columns `hex` and `cycles` (copies in a row, as BHive measures them). Blocks are divided by a
hash of their bytes. One half may be looked at while rules are made (`--half tuning`). Published figures are those of
the other half. The error of a block is |predicted - measured| / measured; τ is Kendall's, by `scipy`.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import lzma
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.stats import kendalltau

from analysis.addresses import BHIVE
from analysis.bounds import Analyzer, Component, Running
from analysis.code import Reader
from analysis.errors import AnalysisError
from analysis.machines import open_machine
from xed_convert.assembly.assembler import shipped_assembler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from analysis.bounds import Bounds


@dataclass(frozen=True, slots=True)
class Outcome:
    """A block: what was measured, and its bounds."""

    measured: float
    bounds: Bounds

    def error(self, without: Component | None = None) -> float:
        """Return the relative error, as if a component took no time."""
        return abs(self.predicted(without) - self.measured) / self.measured

    def predicted(self, without: Component | None = None) -> float:
        """Return cycles per iteration."""
        return float(max((c for one, c in self.bounds.cycles_of.items() if one is not without), default=0))


def half_of(code: str) -> str:
    """Return the half that a block belongs to."""
    return "tuning" if hashlib.sha256(code.encode()).digest()[0] % 2 == 0 else "evaluation"


def rows_of(path: Path, half: str, every: int) -> Iterator[tuple[bytes, float]]:
    """Yield code and measured cycles of every n-th block of a half ("all": of both)."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
        chosen = (row for row in csv.DictReader(file) if half in ("all", half_of(row["hex"])))
        for number, row in enumerate(chosen):
            if number % every == 0:
                yield bytes.fromhex(row["hex"]), float(row["cycles"])


def predictions(rows: Iterable[tuple[bytes, float]], reader: Reader, analyzer: Analyzer) -> Iterator[Outcome]:
    """Yield the outcome of each block; one that cannot be analyzed is named on standard error."""
    for code, measured in rows:
        try:
            yield Outcome(measured, analyzer.bounds(reader.block(code), Running.UNROLLED))
        except AnalysisError as error:
            print(f"{code.hex()}: {error}", file=sys.stderr)


def tables(found: Sequence[Outcome], seconds: float) -> Iterator[str]:
    """Yield the lines of the tables: accuracy and speed, then per component."""
    count = len(found)
    tau = kendalltau([one.predicted() for one in found], [one.measured for one in found]).statistic
    unknown = sum(bool(one.bounds.block.unknown) for one in found)
    yield "| blocks | with unknown instructions | MAPE | τ | ms per block |"
    yield "|--:|--:|--:|--:|--:|"
    error = 100 * mean(one.error() for one in found)
    yield f"| {count} | {unknown} | {error:.2f}% | {tau:.3f} | {1000 * seconds / count:.2f} |"
    yield ""
    yield "| component | limits | error there | error without it |"
    yield "|---|--:|--:|--:|"
    limiting = Counter(one.bounds.limits[0] for one in found)
    for component, times in limiting.most_common():
        there = mean(one.error() for one in found if one.bounds.limits[0] is component)
        without = mean(one.error(component) for one in found)
        yield f"| {component.value} | {100 * times / count:.1f}% | {100 * there:.2f}% | {100 * without:.2f}% |"


def mean(values: Iterable[float]) -> float:
    """Return the mean; 0 of nothing."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def main() -> None:
    """Read the options, predict, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blocks", type=Path)
    parser.add_argument("--data", type=Path, help="an instructions.xml")
    parser.add_argument("--arch", default="")
    parser.add_argument("--half", choices=("tuning", "evaluation", "all"), default="evaluation")
    parser.add_argument("--every", type=int, default=1, help="take every n-th block")
    parser.add_argument("--initial-state", choices=("any", "bhive"), default="any")
    options = parser.parse_args()
    machine = open_machine(options.arch, options.data)
    reader = Reader(machine, shipped_assembler().decoder)
    analyzer = Analyzer(machine, BHIVE if options.initial_state == "bhive" else None)
    rows = list(rows_of(options.blocks, options.half, options.every))
    started = time.process_time()
    found = list(predictions(rows, reader, analyzer))
    seconds = time.process_time() - started
    print(f"{machine.name} ({machine.origin.text}); half: {options.half}; initial state: {options.initial_state}\n")
    print("\n".join(tables(found, seconds)))


if __name__ == "__main__":
    main()
