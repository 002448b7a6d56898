"""Blocking instructions: for each set of ports one instruction whose µops keep exactly these ports busy.

They are found by measurement (Abel and Reineke, ASPLOS 2019, §5.1.1): instructions of one µop are grouped by the ports
that they use in isolation, and of each group the one with the highest throughput is taken. Store data and store
address ports have no instruction of one µop; a store is used, whose µops are told apart by their sum of one per set.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil, floor
from typing import TYPE_CHECKING

from inference.calibration import LEAST_WIDTH
from inference.experiment import Procedure, Request, Want
from inference.ports.hypotheses import UNUSED, Isolated
from inference.ports.shared_counters import SharedCounters
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.experiment import Measured
    from inference.ports.portsets import PortLayout, PortSet
    from inference.ports.shared_counters import Mix
    from xed_convert.model import InstructionVariant

SATURATED = Fraction(9, 10)
"""A set of ports is kept busy if its ports carry at least this share of the cycles."""

NEAR = Fraction(1, 20)
"""How far a µop count of one instruction may be from an integer in isolation."""


MOST_BLOCKERS = 400
"""More copies of a blocking instruction would leave the instruction cache."""

FEW_UOPS = 4
"""µops of an instruction that has more of them queue up on other ports so far that blocked ones need longer queues."""

NOTICEABLE = Fraction(99, 100)
"""An instruction is faster than another if it takes less than this share of its time."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instruction that could block ports: its variant and `instances` independent instances of it as code."""

    variant: InstructionVariant
    benchmark: Microbenchmark
    is_store: bool = False


@dataclass(frozen=True, slots=True)
class BlockingInstruction:
    """An instruction that occupies a set of ports, what else it uses, and its throughput in cycles."""

    ports: PortSet
    variant: InstructionVariant
    usage: PortUsage
    cycles: Fraction

    @property
    def saturates(self) -> bool:
        """Whether copies of it alone keep all ports of the set busy."""
        return bool(self.usage.uops[self.ports] / (self.cycles * len(self.ports)) >= SATURATED)


@dataclass(frozen=True, slots=True)
class BlockingSet:
    """The blocking instructions that one kind of code can be measured with, by the set of ports that they block.

    `issued` is how many µops per cycle something else was seen to be issued with.
    """

    layout: PortLayout
    instructions: Mapping[PortSet, BlockingInstruction]
    issued: int = LEAST_WIDTH

    def __contains__(self, ports: PortSet) -> bool:
        """Whether there is an instruction for exactly these ports."""
        return ports in self.instructions

    @property
    def width(self) -> int:
        """How many µops are issued per cycle, at least."""
        return max([self.issued, *(round(1 / one.cycles) for one in self.instructions.values() if one.cycles)])

    def sets(self) -> tuple[PortSet, ...]:
        """Return all port sets that can be blocked, smaller ones first."""
        return tuple(sorted(self.instructions, key=lambda ports: (len(ports), sorted(ports))))


def find_blocking(
    candidates: Sequence[Candidate], layout: PortLayout, mix: Mix | None = None, issued: int = LEAST_WIDTH
) -> Procedure[BlockingSet]:
    """Measure the candidates in isolation and choose one for each set of ports that was found.

    `mix` makes mixtures of instructions, by which ports with a shared counter are told apart; `issued` is how many
    µops the core is known to issue per cycle.
    """
    measured = yield [Request(candidate.benchmark, Want.ALL) for candidate in candidates]
    instructions = _instructions(list(zip(candidates, measured, strict=True)), layout)
    chosen = BlockingSet(layout, _fastest(instructions), issued)
    if mix is None:
        return chosen
    named = yield from SharedCounters(layout, mix, chosen.width, dict(chosen.instructions)).run(instructions)
    return BlockingSet(layout, named, issued)


def _instructions(observed: Sequence[tuple[Candidate, Measured]], layout: PortLayout) -> list[BlockingInstruction]:
    """Return everything that the candidates block."""
    return [
        blocking
        for candidate, measured in observed
        if measured.ok
        for blocking in _blocked_by(candidate, isolated_of(measured, layout), layout)
    ]


def _fastest(instructions: Sequence[BlockingInstruction]) -> dict[PortSet, BlockingInstruction]:
    """Return the best instruction for each set of ports."""
    best: dict[PortSet, BlockingInstruction] = {}
    for blocking in instructions:
        known = best.get(blocking.ports)
        if known is None or _better(blocking, known):
            best[blocking.ports] = blocking
    return best


def _better(one: BlockingInstruction, known: BlockingInstruction) -> bool:
    """Whether an instruction blocks the same ports better than the one that is known."""
    if (one.usage.total == 1) != (known.usage.total == 1):
        return one.usage.total == 1
    return one.cycles < known.cycles * NOTICEABLE


def isolated_of(measured: Measured, layout: PortLayout) -> Isolated:
    """Return what one instruction of a throughput sequence did, from the whole sequence's measurement."""
    divisor = measured.request.benchmark.divisor
    uops = {name: measured.values[name] / divisor for name in layout.counters}
    issued = measured.values.get("uops_issued", Fraction(0)) / divisor
    return Isolated(uops, measured.cycles / divisor, round(sum(uops.values())), issued=issued)


def is_integral(isolated: Isolated) -> bool:
    """Whether the µop sum is near an integer."""
    return abs(sum(isolated.uops.values(), Fraction(0)) - isolated.total) <= isolated.tolerance


def _blocked_by(candidate: Candidate, isolated: Isolated, layout: PortLayout) -> list[BlockingInstruction]:
    """Return what a candidate blocks, if anything."""
    if abs(sum(isolated.uops.values(), Fraction(0)) - isolated.total) > NEAR:
        return []
    if isolated.total == 1 and not candidate.is_store:
        sets = [name_ports(isolated, layout)]
        if not _is_named(sets[0], isolated, layout):
            return []
    elif isolated.total == 2 and candidate.is_store:
        sets = tight_parts(isolated, layout)
    else:
        return []
    usage = PortUsage(dict.fromkeys(sets, 1))
    cycles = isolated.cycles
    return [BlockingInstruction(ports, candidate.variant, usage, cycles) for ports in sets]


def _is_named(ports: PortSet, isolated: Isolated, layout: PortLayout) -> bool:
    """Whether the ports are known by their counters, or by a throughput that they limit."""
    shared = any(len(layout.counters[name]) > 1 for name in layout.touching(ports))
    return not shared or 1 / (isolated.cycles * len(ports)) >= SATURATED


def name_ports(isolated: Isolated, layout: PortLayout) -> PortSet:
    """Return the ports of an instruction of one µop, from the counters that counted it and from its throughput.

    Counters that count several ports do not say which of them were used. How many were used follows from the throughput
    where the ports limit it: one µop that n ports can take needs 1/n cycles. The first ports of a counter are
    named then, since which of two is which cannot be told from outside.
    """
    busy = [name for name in layout.counters if isolated.uops[name] > UNUSED]
    sizes = {name: len(layout.counters[name]) for name in busy}
    shared = [name for name in busy if sizes[name] > 1]
    if not shared or not isolated.cycles:
        return layout.first(sizes)
    possible = round(1 / isolated.cycles)
    for name in shared:
        share = isolated.uops[name] / isolated.cycles
        if possible < sum(sizes.values()) and abs(share - round(share)) < Fraction(1, 8):
            sizes[name] = min(sizes[name], max(1, round(share)))
    return layout.first(sizes)


def tight_parts(isolated: Isolated, layout: PortLayout) -> list[PortSet]:
    """Split the counters of an instruction of two µops into two parts that carry one µop each ([] if not one way).

    A µop runs on the ports that it can use and nowhere else, so the two parts are the µops' ports if they are disjoint.
    """
    busy = [name for name in layout.counters if isolated.uops[name] > UNUSED]
    found: list[tuple[str, ...]] = []
    for size in range(1, len(busy)):
        for part in combinations(busy, size):
            load = sum((isolated.uops[name] for name in part), Fraction(0))
            if busy[0] in part and abs(load - 1) <= NEAR:
                found.append(part)
    if len(found) != 1:
        return []
    rest = [name for name in busy if name not in found[0]]
    return [frozenset().union(*(layout.counters[name] for name in part)) for part in (found[0], rest)]


@dataclass(frozen=True, slots=True)
class Blockers:
    """How often each of some blocking instructions stands before the instruction under test.

    They stand in turns, or else all of the first, then all of the second, and so on.
    """

    instructions: tuple[BlockingInstruction, ...]
    counts: tuple[int, ...]
    in_turns: bool = True

    @property
    def ports(self) -> PortSet:
        """All ports that are blocked."""
        return frozenset().union(*(one.ports for one in self.instructions))

    def filling(self, cycles: Fraction) -> Blockers:
        """Return blockers that last for more than so many cycles (as far as `MOST_BLOCKERS` allows)."""
        counts = [
            max(count, min(_multiple((ceil(cycles) + 2) * len(one.ports), one), MOST_BLOCKERS))
            for one, count in zip(self.instructions, self.counts, strict=True)
        ]
        return Blockers(self.instructions, tuple(counts))

    def doubled(self) -> Blockers:
        """Return twice as many blockers (as far as `MOST_BLOCKERS` allows)."""
        counts = tuple(max(count, min(2 * count, MOST_BLOCKERS)) for count in self.counts)
        return Blockers(self.instructions, counts)

    def balanced(self, confined: Sequence[int]) -> Blockers:
        """Return blockers of sets apart that take equally long, where so many other µops are confined to each set.

        Else the ports of the one that is done first would have time for µops that could go elsewhere.
        """
        sizes = [len(one.ports) for one in self.instructions]
        if len(sizes) == 1 or sum(sizes) > len(self.ports):
            return self
        wanted = zip(self.counts, confined, sizes, strict=True)
        cycles = max(ceil(Fraction(count + other, size)) for count, other, size in wanted)
        counts = [max(1, cycles * size - other) for other, size in zip(confined, sizes, strict=True)]
        return Blockers(self.instructions, tuple(counts))

    @property
    def usage(self) -> PortUsage:
        """The µops of all the blocking instructions together."""
        uops: Counter[PortSet] = Counter()
        for one, count in zip(self.instructions, self.counts, strict=True):
            for able, each in one.usage.uops.items():
                uops[able] += each * count
        return PortUsage(dict(uops))


@dataclass(frozen=True, slots=True)
class Pace:
    """What limits a combination besides ports.

    `chain` is how many cycles one instance of the instruction needs after another one with the same operands, `width`
    how many µops are issued per cycle (a lower bound).
    """

    chain: Fraction
    width: int


def blockers_for(
    instructions: Sequence[BlockingInstruction], isolated: Isolated, pace: Pace, factor: int = 1
) -> Blockers:
    """Choose the blocking counts for an instruction of which is known what it does alone.

    Of each, max(2 · ports · TP, ports · µops, 10) times `factor`, at most `MOST_BLOCKERS`, a multiple of the number of
    ports: so the blocked ports are busy for longer than all else that the instruction does takes. They also last for
    longer than the instruction's own chain, and are issued faster than their ports can take them, so that they queue.
    """
    counts = []
    spare = floor(pace.chain * Fraction(5, 4)) + 2
    needed = min(isolated.cycles, pace.chain) if pace.chain else isolated.cycles
    for one in instructions:
        ports = len(one.ports)
        wanted = max(2 * ports * ceil(needed), ports * isolated.total, ports * spare, 10) * factor
        if ports < pace.width:
            depth = isolated.total + 1 if isolated.total > FEW_UOPS else Fraction(3 * isolated.total, 2 * pace.width)
            wanted = max(wanted, ceil(depth * ports * pace.width / (pace.width - ports)) + ports)
        counts.append(_multiple(min(wanted, MOST_BLOCKERS), one))
    return Blockers(tuple(instructions), tuple(counts))


def _multiple(count: int, instruction: BlockingInstruction) -> int:
    """Round a count up to a multiple of the number of blocked ports."""
    ports = len(instruction.ports)
    return -(-count // ports) * ports
