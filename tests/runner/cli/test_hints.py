"""What messages tell people to type exists: options, commands, backends and machines."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest
import typer.main

from runner.backends.registry import backends
from runner.cli.uopscope import commands
from runner.uarch.tables import all_microarchitectures
from simulator.machines.shipped import names as machine_names
from tests.nonempty import some
from tests.runner.cli.test_wrong_inputs import ROWS
from tests.shared import CHECKOUT
from tests.test_documents import complaint

if TYPE_CHECKING:
    from collections.abc import Iterator


PACKAGES = ("analysis", "generator", "inference", "results", "runner", "simulator", "xed_convert")

OF_OTHERS = {
    "--help": "every program",
    "--version": "every program",
    "--branch": "git",
    "--depth": "git",
    "--progress": "git",
    "--now": "systemctl",
    "--show-inst": "llvm-mc",
    "--disassemble": "llvm-mc",
    "--ignore-unknown": "OSACA",
}
"""Options of other programs that our code names, and whose they are."""

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
NAMED = re.compile(r"--(?:(arch) ([A-Z][A-Z0-9][\w:-]*)|(backend) (\w+))")


class MessageText(NamedTuple):
    """A constant text of our code, and where it stands."""

    place: str
    text: str


@cache
def texts() -> tuple[MessageText, ...]:
    """Return all constant texts of the product that are no docstrings."""
    files = sorted(path for name in PACKAGES for path in (CHECKOUT / name).rglob("*.py"))
    return tuple(
        one
        for path in [*files, CHECKOUT / "uopscope.py"]
        for one in texts_of(path.read_text("utf-8"), str(path.relative_to(CHECKOUT)))
    )


def texts_of(code: str, place: str) -> Iterator[MessageText]:
    tree = ast.parse(code)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield MessageText(f"{place}:{node.lineno}", node.value)


class CommandParameters(Protocol):
    """What is read of a command; typer's own type has no public name."""

    params: list[Any]


def options_of(command: CommandParameters) -> Iterator[str]:
    """Yield the options of a command and of its subcommands."""
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for subcommand in getattr(command, "commands", {}).values():
        yield from options_of(subcommand)


@cache
def options() -> frozenset[str]:
    """Return the options of all our commands, and those that programs of ours read themselves."""
    modules = ["characterize", *(name.replace("-", "_") for name in commands())]
    apps = [importlib.import_module(f"runner.cli.{name}").app for name in modules]
    found = {option for app in apps for option in options_of(typer.main.get_command(app))}
    return frozenset(found | set(OF_OTHERS) | parsed_elsewhere())


def parsed_elsewhere() -> set[str]:
    """Return the options that modules run by `python -m` declare."""
    declared = re.compile(r"add_argument\(\s*(?:\"-\w\",\s*)?\"(--[a-z-]+)\"")
    return {
        name
        for package in PACKAGES
        for path in (CHECKOUT / package).rglob("*.py")
        for name in declared.findall(path.read_text("utf-8"))
    }


def unknown_options(text: str) -> list[str]:
    return [one for one in OPTION.findall(text) if one not in options()]


def unknown_names(text: str) -> list[str]:
    """Return the machines and backends that a text names by their options, and that do not exist."""
    there = {"arch": {*machine_names(), *all_microarchitectures(), "NAME"}, "backend": {*backends(), "NAME", "auto"}}
    pairs = [(one[0] or one[2], one[1] or one[3]) for one in NAMED.findall(text)]
    return [f"--{option} {name}" for option, name in pairs if name.partition(":")[0] not in there[option]]


def test_every_option_in_a_message_exists() -> None:
    found = some(texts(), 1000)
    assert [(one.place, unknown) for one in found if (unknown := unknown_options(one.text))] == []


def test_every_machine_and_backend_in_a_message_exists() -> None:
    found = [one for one in texts() if NAMED.search(one.text)]
    assert [(one.place, unknown) for one in some(found, 5) if (unknown := unknown_names(one.text))] == []


COMMAND = re.compile(r"`((?:uopscope|characterize) [^`{]+)`")


def test_every_command_in_a_message_exists() -> None:
    found = [(one.place, shlex.split(line)) for one in texts() for line in COMMAND.findall(one.text)]
    assert [(place, line, wrong) for place, line in some(found, 5) if (wrong := complaint(line))] == []


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ('raise E("x", hint="try --backend sim --arch HSW")', []),
        ('raise E("x", hint="try --nosuch")', ["--nosuch"]),
        ('raise E("x", hint=f"try --nosuch {name}")', ["--nosuch"]),
        ('"""--nosuch in a docstring"""', []),
        ('raise E("x", hint="try --arch ZEN99")', ["--arch ZEN99"]),
        ('raise E("x", hint="try --backend qemu")', ["--backend qemu"]),
    ],
)
def test_what_does_not_exist_is_noticed(code: str, wrong: list[str]) -> None:
    found = [one.text for one in texts_of(code, "code")]
    assert [name for text in found for name in (*unknown_options(text), *unknown_names(text))] == wrong


def test_the_table_of_wrong_inputs_tries_every_command() -> None:
    tried = {row.command.split()[0 if row.command.startswith("characterize") else 1] for row in ROWS}
    assert tried >= {"characterize", *commands()} - {"selftest", "doctor"}
