"""The reasons for numbers and for missing numbers, as data: steps of derivations, and failures.

`results.sentences` has a sentence for each kind. To add a kind, write a class here and its sentence there. Port sets
are sets of one-character port names; cycles and µops are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping  # noqa: TC003 - files are read by the types of fields
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction  # noqa: TC003 - files are read by the types of fields
from typing import TypeAlias

from results.model import Characterization, Failure, Form, LatencyKey, PortUsage, Status, Step
from results.ports import common_part, least_choice

PortSet: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Text(Step, Failure):
    """A sentence of unknown structure: from a file that has only sentences, or a message of another program."""

    text: str


# Steps of derivations


class Floor(StrEnum):
    """The source of a lower bound on a sequence's time."""

    PORTS = "ports"
    LONG_RUNS = "long runs"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class SequenceTime(Step):
    """The core cycles of a sequence of `instances`.

    If the time per instance is too short to be true, `floor` is the least possible time in cycles, and `limit` its
    source. `slower` are the core cycles of the sequence in slower rhythms, which some repetitions had.
    """

    purpose: str
    cycles: Fraction
    instances: int
    floor: Fraction | None = None
    limit: Floor = Floor.PORTS
    slower: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        """Check the number of instances, since files may hold anything.

        Raises:
            ValueError: there is no instance.
        """
        if self.instances < 1:
            raise ValueError(f"a sequence of {self.instances} instances")


@dataclass(frozen=True, slots=True)
class Chosen(Step):
    """Which of several sequences counts, by its cycles per instance; `least`: it is the fastest of them."""

    cycles: Fraction
    least: bool


@dataclass(frozen=True, slots=True)
class LinkShare:
    """Latency of `count` equal links of a chain, in cycles each, and the experiment that measured it ("": none)."""

    name: str
    count: int
    cycles: Fraction
    exact: bool
    experiment: str = ""


@dataclass(frozen=True, slots=True)
class ChainTime(Step):
    """A chain: `cycles` less those of its links, divided by its `instances`, is the `latency`.

    `cross_domain` is the number of links between register files with unknown latency: each takes at least one cycle.
    """

    cycles: Fraction
    links: tuple[LinkShare, ...]
    latency: Fraction
    exact: bool
    cross_domain: int = 0
    instances: int = 1


class Note(StrEnum):
    """Conclusions from all chains of a pair, or from all mixes of an instruction, together."""

    INDEPENDENT = "independent"
    LENGTHS_DISAGREE = "lengths disagree"
    SPREAD_ADDED = "spread added"
    NOT_REPEATED = "not repeated"
    PASSES_DIFFER = "passes differ"
    NOT_ALWAYS_ELIMINATED = "not always eliminated"
    NO_SLOTS_LEFT = "no slots left"
    UNLIKE_REGISTERS = "unlike registers"
    SEVERAL_ORDERS = "several orders"


@dataclass(frozen=True, slots=True)
class Remark(Step):
    """A conclusion that needs no figures."""

    note: Note


@dataclass(frozen=True, slots=True)
class About(Step):
    """The following steps are about this pair of operands, one of several with the same latency."""

    latency: LatencyKey


@dataclass(frozen=True, slots=True)
class NotPlanned(Step):
    """The reason why no latency was measured for a pair (None: for all pairs)."""

    latency: LatencyKey | None
    reason: str


@dataclass(frozen=True, slots=True)
class LoadAlone(Step):
    """µops per instance, by port counter, with no port blocked."""

    uops: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Blocked:
    """A number of blocking instructions, by the string of their variant."""

    count: int
    string: str


@dataclass(frozen=True, slots=True)
class PortAnswer(Step):
    """The µops that ran on `ports` while blocking instructions kept these busy.

    `total` µops ran there per copy (`timed`: there was time for that many). Of these, `blocking` belong to the blocking
    instructions and `breakers` to dependency breakers. The difference is the answer. If it is only an upper bound,
    `most` is that bound. `in_turns`: the blocking instructions alternate.
    """

    ports: PortSet
    blocked_by: tuple[Blocked, ...]
    total: Fraction
    blocking: int
    breakers: int = 0
    timed: bool = False
    most: int | None = None
    in_turns: bool = False


@dataclass(frozen=True, slots=True)
class ManyInstances(Step):
    """Many instances among blocking instructions: `total` is the number of µops for which there was time on `ports`."""

    ports: PortSet
    blocked_by: Blocked
    instances: int
    total: Fraction


@dataclass(frozen=True, slots=True)
class UsageTime:
    """The least cycles with a usage: those of its ports, of issue slots, and of what waits for itself."""

    usage: PortUsage
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class PartsCompared(Step):
    """The cycles of many instances beside others, and what they would take at least with each of several usages."""

    beside: tuple[Blocked, ...]
    instances: int
    cycles: Fraction
    allowed: tuple[UsageTime, ...]


@dataclass(frozen=True, slots=True)
class SlotsFound(Step):
    """The cycles of one instance among filler; filler of the same lengths is issued at `width` slots per cycle."""

    filler: Blocked
    cycles: Fraction
    width: Fraction


@dataclass(frozen=True, slots=True)
class PortControl(Step):
    """The same experiment with an instruction that does not need `ports`; `ran` of its µops used them."""

    other: Blocked
    ports: PortSet
    ran: Fraction


@dataclass(frozen=True, slots=True)
class LongerSequence(Step):
    """A longer sequence, which takes fewer `cycles` per instance than the first."""

    instances: int
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class DecodedCount(Step):
    """µops from the decoders for one instance and `nops` NOPs; `uops` are those of the instance (None: unclear)."""

    total: Fraction
    nops: int
    uops: int | None


@dataclass(frozen=True, slots=True)
class NopTime:
    """The core cycles of an instance and `nops` NOPs."""

    nops: int
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class DecoderGroups(Step):
    """Times of instances with NOPs, with `width` decoders; `counted`: a counter shows that µops come from these."""

    times: tuple[NopTime, ...]
    width: int
    counted: bool = True


@dataclass(frozen=True, slots=True)
class BufferFull(Step):
    """A chain of `links` links with the latency of an instance, and NOPs: its cycles, and those of its issue slots.

    If it takes longer than its slots, the reorder buffer is full at times, which looks like decode groups.
    """

    links: int
    nops: int
    cycles: Fraction
    slots_cycles: Fraction


class Decoders(StrEnum):
    """The decoders that can decode an instruction."""

    ANY = "any"
    FIRST = "first"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DecodersFound(Step):
    """The decoders that can decode an instruction; `simple` others work in the same cycle as the first."""

    which: Decoders
    simple: int = 0


@dataclass(frozen=True, slots=True)
class DivisionTime:
    """Cycles of an instance among `divisions` divisions."""

    divisions: int
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class DivisionTimes(Step):
    """Times of an instance among divisions of `each` cycles; `left` is its own time on the divider (None: unclear)."""

    division: str
    times: tuple[DivisionTime, ...]
    each: Fraction
    left: int | None


@dataclass(frozen=True, slots=True)
class PartialFlagsTime(Step):
    """Cycles of a chain through flags of TEST, without and with an instruction in it that writes only some flags.

    `whole` is the chain without it. `both` reads flags of TEST and of the instruction (None: it leaves flags unchanged
    only on a condition), `own` only flags of the instruction. `uops` are additional µops, of neither the chain nor the
    instruction (None: not counted). `apart`: the instruction does not wait for the flags that it leaves unchanged.
    """

    whole: Fraction
    both: Fraction | None
    own: Fraction
    uops: Fraction | None
    apart: bool


@dataclass(frozen=True, slots=True)
class WrittenOver(Step):
    """Cycles of instances that all write one register, and of the same with each result overwritten at once."""

    alone: Fraction
    overwritten: Fraction
    waits: bool


@dataclass(frozen=True, slots=True)
class ClassTime(Step):
    """Cycles with operand values of a class; the first such step of a derivation has the usual values."""

    name: str
    values: str
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class DomainTime(Step):
    """Cycles of a chain whose links are of one domain, and those of its links alone."""

    domain: str
    cycles: Fraction
    links: Fraction


@dataclass(frozen=True, slots=True)
class ProducerTime(Step):
    """Cycles of a chain, per copy, after a producer of operands that the chain only reads.

    `operands` are the indices of these (none: the upper halves of vectors), `code` is the producer.
    """

    name: str
    operands: tuple[int, ...]
    code: str
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class CarriedTime(Step):
    """Cycles of a chain that goes through a producer of an operand, and those that the producer takes by itself.

    `code` is the producer.
    """

    name: str
    operand: str
    code: str
    cycles: Fraction
    own: Fraction


@dataclass(frozen=True, slots=True)
class MovedToItself(Step):
    """µops executed for a move of a register to itself."""

    uops: Fraction


@dataclass(frozen=True, slots=True)
class MoveTime:
    """Cycles of a move in a chain while `held` other pairs of registers share physical registers."""

    held: int
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class HeldMoves(Step):
    """Times of a move in a chain with a growing number of pairs, and the number of elimination slots.

    None: no limit was found, or the times are unclear.
    """

    times: tuple[MoveTime, ...]
    slots: int | None


@dataclass(frozen=True, slots=True)
class MovesCounted(Step):
    """µops and cycles per move, for moves of one register to `moves` others."""

    moves: int
    executed: Fraction
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class PartialWrite(Step):
    """Cycles of writes to a part of a register, and of the same with a read of the whole register after each write.

    `read` are the cycles of that read alone; `uops` are additional µops, of neither the write nor the read (None: not
    counted). `apart`: the part is renamed separately (None: nothing tells).
    """

    written: Fraction
    both: Fraction
    read: Fraction
    uops: Fraction | None
    apart: bool | None


@dataclass(frozen=True, slots=True)
class DecidedBy(Step):
    """The stage of port inference (`inference.ports.stages`) after which no other one changed the conclusion."""

    stage: str


@dataclass(frozen=True, slots=True)
class PortsFound(Step):
    """The port usage that follows; `subtracted`: the µops of its subsets were subtracted from each set."""

    usage: PortUsage
    subtracted: bool = False


@dataclass(frozen=True, slots=True)
class PrologueRemoved(Step):
    """Port usage of an instruction with its prologue and epilogue, and of the latter alone, which is subtracted."""

    together: PortUsage
    prologue: PortUsage


@dataclass(frozen=True, slots=True)
class Elimination(Step):
    """The share of instances that ran on a port; the others are eliminated at rename."""

    seen: Fraction


@dataclass(frozen=True, slots=True)
class FusionShare(Step):
    """How much less a counter counts per pair with one of these jumps than with the two instructions separated."""

    jumps: tuple[str, ...]
    counter: str
    saved: Fraction


@dataclass(frozen=True, slots=True)
class FusionTime(Step):
    """Time saved by a pair with this jump, in fillers, by kind of filler (none: time does not show it)."""

    jump: str
    saved: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class FusionUnknown(Step):
    """Jumps for which neither counters nor time show whether they fuse."""

    jumps: tuple[str, ...]


# Failures


class Code(StrEnum):
    """The kind of a microbenchmark."""

    SEQUENCE = "throughput sequence"
    PROLOGUE = "prologue and epilogue"
    CHAIN = "chain"


@dataclass(frozen=True, slots=True)
class NotGenerated(Failure):
    """No code for the variant could be generated; `reason` is the generator's message."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotRun(Failure):
    """Code did not run to its end; `detail` is the backend's message."""

    code: Code
    status: Status
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LinksMissing(Failure):
    """The machine lacks the chain instructions of a route."""

    route: str


@dataclass(frozen=True, slots=True)
class NoLatency(Failure):
    """The latency of a pair is not known."""

    latency: LatencyKey
    why: Failure | None = None


@dataclass(frozen=True, slots=True)
class Confined:
    """How many µops are confined to a port set: exactly, or at most."""

    ports: PortSet
    uops: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class FractionalUops(Failure):
    """The µops per port add up to no integer."""

    total: Fraction


@dataclass(frozen=True, slots=True)
class UopsDisagree(Failure):
    """The counter of executed µops and those of the ports do not add up to the same number."""

    executed: int
    on_ports: int


@dataclass(frozen=True, slots=True)
class TooManyUops(Failure):
    """No number of blocking instructions outweighs this many µops."""

    uops: int


@dataclass(frozen=True, slots=True)
class OnlyBounds(Failure):
    """Only upper bounds are known, and too many usages are within them.

    `fills_scheduler`: the µops fill the scheduler, and blocked ports run dry.
    """

    uops: int
    bounds: tuple[Confined, ...]
    fills_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class Indistinguishable(Failure):
    """Several usages fit every answer: some of them, and the number of `others`.

    By time alone, `slots` is the number of issue slots if there are more than µops in these usages. The rest uses no
    port, or more ports than can be kept busy.
    """

    usages: tuple[PortUsage, ...]
    others: int = 0
    answers: tuple[Confined, ...] = ()
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Unplaced(Failure):
    """By time alone: some µops are confined to sets that can be blocked (`usage`), the others are not.

    `slots` is the number of issue slots (None: not known). The others use no port, or more ports than can be kept busy.
    If each slot has its µop, one may hold another one, which does so.
    """

    usage: PortUsage
    slots: int | None


@dataclass(frozen=True, slots=True)
class Delays(Failure):
    """By time alone: it delays µops on `sets` for longer than µops of its own would; `usage` are those on others.

    `slots` is the number of issue slots (None: not known).
    """

    sets: tuple[PortSet, ...]
    usage: PortUsage
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Unexplained(Failure):
    """By time alone: no usage fits the times of its mixes; `values` are the µops for which there was time."""

    values: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class WaitsForItself(Failure):
    """By time alone: an instance waits so many cycles for the one before it that blocked ports have too much time."""

    cycles: Fraction


@dataclass(frozen=True, slots=True)
class TooNoisy(Failure):
    """By time alone: the machine's times are off by the share `off`, too much for ports by time."""

    off: Fraction


@dataclass(frozen=True, slots=True)
class TooManyUsages(Failure):
    """Too many usages fit the answers to list them."""

    answers: tuple[Confined, ...]


@dataclass(frozen=True, slots=True)
class NoUsage(Failure):
    """No usage of these port sets fits the answers."""

    sets: tuple[PortSet, ...]
    answers: tuple[Confined, ...]


@dataclass(frozen=True, slots=True)
class EliminatedPorts(Failure):
    """Instances that are not eliminated at rename use one of these port sets; which one is not known."""

    sets: tuple[PortSet, ...]


@dataclass(frozen=True, slots=True)
class NotCounted(Failure):
    """Only ports of one kind have counters, and these counted nothing."""

    counted: str


@dataclass(frozen=True, slots=True)
class PrologueNotPart(Failure):
    """The prologue and epilogue alone use ports that the whole sequence does not use."""

    together: PortUsage
    prologue: PortUsage


@dataclass(frozen=True, slots=True)
class PrologueUnknown(Failure):
    """The ports of the prologue and epilogue are not known, so neither are those of the instruction."""

    why: Failure


@dataclass(frozen=True, slots=True)
class NoPorts(Failure):
    """The port usage of a form is not known."""

    form: Form
    why: Failure


def known_part(failure: Failure) -> PortUsage:
    """Return the µops that an instruction surely has, although not all of its port usage is known."""
    if isinstance(failure, (Unplaced, Delays)):
        return failure.usage
    if isinstance(failure, Indistinguishable) and not failure.others:
        return common_part(failure.usages)
    return PortUsage({})


def certain_ports(failures: Iterable[Failure]) -> PortUsage:
    """Return the µops that an instruction surely has, from what failed: none if its usage is known, or nothing is."""
    parts = map(known_part, _why_no_ports(failures))
    return next((part for part in parts if part.total), PortUsage({}))


def issue_slots(failures: Iterable[Failure]) -> int | None:
    """Return the issue slots of an instruction of which not all ports are known, None if they are not known either."""
    return next((why.slots for why in _why_no_ports(failures) if isinstance(why, (Unplaced, Delays))), None)


def ports_if_any(result: Characterization) -> int | None:
    """Return how many ports its µops have to choose from at least, if they use any: so it is with NOPs by time alone.

    None: a µop of it is confined to ports that are known, or it is too slow to tell, or something else is not known.
    """
    is_free = any(isinstance(why, Unplaced) and not why.usage.total for why in _why_no_ports(result.failures))
    return least_choice((result.throughput.unrolled, result.throughput.loop)) if is_free else None


def _why_no_ports(failures: Iterable[Failure]) -> Iterator[Failure]:
    """Yield why the port usage of the plain form is not known."""
    return (one.why for one in failures if isinstance(one, NoPorts) and one.form is Form.PLAIN)


def is_by_time(result: Characterization) -> bool:
    """Whether its ports, or those µops of it that are certain, were found by time alone: µops were not counted then."""
    return bool(result.attributes.get("ports_by_time")) or (
        result.uops is None and certain_ports(result.failures).total > 0
    )


@dataclass(frozen=True, slots=True)
class Stated(Failure):
    """A failure from a database file: the kind, and the sentence."""

    reason: str
    text: str


KINDS: Mapping[str, type[Step | Failure]] = {
    name: kind
    for name, kind in tuple(vars().items())
    if isinstance(kind, type) and issubclass(kind, Step | Failure) and kind not in {Step, Failure}
}
"""All kinds by the name that files have for them."""
