"""Inference on machines drawn at random: `python -m benchmarks.accuracy.random_machines [--kinds all] --seeds 1-200`.

Each seed is another machine (4 to 12 ports, µop graphs of its own, often ports that share a counter, sometimes noise).
As many variants of all extensions are characterized as `--variants` says, other ones for each seed, and compared
with the truth; the columns are those of `runner.verification.report`. What was not found again is appended to
`--exceptions`.

`--kinds` takes machines of kinds of `simulator.machines.random_shape.KINDS`: `all` of them, or `hidden,intel+counters`
(`+` combines). They are taken in rounds: the first seed of every kind, then the second. Plain machines have the table
`random_machines.tsv`, the kinds share `random_kinds.tsv`.

A row is written when its machine is done, and its machine is not done again. So a run that was stopped, or whose
`--minutes` are over, goes on where it was. The column `inference` says which version the row is of; with `--anew` rows
of other versions are replaced.

The column `ports_named_wrong` has those of which other usages are named than the true one, `ports_lost` those that are
not stated although the counters could tell them (`runner.verification.tellable`). So the last lines say, per kind,
which share of all usages that could be told is right.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from generator.exclusions import excluded
from inference.characterizer import CandidateCache
from inference.version import inference_version
from runner.verification.report import COLUMNS
from runner.verification.run import run
from runner.verification.siblings import Siblings
from simulator.machines.random_shape import KINDS
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.verification.report import Report
    from simulator.machines.machine import MachineModel
    from xed_convert.model import InstructionVariant

ALL_COLUMNS = (*COLUMNS, "ports_named_wrong", "ports_lost", "inference")

FOLDER = Path(__file__).parent
STRIDE = 7919
"""A prime: steps of this size go through all variants, and soon through all extensions."""

Rows = dict[str, dict[str, str]]
"""The rows of a table by machine, each by column."""


def sample(
    measurable: Sequence[InstructionVariant], machine: MachineModel, seed: int, count: int
) -> list[InstructionVariant]:
    """Return `count` variants that the machine has, taken from all of them, other ones for each seed."""
    places = ((seed * count + number) * STRIDE % len(measurable) for number in range(len(measurable)))
    has = (measurable[place] for place in places if machine.behaviour(measurable[place]) is not None)
    return list(islice(has, count))


def machine_name(kind: str, seed: int) -> str:
    """Return the name of a machine of a kind ("": a plain one)."""
    return f"random:{kind}:{seed}" if kind else f"random:{seed}"


def kind_and_seed(name: str) -> tuple[str, int]:
    """Return what `machine_name` was given."""
    _, *kind, seed = name.split(":")
    return "".join(kind), int(seed)


def read(path: Path) -> Rows:
    """Return the rows of a table; none if there is no file, or if it has other columns."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if not lines or lines[0].split("\t") != list(ALL_COLUMNS):
        return {}
    table = [dict(zip(ALL_COLUMNS, line.split("\t"), strict=True)) for line in lines[1:]]
    return {row["machine"]: row for row in table}


def write(path: Path, rows: Rows) -> None:
    """Replace a table."""
    ordered = sorted(rows.values(), key=lambda row: kind_and_seed(row["machine"]))
    lines = ["\t".join(ALL_COLUMNS), *("\t".join(row.values()) for row in ordered), ""]
    with atomic_write(path) as file:
        file.write("\n".join(lines).encode())


def shares(rows: Rows) -> Iterator[str]:
    """Yield a line per kind: how many of the usages that the counters could tell are right."""
    sums: dict[str, Counter[str]] = {}
    for row in rows.values():
        one = sums.setdefault(kind_and_seed(row["machine"])[0] or "plain", Counter())
        one["machines"] += 1
        one.update({name: int(row[name]) for name in ("variants", "ports_lost", "tp_wrong", "pairs", "pairs_wrong")})
        one.update({name: int(row[name]) for name in ("ports_right", "ports_wrong", "ports_named_wrong")})
    for kind, one in sums.items():
        could = one["ports_right"] + one["ports_lost"] + one["ports_wrong"]
        yield (
            f"{kind}: {one['machines']} machines, {one['variants']} variants; of {could} port usages that counters "
            f"could tell {one['ports_right']} right ({one['ports_right'] / max(1, could):.1%}), {one['ports_wrong']} "
            f"wrong; {one['ports_named_wrong']} named without the true one; throughputs wrong {one['tp_wrong']}; "
            f"latencies wrong {one['pairs_wrong']} of {one['pairs']}"
        )


def reports(names: Iterable[str], count: int, *, proofs: bool) -> Iterator[Report]:
    """Yield what was found on each machine; `proofs`: see `runner.verification.run.run`."""
    catalogue = Catalogue.load()
    measurable = [variant for variant in catalogue if variant.cpl == 3 and not excluded(variant, privileged=True)]
    candidates, siblings = CandidateCache(catalogue), Siblings(catalogue)
    for name in names:
        begun = time.process_time()
        kind, seed = kind_and_seed(name)
        machine, slack = siblings.open(seed, kind)
        variants = sample(measurable, machine, seed, count)
        report = run(
            machine,
            catalogue,
            variants,
            thorough=False,
            candidates=candidates,
            tellable=True,
            proofs=proofs,
            judged=slack,
        )
        report.seconds = time.process_time() - begun
        yield report


def until(names: Sequence[str], minutes: float) -> Iterator[str]:
    """Yield names until the time is over (0: all)."""
    begun = time.monotonic()
    for number, name in enumerate(names):
        if minutes and time.monotonic() - begun >= minutes * 60:
            print(f"# {minutes:g} minutes are over; {len(names) - number} machines are left")
            return
        yield name


def kinds(text: str) -> list[str]:
    """Return the kinds that are meant ("": plain machines)."""
    return list(KINDS) if text == "all" else text.split(",")


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the seeds that are not in the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="1-200", help="FIRST-LAST")
    parser.add_argument("--kinds", default="", help=f"all, or some of {', '.join(KINDS)} (default: plain machines)")
    parser.add_argument("--variants", type=int, default=16, help="of each machine")
    parser.add_argument("--minutes", type=float, default=0, help="begin no machine after so long (default: no limit)")
    parser.add_argument(
        "--proofs", action="store_true", help="tell those not stated apart that no measurement can tell"
    )
    parser.add_argument("--anew", action="store_true", help="replace rows of other versions of inference")
    parser.add_argument("--table", type=Path, help="the table (TSV) of results")
    parser.add_argument("--exceptions", type=Path, help="what was not found again is appended there (TSV)")
    options = parser.parse_args(arguments)
    table = options.table or FOLDER / ("random_kinds.tsv" if options.kinds else "random_machines.tsv")
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    names = [machine_name(kind, seed) for seed in seeds for kind in kinds(options.kinds)]
    version = inference_version()
    done = read(table)
    known = {name for name, row in done.items() if not options.anew or row["inference"] == version}
    left = [name for name in names if name not in known]
    print(f"# {len(names) - len(left)} of {len(names)} machines are in {table}")
    found = reports(until(left, options.minutes), options.variants, proofs=options.proofs)
    for number, report in enumerate(found, len(names) - len(left)):
        row = [
            *report.row().split("\t"),
            *(str(report.counts[name]) for name in ALL_COLUMNS[len(COLUMNS) : -1]),
            version,
        ]
        done[report.machine] = dict(zip(ALL_COLUMNS, row, strict=True))
        write(table, done)
        print(f"{number + 1}/{len(names)}", *row, sep="\t", flush=True)
        if options.exceptions and report.exceptions:
            with options.exceptions.open("a", encoding="utf-8") as file:
                file.write("\n".join([*report.exceptions, ""]))
    print(*shares({name: done[name] for name in names if name in done}), sep="\n")


if __name__ == "__main__":
    main()
