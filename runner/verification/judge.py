"""Compares the conclusions about one variant with what is true of it on a simulated machine."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from results import sentences
from results.findings import Indistinguishable, NoLatency, NoPorts
from results.model import LEFT_OUT, SPECIAL_FORMS, Form, PortUsage
from results.ports import renamed
from runner.verification.indistinguishable import are_alike, named, proved_by
from simulator.judging.latency import expected, judge, missing
from simulator.judging.ports import with_usage
from simulator.judging.slack import Slack, Standing, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from results.model import Characterization, Failure, LatencyResult
    from runner.verification.indistinguishable import Blocking
    from runner.verification.report import Report
    from simulator.machines.machine import MachineModel
    from simulator.machines.truth import Truth
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant

TOLERANCE = Fraction(1, 50)
"""By what share a throughput may differ from the true one; more where counters are off without showing it."""

LOST = ("ports_named", "ports_unstated", "ports_proved")
"""The columns of usages that are not stated."""

BOUNDS = {Standing.LEAST: "pairs_least", Standing.FREE: "pairs_free", Standing.TELLABLE: "pairs_bound"}
VERDICTS = {
    "right": "pairs_exact",
    "port contention": "pairs_contention",
    "not told": "pairs_untold",
}


@dataclass(frozen=True)
class KnownMachine:
    """A machine whose truth is known, and the means to prove that another one is indistinguishable from it.

    - `names`: the true names of ports by those that inference gives them, where they share counters.
    - `is_tellable`: whether counters could tell a variant's usage (None: that is not asked).
    - `judged`: the slack of its latencies, if a machine with the same instructions was judged before.
    - `proofs`: whether another machine is looked for that gives the same in every measurement, where no usage is
      stated. It takes as long as characterizing the variant several times over.
    """

    machine: MachineModel
    catalogue: Catalogue
    blocking: Blocking
    names: Mapping[str, str] = field(default_factory=dict)
    is_tellable: Callable[[InstructionVariant, PortUsage], bool] | None = None
    proofs: bool = True
    judged: Slack | None = None

    @functools.cached_property
    def slack(self) -> Slack:
        """By how much latencies between register files could differ on an indistinguishable machine."""
        return self.judged or Slack(self.machine, self.catalogue)


def check(report: Report, variant: InstructionVariant, found: Characterization, known: KnownMachine) -> None:
    """Compare conclusions with the truth."""
    truth = known.machine.truth(variant)
    report.counts["variants"] += 1
    ports = visible_ports(truth)
    verdict, stated = _judge_ports(variant, found, truth, known)
    if _wrong_forms(report, variant, found, truth, known):
        verdict = "ports_wrong"
    report.counts[verdict] += 1
    if _named_otherwise(report, variant, found, truth, known):
        report.counts["ports_named_wrong"] += 1
    if verdict in LOST and known.is_tellable is not None and known.is_tellable(variant, ports):
        report.counts["ports_lost"] += 1
        report.note(variant, "ports_lost", verdict, ports)
    if verdict != "ports_right":
        report.note(variant, verdict, stated, ports)
    if found.uops == ports.total:
        report.counts["uops_right"] += 1
    else:
        report.note(variant, "uops", found.uops, ports.total)
    share = known.machine.parameters.noise.hidden_share
    _check_throughput(report, variant, found, truth, TOLERANCE + share)
    if truth.same_register is not None and found.of(Form.SAME_REGISTER).ports is not None:
        report.counts["same_register"] += 1
        report.counts["same_register_right"] += _is_right(found, truth, Form.SAME_REGISTER, known)
    for latency in found.latencies:
        _check_latency(report, variant, latency, truth, known)
    _check_silence(report, variant, found, truth)


def _wrong_forms(
    report: Report, variant: InstructionVariant, found: Characterization, truth: Truth, known: KnownMachine
) -> list[Form]:
    """Return the forms besides the plain one of which a false usage is stated that a measurement could refute.

    Each form has its own truth: an address with an index may use other ports.
    """
    wrong: list[Form] = []
    for form in SPECIAL_FORMS:
        if found.of(form).ports is not None and not _is_right(found, truth, form, known):
            stated = _stated(found, form, known)
            report.note(variant, f"ports{form.suffix}", stated, true_ports(truth, form))
            wrong += [] if stated is not None and _is_alike(variant, stated, form, known) else [form]
    return wrong


def _named_otherwise(
    report: Report, variant: InstructionVariant, found: Characterization, truth: Truth, known: KnownMachine
) -> list[Form]:
    """Return the forms of which some usages are named as the only ones, but not the true one."""
    missing: list[Form] = []
    for form in Form:
        left, true = _named(found, form, known), true_ports(truth, form)
        if _are_all_named(found, form) and not any(_same(usage, true) for usage in left):
            missing.append(form)
            report.note(variant, f"ports_named_wrong{form.suffix}", " or ".join(map(str, left)), true)
    return missing


def _stated(found: Characterization, form: Form, known: KnownMachine) -> PortUsage | None:
    """Return the usage that is stated of a form, with the true names of ports."""
    stated = found.of(form).ports
    return None if stated is None else renamed(stated, known.names)


def _named(found: Characterization, form: Form, known: KnownMachine) -> list[PortUsage]:
    """Return the usages of a form that are named, with the true names of ports."""
    return [renamed(usage, known.names) for usage in named(found.failures, form)]


def _is_alike(variant: InstructionVariant, usage: PortUsage, form: Form, known: KnownMachine) -> bool:
    """Whether a machine with this usage of a form gives the same in every measurement."""
    other = with_usage(known.machine, variant, usage, form)
    return other is not None and are_alike(known.machine, other, known.catalogue, variant, known.blocking)


def _is_right(found: Characterization, truth: Truth, form: Form, known: KnownMachine) -> bool:
    """Whether the usage that is stated of a form is the true one."""
    stated = _stated(found, form, known)
    return stated is not None and _same(stated, true_ports(truth, form))


def _judge_ports(
    variant: InstructionVariant, found: Characterization, truth: Truth, known: KnownMachine
) -> tuple[str, str]:
    """Return the column for the port usage of the plain form (or for its failure), and what was stated."""
    stated, ports = _stated(found, Form.PLAIN, known), visible_ports(truth)
    if stated is None:
        return _judge_failure(variant, found, ports, known)
    if _same(stated, ports):
        return "ports_right", str(ports)
    return "ports_alike" if _is_alike(variant, stated, Form.PLAIN, known) else "ports_wrong", str(stated)


def _judge_failure(
    variant: InstructionVariant, found: Characterization, ports: PortUsage, known: KnownMachine
) -> tuple[str, str]:
    """Return the same where no usage is stated; what proves that none can be is noted, too."""
    failures = "; ".join(_brief(failure) for failure in found.failures)
    left = _named(found, Form.PLAIN, known)
    usage = None
    if known.proofs:
        usage = proved_by(known.machine, known.catalogue, variant, known.blocking, left)
    if usage is not None:
        return "ports_proved", f"{failures}; the same in every measurement: {usage}"
    return "ports_named" if any(_same(one, ports) for one in left) else "ports_unstated", failures


def _are_all_named(found: Characterization, form: Form) -> bool:
    """Whether the failures name some usages of a form and say that there are no others."""
    reasons = [failure.why for failure in found.failures if isinstance(failure, NoPorts) and failure.form is form]
    return any(isinstance(why, Indistinguishable) and why.usages and not why.others for why in reasons)


def _brief(failure: Failure) -> str:
    """Say a failure without the answers of experiments."""
    if isinstance(failure, NoPorts) and isinstance(failure.why, Indistinguishable):
        failure = replace(failure, why=replace(failure.why, answers=()))
    return sentences.failure(failure)


def visible_ports(truth: Truth) -> PortUsage:
    """Return the ports of instances that are not eliminated at rename (if all are: no ports)."""
    return PortUsage({}) if truth.eliminated_share == 1 else truth.ports


def true_ports(truth: Truth, form: Form) -> PortUsage:
    """Return the ports of a form of an instruction that are seen; those of the plain form where it has none."""
    ports = visible_ports(truth)
    if form is Form.SAME_REGISTER and truth.same_register is not None:
        return visible_ports(truth.same_register)
    return truth.ports_indexed if form is Form.INDEXED and ports.uops and truth.ports_indexed is not None else ports


def _same(one: PortUsage, other: PortUsage) -> bool:
    return {k: n for k, n in one.uops.items() if n} == {k: n for k, n in other.uops.items() if n}


def _check_throughput(
    report: Report, variant: InstructionVariant, found: Characterization, truth: Truth, tolerance: Fraction
) -> None:
    measured = [t for t in (found.throughput.unrolled, found.throughput.loop) if t is not None]
    if measured and abs(min(measured) - truth.throughput) <= tolerance * truth.throughput:
        report.counts["tp_right"] += 1
    elif measured and min(measured) > truth.throughput:
        report.counts["tp_slower"] += 1
        report.note(variant, "tp_slower", float(min(measured)), float(truth.throughput))
    else:
        report.counts["tp_wrong"] += 1
        report.note(variant, "tp_wrong", [float(t) for t in measured], float(truth.throughput))


def _check_latency(
    report: Report, variant: InstructionVariant, found: LatencyResult, truth: Truth, known: KnownMachine
) -> None:
    if found.same_register:
        return
    verdict = judge(variant, truth, found, known.machine.parameters.noise.hidden_share)
    worth = standing(known.slack, variant, truth, found)
    column = BOUNDS[worth] if verdict == "bound" else VERDICTS.get(verdict, "pairs_wrong")
    if verdict == "right" and worth is not Standing.TELLABLE:
        column = "pairs_wrong"
    report.counts["pairs"] += 1
    report.counts[column] += 1
    if column == "pairs_wrong":
        name = f"latency {found.source}{found.part}{found.source_flag}→{found.destination}{found.destination_flag}"
        report.note(variant, name, f"{found.bound} {float(found.cycles):g}", expected(variant, truth, found))


def _check_silence(report: Report, variant: InstructionVariant, found: Characterization, truth: Truth) -> None:
    """Count a latency of the model as wrong if it is neither found nor left out with a reason; note failed chains."""
    left_out = any(one.quantity == LEFT_OUT for one in found.derivations)
    for failure in found.failures:
        if isinstance(failure, NoLatency):
            report.note(variant, "latency failed", sentences.failure(failure), "")
    for source, destination in [] if left_out else missing(variant, truth, found.latencies):
        report.counts["pairs"] += 1
        report.counts["pairs_wrong"] += 1
        report.note(variant, "latency missing", f"nothing about {source} → {destination}", "")
