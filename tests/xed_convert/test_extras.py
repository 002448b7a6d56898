"""Packages that only some commands need: what the message says is what pyproject.toml has."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

import pytest

from tests.nonempty import some
from tests.shared import CHECKOUT
from xed_convert.extras import REQUIREMENTS, MissingPackageError, extra


def test_every_extra_is_that_of_the_project() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name: [requirement] for name, requirement in REQUIREMENTS.values()} == {
        name: found for name, found in extras.items() if name != "test"
    }


@pytest.mark.parametrize("package", REQUIREMENTS)
def test_a_missing_package_is_an_error_with_the_command_that_gets_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError) as raised:
        extra(package, "this")
    assert str(raised.value).startswith(f"this needs {package}, which is not installed\n  {sys.executable} -m pip")


def test_a_package_that_is_there_is_imported() -> None:
    assert extra("pandas", "this").DataFrame


OTHER_NAMES = {"iced-x86": "iced_x86", "keystone-engine": "keystone", "pyelftools": "elftools"}
"""Packages that are imported by other names than they are installed by."""

WITH_OTHERS = {"markupsafe"}
"""Packages that others hand out the types of: jinja2 does."""


def test_what_is_imported_is_installed_with_the_project_or_asked_for_as_an_extra() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    core = {re.split(r"[<>=]", one)[0] for one in project["dependencies"]}
    rooms = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")}
    known = {OTHER_NAMES.get(one, one) for one in core} | sys.stdlib_module_names | rooms | WITH_OTHERS
    product = [path for room in rooms - {"benchmarks", "docs", "tests"} for path in (CHECKOUT / room).rglob("*.py")]
    missing = set()
    for path in some(product, 100):
        text = path.read_text(encoding="utf-8")
        missing |= {(name, path) for name in imported(ast.parse(text)) - known if f'extra("{name}"' not in text}
    assert missing == set()


def imported(tree: ast.AST) -> set[str]:
    """Return the packages that a module imports when it runs; what only type checkers read does not count."""
    checked = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = {id(inner) for node in checked for inner in ast.walk(node)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found
