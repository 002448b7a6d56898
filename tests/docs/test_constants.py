"""The table of constants: all are found, each has its reason, and trials count only for the value that they tried."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from docs.constants import CHECKOUT, COUNTS, Constant, constants, table, tables, unexplained
from docs.tables import SENSITIVITY, UNTRIED, figures
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


def test_constants_of_one_name_and_value_are_one() -> None:
    """Each has its own meaning, or another module imports it."""
    names = [(one.name, one.value) for one in constants()]
    assert [one for one in some(names, 200) if names.count(one) > 1] == []


def unnamed(source: str) -> list[str]:
    """Return the fractions and floating-point numbers in functions, but for 0 and 1."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    inside = [node for function in functions for statement in function.body for node in ast.walk(statement)]
    numbers = [node for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, float)]
    named = [ast.unparse(node) for node in numbers if node.value not in {0.0, 1.0}]
    return named + [text for node in inside if re.fullmatch(r"Fraction\(\d+, \d+\)", text := ast.unparse(node))]


@pytest.mark.parametrize(("line", "found"), [("y = x + 0.3", ["0.3"]), ("y = Fraction(1, 2)", ["Fraction(1, 2)"])])
def test_a_number_without_a_name_would_be_found(line: str, found: list[str]) -> None:
    assert unnamed(f"X = Fraction(1, 3)\ndef f(x):\n    z = Fraction(x, 2) + 1.0\n    {line}\n") == found


def test_every_fraction_in_inference_has_a_name() -> None:
    paths = some(sorted((CHECKOUT / "inference").rglob("*.py")), 30)
    assert [f"{path.name}: {text}" for path in paths for text in unnamed(path.read_text(encoding="utf-8"))] == []


CLEAR = Constant("inference.ports.ask", "CLEAR", Fraction(1, 5), "µops | per copy.")
IDLE = Constant("inference.ports.ask", "IDLE", 3, "Cycles.")


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
    made = table([CLEAR], [row], {})
    assert made.splitlines()[2] == rf"| `ports.ask.CLEAR` | 1/5 | µops \| per copy. | {cell} |  |"


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ([], "2 | 0 | 0 | 0"),
        ([trial(machines="0")], "2 | 1 | 0 | 0"),
        ([trial(), trial(factor="2")], "2 | 1 | 1 | 0"),
        ([trial(), trial(factor="2", lost="1", example="HSW NOP ports: right, then none")], "2 | 1 | 1 | 1"),
        ([trial(), trial(constant="ports.ask.IDLE", value="3")], "2 | 2 | 2 | 0"),
        ([trial(value="1/4"), trial(constant="ports.ask.NONE")], "2 | 0 | 0 | 0"),
    ],
)
def test_constants_are_counted_by_how_far_they_were_tried(rows: list[dict[str, str]], counts: str) -> None:
    assert tables([CLEAR, IDLE], rows, {})["trials"].splitlines()[2:] == [f"| {counts} |"]


def test_a_trial_that_changes_a_conclusion_has_a_row_with_its_first_change() -> None:
    rows = [trial(), trial(factor="2", tried="2/5", lost="3", example="HSW NOP ports: right, then none")]
    made = tables([CLEAR, IDLE], rows, {})["changes"].splitlines()
    assert made[2:] == ["| `ports.ask.CLEAR` | 2/5 | 3 | 0 | 0 | 0 | 0 | HSW NOP ports: right, then none |"]


REASONS = {"ports.ask.IDLE": "only on a real clock"}


def test_a_constant_that_cannot_be_tried_has_its_reason_in_the_table() -> None:
    made = table([CLEAR, IDLE], [trial()], REASONS).splitlines()
    assert made[2].endswith("| 1/10: all the same; measurements 98% |  |")
    assert made[3] == "| `ports.ask.IDLE` | 3 | Cycles. | not tried: only on a real clock |  |"


@pytest.mark.parametrize(
    ("rows", "reasons", "wrong"),
    [
        ([trial()], REASONS, []),
        ([trial(value="1/4")], REASONS, ["ports.ask.CLEAR: neither tried nor a reason in untried.tsv"]),
        ([trial()], {}, ["ports.ask.IDLE: neither tried nor a reason in untried.tsv"]),
        (
            [trial()],
            {**REASONS, "ports.ask.CLEAR": "why"},
            ["ports.ask.CLEAR: tried, but untried.tsv has a reason"],
        ),
        ([trial()], {**REASONS, "ports.ask.NONE": "why"}, ["ports.ask.NONE: in untried.tsv, but no constant"]),
    ],
)
def test_a_constant_is_tried_or_a_reason_says_why_not(
    rows: list[dict[str, str]], reasons: dict[str, str], wrong: list[str]
) -> None:
    assert unexplained([CLEAR, IDLE], rows, reasons) == wrong


def test_every_constant_of_inference_is_tried_or_says_why_not() -> None:
    trials = figures(CHECKOUT / "benchmarks" / SENSITIVITY)
    reasons = {row["constant"]: row["reason"] for row in figures(CHECKOUT / "benchmarks" / UNTRIED)}
    assert unexplained(some(constants(), 200), trials, reasons) == []


def test_no_trial_made_a_conclusion_wrong() -> None:
    trials = some(figures(CHECKOUT / "benchmarks" / SENSITIVITY), 200)
    assert [(row["constant"], row["tried"]) for row in trials if row["wrong"] not in {"", "0"}] == []
