"""Packages that only some commands need: what the message says is what pyproject.toml has."""

from __future__ import annotations

import sys
import tomllib

import pytest

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
