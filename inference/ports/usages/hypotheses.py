"""The port usages that fit the measurements, and the set to block next to tell them apart.

All evidence has one form: n µops ran on a set S of ports, which was blocked or not. µops confined to S must run there.
µops of larger sets may stray onto it. So every count is an upper bound on the confined µops. While blocking
instructions keep S busy, nothing strays, and the count is exact (Abel and Reineke, ASPLOS 2019, §5.1.2). A hypothesis
is a multiset of known port sets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from inference.ports.usages.bounds import CountedBounds
from results.findings import Confined
from results.model import PortUsage
from results.ports import PortSet, confined, mask_of, mask_unions, throughput_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from inference.ports.alone.isolation import Isolated
    from inference.ports.alone.layout import PortLayout
    from inference.ports.usages.bounds import Observation

MOST_PARTIAL = 4000
"""Partial usages that are kept after each set where all answers are bounds: a tenth of a second's work."""

WHOLE_TIME = Fraction(49, 50)
"""Share of a measured time. A cause that explains this much of it explains all of it: a window without whole periods is
off by up to 2%."""

THROUGHPUT_TOLERANCE = Fraction(1, 25)
"""Share of the time by which an instruction may seem faster than its ports allow: the window's 2% at both ends."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How many µops are confined to a set: exactly, or at most (where the measurement was not near an integer).

    A bound is `timed` if time says just that number, on ports that share a counter and were never idle. It is no exact
    answer because issue may have set the time: only a lower bound of the issue width is known.
    """

    count: int
    exact: bool = True
    timed: bool = False

    def allows(self, count: int) -> bool:
        """Whether `count` confined µops agree with it."""
        return count == self.count if self.exact else count <= self.count


@dataclass(frozen=True)
class HypothesisSpace:
    """The hypotheses that agree with isolation and all answers so far: multisets of sets of the `universe`.

    `seen` is what was counted while ports were blocked (None: nothing). `width` is how many µops are issued per cycle,
    at least (0: that is not known). `clock` is the share of itself by which a number of cycles may be off.
    """

    layout: PortLayout
    isolated: Isolated
    universe: tuple[PortSet, ...]
    answers: Mapping[PortSet, Answer] = field(default_factory=dict)
    seen: CountedBounds | None = field(default=None, repr=False, compare=False)
    width: int = 0
    clock: Fraction = Fraction(0)

    @property
    def issue_limited(self) -> bool:
        """Whether the instruction alone took just as long as it takes to issue its µops."""
        whole = WHOLE_TIME - self.clock
        return self.width > 0 and self.isolated.issued / self.width >= self.isolated.cycles * whole

    def observe(self, observation: Observation, answer: Answer) -> HypothesisSpace:
        """Return the space with what blocking a set has shown."""
        seen = self.bounds.seen(observation, self.isolated.tolerance, self.layout)
        return replace(self, seen=seen).answered(observation.blocked, answer)

    def answered(self, ports: PortSet, answer: Answer) -> HypothesisSpace:
        """Return the space with another answer about a set."""
        return replace(self, answers={**self.answers, ports: answer})

    def consider(self, sets: Iterable[PortSet]) -> HypothesisSpace:
        """Return the space whose hypotheses are drawn from further sets, too."""
        return replace(self, universe=tuple(dict.fromkeys([*self.universe, *sets])))

    def reconsider(self) -> HypothesisSpace:
        """Return the space without answers; the bounds from all observations stay."""
        return replace(self, answers={})

    @cached_property
    def bounds(self) -> CountedBounds:
        """How many µops can at most be confined to sets of ports, by what was counted."""
        return self.seen or CountedBounds.of(self.isolated, self.layout)

    @cached_property
    def _answered(self) -> Mapping[int, int]:
        return {mask_of(ports): answer.count for ports, answer in self.answers.items()}

    def limit(self, ports: PortSet) -> int:
        """Return how many µops can at most be confined to the ports, by what was counted and by the answers."""
        return self.limit_of(mask_of(ports))

    def limit_of(self, ports: int) -> int:
        """Return the same for a set as `mask_of` returns it."""
        most = self.isolated.total
        return min(most, self.bounds.most(ports), self._answered.get(ports, most))

    def agrees(self, usage: PortUsage) -> bool:
        """Whether a complete usage agrees with isolation, all answers and the measured throughput."""
        if usage.total != self.isolated.total or not self.isolated.explained(usage, self.layout):
            return False
        if not all(answer.allows(confined(usage, asked)) for asked, answer in self.answers.items()):
            return False
        used = [(mask_of(able), count) for able, count in usage.uops.items() if count]
        for union in mask_unions(mask for mask, _ in used):
            if sum([count for mask, count in used if not mask & ~union]) > self.limit_of(union):
                return False
        return throughput_of(usage) <= self.isolated.cycles * (1 + THROUGHPUT_TOLERANCE)

    def best_question(self, hypotheses: Sequence[PortUsage], askable: Iterable[PortSet]) -> PortSet | None:
        """Return the set whose answer leaves the fewest hypotheses in the worst case; None if no set tells any apart.

        Among equals, sets that counters can tell apart come first, then smaller ones.
        """
        best: tuple[int, bool, int, list[str]] | None = None
        chosen: PortSet | None = None
        for ports in askable:
            if ports in self.answers:
                continue
            sizes = Counter(confined(usage, ports) for usage in hypotheses)
            if len(sizes) < 2:
                continue
            rank = (max(sizes.values()), not self.layout.separable(ports), len(ports), sorted(ports))
            if best is None or rank < best:
                best, chosen = rank, ports
        return chosen

    def next_in_order(self, askable: Iterable[PortSet]) -> PortSet | None:
        """Return the next set to ask about, smaller ones first as in Algorithm 1; None if all counts are known.

        Sets that isolation rules out are left out.
        """
        counts: dict[PortSet, int] = {}
        for ports in sorted(set(askable), key=lambda one: (len(one), sorted(one))):
            inside = sum(count for able, count in counts.items() if able < ports)
            if sum(counts.values()) >= self.isolated.total:
                return None
            count = self.known(ports)
            if count is not None:
                counts[ports] = max(0, count - inside)
            elif ports in self.answers:
                counts[ports] = max(0, self.answers[ports].count - inside)
            elif self.limit(ports) > inside:
                return ports
        return None

    def known(self, ports: PortSet) -> int | None:
        """Return the exact number of µops confined to a set, None if it is not known.

        It is known without asking if every other set of the universe lies in this one or apart from it.
        """
        answer = self.answers.get(ports)
        if answer is not None and answer.exact:
            return answer.count
        used = self.isolated.used(self.layout)
        if any(one & ports & used and one & used - ports for one in self.universe):
            return None
        return round(self.layout.on(ports, self.isolated.uops)) if self.layout.separable(ports) else None

    def by_subtraction(self) -> PortUsage | None:
        """Return the conclusion of Algorithm 1: in each set, the µops that its subsets do not explain.

        None if it would need the number of an answer that is only a bound.
        """
        counts: dict[PortSet, int] = {}
        for ports in sorted({*self.answers, *self.universe}, key=lambda one: (len(one), sorted(one))):
            inside = sum(count for able, count in counts.items() if able < ports)
            count = self.known(ports)
            if count is None:
                bound = self.answers[ports].count if ports in self.answers else self.limit(ports)
                if bound > inside and sum(counts.values()) < self.isolated.total:
                    return None
            elif count > inside:
                counts[ports] = count - inside
        return PortUsage(counts)

    def by_subtractions(self, sets: Sequence[PortSet]) -> list[PortUsage]:
        """Return every usage made of some sets that agrees with the answers, smaller sets first as in Algorithm 1.

        If an answer is only a bound, every number up to it is tried.
        """
        ordered = sorted(sets, key=lambda one: (len(one), sorted(one)))
        partial: list[dict[PortSet, int]] = [{}]
        for ports in ordered:
            grown = [{**counts, ports: more} for counts in partial for more in self._more(ports, counts)]
            partial = grown[:MOST_PARTIAL]
        usages = [PortUsage({ports: count for ports, count in counts.items() if count}) for counts in partial]
        return [usage for usage in usages if self.agrees(usage)]

    def _more(self, ports: PortSet, counts: Mapping[PortSet, int]) -> range:
        """Return how many µops may have exactly these ports, given those of smaller sets."""
        inside = sum(count for able, count in counts.items() if able < ports)
        count = self.known(ports)
        if count is not None:
            return range(count - inside, count - inside + 1) if count >= inside else range(0)
        return range(max(0, self.limit(ports) - inside) + 1)

    def facts(self) -> tuple[Confined, ...]:
        """Return the answers, smaller sets first."""
        ordered = sorted(self.answers.items(), key=lambda item: (len(item[0]), sorted(item[0])))
        return tuple(Confined(ports, answer.count, answer.exact) for ports, answer in ordered)
