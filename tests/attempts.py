"""Measurements of the real clock, repeated while the machine is busy with something else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
SECONDS = 60.0
"""Other work may take the core for so long."""
LEAST_TRIES = 3
"""A machine can be so slow that one try takes all the time."""


def undisturbed(measure: Callable[[], T], holds: Callable[[T], bool], seconds: float = SECONDS) -> T:
    """Measure until the result is as it has to be, and return that result.

    Only the machine's load may be a reason to try again. So `measure` asserts for itself what load does not change:
    that fails at the first try.

    Raises:
        AssertionError: no result was right, in three tries and until `seconds` were over. It names the last results.
    """
    ends = time.monotonic() + seconds
    seen: list[T] = []
    while len(seen) < LEAST_TRIES or time.monotonic() < ends:
        found = measure()
        if holds(found):
            return found
        seen.append(found)
    raise AssertionError(f"none of {len(seen)} tries gave what it has to, the last ones {seen[-LEAST_TRIES:]}")


def seconds_of(work: Callable[[], object]) -> Callable[[], float]:
    """Return a function that does the work once and returns its wall time in seconds."""

    def timed() -> float:
        started = time.monotonic()
        work()
        return time.monotonic() - started

    return timed
