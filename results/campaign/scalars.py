"""Exact numbers as JSON and back, and checked members of files that cannot be trusted."""

from __future__ import annotations

import re
from fractions import Fraction
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
        ValueError: it wrote no such thing; what `Fraction` would take hours or gigabytes for is none.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not _FRACTION.fullmatch(str(value)[:200]):
        raise ValueError(f"not a number of cycles: {str(value)[:40]!r}")
    return Fraction(value)


def checked(kind: type[Checked], value: object) -> Checked:
    """Return a member of a file if it is of that type.

    Raises:
        ValueError: it is of another type.
    """
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, found {str(value)[:40]!r}")
    return value
