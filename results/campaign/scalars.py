"""Exact numbers as JSON and back, and checked members of files that cannot be trusted."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

Checked = TypeVar("Checked")

_FRACTION = re.compile(r"-?\d{1,60}(/[1-9]\d{0,59})?", re.ASCII)


def number(value: Fraction | None) -> int | str | None:
    """Write an exact number."""
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else str(value)


def fraction(value: int | str | None) -> Fraction | None:
    """Read what `number` wrote.

    Raises:
        ValueError: it did not write this; numbers on which `Fraction` would take hours are refused, too.
    """
    if value is None:
        return None
    return _fraction(str(value)[:200])


@lru_cache(maxsize=1 << 14)
def _fraction(text: str) -> Fraction:
    """Read a number; most of those of a campaign occur again and again."""
    if not _FRACTION.fullmatch(text):
        raise ValueError(f"not a number of cycles: {text[:40]!r}")
    return Fraction(text)


def checked(kind: type[Checked], value: object) -> Checked:
    """Return a member of a file if it is of that type.

    Raises:
        ValueError: it is of another type.
    """
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, found {str(value)[:40]!r}")
    return value
