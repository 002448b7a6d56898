"""The numeric constants of inference, read from its sources: name, value, and why it has this value.

`docs/tables.py` makes the table of `docs/constants.md` from them, with what `benchmarks/changes/sensitivity.py` found
out. That script tries half and twice the value of one constant at a time.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


Trials = Sequence[Mapping[str, str]]
"""Rows of `sensitivity.tsv`, by column (none: nothing was tried)."""

Reasons = Mapping[str, str]
"""Why constants cannot be tried (rows of `untried.tsv`), by their names without the package."""


def tables(found: Sequence[Constant], trials: Trials, reasons: Reasons) -> dict[str, str]:
    """Return the Markdown tables of `docs/constants.md` by their names."""
    current = [row for one in found for row in trials_of(one, trials)]
    return {
        "constants": table(found, trials, reasons),
        "trials": summary(found, trials),
        "changes": _rows(
            ("constant", "tried", *COUNTS, "first change, or what broke"),
            [
                (f"`{row['constant']}`", row["tried"], *(row[kind] for kind in COUNTS), _cell(row["example"]))
                for row in current
                if row["example"]
            ],
        ),
    }


def trials_of(constant: Constant, trials: Trials) -> list[Mapping[str, str]]:
    """Return the trials of a constant; those of a value that it has not do not count."""
    return [row for row in trials if (row["constant"], row["value"]) == (_short(constant), text(constant.value))]


def summary(found: Sequence[Constant], trials: Trials) -> str:
    """Count constants by how far they were tried."""
    by_constant = [trials_of(one, trials) for one in found]
    tried = [rows for rows in by_constant if rows]
    used = [rows for rows in tried if any(row["machines"] != "0" for row in rows)]
    changing = [rows for rows in used if any(row["example"] for row in rows)]
    counts = (len(found), len(tried), len(used), len(changing))
    return _rows(("constants", "tried", "used on some machine", "where some conclusion changed"), [map(str, counts)])


def unexplained(found: Sequence[Constant], trials: Trials, reasons: Reasons) -> list[str]:
    """Return what is wrong with the trials: no trial and no reason, both, or a reason for a constant that is not there.

    Trials of another value do not count: that value has to be tried.
    """
    tried = {_short(one) for one in found if trials_of(one, trials)}
    names = {_short(one) for one in found}
    return [
        *(f"{name}: neither tried nor a reason in untried.tsv" for name in sorted(names - tried - reasons.keys())),
        *(f"{name}: tried, but untried.tsv has a reason" for name in sorted(tried & reasons.keys())),
        *(f"{name}: in untried.tsv, but no constant" for name in sorted(reasons.keys() - names)),
    ]


def table(found: Sequence[Constant], trials: Trials, reasons: Reasons) -> str:
    """Return a row per constant: value, reason, and what its trials changed, or why it was not tried."""
    rows = []
    for one in found:
        tried = trials_of(one, trials)
        cells = [_outcome([row for row in tried if row["factor"] == factor]) for factor in ("1/2", "2")]
        if not tried and (reason := reasons.get(_short(one))):
            cells = [f"not tried: {reason}", ""]
        rows.append((f"`{_short(one)}`", text(one.value), _cell(one.reason), *map(_cell, cells)))
    return _rows(("constant", "value", "unit and reason", "half", "twice"), rows)


def _rows(headings: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; columns of numbers are aligned to the right."""
    rules = ["--:" if name in {"value", *COUNTS} else "---" for name in headings]
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(rules)}|", *lines[1:], ""])


def _short(constant: Constant) -> str:
    return str(constant).removeprefix(f"{PACKAGE}.")


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
