"""Levels of cache out of the times of pointers that are followed, on made-up curves."""

from __future__ import annotations

import ctypes
import mmap
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from generator.factory import InstructionFactory
from generator.memory.chase import FACTOR, INCREMENT, LOADS, PAGE_STRIDE, RingOrder, chase
from generator.memory.forwarding import LINE_BYTES
from inference.memory.levels import levels, sizes
from results.memory.model import Chased, MeasuredLevel
from xed_convert.catalogue.catalogue import Catalogue

INSTRUCTIONS = InstructionFactory(Catalogue.load())


def in_order(places: int) -> list[int]:
    """Return the places in the order in which the code has to write them, the first one last."""
    order, number, found = RingOrder(places), 0, []
    for _ in range(order.count):
        number = (number * FACTOR + INCREMENT) % order.count
        if (place := number ^ number >> order.shift) < places:
            found.append(place)
    return found


@given(st.integers(2, 1 << 14))
@settings(max_examples=30)
def test_a_ring_comes_to_every_place_once_and_ends_at_its_first(places: int) -> None:
    found = in_order(places)
    assert sorted(found) == list(range(places))
    assert found[-1] == 0


MORE_OFTEN = {1024: 4, 4032: 4}
"""How often the same three steps occur in two of the rings of 256 to 4,096 places; in all others up to three times."""


@given(st.integers(1 << 8, 1 << 12))
@example(1024)
@example(4032)
@settings(max_examples=30)
def test_no_two_steps_of_a_ring_foretell_the_next(places: int) -> None:
    found = in_order(places)
    steps = [(there - here) % places for here, there in pairwise(found)]
    foretold = Counter(zip(steps, steps[1:], steps[2:], strict=False)).most_common(1)
    assert foretold[0][1] <= MORE_OFTEN.get(places, 3)
    assert Counter(steps).most_common(1)[0][1] < places / 16


def test_sizes_are_two_for_each_doubling() -> None:
    found = sizes(64 << 10)
    assert found == [4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536]


def curve(caches: list[tuple[int, int]], memory: int, most: int = 64 << 20) -> list[Chased]:
    """Return times of a machine of these caches (bytes, cycles)."""
    return [
        Chased(size, Fraction(next((cycles for held, cycles in caches if size <= held), memory)), Fraction(0))
        for size in sizes(most)
    ]


@given(
    st.integers(0, 3),
    st.integers(2, 5),
    st.lists(st.integers(2, 4), min_size=1, max_size=3),
    st.integers(-5, 5),
)
def test_levels_of_a_machine_are_found(first: int, nearest: int, factors: list[int], noise: int) -> None:
    held, cycles = 16384 << first, nearest
    caches = [(held, cycles)]
    for factor in factors:
        held, cycles = held * 8, cycles * factor
        caches.append((held, cycles))
    most = caches[-1][0] * 4
    found, doubts = levels(
        [
            Chased(one.size_bytes, one.cycles + Fraction(noise * (number % 3), 100), Fraction(0))
            for number, one in enumerate(curve(caches, cycles * 3, most))
        ]
    )
    assert not doubts
    assert [level.size_bytes for level in found] == [*(held for held, _ in caches), most]
    for level, expected in zip(found, [*(one for _, one in caches), cycles * 3], strict=True):
        assert abs(level.cycles - expected) < Fraction(1, 4)
    assert [level.is_last for level in found] == [False] * len(caches) + [True]


def test_what_pages_cost_is_no_level() -> None:
    plain = curve([(32768, 4), (1 << 20, 14)], 60, 8 << 20)
    paged = [Chased(one.size_bytes, one.cycles + 7, Fraction(7)) if one.size_bytes > 1 << 18 else one for one in plain]
    assert levels(paged) == levels(plain)
    assert levels(plain)[0][0] == MeasuredLevel(32768, Fraction(4))


def test_a_single_size_between_two_levels_is_none() -> None:
    plain = curve([(32768, 4), (1 << 20, 14)], 100, 8 << 20)
    between = [Chased(one.size_bytes, Fraction(8), Fraction(0)) if one.size_bytes == 49152 else one for one in plain]
    assert [level.cycles for level in levels(between)[0]] == [4, 14, 100]


def test_what_is_slower_than_a_larger_ring_is_no_level() -> None:
    caches = [(32 << 10, 4), (768 << 10, 14), (16 << 20, 46)]
    disturbed = {2 << 20: 70, 3 << 20: 68, 6 << 20: 120, 256 << 10: 19}
    found, doubts = levels(
        [
            Chased(one.size_bytes, Fraction(disturbed.get(one.size_bytes, one.cycles)), Fraction(0))
            for one in curve(caches, 400)
        ]
    )
    expected = [(size, Fraction(cycles)) for size, cycles in [*caches, (64 << 20, 400)]]
    assert [(level.size_bytes, level.cycles) for level in found] == expected
    assert not doubts


def test_a_level_that_may_be_two_ends_what_is_stated() -> None:
    plain = curve([(32768, 4), (1 << 18, 12), (1 << 20, 15)], 100, 8 << 20)
    found, (doubt,) = levels(plain)
    assert [level.cycles for level in found] == [4]
    assert doubt == (
        "loads take 12.00 and 15.00 core cycles from 48 KiB and from 384 KiB on: "
        "one level of cache or two, so neither it nor those behind it are stated"
    )


def test_a_level_that_gets_slower_little_by_little_is_one() -> None:
    plain = curve([(32768, 4), (1 << 20, 12)], 100, 8 << 20)
    slower = {size: 12 + number for number, size in enumerate([393216, 524288, 786432, 1048576])}
    rising = [Chased(one.size_bytes, Fraction(slower.get(one.size_bytes, one.cycles)), Fraction(0)) for one in plain]
    found, doubts = levels(rising)
    assert [(level.size_bytes, level.cycles) for level in found] == [
        (32768, Fraction(4)),
        (1 << 20, Fraction(12)),
        (8 << 20, Fraction(100)),
    ]
    assert not doubts


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([5, 6, 8, 16])), min_size=2, max_size=4),
    st.sampled_from([Fraction(1, 6), Fraction(1, 3), Fraction(2, 3)]),
    st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(2)]),
)
def test_no_level_is_wrong_whatever_counts_as_alike(
    steps: list[tuple[int, int]], share: Fraction, cycles: Fraction
) -> None:
    """A level takes a quarter longer than the one before, or more: each is right or not stated."""
    held, taken, true = 8192, Fraction(3), []
    for doublings, quarters in steps:
        held, taken = held << doublings + 1, taken * quarters / 4
        true.append((held, taken))
    curve = [
        Chased(size, next(time for most, time in true if size <= most), Fraction(0)) for size in sizes(true[-1][0])
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inference.memory.levels.ALIKE_SHARE", share)
        patch.setattr("inference.memory.levels.ALIKE_CYCLES", cycles)
        found, doubts = levels(curve)
    for level, (size, time) in zip(found, true, strict=False):
        assert level.size_bytes == size
        assert abs(level.cycles - time) <= Fraction(1, 100)
    assert len(found) == len(true) or doubts


@pytest.mark.parametrize("stride", [LINE_BYTES, PAGE_STRIDE])
@pytest.mark.parametrize("size", [96, 1024, 6144, 400 << 10])
def test_the_code_writes_the_ring_in_its_order(size: int, stride: int) -> None:
    benchmark = chase(INSTRUCTIONS, size, stride)
    assert [line.text for line in benchmark.body[:-1]] == ["MOV RAX, qword ptr [RAX]"] * LOADS
    places = max(2, size // stride)
    memory = written(b"".join(line.code for line in benchmark.once), places * stride)
    assert memory.pop(-2 * LINE_BYTES) == 0
    assert sorted(memory) == [place * stride for place in range(places)]
    place, followed = 0, []
    for _ in range(places):
        place = memory[place]
        followed.append(place // stride)
    assert followed == in_order(places)


def written(code: bytes, size: int) -> dict[int, int]:
    """Run code with R14 in the middle of memory; return what it wrote there, as bytes from R14 on: where and to where.

    Memory that it did not write is left out.
    """
    saved, restored = bytes.fromhex("53 41 56 49 89 FE"), bytes.fromhex("41 5E 5B C3")  # RBX, R14; R14 := RDI
    memory = np.zeros((2 * LINE_BYTES + size) // 8, np.uint64)
    begin = memory.ctypes.data + 2 * LINE_BYTES
    with mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as area:
        area.write(saved + code + restored)
        held = ctypes.c_char.from_buffer(area)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.addressof(held))(begin)
        del held
    return {8 * int(at) - 2 * LINE_BYTES: int(memory[at]) - begin for at in np.flatnonzero(memory)}
