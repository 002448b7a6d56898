"""How long the matrix of store forwarding takes on this CPU, and how alike several runs of it are.

python -m benchmarks.speed.forwarding --cpu 1 --runs 3
"""

from __future__ import annotations

import argparse
import time

from results.memory.model import agreement
from runner.backends.registry import open_backend
from runner.memory import MemoryPart, WantedMemory, measure_memory
from xed_convert.catalogue.catalogue import Catalogue


def main() -> None:
    """Measure the matrix several times, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", type=int, help="the logical CPU to measure on")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    catalogue = Catalogue.load()
    found = []
    for number in range(options.runs):
        backend = open_backend("tsc", cpu=options.cpu)
        begin = time.monotonic()
        report = measure_memory(backend, catalogue, WantedMemory((MemoryPart.FORWARDING,)))
        backend.close()
        assert report.forwarding is not None
        penalty = report.forwarding.penalty()
        print(f"run {number + 1}: {time.monotonic() - begin:.1f} s, penalty {float(penalty or 0):.2f} cycles")
        found.append(report.forwarding)
    alike = agreement(found)
    print(f"{alike.cases} cases, {options.runs} runs")
    print(f"within one cycle: {float(alike.within_a_cycle):.2%}")
    print(f"the same outcome: {float(alike.same_outcome):.2%}")
    print(f"median distance of the runs: {float(alike.middle_distance):.2f} cycles")


if __name__ == "__main__":
    main()
