"""The numeric constants of inference, read from its sources: name, value, and why it has this value.

`docs/tables.py` makes the table of `docs/constants.md` from them, with what `benchmarks/sensitivity.py` found out. That
script tries half and twice the value of one constant at a time.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGE = "inference"
COUNTS = ("lost", "gained", "wrong", "mended", "other")
"""Columns of `sensitivity.tsv` that count conclusions which come out otherwise."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that a module gives a name, or a tuple of numbers; `reason` is the docstring below it."""

    module: str
    name: str
    value: Any
    reason: str = ""

    def __str__(self) -> str:
        """Return `inference.ports.ask.CLEAR`."""
        return f"{self.module}.{self.name}"


def constants(checkout: Path = CHECKOUT) -> list[Constant]:
    """Return the constants of all modules of inference, in the order of files and lines."""
    found = []
    for path in sorted((checkout / PACKAGE).rglob("*.py")):
        module = ".".join(path.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__")
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, following in zip_longest(body, body[1:]):
            for name, value in numbers([statement]).items():
                found.append(Constant(module, name, value, _docstring(following)))
    return found


def numbers(statements: Sequence[ast.stmt]) -> dict[str, Any]:
    """Return the names that statements give numbers (or tuples of them) that are written down there."""
    found = {}
    for statement in statements:
        for name, value in assigned(statement):
            if _is_number(value):
                expression = compile(ast.Expression(value), "<constant>", "eval")
                found[name] = eval(expression, {"Fraction": Fraction})  # noqa: S307 - numbers only, as was just checked
    return found


def assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a statement gives which value: `A = 1`, `A: int = 1`, or `A, B = 1, 2`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            named = zip(targets, values, strict=False)
            yield from ((target.id, value) for target, value in named if isinstance(target, ast.Name))


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=int() | float() as number):
            return not isinstance(number, bool)
        case ast.Call(func=ast.Name(id="Fraction"), args=parts) | ast.Tuple(elts=[_, *_] as parts):
            return all(map(_is_number, parts))
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return False


def _docstring(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
    return ""


def text(value: object) -> str:
    """Return a value as tables show it: `1/20`, or `3, 8, 10`."""
    return ", ".join(map(text, value)) if isinstance(value, tuple) else str(value)


def table(found: Sequence[Constant], trials: Sequence[Mapping[str, str]]) -> str:
    """Return constants as a Markdown table; `trials` are rows of `sensitivity.tsv` (none: nothing was tried)."""
    lines = ["| constant | value | unit and reason | half | twice |", "|---|--:|---|---|---|"]
    for one in found:
        short = str(one).removeprefix(f"{PACKAGE}.")
        tried = [row for row in trials if (row["constant"], row["value"]) == (short, text(one.value))]
        cells = [_outcome([row for row in tried if row["factor"] == factor]) for factor in ("1/2", "2")]
        lines.append(f"| `{short}` | {text(one.value)} | {_cell(one.reason)} | {' | '.join(map(_cell, cells))} |")
    return "\n".join([*lines, ""])


def _cell(words: str) -> str:
    return words.replace("|", r"\|")


def _outcome(rows: Sequence[Mapping[str, str]]) -> str:
    """Say in a few words what a trial changed ("": it was not done with this value)."""
    if not rows:
        return ""
    (row,) = rows
    if row["machines"] == "0":
        return f"{row['tried']}: no machine reaches it"
    if not row["verdicts"]:
        return f"{row['tried']}: {row['example']}"
    changes = [f"{row[kind]} {kind}" for kind in COUNTS if int(row[kind])]
    return f"{row['tried']}: {', '.join(changes) or 'all the same'}; measurements {row['measurements']}%"
