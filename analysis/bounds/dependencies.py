"""The slowest dependency cycle through iterations, exactly: the longest loop-carried dependency.

Every result of an instruction is a node. An edge says: this result comes so many core cycles after that one of so many
iterations ago. A dependency cycle is a closed walk along edges. An iteration takes no less than the highest ratio of
core cycles to iterations of any such cycle (the maximum cycle ratio of Karp and Orlin, 1981).

Longest paths are computed with the ratio of the best candidate taken off each edge (Bellman and Ford). If they stop
growing, no dependency cycle is slower. If a path meets itself, it is a slower one, and the next candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.block.repeated import in_repeated
from analysis.memory.pointers import quick_loads
from simulator.instructions.locations import high_byte_of
from simulator.instructions.stack_pointer import STACK_POINTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.block.code import Block, Item
    from analysis.memory.accesses import ForwardedLoad
    from results.machine.constants import CoreConstants

MOST_EDGES = 10_000_000
"""Edges that the search for the slowest dependency cycle looks at, which takes some seconds. Few blocks need them:
only those where each cycle that is found is a bit slower than the one before."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What a result waits for: a node, cycles after it, iterations back; `through_memory`: a store was read."""

    source: int
    cycles: int
    iterations: int
    through_memory: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A result: the position of its instruction, the locations that it is in, what it waits for."""

    position: int
    names: tuple[str, ...]
    edges: list[Edge]


@dataclass(frozen=True, slots=True)
class Cycle:
    """A dependency cycle: nodes in the order of execution, core cycles and iterations once around."""

    nodes: tuple[int, ...]
    cycles: int
    iterations: int

    @property
    def ratio(self) -> Fraction:
        """Cycles per iteration."""
        return Fraction(self.cycles, self.iterations)


def graph_of(block: Block, forwardings: Sequence[ForwardedLoad], core: CoreConstants | None) -> list[Node]:
    """Return the results of a block, each with what it waits for; values from outside the block are always ready."""
    return _Wiring(block, forwardings, core).nodes


def synchronizations(block: Block, core: CoreConstants | None) -> set[int]:
    """Return before which instructions a µop brings RSP up to date with the stack engine.

    It does where a µop uses RSP after PUSH, POP, CALL or RET (Agner Fog, "The microarchitecture of Intel, AMD and VIA
    CPUs", sections on the stack engine). Cores of which more is known have their own rule (`StackEngine`).
    """
    behind = any(item.effects.moves_stack for item in block.items)
    if not behind:
        return set()
    values_only = core is not None and core.updates_for_values

    def is_updated(item: Item) -> bool:
        nonlocal behind
        effects = item.effects
        if effects.moves_stack:
            behind = True
        elif behind and effects.uses_stack_pointer:
            found = effects.reads_stack_pointer or not values_only
            behind = not (found or any(STACK_POINTER in output.names for output in effects.outputs))
            return found
        return False

    return {position for position, found in enumerate(in_repeated(block.items, is_updated)) if found}


class _Wiring:
    """Connects the results of a block.

    `made` has, by location, the node whose result is there at the end of an iteration. `here` is the same within the
    iteration, up to the present instruction.
    """

    def __init__(self, block: Block, forwardings: Sequence[ForwardedLoad], core: CoreConstants | None) -> None:
        self.items = block.items
        fast = core is not None and core.memory.fast_pointer_chasing
        self.quick = quick_loads(self.items, forwardings) if fast else set()
        self.forwarding = core.memory.forwarding if core is not None else 0
        self.failed = core.memory.failed_forwarding if core is not None else 0
        self.ways = core.memory.ways if core is not None and core.memory_renaming is not None else (0, 0)
        self.nodes: list[Node] = []
        self.first: list[int] = []
        self.made: dict[str, int] = {}
        self.stores: dict[int, list[ForwardedLoad]] = {}
        for one in forwardings:
            self.stores.setdefault(one.load, []).append(one)
        self.failing = sorted({one.load for one in forwardings if not one.whole})
        synchronized = synchronizations(block, core)
        for position, item in enumerate(self.items):
            if position in synchronized:
                self.nodes.append(Node(position, (STACK_POINTER,), []))
                self.made[STACK_POINTER] = len(self.nodes) - 1
            for register in item.effects.merged:
                self.nodes.append(Node(position, (register,), []))
                self.made[register] = len(self.nodes) - 1
            self.first.append(len(self.nodes))
            self.nodes += [Node(position, output.names, []) for output in item.effects.outputs]
            self._note(position, self.made)
        self.here: dict[str, int] = {}
        for position, item in enumerate(self.items):
            merged = item.effects.merged
            if position in synchronized:
                self._bring(self.first[position] - len(merged) - 1, STACK_POINTER, (STACK_POINTER,))
            for number, register in enumerate(merged, self.first[position] - len(merged)):
                self._bring(number, register, (register, high_byte_of(register)))
            self._connect(position)
            self._note(position, self.here)

    def _note(self, position: int, known: dict[str, int]) -> None:
        """Note the nodes of an instruction's results by location."""
        for number, output in enumerate(self.items[position].effects.outputs, self.first[position]):
            for name in output.names:
                known[name] = number

    def _connect(self, position: int) -> None:
        """Add the edges to the results of one instruction."""
        effects = self.items[position].effects
        here, made = self.here, self.made
        for number, output in enumerate(effects.outputs, self.first[position]):
            edges = self.nodes[number].edges
            for name, cycles in output.waits:
                source = here.get(name, made.get(name))
                if source is None:
                    continue
                quick = position in self.quick and name == effects.pointer and not output.stored
                edges.append(Edge(source, cycles - 1 if quick else cycles, 0 if name in here else 1))
            if output.loads_wait is not None:
                edges += self._stored(position, output.loads_wait)

    def _bring(self, number: int, register: str, parts: Sequence[str]) -> None:
        """Let a register be ready a cycle after its parts.

        What the stack engine did is added to RSP, and other registers are merged with their high bytes.
        """
        for part in parts:
            source = self.here.get(part, self.made.get(part))
            if source is not None:
                self.nodes[number].edges.append(Edge(source, 1, 0 if part in self.here else 1))
        self.here[register] = number

    def _stored(self, position: int, cycles: int) -> Iterator[Edge]:
        """Yield the edges from the stores that an instruction reads from.

        A store that is not forwarded retires after everything before it, and so does a load that waited. Where loads
        can be renamed, the latencies of stores and loads do not contain the time between them (`ways`).
        """
        for one in self.stores.get(position, ()):
            way = 0 if one.renamed else self.ways[one.vectors]
            delay = cycles + way + (0 if one.whole else self.failed)
            if not one.whole:
                yield from self._retired(one)
            for number, output in enumerate(self.items[one.store].effects.outputs, self.first[one.store]):
                if output.stored:
                    yield Edge(number, delay, one.iterations, through_memory=True)

    def _retired(self, one: ForwardedLoad) -> Iterator[Edge]:
        """Yield the edges from the last load before a store that could not be forwarded either."""
        before = [load for load in self.failing if load <= one.store]
        last = before[-1] if before else self.failing[-1]
        iterations = one.iterations + (not before)
        for number, output in enumerate(self.items[last].effects.outputs, self.first[last]):
            if output.loads_wait is not None:
                yield Edge(number, self.forwarding + self.failed, iterations, through_memory=True)


@dataclass(frozen=True, slots=True)
class CycleSearch:
    """The slowest dependency cycle found (None: there is none). If not `complete`, there may be a slower one."""

    cycle: Cycle | None
    complete: bool


def slowest_cycle(nodes: Sequence[Node]) -> Cycle | None:
    """Return a dependency cycle with the highest ratio, None if no result depends on an earlier iteration."""
    return search_slowest(nodes).cycle


def search_slowest(nodes: Sequence[Node], most_edges: int = MOST_EDGES) -> CycleSearch:
    """Look for the dependency cycle with the highest ratio, and look at `most_edges` edges at most."""
    carried = _carried(nodes)
    rounds = most_edges // max(1, sum(len(edges) for _, edges in carried))
    best: Cycle | None = None
    while True:
        found, used = _slower(carried, best, rounds)
        rounds -= used
        if found is None:
            return CycleSearch(best, complete=rounds >= 0)
        best = found


def _carried(nodes: Sequence[Node]) -> list[tuple[int, list[Edge]]]:
    """Return the nodes that can be on a cycle: those without successor or without predecessor are removed in turn."""
    sources = [[edge.source for edge in node.edges] for node in nodes]
    targets: list[list[int]] = [[] for _ in nodes]
    for number, found in enumerate(sources):
        for source in found:
            targets[source].append(number)
    alive = set(range(len(nodes)))
    for before, after in ((sources, targets), (targets, sources)):
        waits = [sum(one in alive for one in before[number]) for number in range(len(nodes))]
        leaves = [number for number in alive if not waits[number]]
        for number in leaves:
            alive.discard(number)
            for one in after[number]:
                waits[one] -= 1
                if not waits[one] and one in alive:
                    leaves.append(one)
    return [(n, [edge for edge in nodes[n].edges if edge.source in alive]) for n in sorted(alive)]


def _slower(nodes: Sequence[tuple[int, list[Edge]]], best: Cycle | None, most: int) -> tuple[Cycle | None, int]:
    """Return a dependency cycle slower than `best` (None: any), None if there is none; and the rounds that it took.

    Longest paths with the ratio of `best` taken off each edge grow without end if and only if there is such a cycle.
    The search is given up after `most` rounds through all edges; the number of rounds is then one more.
    """
    cycles, per = (best.cycles, best.iterations) if best is not None else (0, 1)
    length = dict.fromkeys([n for n, _ in nodes], 0)
    came: dict[int, Edge] = {}
    for used in range(1, 2 * len(nodes) + 3):
        if used > most:
            return None, used
        changed = False
        for number, edges in nodes:
            longest = length[number]
            for edge in edges:
                reached = length[edge.source] + edge.cycles * per - cycles * edge.iterations
                if reached > longest:
                    longest, came[number], changed = reached, edge, True
            length[number] = longest
        if not changed:
            return None, used
        found = _closed(came)
        if found is not None:
            return found, used
    return None, 2 * len(nodes) + 2


def _closed(came: dict[int, Edge]) -> Cycle | None:
    """Return a dependency cycle in the last edges of the longest paths, None if there is none."""
    done: set[int] = set()
    for start in came:
        path: dict[int, int] = {}
        node = start
        while node in came and node not in done:
            if node in path:
                around = list(path)[path[node] :]
                edges = [came[one] for one in around]
                cycles, iterations = sum(e.cycles for e in edges), sum(e.iterations for e in edges)
                return Cycle(tuple(reversed(around)), cycles, iterations)
            path[node] = len(path)
            node = came[node].source
        done |= path.keys()
    return None
