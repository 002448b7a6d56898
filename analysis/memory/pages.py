"""Lines and pages that code reaches under addresses that were not used before.

Only addresses that advance by the same number of bytes in each copy of the code count: others return to pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

LINE_BYTES = 64
"""Bytes of a cache line of all cores."""

EARLY = 8
"""Loads, or stores, of a line that may begin before its new address is known. A row of POPs or PUSHes has as many in
a line."""

ADDRESSES = 1 << 64


class Touched(NamedTuple):
    """An access: the position of its instruction, its address, and whether it reads."""

    position: int
    address: int
    reads: bool


class Early(NamedTuple):
    """How many loads and how many stores alone reach new lines before the core knows these."""

    loads: Fraction
    stores: Fraction


NONE_EARLY = Early(Fraction(0), Fraction(0))


@dataclass(frozen=True, slots=True)
class Stream:
    """Accesses of a copy that lie close together and move on by less than a page.

    How many, the pages and lines that they reach in each copy, and how many of them are loads.
    """

    accesses: int
    pages: Fraction
    lines: Fraction
    loads: int

    @property
    def early(self) -> Early:
        """What reaches a new line before the core knows it."""
        most = self.lines * EARLY
        return Early(min(most, Fraction(self.loads)), min(most, Fraction(self.accesses - self.loads)))


@dataclass(frozen=True, slots=True)
class Reached:
    """What a copy of the code reaches under new addresses.

    `far` are the positions of instructions that use a new page in each copy, `moving` those of all accesses that move
    on. `lines` and `pages` are how many of both are new, `early` what reaches such lines before the core knows them.
    """

    streams: tuple[Stream, ...] = ()
    far: frozenset[int] = frozenset()
    moving: frozenset[int] = frozenset()
    lines: Fraction = Fraction(0)
    pages: Fraction = Fraction(0)
    early: Early = NONE_EARLY


NOTHING = Reached()


def reached(touched: Sequence[Sequence[Touched]], page_bytes: int, least_step: float = 0) -> Reached:
    """Return what the last copy reaches.

    Args:
        touched: the accesses of each copy, in order; three copies at least.
        page_bytes: the size of a page.
        least_step: bytes; lines and pages of streams that move on by less are not new.
    """
    moving = _moving(touched)
    if not moving:
        return NOTHING
    far = [where for step, where in moving if abs(step) >= page_bytes]
    streams = tuple(
        Stream(
            len(places),
            Fraction(abs(step), page_bytes),
            _new_lines(step, [one.address for one in places]),
            sum(one.reads for one in places),
        )
        for step, places in _groups([one for one in moving if abs(one[0]) < page_bytes], page_bytes)
    )
    leaving = [one for one in streams if one.pages * page_bytes >= least_step]
    return Reached(
        streams,
        frozenset(one.position for one in far),
        frozenset(where.position for _, where in moving),
        sum((one.lines for one in leaving), Fraction(len({one.address // LINE_BYTES for one in far}))),
        sum((one.pages for one in leaving), Fraction(len({one.address // page_bytes for one in far}))),
        Early(
            sum((one.early.loads for one in leaving), Fraction(0)),
            sum((one.early.stores for one in leaving), Fraction(0)),
        ),
    )


def _moving(touched: Sequence[Sequence[Touched]]) -> list[tuple[int, Touched]]:
    """Return the last copy's accesses that move on by the same number of bytes each time, with that number."""
    *_, first, second, last = touched
    if not len(first) == len(second) == len(last):
        return []
    places = zip(first, second, last, strict=True)
    moved = [(_signed(c.address - b.address), _signed(b.address - a.address), c) for a, b, c in places]
    return [(step, where) for step, before, where in moved if step and step == before]


def _groups(moving: Sequence[tuple[int, Touched]], page_bytes: int) -> list[tuple[int, list[Touched]]]:
    """Return steps, each with the accesses that move on so and lie less than a page behind the one before."""
    groups: list[tuple[int, list[Touched]]] = []
    for step, where in sorted(moving, key=lambda one: (one[0], one[1].address)):
        if groups and groups[-1][0] == step and where.address - groups[-1][1][-1].address < page_bytes:
            groups[-1][1].append(where)
        else:
            groups.append((step, [where]))
    return groups


def _new_lines(step: int, places: Sequence[int]) -> Fraction:
    """Return how many cache lines sorted addresses reach in an iteration that they did not reach before, on average."""
    gaps = [min(LINE_BYTES, after - before) for before, after in pairwise(places)]
    return Fraction(min(abs(step), LINE_BYTES + sum(gaps)), LINE_BYTES)


def _signed(number: int) -> int:
    """Return a difference of two addresses as a signed number of 64 bits."""
    number &= ADDRESSES - 1
    return number - ADDRESSES if number >> 63 else number
