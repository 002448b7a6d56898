"""The texts of `--help`: none has a bracket that rich takes for markup, and leaves out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest
import typer
from rich.text import Text

from runner.cli.uopscope import commands
from tests.nonempty import some

if TYPE_CHECKING:
    from collections.abc import Iterator


def texts(command: object) -> Iterator[str]:
    """Yield the help texts of a click command, of its parameters, and of its subcommands."""
    yield getattr(command, "help", None) or ""
    for parameter in getattr(command, "params", ()):
        yield getattr(parameter, "help", None) or ""
    for inner in getattr(command, "commands", {}).values():
        yield from texts(inner)


@pytest.mark.parametrize("name", sorted(commands()))
def test_no_text_is_taken_for_markup(name: str) -> None:
    module = importlib.import_module(f"runner.cli.{name}")
    for text in some(filter(None, texts(typer.main.get_command(module.app))), 2):
        assert Text.from_markup(text).plain == text.replace("\\[", "[")


def test_markup_would_be_found() -> None:
    assert Text.from_markup("{[names]}").plain != "{[names]}"
