"""Replacement policies: known sequences, and laws."""

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.memory.caches import Caches, hits
from simulator.memory.parameters import CacheLevel, MemoryParameters
from simulator.memory.policies import new_set
from tests.nonempty import some

PLAIN = ("LRU", "FIFO", "PLRU", "MRU")
QUADS = tuple(
    f"QLRU_H{oldest}{older}_M{new}_R{goes}_U{step}"
    for oldest, older, new, goes, step in product((0, 1), (0, 1), (1, 3), (0, 2), (0, 1, 2, 3))
)
sequences = st.lists(st.integers(0, 6), max_size=40)


def missed(policy: str, lines: str, ways: int = 4) -> str:
    """Return the accesses that miss, as the letters that they are."""
    found = hits(policy, ways, [ord(letter) for letter in lines])
    return "".join(letter for letter, hit in zip(lines, found, strict=True) if not hit)


@pytest.mark.parametrize(
    ("policy", "lines", "misses"),
    [
        ("LRU", "ABCDAEA", "ABCDE"),
        ("LRU", "ABCDAEB", "ABCDEB"),
        ("FIFO", "ABCDAEA", "ABCDEA"),
        ("FIFO", "ABCDAEB", "ABCDE"),
        ("PLRU", "ABCDAEC", "ABCDEC"),
        ("PLRU", "ABCDAEB", "ABCDE"),
        ("MRU", "ABCDEABC", "ABCDEABC"),
        ("QLRU_H00_M1_R0_U0", "ABCDEA", "ABCDEA"),
        ("QLRU_H00_M3_R0_U0", "ABCDEFB", "ABCDEF"),
    ],
)
def test_known_sequences(policy: str, lines: str, misses: str) -> None:
    assert missed(policy, lines) == misses


@pytest.mark.parametrize("policy", [*PLAIN, *QUADS])
@given(lines=sequences)
def test_as_many_lines_as_ways_stay_and_the_last_one_is_always_there(policy: str, lines: list[int]) -> None:
    one = new_set(policy, 4)
    for line in lines:
        one.access(line)
        assert line in one.lines
        assert len(one.lines) == 4
    few = [line % 4 for line in lines]
    assert sum(not hit for hit in hits(policy, 4, few)) == len(set(few))


@given(lines=sequences, ways=st.integers(1, 6))
def test_a_larger_lru_set_has_what_a_smaller_one_has(lines: list[int], ways: int) -> None:
    small, large = hits("LRU", ways, lines), hits("LRU", ways + 1, lines)
    pairs = list(zip(small, large, strict=True))
    assert [pair for pair in pairs if pair == (True, False)] == []
    assert len(pairs) == len(lines)


def test_policies_differ() -> None:
    lines = "".join(random.Random(1).choices("ABCDEFG", k=200))
    assert len({missed(policy, lines) for policy in PLAIN}) == len(PLAIN)
    assert len({missed(policy, lines) for policy in some(QUADS, 64)}) > 8


@pytest.mark.parametrize("policy", ["none", "QLRU_H33_M1_R0_U0", "LRU "])
def test_an_unknown_policy_is_refused(policy: str) -> None:
    with pytest.raises(ValueError, match="no replacement policy"):
        new_set(policy, 4)


def test_a_tree_needs_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        new_set("PLRU", 6)


def test_a_line_that_is_dropped_is_not_there_and_its_place_is_filled_next() -> None:
    one = new_set("LRU", 2)
    for line in (1, 2):
        one.access(line)
    one.drop(1)
    one.drop(7)
    assert one.lines == [None, 2]
    assert not one.access(3)
    assert one.access(2)


def test_levels_are_asked_one_after_the_other() -> None:
    memory = MemoryParameters(
        caches=(CacheLevel(128, 2, 0), CacheLevel(512, 2, 10)),
        memory_cycles=100,
        crossing_line_cycles=3,
        crossing_page_cycles=7,
    )
    caches = Caches(memory)
    assert caches.load("R14", 0, 8) == 100
    assert caches.load("R14", 56, 8) == 0
    assert caches.load("R14", 60, 8) == 103
    assert caches.load("R14", 0, 8) == 0
    for line in (2, 3):
        caches.load("R14", 64 * line, 8)
    assert caches.load("R14", 0, 8) == 10
    assert caches.load("R14", 4092, 8) == 107
    caches.drop("R14", 0)
    assert caches.load("R14", 0, 8) == 100
    assert Caches(MemoryParameters()).load("R14", 0, 8) == 0
