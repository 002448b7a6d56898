"""What fails at once, what is tried again, and for how long."""

from __future__ import annotations

import pytest

from tests.attempts import LEAST_TRIES, seconds_of, undisturbed


def test_the_first_good_result_counts() -> None:
    results = iter([3, 2, 1, 0])
    assert undisturbed(lambda: next(results), lambda found: found < 2) == 1
    assert next(results) == 0


def test_what_is_always_wrong_fails_and_is_shown() -> None:
    tries: list[int] = []

    def wrong() -> int:
        tries.append(len(tries))
        return tries[-1]

    with pytest.raises(AssertionError, match=r"none of 3 tries .* \[0, 1, 2\]"):
        undisturbed(wrong, lambda found: found < 0, seconds=0)
    assert len(tries) == LEAST_TRIES


def test_an_assertion_of_the_measurement_itself_is_not_tried_again() -> None:
    tries = []

    def wrong() -> None:
        tries.append(1)
        assert not tries

    with pytest.raises(AssertionError, match="assert not"):
        undisturbed(wrong, lambda _: True)
    assert tries == [1]


def test_seconds_are_those_of_the_work() -> None:
    done: list[int] = []
    assert 0 <= seconds_of(lambda: done.append(1))() < 60
    assert done == [1]
