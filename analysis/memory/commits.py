"""How long the stores of a block of code take to commit to the cache, in order.

A cycle commits a few stores, all to the same aligned block of bytes. Consecutive stores to one such block share its
cycles. A store that is wider than a block, or lies in two, is one for each. A store narrower than a word changes a part
of it. Then its block takes no other store for some cycles once another block came between.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from results.machine.constants import StoreCommit

Stored = tuple[int, int, int]
"""A store: what its address is relative to (a symbol; 0: it is a number), its offset from there, its size in bytes."""

NUMBER = 0
"""The symbol of addresses that are numbers."""


class _Piece(NamedTuple):
    """The part of a store that lies in one block."""

    symbol: int
    block: int
    is_small: bool


def commit_cycles(stores: Sequence[Stored], iterations: int, rule: StoreCommit) -> Fraction:
    """Return the core cycles per iteration that the stores of some iterations take to commit.

    A symbol is taken to point to the beginning of an aligned block, since nothing else is known of it. So no store
    relative to one lies in two blocks without need.
    """
    pieces = [piece for store in stores for piece in _pieces(store, rule)]
    runs = [list(run) for _, run in groupby(pieces, lambda one: (one.symbol, one.block))]
    visits: dict[tuple[int, int], list[bool]] = {}
    for run in runs:
        visits.setdefault((run[0].symbol, run[0].block), []).append(any(one.is_small for one in run))
    again = [len(found) for found in visits.values() if any(found) and len(found) > 1]
    cycles = max([len(runs), *(rule.word_cycles * count for count in again)])
    return max(Fraction(len(stores), rule.per_cycle), Fraction(cycles)) / iterations


def _pieces(store: Stored, rule: StoreCommit) -> Iterator[_Piece]:
    """Yield the parts of a store in the blocks that it needs."""
    symbol, offset, size = store
    first = offset // rule.block_bytes
    begin = offset % rule.block_bytes if symbol == NUMBER else 0
    for block in range(first, first + -(-(begin + size) // rule.block_bytes)):
        yield _Piece(symbol, block, size < rule.word_bytes)
