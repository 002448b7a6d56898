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

from inference.ports.usages.hypotheses import THROUGHPUT_TOLERANCE
from inference.ports.usages.integer_program import IntegerProgram
from results.model import PORT_LETTERS, PortUsage
from results.ports import PortSet, mask_of, mask_unions, ports_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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
    HiGHS, finds a usage that differs much, however many µops there are.

    Adding ports to a µop breaks no condition, as long as it stays confined to the same sets of exact answers. So the
    largest sets are enough for the program. If it finds only the given usage, any other one becomes the given one by
    adding ports. The usage before the last such step agrees, too: in it, one µop has fewer ports than in the given one.
    """
    possible = sorted({mask_of(one) for one in sets if space.limit(one)}, key=lambda one: (-one.bit_count(), one))
    asked = [mask_of(ports) for ports, answer in space.answers.items() if answer.exact]
    kinds: dict[tuple[bool, ...], list[int]] = {}
    for one in possible:
        kinds.setdefault(tuple(not one & ~ports for ports in asked), []).append(one)
    largest = [one for kind in kinds.values() for one in _maximal(kind)]
    everything = mask_of(space.layout.ports.union(*sets))
    conditions = _conditions(space, [*map(mask_of, sets), *mask_unions(largest)], everything)
    given = Counter({mask_of(one): count for one, count in usage.uops.items() if count})
    found = _most_different(space, given, largest, conditions)
    if found is None or found != given:
        return None if found is None else _usage_of(found)
    for kind in kinds.values():
        for able in given.keys() & set(kind):
            for part in _maximal(one for one in kind if one != able and not one & ~able):
                other = given - Counter([able]) + Counter([part])
                if space.agrees(_usage_of(other)) and _fulfils(other, conditions):
                    return _usage_of(other)
    return None


def _maximal(masks: Iterable[int]) -> list[int]:
    """Return the sets that are no part of another one; larger ones have to come first."""
    found: list[int] = []
    for one in masks:
        if all(one & ~other for other in found):
            found.append(one)
    return found


def _usage_of(counts: Mapping[int, int]) -> PortUsage:
    return PortUsage({ports_of(mask): count for mask, count in counts.items()})


def _conditions(space: HypothesisSpace, sets: Iterable[int], everything: int) -> dict[int, tuple[int, int]]:
    """Return for each set with a bound how many µops are confined to it at least and at most."""
    total, times = space.isolated.total, _times(space)
    found = {everything: (total, total)}

    def narrow(ports: int, least: int, most: int) -> None:
        before = found.get(ports, (0, total))
        if least > before[0] or most < before[1]:
            found[ports] = max(least, before[0]), min(most, before[1])

    for asked, answer in space.answers.items():
        narrow(mask_of(asked), answer.count if answer.exact else 0, answer.count)
    for one in sets:
        for ports in (one, everything & ~one):
            narrow(ports, 0, min(space.limit_of(ports), times[ports.bit_count()]))
    return found


def _times(space: HypothesisSpace) -> list[int]:
    """Return for each number of ports how many µops had the time to run on them in isolation."""
    time = space.isolated.cycles * (1 + THROUGHPUT_TOLERANCE)
    return [floor(size * time) for size in range(len(PORT_LETTERS) + 1)]


def _fulfils(usage: Mapping[int, int], conditions: Mapping[int, tuple[int, int]]) -> bool:
    """Whether the µops confined to each set are as many as its condition allows."""
    uops = list(usage.items())
    return all(
        least <= sum([count for able, count in uops if not able & ~ports]) <= most
        for ports, (least, most) in conditions.items()
    )


def _most_different(
    space: HypothesisSpace, given: Mapping[int, int], sets: Sequence[int], conditions: Mapping[int, tuple[int, int]]
) -> Counter[int] | None:
    """Return the usage of these sets that differs most from the given one; the given one if no other one agrees.

    None: none agrees.
    """
    total = space.isolated.total
    rows: dict[tuple[bool, ...], tuple[int, int]] = {}
    for ports, (least, most) in conditions.items():
        inside = tuple([not one & ~ports for one in sets])
        before = rows.get(inside, (0, total))
        rows[inside] = max(before[0], least), min(before[1], most)
    reached = ([bool(one & mask_of(ports)) for one in sets] for ports in space.isolated.must_be_reached(space.layout))
    several = [(members, least, most) for members, (least, most) in rows.items()]
    program = IntegerProgram.of(total, len(sets), [*several, *((members, 1, total) for members in reached)])
    wanted = [[at for at, one in enumerate(sets) if one not in given]]
    for at in (*wanted, *([at] for at, one in enumerate(sets) if one in given)):
        counts = program.most(at)
        if counts is None:
            return None
        found = Counter({one: count for one, count in zip(sets, counts, strict=True) if count})
        if found != given:
            return found
    return Counter(given)


def subsets_of(ports: PortSet) -> list[PortSet]:
    """Return all subsets of some ports but the empty one, smaller ones first."""
    return [frozenset(part) for size in range(1, len(ports) + 1) for part in combinations(sorted(ports), size)]


@dataclass
class _Search:
    """Fills the sets that were asked about exactly, smaller ones first, then the rest, while no limit is exceeded.

    A µop belongs to the smallest of those sets that it is confined to. So no usage is found twice. Every condition of
    `HypothesisSpace.agrees` is checked as soon as a µop may break it, with sets as integers: further µops never repair
    it.
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
        self.times = _times(space)
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
