"""For every instruction and mix of instmeas there is one command; it runs here and gives a number that can be.

The list, its sources, and the bounds with their reasons are in `tests/data/instmeas.tsv`; the commands are those of
docs/measure.md.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
from fractions import Fraction

import pytest

from runner.backend import BackendError
from runner.backends.registry import open_backend
from runner.cli import characterize
from runner.cli.process import guard
from tests.attempts import undisturbed
from tests.runner.cli.commands import command_of
from tests.shared import CHECKOUT, DATA

with (DATA / "instmeas.tsv").open(encoding="utf-8", newline="") as table:
    LISTED = {row["name"]: row for row in csv.DictReader(table, delimiter="\t")}

_ROW = re.compile(r"^\| ([A-Z0-9_]+) \| `([^`]+)` \|$", re.MULTILINE)


def commands() -> dict[str, list[str]]:
    """Return the documented commands by instmeas's names."""
    section = (CHECKOUT / "docs" / "measure.md").read_text().partition("## instmeas's list")[2]
    return {name: shlex.split(command) for name, command in _ROW.findall(section)}


def test_every_instruction_has_its_command_and_every_row_a_source() -> None:
    assert list(commands()) == list(LISTED)
    assert len(LISTED) == 19
    assert all(row["source"].startswith("github.com/misoboute/instmeas") for row in LISTED.values())


def cycles_of(command: list[str], capfd: pytest.CaptureFixture[str]) -> list[float]:
    """Run a command on the CPU at hand; return the core cycles that it says, by whichever way they were measured."""
    program, *arguments = command
    extra = ["--backend", "tsc", "--json", "-"]
    if program == "characterize":
        assert guard.guarded(characterize.app, [*arguments, *extra], program) == 0
        (result,) = json.loads(capfd.readouterr().out)["results"]
        return [float(Fraction(result["throughput"][mode])) for mode in ("unrolled", "loop")]
    assert command_of("measure", [*arguments[1:], *extra]) == 0
    results = json.loads(capfd.readouterr().out)["results"]
    return [mode["counters"]["core_cycles"]["value"] for mode in results.values()]


@pytest.mark.parametrize("name", LISTED)
def test_the_command_gives_a_number_that_can_be(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        open_backend("tsc").close()
    except BackendError as error:
        pytest.skip(str(error))
    least, most = float(LISTED[name]["least"]), float(LISTED[name]["most"])

    def fewest() -> float:
        found = cycles_of(commands()[name], capfd)
        assert len(found) == 2
        return min(found)

    undisturbed(fewest, lambda found: least <= found <= most)
