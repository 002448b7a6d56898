"""The critical path of one iteration, and all loop-carried dependencies.

The critical path is the longest chain of results within an iteration, from its inputs to its last result. It is the
time of one iteration alone (OSACA's CP; Laukemann et al., PMBS 2019, section II-B). A loop-carried dependency leads
from a result through later ones to the same result of another iteration (OSACA's LCD); the slowest one per iteration is
the bound of `analysis.bounds.dependencies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from analysis.bounds.dependencies import Cycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.block.effects import Output
    from analysis.bounds.components import Bounds
    from analysis.bounds.dependencies import Node

MOST_EDGES = 400
"""Edges from iteration to iteration that are followed one by one; each takes a walk through the block."""
MOST_STEPS = 2_000_000
"""Nodes that these walks visit. For longer blocks only the slowest dependency cycle is shown."""


@dataclass(frozen=True, slots=True)
class DependencyPath:
    """A chain of results in one iteration, in order, and its core cycles."""

    nodes: tuple[int, ...]
    cycles: int


def critical_path(bounds: Bounds) -> DependencyPath:
    """Return the longest chain within an iteration; an empty one if there are no results."""
    return longest_path(bounds.nodes, _own_cycles(bounds))


def longest_path(nodes: Sequence[Node], own: Sequence[int]) -> DependencyPath:
    """Return the longest chain of nodes within an iteration; `own` are the cycles of a node that waits for no other."""
    if not nodes:
        return DependencyPath((), 0)
    lengths: list[int] = []
    came: list[int | None] = []
    for number, node in enumerate(nodes):
        longest, source = own[number], None
        for edge in node.edges:
            if not edge.iterations and edge.source < number and lengths[edge.source] + edge.cycles > longest:
                longest, source = lengths[edge.source] + edge.cycles, edge.source
        lengths.append(longest)
        came.append(source)
    last = max(range(len(nodes)), key=lambda number: (lengths[number], -number))
    return DependencyPath(tuple(reversed(_back(came, last))), lengths[last])


def _own_cycles(bounds: Bounds) -> list[int]:
    """Return for each node its longest latency, if all that it reads is ready at the beginning."""
    found: list[int] = []
    for position, group in groupby(bounds.nodes, key=lambda node: node.position):
        outputs = bounds.block.items[position].effects.outputs
        synchronized = len(list(group)) - len(outputs)
        found += [0] * synchronized + [_longest_wait(output) for output in outputs]
    return found


def _longest_wait(output: Output) -> int:
    return max([cycles for _, cycles in output.waits] + [output.loads_wait or 0])


def _back(came: Sequence[int | None], last: int) -> list[int]:
    path: list[int] = []
    at: int | None = last
    while at is not None:
        path.append(at)
        at = came[at]
    return path


def loop_carried(bounds: Bounds) -> list[Cycle]:
    """Return the dependencies from iteration to iteration, the slowest per iteration first.

    There is one for each edge that leads into another iteration: the longest chain that it closes. The same
    instructions count once.
    """
    nodes = bounds.nodes
    closing = [(number, edge) for number, node in enumerate(nodes) for edge in node.edges if edge.iterations]
    found: dict[frozenset[int], Cycle] = {}
    if bounds.cycle is not None:
        found[_positions(nodes, bounds.cycle)] = bounds.cycle
    if _can_be_followed(len(closing), len(nodes)):
        for target, edge in closing:
            path = _longest(nodes, target, edge.source)
            if path is None:
                continue
            cycle = Cycle(path.nodes, path.cycles + edge.cycles, edge.iterations)
            key = _positions(nodes, cycle)
            if cycle.cycles and (key not in found or found[key].ratio < cycle.ratio):
                found[key] = cycle
    return sorted(found.values(), key=lambda cycle: (-cycle.ratio, cycle.nodes))


def all_carried(bounds: Bounds) -> bool:
    """Whether `loop_carried` returns all dependencies of a block, and not only the slowest."""
    return _can_be_followed(sum(edge.iterations > 0 for node in bounds.nodes for edge in node.edges), len(bounds.nodes))


def _can_be_followed(edges: int, nodes: int) -> bool:
    return edges <= MOST_EDGES and edges * nodes <= MOST_STEPS


def _positions(nodes: Sequence[Node], cycle: Cycle) -> frozenset[int]:
    return frozenset(nodes[number].position for number in cycle.nodes)


def _longest(nodes: Sequence[Node], start: int, end: int) -> DependencyPath | None:
    """Return the longest chain from one node to another in the same iteration, None if there is none."""
    lengths: dict[int, int] = {start: 0}
    came: dict[int, int] = {}
    for number in range(start + 1, end + 1):
        for edge in nodes[number].edges:
            if edge.iterations or edge.source not in lengths or edge.source >= number:
                continue
            reached = lengths[edge.source] + edge.cycles
            if reached > lengths.get(number, -1):
                lengths[number], came[number] = reached, edge.source
    if end not in lengths:
        return None
    path = [end]
    while path[-1] != start:
        path.append(came[path[-1]])
    return DependencyPath(tuple(reversed(path)), lengths[end])
