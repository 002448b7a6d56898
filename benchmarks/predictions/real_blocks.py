"""Blocks of real programs, measured on the CPU at hand, beside predictions: ours, llvm-mca's, OSACA's.

    uopscope blocks /usr/bin/git -o git.csv                      # and of other programs
    python -m benchmarks.predictions.real_blocks sample *.csv --count 5000 > blocks.csv
    uopscope measure --blocks blocks.csv --modes unrolled,loop --csv measured.csv
    python -m benchmarks.predictions.real_blocks compare blocks.csv measured.csv --arch ZEN4 --llvm znver4 --osaca zen4

The error of a block is |predicted - measured| / measured; τ is Kendall's, by `scipy`. Registers and memory begin as the
measurement sets them, which only ours knows. llvm-mca (the newest that is installed) runs each block 100 and 300 times,
and the difference counts. OSACA's prediction is the larger of its throughput and its longest loop-carried dependency. A
tool is judged by the blocks that it can read; `common` are those that all can. Instructions that OSACA does not know
count as nothing there. `--half` takes one of the halves of `benchmarks.predictions.error`.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iced_x86 import Decoder, Formatter, FormatterSyntax
from scipy.stats import kendalltau

from analysis.aarch64.llvm import program
from analysis.memory.environment import MEASURED
from analysis.prediction import PredictionMode as Prediction
from benchmarks.predictions.error import half_of
from runner.own_code.analyzing.analyzed import tools_for
from runner.own_code.analyzing.beside import predict_copies
from runner.own_code.blocks import BlockMode
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LONGEST = 400
"""Bytes of a block; longer ones are rare, and OSACA takes minutes for them."""
REGIONS = 500
"""Blocks that llvm-mca reads at a time."""
ITERATIONS = (100, 300)
"""Of llvm-mca: the difference leaves out what the first and the last iteration take longer."""
MODES = tuple(one.value for one in BlockMode)
Predicted = dict[str, float]
"""Core cycles per iteration by block (in hexadecimal)."""


@dataclass(frozen=True, slots=True)
class MeasuredBlock:
    """A block: its code in hexadecimal, the program that it is from, and core cycles measured by mode."""

    code: str
    source: str
    measured: dict[str, float]


def sample(paths: Sequence[Path], count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield code and program of blocks drawn at random, the same number from each program, none twice."""
    source = random.Random(seed)
    seen: set[str] = set()
    for number, path in enumerate(paths):
        with path.open() as file:
            codes = [row["hex"] for row in csv.DictReader(file) if len(row["hex"]) <= 2 * LONGEST]
        source.shuffle(codes)
        fresh = [code for code in codes if code not in seen]
        chosen = fresh[: count * (number + 1) // len(paths) - count * number // len(paths)]
        seen |= set(chosen)
        yield from ((code, path.stem) for code in chosen)


def blocks_of(blocks: Path, measured: Path) -> list[MeasuredBlock]:
    """Return the blocks with what was measured; those without any number are left out."""
    with blocks.open() as file:
        sources = {row["hex"]: row["source"] for row in csv.DictReader(file)}
    found = []
    with measured.open() as file:
        for row in csv.DictReader(file):
            cycles = {mode: float(row[f"{mode}_cycles"]) for mode in MODES if row.get(f"{mode}_cycles")}
            if cycles and row["hex"] in sources:
                found.append(MeasuredBlock(row["hex"], sources[row["hex"]], cycles))
    return found


def text_of(code: str) -> str:
    """Return a block in AT&T syntax, as iced-x86 writes it."""
    formatter = Formatter(FormatterSyntax.GAS)
    formatter.show_branch_size = False
    return "".join(f"\t{formatter.format(one)}\n" for one in Decoder(64, bytes.fromhex(code)))


def ours(architecture: str, data: Path | None, mode: str, how: Prediction) -> Callable[[Sequence[str]], Predicted]:
    """Return what predicts blocks by our bounds or simulation."""
    tools = tools_for(architecture, data, MEASURED)

    def predict(codes: Sequence[str]) -> Predicted:
        found = {}
        for code in codes:
            try:
                found[code] = predict_copies(bytes.fromhex(code), BlockMode(mode), tools, how)
            except UopscopeError as error:
                print(f"{code}: {error}", file=sys.stderr)
        return found

    return predict


def llvm(cpu: str) -> Callable[[Sequence[str]], Predicted]:
    """Return what predicts blocks by llvm-mca."""

    def predict(codes: Sequence[str]) -> Predicted:
        found: Predicted = {}
        for start in range(0, len(codes), REGIONS):
            found |= _regions(codes[start : start + REGIONS], cpu)
        return found

    return predict


def _regions(codes: Sequence[str], cpu: str) -> Predicted:
    """Ask about blocks; if any of them cannot be read, about each half."""
    text = "".join(f"# LLVM-MCA-BEGIN {n}\n{text_of(code)}# LLVM-MCA-END {n}\n" for n, code in enumerate(codes))
    command = [program("llvm-mca"), "-mtriple=x86_64", f"-mcpu={cpu}", "--json", "-"]
    totals = []
    for iterations in ITERATIONS:
        run = [*command, f"-iterations={iterations}"]
        done = subprocess.run(run, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            middle = len(codes) // 2
            return _regions(codes[:middle], cpu) | _regions(codes[middle:], cpu) if middle else {}
        regions = json.loads(done.stdout)["CodeRegions"]
        totals.append({codes[int(one["Name"])]: one["SummaryView"]["TotalCycles"] for one in regions})
    few, many = totals
    return {code: (cycles - few[code]) / (ITERATIONS[1] - ITERATIONS[0]) for code, cycles in many.items()}


def osaca(cpu: str, jobs: int) -> Callable[[Sequence[str]], Predicted]:
    """Return what predicts blocks by OSACA, in `jobs` processes."""

    def predict(codes: Sequence[str]) -> Predicted:
        with ProcessPoolExecutor(max_workers=jobs) as pool:
            parts = pool.map(_osaca, [(cpu, codes[start::jobs]) for start in range(jobs)])
            return {code: cycles for part in parts for code, cycles in part.items()}

    return predict


def _osaca(task: tuple[str, Sequence[str]]) -> Predicted:
    from osaca.osaca import get_asm_parser  # type: ignore[import-untyped] # noqa: PLC0415 - a benchmark without it works
    from osaca.semantics import ArchSemantics, KernelDG, MachineModel  # type: ignore[import-untyped] # noqa: PLC0415

    cpu, codes = task
    model = MachineModel(arch=cpu)
    parser = get_asm_parser(cpu, "ATT")
    semantics = ArchSemantics(parser, model)
    found: Predicted = {}
    for code in codes:
        try:
            kernel = parser.parse_file(text_of(code))
            semantics.normalize_instruction_forms(kernel)
            semantics.add_semantics(kernel)
            semantics.assign_optimal_throughput(kernel)
            graph = KernelDG(kernel, parser, model, semantics, timeout=10)
            carried = [one["latency"] for one in graph.get_loopcarried_dependencies().values()]
            found[code] = float(max([*semantics.get_throughput_sum(kernel), *carried, 0.0]))
        except Exception as error:  # noqa: BLE001 - whatever it cannot read is left out
            print(f"osaca: {code}: {type(error).__name__}: {error}", file=sys.stderr)
    return found


def row(name: str, mode: str, blocks: Sequence[MeasuredBlock], predicted: Predicted) -> str:
    """Return a row of the table: how many blocks, error, τ."""
    pairs = [(predicted[one.code], one.measured[mode]) for one in blocks if one.code in predicted]
    if not pairs:
        return f"| {name} | {mode} | 0 | | |"
    error = sum(abs(one - other) / other for one, other in pairs) / len(pairs)
    tau = kendalltau([one for one, _ in pairs], [other for _, other in pairs]).statistic
    return f"| {name} | {mode} | {len(pairs)} | {100 * error:.1f}% | {tau:.3f} |"


def compare(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the tables."""
    found = blocks_of(options.blocks, options.measured)
    everything = [one for one in found if options.half in ("all", half_of(one.code))][:: options.every]
    for mode in MODES:
        blocks = [one for one in everything if mode in one.measured]
        codes = [one.code for one in blocks]
        tools = {f"uopscope, {how.value}": ours(options.arch, options.data, mode, how) for how in Prediction}
        if mode == "unrolled":
            tools |= {f"llvm-mca {options.llvm}": llvm(options.llvm)} if options.llvm else {}
            tools |= {f"OSACA {options.osaca}": osaca(options.osaca, options.jobs)} if options.osaca else {}
        answers: dict[str, Predicted] = {}
        seconds: dict[str, float] = {}
        for name, predict in tools.items():
            started = time.monotonic()
            answers[name] = predict(codes)
            seconds[name] = time.monotonic() - started
        yield "| tool | mode | blocks | MAPE | τ |"
        yield "|---|---|--:|--:|--:|"
        yield from (row(name, mode, blocks, predicted) for name, predicted in answers.items())
        common = [one for one in blocks if all(one.code in predicted for predicted in answers.values())]
        if len(answers) > 1:
            yield from (row(f"{name}, common", mode, common, predicted) for name, predicted in answers.items())
        for source in sorted({one.source for one in blocks}):
            part = [one for one in blocks if one.source == source]
            yield from (row(f"{name}, {source}", mode, part, predicted) for name, predicted in answers.items())
        yield ""
        yield ", ".join(
            f"{name}: {1000 * taken / max(1, len(codes)):.1f} ms per block" for name, taken in seconds.items()
        )
        yield ""


def written(rows: Iterable[tuple[str, str]]) -> str:
    """Return blocks as a table."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("hex", "source"), *rows])
    return text.getvalue()


def main() -> None:
    """Sample blocks, or compare predictions with measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("sample")
    drawing.add_argument("tables", type=Path, nargs="+")
    drawing.add_argument("--count", type=int, default=5000)
    drawing.add_argument("--seed", type=int, default=1)
    comparing = commands.add_parser("compare")
    comparing.add_argument("blocks", type=Path)
    comparing.add_argument("measured", type=Path)
    comparing.add_argument("--arch", default="")
    comparing.add_argument("--data", type=Path, help="an instructions.xml (none: what is shipped)")
    comparing.add_argument("--llvm", default="", help="llvm-mca's name of the CPU")
    comparing.add_argument("--osaca", default="", help="OSACA's name of the CPU")
    comparing.add_argument("--half", choices=("tuning", "evaluation", "all"), default="all")
    comparing.add_argument("--every", type=int, default=1, help="take every n-th block")
    comparing.add_argument("--jobs", type=int, default=2, help="processes for OSACA")
    options = parser.parse_args()
    if options.command == "sample":
        print(written(sample(options.tables, options.count, options.seed)), end="")
    else:
        print("\n".join(compare(options)))


if __name__ == "__main__":
    main()
