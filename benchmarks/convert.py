"""How long conversion and loading take, and how much memory: `python benchmarks/convert.py XED_DATAFILES [--runs N]`.

Each figure is the best of N runs, each in a process of its own, so that imports count; goals are those of
docs/catalogue.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]

CONVERT = """
import sys, time
start, cpu = time.perf_counter(), time.process_time()
from pathlib import Path
from xed_convert.catalogue_xml import write_xml
from xed_convert.convert import convert
from xed_convert.datafiles import Datafiles
from xed_convert.files import atomic_write
conversion = convert(Datafiles.load(Path(sys.argv[1])))
with atomic_write(sys.argv[2]) as file:
    write_xml(conversion.variants, file)
print(time.perf_counter() - start, time.process_time() - cpu, len(conversion.variants))
"""

ONE = """
import time
start, cpu = time.perf_counter(), time.process_time()
from xed_convert.catalogue import Catalogue
found = Catalogue.load().find("ADC_GPRv_GPRv_11")
print(time.perf_counter() - start, time.process_time() - cpu, len(found))
"""

ALL = """
import time
start, cpu = time.perf_counter(), time.process_time()
from xed_convert.catalogue import Catalogue
variants = list(Catalogue.load())
print(time.perf_counter() - start, time.process_time() - cpu, len(variants))
"""

MEMORY = "\nimport resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def run(code: str, *arguments: str) -> tuple[float, float, int, int]:
    """Run code in a process of its own; return wall and CPU time in seconds, its count, its peak memory in KiB."""
    command = [sys.executable, "-c", code + MEMORY, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT)
    first, memory = done.stdout.strip().splitlines()
    wall, cpu, count = first.split()
    return float(wall), float(cpu), int(count), int(memory)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datafiles")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    target = "/dev/shm/uopscope-benchmark.xml" if Path("/dev/shm").is_dir() else "uopscope-benchmark.xml"  # noqa: S108
    cases = {
        "datafiles to XML": (CONVERT, (str(Path(options.datafiles).resolve()), target), "3 s, 500 MB"),
        "one iform of the shipped catalogue": (ONE, (), "0.05 s"),
        "all of the shipped catalogue": (ALL, (), "1 s"),
    }
    print(f"{'what':36} {'wall s':>7} {'CPU s':>7} {'MB':>5} {'variants':>9}  goal")
    for name, (code, arguments, goal) in cases.items():
        results = [run(code, *arguments) for _ in range(options.runs)]
        wall, cpu = min(result[0] for result in results), min(result[1] for result in results)
        memory, count = max(result[3] for result in results), results[0][2]
        print(f"{name:36} {wall:7.3f} {cpu:7.3f} {memory / 1024:5.0f} {count:9}  {goal}")
    Path(target).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
