"""Which of the ports that share a counter an instruction uses, as far as that can be told.

A counter for ports 5 and 10 does not say which of them counted. But two instructions that use one of them each either
get in each other's way or do not: so many of both, in turns, need the more cycles the smaller the union of their ports
is. The ports of one instruction are named by convention (the first ports of the counter), all others relative to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from inference.experiment import Procedure, Request, Want
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.ports.blocking_instructions import BlockingInstruction
    from inference.ports.layout import PortLayout
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

    Mix = Callable[[Sequence[tuple[InstructionVariant, int]]], Microbenchmark]

TURNS = 12
"""Instructions per port in a mixture."""

MOST_ALIKE = 24
"""Instructions that counters cannot tell from another one and that are compared with it, a measurement each."""


@dataclass
class SharedCounters:
    """Names the ports of blocking instructions; `best` is the fastest one for each set, by the names found so far."""

    layout: PortLayout
    mix: Mix
    width: int
    best: dict[PortSet, BlockingInstruction]

    def run(self, instructions: Sequence[BlockingInstruction]) -> Procedure[dict[PortSet, BlockingInstruction]]:
        """Compare instructions that look alike, then those of different sets that share a counter."""
        for ports in self._partial():
            yield from self._compare_alike(ports, [one for one in instructions if one.ports == ports])
        for group in self._groups():
            yield from self._compare_sets(group)
        return self.best

    def _groups(self) -> list[PortSet]:
        """Return the pairs of ports that share a counter."""
        return [ports for ports in self.layout.counters.values() if len(ports) == 2]

    def _group_of(self, ports: PortSet) -> PortSet | None:
        """Return the pair of which a set has one port; None if there is none, or more than one."""
        partial = [counted for counted in self.layout.counters.values() if counted & ports and not counted <= ports]
        return partial[0] if len(partial) == 1 and len(partial[0]) == 2 else None

    def _partial(self) -> list[PortSet]:
        """Return the sets with one port of a pair, smaller ones first."""
        found = [ports for ports, one in self.best.items() if self._group_of(ports) and one.usage.total == 1]
        return sorted(found, key=lambda ports: (len(ports), sorted(ports)))

    def _compare_alike(self, ports: PortSet, alike: Sequence[BlockingInstruction]) -> Procedure[None]:
        """Find an instruction that counters cannot tell from the chosen one, but that uses the other port."""
        chosen, group = self.best[ports], self._group_of(ports)
        others = [one for one in alike if one is not chosen and one.saturates][:MOST_ALIKE]
        if group is None or not chosen.saturates:
            return
        sizes = yield from self._union_sizes([(chosen, other) for other in others])
        for other, size in zip(others, sizes, strict=True):
            if size == len(ports) + 1:
                self._put(with_other_port(ports, group), other)
                return

    def _compare_sets(self, group: PortSet) -> Procedure[None]:
        """Name the ports of all sets with one port of a pair relative to the smallest such set."""
        sets = [ports for ports in self._partial() if self._group_of(ports) == group]
        if not sets:
            return
        done = {sets[0], with_other_port(sets[0], group)}
        for ports in sets[1:]:
            reference = self._reference(ports, group, done)
            if ports in done or reference is None:
                continue
            other = with_other_port(ports, group)
            (size,) = yield from self._union_sizes([(self.best[reference], self.best[ports])])
            if size == len(reference | other):
                self._exchange(ports, other)
            done |= {ports, other}

    def _reference(self, ports: PortSet, group: PortSet, done: set[PortSet]) -> PortSet | None:
        """Return the set by comparison with which a set's port of a pair is seen best, None if none would show it."""
        fitting = []
        for known in done & self.best.keys():
            sizes = len(known | ports), len(known | with_other_port(ports, group))
            if self.best[known].saturates and sizes[0] != sizes[1] and max(sizes) <= self.width:
                fitting.append((max(sizes), sorted(known), known))
        return min(fitting)[2] if fitting and self.best[ports].saturates else None

    def _union_sizes(
        self, pairs: Sequence[tuple[BlockingInstruction, BlockingInstruction]]
    ) -> Procedure[list[int | None]]:
        """Return how many ports both instructions of each pair have together, None where that is not seen."""
        requests: dict[int, Request] = {}
        for position, pair in enumerate(pairs):
            counts = [(one.variant, TURNS * len(one.ports)) for one in pair]
            try:
                requests[position] = Request(self.mix(counts), Want.CYCLES)
            except GenerationError:
                continue
        answers = dict(zip(requests, (yield list(requests.values())), strict=True)) if requests else {}
        sizes: list[int | None] = []
        for position, pair in enumerate(pairs):
            measured = answers.get(position)
            total = TURNS * sum(len(one.ports) for one in pair)
            size = round(total / measured.cycles) if measured is not None and measured.ok else None
            sizes.append(size if size is not None and size <= self.width else None)
        return sizes

    def _put(self, ports: PortSet, instruction: BlockingInstruction) -> None:
        """Keep an instruction under a name."""
        self.best[ports] = replace(instruction, ports=ports, usage=PortUsage({ports: 1}))

    def _exchange(self, one: PortSet, other: PortSet) -> None:
        """Exchange the names of two sets, one of which may be without an instruction."""
        first, second = self.best.pop(one, None), self.best.pop(other, None)
        if first is not None:
            self._put(other, first)
        if second is not None:
            self._put(one, second)


def with_other_port(ports: PortSet, group: PortSet) -> PortSet:
    """Return the set with the other port of a pair."""
    return (ports - group) | (group - ports)
