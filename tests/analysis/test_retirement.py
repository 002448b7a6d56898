"""The model of retirement: what an interrupt catches."""

from __future__ import annotations

from fractions import Fraction

import pytest

from analysis.bounds import Running
from analysis.prediction import Mode
from analysis.retirement import distance, predicted, shares
from runner.own_code.analyzed import tools_for
from runner.own_code.text import assemble


def retiring(width: int, instructions: int, iterations: int = 40) -> list[tuple[int, int]]:
    """Return a loop in which nothing waits: so many instructions retire in each cycle."""
    return [(number % instructions, number // width) for number in range(instructions * iterations + 1)]


def test_where_nothing_waits_every_fourth_instruction_is_caught_if_four_retire_in_a_cycle() -> None:
    """As in Downs's first program on a Skylake: MOVs of constants, of which only every fourth has samples."""
    found = shares(retiring(4, 80))
    assert list(found) == list(range(1, 80, 4))
    assert max(found.values()) - min(found.values()) < Fraction(1, 100)


def test_a_slow_instruction_blames_the_one_after_it() -> None:
    """A load that takes 4 cycles and 11 others: 4 retire with it, 4 a cycle later, and 4 more after another."""
    one = [(0, 4), *((number, 4 + number // 4) for number in range(1, 12))]
    loop = [(position, cycle + 7 * turn) for turn in range(50) for position, cycle in one]
    found = shares([*loop, (0, 7 * 50 + 4)])
    assert found[1] > Fraction(1, 2)
    assert set(found) == {1, 5, 9}


def test_without_time_there_are_no_shares() -> None:
    with pytest.raises(ValueError, match="no time"):
        shares([(0, 5), (1, 5), (0, 5)])


def test_the_distance_of_distributions() -> None:
    half = Fraction(1, 2)
    assert distance({0: half, 1: half}, {0: half, 1: half}) == 0
    assert distance({0: half, 1: half}, {0: half, 2: half}) == half
    assert distance({0: Fraction(1)}, {1: Fraction(1)}) == 1


MOVES = "; ".join(f"mov ebx, {number}" for number in range(1, 13))


PREDICTED = {
    # Eight retire in a cycle of a Zen 4: the load with seven MOVs, then the rest (measured: 73.1% and 23.5%)
    f"mov rax, [r14+rax]; {MOVES}": {1: Fraction(3, 4), 9: Fraction(1, 4)},
    # One product after the other: each is the oldest one for three cycles
    "imul rax, rax; imul rax, rax": {1: Fraction(1, 2), 2: Fraction(1, 2)},
}


def test_predictions_for_a_zen_4() -> None:
    tools = tools_for("ZEN4", None)
    for code, expected in PREDICTED.items():
        loop = assemble(code) + bytes.fromhex("49ffcf") + bytes.fromhex("0f8500000000")
        study = tools.predict(loop, Running.LOOP, Mode.SIMULATION).study
        assert study is not None
        assert distance(predicted(study), expected) < Fraction(1, 20), code
