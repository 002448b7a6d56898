"""Whole numbers under linear conditions: what the solver finds is what trying all of them finds."""

from __future__ import annotations

import sys
from itertools import product
from subprocess import run

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.ports.usages.integer_program import IntegerProgram

LIMIT, COUNT = 3, 4

conditions = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=COUNT, max_size=COUNT), st.integers(0, 6), st.integers(0, 6)).map(
        lambda one: (one[0], min(one[1:]), max(one[1:]))
    ),
    max_size=5,
)


@settings(max_examples=60)
@given(conditions, st.sets(st.integers(0, COUNT - 1)))
def test_the_greatest_sum_is_that_of_all_combinations(
    found: list[tuple[list[bool], int, int]], wanted: set[int]
) -> None:
    fitting = [
        numbers
        for numbers in product(range(LIMIT + 1), repeat=COUNT)
        if all(
            least <= sum(number for number, member in zip(numbers, members, strict=True) if member) <= most
            for members, least, most in found
        )
    ]
    numbers = IntegerProgram.of(LIMIT, COUNT, found).most(sorted(wanted))
    if numbers is None:
        assert fitting == []
    else:
        assert tuple(numbers) in fitting
        assert sum(numbers[at] for at in wanted) == max(sum(one[at] for at in wanted) for one in fitting)


def test_of_no_numbers_there_is_no_solution() -> None:
    assert IntegerProgram.of(1, 0, []).most([]) is None


def test_the_solver_prints_nothing_on_the_output_of_a_command() -> None:
    """Its buffers are written when the process ends."""
    code = "from inference.ports.usages.integer_program import IntegerProgram as P; print(P.of(2, 1, []).most([0]))"
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("[2]\n", "", 0)
