"""Replacement policies: inference's own against the simulator's, and found out by time."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from generator.memory.sequences import SetLines
from inference.memory.policies import hits, misses_per_round, policies
from inference.memory.replacement import concluded, measure_replacement, sequences, ways_of
from runner.backends.sim import SimBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from runner.memory import ask_sequence
from simulator.machines.shipped import load_machine
from simulator.memory import caches as simulated
from simulator.memory.parameters import CacheLevel, MemoryParameters
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from inference.memory.policies import Policy

MISS = Fraction(12)
BY_NAME: dict[str, Policy] = {policy.name: policy for policy in policies(4)}


@pytest.mark.parametrize("ways", [2, 4, 6, 8])
def test_both_sides_know_the_same_policies(ways: int) -> None:
    """They share no code: what the simulator's caches do is what inference takes the names for."""
    draw = random.Random(ways)
    for policy in some(list(policies(ways)), 190):
        lines = [draw.randrange(ways + 3) for _ in range(60)]
        assert hits(policy, ways, lines) == simulated.hits(policy.name, ways, lines), policy.name


def test_a_cyclic_sequence_misses_always_or_never() -> None:
    lru = BY_NAME["LRU"]
    assert misses_per_round(lru, 4, [0, 1, 2, 3]) == 0
    assert misses_per_round(lru, 4, [0, 1, 2, 3, 4]) == 5
    assert misses_per_round(BY_NAME["FIFO"], 4, [0, 1, 2, 3, 4]) == 5


def times_of(policy: Policy, ways: int, noise: int = 0) -> list[Fraction]:
    lines = sequences(ways)
    return [
        misses_per_round(policy, ways, one) * MISS + Fraction(noise * (number % 5 - 2), 4)
        for number, one in enumerate(lines)
    ]


@pytest.mark.parametrize("name", ["LRU", "PLRU", "FIFO", "MRU", "QLRU_H11_M1_R0_U0", "QLRU_H00_M1_R2_U1"])
@pytest.mark.parametrize("noise", [0, 4])
def test_a_policy_is_found_by_the_time_of_sequences(name: str, noise: int) -> None:
    found = concluded("L1", 4, sequences(4), times_of(BY_NAME[name], 4, noise), Fraction(15))
    assert name in found.policies, found
    assert found.ways == 4
    same = times_of(BY_NAME[name], 4)
    assert {times_of(BY_NAME[other], 4) == same for other in some(found.policies, 1)} == {True}


def test_times_that_no_policy_explains_are_not_known() -> None:
    draw = random.Random(3)
    times = [draw.randrange(1, 12) * MISS for _ in sequences(4)]
    found = concluded("L1", 4, sequences(4), times, MISS)
    assert found.policies == ()
    assert "no policy that is known here agrees" in found.reason
    assert concluded("L1", 4, sequences(4), [Fraction(0)] * 30, MISS).policies == ()


def test_ways_are_as_many_lines_as_are_loaded_without_a_miss() -> None:
    times = [Fraction(5 * count) if count <= 8 else Fraction(17 * count) for count in range(1, 26)]
    assert ways_of(times, MISS) == 8
    assert ways_of([Fraction(5 * count) for count in range(1, 26)], MISS) is None
    assert ways_of([*times[:4], None, *times[5:]], MISS) is None
    assert ways_of(times, Fraction(1)) is None
    once = [*times[:3], times[3] + MISS, *times[4:8], *(Fraction(5 * count) for count in range(9, 26))]
    assert ways_of(once, MISS) is None  # a disturbance, not a full set


@pytest.mark.parametrize("policy", ["LRU", "FIFO"])
def test_accesses_of_a_sequence_hit_as_in_the_simulated_cache(policy: str) -> None:
    memory = MemoryParameters(
        caches=(CacheLevel(4096 * 2, 2, 0, policy), CacheLevel(1 << 20, 16, 12)), memory_cycles=90
    )
    backend = SimBackend(load_machine("SKX").with_parameters(memory=memory), Catalogue.load())
    found = ask_sequence(backend, Catalogue.load(), "A? B? A? C? A? B?")
    expected = {"LRU": [False, False, True, False, True, False], "FIFO": [False, False, True, False, False, False]}
    assert [one.hits for one in found] == expected[policy]
    assert [one.line for one in found] == list("ABACAB")


@pytest.mark.parametrize(("policy", "ways"), [("LRU", 4), ("PLRU", 4), ("QLRU_H00_M1_R0_U1", 2)])
def test_the_policy_of_a_simulated_first_level_is_found(policy: str, ways: int) -> None:
    memory = MemoryParameters(
        caches=(CacheLevel(4096 * ways, ways, 0, policy), CacheLevel(1 << 20, 16, 12)), memory_cycles=90
    )
    machine = load_machine("SKX").with_parameters(memory=memory)
    session = Session(Measurer(SimBackend(machine, Catalogue.load())))
    instructions = InstructionFactory(Catalogue.load())
    found = session.run_one(measure_replacement(instructions, SetLines(4096), "L1", MISS))
    assert found.ways == ways
    assert policy in found.policies, found


def test_a_full_set_of_a_tlb_is_no_full_set_of_a_cache() -> None:
    """From the fifth line on each page takes 7 cycles more, as on an Ice Lake; lines that miss would take 30."""
    times = [Fraction(15 * count + (7 * count if count > 4 else 0)) for count in range(1, 26)]
    assert ways_of(times, Fraction(30)) is None
    both = [time + (30 * (count - 20) if count > 20 else 0) for count, time in enumerate(times, 1)]
    assert ways_of(both, Fraction(30)) is None
    least = [Fraction(5 * count + (12 * (count - 8) if count > 8 else 0)) for count in range(1, 26)]
    assert ways_of(least, MISS) == 8
