"""The levels of cache, their sizes and latencies, by pointer chasing through buffers of growing size.

Neighbouring sizes with about the same load latency are one level. A level has at least two sizes, since a buffer may
fit a level only in part. The size of a level is its largest buffer, its latency the median.

    3 3 3 3 | 14 14 14 | 60 60    three levels
    12 12 12 15 15 15 | 60 60     the first may be one level or two: no level is stated

Memory has pages of 4 KiB, and a large buffer misses the TLB. The cost of these misses is measured separately, with one
pointer in each page, and subtracted.

A larger buffer is never faster. A size that takes longer than a larger one was disturbed, and counts as that one.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING

from generator.memory.chase import LOADS, PAGE_STRIDE, chase
from generator.memory.forwarding import LINE_BYTES
from inference.experiment import Request
from inference.memory.times import hundredths
from results.memory.model import Chased, MeasuredLevel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.factory import InstructionFactory
    from inference.experiment import Procedure

LEAST_BYTES = 4 << 10
"""Bytes of the smallest ring: a page, which is less than any first level of cache."""
ALIKE_SHARE = Fraction(1, 3)
"""Share of a level's median by which its other sizes may take longer: the next level takes twice as long."""
ALIKE_CYCLES = Fraction(1)
"""Core cycles by which times of a level may differ anyway."""
SURE_SHARE = Fraction(1, 6)
"""Share of the time of a level by which a step up is noise for sure: half of what counts as another level."""
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
    """Follow pointers through rings of all sizes; return the time of a load for each that could be measured."""
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
    """Return the core cycles that TLB misses cost: the time beyond that of as many adjacent lines."""
    lines_bytes = size // PAGE_STRIDE * LINE_BYTES
    near = [
        cycles for other, cycles in by_line.items() if cycles is not None and other <= max(LEAST_BYTES, lines_bytes)
    ]
    return max(Fraction(0), paged - near[-1]) if near else Fraction(0)


def levels(chased: Sequence[Chased]) -> tuple[tuple[MeasuredLevel, ...], tuple[str, ...]]:
    """Return the levels from the nearest one on, and messages about what is not stated.

    The last level is memory if it goes on to the largest size. If sizes may belong to one level or to two, their level
    and all further ones are left out, since their numbers are not known.
    """
    groups: list[list[Chased]] = []
    for one in _undisturbed(chased):
        middle = _middle(groups[-1]) if groups else Fraction(0)
        if groups and one.cache_cycles <= middle + max(ALIKE_CYCLES, middle * ALIKE_SHARE):
            groups[-1].append(one)
        else:
            groups.append([one])
    found: list[MeasuredLevel] = []
    for group in groups:
        if (place := _seam(group)) is not None:
            return tuple(found), (_doubt(group, place),)
        if len(group) >= LEAST_SIZES:
            found.append(MeasuredLevel(group[-1].size_bytes, hundredths(_middle(group)), is_last=group is groups[-1]))
    return tuple(found), ()


def _undisturbed(chased: Sequence[Chased]) -> list[Chased]:
    """Return the sizes with times that never fall: each has the least of its own and of larger sizes."""
    largest_first = chased[::-1]
    cycles = accumulate((one.cycles for one in largest_first), min)
    page_cycles = accumulate((one.page_cycles for one in largest_first), min)
    found = map(Chased, (one.size_bytes for one in largest_first), cycles, page_cycles)
    return list(found)[::-1]


def _middle(group: Sequence[Chased]) -> Fraction:
    return median(one.cache_cycles for one in group)


def _seam(group: Sequence[Chased]) -> int | None:
    """Return where a group may be divided into two levels, None if it is one.

    There its times step up by more than noise, and by more than the sizes on both sides vary. A buffer that a level
    holds only in part gets slower little by little, so the sizes beside its steps vary as much.
    """
    cycles = [one.cache_cycles for one in group]
    for place in range(LEAST_SIZES, len(cycles) - LEAST_SIZES + 1):
        near, far = cycles[place - LEAST_SIZES : place], cycles[place : place + LEAST_SIZES]
        step = min(far) - max(near)
        if step > max(median(near) * SURE_SHARE, max(near) - min(near) + max(far) - min(far)):
            return place
    return None


def _doubt(group: Sequence[Chased], place: int) -> str:
    near, far = _middle(group[:place]), _middle(group[place:])
    sizes_of_both = f"from {group[0].size_bytes >> 10} KiB and from {group[place].size_bytes >> 10} KiB on"
    return (
        f"loads take {float(near):.2f} and {float(far):.2f} core cycles {sizes_of_both}: "
        "one level of cache or two, so neither it nor those behind it are stated"
    )
