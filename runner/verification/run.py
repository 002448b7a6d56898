"""Characterizes variants of a simulated machine, and compares the conclusions with the machine's model.

Inference sees the backend `sim` only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from inference.characterizer import CandidateCache, Characterizer
from results.campaign.store import Store
from results.model import Form
from results.ports import renamed
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task
from runner.verification.indistinguishable import named
from runner.verification.judge import KnownMachine, check, true_ports
from runner.verification.port_names import best_names
from runner.verification.report import Report
from runner.verification.tellable import Observer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from inference.ports.blocking_instructions import BlockingSet
    from results.model import Characterization, PortUsage
    from simulator.judging.slack import Slack
    from simulator.machines.machine import MachineModel
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant


def run(  # noqa: PLR0913 - what is compared, and how thoroughly
    machine: MachineModel,
    catalogue: Catalogue,
    variants: Sequence[InstructionVariant],
    *,
    thorough: bool = True,
    candidates: CandidateCache | None = None,
    tellable: bool = False,
    proofs: bool = True,
    judged: Slack | None = None,
) -> Report:
    """Characterize variants on a machine and compare.

    Args:
        machine: the machine.
        catalogue: where blocking instructions come from.
        variants: what is characterized.
        thorough: whether all instruction classes are tried for blocking.
        candidates: those for blocking, of the same catalogue.
        tellable: whether to find out for each usage that is not stated if it is tellable.
        proofs: whether to look for another machine that gives the same, too (`runner.verification.indistinguishable`).
        judged: the slack of the machine's latencies, if it is known (`runner.verification.siblings`).
    """
    report = Report(machine.name)
    backend = SimBackend(machine, catalogue)
    characterizer = Characterizer(catalogue, backend.info().capabilities, thorough=thorough, candidates=candidates)
    session = Session(Measurer(backend), limits=Limits(keep_raw=False))
    begun = time.process_time()
    context = session.run_one(characterizer.prepare(variants))
    by_key = {variant.key: variant for variant in variants}
    tasks = (Task(variant.key, characterizer.characterize(variant, context)) for variant in variants)
    outcomes = list(session.run(tasks))
    found = ((by_key[outcome.name], outcome.result) for outcome in outcomes if outcome.result is not None)
    names = port_names(machine, found, context.blocking.values())
    given = {true: name for name, true in names.items()}

    def is_tellable(variant: InstructionVariant, true: PortUsage) -> bool:
        return session.run_one(Observer(variant, context, renamed(true, given)).is_only_one())

    known = KnownMachine(machine, catalogue, context.blocking, names, is_tellable if tellable else None, proofs, judged)
    for outcome in outcomes:
        variant = by_key[outcome.name]
        report.counts["measurements"] += len(outcome.requests)
        if outcome.result is None:
            report.note(variant, "error", outcome.error, "")
            report.counts["variants"] += 1
            report.counts["ports_unstated"] += 1
        else:
            check(report, variant, outcome.result, known)
    report.seconds = time.process_time() - begun
    return report


def port_names(
    machine: MachineModel,
    found: Iterable[tuple[InstructionVariant, Characterization]],
    blocking: Iterable[BlockingSet] = (),
) -> Mapping[str, str]:
    """Return the names, for ports that share counters, with which most conclusions are right.

    Names are relative to those of the blocking instructions, so the ports of these are conclusions, too.
    """
    groups = machine.parameters.shared_counters
    if not groups:
        return {}
    given = [
        (machine.truth(variant), form, [ports] if ports is not None else named(result.failures, form))
        for variant, result in found
        for form in Form
        for ports in [result.of(form).ports]
    ]
    blocked = {one.variant.key: one for each in blocking for one in each.named if one.usage.total == 1}
    return best_names(
        groups,
        [
            *(([one.usage], machine.truth(one.variant).ports) for one in blocked.values()),
            *((usages, true_ports(truth, form)) for truth, form, usages in given if usages),
        ],
    )


def compare(machine: MachineModel, catalogue: Catalogue, database: Path) -> Report:
    """Compare the conclusions in a campaign's file with the machine that it was about."""
    report = Report(machine.name)
    backend = SimBackend(machine, catalogue)
    characterizer = Characterizer(catalogue, backend.info().capabilities)
    session = Session(Measurer(backend), limits=Limits(keep_raw=False))
    with Store.read(database) as store:
        report.counts["measurements"] = store.count_measurements()
        results = [conclusion.result for conclusion in store.conclusions() if not conclusion.result.skipped]
    pairs = [(catalogue.by_key(result.key), result) for result in results]
    found = [(variant, result) for variant, result in pairs if machine.behaviour(variant) is not None]
    blocking = session.run_one(characterizer.prepare()).blocking
    known = KnownMachine(machine, catalogue, blocking, port_names(machine, found, blocking.values()))
    for variant, result in found:
        check(report, variant, result, known)
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
