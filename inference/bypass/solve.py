"""What rings of two and three classes tell of the delay in each direction.

A ring tells only the sum of the delays around it. So each class has one degree of freedom: if its results reach all
others φ cycles later, and all others' results reach it φ cycles earlier, every ring takes as long as before. With a
reference class 0, pair rings s and triple rings t, one solution is

    base(0, j) = s(0, j)        base(j, 0) = 0        base(i, j) = t(0, i, j) - base(0, i)

and all solutions are d(i, j) = base(i, j) + φ(i) - φ(j). No delay is negative. Hence φ(j) - φ(i) is at most base(i, j),
and at most the shortest path D(i, j) from i to j. So d(i, j) is at least base(i, j) - D(i, j), and at most
base(i, j) + D(j, i). Both occur.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Edges = dict[tuple[str, str], int]
"""Cycles by producer and consumer."""


class DelayRange(NamedTuple):
    """The least and the most cycles of delay that fit all rings."""

    least: int
    most: int


class ContradictionError(ValueError):
    """No delays of 0 and more cycles fit the rings."""


def reference_of(classes: Sequence[str], pairs: Mapping[tuple[str, str], int]) -> str:
    """Return the class with the most known pair rings, the first of several."""
    return max(classes, key=lambda one: sum(one in pair for pair in pairs))


def solve(
    classes: Sequence[str],
    pairs: Mapping[tuple[str, str], int],
    triples: Mapping[tuple[str, str], int],
    reference: str,
) -> dict[tuple[str, str], DelayRange]:
    """Return the range of each delay by (producer, consumer), as far as rings tell.

    Args:
        classes: their names.
        pairs: by (i, j), one order of each pair: cycles from i to j and back, beyond the latencies.
        triples: by (i, j), one order of each pair: cycles from the reference to i, to j, and back, likewise.
        reference: the class that all triples go through.

    Raises:
        ContradictionError: no delays fit.
    """
    around = {**{(j, i): cycles for (i, j), cycles in pairs.items()}, **pairs}
    if any(cycles < 0 for cycles in around.values()):
        raise ContradictionError("a ring of two classes takes less than the latencies of both")
    base = _base(classes, around, triples, reference)
    distances = _shortest(classes, base)
    found = {pair: DelayRange(0, cycles) for pair, cycles in around.items()}
    for (i, j), cycles in base.items():
        back = distances.get((j, i))
        if back is not None:
            found[i, j] = DelayRange(cycles - distances[i, j], cycles + back)
    return found


def _base(classes: Sequence[str], around: Edges, triples: Mapping[tuple[str, str], int], reference: str) -> Edges:
    """Return the solution in which nothing is delayed on the way to the reference."""
    base: Edges = {}
    for one in classes:
        if (reference, one) in around:
            base[reference, one], base[one, reference] = around[reference, one], 0
    for (i, j), cycles in triples.items():
        if (reference, i) in base and (reference, j) in base:
            base[i, j] = cycles - base[reference, i]
            if (i, j) in around:
                base[j, i] = around[i, j] - base[i, j]
    return base


def _shortest(classes: Sequence[str], base: Edges) -> Edges:
    """Return the shortest paths between all classes (Floyd and Warshall)."""
    found = dict(base)
    for middle in classes:
        for i, j in permutations(classes, 2):
            there, on = found.get((i, middle)), found.get((middle, j))
            if there is not None and on is not None and there + on < found.get((i, j), there + on + 1):
                found[i, j] = there + on
    for i, j in permutations(classes, 2):
        if (i, j) in found and (j, i) in found and found[i, j] + found[j, i] < 0:
            raise ContradictionError(f"the rings through {i} and {j} would need a delay below 0")
    return found
