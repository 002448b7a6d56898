"""The state of a port inference: an instruction, its measurements, and the conclusions so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from inference.ports.blocking_instructions import Blockers, BlockingSet, Pace, blockers_for
from inference.ports.usages.hypotheses import Answer
from results.ports import pairs_of, threes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.ports.blocking_instructions import BlockingInstruction
    from inference.ports.usages.hypotheses import HypothesisSpace
    from results.model import Failure, PortUsage, Step
    from results.ports import PortSet

MOST_CHOICES = 2
"""Pairs of blocking instructions that are tried for a set that no single one blocks: the second if the first gives no
exact answer."""


class Subject(Protocol):
    """An instruction under test that can be combined with blocking instructions."""

    @property
    def extra(self) -> PortUsage:
        """The µops of further instructions that stand beside the instance, such as dependency breakers."""

    def more(self) -> Microbenchmark:
        """Return the sequence of isolation with more instances, so that fewer wait for the copy before."""

    def combined(self, blockers: Blockers, *, reverse: bool = False) -> Microbenchmark:
        """Return one instance among blocking instructions with which it shares nothing (`reverse`: it comes first)."""

    def control(self, blockers: Blockers, other: BlockingInstruction, count: int) -> Microbenchmark:
        """Return the blocking instructions with `count` copies of another one in the place of the instance."""


@dataclass(frozen=True, slots=True)
class PortProbe:
    """What is known of an instruction's ports, and how it was measured. What learns something returns another one.

    - `askable`: the sets that can be blocked.
    - `factor`: multiplies the number of blocking instructions.
    - `reverse`: blocking instructions come after the instance.
    - `chain`: cycles of a copy without blocking instructions (None: not measured).
    - `strays`: by set, whether a control showed strays there.

    The conclusion so far: `usage` is stated if no later stage rejects it; `indistinguishable` usages are only named;
    `failure` is final.
    """

    subject: Subject
    blocking: BlockingSet
    space: HypothesisSpace
    askable: tuple[PortSet, ...]
    factor: int = 1
    reverse: bool = False
    chain: Fraction | None = None
    strays: Mapping[PortSet, bool] = field(default_factory=dict)
    experiments: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    usage: PortUsage | None = None
    indistinguishable: tuple[PortUsage, ...] = ()
    failure: Failure | None = None

    @property
    def undecided(self) -> bool:
        """Whether there is neither a usage, nor a reason why none can be stated."""
        return self.usage is None and not self.indistinguishable and self.failure is None

    def consider(self, sets: Iterable[PortSet]) -> PortProbe:
        """Return the probe whose hypotheses are drawn from further sets, too."""
        return replace(self, space=self.space.consider(sets))

    def settled(self, usages: Sequence[PortUsage]) -> PortProbe:
        """Return the probe that found the usage if there is just one, several indistinguishable ones, or none."""
        several = tuple(usages) if len(usages) > 1 else ()
        return replace(self, usage=usages[0] if len(usages) == 1 else None, indistinguishable=several)

    def answered(self, ports: PortSet, answer: Answer) -> PortProbe:
        """Return the probe with another answer about a set."""
        return replace(self, space=self.space.answered(ports, answer))

    def unanswered(self, ports: PortSet) -> PortProbe:
        """Return the probe that learned nothing new of a set: what isolation allows stays the bound."""
        return self.answered(ports, Answer(self.space.limit(ports), exact=False))

    def noted(self, experiment: str, step: Step | None = None) -> PortProbe:
        """Return the probe that did another experiment, which shows something."""
        steps = self.steps if step is None else (*self.steps, step)
        return replace(self, experiments=(*self.experiments, experiment), steps=steps)

    def choices(self, ports: PortSet) -> list[Blockers]:
        """Return blocking instructions for a set, or for two or three sets whose union it is, the best pair first.

        There is a second pair only where its sets are apart: in others, both block the ports that they have in common.
        Three sets apart come last, the smallest ones.
        """
        known = self.blocking.instructions
        parts: Sequence[tuple[PortSet, ...]] = [(ports,)]
        if ports not in known:
            pairs, threes = self.unions(ports)
            pairs = sorted(pairs, key=_preference)
            apart = [pair for pair in pairs[1:] if not pair[0] & pair[1]]
            parts = [*[*pairs[:1], *apart][:MOST_CHOICES], *sorted(threes, key=_sizes)[:1]]
        pace = Pace(self.chain or Fraction(0), self.blocking.width)
        instructions = [[known[part] for part in each] for each in parts]
        return [self.balanced(blockers_for(each, self.space.isolated, pace, self.factor)) for each in instructions]

    def unions(self, ports: PortSet) -> tuple[list[tuple[PortSet, PortSet]], list[tuple[PortSet, PortSet, PortSet]]]:
        """Return the pairs and threes of smaller sets that can be blocked, whose union a set is."""
        sets = [one for one in self.blocking.sets() if one < ports]
        pairs = [pair for pair in pairs_of(sets) if pair[0] | pair[1] == ports]
        return pairs, [three for three in threes_of(sets) if frozenset().union(*three) == ports]

    def balanced(self, blockers: Blockers) -> Blockers:
        """Return blockers that all take equally long, with the µops that are known to be confined to their sets."""
        return blockers.balanced([self.known(one.ports) for one in blockers.instructions])

    def known(self, ports: PortSet) -> int:
        """Return how many µops are known to be confined to a set."""
        return self.space.known(ports) or 0


def _sizes(parts: Sequence[PortSet]) -> list[int]:
    """Return the sort key of sets that block one together: their sizes, the largest first."""
    return sorted(map(len, parts), reverse=True)


def _preference(pair: tuple[PortSet, PortSet]) -> tuple[int, int]:
    """Order pairs that block a set: apart before others, then those of similar size.

    µops with a choice go to the ports of a small part more often than the balance of both allows for.
    """
    one, other = pair
    return len(one & other), abs(len(one) - len(other))
