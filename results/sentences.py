"""Derivations and failures as sentences, for tables, explanations, files and sites: nothing else words them."""

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


def _factor(value: Fraction) -> str:
    """Write a factor with three decimals, or two if these are exact: a product of rounded ones would be too far off."""
    return _decimal(value) if value * 100 % 1 == 0 else f"{float(value):.3f}"


def _uops(value: Fraction) -> str:
    """Write a number of µops for which there was time: a whole number without decimals, and no negative zero."""
    return str(value) if value.denominator == 1 else _decimal(value).replace("-0.00", "0.00")


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
        text += f"; in some repetitions {', '.join(_decimal(one / value.instances) for one in value.slower)}"
    return text if value.floor is None else f"{text}; too fast: {_FLOORS[value.limit]} {_decimal(value.floor)}"


_FLOORS = {
    Floor.PORTS: "its ports need",
    Floor.LONG_RUNS: "a longer window and a loop both take",
    Floor.AGAIN: "measured again, it takes",
}


@step.register
def _(value: findings.Chosen) -> str:
    return "the fastest sequence counts" if value.least else f"the sequence with {float(value.cycles):.4g} counts"


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
    Note.INDEPENDENT: "the chain takes less time than its links: the output does not depend on the input",
    Note.SPREAD_ADDED: "the upper bound includes the errors of samples and clock, so that noise cannot make it too low",
    Note.LENGTHS_DISAGREE: "chains of different lengths disagree: something besides latency takes time, so this is an "
    "upper bound",
    Note.NOT_REPEATED: "a second measurement gave the same whole number but another fraction: the whole number counts",
    Note.PASSES_DIFFER: "each pass takes whole cycles: the fraction is the mean of shorter and longer passes",
    Note.NOT_ALWAYS_ELIMINATED: "another latency of this output is 0 in some passes and 1 in others, so this is 1 at "
    "most",
    Note.NO_SLOTS_LEFT: "each slot has its µop on these sets: it has none on those of other registers",
    Note.UNLIKE_REGISTERS: "that is not the form with registers and a load, so all was measured once more:",
    Note.SEVERAL_ORDERS: "single times are too noisy: each is the mean of the middle ones of the same lines in several "
    "orders",
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
    ran = _time_of(value.total, value.ports) if value.timed else f"{float(value.total):.4g} µops on {name}"
    breakers = f" - {value.breakers} of dependency breakers" if value.breakers else ""
    left = value.total - value.blocking - value.breakers
    rest = _uops(left) if value.timed else f"{float(left):.2g}"
    bound = "" if value.most is None else f", at most {value.most}"
    return f"with {name} kept busy by {kept}: {ran} - {value.blocking}{breakers} = {rest}{bound}"


@step.register
def _(value: findings.ManyInstances) -> str:
    name = port_set_name(value.ports)
    each = (value.total - value.blocked_by.count) / value.instances
    sum_ = f"({_time_of(value.total, value.ports)} - {value.blocked_by.count}) / {value.instances} = {_decimal(each)}"
    return f"with {name} kept busy by {_blocked(value.blocked_by)}, {value.instances} instances: at most {sum_} each"


@step.register
def _(value: findings.PartsCompared) -> str:
    beside = " and ".join(map(_blocked, value.beside))
    allowed = ", ".join(f"{one.usage} allows {_decimal(one.cycles)}" for one in value.allowed)
    return f"{value.instances} instances beside {beside}: {_decimal(value.cycles)} cycles; {allowed}"


def _time_of(uops: Fraction, ports: PortSet) -> str:
    """Return the time that a set of ports had for so many µops."""
    return f"{_factor(uops / len(ports))} cycles x {len(ports)} {'ports' if len(ports) > 1 else 'port'}"


@step.register
def _(value: findings.SlotsFound) -> str:
    slots = f"{_factor(value.cycles)} cycles x {_factor(value.width)} - {value.filler.count}"
    return (
        f"among {_blocked(value.filler)}: {slots} = {_decimal(value.cycles * value.width - value.filler.count)} "
        "issue slots"
    )


def _blocked(blocked: Blocked) -> str:
    return f"{blocked.count} x {blocked.string}"


@step.register
def _(value: findings.PortControl) -> str:
    name = port_set_name(value.ports)
    return f"control: of {_blocked(value.other)} in its place, which need not run on {name}, {float(value.ran):.2g} do"


@step.register
def _(value: findings.LongerSequence) -> str:
    return f"a longer sequence is faster: {value.instances} instances take {_decimal(value.cycles)} cycles each"


@step.register
def _(value: findings.DecodedCount) -> str:
    uops = "no whole number" if value.uops is None else str(value.uops)
    return f"{_decimal(value.total)} µops from the decoders - {value.nops} NOPs = {uops}"


@step.register
def _(value: findings.DecoderGroups) -> str:
    times = ", ".join(f"{_decimal(one.cycles)} cycles with {one.nops} NOPs" for one in value.times)
    how = "" if value.counted else "by time alone (no counter of decoded µops): "
    return f"{how}an instance takes {times}; the core has {value.width} decoders"


@step.register
def _(value: findings.BufferFull) -> str:
    what = f"a chain of {value.links} links is as long; with {value.nops} NOPs it takes {_decimal(value.cycles)} cycles"
    return f"for comparison, {what}; its issue slots alone take {_decimal(value.slots_cycles)}"


@step.register
def _(value: findings.DecodersFound) -> str:
    if value.which is Decoders.ANY:
        return "each further NOP takes a fraction of a cycle: any decoder can decode the instruction"
    if value.which is Decoders.UNKNOWN:
        return "the times fit no number of decoders"
    beside = f"only the first decoder can decode the instruction, and {value.simple} others work in that cycle"
    return f"a further NOP takes a whole cycle or nothing: {beside}"


@step.register
def _(value: findings.DivisionTimes) -> str:
    times = ", ".join(f"{_decimal(one.cycles)} cycles with {one.divisions}" for one in value.times)
    rest = "the rest is unclear" if value.left is None else f"the rest is the instance's: {value.left}"
    return f"among divisions ({value.division}): {times}; each division takes {_decimal(value.each)}, {rest}"


@step.register
def _(value: findings.PartialFlagsTime) -> str:
    uops = "" if value.uops is None else f" and {_decimal(value.uops)} more µops"
    both = "" if value.both is None else f", {_decimal(value.both)} with the instruction in it{uops}"
    waits = "does not wait" if value.apart else "waits"
    told = f"it {waits} for the flags that it leaves unchanged"
    own = f"{_decimal(value.own)} through its own flags only"
    return f"a chain through flags takes {_decimal(value.whole)} cycles{both}, {own}: {told}"


@step.register
def _(value: findings.WrittenOver) -> str:
    times = f"{_decimal(value.alone)} cycles, {_decimal(value.overwritten)} if each result is overwritten at once"
    waits = "waits" if value.waits else "does not wait"
    return f"{times}: the instruction {waits} for its destination register"


@step.register
def _(value: findings.ClassTime) -> str:
    return f"{value.name.replace('_', ' ')} ({value.values}): {_decimal(value.cycles)} cycles"


@step.register
def _(value: findings.DomainTime) -> str:
    beyond = _decimal(value.cycles - value.links)
    times = f"{_decimal(value.cycles)} - {_decimal(value.links)} of the links = {beyond} cycles"
    return f"chain with links of the {value.domain} domain: {times}"


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
    told = "no limit found" if value.slots is None else f"{value.slots} physical registers can be shared"
    return f"cycles per move, by the number of other register pairs that share a physical register: {times}; {told}"


@step.register
def _(value: findings.MovesCounted) -> str:
    each = f"{_decimal(value.executed)} µops and {_decimal(value.cycles)} cycles each"
    return f"{value.moves} moves of one register to others: {each}"


@step.register
def _(value: findings.PartialWrite) -> str:
    uops = "" if value.uops is None else f" and {_decimal(value.uops)} µops more"
    both = f"{_decimal(value.both)} with a read of the whole register{uops}, which takes {_decimal(value.read)} alone"
    told = f"the part is {'' if value.apart else 'not '}renamed separately"
    told = "nothing tells whether the part is renamed separately" if value.apart is None else told
    return f"writing a part of a register takes {_decimal(value.written)} cycles, {both}: {told}"


@step.register
def _(value: findings.DecidedBy) -> str:
    return f"decided by stage: {value.stage}"


@step.register
def _(value: findings.PortsFound) -> str:
    note = ", after the µops of its subsets are subtracted from each set" if value.subtracted else ""
    return f"= {_usage(value.usage)}{note}"


@step.register
def _(value: findings.PrologueRemoved) -> str:
    return f"with prologue and epilogue: {value.together}; prologue and epilogue alone: {value.prologue}"


@step.register
def _(value: findings.Elimination) -> str:
    return f"each instance takes an issue slot, but only {_decimal(value.seen)} of them ran on a port"


@step.register
def _(value: findings.FusionShare) -> str:
    return f"{' and '.join(value.jumps)}: {_decimal(value.saved)} less {value.counter} per pair than separated"


@step.register
def _(value: findings.FusionTime) -> str:
    saved = ", ".join(map(_decimal, value.saved))
    told = f"a pair saves the time of {saved} fillers" if saved else "one µop more takes no more time"
    return f"{value.jump}: {told}"


@step.register
def _(value: findings.FusionUnknown) -> str:
    return f"not known: {' '.join(value.jumps)}"


# Failures


def reason(value: Failure) -> str:
    """Return what failures of the same kind have in common, for counting them: without figures and names.

    A failure of no known kind gives the first line of its message.
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
    findings.NotGenerated: "no code could be generated",
    findings.LinksMissing: "this CPU lacks the chain instructions",
    findings.FractionalUops: "the µops per port do not add up to an integer",
    findings.UopsDisagree: "counters disagree about the number of µops",
    findings.TooManyUops: "too many µops for blocking instructions to outweigh",
    findings.OnlyBounds: "only upper bounds are known",
    findings.Indistinguishable: "several port usages fit the measurements",
    findings.TooManyUsages: "too many port usages fit the measurements",
    findings.Unplaced: "some µops may use no port, or more ports than can be kept busy",
    findings.Delays: "it delays other µops for longer than µops of its own would",
    findings.Unexplained: "no port usage fits the times of its mixes",
    findings.WaitsForItself: "it waits too long for itself to be measured in mixes",
    findings.TooNoisy: "the machine was too busy for ports by time",
    findings.NoUsage: "no port usage fits the measurements",
    findings.NotCounted: "its µops are on ports without counters",
    findings.EliminatedPorts: "the ports of instances that are not eliminated are not known",
    findings.PrologueNotPart: "its prologue and epilogue use ports that the whole sequence does not use",
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
    return f"the µops per port add up to {_decimal(value.total)}, not to an integer"


@failure.register
def _(value: findings.UopsDisagree) -> str:
    return f"the counter of executed µops says {value.executed}, those of the ports add up to {value.on_ports}"


@failure.register
def _(value: findings.TooManyUops) -> str:
    return f"no number of blocking instructions outweighs {value.uops} µops"


@failure.register
def _(value: findings.OnlyBounds) -> str:
    bounds = ", ".join(f"at most {one.uops} to {port_set_name(one.ports)}" for one in value.bounds)
    if value.fills_scheduler:
        return f"its {value.uops} µops fill the scheduler, and blocked ports run dry; confined are {bounds}"
    return f"only upper bounds are known; confined are {bounds}"


@failure.register
def _(value: findings.Indistinguishable) -> str:
    names = [*map(_usage, value.usages), *([f"{value.others} others"] if value.others else [])]
    answers = f" (answers: {_answers(value.answers)})" if value.answers else ""
    rest = "" if value.slots is None else f"; the rest of its {value.slots} issue slots uses {_NOT_BUSY}"
    if len(names) == 1:
        return f"only {names[0]} fits, but not all answers are exact{answers}{rest}"
    return f"several port usages fit: {' or '.join(names)}{answers}{rest}"


_TOO_MANY = "more ports than can be kept busy"
_NOT_BUSY = f"no port, or {_TOO_MANY}"


@failure.register
def _(value: findings.Unplaced) -> str:
    known = f"only {value.usage} is known" if value.usage.uops else "no port is known"
    if value.slots is None:
        return f"{known}, and not how many issue slots it has; any other µop uses {_NOT_BUSY}"
    slots = f"{value.slots} issue slot{'s' * (value.slots != 1)}"
    if not value.usage.uops:
        return f"{known} of its {slots}: {'it uses' if value.slots == 1 else 'they use'} {_NOT_BUSY}"
    if value.usage.total < value.slots:
        return f"{known} of its {slots}; the rest uses {_NOT_BUSY}"
    which = "its issue slot" if value.slots == 1 else f"one of its {slots}"
    return f"{known}; {which} may hold another µop, on {_TOO_MANY}"


@failure.register
def _(value: findings.Delays) -> str:
    usage = f"on other ports it has {_usage(value.usage)}"
    return f"on {_sets(value.sets)} it delays other µops for longer than µops of its own would; {usage}"


@failure.register
def _(value: findings.WaitsForItself) -> str:
    return f"it waits {_decimal(value.cycles)} cycles for itself, too long to be measured in mixes"


@failure.register
def _(value: findings.TooNoisy) -> str:
    percent = _decimal(value.off * 100)
    return f"times are off by {percent}%, too much for ports by time: measure again when nothing else runs"


@failure.register
def _(value: findings.Unexplained) -> str:
    if not value.values:
        return "its mixes do not run"
    return f"no port usage fits the times of its mixes ({', '.join(map(_decimal, value.values))} µops)"


@failure.register
def _(value: findings.TooManyUsages) -> str:
    return f"too many port usages fit: {_answers(value.answers)}"


@failure.register
def _(value: findings.NoUsage) -> str:
    return f"no port usage of {_sets(value.sets)} fits the answers: {_answers(value.answers)}"


def _usage(usage: PortUsage) -> str:
    """Write a usage, an empty one as words."""
    return str(usage) or "no port"


def _answers(answers: Iterable[Confined]) -> str:
    """Write answers, those about the fewest ports first: `p06: 1, p0156: ≤2`."""
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
    return f"instances that are not eliminated use one of these port sets: {_sets(value.sets)}"


@failure.register
def _(value: findings.PrologueNotPart) -> str:
    return f"its prologue and epilogue alone use {value.prologue}, but the whole sequence uses only {value.together}"


@failure.register
def _(value: findings.PrologueUnknown) -> str:
    return f"prologue and epilogue: {failure(value.why)}"
