"""Measure x86 instructions, and work with the results."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import NoReturn

from runner.cli.process import guard, streams

HELP_OPTIONS = ("-h", "--help", "help")


def commands() -> dict[str, Path]:
    """Return the file of each command by the command's name, without importing any."""
    here = Path(__file__)
    files = sorted(here.parent.glob("*.py"))
    return {path.stem.replace("_", "-"): path for path in files if path.stem[0] != "_" and path != here}


def _summary(path: Path) -> str:
    """Return the first line of a command's docstring."""
    import ast  # noqa: PLC0415 - only the help needs it

    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def main() -> NoReturn:
    """Run `uopscope COMMAND ...`; never returns."""
    streams.prepare()
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in HELP_OPTIONS:
        guard.say(_help(), guard.ExitCode.DONE if arguments else guard.ExitCode.BAD_INPUT)
    if arguments[0] == "--version":
        guard.say(_version(), guard.ExitCode.DONE)
    name, *rest = arguments
    if name not in commands():
        guard.say(f"error: no command {name!r}\n\n{_help()}", guard.ExitCode.BAD_INPUT, is_error=True)
    module = importlib.import_module(f"runner.cli.{name.replace('-', '_')}")
    guard.run(module.app, rest, program=f"uopscope {name}")


def _help() -> str:
    found = commands()
    width = max(map(len, found))
    lines = [f"  {name:{width}}  {_summary(path)}" for name, path in found.items()]
    return "\n".join(["Usage: uopscope COMMAND [OPTIONS]", "", *lines, "", "uopscope COMMAND --help says more."])


def _version() -> str:
    return str(importlib.import_module("results.version").version())


if __name__ == "__main__":
    main()
