"""How long the stores of a block take on their way into the cache, in order, once per iteration.

Each cycle has room for some of them, and brings them to one block of bytes. Stores that follow one another in a block
share its cycles. A store of few bytes changes a part of a word, so its block can take no other store for some cycles
once another block came between.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.machine.constants import StoreCommit

Stored = tuple[int, int, int]
"""A store: what its address is relative to (a symbol), its offset from there, and its size in bytes."""


def commit_cycles(stores: Sequence[Stored], iterations: int, rule: StoreCommit) -> Fraction:
    """Return the core cycles per iteration that the stores of so many iterations take into the cache.

    Blocks are counted from where a symbol points: that is the begin of one for all that is known.
    """
    runs = [list(run) for _, run in groupby(stores, lambda one: (one[0], one[1] // rule.block_bytes))]
    visits: dict[tuple[int, int], list[bool]] = {}
    for run in runs:
        symbol, offset, _ = run[0]
        small = any(size < rule.word_bytes for _, _, size in run)
        visits.setdefault((symbol, offset // rule.block_bytes), []).append(small)
    again = [len(found) for found in visits.values() if any(found) and len(found) > 1]
    cycles = max([len(runs), *(rule.word_cycles * count for count in again)])
    return max(Fraction(len(stores), rule.per_cycle), Fraction(cycles)) / iterations
