"""Short texts for people."""

from __future__ import annotations

from fractions import Fraction

import pytest

from results.text import bar


@pytest.mark.parametrize(
    ("share", "text"),
    [(Fraction(0), ""), (Fraction(1), 20 * "█"), (Fraction(1, 40), "▌"), (0.5, 10 * "█"), (-0.5, "")],
)
def test_a_bar_is_as_long_as_its_share(share: Fraction | float, text: str) -> None:
    assert bar(share, 20) == text
