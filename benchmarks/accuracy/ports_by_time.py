"""How many port usages of simulated machines are found again by time alone, with their counters hidden.

    python -m benchmarks.accuracy.ports_by_time HSW SKX random:1-10 --noise 1 --variants 200 --keep

Each machine is asked about the same random sample of its variants. `--keep` puts the figures into `ports_by_time.tsv`.
What is stated or named wrong is printed. A file of results, such as uops.info's, stands for the machine that is made
from it.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from inference.characterizer import CandidateCache
from results.machine.file import read_machine
from runner.backends.sim import SimBackend
from runner.cli.support.counting import Counting
from runner.verification.by_time import Verdict, run
from runner.verification.run import chosen, machines
from simulator.machines.measured import machine_of
from simulator.machines.noise import CounterNoise
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.machines.machine import MachineModel

TABLE = Path(__file__).with_name("ports_by_time.tsv")
COLUMNS = (
    "machine",
    "noise_percent",
    "variants",
    *(one.name.lower() for one in Verdict),
    "mixes",
    "mixes_near",
    "measurements",
    "seconds",
)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="+", help="HSW, random:7, random:1-20, or a file of results")
    parser.add_argument("--noise", type=int, default=1, help="percent by which all samples of a run may be off")
    parser.add_argument("--variants", type=int, default=200, help="variants of each machine (0: all)")
    parser.add_argument("--keep", action="store_true", help=f"write the figures to {TABLE.name}")
    options = parser.parse_args()
    catalogue = Catalogue.load()
    cache = CandidateCache(catalogue)
    for name, plain in _named(options.machines):
        machine = plain.with_parameters(noise=CounterNoise(job_percent=options.noise))
        variants = chosen(catalogue, machine, ["all"], 1)
        random.Random(name).shuffle(variants)
        variants = variants[: options.variants] if options.variants else variants
        begun = time.process_time()
        backend = SimBackend(machine, catalogue, hide_counters=True)
        with Counting(f"variants of {name}") as counting:
            outcome = run(backend, catalogue, variants, cache, progress=counting)
        counts = {one.name.lower(): outcome.verdicts[one] for one in Verdict}
        row = {
            "machine": name,
            "noise_percent": options.noise,
            "variants": outcome.variants,
            **counts,
            "mixes": outcome.mixes,
            "mixes_near": outcome.mixes_near,
            "measurements": f"{outcome.measurements / max(1, outcome.variants):.1f}",
            "seconds": f"{time.process_time() - begun:.0f}",
        }
        print("\t".join(f"{name}={value}" for name, value in row.items()), flush=True)
        for exception in outcome.exceptions:
            print("   ", *exception, sep="\t", flush=True)
        if options.keep:
            _keep([str(row[name]) for name in COLUMNS])


def _named(names: Sequence[str]) -> Iterator[tuple[str, MachineModel]]:
    """Yield the machines of names and files; a file's machine has the file's name."""
    for name in names:
        if Path(name).is_file():
            yield Path(name).name, machine_of(read_machine(Path(name)))
        else:
            yield from ((one.name, one) for one in machines([name]))


def _keep(row: list[str]) -> None:
    """Put a row into the table, in the place of an older one of that machine and noise."""
    old = TABLE.read_text(encoding="utf-8").splitlines()[1:] if TABLE.exists() else []
    kept = [line for line in old if line.split("\t")[:2] != row[:2]]
    with atomic_write(TABLE) as file:
        file.write("\n".join(["\t".join(COLUMNS), *sorted([*kept, "\t".join(row)]), ""]).encode())


if __name__ == "__main__":
    main()
