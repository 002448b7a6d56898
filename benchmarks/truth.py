"""How much of what is known of simulated machines inference finds again: `python -m benchmarks.truth --help`.

For each machine every variant (or every N-th) of some extensions is characterized through the backend `sim`, and
compared with what the machine's model says. Inference sees the backend only. The table goes to standard output as TSV,
and with `--table` into a file whose row of the machine is replaced (`truth_campaign.tsv`); what was not found again
goes to `--exceptions`, one line each: machine, variant, what, what was found, what is true.

Columns: `variants` that the machine has and that can be measured; `ports_right`; `ports_named`: none is stated, but a
few that cannot be told apart are named, the true one among them; `ports_unstated`: another failure was reported;
`ports_proved`: none is stated, named ones or not, and every measurement is the same on a machine that has another one
(see `benchmarks.rivals`); `ports_alike`: another usage is stated, and the same is true of it; `ports_wrong`;
`uops_right`; `tp_right`: the least measured throughput is within 2% of what ports, issue width and divider allow,
`tp_slower`: dependencies that cannot be broken make it slower; latencies per pair of operands as
`benchmarks.latency_truth` judges them (wrong: also those about which nothing is said, and what is called exact although
another machine nobody can tell from this one has another number), upper bounds apart: `pairs_least`: another machine
that nobody can tell from this one has just that latency; `pairs_free`: another one has another latency, so that only a
bound can be given (see `benchmarks.latency_rivals`); `pairs_bound`: the rest; `measurements` per variant;
`seconds` of CPU time. `--database` compares a campaign's conclusions instead of making them.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.latency_rivals import Slack, Standing, standing
from benchmarks.rivals import are_alike, named, proved_by, rival_of
from inference.characterizer import CandidateCache, Characterizer
from inference.latency.infer import LatencyOutcome
from results.campaign.store import Store
from results.model import PortUsage
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task
from simulator.machines.machine import names
from tests.latency_truth import expected, judge, missing
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.rivals import Blocking
    from results.model import Characterization, LatencyResult
    from simulator.machines.machine import MachineModel
    from simulator.machines.truth import Truth
    from xed_convert.model import InstructionVariant

COLUMNS = (
    "machine",
    "variants",
    "ports_right",
    "ports_named",
    "ports_unstated",
    "ports_proved",
    "ports_alike",
    "ports_wrong",
    "uops_right",
    "tp_right",
    "tp_slower",
    "tp_wrong",
    "same_register",
    "same_register_right",
    "pairs",
    "pairs_exact",
    "pairs_least",
    "pairs_free",
    "pairs_bound",
    "pairs_crowded",
    "pairs_untold",
    "pairs_wrong",
    "measurements",
    "seconds",
)
TOLERANCE = Fraction(1, 50)
BOUNDS = {Standing.LEAST: "pairs_least", Standing.FREE: "pairs_free", Standing.TELLABLE: "pairs_bound"}
VERDICTS = {
    "right": "pairs_exact",
    "crowded": "pairs_crowded",
    "not told": "pairs_untold",
}


@dataclass
class Report:
    """The figures of one machine and what was not found again."""

    machine: str
    counts: Counter[str] = field(default_factory=Counter)
    exceptions: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def row(self) -> str:
        """Return the figures as a line of the table."""
        per_variant = self.counts["measurements"] / max(1, self.counts["variants"])
        values = {"machine": self.machine, "measurements": f"{per_variant:.1f}", "seconds": f"{self.seconds:.0f}"}
        return "\t".join(str(values.get(column, self.counts[column])) for column in COLUMNS)

    def note(self, variant: InstructionVariant, what: str, found: object, true: object) -> None:
        """Keep what was not found again."""
        self.exceptions.append(f"{self.machine}\t{variant.string}\t{what}\t{found}\t{true}")


@dataclass(frozen=True)
class Bench:
    """The machine, and what is needed to ask whether another one could be told from it."""

    machine: MachineModel
    catalogue: Catalogue
    blocking: Blocking

    @functools.cached_property
    def slack(self) -> Slack:
        """By how much latencies between files could be others."""
        return Slack(self.machine, self.catalogue)


def check(report: Report, variant: InstructionVariant, found: Characterization, bench: Bench) -> None:
    """Compare conclusions with the truth."""
    truth = bench.machine.truth(variant)
    report.counts["variants"] += 1
    ports = _visible_ports(truth)
    verdict, stated = _judge_ports(variant, found, ports, bench)
    report.counts[verdict] += 1
    if verdict != "ports_right":
        report.note(variant, verdict, stated, ports)
    if found.uops == ports.total:
        report.counts["uops_right"] += 1
    else:
        report.note(variant, "uops", found.uops, ports.total)
    _check_throughput(report, variant, found, truth)
    if truth.same_register is not None and found.ports_same_register is not None:
        report.counts["same_register"] += 1
        right = _same(found.ports_same_register, _visible_ports(truth.same_register))
        report.counts["same_register_right"] += right
        if not right:
            report.note(variant, "ports_same_register", found.ports_same_register, truth.same_register.ports)
    for latency in found.latencies:
        _check_latency(report, variant, latency, truth, bench.slack)
    _check_silence(report, variant, found, truth)


def _judge_ports(
    variant: InstructionVariant, found: Characterization, ports: PortUsage, bench: Bench
) -> tuple[str, str]:
    """Return the column that a port usage, or what stands for it, counts in, and what was stated."""
    if found.ports is None:
        return _judge_failure(variant, found, ports, bench)
    if _same(found.ports, ports):
        return "ports_right", str(ports)
    rival = rival_of(bench.machine, variant, found.ports)
    alike = rival is not None and are_alike(bench.machine, rival, bench.catalogue, variant, bench.blocking)
    return "ports_alike" if alike else "ports_wrong", str(found.ports)


def _judge_failure(
    variant: InstructionVariant, found: Characterization, ports: PortUsage, bench: Bench
) -> tuple[str, str]:
    """Return the same where no usage is stated; what proves that none can be is noted, too."""
    failures = "; ".join(failure.partition(" (answers")[0] for failure in found.failures)
    left = named(found.failures)
    rival = proved_by(bench.machine, bench.catalogue, variant, bench.blocking, left)
    if rival is not None:
        return "ports_proved", f"{failures}; the same in every measurement: {rival}"
    return "ports_named" if any(_same(one, ports) for one in left) else "ports_unstated", failures


def _visible_ports(truth: Truth) -> PortUsage:
    """Return the ports of instances that are not eliminated at rename; all of them are without a port else."""
    return PortUsage({}) if truth.eliminated_share == 1 else truth.ports


def _same(one: PortUsage, other: PortUsage) -> bool:
    return {k: n for k, n in one.uops.items() if n} == {k: n for k, n in other.uops.items() if n}


def _check_throughput(report: Report, variant: InstructionVariant, found: Characterization, truth: Truth) -> None:
    measured = [t for t in (found.throughput.unrolled, found.throughput.loop) if t is not None]
    if measured and abs(min(measured) - truth.throughput) <= TOLERANCE * truth.throughput:
        report.counts["tp_right"] += 1
    elif measured and min(measured) > truth.throughput:
        report.counts["tp_slower"] += 1
        report.note(variant, "tp_slower", float(min(measured)), float(truth.throughput))
    else:
        report.counts["tp_wrong"] += 1
        report.note(variant, "tp_wrong", [float(t) for t in measured], float(truth.throughput))


def _check_latency(
    report: Report, variant: InstructionVariant, found: LatencyResult, truth: Truth, slack: Slack
) -> None:
    if found.same_register:
        return
    verdict = judge(variant, truth, found)
    worth = standing(slack, variant, truth, found)
    column = BOUNDS[worth] if verdict == "bound" else VERDICTS.get(verdict, "pairs_wrong")
    if verdict == "right" and worth is not Standing.TELLABLE:
        column = "pairs_wrong"
    report.counts["pairs"] += 1
    report.counts[column] += 1
    if column == "pairs_wrong":
        name = f"latency {found.source}{found.part}{found.source_flag}→{found.destination}{found.destination_flag}"
        report.note(variant, name, f"{found.bound} {float(found.cycles):g}", expected(variant, truth, found))


def _check_silence(report: Report, variant: InstructionVariant, found: Characterization, truth: Truth) -> None:
    """Count as wrong a latency of the model that is neither found nor left out with a reason; note failed chains."""
    reasons = tuple(one.text for one in found.derivations if one.quantity == "latencies left out")
    for failure in found.failures:
        if failure.startswith("latency"):
            report.note(variant, "latency failed", failure, "")
    for gap in missing(variant, truth, LatencyOutcome(found.latencies, found.failures, left_out=reasons)):
        report.counts["pairs"] += 1
        report.counts["pairs_wrong"] += 1
        report.note(variant, "latency missing", gap, "")


def run(
    machine: MachineModel,
    catalogue: Catalogue,
    variants: Sequence[InstructionVariant],
    *,
    thorough: bool = True,
    candidates: CandidateCache | None = None,
) -> Report:
    """Characterize variants on a machine and compare; `thorough` tries all instruction classes for blocking."""
    report = Report(machine.name)
    backend = SimBackend(machine, catalogue)
    characterizer = Characterizer(catalogue, backend.info().capabilities, thorough=thorough, candidates=candidates)
    session = Session(Measurer(backend), limits=Limits(keep_raw=False))
    begun = time.process_time()
    context = session.run_one(characterizer.prepare(variants))
    bench = Bench(machine, catalogue, context.blocking)
    by_key = {variant.key: variant for variant in variants}
    tasks = (Task(variant.key, characterizer.characterize(variant, context)) for variant in variants)
    for outcome in session.run(tasks):
        variant = by_key[outcome.name]
        report.counts["measurements"] += len(outcome.requests)
        if outcome.result is None:
            report.note(variant, "error", outcome.error, "")
            report.counts["variants"] += 1
            report.counts["ports_unstated"] += 1
        else:
            check(report, variant, outcome.result, bench)
    report.seconds = time.process_time() - begun
    return report


def compare(machine: MachineModel, catalogue: Catalogue, database: Path) -> Report:
    """Compare the conclusions in a campaign's file with the machine that it was about."""
    report = Report(machine.name)
    backend = SimBackend(machine, catalogue)
    characterizer = Characterizer(catalogue, backend.info().capabilities)
    session = Session(Measurer(backend), limits=Limits(keep_raw=False))
    bench = Bench(machine, catalogue, session.run_one(characterizer.prepare()).blocking)
    with Store.read(database) as store:
        report.counts["measurements"] = store.count_measurements()
        for conclusion in store.conclusions():
            variant = catalogue.by_key(conclusion.result.key)
            if not conclusion.result.skipped and machine.behaviour(variant) is not None:
                check(report, variant, conclusion.result, bench)
    return report


def chosen(
    catalogue: Catalogue, machine: MachineModel, extensions: Iterable[str], every: int
) -> list[InstructionVariant]:
    """Return the variants of some extensions ("all": all of them) that run in user mode and that the machine has."""
    wanted = set(extensions)
    info = SimBackend(machine, catalogue).info()
    skipped = Characterizer(catalogue, info.capabilities).skipped
    fitting = [
        variant
        for variant in catalogue
        if ("all" in wanted or variant.extension in wanted) and variant.cpl == 3 and not skipped(variant)
    ]
    return [variant for variant in fitting[::every] if machine.behaviour(variant) is not None]


def machines(names: Sequence[str]) -> Iterator[MachineModel]:
    """Return the machines of names such as HSW, random:7, random:1-20, or random:hidden:1-20."""
    for name in names:
        kind, _, seeds = name.rpartition(":")
        if name.startswith("random:") and "-" in seeds:
            first, last = map(int, seeds.split("-"))
            yield from (open_machine(f"{kind}:{seed}") for seed in range(first, last + 1))
        else:
            yield open_machine(name)


def keep(path: Path, report: Report) -> None:
    """Put the row of a machine into a table, in the place of an older one; the shipped machines come in their order.

    What was not found again goes to a file beside it (`truth_campaign_exceptions.tsv`), but for throughput that
    dependencies make slower.
    """
    _replace(path, report.machine, [report.row()], "\t".join(COLUMNS))
    lines = [line for line in report.exceptions if line.split("\t")[2] != "tp_slower"]
    _replace(
        path.with_name(f"{path.stem}_exceptions.tsv"), report.machine, lines, "machine\tvariant\twhat\tfound\ttrue"
    )


def _replace(path: Path, machine: str, lines: Sequence[str], heading: str) -> None:
    """Replace the lines of a machine in a file."""
    old = path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else []
    kept = [line for line in old if line.partition("\t")[0] != machine]
    places = {name: place for place, name in enumerate(names())}
    ordered = sorted([*kept, *lines], key=lambda line: places.get(line.partition("\t")[0], len(places)))
    with atomic_write(path) as file:
        file.write("\n".join([heading, *ordered, ""]).encode())


def main() -> None:
    """Print the table of some machines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("machines", nargs="+", help="HSW, SKX:separate, random:7, random:1-20 ...")
    parser.add_argument("--extensions", default="BASE,LONGMODE", help="comma-separated, or all")
    parser.add_argument("--every", type=int, default=1, help="only every N-th variant")
    parser.add_argument("--table", type=Path, help="a table (TSV) in which to replace the machine's row")
    parser.add_argument("--exceptions", type=Path, help="where to write what was not found again (TSV)")
    parser.add_argument(
        "--database", type=Path, help="the file of a campaign over one machine: compare what it concluded"
    )
    options = parser.parse_args()
    if options.table and options.table.exists() and not options.table.read_text().startswith("\t".join(COLUMNS) + "\n"):
        parser.error(f"{options.table} has other columns than are measured now; name another file")
    catalogue = Catalogue.load()
    lines: list[str] = []
    print("\t".join(COLUMNS))
    for machine in machines(options.machines):
        if options.database:
            report = compare(machine, catalogue, options.database)
        else:
            variants = chosen(catalogue, machine, options.extensions.split(","), options.every)
            report = run(machine, catalogue, variants)
        print(report.row())
        sys.stdout.flush()
        if options.table:
            keep(options.table, report)
        lines += report.exceptions
    if options.exceptions:
        options.exceptions.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
