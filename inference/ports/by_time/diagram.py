"""Which ports sets have in common: all Venn diagrams that fit what was measured of each set and each pair.

A diagram is a list of cells: so many ports that belong to just these sets. Nothing tells the ports of a cell apart, so
cells and their sizes say everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from results.model import PORT_LETTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from results.ports import PortSet

Value = TypeVar("Value")

WRONG_NESTING, TOO_FAST, SLOW = 6, 3, 1
"""Weights of contradictions. In order: a pair that is nested against the measurement, a mix faster than the ports
allow, a slower mix. The last weighs least, because other things than ports may slow a mix down."""

MOST_DIAGRAMS = 64
"""Diagrams that are kept each time a set is added, to bound the work."""


@dataclass(frozen=True, slots=True)
class Lying:
    """What is known of sets: their sizes; which (inner, outer) pairs are nested; the ports that pairs have together.

    `nested` maps (inner, outer) to whether it is so. `together` maps a pair (lower index first) to the least and the
    most ports of the union. Nothing is known of pairs that are missing.
    """

    sizes: tuple[int, ...]
    nested: Mapping[tuple[int, int], bool]
    together: Mapping[tuple[int, int], tuple[int, int]]

    def without(self, number: int) -> Lying:
        """Return the same of all sets but one."""
        places = {old: new for new, old in enumerate(n for n in range(len(self.sizes)) if n != number)}

        def kept(pairs: Mapping[tuple[int, int], Value]) -> dict[tuple[int, int], Value]:
            return {(places[i], places[o]): value for (i, o), value in pairs.items() if number not in {i, o}}

        sizes = tuple(size for place, size in enumerate(self.sizes) if place != number)
        return Lying(sizes, kept(self.nested), kept(self.together))


Cells = tuple[tuple[int, int], ...]
"""Cells as (bits of the sets that a port belongs to, number of ports)."""


def diagrams(lying: Lying) -> tuple[list[Cells], int]:
    """Return the diagrams with the least weight of contradictions, and that weight.

    Of these, the ones with the most ports count: sets share no port unless that was seen. Sets must be in order of
    their sizes, smaller ones first.
    """
    found: dict[Cells, int] = {(): 0}
    for number, size in enumerate(lying.sizes):
        further: dict[Cells, int] = {}
        for cells, against in found.items():
            for extended in _with(cells, number, size):
                further[extended] = against + _against(extended, number, lying)
        ordered = sorted(further.items(), key=lambda item: (item[1], -ports_in(item[0])))
        found = dict(ordered[:MOST_DIAGRAMS])
    against, ports = min((against, -ports_in(cells)) for cells, against in found.items())
    return [cells for cells, other in found.items() if (other, -ports_in(cells)) == (against, ports)], against


def consistent(lying: Lying) -> tuple[list[Cells], int, list[int]]:
    """Return diagrams, the weight of their contradictions, and the sets that were left out.

    Sets that contradict others are left out. On Zen 4, moves from vector to general registers have such a set. They
    delay instructions that share no port with them, so their set seems to be nested in disjoint ones.
    """
    left_out: list[int] = []
    fitting, against = diagrams(lying)
    while against >= TOO_FAST and len(lying.sizes) > 1:
        tried = [(diagrams(lying.without(number)), number) for number in range(len(lying.sizes))]
        (fewer, least), number = min(tried, key=lambda one: (one[0][1], one[1]))
        if least > against - TOO_FAST:
            break
        there = [place for place in range(len(lying.sizes) + len(left_out)) if place not in left_out]
        left_out.append(there[number])
        lying, fitting, against = lying.without(number), fewer, least
    return fitting, against, sorted(left_out)


def ports_in(cells: Cells) -> int:
    """Return how many ports a diagram has."""
    return sum(count for _, count in cells)


def _with(cells: Cells, number: int, size: int) -> list[Cells]:
    """Return all ways in which a further set can lie in the cells."""
    found = []
    for taken in product(*(range(min(count, size) + 1) for _, count in cells)):
        if sum(taken) > size:
            continue
        parts = [(bits, count - inside) for (bits, count), inside in zip(cells, taken, strict=True)]
        parts += [(bits | 1 << number, inside) for (bits, _), inside in zip(cells, taken, strict=True)]
        parts.append((1 << number, size - sum(taken)))
        found.append(tuple(sorted((bits, count) for bits, count in parts if count)))
    return found


def _against(cells: Cells, number: int, lying: Lying) -> int:
    """Return the weight of what contradicts the place of the last set among the others."""
    found = 0
    size = lying.sizes[number]
    for other in range(number):
        common = sum(count for bits, count in cells if bits >> number & 1 and bits >> other & 1)
        inside = common == lying.sizes[other]
        found += WRONG_NESTING * (lying.nested.get((other, number), inside) != inside)
        least, most = lying.together.get((other, number), (0, size + lying.sizes[other]))
        union = size + lying.sizes[other] - common
        found += TOO_FAST * (union < least) + SLOW * (union > most)
    return found


def named(cells: Cells, count: int) -> list[PortSet]:
    """Return the ports of each set. The first letters go to the cells of the first sets."""
    letters = iter(PORT_LETTERS)
    ports: list[set[str]] = [set() for _ in range(count)]
    for bits, number in sorted(cells, key=lambda cell: [-(cell[0] >> place & 1) for place in range(count)]):
        for _ in range(number):
            letter = next(letters)
            for place in range(count):
                if bits >> place & 1:
                    ports[place].add(letter)
    return [frozenset(one) for one in ports]
