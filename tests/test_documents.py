"""Documents name only what there is: paths, functions, modules, commands, options, links. README's example holds."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
import typer.main

from runner.cli import characterize as characterize_command
from runner.cli.uopscope import commands
from tests.nonempty import some
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

README_LINES = 120
DOCUMENTS = sorted(
    path for path in (*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md"), *CHECKOUT.glob("benchmarks/*.md"))
)
SOURCE_SUFFIXES = (".py", ".tsv", ".toml", ".j2", ".c", ".h", ".S", ".sh", ".sql", ".md", ".cff", ".bin", ".xsd")
PLACEHOLDERS = {"FILE", "NAME", "DIR", "EVENTS", "CPU", "COMMAND"}
"""Names that stand for the reader's own."""
PROGRAMS = {"characterize", "uopscope"}

_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?(?::[\w.]+)?")
_MODULE = re.compile(r"python3? (?:-m ([\w.]+)|([\w/]+\.py))")
_TARGET = re.compile(r"\bmake ([a-z][a-z-]+)")


T = TypeVar("T")


def test_there_are_documents() -> None:
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} <= {path.name for path in DOCUMENTS}
    assert len(DOCUMENTS) > 12


def test_readme_fits_on_two_screens() -> None:
    assert len((CHECKOUT / "README.md").read_text().splitlines()) <= README_LINES


def test_the_citation_is_of_this_version() -> None:
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    citation = (CHECKOUT / "CITATION.cff").read_text()
    said = dict(re.findall(r"^(version|license): (.*)$", citation, re.MULTILINE))
    assert said == {"version": project["version"], "license": project["license"]["text"]}


@cache
def files() -> frozenset[str]:
    try:
        listing = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return frozenset(listing.splitlines())


def exists(name: str) -> bool:
    """Say whether a path, from the top or from any folder, is in the repository; `*` stands for any name."""
    name = name.removeprefix("./")
    tail = re.compile(
        r"(?:^|/)" + re.escape(name.rstrip("/")).replace(r"\*", "[^/]*") + ("/" if name[-1] == "/" else "(?:/|$)")
    )
    return any(tail.search(path) for path in files())


def has_function(path: str, qualified_name: str) -> bool:
    """Say whether a Python file defines a function, class, or method of that name."""
    body: list[ast.stmt] = ast.parse((CHECKOUT / path).read_text()).body
    for part in qualified_name.split("."):
        found = next((node for node in body if getattr(node, "name", "") == part), None)
        if not isinstance(found, (ast.FunctionDef, ast.ClassDef)):
            return False
        body = found.body
    return True


def is_path(text: str) -> bool:
    """Say whether a piece of code is the path of a source file or a folder, not one of the reader's."""
    path = text.partition(":")[0]
    top = path.partition("/")[0]
    if not _PATH.fullmatch(text) or Path(path).name.partition(".")[0] in PLACEHOLDERS:
        return False
    return path.endswith(SOURCE_SUFFIXES) or ("/" in path and (CHECKOUT / top).is_dir() and top != ".venv")


def named_in_documents(names: Callable[[str], Iterable[T]]) -> Iterator[tuple[Path, T]]:
    """Yield what `names` finds in the text of each document."""
    for document in DOCUMENTS:
        yield from ((document, name) for name in names(document.read_text()))


def test_every_path_and_function_that_is_named_exists() -> None:
    named = [(document, text) for document, text in named_in_documents(_SPAN.findall) if is_path(text)]
    files_missing = [(document, text) for document, text in some(named, 200) if not exists(text.partition(":")[0])]
    assert files_missing == []
    functions = [(document, text) for document, text in named if ":" in text]
    assert [(document, text) for document, text in some(functions, 10) if not has_function(*text.split(":"))] == []


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("runner/cli/", True),
        ("tables.py", True),
        ("runner/nothing.py", False),
        ("docs/*.md", True),
        ("results/none/", False),
    ],
)
def test_paths_are_found_or_missed(text: str, there: bool) -> None:
    assert is_path(text)
    assert exists(text) is there


def test_every_local_link_leads_somewhere() -> None:
    links = [(document, link) for document, link in named_in_documents(_LINK.findall) if "://" not in link]
    assert [(document, link) for document, link in some(links, 20) if not (document.parent / link).exists()] == []


def test_every_module_that_is_named_exists() -> None:
    named = [
        (document, f"{module.replace('.', '/')}.py" if module else script)
        for document, (module, script) in named_in_documents(_MODULE.findall)
    ]
    ours = [(document, name) for document, name in named if "/" in name]
    assert [(document, name) for document, name in some(ours, 10) if name not in files()] == []


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    named = named_in_documents(lambda text: _TARGET.findall("\n".join(code_of(text))))
    assert [(document, target) for document, target in some(named, 3) if target not in targets] == []


def code_of(text: str) -> list[str]:
    """Return code spans, and the lines of code blocks."""
    blocks = [line.strip().removeprefix("$ ") for line in text.splitlines() if line.startswith("    ")]
    return [*_SPAN.findall(text), *blocks]


def command_lines(text: str) -> list[list[str]]:
    """Return the command lines of our programs that a document names, as arguments."""
    found = []
    for line in code_of(text):
        try:
            arguments = shlex.split(line, comments=True)
        except ValueError:
            continue
        if arguments[:1] == ["sudo"]:
            arguments = arguments[1:]
        if arguments and arguments[0].removeprefix("./") in PROGRAMS:
            found.append([arguments[0].removeprefix("./"), *arguments[1:]])
    return found


def complaint(arguments: list[str]) -> str:
    """Return what is wrong with a command line ("": nothing): an unknown command, subcommand or option."""
    program, *rest = arguments
    app = characterize_command.app
    if program == "uopscope":
        if not rest or rest[0] in {"--version", "--help", *PLACEHOLDERS}:
            return ""
        name = rest.pop(0)
        if name not in commands():
            return f"no command {name}"
        app = importlib.import_module(f"runner.cli.{name.replace('-', '_')}").app
    command = typer.main.get_command(app)
    subcommands = getattr(command, "commands", {})
    if subcommands and rest:
        name = rest.pop(0)
        if name not in subcommands:
            return f"no subcommand {name}"
        command = subcommands[name]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options = [one.partition("=")[0] for one in rest if re.match(r"--?[a-z]", one)]
    unknown = [one for one in options if one not in known and one != "--help"]
    return f"unknown: {', '.join(unknown)}" if unknown else ""


def test_every_command_and_option_that_is_named_exists() -> None:
    lines = some(named_in_documents(command_lines), 50)
    assert [(document, shlex.join(line), wrong) for document, line in lines if (wrong := complaint(line))] == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("characterize --instr ADC", ""),
        ("characterize --none", "unknown: --none"),
        ("uopscope db diff --agreement a b", ""),
        ("uopscope db none", "no subcommand none"),
        ("uopscope none", "no command none"),
        ("uopscope site --server", "unknown: --server"),
    ],
)
def test_commands_that_do_not_exist_are_noticed(line: str, wrong: str) -> None:
    assert complaint(shlex.split(line)) == wrong


def run_example(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["characterize", *arguments])
    with pytest.raises(SystemExit) as ended:
        characterize_command.main()
    assert ended.value.code == 0
    return capsys.readouterr().out


EXAMPLE = ("--backend", "sim", "--arch", "HSW", "--instr", "ADC_GPRv_GPRv")


def test_readmes_first_example_prints_what_readme_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (CHECKOUT / "README.md").read_text()
    block = text[text.index(f"$ ./characterize {' '.join(EXAMPLE)}") :].partition("\n\n")[0]
    shown = [line.strip() for line in block.splitlines()[1:]]
    printed = [line.strip() for line in run_example(capsys, monkeypatch, *EXAMPLE).splitlines()]
    assert len(shown) >= 3
    assert [line for line in shown if line not in printed] == []


def hops() -> list[str]:
    text = (CHECKOUT / "docs" / "architecture.md").read_text()
    section = text[text.index("## The path of ADC_GPRv_GPRv") :].partition("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.py:[\w.]+)` \|", section, re.MULTILINE)


def test_the_path_of_an_instruction_is_the_documented_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documented hops are called in their order, each some time after the one before."""
    remaining = hops()
    assert 10 <= len(remaining) < 18
    folder = f"{CHECKOUT}/"

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and remaining:
            code = frame.f_code
            if f"{code.co_filename.removeprefix(folder)}:{code.co_qualname}" == remaining[0]:
                remaining.pop(0)

    sys.setprofile(note)
    try:
        run_example(capsys, monkeypatch, *EXAMPLE[:-1], "ADC_11 (R64, R64)")
    finally:
        sys.setprofile(None)
    assert remaining == []
