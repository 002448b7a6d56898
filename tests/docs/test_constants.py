"""The table of constants: all are found, each has its reason, and trials count only for the value that they tried."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from docs.constants import COUNTS, Constant, constants, table
from tests.nonempty import some

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '''
"""Module."""
CLEAR = Fraction(1, 5)
"""µops | per copy."""
MANY: int = -600
LEAST, MOST = 1, (2, 2.5)
"""Bounds."""
NAME, SWITCH, SUM = "x", True, CLEAR + 1
'''


def test_every_way_of_writing_a_number_is_found(tmp_path: Path) -> None:
    (tmp_path / "inference" / "ports").mkdir(parents=True)
    (tmp_path / "inference" / "ports" / "ask.py").write_text(SOURCE)
    assert constants(tmp_path) == [
        Constant("inference.ports.ask", "CLEAR", Fraction(1, 5), "µops | per copy."),
        Constant("inference.ports.ask", "MANY", -600, ""),
        Constant("inference.ports.ask", "LEAST", 1, "Bounds."),
        Constant("inference.ports.ask", "MOST", (2, 2.5), "Bounds."),
    ]


def test_every_constant_of_inference_has_its_reason() -> None:
    assert [str(one) for one in some(constants(), 50) if len(one.reason.split()) < 4] == []


def trial(**changed: str) -> dict[str, str]:
    unchanged = {"machines": "3", "verdicts": "90", **dict.fromkeys(COUNTS, "0"), "measurements": "98", "example": ""}
    return {"constant": "ports.ask.CLEAR", "value": "1/5", "factor": "1/2", "tried": "1/10", **unchanged, **changed}


@pytest.mark.parametrize(
    ("row", "cell"),
    [
        (trial(), "1/10: all the same; measurements 98%"),
        (trial(lost="1", wrong="2"), "1/10: 1 lost, 2 wrong; measurements 98%"),
        (trial(verdicts="", example="KeyError: a|b"), r"1/10: KeyError: a\|b"),
        (trial(machines="0"), "1/10: no machine reaches it"),
        (trial(value="1/4"), ""),
        (trial(constant="ports.ask.IDLE"), ""),
    ],
)
def test_a_trial_counts_for_the_constant_and_value_that_it_was_done_with(row: dict[str, str], cell: str) -> None:
    made = table([Constant("inference.ports.ask", "CLEAR", Fraction(1, 5), "µops | per copy.")], [row])
    assert made.splitlines()[2] == rf"| `ports.ask.CLEAR` | 1/5 | µops \| per copy. | {cell} |  |"
