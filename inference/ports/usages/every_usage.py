"""Every usage of any subsets of the used ports that agrees with all measurements.

A usage is a multiset of sets. While a set A is blocked, only µops that are confined to it run there. So an exact answer
is the number of sets that are subsets of A. Isolation and other measurements give upper bounds. The numbers for all A
would determine the usage (they are its Moebius transform). Enumeration shows whether fewer answers are enough.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from math import floor
from operator import or_
from typing import TYPE_CHECKING

from inference.ports.alone.isolation import UNUSED
from inference.ports.usages.hypotheses import THROUGHPUT_TOLERANCE
from inference.ports.usages.integer_program import IntegerProgram
from results.model import PORT_LETTERS, PortUsage
from results.ports import PortSet, mask_of, ports_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from inference.ports.usages.hypotheses import HypothesisSpace

MOST_TRIED = 300_000
"""Sets that one enumeration tries to add to partial usages: about a second's work."""

MOST_USAGES = 1500
"""Usages that are listed: a hundred times as many as are named, and enough to know what to ask next."""


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The usages that agree with all measurements; `complete`: there are no others."""

    usages: tuple[PortUsage, ...]
    complete: bool


def every_usage(space: HypothesisSpace, sets: Iterable[PortSet]) -> Enumeration:
    """Return all multisets of these sets that agree with isolation and all answers."""
    return _Search(space, list(sets)).run()


def known_usages(space: HypothesisSpace) -> list[PortUsage] | None:
    """Return all usages of the sets in question that agree with everything, None if there are too many to list."""
    sets = sorted((one for one in space.universe if space.limit(one)), key=lambda one: (len(one), sorted(one)))
    found = every_usage(space, sets)
    return list(found.usages) if found.complete else None


def another_usage(space: HypothesisSpace, usage: PortUsage, sets: Sequence[PortSet]) -> PortUsage | None:
    """Return a usage of these sets other than the given one that agrees with all measurements; None if there is none.

    Each measurement is a linear condition on how many µops have which set. So an integer linear program, solved by
    HiGHS, finds the usage that differs most, however many µops there are.
    """
    possible = [one for one in sets if space.limit(one)]
    masks = [mask_of(one) for one in possible]
    conditions = [
        ([not mask & ~mask_of(ports) for mask in masks], least, most) for ports, least, most in _conditions(space, sets)
    ]
    counted = [ports for name, ports in space.layout.counters.items() if space.isolated.uops[name] > UNUSED]
    conditions += [([bool(mask & mask_of(ports)) for mask in masks], 1, space.isolated.total) for ports in counted]
    program = IntegerProgram.of(space.isolated.total, len(possible), conditions)
    given = [usage.uops.get(one, 0) for one in possible]
    used = [at for at, count in enumerate(given) if count]
    for wanted in [[at for at, count in enumerate(given) if not count], *([at] for at in used)]:
        counts = program.most(wanted)
        if counts is None:
            return None
        if counts != given:
            return PortUsage({one: count for one, count in zip(possible, counts, strict=True) if count})
    return None


def _conditions(space: HypothesisSpace, sets: Iterable[PortSet]) -> Iterator[tuple[PortSet, int, int]]:
    """Yield each set of which something is known, with how many µops are confined to it at least and at most."""
    total = space.isolated.total
    everything = space.layout.ports.union(*sets)
    yield everything, total, total
    for ports, answer in space.answers.items():
        yield ports, answer.count if answer.exact else 0, answer.count
    for ports in dict.fromkeys([*sets, *(everything - one for one in sets)]):
        time = floor(len(ports) * space.isolated.cycles * (1 + THROUGHPUT_TOLERANCE))
        most = min(space.limit(ports), time)
        if most < total:
            yield ports, 0, most


def subsets_of(ports: PortSet) -> list[PortSet]:
    """Return all subsets of some ports but the empty one, smaller ones first."""
    return [frozenset(part) for size in range(1, len(ports) + 1) for part in combinations(sorted(ports), size)]


@dataclass
class _Search:
    """Fills the sets that were asked about exactly, smaller ones first, then the rest, while no limit is exceeded.

    A µop belongs to the smallest of those sets that it is confined to. So no usage is found twice. Every condition of
    `HypothesisSpace.agrees` is looked at as soon as a µop may break it, with sets as integers: adding µops to a usage
    never mends one.
    """

    space: HypothesisSpace
    sets: list[PortSet]
    limits: dict[int, int] = field(default_factory=dict)
    found: list[PortUsage] = field(default_factory=list)
    left: int = field(default_factory=lambda: MOST_TRIED)

    def run(self) -> Enumeration:
        """Search; return what was found."""
        space = self.space
        answers = sorted(space.answers.items(), key=lambda item: (len(item[0]), sorted(item[0])))
        exact = [(mask_of(ports), answer.count) for ports, answer in answers if answer.exact]
        everything = (1 << 64) - 1
        goals = [*exact, (everything, space.isolated.total)]
        masks = [mask_of(one) for one in self.sets if space.limit(one)]
        masks = [one for one in masks if all(count or one & ~asked for asked, count in exact)]
        self.choices = [
            [one for one in masks if not one & ~goal and all(one & ~earlier for earlier, _ in goals[:place])]
            for place, (goal, _) in enumerate(goals)
        ]
        # Exact answers come first, so that a goal has its answer's place
        bounds = [(mask_of(ports), answer.count) for ports, answer in answers if not answer.exact]
        self.goals = [count for _, count in goals]
        self.room = [count for _, count in (*goals, *bounds)]
        self.narrows = {
            one: [place for place, (asked, _) in enumerate((*goals, *bounds)) if not one & ~asked] for one in masks
        }
        self.counted = [mask_of(ports) for ports in space.isolated.must_be_reached(space.layout)]
        time = space.isolated.cycles * (1 + THROUGHPUT_TOLERANCE)
        self.times = [floor(size * time) for size in range(len(PORT_LETTERS) + 1)]
        self.chosen: list[int] = []
        complete = self._fill(0, 0, frozenset())
        return Enumeration(tuple(self.found), complete)

    def _fill(self, place: int, first: int, unions: AbstractSet[int]) -> bool:
        """Add every way to go on, with the choices from `first` on for the goal at `place`; False: it was too much."""
        choices, room = self.choices[place], self.room
        self.left -= max(1, len(choices) - first)
        if self.left < 0 or len(self.found) >= MOST_USAGES:
            return False
        if not room[place]:
            if place + 1 < len(self.goals):
                return self._fill(place + 1, 0, unions)
            self._keep()
            return True
        for position in range(first, len(choices)):
            one = choices[position]
            narrows = self.narrows[one]
            if not all(room[at] for at in narrows):
                continue
            reached = {one, *[union | one for union in unions]}
            self.chosen.append(one)
            for at in narrows:
                room[at] -= 1
            complete = not self._possible(reached) or self._fill(place, position, reached.union(unions))
            for at in narrows:
                room[at] += 1
            self.chosen.pop()
            if not complete:
                return False
        return True

    def _possible(self, unions: Iterable[int]) -> bool:
        """Whether all of these unions of chosen sets are within their limits."""
        limits, chosen = self.limits, self.chosen
        for union in unions:
            limit = limits[union] if union in limits else self._limit(union)
            if len(chosen) > limit and sum([not mask & ~union for mask in chosen]) > limit:
                return False
        return True

    def _limit(self, union: int) -> int:
        """Return how many µops may be confined to a union: what was counted there, and what had the time to run."""
        self.limits[union] = min(self.space.limit_of(union), self.times[union.bit_count()])
        return self.limits[union]

    def _keep(self) -> None:
        """Keep the usage if its µops can have been those that every counter counted."""
        reached = reduce(or_, self.chosen, 0)
        if all(counted & reached for counted in self.counted):
            self.found.append(PortUsage(dict(Counter(map(ports_of, self.chosen)))))
