"""The contents of the caches of a simulated machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.memory.policies import new_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.memory.parameters import CacheLevel, MemoryParameters
    from simulator.memory.policies import CacheSet

LINE_BYTES = 64


class Cache:
    """One level: its sets, made when they are first used. Addresses are a symbol and a number of bytes from it."""

    def __init__(self, level: CacheLevel) -> None:
        """Begin empty."""
        self.level = level
        self.sets: dict[tuple[str, int], CacheSet] = {}

    def access(self, symbol: str, line: int) -> bool:
        """Access a line, by its number; return whether it hits."""
        return self._set(symbol, line).access(line)

    def drop(self, symbol: str, line: int) -> None:
        """Evict a line."""
        self._set(symbol, line).drop(line)

    def state(self) -> tuple[object, ...]:
        """Return its contents and the state of the policy."""
        return tuple(sorted((place, tuple(one.lines), one.memory) for place, one in self.sets.items()))

    def _set(self, symbol: str, line: int) -> CacheSet:
        place = (symbol, line % self.level.sets)
        if place not in self.sets:
            self.sets[place] = new_set(self.level.policy, self.level.ways)
        return self.sets[place]


class Caches:
    """All levels. A line that misses a level is loaded into it, and looked for in the next one."""

    def __init__(self, memory: MemoryParameters) -> None:
        """Begin empty."""
        self.memory = memory
        self.levels = [Cache(level) for level in memory.caches]

    def load(self, symbol: str, offset: int, size_bytes: int) -> int:
        """Load bytes; return how many cycles more this takes than a hit in the nearest level."""
        first, last = offset // LINE_BYTES, (offset + size_bytes - 1) // LINE_BYTES
        extra = max(self._load_line(symbol, line) for line in range(first, last + 1))
        if offset // 4096 != (offset + size_bytes - 1) // 4096:
            return extra + self.memory.crossing_page_cycles
        return extra + (self.memory.crossing_line_cycles if last > first else 0)

    def drop(self, symbol: str, offset: int) -> None:
        """Evict the line of an address from all levels."""
        for cache in self.levels:
            cache.drop(symbol, offset // LINE_BYTES)

    def state(self) -> tuple[object, ...]:
        """Return everything that later accesses depend on."""
        return tuple(cache.state() for cache in self.levels)

    def _load_line(self, symbol: str, line: int) -> int:
        for cache in self.levels:
            if cache.access(symbol, line):
                return cache.level.extra_cycles
        return self.memory.memory_cycles if self.levels else 0


def hits(policy: str, ways: int, lines: Sequence[int]) -> list[bool]:
    """Return for each access to an empty set whether it hits."""
    one = new_set(policy, ways)
    return [one.access(line) for line in lines]
