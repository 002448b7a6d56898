"""Every test asserts something whatever it is given: none passes because there was nothing to look at."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.nonempty import some
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

WRAPPERS = {"enumerate", "product", "reversed", "sorted", "list", "tuple", "set"}
CHECKS = {"raises", "fail", "warns", "undisturbed"}
COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
PERHAPS = (*COMPREHENSIONS, ast.Lambda, ast.IfExp, ast.BoolOp, ast.FunctionDef, ast.ClassDef, ast.While)
"""What may end without having evaluated what stands in it."""


def is_full(items: ast.expr, names: set[str]) -> bool:  # noqa: C901, PLR0911 - a case per kind of expression
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
        case ast.Call(func=ast.Name(id="some" | "faults")):
            return True
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(end))]):
            return end > 0
        case ast.Call(
            func=ast.Name(id="range"), args=[ast.Name(id=name) | ast.BinOp(left=ast.Name(id=name), op=ast.Add())]
        ):
            return name.isupper()
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(start)), ast.Constant(value=int(end))]):
            return end > start
        case ast.Call(func=ast.Name(id="zip"), args=[_, *_] as parts):
            return all(is_full(part, names) for part in parts)
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in WRAPPERS:
            return is_full(first, names)
        case ast.Call(func=ast.Attribute(value=value, attr="items" | "values" | "keys")):
            return is_full(value, names)
    return False


def is_vacuous(test: ast.expr, names: set[str]) -> bool:
    """Whether an assertion holds for nothing: `all(...)`, `not any(...)`, `not [...]`, `[...] == []`."""
    match test:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(is_vacuous(part, names) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(is_vacuous(part, names) for part in parts)
        case (
            ast.Call(func=ast.Name(id="all"), args=[each])
            | ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id="any"), args=[each]))
        ):
            return may_be_empty(each, names)
        case ast.UnaryOp(op=ast.Not(), operand=each):
            return is_filtered(each, names)
        case ast.Compare(left=each, ops=[ast.Eq()], comparators=[other]) if is_nothing(other):
            return is_filtered(each, names)
    return False


def is_filtered(value: ast.expr, names: set[str]) -> bool:
    """Whether it is a comprehension, or the name of one, that may have nothing to choose from."""
    if isinstance(value, ast.Name):
        return f"{value.id}?" in names
    return isinstance(value, COMPREHENSIONS) and may_be_empty(value, names)


def is_nothing(value: ast.expr) -> bool:
    """Whether it is an empty list, tuple, dictionary or set."""
    match value:
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Dict(keys=items):
            return not items
        case ast.Call(func=ast.Name(id="set" | "frozenset" | "list"), args=[]):
            return True
    return False


def may_be_empty(each: ast.expr, names: set[str]) -> bool:
    """Whether what is looked at one by one may be nothing at all."""
    if isinstance(each, COMPREHENSIONS):
        return not is_full(each.generators[0].iter, names)
    return not is_full(each, names)


def certainly_evaluated(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a part of a program and all in it, but for what is perhaps not evaluated."""
    yield tree
    if not isinstance(tree, PERHAPS):
        for child in ast.iter_child_nodes(tree):
            yield from certainly_evaluated(child)


def names_of(tree: ast.AST) -> set[str]:
    """Return the names of what a part of a program calls, without what stands before their last dot."""
    called = [node.func for node in certainly_evaluated(tree) if isinstance(node, ast.Call)]
    plain = {one.id for one in called if isinstance(one, ast.Name)}
    return plain | {one.attr for one in called if isinstance(one, ast.Attribute)}


def is_certain(body: list[ast.stmt], helpers: set[str], names: set[str]) -> bool:
    """Whether statements check something in every case; `helpers` are functions that do.

    What stands behind a `return`, `continue` or `break`, be it in an `if`, may not be reached.
    """
    for statement in body:
        if _checks(statement, helpers, names):
            return True
        if leaves(statement, helpers, names):
            return False
    return False


def leaves(statement: ast.stmt, helpers: set[str], names: set[str]) -> bool:
    """Whether a statement may end the function or loop that it stands in, with nothing checked."""
    match statement:
        case ast.Return() | ast.Continue() | ast.Break():
            return True
        case ast.For() | ast.While():
            return any(isinstance(node, ast.Return) for node in ast.walk(statement))
        case ast.If() | ast.Try() | ast.With() | ast.Match():
            return any(
                any(leaves(one, helpers, names) for one in block) and not is_certain(block, helpers, names)
                for block in blocks(statement)
            )
    return False


def blocks(statement: ast.If | ast.Try | ast.With | ast.Match) -> list[list[ast.stmt]]:
    """Return the blocks of a statement, of which one or some are run."""
    match statement:
        case ast.Match():
            return [case.body for case in statement.cases]
        case ast.Try():
            handlers = [handler.body for handler in statement.handlers]
            return [statement.body, *handlers, statement.orelse, statement.finalbody]
        case ast.If():
            return [statement.body, statement.orelse]
    return [statement.body]


def _checks(statement: ast.stmt, helpers: set[str], names: set[str]) -> bool:  # noqa: PLR0911 - one per kind of statement
    match statement:
        case ast.Assert():
            return not is_vacuous(statement.test, names)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            names.discard(name)
            names.discard(f"{name}?")
            if is_full(value, names):
                names.add(name)
            elif isinstance(value, COMPREHENSIONS) and may_be_empty(value, names):
                names.add(f"{name}?")
        case ast.For():
            return is_full(statement.iter, names) and is_certain(statement.body, helpers, names)
        case ast.With():
            if any("suppress" in names_of(item.context_expr) for item in statement.items):
                return False
            checked = any(names_of(item.context_expr) & CHECKS for item in statement.items)
            return checked or is_certain(statement.body, helpers, names)
        case ast.Try():
            ways = [[*statement.body, *statement.orelse], *(handler.body for handler in statement.handlers)]
            return all(is_certain(way, helpers, names) for way in ways)
        case ast.If():
            return all(is_certain(branch, helpers, names) for branch in (statement.body, statement.orelse))
        case ast.Match():
            return all(is_certain(case.body, helpers, names) for case in statement.cases)
    return bool(names_of(statement) & (helpers | CHECKS))


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
        "if f(): return\nassert g()",
        "for x in (1, 2):\n  if f(x): continue\n  assert x",
        "try: f()\nexcept ValueError: return\nassert g()",
        "[check(x) for x in f()]",
        "while f(): check(1)",
        "with suppress(ValueError): check(f())",
        "assert [x for x in f() if x] == []",
        "found = [x for x in f() if x]\nassert not found",
        "found = {x for x in f() if x}\nassert found == set()",
        "assert all(map(g, f()))",
        "assert not any(x for x in f()) and all(x for x in f())",
        "for x, y in zip((1, 2), f()): assert x",
        "for x in range(3, 1): assert x",
    ],
)
def test_such_a_test_is_found(body: str) -> None:
    source = "def check(x):\n  assert x\ndef test_x():\n" + "".join(f"  {line}\n" for line in body.splitlines())
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
        "if f():\n  assert h()\n  return\nassert g()",
        "for x in f():\n  if x: break\nassert g()",
        "try: f()\nexcept ValueError as error:\n  assert str(error)\n  return\nassert g()",
        "class Inner:\n  def one(self): return 1\nassert Inner().one()",
        "assert [x for x in some(f()) if x] == []",
        "found = [x for x in some(f()) if x]\nassert not found",
        "assert [x for x in faults(f()) if x] == []",
        "check(1)",
        "count = 0\nfor x in f(): count += 1\nassert count",
    ],
)
def test_a_test_that_always_checks_something_is_not(body: str) -> None:
    source = "def check(x):\n  assert x\ndef test_x():\n" + "".join(f"  {line}\n" for line in body.splitlines())
    assert empty_handed(ast.parse(source)) == []
