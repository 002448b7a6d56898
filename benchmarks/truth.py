"""How much of what is known of simulated machines inference finds again: `python -m benchmarks.truth --help`.

For each machine every variant (or every N-th) of some extensions is characterized through the backend `sim`, and
compared with what the machine's model says. Inference sees the backend only. The table goes to standard output as TSV;
what was not found again goes to `--exceptions`, one line each, with what was found and what is true.

Columns: `variants` that the machine has and that can be measured; `ports_right`, `ports_unstated` (a failure was
reported instead of a usage) and `ports_wrong`; `uops_right`; `tp_right`: the least measured throughput is within 2% of
what ports, issue width and divider allow, `tp_slower`: dependencies that cannot be broken make it slower; latencies per
pair of operands, `pairs_exact` (stated as exact and right), `pairs_bound` (stated as an upper bound, and it is one),
`pairs_wrong`; `measurements` per variant.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from results.model import Bound, PortUsage
from runner.backends.sim import SimBackend, open_machine
from runner.characterize import Characterizer, Workshop
from runner.protocol import Measurer
from runner.session import Limits, Session, Task
from xed_convert.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from results.model import Characterization, LatencyResult
    from simulator.graph import Endpoint
    from simulator.machine import MachineModel
    from simulator.truth import Truth
    from xed_convert.model import InstructionVariant

COLUMNS = (
    "machine",
    "variants",
    "ports_right",
    "ports_unstated",
    "ports_wrong",
    "uops_right",
    "tp_right",
    "tp_slower",
    "tp_wrong",
    "same_register",
    "same_register_right",
    "pairs",
    "pairs_exact",
    "pairs_bound",
    "pairs_wrong",
    "measurements",
    "seconds",
)
TOLERANCE = Fraction(1, 50)


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


def check(report: Report, variant: InstructionVariant, found: Characterization, truth: Truth) -> None:
    """Compare conclusions with the truth."""
    report.counts["variants"] += 1
    ports = _visible_ports(truth)
    if found.ports is None:
        report.counts["ports_unstated"] += 1
        report.note(variant, "ports", "; ".join(found.failures), ports)
    elif _same(found.ports, ports):
        report.counts["ports_right"] += 1
    else:
        report.counts["ports_wrong"] += 1
        report.note(variant, "ports", found.ports, ports)
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
        _check_latency(report, variant, latency, truth)


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
        report.note(variant, "throughput", float(min(measured)), float(truth.throughput))
    else:
        report.counts["tp_wrong"] += 1
        report.note(variant, "throughput", [float(t) for t in measured], float(truth.throughput))


def _check_latency(report: Report, variant: InstructionVariant, found: LatencyResult, truth: Truth) -> None:
    if found.same_register:
        return
    pairs = truth.fast_latencies if found.fast_values and truth.fast_latencies else truth.latencies
    true = _true_latency(pairs, found)
    report.counts["pairs"] += 1
    if true is not None and found.bound is Bound.UPPER and found.cycles >= true:
        report.counts["pairs_bound"] += 1
    elif true is not None and found.bound is Bound.EXACT and found.cycles == true:
        report.counts["pairs_exact"] += 1
    else:
        report.counts["pairs_wrong"] += 1
        name = f"latency {found.source}{found.part}{found.source_flag}→{found.destination}{found.destination_flag}"
        report.note(variant, name, f"{found.bound} {float(found.cycles):g}", true)


def _true_latency(pairs: Mapping[tuple[Endpoint, Endpoint], Fraction], found: LatencyResult) -> Fraction | None:
    """Return the longest path that a result speaks of; flags besides the carry flag stand for each other."""
    fitting = [
        cycles
        for (start, end), cycles in pairs.items()
        if (start.operand, start.part, end.operand) == (found.source, found.part, found.destination)
        and _means(found.source_flag, start.flag)
        and _means(found.destination_flag, end.flag)
    ]
    return max(fitting, default=None)


def _means(named: str, flag: str) -> bool:
    """Whether a result that names a flag ("": all alike) speaks of that one."""
    return not named or (named == "CF") == (flag == "CF")


def run(
    machine: MachineModel,
    catalogue: Catalogue,
    variants: Sequence[InstructionVariant],
    *,
    thorough: bool = True,
    workshop: Workshop | None = None,
) -> Report:
    """Characterize variants on a machine and compare; `thorough` tries all instruction classes for blocking."""
    report = Report(machine.name)
    backend = SimBackend(machine, catalogue)
    characterizer = Characterizer(catalogue, backend.info(), thorough=thorough, workshop=workshop)
    session = Session(Measurer(backend), limits=Limits(keep_raw=False))
    begun = time.monotonic()
    context = session.run_one(characterizer.prepare(variants))
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
            check(report, variant, outcome.result, machine.truth(variant))
    report.seconds = time.monotonic() - begun
    return report


def chosen(
    catalogue: Catalogue, machine: MachineModel, extensions: Iterable[str], every: int
) -> list[InstructionVariant]:
    """Return the variants of some extensions ("all": all of them) that run in user mode and that the machine has."""
    wanted = set(extensions)
    info = SimBackend(machine, catalogue).info()
    skipped = Characterizer(catalogue, info).skipped
    fitting = [
        variant
        for variant in catalogue
        if ("all" in wanted or variant.extension in wanted) and variant.cpl == 3 and not skipped(variant)
    ]
    return [variant for variant in fitting[::every] if machine.behaviour(variant) is not None]


def machines(names: Sequence[str]) -> Iterator[MachineModel]:
    """Return the machines of names such as HSW, random:7, or random:1-20."""
    for name in names:
        kind, _, seeds = name.partition(":")
        if kind == "random" and "-" in seeds:
            first, last = map(int, seeds.split("-"))
            yield from (open_machine(f"random:{seed}") for seed in range(first, last + 1))
        else:
            yield open_machine(name)


def main() -> None:
    """Print the table of some machines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("machines", nargs="+", help="HSW, SKX:separate, random:7, random:1-20 ...")
    parser.add_argument("--extensions", default="BASE,LONGMODE", help="comma-separated, or all")
    parser.add_argument("--every", type=int, default=1, help="only every N-th variant")
    parser.add_argument("--exceptions", type=Path, help="where to write what was not found again (TSV)")
    options = parser.parse_args()
    catalogue = Catalogue.load()
    lines: list[str] = []
    print("\t".join(COLUMNS))
    for machine in machines(options.machines):
        variants = chosen(catalogue, machine, options.extensions.split(","), options.every)
        report = run(machine, catalogue, variants)
        print(report.row())
        sys.stdout.flush()
        lines += report.exceptions
    if options.exceptions:
        options.exceptions.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
