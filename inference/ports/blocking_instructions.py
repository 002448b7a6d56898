"""Blocking instructions as data: the ports that each occupies, and combinations of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from inference.calibration import LEAST_WIDTH
from inference.ports.alone.accuracy import EXACT, Accuracy
from inference.throughput import FASTER
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.ports.alone.isolation import Isolated
    from inference.ports.alone.layout import PortLayout
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

SATURATED = Fraction(9, 10)
"""Share of cycles. An instruction keeps ports busy if they work in at least this share: a tenth is lost if µops go to
busy ports."""

FEWEST_BLOCKERS = 10
"""Copies of a blocking instruction: with fewer, the queue's begin and end would be a large share of its time."""

MOST_BLOCKERS = 400
"""Copies of a blocking instruction: more of up to 15 bytes each, unrolled, leave the instruction cache."""

LONGER = Fraction(5, 4)
"""Factor: blocking instructions last this many times as long as the instruction's own chain, so that it never limits
the time."""

AHEAD = Fraction(3, 2)
"""Factor: the queue in front of blocked ports lasts this many times as long as the instruction's µops take to issue, so
that it outlasts them."""

FEW_UOPS = 4
"""µops of an instruction. More of them queue up on other ports, so blocked ports need longer queues, too."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instruction that could block ports: its variant, and independent instances of it as code."""

    variant: InstructionVariant
    benchmark: Microbenchmark
    is_store: bool = False


@dataclass(frozen=True, slots=True)
class BlockingInstruction:
    """An instruction that occupies a set of ports, what else it uses, its throughput in cycles, and its code's size."""

    ports: PortSet
    variant: InstructionVariant
    usage: PortUsage
    cycles: Fraction
    code_bytes: Fraction = Fraction(0)

    @property
    def of_memory(self) -> bool:
        """Whether it loads or stores."""
        return any(operand.memory is not None for operand in self.variant.operands)

    @property
    def saturates(self) -> bool:
        """Whether copies of it alone keep all ports of the set busy."""
        return bool(self.usage.uops[self.ports] / (self.cycles * len(self.ports)) >= SATURATED)

    def is_better_than(self, known: BlockingInstruction) -> bool:
        """Whether it blocks the same ports better than another one: faster, or as fast with a shorter address."""
        if (self.usage.total == 1) != (known.usage.total == 1):
            return self.usage.total == 1
        if known.cycles < self.cycles * FASTER or self.cycles < known.cycles * FASTER:
            return self.cycles < known.cycles
        # Only addresses make code so long that two instances per cycle are more than is decoded
        return self.of_memory and known.of_memory and self.code_bytes < known.code_bytes


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What a core was seen to do with µops that have a choice (`inference.ports.scheduling`).

    - `takes_turns`: µops that run now and then use all of their ports by turns.
    - `keeps_away`: µops keep away from busy ports even if they wait for a result from there.
    - `holds`: this many µops find free ports although busy ones have long queues.

    False and 0 mean that it is not so, or could not be tried.
    """

    takes_turns: bool = False
    keeps_away: bool = False
    holds: int = 0


UNKNOWN = Scheduling()
"""A core on which nothing was tried, so nothing is assumed."""


@dataclass(frozen=True, slots=True)
class BlockingSet:
    """The blocking instructions that one kind of code can be measured with, by the set of ports that they block.

    `issued` is a number of µops per cycle at which other code was issued. `named` are all instructions on ports with a
    shared counter, with the names that these ports were given. `scheduling` is how the core chooses among free ports,
    `accuracy` how far its counters are off. `unshown` are sets on which loads and stores were seen, if these may have
    further ports.
    """

    layout: PortLayout
    instructions: Mapping[PortSet, BlockingInstruction]
    issued: int = LEAST_WIDTH
    named: tuple[BlockingInstruction, ...] = ()
    scheduling: Scheduling = UNKNOWN
    accuracy: Accuracy = EXACT
    unshown: tuple[PortSet, ...] = ()

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
    """Blocking instructions before the instruction under test, with the number of copies of each.

    They alternate (`in_turns`), or all copies of the first come first, then all of the second, and so on.
    """

    instructions: tuple[BlockingInstruction, ...]
    counts: tuple[int, ...]
    in_turns: bool = True

    @property
    def ports(self) -> PortSet:
        """All ports that are blocked."""
        return frozenset().union(*(one.ports for one in self.instructions))

    def each(self) -> list[tuple[BlockingInstruction, int]]:
        """Return each blocking instruction with its number of copies."""
        return list(zip(self.instructions, self.counts, strict=True))

    def filling(self, cycles: Fraction) -> Blockers:
        """Return blockers that last for more than `cycles` core cycles (as far as `MOST_BLOCKERS` allows)."""
        counts = [
            max(count, min(_multiple((ceil(cycles) + 2) * len(one.ports), one), MOST_BLOCKERS))
            for one, count in self.each()
        ]
        return Blockers(self.instructions, tuple(counts))

    def longer(self, cycles: int) -> Blockers:
        """Return blockers that last `cycles` core cycles longer."""
        counts = tuple(count + cycles * len(one.ports) for one, count in self.each())
        return Blockers(self.instructions, counts, self.in_turns)

    def doubled(self) -> Blockers:
        """Return twice as many blockers (as far as `MOST_BLOCKERS` allows)."""
        counts = tuple(max(count, min(2 * count, MOST_BLOCKERS)) for count in self.counts)
        return Blockers(self.instructions, counts)

    def balanced(self, confined: Sequence[int]) -> Blockers:
        """Return blockers whose sets are busy equally long, if the sets share no port (else the same blockers).

        Else the ports of one set would be done first, and have time for µops that could go elsewhere.

        Args:
            confined: by blocking instruction, how many other µops are confined to its set.
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
        for one, count in self.each():
            for able, each in one.usage.uops.items():
                uops[able] += each * count
        return PortUsage(dict(uops))


@dataclass(frozen=True, slots=True)
class Pace:
    """What limits a combination besides ports.

    `chain`: core cycles between dependent instances with the same operands. `width`: a lower bound of the µops issued
    per cycle.
    """

    chain: Fraction
    width: int


def blockers_for(
    instructions: Sequence[BlockingInstruction], isolated: Isolated, pace: Pace, factor: int = 1
) -> Blockers:
    """Choose how many copies of each blocking instruction stand before an instruction that is known in isolation.

    Of each there are max(2 · ports · TP, ports · µops, `FEWEST_BLOCKERS`) times `factor`, at most `MOST_BLOCKERS`, a
    multiple of the number of ports. So blocked ports are busy for longer than the instruction takes elsewhere. There
    are more if its own chain lasts longer, or if issue would not let blocking instructions queue up.
    """
    counts = []
    spare = floor(pace.chain * LONGER) + 2
    needed = min(isolated.cycles, pace.chain) if pace.chain else isolated.cycles
    for one in instructions:
        ports = len(one.ports)
        wanted = max(2 * ports * ceil(needed), ports * isolated.total, ports * spare, FEWEST_BLOCKERS) * factor
        if ports < pace.width:
            depth = isolated.total + 1 if isolated.total > FEW_UOPS else AHEAD * isolated.total / pace.width
            wanted = max(wanted, ceil(depth * ports * pace.width / (pace.width - ports)) + ports)
        counts.append(_multiple(min(wanted, MOST_BLOCKERS), one))
    return Blockers(tuple(instructions), tuple(counts))


def _multiple(count: int, instruction: BlockingInstruction) -> int:
    """Round a count up to a multiple of the number of blocked ports."""
    ports = len(instruction.ports)
    return -(-count // ports) * ports
