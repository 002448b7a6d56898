"""Which ports sets have in common: all Venn diagrams that fit what was measured of each set and each pair.

A diagram is a list of cells: so many ports that belong to just these sets. Nothing tells the ports of a cell apart, so
cells and their sizes say everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from results.model import PORT_LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from results.ports import PortSet

Value = TypeVar("Value")

WRONG_NESTING, TOO_FAST, SLOW = 6, 3, 1
"""Weights of contradictions. In order: a pair that is nested against the measurement, a mix faster than the ports
allow, a slower mix. The last weighs least, because other things than ports may slow a mix down."""

_Node = tuple[int, int, int, tuple[int, ...], tuple[int, ...]]
"""A set that is drawn in part: the least weight, the most ports (negative), and which diagram. Then the ports that it
takes of the first cells, and those that it has in common with each earlier set."""

MOST_DIAGRAMS = 64
"""Diagrams that are kept each time a set is added, to bound the work."""


@dataclass(frozen=True, slots=True)
class SetRelations:
    """What is known of sets: their sizes; which (inner, outer) pairs are nested; the ports that pairs have together.

    `nested` maps (inner, outer) to whether it is so. `together` maps a pair (lower index first) to the least and the
    most ports of the union. Nothing is known of pairs that are missing.
    """

    sizes: tuple[int, ...]
    nested: Mapping[tuple[int, int], bool]
    together: Mapping[tuple[int, int], tuple[int, int]]

    def without(self, number: int) -> SetRelations:
        """Return the same of all sets but one."""
        places = {old: new for new, old in enumerate(n for n in range(len(self.sizes)) if n != number)}

        def kept(pairs: Mapping[tuple[int, int], Value]) -> dict[tuple[int, int], Value]:
            return {(places[i], places[o]): value for (i, o), value in pairs.items() if number not in {i, o}}

        sizes = tuple(size for place, size in enumerate(self.sizes) if place != number)
        return SetRelations(sizes, kept(self.nested), kept(self.together))


Cells = tuple[tuple[int, int], ...]
"""Cells as (bits of the sets that a port belongs to, number of ports)."""


def diagrams(relations: SetRelations) -> tuple[list[Cells], int]:
    """Return the diagrams with the least weight of contradictions, and that weight.

    Of these, the ones with the most ports count: sets share no port unless that was seen. Sets must be in order of
    their sizes, smaller ones first.
    """
    found: dict[Cells, int] = {(): 0}
    for number in range(len(relations.sizes)):
        found = dict(islice(_extended(found, number, relations), MOST_DIAGRAMS))
    against, ports = min((against, -ports_in(cells)) for cells, against in found.items())
    return [cells for cells, other in found.items() if (other, -ports_in(cells)) == (against, ports)], against


def consistent(relations: SetRelations) -> tuple[list[Cells], int, list[int]]:
    """Return diagrams, the weight of their contradictions, and the sets that were left out.

    Sets that contradict others are left out. On Zen 4, moves from vector to general registers have such a set. They
    delay instructions that share no port with them, so their set seems to be nested in disjoint ones. Sets are
    left out, too, until there is a letter for every port.
    """
    left_out: list[int] = []
    fitting, against = diagrams(relations)
    while against >= TOO_FAST and len(relations.sizes) > 1:
        tried = [(diagrams(relations.without(number)), number) for number in range(len(relations.sizes))]
        (fewer, least), number = min(tried, key=lambda one: (one[0][1], one[1]))
        if least > against - TOO_FAST:
            break
        left_out.append(_place(number, left_out))
        relations, fitting, against = relations.without(number), fewer, least
    while _without_letter(fitting):
        tried = [(diagrams(relations.without(number)), number) for number in range(len(relations.sizes))]
        (fitting, against), number = min(tried, key=_letters_then_ports)
        left_out.append(_place(number, left_out))
        relations = relations.without(number)
    return fitting, against, sorted(left_out)


def _place(number: int, left_out: Sequence[int]) -> int:
    """Return which of all sets the one with a number is, if some were left out."""
    there = [place for place in range(number + len(left_out) + 1) if place not in left_out]
    return there[number]


def _without_letter(fitting: Sequence[Cells]) -> int:
    """Return for how many ports there is no letter. All diagrams that fit have equally many ports."""
    return max(0, ports_in(fitting[0]) - len(PORT_LETTERS))


def _letters_then_ports(tried: tuple[tuple[list[Cells], int], int]) -> tuple[int, int, int, int]:
    """Order what is left without a set: all ports should have letters, then little be contradicted, many ports stay."""
    (fitting, against), number = tried
    return _without_letter(fitting), against, -ports_in(fitting[0]), number


def ports_in(cells: Cells) -> int:
    """Return how many ports a diagram has."""
    return sum(count for _, count in cells)


def _extended(drawn: Mapping[Cells, int], number: int, relations: SetRelations) -> Iterator[tuple[Cells, int]]:
    """Yield diagrams with a further set, and their weights: the least weight first, of equal ones most ports first.

    Millions are possible, so the best one is drawn on, cell by cell: the one whose weight can become the least (A*).
    """
    size = relations.sizes[number]
    weights = [_weights(number, other, relations) for other in range(number)]
    diagrams_ = list(drawn)
    rooms = [_rooms(cells, number) for cells in diagrams_]

    def node(which: int, taken: tuple[int, ...], common: tuple[int, ...]) -> _Node:
        """Return a set that takes so many ports of the first cells; the least weight and the most ports it can have."""
        left = size - sum(taken)
        most = rooms[which][len(taken)]
        weight = sum(
            min(each[now : now + min(left, room) + 1]) for each, now, room in zip(weights, common, most, strict=True)
        )
        cells = diagrams_[which]
        return (drawn[cells] + weight, -ports_in(cells) - left, which, taken, common)

    heap = [node(which, (), (0,) * number) for which in range(len(diagrams_))]
    heapify(heap)
    while heap:
        against, _, which, taken, common = heappop(heap)
        cells = diagrams_[which]
        if len(taken) == len(cells):
            yield _with(cells, number, taken, size), against
            continue
        bits, count = cells[len(taken)]
        for more in range(min(count, size - sum(taken)) + 1):
            further = tuple(now + more * (bits >> other & 1) for other, now in enumerate(common))
            heappush(heap, node(which, (*taken, more), further))


def _rooms(cells: Cells, number: int) -> list[list[int]]:
    """Return how many ports each of the earlier sets has in the cells from each place on."""
    found = [[0] * number]
    for bits, count in reversed(cells):
        found.append([room + count * (bits >> other & 1) for other, room in enumerate(found[-1])])
    return found[::-1]


def _weights(number: int, other: int, relations: SetRelations) -> list[int]:
    """Return the weight of what contradicts a set and an earlier one, for each number of common ports."""
    size, of_other = relations.sizes[number], relations.sizes[other]
    least, most = relations.together.get((other, number), (0, size + of_other))
    found = []
    for common in range(min(size, of_other) + 1):
        is_inside = common == of_other
        wrong = relations.nested.get((other, number), is_inside) != is_inside
        union = size + of_other - common
        found.append(WRONG_NESTING * wrong + TOO_FAST * (union < least) + SLOW * (union > most))
    return found


def _with(cells: Cells, number: int, taken: Sequence[int], size: int) -> Cells:
    """Return the cells with a further set that takes so many ports of each, and the rest of its ports alone."""
    parts = [(bits, count - inside) for (bits, count), inside in zip(cells, taken, strict=True)]
    parts += [(bits | 1 << number, inside) for (bits, _), inside in zip(cells, taken, strict=True)]
    parts.append((1 << number, size - sum(taken)))
    return tuple(sorted((bits, count) for bits, count in parts if count))


def named(cells: Cells, ranks: Sequence[int]) -> list[PortSet]:
    """Return the ports of each set.

    Sets that are connected by common ports are a part, and the letters go to one part after the other. So names outside
    a part do not depend on whether all of its sets were found. The part with the least rank comes first, of equal ones
    the one with most ports. In a part, the first letters go to the cells of the first sets.

    Args:
        cells: a diagram.
        ranks: a rank of each set.
    """
    letters = iter(PORT_LETTERS)
    ports: list[set[str]] = [set() for _ in ranks]
    for bits, number in _in_order(cells, ranks):
        for _ in range(number):
            letter = next(letters)
            for place in range(len(ranks)):
                if bits >> place & 1:
                    ports[place].add(letter)
    return [frozenset(one) for one in ports]


def _in_order(cells: Cells, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """Return the cells in the order in which their ports are named."""

    def of_first_sets(cell: tuple[int, int]) -> list[int]:
        return [-(cell[0] >> place & 1) for place in range(len(ranks))]

    def of_part(part: Sequence[tuple[int, int]]) -> tuple[int, int, list[int]]:
        rank = min(rank for place, rank in enumerate(ranks) if any(bits >> place & 1 for bits, _ in part))
        return rank, -sum(number for _, number in part), of_first_sets(part[0])

    parts: list[list[tuple[int, int]]] = []
    for cell in sorted(cells, key=of_first_sets):
        touching = [part for part in parts if any(cell[0] & bits for bits, _ in part)]
        parts = [part for part in parts if part not in touching]
        parts.append(sorted([*(one for part in touching for one in part), cell], key=of_first_sets))
    return [cell for part in sorted(parts, key=of_part) for cell in part]
