"""Usages that agree with the answers so far, and the question that tells most of them apart.

Sets that share ports form a component, and each component has its own hypotheses. A hypothesis is a multiset of known
sets: basic ones and their intersections. Each answer says how many of them are subsets of a basic set.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from results.ports import PortSet

MOST_HYPOTHESES = 20_000
"""Multisets of a component that are listed at most, to bound the work."""

SAME_ENTROPY = 1e-9
"""Bits. Entropies that differ by no more are equal, but for the rounding of floating point."""

Hypothesis = tuple[int, ...]
"""The places of its sets in `PortComponent.known`, ascending."""


@dataclass(frozen=True, slots=True)
class UopBounds:
    """How many µops are confined to a set: from `least` to `most`."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class PortComponent:
    """Basic sets that are connected by common ports; `known` are these and their intersections, smaller ones first."""

    basic: tuple[PortSet, ...]
    known: tuple[PortSet, ...]

    @property
    def tops(self) -> tuple[PortSet, ...]:
        """The basic sets that lie in no other one."""
        return tuple(ports for ports in self.basic if not any(ports < other for other in self.basic))

    def hypotheses(self, answers: Mapping[PortSet, UopBounds], most: int) -> list[Hypothesis] | None:
        """Return all multisets of up to `most` known sets that agree with the answers; None if there are too many."""
        own = {ports: bounds for ports, bounds in answers.items() if ports in self.basic}
        possible = [
            place
            for place, ports in enumerate(self.known)
            if all(bounds.most > 0 for basic, bounds in own.items() if ports <= basic)
        ]
        if comb(len(possible) + most, most) > MOST_HYPOTHESES:
            return None
        return [
            chosen
            for count in range(most + 1)
            for chosen in combinations_with_replacement(possible, count)
            if all(bounds.least <= self.inside(chosen, basic) <= bounds.most for basic, bounds in own.items())
        ]

    def inside(self, hypothesis: Hypothesis, ports: PortSet) -> int:
        """Return how many of the sets are subsets of a set."""
        return sum(self.known[place] <= ports for place in hypothesis)

    def tells_most(self, left: Sequence[Hypothesis], askable: Iterable[PortSet]) -> PortSet | None:
        """Return the set whose answer splits the hypotheses best; None if no answer splits them."""
        best, most = None, 0.0
        for ports in sorted(askable, key=lambda one: (len(one), sorted(one))):
            counts = Counter(self.inside(one, ports) for one in left)
            entropy = -sum(n / len(left) * log2(n / len(left)) for n in counts.values())
            if entropy > most + SAME_ENTROPY:
                best, most = ports, entropy
        return best

    def usage(self, hypothesis: Hypothesis) -> Counter[PortSet]:
        """Return how often each set is in a hypothesis."""
        return Counter(self.known[place] for place in hypothesis)


def components(sets: Iterable[PortSet]) -> list[PortComponent]:
    """Divide sets into components, whose sets are connected by common ports."""
    groups: list[list[PortSet]] = []
    for ports in sorted(set(sets), key=lambda one: (len(one), sorted(one))):
        touching = [group for group in groups if any(ports & other for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([*(other for group in touching for other in group), ports])
    return [PortComponent(tuple(group), _closed(group)) for group in groups]


def _closed(sets: Sequence[PortSet]) -> tuple[PortSet, ...]:
    """Return the sets and all their intersections."""
    found = set(sets)
    fresh = set(sets)
    while fresh:
        fresh = {one & other for one in fresh for other in found if one & other} - found
        found |= fresh
    return tuple(sorted(found, key=lambda one: (len(one), sorted(one))))
