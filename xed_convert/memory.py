"""Memory management for work that makes many objects and drops few of them in cycles."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


SELDOM = (200_000, 20, 20)
"""Thresholds of the garbage collector, instead of 700, 10 and 10."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Switch the cyclic garbage collector off for the block: it would look at all objects again and again in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def collect_seldom() -> tuple[int, int, int]:
    """Have this process look for cyclic garbage more seldom from now on, and return the thresholds that it had.

    A campaign keeps what it makes, so that there is little to find; looking took a fifth of its time.
    """
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    return before


@contextmanager
def seldom_collection() -> Iterator[None]:
    """Look for cyclic garbage more seldom for the block."""
    before = collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
