"""How long the stores of a block of code take to commit to the cache, in order.

A cycle commits a few stores, all to the same aligned block of bytes. Consecutive stores to one such block share its
cycles. A store narrower than a word changes a part of it. Then its block takes no other store for some cycles once
another block came between.
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
    """Return the core cycles per iteration that the stores of some iterations take to commit.

    A symbol is taken to point to the beginning of an aligned block, since nothing else is known of it.
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
