"""What the rounds of a block say, without a clock."""

from __future__ import annotations

import pytest

from results.model import Status
from runner.own_code.block_rounds import BlockProblem, BlockRounds

FEW, MANY, ITERATIONS = 10, 50, 100


def rounds(cycles: float, disturbances: list[float], others: list[float] | None = None) -> BlockRounds:
    """Return rounds of a block that takes so many cycles, with a harness; each disturbance is in both sizes."""
    found = BlockRounds((FEW, MANY), ITERATIONS, count=len(disturbances) + len(others or ()))
    for kept, extra in ((found.times, disturbances), (found.disturbed, others or [])):
        for times, copies in zip(kept, (FEW, MANY), strict=True):
            times += [77 + cycles * copies * ITERATIONS + one for one in extra]
    return found


@pytest.mark.parametrize("cycles", [0.25, 1, 9.5])
def test_the_harness_cancels(cycles: float) -> None:
    timing = rounds(cycles, [0.0] * 4).agreed_timing("")
    assert timing is not None
    assert timing.cycles == pytest.approx(cycles)
    assert (timing.spread, timing.problem) == (0, BlockProblem.NONE)


def test_half_of_the_rounds_may_be_slow() -> None:
    timing = rounds(1, [0, 0, 0, 900, 900]).agreed_timing("")
    assert timing is not None
    assert timing.cycles == pytest.approx(1)


def test_rounds_that_differ_have_no_number_or_a_remark() -> None:
    """The larger size runs 4,000 copies more, so 60 cycles are a spread of 1.5%, and 400 one of 10%."""
    for distance, status, reason in ((60, Status.OK, "crosses; unsteady"), (400, Status.UNCLEAN, "unsteady: ")):
        found = rounds(1, [0, 0, distance, distance])
        assert found.agreed_timing("crosses") is None
        last = found.last_timing("crosses")
        assert (last.status, last.problem) == (status, BlockProblem.UNSTEADY)
        assert last.reason.startswith(reason)


@pytest.mark.parametrize(
    ("quiet", "others", "reason"),
    [
        ([0.0] * 3, [0.0] * 5, "only 3 of 8 rounds were undisturbed"),
        ([0.0], [0.0] * 7, "another thread used the same core all the time"),
        ([], [0.0, 500.0, 900.0, 900.0], "disturbed: another thread used the same core in 4 of 4 rounds"),
    ],
)
def test_disturbed_rounds_are_called_so(quiet: list[float], others: list[float], reason: str) -> None:
    last = rounds(1, quiet, others).last_timing("")
    assert (last.reason, last.problem) == (reason, BlockProblem.DISTURBED)
    assert last.ok == (not reason.startswith("disturbed"))


def test_nothing_is_quicker_than_a_core_can_be() -> None:
    assert rounds(0.01, [0.0] * 4).agreed_timing("") is None
    assert rounds(0.01, [0.0] * 4).last_timing("").status is Status.UNCLEAN


def test_a_misaligned_access_is_a_remark() -> None:
    timing = rounds(1, [0.0] * 4).agreed_timing("crosses")
    assert timing is not None
    assert (timing.reason, timing.problem) == ("crosses", BlockProblem.MISALIGNED)


def loops(small: float, large: float, *, is_loop: bool = True) -> BlockRounds:
    """Return rounds of loops of which a pass takes so many cycles."""
    found = BlockRounds((8, 32), ITERATIONS, count=4, is_loop=is_loop)
    for times, cycles in zip(found.times, (small, large), strict=True):
        times.extend([cycles * ITERATIONS] * 4)
    return found


@pytest.mark.parametrize(
    ("small", "large", "is_in_line"),
    [
        (8.0, 32.0, True),
        (11.0, 35.0, True),
        (5.5, 114.8, False),  # the smaller one comes from the loop buffer
        (14.2, 16.0, False),  # the smaller one is decoded each time
        (19.0, 19.0, False),  # the difference is nothing
    ],
)
def test_loops_that_disagree_about_a_copy_have_no_number(small: float, large: float, is_in_line: bool) -> None:
    found = loops(small, large)
    agreed, last = found.agreed_timing(""), found.last_timing("")
    assert last.ok == is_in_line
    if is_in_line:
        assert agreed is not None
        assert agreed.cycles == pytest.approx(1)
    else:
        assert agreed == last
        assert last.problem is BlockProblem.NOT_IN_LINE
        said = f"not in line: a copy takes {small / 8:.2f} cycles in a loop of 8, and {large / 32:.2f} in one of 32"
        assert last.reason == said


def test_loops_that_disagree_because_of_noise_are_called_so() -> None:
    noisy = BlockRounds((8, 32), 1, ([14, 14, 14.3, 14.3], [16, 17.5, 22, 26]), count=4, is_loop=True)
    assert noisy.agreed_timing("") is None
    assert noisy.last_timing("").problem is BlockProblem.UNSTEADY
    shared = BlockRounds((8, 32), 1, ([], []), ([14.2] * 4, [16.0] * 4), count=4, is_loop=True)
    assert shared.last_timing("").problem is BlockProblem.DISTURBED


def test_copies_in_a_row_may_have_much_around_them() -> None:
    assert loops(60, 84, is_loop=False).agreed_timing("") is not None
