"""Derivations and failures as sentences: the only place that words them, for tables, explanations, files and sites."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from results import findings
from results.findings import Decoders, Floor, Note, Text
from results.model import LATENCY, Failure, Form, Status, Step, port_set_name
from results.text import latency_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from results.findings import Blocked, Confined, LinkShare, PortSet
    from results.model import Derivation, PortUsage
    from xed_convert.model import InstructionVariant


def heading(derivation: Derivation, variant: InstructionVariant | None) -> str:
    """Name what is derived; the variant tells which operand is the flags."""
    if derivation.quantity != LATENCY or derivation.latency is None:
        return derivation.quantity
    return f"{LATENCY} {latency_name(derivation.latency, variant)}"


def lines(derivation: Derivation) -> list[str]:
    """Return the arithmetic, one step per line, with the port sets in order."""
    return [line for one in derivation.steps for line in step(one).splitlines()]


def _decimal(value: Fraction) -> str:
    return f"{float(value):.2f}"


# Steps


@singledispatch
def step(value: Step) -> str:
    """Say a step."""
    raise NotImplementedError(type(value).__name__)


@step.register
def _(value: Text) -> str:
    return value.text


@step.register
def _(value: findings.SequenceTime) -> str:
    each = value.cycles / value.instances
    text = f"{value.purpose}: {_decimal(value.cycles)} cycles / {value.instances} = {_decimal(each)}"
    if value.slower:
        text += f", in other repetitions {', '.join(_decimal(one / value.instances) for one in value.slower)}"
    return text if value.floor is None else f"{text}, less than {_decimal(value.floor)} that {_FLOORS[value.limit]}"


_FLOORS = {
    Floor.PORTS: "its ports need",
    Floor.LONG_RUNS: "both a longer window and a loop take",
    Floor.AGAIN: "it took when it was measured again",
}


@step.register
def _(value: findings.Chosen) -> str:
    return "the least counts" if value.least else f"of these {float(value.cycles):.4g} counts"


@step.register
def _(value: findings.ChainTime) -> str:
    terms = [f"{_decimal(value.cycles)} cycles of the chain", *map(_link, value.links)]
    terms += ["at least 1 for a link between register files"] * value.cross_domain
    share = f" / {value.instances}" if value.instances > 1 else ""
    note = "" if value.exact else " (upper bound)"
    return f"{' - '.join(terms)}{share} = {_decimal(value.latency)}{note}"


def _link(link: LinkShare) -> str:
    factor = f"{link.count} * " if link.count > 1 else ""
    return f"{factor}{'' if link.exact else 'at least '}{_decimal(link.cycles)} of {link.name}"


@step.register
def _(value: findings.Remark) -> str:
    return _REMARKS[value.note]


_REMARKS = {
    Note.INDEPENDENT: "less than the links take: the output does not depend on the input",
    Note.SPREAD_ADDED: "the bound is that and what spread and clock may be off, so that noise does not make it too low",
    Note.LENGTHS_DISAGREE: "chains of other lengths disagree, so something besides the chain takes time: an upper "
    "bound",
    Note.NOT_REPEATED: "the fraction did not come out again, but the whole number did: it counts",
    Note.PASSES_DIFFER: "passes take whole cycles, so the fraction is a mean: some took more than others",
}


@step.register
def _(value: findings.About) -> str:
    return f"{latency_name(value.latency, None)}:"


@step.register
def _(value: findings.NotPlanned) -> str:
    return value.reason if value.latency is None else f"{latency_name(value.latency, None)}: {value.reason}"


@step.register
def _(value: findings.LoadAlone) -> str:
    busy = [f"{name} {_decimal(count)}" for name, count in sorted(value.uops.items())]
    return f"alone: {', '.join(busy) or 'no port'}"


@step.register
def _(value: findings.PortAnswer) -> str:
    name = port_set_name(value.ports)
    kept = (" and " if value.in_turns else ", then ").join(map(_blocked, value.blocked_by))
    ran = f"{'time for ' if value.timed else ''}{float(value.total):.4g} µops on {name}"
    breakers = f" - {value.breakers} of dependency breakers" if value.breakers else ""
    rest = float(value.total - value.blocking - value.breakers)
    bound = "" if value.most is None else f", at most {value.most}"
    return f"with {name} kept busy by {kept}: {ran} - {value.blocking}{breakers} = {rest:.2g}{bound}"


@step.register
def _(value: findings.ManyInstances) -> str:
    name = port_set_name(value.ports)
    each = (value.total - value.blocked_by.count) / value.instances
    sum_ = f"({_decimal(value.total)} - {value.blocked_by.count}) / {value.instances} = {_decimal(each)}"
    return f"{value.instances} instances among {_blocked(value.blocked_by)}: at most {sum_} µops each on {name}"


@step.register
def _(value: findings.SlotsFound) -> str:
    slots = f"{_decimal(value.cycles)} cycles x {_decimal(value.width)} - {value.filler.count}"
    return (
        f"among {_blocked(value.filler)}: {slots} = {_decimal(value.cycles * value.width - value.filler.count)} slots"
    )


def _blocked(blocked: Blocked) -> str:
    return f"{blocked.count} x {blocked.string}"


@step.register
def _(value: findings.PortControl) -> str:
    what = f"{_blocked(value.other)} in its place"
    return f"the same with {what}, none of which has to run on {port_set_name(value.ports)}: {float(value.ran):.2g} do"


@step.register
def _(value: findings.LongerSequence) -> str:
    return f"{value.instances} instances take {_decimal(value.cycles)} cycles each, less than fewer of them"


@step.register
def _(value: findings.DecodedCount) -> str:
    uops = "no whole number" if value.uops is None else str(value.uops)
    return f"{_decimal(value.total)} µops from the decoders, of which {value.nops} are NOPs: {uops}"


@step.register
def _(value: findings.DecoderGroups) -> str:
    times = ", ".join(f"{one.nops} NOPs {_decimal(one.cycles)} cycles" for one in value.times)
    how = "" if value.counted else "by time alone (nothing counts what the decoders deliver): "
    return f"{how}with {value.width} decoders, an instance and {times}"


@step.register
def _(value: findings.BufferFull) -> str:
    what = f"a chain of {value.links} links that lasts as long, with {value.nops} NOPs"
    return f"{what}, {_decimal(value.cycles)} cycles, of which {_decimal(value.slots_cycles)} are for its slots"


@step.register
def _(value: findings.DecodersFound) -> str:
    if value.which is Decoders.ANY:
        return "each NOP more takes its share of a cycle: any decoder takes the instruction"
    if value.which is Decoders.UNKNOWN:
        return "the times fit no number of decoders"
    return f"a NOP more takes a whole cycle or nothing: the first decoder takes it, {value.simple} others beside it"


@step.register
def _(value: findings.DivisionTimes) -> str:
    times = ", ".join(f"{one.divisions} of them {_decimal(one.cycles)} cycles" for one in value.times)
    told = "that does not tell" if value.left is None else f"{value.left} are left for the instance"
    return f"among {value.division}: {times}; each takes {_decimal(value.each)}, {told}"


@step.register
def _(value: findings.PartialFlagsTime) -> str:
    uops = "" if value.uops is None else f" and {_decimal(value.uops)} µops more"
    between = "" if value.both is None else f", {_decimal(value.both)} cycles with it between{uops}"
    both = f"{between}, {_decimal(value.own)} if only its own flags are read"
    told = "it does not wait for the flags that it keeps" if value.apart else "it waits for the flags that it keeps"
    return f"a chain through flags takes {_decimal(value.whole)} cycles{both}: {told}"


@step.register
def _(value: findings.WrittenOver) -> str:
    times = f"{_decimal(value.alone)} cycles, and {_decimal(value.overwritten)} if the result is overwritten each time"
    return f"{times}: it waits for the register" if value.waits else f"{times}: it does not wait for the register"


@step.register
def _(value: findings.ClassTime) -> str:
    return f"{value.name.replace('_', ' ')} ({value.values}): {_decimal(value.cycles)} cycles"


@step.register
def _(value: findings.DomainTime) -> str:
    beyond = _decimal(value.cycles - value.links)
    return f"links of {value.domain}: {_decimal(value.cycles)} - {_decimal(value.links)} = {beyond} cycles"


@step.register
def _(value: findings.ProducerTime) -> str:
    operands = ", ".join(map(str, value.operands))
    what = f"operand{'s' * (len(value.operands) > 1)} {operands}" if operands else "upper halves of vectors"
    return f"{what} after {value.name.replace('_', ' ')} ({value.code}): {_decimal(value.cycles)} cycles"


@step.register
def _(value: findings.CarriedTime) -> str:
    what = f"operand {value.operand} through {value.name.replace('_', ' ')} ({value.code})"
    return f"{what}: {_decimal(value.cycles)} - {_decimal(value.own)} = {_decimal(value.cycles - value.own)} cycles"


@step.register
def _(value: findings.MovedToItself) -> str:
    return f"a move of a register to itself executes {_decimal(value.uops)} µops"


@step.register
def _(value: findings.HeldMoves) -> str:
    times = ", ".join(f"{_decimal(one.cycles)} with {one.held}" for one in value.times)
    told = "no limit is seen" if value.slots is None else f"{value.slots} physical registers can be shared"
    return f"cycles per move, with pairs of registers that share a physical one: {times}; {told}"


@step.register
def _(value: findings.MovesCounted) -> str:
    each = f"{_decimal(value.executed)} µops and {_decimal(value.cycles)} cycles each"
    return f"{value.moves} moves of one register to others: {each}"


@step.register
def _(value: findings.PartialWrite) -> str:
    uops = "" if value.uops is None else f", {_decimal(value.uops)} µops more"
    both = f"{_decimal(value.both)} with a read of all of it, which takes {_decimal(value.read)} alone{uops}"
    told = "the part is renamed apart" if value.apart else "the part is not renamed apart"
    return f"writing a part of a register takes {_decimal(value.written)} cycles{both}: {told}"


@step.register
def _(value: findings.DecidedBy) -> str:
    return f"decided by the stage: {value.stage}"


@step.register
def _(value: findings.PortsFound) -> str:
    return f"= {_usage(value.usage)}" + (", each set's µops less those of its subsets" if value.subtracted else "")


@step.register
def _(value: findings.PrologueRemoved) -> str:
    return f"{value.together} together with its prologue and epilogue; these alone: {value.prologue}"


@step.register
def _(value: findings.Elimination) -> str:
    return f"each instance takes a slot, and {_decimal(value.seen)} of them were seen on a port"


@step.register
def _(value: findings.FusionShare) -> str:
    return f"{' and '.join(value.jumps)}: {_decimal(value.saved)} {value.counter} less per pair than apart"


@step.register
def _(value: findings.FusionTime) -> str:
    saved = ", ".join(map(_decimal, value.saved)) or "time does not depend on one µop more"
    return f"{value.jump}: saves, in fillers: {saved}"


@step.register
def _(value: findings.FusionUnknown) -> str:
    return f"cannot be told: {' '.join(value.jumps)}"


# Failures


def reason(value: Failure) -> str:
    """Return what failures of the same kind have in common, for counting them: without figures and names.

    A message whose meaning is not known stands for itself, up to the end of its first line.
    """
    match value:
        case findings.NotRun():
            return f"a {value.code.value} {_STATUSES[value.status]}"
        case findings.NoLatency():
            return f"no latency: {reason(value.why) if value.why else NO_CHAIN}"
        case findings.NoPorts():
            return f"no ports{_of_form(value.form)}: {reason(value.why)}"
        case findings.PrologueUnknown():
            return f"ports of its prologue and epilogue: {reason(value.why)}"
        case findings.Stated(reason=stated):
            return stated
    return _REASONS.get(type(value)) or failure(value).partition("\n")[0]


NO_CHAIN = "no chain could be built"

_REASONS: dict[type[Failure], str] = {
    findings.NotGenerated: "code for it cannot be made",
    findings.LinksMissing: "this CPU lacks the chain instructions",
    findings.FractionalUops: "the µops per port add up to no integer",
    findings.UopsDisagree: "counters disagree about the number of µops",
    findings.TooManyUops: "too many µops to be told apart by blocking ports",
    findings.OnlyBounds: "its µops fill the scheduler",
    findings.Indistinguishable: "several port usages cannot be told apart",
    findings.TooManyUsages: "more port usages explain the answers than can be listed",
    findings.Unplaced: "some µops use more ports than can be kept busy, or none",
    findings.Delays: "it delays what uses some ports, whether it has µops there or not",
    findings.Unexplained: "mixes take times that no port usage explains",
    findings.TooNoisy: "the machine was too busy for ports by time",
    findings.NoUsage: "no port usage explains the answers",
    findings.NotCounted: "its µops are on ports without counters",
    findings.EliminatedPorts: "the ports of instances that are not eliminated cannot be told",
    findings.PrologueNotPart: "its prologue and epilogue use ports that the whole does not use",
}

_STATUSES = {
    Status.OK: "took no time",
    Status.FAULTED: "faulted",
    Status.TIMED_OUT: "timed out",
    Status.UNCLEAN: "was disturbed in every run",
    Status.REFUSED: "was refused",
}


@singledispatch
def failure(value: Failure) -> str:
    """Say a failure."""
    raise NotImplementedError(type(value).__name__)


@failure.register
def _(value: Text) -> str:
    return value.text


@failure.register
def _(value: findings.Stated) -> str:
    return value.text


@failure.register
def _(value: findings.NotGenerated) -> str:
    return value.reason


@failure.register
def _(value: findings.NotRun) -> str:
    return f"a {value.code.value} {_STATUSES[value.status]}{f': {value.detail}' if value.detail else ''}"


@failure.register
def _(value: findings.LinksMissing) -> str:
    return f"this CPU lacks the chain instructions {value.route}"


@failure.register
def _(value: findings.NoLatency) -> str:
    why = failure(value.why) if value.why else NO_CHAIN
    return f"latency {latency_name(value.latency, None)}: {why}"


@failure.register
def _(value: findings.NoPorts) -> str:
    return f"ports{_of_form(value.form)}: {failure(value.why)}"


def _of_form(form: Form) -> str:
    return f" ({form.words})" if form.words else ""


@failure.register
def _(value: findings.FractionalUops) -> str:
    return f"the µops per port add up to {_decimal(value.total)}, which is not an integer"


@failure.register
def _(value: findings.UopsDisagree) -> str:
    return f"{value.executed} µops are executed by their own counter, {value.on_ports} by those of the ports"


@failure.register
def _(value: findings.TooManyUops) -> str:
    return f"{value.uops} µops are too many to be told apart by blocking ports"


@failure.register
def _(value: findings.OnlyBounds) -> str:
    bounds = ", ".join(f"{one.uops} to {port_set_name(one.ports)}" for one in value.bounds)
    return (
        f"{value.uops} µops fill the scheduler, so that blocked ports run dry and no count is exact; confined are at "
        f"most {bounds}"
    )


@failure.register
def _(value: findings.Indistinguishable) -> str:
    names = [*map(_usage, value.usages), *([f"{value.others} others"] if value.others else [])]
    answers = f" (answers: {_answers(value.answers)})" if value.answers else ""
    return f"these port usages cannot be told apart: {' or '.join(names)}{answers}"


@failure.register
def _(value: findings.Unplaced) -> str:
    slots = "an unknown number of slots" if value.slots is None else f"{value.slots} slots"
    return f"of {slots} these can be told: {_usage(value.usage)}; others use more ports than can be kept busy, or none"


@failure.register
def _(value: findings.Delays) -> str:
    return (
        f"elsewhere it uses {_usage(value.usage)}; on {_sets(value.sets)} it delays others for longer than µops would"
    )


@failure.register
def _(value: findings.TooNoisy) -> str:
    percent = _decimal(value.off * 100)
    return f"times are off by {percent}%, too much for ports by time: measure again when nothing else runs"


@failure.register
def _(value: findings.Unexplained) -> str:
    if not value.values:
        return "its mixes do not run"
    return f"no port usage explains the times of its mixes ({', '.join(map(_decimal, value.values))} µops)"


@failure.register
def _(value: findings.TooManyUsages) -> str:
    return f"more port usages explain the answers than can be listed: {_answers(value.answers)}"


@failure.register
def _(value: findings.NoUsage) -> str:
    return f"no port usage made of {_sets(value.sets)} explains the answers: {_answers(value.answers)}"


def _usage(usage: PortUsage) -> str:
    """Write a usage; that of an instruction without µops needs a word."""
    return str(usage) or "no port"


def _answers(answers: Iterable[Confined]) -> str:
    """Write answers, those about few ports first: `p06: 1, p0156: ≤2`."""
    ordered = sorted(answers, key=lambda one: (len(one.ports), sorted(one.ports)))
    texts = [f"{port_set_name(one.ports)}: {'' if one.exact else '≤'}{one.uops}" for one in ordered]
    return ", ".join(texts) or "isolation alone"


def _sets(sets: Iterable[PortSet]) -> str:
    return ", ".join(map(port_set_name, sorted(sets, key=lambda ports: (len(ports), sorted(ports)))))


@failure.register
def _(value: findings.NotCounted) -> str:
    return f"only {value.counted} ports have counters, and it uses none of them"


@failure.register
def _(value: findings.EliminatedPorts) -> str:
    return f"the ports of instances that are not eliminated cannot be told: {_sets(value.sets)}"


@failure.register
def _(value: findings.PrologueNotPart) -> str:
    return f"{value.together} together with its prologue and epilogue; these alone: {value.prologue}"


@failure.register
def _(value: findings.PrologueUnknown) -> str:
    return f"of its prologue and epilogue: {failure(value.why)}"
