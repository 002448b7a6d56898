"""Why a number is what it is, and why there is none: steps of derivations and failures, as data.

Nothing here is a sentence; `results.sentences` makes sentences of it. To add a kind, write a class here and its
sentence there. Port sets are sets of one-character port names; cycles and µops are exact.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - files are read by the types of fields
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction  # noqa: TC003 - files are read by the types of fields
from typing import TypeAlias

from results.model import Failure, Form, LatencyKey, PortUsage, Status, Step

PortSet: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Text(Step, Failure):
    """A sentence that no program takes apart: from a file that has only sentences, or a message of another program."""

    text: str


# Steps of derivations


class Floor(StrEnum):
    """What a sequence cannot be faster than."""

    PORTS = "ports"
    LONG_RUNS = "long runs"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class SequenceTime(Step):
    """The core cycles of a sequence of `instances`.

    Where an instance takes less than is possible, `floor` is the least time in cycles, and `limit` says what sets it.
    `slower` are the core cycles of the sequence in other rhythms, which the core fell into in some repetitions.
    """

    purpose: str
    cycles: Fraction
    instances: int
    floor: Fraction | None = None
    limit: Floor = Floor.PORTS
    slower: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no sequence has; files may hold anything.

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
    """What `count` equal links of a chain take, in cycles each, and the experiment that says so ("": none)."""

    name: str
    count: int
    cycles: Fraction
    exact: bool
    experiment: str = ""


@dataclass(frozen=True, slots=True)
class ChainTime(Step):
    """A chain: `cycles` less those of its links, divided by its `instances`, is the `latency`.

    `cross_domain` counts links between register files whose latency is not known: each takes one cycle at least.
    """

    cycles: Fraction
    links: tuple[LinkShare, ...]
    latency: Fraction
    exact: bool
    cross_domain: int = 0
    instances: int = 1


class Note(StrEnum):
    """What follows from all chains of a pair together."""

    INDEPENDENT = "independent"
    LENGTHS_DISAGREE = "lengths disagree"
    SPREAD_ADDED = "spread added"
    NOT_REPEATED = "not repeated"
    PASSES_DIFFER = "passes differ"


@dataclass(frozen=True, slots=True)
class Remark(Step):
    """A conclusion that needs no figures."""

    note: Note


@dataclass(frozen=True, slots=True)
class About(Step):
    """The steps that follow are about this pair of operands, one of several that have the same latency."""

    latency: LatencyKey


@dataclass(frozen=True, slots=True)
class NotPlanned(Step):
    """No latency was measured for a pair (None: for any), and why."""

    latency: LatencyKey | None
    reason: str


@dataclass(frozen=True, slots=True)
class LoadAlone(Step):
    """µops per instance, by port counter, with no port blocked."""

    uops: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Blocked:
    """So many blocking instructions, by the string of their variant."""

    count: int
    string: str


@dataclass(frozen=True, slots=True)
class PortAnswer(Step):
    """What ran on `ports` while blocking instructions kept them busy.

    `total` µops ran there per copy (`timed`: that many had time to). Of these `blocking` are of the blocking
    instructions and `breakers` of dependency breakers. The difference is the answer; where it is only an upper bound,
    that is `most`. `in_turns` tells whether the blocking instructions alternate.
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
    """Many instances among blocking instructions had time for `total` µops on `ports`: at most so many were there."""

    ports: PortSet
    blocked_by: Blocked
    instances: int
    total: Fraction


@dataclass(frozen=True, slots=True)
class SlotsFound(Step):
    """One instance among filler took so many cycles, in each of which `width` slots of filler like it are issued."""

    filler: Blocked
    cycles: Fraction
    width: Fraction


@dataclass(frozen=True, slots=True)
class PortControl(Step):
    """The same experiment with copies of another instruction, none of which needs `ports`; `ran` of its µops did."""

    other: Blocked
    ports: PortSet
    ran: Fraction


@dataclass(frozen=True, slots=True)
class LongerSequence(Step):
    """A sequence of more instances, which takes fewer `cycles` per instance than the first one."""

    instances: int
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class DecodedCount(Step):
    """µops from the decoders in code of one instance and so many NOPs; `uops` are the instance's (None: unclear)."""

    total: Fraction
    nops: int
    uops: int | None


@dataclass(frozen=True, slots=True)
class NopTime:
    """The core cycles of an instance and so many NOPs."""

    nops: int
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class DecoderGroups(Step):
    """How long instances with NOPs take while `width` decoders work; `counted`: the decoders are known to deliver."""

    times: tuple[NopTime, ...]
    width: int
    counted: bool = True


@dataclass(frozen=True, slots=True)
class BufferFull(Step):
    """Cycles of a chain of so many links that lasts as long as an instance, with NOPs, and those that its slots take.

    If it takes longer the reorder buffer is full at times, which looks like groups of decoders.
    """

    links: int
    nops: int
    cycles: Fraction
    slots_cycles: Fraction


class Decoders(StrEnum):
    """Which decoders take an instruction."""

    ANY = "any"
    FIRST = "first"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DecodersFound(Step):
    """Which decoders take an instruction; beside the first one, `simple` others work in the same cycle."""

    which: Decoders
    simple: int = 0


@dataclass(frozen=True, slots=True)
class DivisionTime:
    """Cycles of an instance among so many divisions."""

    divisions: int
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class DivisionTimes(Step):
    """How long an instance takes among divisions of `each` cycles; `left` is its own time on the divider (None: ?)."""

    division: str
    times: tuple[DivisionTime, ...]
    each: Fraction
    left: int | None


@dataclass(frozen=True, slots=True)
class PartialFlagsTime(Step):
    """Cycles of a chain through flags of TEST, and with an instruction between that writes only some of them.

    `whole` is the chain alone; `both` reads flags of TEST and of the instruction (None: it keeps flags on a condition
    only), `own` only those of the instruction.
    `uops` are those that are neither the chain's nor the instruction's (None: not counted). `apart`: the instruction
    does not wait for the flags that it keeps.
    """

    whole: Fraction
    both: Fraction | None
    own: Fraction
    uops: Fraction | None
    apart: bool


@dataclass(frozen=True, slots=True)
class WrittenOver(Step):
    """Cycles of an instance that writes one register over and over, and with its result overwritten each time."""

    alone: Fraction
    overwritten: Fraction
    waits: bool


@dataclass(frozen=True, slots=True)
class ClassTime(Step):
    """Cycles of code whose operands hold values of a class; the first such step of a derivation is the usual class."""

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
    """Cycles of a chain behind a producer of operands that it only reads, per copy of the chain.

    `operands` are their indices (none: the upper halves of vectors), `code` is the producer.
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
    """µops that are executed for a move whose source and result are one register."""

    uops: Fraction


@dataclass(frozen=True, slots=True)
class MoveTime:
    """Cycles of a move in a chain while so many other pairs of registers share a physical one."""

    held: int
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class HeldMoves(Step):
    """What a move in a chain takes with more and more pairs beside it, and how many slots that means.

    None: no limit was seen, or the times are not clear.
    """

    times: tuple[MoveTime, ...]
    slots: int | None


@dataclass(frozen=True, slots=True)
class MovesCounted(Step):
    """µops and cycles per move of so many moves of one register to others."""

    moves: int
    executed: Fraction
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class PartialWrite(Step):
    """Cycles and µops of a write to a part of a register, and of the same with a read of all of it after each write.

    `read` are the cycles of that read alone; `uops` are those that are neither the write's nor the read's (None: not
    counted). `apart`: the part is renamed apart from the rest.
    """

    written: Fraction
    both: Fraction
    read: Fraction
    uops: Fraction | None
    apart: bool


@dataclass(frozen=True, slots=True)
class DecidedBy(Step):
    """The stage of port inference (`inference.ports.stages`) after which no other one changed the conclusion."""

    stage: str


@dataclass(frozen=True, slots=True)
class PortsFound(Step):
    """The port usage that the steps before lead to; `subtracted`: each set's µops are less those of its subsets."""

    usage: PortUsage
    subtracted: bool = False


@dataclass(frozen=True, slots=True)
class PrologueRemoved(Step):
    """Ports of an instruction `together` with its prologue and epilogue, and of these alone, which are subtracted."""

    together: PortUsage
    prologue: PortUsage


@dataclass(frozen=True, slots=True)
class Elimination(Step):
    """The share of instances that were seen on a port; the others are done at rename."""

    seen: Fraction


@dataclass(frozen=True, slots=True)
class FusionShare(Step):
    """How much less a counter counts per pair with one of these jumps than where both stand apart."""

    jumps: tuple[str, ...]
    counter: str
    saved: Fraction


@dataclass(frozen=True, slots=True)
class FusionTime(Step):
    """What a pair with this jump saves in time, in fillers, by kind of filler (none: time tells nothing)."""

    jump: str
    saved: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class FusionUnknown(Step):
    """Jumps of which neither counters nor time tell whether they fuse."""

    jumps: tuple[str, ...]


# Failures


class Code(StrEnum):
    """Which microbenchmark of a variant it is about."""

    SEQUENCE = "throughput sequence"
    PROLOGUE = "prologue and epilogue"
    CHAIN = "chain"


@dataclass(frozen=True, slots=True)
class NotGenerated(Failure):
    """Code for the variant cannot be made; `reason` is the generator's message."""

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
    """No number of blocking instructions outweighs so many µops."""

    uops: int


@dataclass(frozen=True, slots=True)
class OnlyBounds(Failure):
    """The µops fill the scheduler, blocked ports run dry, and only upper bounds are known."""

    uops: int
    bounds: tuple[Confined, ...]


@dataclass(frozen=True, slots=True)
class Indistinguishable(Failure):
    """Several usages explain every answer: some of them by name, and how many `others` there are."""

    usages: tuple[PortUsage, ...]
    others: int = 0
    answers: tuple[Confined, ...] = ()


@dataclass(frozen=True, slots=True)
class Unplaced(Failure):
    """By time alone: some µops are confined to sets that can be blocked (`usage`), and others to none of these.

    `slots` are all that are issued (None: that is not known). The others use more ports than can be kept busy, or none.
    """

    usage: PortUsage
    slots: int | None


@dataclass(frozen=True, slots=True)
class Delays(Failure):
    """By time alone: what uses `sets` is delayed for longer than by µops there; `usage` are the µops elsewhere."""

    sets: tuple[PortSet, ...]
    usage: PortUsage


@dataclass(frozen=True, slots=True)
class Unexplained(Failure):
    """By time alone: mixes took times that no usage explains; `values` are the µops that they had time for."""

    values: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class TooNoisy(Failure):
    """By time alone: the machine's times are off by the share `off`, so that they say nothing of ports."""

    off: Fraction


@dataclass(frozen=True, slots=True)
class TooManyUsages(Failure):
    """More usages explain the answers than can be listed."""

    answers: tuple[Confined, ...]


@dataclass(frozen=True, slots=True)
class NoUsage(Failure):
    """No usage made of these port sets explains the answers."""

    sets: tuple[PortSet, ...]
    answers: tuple[Confined, ...]


@dataclass(frozen=True, slots=True)
class EliminatedPorts(Failure):
    """Instances that are not eliminated at rename use one of these port sets, and it cannot be told which."""

    sets: tuple[PortSet, ...]


@dataclass(frozen=True, slots=True)
class NotCounted(Failure):
    """The only ports with counters are of one kind, and none of them counted anything."""

    counted: str


@dataclass(frozen=True, slots=True)
class PrologueNotPart(Failure):
    """A prologue and epilogue alone use ports that the instruction together with them does not."""

    together: PortUsage
    prologue: PortUsage


@dataclass(frozen=True, slots=True)
class PrologueUnknown(Failure):
    """The ports of the prologue and epilogue are not known, so those of the instruction are not."""

    why: Failure


@dataclass(frozen=True, slots=True)
class NoPorts(Failure):
    """The port usage of a form is not known."""

    form: Form
    why: Failure


@dataclass(frozen=True, slots=True)
class Stated(Failure):
    """A failure as a database file states it: the kind, and the sentence."""

    reason: str
    text: str


KINDS: Mapping[str, type[Step | Failure]] = {
    name: kind
    for name, kind in tuple(vars().items())
    if isinstance(kind, type) and issubclass(kind, Step | Failure) and kind not in {Step, Failure}
}
"""All kinds by the name that files have for them."""
