"""How long conversion and loading take, and how much memory.

    python -m benchmarks.speed.convert XED_DATAFILES [--runs N]

Conversion is the whole command, from the start of its process to the end. Loading counts imports, but not the start of
Python. Each figure is the best of N runs, each in a process of its own; goals are those of docs/catalogue.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]

LOAD = """
import resource, time
start, cpu = time.perf_counter(), time.process_time()
from xed_convert.catalogue.catalogue import Catalogue
catalogue = Catalogue.load()
found = {}
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
print(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, len(found))
"""


class ConversionRun(NamedTuple):
    """What one run took."""

    wall_seconds: float
    cpu_seconds: float
    megabytes: float
    variants: int


def convert(datafiles: Path, target: Path) -> ConversionRun:
    """Run `uopscope convert`."""
    arguments = ["-m", "runner.cli.uopscope", "convert", str(datafiles), "-o", str(target), "--quiet"]
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments], cwd=CHECKOUT) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"the command failed with {process.returncode}")
    with target.open("rb") as file:
        variants = sum(line.startswith(b"    <instruction ") for line in file)
    return ConversionRun(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, variants)


def load(expression: str) -> ConversionRun:
    """Load what an expression takes out of the shipped catalogue."""
    command = [sys.executable, "-c", LOAD.format(expression)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT)
    wall, cpu, megabytes, variants = done.stdout.split()
    return ConversionRun(float(wall), float(cpu), float(megabytes), int(variants))


def report(name: str, goal: str, runs: list[ConversionRun]) -> None:
    """Print a line: the best times and the most memory."""
    wall, cpu = min(run.wall_seconds for run in runs), min(run.cpu_seconds for run in runs)
    megabytes = max(run.megabytes for run in runs)
    print(f"{name:36} {wall:7.3f} {cpu:7.3f} {megabytes:5.0f} {runs[0].variants:9}  {goal}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datafiles", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    times = range(options.runs)
    print(f"{'what':36} {'wall s':>7} {'CPU s':>7} {'MB':>5} {'variants':>9}  goal")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "instructions.xml")
        report("datafiles to XML", "3 s, 500 MB", [convert(options.datafiles.resolve(), target) for _ in times])
    one = "catalogue.find('ADC_GPRv_GPRv_11')"
    report("one iform of the shipped catalogue", "0.05 s", [load(one) for _ in times])
    report("all of the shipped catalogue", "1 s", [load("list(catalogue)") for _ in times])


if __name__ == "__main__":
    main()
