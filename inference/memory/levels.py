"""The levels of cache, their sizes and latencies: a pointer is followed through more and more bytes.

Sizes at which a load takes about as long belong to one level. A level has two sizes at least: between two levels there
may be a size that is held in part. Its size is the largest one, its latency the median of all.

Memory has pages of 4 KiB, and many of them miss the TLB. What that costs is measured apart, with one pointer in each
page, and taken off.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING

from generator.memory.chase import LOADS, PAGE_STRIDE, chase
from generator.memory.forwarding import LINE_BYTES
from inference.experiment import Request
from inference.memory.times import hundredths
from results.memory.model import Chased, Level

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.factory import InstructionFactory
    from inference.experiment import Procedure

LEAST_BYTES = 4 << 10
"""Bytes of the smallest ring: a page, which is less than any first level of cache."""
ALIKE_SHARE = Fraction(1, 3)
"""Share of the median of a level by which others of it may be longer: the next level takes twice as long."""
ALIKE_CYCLES = Fraction(1)
"""Core cycles by which times of a level may differ anyway."""
LEAST_SIZES = 2
"""Sizes of a level, at least."""


def sizes(most_bytes: int) -> list[int]:
    """Return sizes from `LEAST_BYTES` on, two for each doubling."""
    found = []
    size = LEAST_BYTES
    while size <= most_bytes:
        found += [one for one in (size, size + size // 2) if one <= most_bytes]
        size *= 2
    return found


def measure_levels(instructions: InstructionFactory, most_bytes: int) -> Procedure[tuple[Chased, ...]]:
    """Follow pointers through rings of all sizes; return what a load takes, of those that could be measured."""
    wanted = sizes(most_bytes)
    strides = (LINE_BYTES, PAGE_STRIDE)
    rings = [chase(instructions, size, stride) for stride in strides for size in wanted]
    answers = yield [Request(ring, loop=True) for ring in rings]
    times = [hundredths(found.cycles / LOADS) if found.ok else None for found in answers]
    by_line, by_page = dict(zip(wanted, times, strict=False)), dict(zip(wanted, times[len(wanted) :], strict=True))
    return tuple(
        Chased(size, cycles, _page_cycles(size, by_line, paged))
        for size, cycles in by_line.items()
        if cycles is not None and (paged := by_page[size]) is not None
    )


def _page_cycles(size: int, by_line: Mapping[int, Fraction | None], paged: Fraction) -> Fraction:
    """Return what pages alone cost: as many lines that adjoin take less."""
    lines_bytes = size // PAGE_STRIDE * LINE_BYTES
    near = [
        cycles for other, cycles in by_line.items() if cycles is not None and other <= max(LEAST_BYTES, lines_bytes)
    ]
    return max(Fraction(0), paged - near[-1]) if near else Fraction(0)


def levels(chased: Sequence[Chased]) -> tuple[Level, ...]:
    """Return the levels from the nearest one on; the last one is memory if it goes on to the largest size."""
    groups: list[list[Chased]] = []
    for one in chased:
        middle = median(each.cache_cycles for each in groups[-1]) if groups else Fraction(0)
        if groups and one.cache_cycles <= middle + max(ALIKE_CYCLES, middle * ALIKE_SHARE):
            groups[-1].append(one)
        else:
            groups.append([one])
    return tuple(
        Level(group[-1].size_bytes, hundredths(median(one.cache_cycles for one in group)), is_last=group is groups[-1])
        for group in groups
        if len(group) >= LEAST_SIZES
    )
