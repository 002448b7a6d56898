"""Tolerances of times that several conclusions share."""

from __future__ import annotations

from fractions import Fraction

WAITS = Fraction(9, 10)
"""Share of a time in cycles. Code waits for something if it takes less than this share without it. A cycle is more than
a tenth of short chains, and noise is a few percent."""

AGREE = Fraction(1, 4)
"""Cycles. Times of two lengths of code may disagree by this much, and be this far off a whole number. Delays take whole
cycles, so half of that is noise. More is contention, or due to other µops of the code."""
