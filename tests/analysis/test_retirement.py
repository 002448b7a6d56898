"""The model of retirement: what an interrupt catches."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest

from analysis.bounds.components import Running
from analysis.prediction import PredictionMode, Tools
from analysis.retirement import Cause, RetirementPrediction, distance, predicted, shares
from runner.own_code.reading.text import assemble
from tests.analysis.machine import shipped_machine
from xed_convert.assembly.assembler import shipped_assembler


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


def test_a_pair_that_is_the_oldest_may_be_split() -> None:
    """A load that takes 4 cycles and seven others retire, then the pair at 8 and 9."""
    one = [*((number, 4) for number in range(8)), (8, 5)]
    loop = [(position, cycle + 4 * turn) for turn in range(50) for position, cycle in one]
    assert shares([*loop, (0, 4 * 50 + 4)], frozenset({8}))[9] == pytest.approx(Fraction(1, 4), abs=0.01)
    assert shares([*loop, (0, 4 * 50 + 4)])[0] == pytest.approx(Fraction(1, 4), abs=0.01)


def test_without_time_there_are_no_shares() -> None:
    with pytest.raises(ValueError, match="no time"):
        shares([(0, 5), (1, 5), (0, 5)])


def test_the_distance_of_distributions() -> None:
    half = Fraction(1, 2)
    assert distance({0: half, 1: half}, {0: half, 1: half}) == 0
    assert distance({0: half, 1: half}, {0: half, 2: half}) == half
    assert distance({0: Fraction(1)}, {1: Fraction(1)}) == 1


MOVES = "; ".join(f"mov ebx, {number}" for number in range(1, 13))
NOPS = "; ".join(["nop"] * 10)
END = bytes.fromhex("49ffcf0f8500000000")
"""DEC R15 and JNE, which fuse."""


def prediction(architecture: str, code: str) -> RetirementPrediction:
    tools = Tools.of(shipped_machine(architecture), shipped_assembler().decoder)
    study = tools.predict(assemble(code) + END, Running.LOOP, PredictionMode.SIMULATION).study
    assert study is not None
    return predicted(study)


PREDICTED = {
    # Eight retire in a cycle of a Zen 4: the load with seven MOVs, then the rest (measured: 73.1% and 23.5%)
    f"mov rax, [r14+rax]; {MOVES}": {1: Fraction(3, 4), 9: Fraction(1, 4)},
    # One product after the other: each is the oldest one for three cycles
    "imul rax, rax; imul rax, rax": {1: Fraction(1, 2), 2: Fraction(1, 2)},
}


def test_predictions_for_a_zen_4() -> None:
    for code, expected in PREDICTED.items():
        assert distance(prediction("ZEN4", code).shares, expected) < Fraction(1, 20), code


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("imul rax, rax; nop; nop; nop; nop; mulsd xmm0, xmm0; nop", 6),
        ("mulsd xmm0, xmm0; nop; nop; nop; nop; imul rax, rax; nop", 1),
    ],
)
def test_of_two_chains_of_as_many_cycles_that_of_vectors_stays_behind(code: str, caught: int) -> None:
    """A Zen 3 never waits for the IMUL that stands before (measured with seven NOPs between)."""
    assert prediction("ZEN4", code).shares[caught] > Fraction(3, 5)


def repeated(block: str, times: int = 10) -> str:
    return "; ".join([block] * times)


def by_place(code: str, size: int) -> dict[int, Fraction]:
    """Return the shares on a Skylake by place in a block of so many instructions, without those of the loop's end."""
    found: dict[int, Fraction] = defaultdict(Fraction)
    for position, share in prediction("SKL", code).shares.items():
        found[position % size] += share
    return {place: share for place, share in found.items() if share > Fraction(1, 50)}


def test_the_article_s_load_before_ten_nops() -> None:
    """Its table: the NOPs 1, 5 and 9 behind a load have all samples (it has 119, 76 and 103 in all four blocks)."""
    assert set(by_place(repeated(f"mov rax, [rax]; {NOPS}"), 11)) == {1, 5, 9}


def test_the_article_s_addition_that_is_never_caught() -> None:
    """A load that takes 5 cycles, five NOPs, an addition: 172 and 35 samples, of six cycles five and one."""
    found = by_place(repeated("mov rax, [rax]; nop; nop; nop; nop; nop; add rax, 0"), 7)
    assert set(found) == {1, 5}
    assert found[1] / found[5] == pytest.approx(172 / 35, rel=0.1)


def test_the_article_s_addition_that_retires_alone() -> None:
    """The same with the addition in the load's group: its successor has one sample for 4.9 of the load's."""
    found = by_place(repeated("mov rax, [rax]; nop; nop; add rax, 0; nop; nop; nop"), 7)
    assert set(found) == {1, 4}
    assert found[1] / found[4] == pytest.approx(4.9, rel=0.1)


def test_the_article_s_loads_with_and_without_an_index() -> None:
    """Samples are as 4 to 5: a load without an index whose address is a load's result is a cycle faster."""
    found = by_place(repeated("mov rax, [rax]; mov rax, [rax+rdx]"), 2)
    assert found[1] / found[0] == pytest.approx(4 / 5, rel=0.05)


def test_the_article_s_additions_of_which_two_are_a_chain() -> None:
    """Samples are only behind the two of the chain; the article has 171 and 363 and does not say why not as many."""
    found = by_place(repeated("add rax, 1; add rax, 2; add rsi, 3; add rdi, 4", 20), 4)
    assert set(found) == {1, 2}


def test_each_share_has_its_reason() -> None:
    """A product of three cycles, then NOPs: one group waits for the product, the next ones for their turn."""
    found = prediction("SKL", "imul rax, rax; imul rax, rax; imul rax, rax; nop; nop; nop; nop; nop")
    assert found.cycles == pytest.approx(9, rel=0.05)
    assert {place: (one.position, one.cause) for place, one in found.oldest.items()} == {
        1: (0, Cause.RESULT),
        2: (1, Cause.RESULT),
        3: (2, Cause.RESULT),
        7: (6, Cause.RETIREMENT),
    }
    assert sum(one.cycles for one in found.oldest.values()) == pytest.approx(float(found.cycles), rel=0.01)
