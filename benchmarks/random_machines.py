"""Inference on machines drawn at random: `python -m benchmarks.random_machines [--kind hidden] --seeds 1-200`.

Each seed is another machine (4 to 12 ports, µop graphs of its own, often ports that share a counter, sometimes noise).
As many variants of all extensions are characterized as `--variants` says, other ones for each seed, and compared
with the truth; the columns are those of `runner.verification.report`. A seed whose row is in the table is not done
again, so a run that was stopped goes on where it was. What was not found again is appended to `--exceptions`.

The last column, `ports_lost`, has those of the usages that are not stated that the counters could tell
(`runner.verification.tellable`). So the last line says which share of all usages that could be told are right.

`--kind` takes machines of a kind of `simulator.machines.random_shape.KINDS`, or of several ("hidden+intel"); each
kind has a table of its own, `random_machines.KIND.tsv`.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from generator.exclusions import excluded
from inference.characterizer import CandidateCache
from runner.backends.sim import open_machine
from runner.verification.report import COLUMNS, Report
from runner.verification.run import run
from simulator.machines.random_shape import KINDS
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.machines.machine import MachineModel
    from xed_convert.model import InstructionVariant

ALL_COLUMNS = (*COLUMNS, "ports_lost")

TABLE = Path(__file__).with_name("random_machines.tsv")
STRIDE = 7919
"""A prime: steps of this size go through all variants, and soon through all extensions."""


def sample(
    measurable: Sequence[InstructionVariant], machine: MachineModel, seed: int, count: int
) -> list[InstructionVariant]:
    """Return so many variants that the machine has, spread over all of them, other ones for each seed."""
    places = ((seed * count + number) * STRIDE % len(measurable) for number in range(len(measurable)))
    has = (measurable[place] for place in places if machine.behaviour(measurable[place]) is not None)
    return list(islice(has, count))


def rows(path: Path) -> dict[str, str]:
    """Return the lines of the table by machine."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    lines = [line for line in lines if len(line.split("\t")) == len(ALL_COLUMNS)]  # others are of another version
    return {line.partition("\t")[0]: line for line in lines}


def write(path: Path, lines: dict[str, str]) -> None:
    """Replace the table."""
    ordered = sorted(lines.values(), key=lambda line: int(line.partition("\t")[0].rpartition(":")[2]))
    with atomic_write(path) as file:
        file.write("\n".join(["\t".join(ALL_COLUMNS), *ordered, ""]).encode())


def total(lines: dict[str, str]) -> str:
    """Return the sums over all machines of the table as one line (measurements: the mean over variants)."""
    table = [dict(zip(ALL_COLUMNS, line.split("\t"), strict=True)) for line in lines.values()]
    sums = {name: sum(float(row[name]) for row in table) for name in ALL_COLUMNS[1:]}
    measured = sum(float(row["measurements"]) * int(row["variants"]) for row in table)
    sums["measurements"] = measured / max(1, sums["variants"])
    return "\t".join([f"{len(table)} machines", *(f"{value:.1f}".removesuffix(".0") for value in sums.values())])


def share(lines: dict[str, str]) -> str:
    """Say how many of the usages that the counters could tell are right."""
    table = [dict(zip(ALL_COLUMNS, line.split("\t"), strict=True)) for line in lines.values()]
    right, lost, wrong = (sum(int(row[name]) for row in table) for name in ("ports_right", "ports_lost", "ports_wrong"))
    could = right + lost + wrong
    return f"port usages that counters could tell: {could}; right {right} ({right / max(1, could):.1%}), wrong {wrong}"


def reports(names: Sequence[str], count: int, done: dict[str, str]) -> Iterator[Report]:
    """Yield what was found on each machine ("random:7", "random:hidden:7") that is not done."""
    catalogue = Catalogue.load()
    measurable = [variant for variant in catalogue if variant.cpl == 3 and not excluded(variant, privileged=True)]
    candidates = CandidateCache(catalogue)
    for name in names:
        machine = open_machine(name)
        if machine.name in done:
            continue
        begun = time.process_time()
        variants = sample(measurable, machine, int(name.rpartition(":")[2]), count)
        report = run(machine, catalogue, variants, thorough=False, candidates=candidates, tellable=True)
        report.seconds = time.process_time() - begun
        yield report


def main() -> None:
    """Do the seeds that are not in the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="1-200", help="FIRST-LAST")
    parser.add_argument("--kind", default="", help=f"{', '.join(KINDS)}, or several with + between (default: plain)")
    parser.add_argument("--variants", type=int, default=16, help="of each machine")
    parser.add_argument("--table", type=Path, help="the table (TSV) of results")
    parser.add_argument("--exceptions", type=Path, help="what was not found again is appended there (TSV)")
    options = parser.parse_args()
    prefix = f"random:{options.kind}:" if options.kind else "random:"
    table = options.table or (TABLE.with_suffix(f".{options.kind}.tsv") if options.kind else TABLE)
    first, _, last = options.seeds.partition("-")
    done = rows(table)
    for report in reports([f"{prefix}{n}" for n in range(int(first), int(last or first) + 1)], options.variants, done):
        done[report.machine] = f"{report.row()}\t{report.counts['ports_lost']}"
        write(table, done)
        print(done[report.machine], flush=True)
        if options.exceptions and report.exceptions:
            with options.exceptions.open("a", encoding="utf-8") as file:
                file.write("\n".join([*report.exceptions, ""]))
    print(total(done))
    print(share(done))


if __name__ == "__main__":
    main()
