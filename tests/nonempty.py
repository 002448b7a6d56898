"""Loops that have something to look at: a test that asserts only inside a loop shows nothing about an empty one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


def faults(items: Iterable[T]) -> list[T]:
    """Return what a checker complains about, as a list: here, to have nothing to look at is good."""
    return list(items)


def some(items: Iterable[T], least: int = 1) -> list[T]:
    """Return the items as a list; fail if there are fewer than `least`."""
    found = list(items)
    assert len(found) >= least, f"{len(found)} to look at instead of at least {least}"
    return found
