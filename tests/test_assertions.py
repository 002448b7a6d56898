"""Every test asserts something whatever it is given: none passes because there was nothing to look at."""

from __future__ import annotations

import ast

import pytest

from tests.nonempty import some
from tests.shared import CHECKOUT

WRAPPERS = {"enumerate", "zip", "reversed", "sorted", "list", "tuple", "set"}
CHECKS = {"raises", "fail", "warns"}


def is_full(items: ast.expr, names: set[str]) -> bool:  # noqa: PLR0911 - one per kind of expression
    """Whether what a loop goes through is seen not to be empty: written down, a constant, or of `some`."""
    match items:
        case ast.Tuple() | ast.List() | ast.Set():
            return bool(items.elts)
        case ast.Dict():
            return bool(items.keys)
        case ast.Constant(value=str(text)):
            return bool(text)
        case ast.Name(id=name):
            return name.isupper() or name in names
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            return is_full(value, names)
        case ast.Call(func=ast.Name(id="some")):
            return True
        case ast.Call(func=ast.Name(id="range"), args=[*_, ast.Constant(value=int(end))]):
            return end > 0
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in WRAPPERS:
            return is_full(first, names)
        case ast.Call(func=ast.Attribute(value=value, attr="items" | "values" | "keys")):
            return is_full(value, names)
    return False


def is_vacuous(test: ast.expr) -> bool:
    """Whether an assertion holds for nothing: `all(...)` and `not any(...)` over a comprehension."""
    wanted = "all"
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        wanted, test = "any", test.operand
    if not (isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == wanted):
        return False
    match test.args:
        case [ast.GeneratorExp() | ast.ListComp() as each]:
            return not is_full(each.generators[0].iter, set())
    return False


def names_of(tree: ast.AST) -> set[str]:
    """Return the names of what a part of a program calls, without what stands before their last dot."""
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    plain = {one.id for one in called if isinstance(one, ast.Name)}
    return plain | {one.attr for one in called if isinstance(one, ast.Attribute)}


def is_certain(body: list[ast.stmt], helpers: set[str], names: set[str]) -> bool:
    """Whether statements check something in every case; `helpers` are functions that do."""
    return any(_checks(statement, helpers, names) for statement in body)


def _checks(statement: ast.stmt, helpers: set[str], names: set[str]) -> bool:  # noqa: PLR0911 - one per kind of statement
    match statement:
        case ast.Assert():
            return not is_vacuous(statement.test)
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_full(value, set()):
            names.add(name)
        case ast.For():
            return is_full(statement.iter, names) and is_certain(statement.body, helpers, names)
        case ast.With():
            checked = any(names_of(item.context_expr) & CHECKS for item in statement.items)
            return checked or is_certain(statement.body, helpers, names)
        case ast.Try():
            ways = [[*statement.body, *statement.orelse], *(handler.body for handler in statement.handlers)]
            return all(is_certain(way, helpers, names) for way in ways)
        case ast.If():
            return all(is_certain(branch, helpers, names) for branch in (statement.body, statement.orelse))
        case ast.Match():
            return all(is_certain(case.body, helpers, names) for case in statement.cases)
    return bool(names_of(statement) & (helpers | CHECKS)) and not isinstance(statement, ast.FunctionDef)


def empty_handed(tree: ast.Module) -> list[str]:
    """Return the tests in a file that may pass without a single check."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    helpers = {one.name for one in functions if is_certain(one.body, set(), set())}
    return [one.name for one in functions if one.name.startswith("test_") and not is_certain(one.body, helpers, set())]


def test_no_test_passes_because_there_was_nothing_to_look_at() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}: {name}"
        for path in some(sorted((CHECKOUT / "tests").rglob("test_*.py")), 50)
        for name in empty_handed(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == [], "go through `tests.nonempty.some(...)`, or count what was looked at"


@pytest.mark.parametrize(
    "body",
    [
        "for x in f(): assert x",
        "for x in (): assert x",
        "for x in some(f()):\n  for y in x: assert y",
        "assert all(x for x in f())",
        "assert not any(x for x in f())",
        "if f(): assert g()",
        "f()",
        "def inner(): assert f()",
    ],
)
def test_such_a_test_is_found(body: str) -> None:
    source = "def test_x():\n" + "".join(f"  {line}\n" for line in body.splitlines())
    assert empty_handed(ast.parse(source)) == ["test_x"]


@pytest.mark.parametrize(
    "body",
    [
        "for x in some(f()): assert x",
        "for x in range(3): assert x",
        "for number, x in enumerate(NAMES): assert x",
        "names = ['a']\nfor x in names: assert x",
        "assert all(x in y for x in ('a', 'b'))",
        "with pytest.raises(ValueError): f()",
        "check(1)",
        "count = 0\nfor x in f(): count += 1\nassert count",
    ],
)
def test_a_test_that_always_checks_something_is_not(body: str) -> None:
    source = "def check(x):\n  assert x\ndef test_x():\n" + "".join(f"  {line}\n" for line in body.splitlines())
    assert empty_handed(ast.parse(source)) == []
