"""How many inferred latencies are what the models of simulated machines say: the table of docs/latency.md.

Run `python -m benchmarks.latency_truth [--arch HSW ...] [--extensions BASE,LONGMODE | ALL] [--every N]`.

right: exact, and the model's value; bound: an upper bound, not below it; crowded: more, because µops of the instruction
delay each other on their ports when the input arrives; not told: an upper bound where the model has no dependency;
anything else is an error and listed.
"""

from __future__ import annotations

import argparse
import time

from simulator.machines.machine import names
from tests.latency_truth import Lab, compare
from xed_convert.catalogue.catalogue import Catalogue

COLUMNS = ("right", "bound", "crowded", "not told")


def main() -> None:
    """Print one row per machine."""
    parser = argparse.ArgumentParser(description="compare inferred latencies with simulated machines")
    parser.add_argument("--arch", nargs="*", default=["SNB", "HSW", "SKL", "ICX"])
    parser.add_argument("--extensions", default="BASE,LONGMODE")
    parser.add_argument("--every", type=int, default=1, help="only every n-th variant")
    options = parser.parse_args()
    unknown = [name for name in options.arch if name not in names() and not name.isdigit()]
    if unknown:
        parser.error(
            f"no such machine: {', '.join(unknown)} (known: {', '.join(names())}, or the seed of a random one)"
        )
    catalogue = Catalogue.load()
    everything = frozenset(variant.extension for variant in catalogue)
    extensions = everything if options.extensions == "ALL" else frozenset(options.extensions.split(","))
    print(f"| machine | variants | {' | '.join(COLUMNS)} | wrong | seconds |")
    print("|---|" + "---|" * (len(COLUMNS) + 3))
    for name in options.arch:
        begin = time.monotonic()
        lab = Lab(catalogue, name)
        strings = lab.variants(options.every, extensions)
        counts, wrong = compare(lab, strings)
        cells = " | ".join(str(counts[column]) for column in COLUMNS)
        print(f"| {name} | {len(strings)} | {cells} | {len(wrong)} | {time.monotonic() - begin:.0f} |", flush=True)
        for problem in wrong:
            print(f"    {problem}")


if __name__ == "__main__":
    main()
