"""Replacement policies that a cache may have, each as a step from one state of a set to the next.

A state is the lines by way (None: empty) and the policy's own bits. The policies are the permutation policies LRU,
FIFO and tree-PLRU; MRU, with a bit per line; and QLRU, with two bits of age per line (Abel and Reineke, "nanoBench",
ISPASS 2020, section 6; Abel, "Automatic Generation of Models of Microarchitectures", 2020, section on caches).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OLD = 3
"""The age at which a line may be evicted."""
MOST_PERIODS = 64
"""Repetitions of a sequence by which its state repeats: up to 20 were seen."""

Contents = tuple[int | None, ...]
Memory = tuple[int, ...]


class Policy(Protocol):
    """A policy of sets with some number of ways, two at least."""

    @property
    def name(self) -> str:
        """The name that results give it."""

    def start(self, ways: int) -> Memory:
        """Return what it remembers of an empty set."""

    def victim(self, contents: Contents, memory: Memory) -> int:
        """Return the way that a new line takes."""

    def after(self, way: int, memory: Memory, contents: Contents, *, hit: bool) -> Memory:
        """Return what it remembers after an access to a way."""


def _empty(contents: Contents) -> int | None:
    return contents.index(None) if None in contents else None


@dataclass(frozen=True, slots=True)
class Queue:
    """LRU or FIFO: the ways in the order in which they are evicted."""

    name: str
    moves_on_hit: bool

    def start(self, ways: int) -> Memory:
        """Return the ways in order."""
        return tuple(range(ways))

    def victim(self, contents: Contents, memory: Memory) -> int:
        """Return an empty way, or the first of the order."""
        empty = _empty(contents)
        return memory[0] if empty is None else empty

    def after(self, way: int, memory: Memory, contents: Contents, *, hit: bool) -> Memory:
        """Return the order with the way at its end."""
        del contents
        if hit and not self.moves_on_hit:
            return memory
        return (*[one for one in memory if one != way], way)


@dataclass(frozen=True, slots=True)
class PlruTree:
    """Tree-PLRU: a bit for each inner node of a binary tree, in the order of a heap, which says where to go."""

    name: str = "PLRU"

    def start(self, ways: int) -> Memory:
        """Return bits that all point left."""
        return (0,) * (ways - 1)

    def victim(self, contents: Contents, memory: Memory) -> int:
        """Return an empty way, or the one that the bits lead to."""
        empty = _empty(contents)
        if empty is not None:
            return empty
        low, high, node = 0, len(contents), 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high, node = (middle, high, 2 * node + 2) if memory[node] else (low, middle, 2 * node + 1)
        return low

    def after(self, way: int, memory: Memory, contents: Contents, *, hit: bool) -> Memory:
        """Return the bits, those above the way pointing to the other side."""
        del hit
        bits, low, high, node = list(memory), 0, len(contents), 0
        while high - low > 1:
            middle = (low + high) // 2
            is_left = way < middle
            bits[node] = int(is_left)
            low, high, node = (low, middle, 2 * node + 1) if is_left else (middle, high, 2 * node + 2)
        return tuple(bits)


@dataclass(frozen=True, slots=True)
class MruBits:
    """MRU: a bit for each way that was used since all of them had one."""

    name: str = "MRU"

    def start(self, ways: int) -> Memory:
        """Return no bit."""
        return (0,) * ways

    def victim(self, contents: Contents, memory: Memory) -> int:
        """Return an empty way, or the first without a bit."""
        empty = _empty(contents)
        return memory.index(0) if empty is None else empty

    def after(self, way: int, memory: Memory, contents: Contents, *, hit: bool) -> Memory:
        """Return the bits; where all would be set, only that of the way."""
        del contents, hit
        bits = tuple(1 if one == way else bit for one, bit in enumerate(memory))
        return bits if 0 in bits else tuple(int(one == way) for one in range(len(memory)))


@dataclass(frozen=True, slots=True)
class QlruAges:
    """QLRU_Hxy_Mz_Rr_Uu: ages after hits at 3 and 2, age of a new line, which old line is evicted, how others age."""

    hit_3: int
    hit_2: int
    new: int
    replace: int
    update: int

    @property
    def name(self) -> str:
        """The name that nanoBench gives it."""
        return f"QLRU_H{self.hit_3}{self.hit_2}_M{self.new}_R{self.replace}_U{self.update}"

    def start(self, ways: int) -> Memory:
        """Return the greatest age everywhere."""
        return (OLD,) * ways

    def victim(self, contents: Contents, memory: Memory) -> int:
        """Return an empty way, else the first or last old one, else the first; `replace` decides between both sides."""
        places = [way for way, line in enumerate(contents) if line is None]
        if not places:
            places = [way for way, age in enumerate(memory) if age == OLD] or [0]
        return places[-1] if self.replace == 2 else places[0]

    def after(self, way: int, memory: Memory, contents: Contents, *, hit: bool) -> Memory:
        """Return the ages; where the set is full and nothing is old, they rise."""
        age = self.new
        if hit:
            age = {3: self.hit_3, 2: self.hit_2}.get(memory[way], 0)
        ages = [age if one == way else old for one, old in enumerate(memory)]
        if None in contents or OLD in ages:
            return tuple(ages)
        step = OLD - max(ages) if self.update in {0, 1} else 1
        return tuple(
            old if one == way and self.update in {1, 3} else min(OLD, old + step) for one, old in enumerate(ages)
        )


def policies(ways: int) -> Iterator[Policy]:
    """Yield the policies that a set of `ways` ways may have, plain ones first."""
    yield Queue("LRU", moves_on_hit=True)
    if not ways & (ways - 1):
        yield PlruTree()
    yield Queue("FIFO", moves_on_hit=False)
    yield MruBits()
    for hit_3, hit_2, new, replace, update in product((0, 1, 2), (0, 1), (0, 1, 2, 3), (0, 2), (0, 1, 2, 3)):
        yield QlruAges(hit_3, hit_2, new, replace, update)


def hits(policy: Policy, ways: int, lines: Sequence[int]) -> list[bool]:
    """Return for each access to an empty set whether it hits."""
    contents: Contents = (None,) * ways
    memory = policy.start(ways)
    found = []
    for line in lines:
        hit, contents, memory = _access(policy, contents, memory, line)
        found.append(hit)
    return found


def misses_per_round(policy: Policy, ways: int, lines: Sequence[int]) -> Fraction:
    """Return the misses per round of a sequence that is repeated, in the long run.

    Before the first round each line is used once, in the order of the sequence: its setup zeroes the memory so.
    """
    contents: Contents = (None,) * ways
    memory = policy.start(ways)
    for line in dict.fromkeys(lines):
        _, contents, memory = _access(policy, contents, memory, line)
    seen: dict[tuple[Contents, Memory], int] = {}
    counts: list[int] = []
    while (contents, memory) not in seen and len(counts) < MOST_PERIODS:
        seen[contents, memory] = len(counts)
        missed = 0
        for line in lines:
            hit, contents, memory = _access(policy, contents, memory, line)
            missed += not hit
        counts.append(missed)
    period = counts[seen.get((contents, memory), 0) :]
    return Fraction(sum(period), len(period))


def _access(policy: Policy, contents: Contents, memory: Memory, line: int) -> tuple[bool, Contents, Memory]:
    hit = line in contents
    way = contents.index(line) if hit else policy.victim(contents, memory)
    now = contents if hit else (*contents[:way], line, *contents[way + 1 :])
    return hit, now, policy.after(way, memory, now, hit=hit)
