"""Runs the command line: in this process behind its guard, or as a real process."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from runner.cli import characterize
from runner.cli.process import guard
from tests.shared import CHECKOUT
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

ADC = "ADC_11 (R64, R64)"
SIMULATED = ("--backend", "sim", "--arch", "HSW")


def need_catalogue() -> None:
    try:
        Catalogue.load()
    except UopscopeError as error:
        pytest.skip(str(error))


def process(
    arguments: Sequence[str], *, module: str = "characterize", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own, with those variables in its environment; return what it said."""
    return subprocess.run(
        command(arguments, module=module),
        check=False,
        capture_output=True,
        text=True,
        env=environment() | variables,
    )


def command(arguments: Sequence[str], *, module: str = "characterize") -> list[str]:
    return [sys.executable, "-m", f"runner.cli.{module}", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "200"}


def called(arguments: Sequence[str], app: typer.Typer = characterize.app) -> int:
    """Run a command in this process, behind the guard, and return its exit code."""
    return guard.guarded(app, list(arguments), "characterize")


def command_of(name: str, arguments: Sequence[str]) -> int:
    """Run `uopscope NAME ...` in this process, behind the guard, and return its exit code."""
    module = importlib.import_module(f"runner.cli.{name}")
    return guard.guarded(module.app, list(arguments), f"uopscope {name}")
