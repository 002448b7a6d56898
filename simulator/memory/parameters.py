"""Parameters of a simulated machine's memory: its caches and its store forwarding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ForwardingParameters:
    """How a load gets data that one of the last `entries` stores has written.

    Cycles are from register to register, of the load's µop alone. Register files are "general" and "vector"; a pair has
    that of the store and that of the load. A load is

    - renamed, in no cycle, if it has the address and the size of the store, that size is one of `renamed_bytes`, and
      both registers are general;
    - forwarded, in `forwarded` cycles, if the store has written all of its bytes;
    - failed, in `failed` cycles, otherwise, and if the store is in two pages unless `across_pages`.
    """

    forwarded: Mapping[tuple[str, str], int]
    failed: Mapping[tuple[str, str], int]
    renamed_bytes: frozenset[int] = frozenset()
    across_pages: bool = True
    entries: int = 48


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """A level of cache: its size, and the additional cycles of a load that misses the level above and hits this one.

    `policy` is a name of `simulator.memory.policies`. Sets are chosen by the lowest bits of the line's number.
    """

    size_bytes: int
    ways: int
    extra_cycles: int
    policy: str = "LRU"
    line_bytes: int = 64

    @property
    def sets(self) -> int:
        """The number of sets."""
        return self.size_bytes // (self.ways * self.line_bytes)


@dataclass(frozen=True, slots=True)
class MemoryParameters:
    """Store forwarding, levels of cache from the nearest one on (with no `extra_cycles`), and memory.

    A load from memory takes `memory_cycles` more than a hit in the nearest level; one in two lines or pages takes
    `crossing_line_cycles` or `crossing_page_cycles` more.
    """

    forwarding: ForwardingParameters | None = None
    caches: tuple[CacheLevel, ...] = ()
    memory_cycles: int = 0
    crossing_line_cycles: int = 0
    crossing_page_cycles: int = 0


TYPICAL = MemoryParameters(
    ForwardingParameters(
        forwarded={
            ("general", "general"): 5,
            ("general", "vector"): 7,
            ("vector", "general"): 7,
            ("vector", "vector"): 7,
        },
        failed=dict.fromkeys([(store, load) for store in ("general", "vector") for load in ("general", "vector")], 15),
        across_pages=False,
        entries=56,
    ),
    (
        CacheLevel(32 << 10, 8, 0, "PLRU"),
        CacheLevel(256 << 10, 8, 8, "QLRU_H00_M1_R0_U1"),
    ),
    memory_cycles=60,
    crossing_line_cycles=6,
    crossing_page_cycles=20,
)
"""Invented, about as large as that of a Skylake: for `--arch NAME:memory`, and for tests."""
