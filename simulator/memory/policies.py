"""Cache replacement policies as state machines: the line of a full set that is evicted.

| name | policy |
|---|---|
| `LRU` | evicts the line that was used longest ago |
| `FIFO` | evicts the line that was loaded first |
| `PLRU` | a tree of bits, which point away from the line that was used last (ways are a power of two) |
| `MRU` | a bit per line, set when it is used; evicts the first line without it; once all are set, only the last is |
| `QLRU_H11_M1_R0_U0` | two bits of age per line, with four rules |

The rules of QLRU (Abel, "Automatic Generation of Models of Microarchitectures", thesis, 2020, section on caches):

- Hxy: a hit changes age 3 to x, age 2 to y, and others to 0;
- Mx: a new line has age x;
- R: the first line of age 3 (R0, R1) or the last one (R2) is evicted; without one it is the first line. Empty ways are
  filled from the first one (R0, R1) or from the last one (R2) on;
- U: if no line has age 3 after an access, all get older: until the oldest has age 3 (U0), or by 1 (U2). U1 and U3 do
  the same, but the line that was used keeps its age.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

QLRU = re.compile(r"QLRU_H([0-2])([01])_M([0-3])_R([0-2])_U([0-3])")
OLDEST = 3


class CacheSet(ABC):
    """One set: the line in each way, and the state of the policy."""

    def __init__(self, ways: int) -> None:
        self.lines: list[int | None] = [None] * ways

    def access(self, line: int) -> bool:
        """Access a line; return whether it hits."""
        hit = line in self.lines
        way = self.lines.index(line) if hit else self.victim()
        self.lines[way] = line
        self.used(way, hit=hit)
        return hit

    def drop(self, line: int) -> None:
        """Evict a line, as CLFLUSH does."""
        if line in self.lines:
            self.lines[self.lines.index(line)] = None

    def victim(self) -> int:
        """Return the way that is filled next."""
        return self.lines.index(None) if None in self.lines else self.oldest()

    @abstractmethod
    def oldest(self) -> int:
        """Return the way that is evicted if all are full."""

    @abstractmethod
    def used(self, way: int, *, hit: bool) -> None:
        """Remember that a way was used."""

    @property
    @abstractmethod
    def memory(self) -> tuple[int, ...]:
        """The state of the policy."""


class Ordered(CacheSet):
    """LRU, or FIFO: an order of the ways, the next victim first."""

    def __init__(self, ways: int, *, hits_count: bool) -> None:
        super().__init__(ways)
        self.order = list(range(ways))
        self.hits_count = hits_count

    def oldest(self) -> int:
        """Return the first of the order."""
        return self.order[0]

    def used(self, way: int, *, hit: bool) -> None:
        """Put it at the end."""
        if self.hits_count or not hit:
            self.order.remove(way)
            self.order.append(way)

    @property
    def memory(self) -> tuple[int, ...]:
        """The order."""
        return tuple(self.order)


class PlruSet(CacheSet):
    """PLRU: node 1 is the root, and node n has the children 2n and 2n + 1; a bit says which half has the victim."""

    def __init__(self, ways: int) -> None:
        super().__init__(ways)
        if ways & (ways - 1):
            message = f"a tree needs a power of two, not {ways} ways"
            raise ValueError(message)
        self.bits = [0] * ways

    def oldest(self) -> int:
        """Follow the bits down."""
        node = 1
        while node < len(self.bits):
            node = 2 * node + self.bits[node]
        return node - len(self.bits)

    def used(self, way: int, *, hit: bool) -> None:
        """Point all nodes above away from it."""
        del hit
        node = way + len(self.bits)
        while node > 1:
            self.bits[node // 2] = 1 - node % 2
            node //= 2

    @property
    def memory(self) -> tuple[int, ...]:
        """The bits."""
        return tuple(self.bits)


class Recent(CacheSet):
    """MRU: a bit per way."""

    def __init__(self, ways: int) -> None:
        super().__init__(ways)
        self.bits = [0] * ways

    def oldest(self) -> int:
        """Return the first way without its bit."""
        return self.bits.index(0)

    def used(self, way: int, *, hit: bool) -> None:
        """Set the bit, and clear the others where all are set."""
        del hit
        self.bits[way] = 1
        if all(self.bits):
            self.bits = [int(one == way) for one in range(len(self.bits))]

    @property
    def memory(self) -> tuple[int, ...]:
        """The bits."""
        return tuple(self.bits)


@dataclass(frozen=True, slots=True)
class QlruRules:
    """The rules of a QLRU policy: ages after hits at 3 and 2, age of a new line, the victim, and aging."""

    hit_oldest: int
    hit_older: int
    new: int
    goes: int
    older: int


class Quad(CacheSet):
    """QLRU: an age per way."""

    def __init__(self, ways: int, rules: QlruRules) -> None:
        super().__init__(ways)
        self.rules = rules
        self.ages = [OLDEST] * ways

    def victim(self) -> int:
        """Return an empty way, or the oldest."""
        if None not in self.lines:
            return self.oldest()
        last = len(self.lines) - 1
        return last - self.lines[::-1].index(None) if self.rules.goes == 2 else self.lines.index(None)

    def oldest(self) -> int:
        """Return the first or last way of age 3, or the first way."""
        found = [way for way, age in enumerate(self.ages) if age == OLDEST]
        if not found:
            return 0
        return found[-1] if self.rules.goes == 2 else found[0]

    def used(self, way: int, *, hit: bool) -> None:
        """Make it young, and the others older where none is old."""
        after = {3: self.rules.hit_oldest, 2: self.rules.hit_older}
        self.ages[way] = after.get(self.ages[way], 0) if hit else self.rules.new
        full = [age for age, line in zip(self.ages, self.lines, strict=True) if line is not None]
        if OLDEST in full or len(full) < len(self.ages):
            return
        step = OLDEST - max(full) if self.rules.older < 2 else 1
        spared = way if self.rules.older in {1, 3} else -1
        self.ages = [age if one == spared else min(OLDEST, age + step) for one, age in enumerate(self.ages)]

    @property
    def memory(self) -> tuple[int, ...]:
        """The ages."""
        return tuple(self.ages)


_PLAIN: dict[str, Callable[[int], CacheSet]] = {
    "LRU": lambda ways: Ordered(ways, hits_count=True),
    "FIFO": lambda ways: Ordered(ways, hits_count=False),
    "PLRU": PlruSet,
    "MRU": Recent,
}


def new_set(policy: str, ways: int) -> CacheSet:
    """Return an empty set of a policy.

    Raises:
        ValueError: there is no such policy, or it cannot have that number of ways.
    """
    if policy in _PLAIN:
        return _PLAIN[policy](ways)
    found = QLRU.fullmatch(policy)
    if found is None:
        message = f"no replacement policy {policy!r}"
        raise ValueError(message)
    return Quad(ways, QlruRules(*(int(digit) for digit in found.groups())))
