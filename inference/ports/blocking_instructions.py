"""Blocking instructions as data: what each one occupies, which there are, how many of them a combination has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from inference.calibration import LEAST_WIDTH
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.ports.isolation import Isolated
    from inference.ports.layout import PortLayout
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

SATURATED = Fraction(9, 10)
"""The share of cycles in which ports work at least if an instruction keeps them busy: a tenth is lost where µops go to
busy ports."""

MOST_BLOCKERS = 400
"""Copies of a blocking instruction: more of up to 15 bytes each, unrolled, leave the instruction cache."""

LONGER = Fraction(5, 4)
"""Share of the instruction's own chain that blocking instructions last: a quarter more than what is hidden behind
them, so that it never limits the time."""

FEW_UOPS = 4
"""µops of an instruction: if it has more they queue up on other ports, so that blocked ones need longer queues."""


NOTICEABLE = Fraction(99, 100)
"""An instruction is faster than another one if it takes less than this share of its time: 1% is noise."""


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
    def of_memory(self) -> bool:
        """Whether it loads or stores."""
        return any(operand.memory is not None for operand in self.variant.operands)

    @property
    def saturates(self) -> bool:
        """Whether copies of it alone keep all ports of the set busy."""
        return bool(self.usage.uops[self.ports] / (self.cycles * len(self.ports)) >= SATURATED)

    def is_better_than(self, known: BlockingInstruction) -> bool:
        """Whether it blocks the same ports better than another one."""
        if (self.usage.total == 1) != (known.usage.total == 1):
            return self.usage.total == 1
        return self.cycles < known.cycles * NOTICEABLE


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What a core was seen to do with µops that have a choice (`inference.ports.scheduling`).

    `spreads`: µops that run now and then use all of their ports. `keeps_away`: µops keep away from busy ports even if
    they wait for what ran there. What could not be tried is taken for not so.
    """

    spreads: bool = False
    keeps_away: bool = False


UNKNOWN = Scheduling()
"""What is taken for granted of a core on which nothing was tried: nothing."""


@dataclass(frozen=True, slots=True)
class BlockingSet:
    """The blocking instructions that one kind of code can be measured with, by the set of ports that they block.

    `issued` is how many µops per cycle something else was seen to be issued with. `named` are all instructions that
    use some of the ports with a shared counter, by the names that these were given, whether or not they block best.
    `scheduling` is what the core does with µops that have a choice.
    """

    layout: PortLayout
    instructions: Mapping[PortSet, BlockingInstruction]
    issued: int = LEAST_WIDTH
    named: tuple[BlockingInstruction, ...] = ()
    scheduling: Scheduling = UNKNOWN

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
    spare = floor(pace.chain * LONGER) + 2
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
