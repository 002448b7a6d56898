"""Late forms: how long the simulator's SHLX and ADDPS take behind some producers, and when that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulator.core.late_forms import UPPERS
from simulator.machines.late_rules import late_rules
from tests.nonempty import some
from tests.simulator.programs import catalogue, line, per_copy

if TYPE_CHECKING:
    from generator.microbenchmark import Line

# RBX and RBP: the harness writes RAX, RCX and RDX between the setup and the copies
SHIFT = line("SHLX (R64, R64, R64)", "RBX", "RBX", "RBP")
SUM = line("ADDPS (XMM, XMM)", "XMM0", "XMM1")
MARKING = line("ADD (R64, I8)", "RBP", 1)
PLAIN = line("MOV (R32, I32)", "EBP", 1)
COUNT = line("INC (R64)", "RCX")
TEST = line("TEST (R64, R64)", "RBX", "RBX")
DIRTY = line("VORPS (YMM, YMM, YMM)", "YMM9", "YMM9", "YMM9")


@pytest.mark.parametrize(
    ("before", "cycles"),
    [((), 1), ((MARKING,), 3), ((PLAIN,), 1), ((MARKING, PLAIN), 1), ((PLAIN, MARKING), 3), ((DIRTY,), 1)],
)
def test_a_shift_takes_longer_until_its_count_is_written_otherwise(before: tuple[Line, ...], cycles: int) -> None:
    assert per_copy("HSW:producer", SHIFT, setup=before)["core_cycles"] == cycles
    assert per_copy("HSW:producer", SHIFT, setup=before, iterations=3)["core_cycles"] == pytest.approx(cycles, abs=0.1)
    assert per_copy("HSW", SHIFT, setup=before)["core_cycles"] == 1


@pytest.mark.parametrize(
    ("before", "cycles"), [((), 3), ((DIRTY,), 4), ((DIRTY, line("VZEROUPPER")), 3), ((MARKING,), 3)]
)
def test_legacy_code_takes_longer_while_upper_halves_are_dirty(before: tuple[Line, ...], cycles: int) -> None:
    assert per_copy("HSW:producer", SUM, setup=before)["core_cycles"] == cycles


def test_a_mark_that_comes_and_goes_in_each_copy() -> None:
    """One shift of the two in a copy comes behind the sum."""
    assert per_copy("HSW:producer", PLAIN, SHIFT, MARKING, SHIFT)["core_cycles"] == 4


@pytest.mark.parametrize(("between", "cycles"), [((), 0), ((COUNT,), 1), ((COUNT, TEST), 0), ((line("CLC"),), 0)])
def test_a_read_of_all_flags_takes_longer_until_all_are_written(between: tuple[Line, ...], cycles: int) -> None:
    read = line("SETBE (R8l)", "DL"), line("MOVSX (R64, R8l)", "RBX", "DL")
    chains = [per_copy(machine, TEST, *between, *read)["core_cycles"] for machine in ("HSW:producer", "HSW")]
    assert chains[0] - chains[1] == cycles


def test_what_else_the_shift_reads_does_not_matter() -> None:
    shift = line("SHLX (R64, R64, R64)", "RBP", "RBP", "RBX")
    assert per_copy("HSW:producer", shift, setup=(MARKING,))["core_cycles"] == 1


def test_rules_are_about_variants_of_the_catalogue() -> None:
    strings = {one.string for one in catalogue()}
    for rule in some(late_rules()):
        assert rule.consumer in strings
        assert rule.producer in strings or rule.operand == UPPERS
