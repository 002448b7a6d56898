"""Whole numbers in options and files."""

from __future__ import annotations

MOST_DIGITS = 18
"""Digits of the longest number that is read: enough for 64 bits. Python refuses to convert more than 4,300."""


def decimal(text: str) -> int | None:
    """Return the number that decimal digits state; None if there is anything else, or over `MOST_DIGITS` of them."""
    return int(text) if len(text) <= MOST_DIGITS and text.isdecimal() else None
