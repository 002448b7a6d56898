"""Sets of ports by time alone: found again on a simulated machine, drawn, and written."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from inference.ports.by_time.machine import KnownPart
from results.model import PortUsage
from results.text import taken_text
from runner.backends.sim import SimBackend
from runner.cli import ports
from runner.measuring.protocol import Measurer
from runner.port_sets import document, find_port_sets, lines_of
from runner.verification.by_time import renaming_of
from runner.verification.run import machines
from tests.nonempty import some
from tests.runner.cli.commands import called
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from inference.ports.by_time.machine import TimedMachine

MACHINE = "random:2"


@pytest.fixture(scope="module")
def backend() -> SimBackend:
    (machine,) = machines([MACHINE])
    return SimBackend(machine, Catalogue.load())


@pytest.fixture(scope="module")
def found(backend: SimBackend) -> TimedMachine:
    return find_port_sets(Measurer(backend), Catalogue.load())


def rows(found: TimedMachine) -> list[str]:
    """Return the ports of each row of the diagram, in order."""
    _, header, *lines = lines_of(found)
    starts = {name: header.index(name) for name in header.split() if name != "instructions"}
    return ["".join(name[1:] for name, at in starts.items() if line[at] == "x") for line in lines]


def test_the_sets_are_those_of_the_machine(found: TimedMachine, backend: SimBackend) -> None:
    assert renaming_of(found, backend, Catalogue.load()) is not None
    drawn = sorted("".join(sorted(one.ports)) for one in some(found.sets, 2))
    assert sorted(rows(found)) == drawn


def test_a_row_follows_those_that_contain_its_ports(found: TimedMachine) -> None:
    drawn = some(rows(found), 2)
    assert [
        (one, later) for place, one in enumerate(drawn) for later in drawn[place + 1 :] if set(one) < set(later)
    ] == []


def test_ports_have_their_published_names_in_the_order_of_these(found: TimedMachine) -> None:
    letters = sorted(frozenset().union(*(one.ports for one in found.sets)))
    published = replace(found, names=dict(zip(letters, reversed(letters), strict=True)))
    header = list(lines_of(published))[1].split()
    assert header == [f"p{port}" for port in letters] + ["instructions"]
    sets = document(published)["sets"]
    assert isinstance(sets, list)
    assert all(port.startswith("p") for one in some(sets, 2) for port in one["ports"])


def test_other_diagrams_are_drawn_and_written(found: TimedMachine) -> None:
    other = tuple(frozenset(str(5 - int(port)) for port in one.ports) for one in found.sets)
    several = replace(found, alternatives=(other,) * 5)
    text = "\n".join(lines_of(several))
    assert "diagram 2, which fits the times as well:" in text
    assert "6 diagrams fit in all" in text
    assert document(several)["alternatives"] == [[[f"r{port}" for port in sorted(one)] for one in other]] * 5


def test_the_sets_of_512_bit_code_are_drawn_and_written(found: TimedMachine) -> None:
    assert document(found)["sets_in_512_bit_code"] is None
    wide = replace(found, sets=found.sets[:1])
    *_, said, _, row = lines_of(replace(found, wide=wide))
    assert said == "in code with 512-bit instructions:"
    assert found.sets[0].members[0] in row
    written = document(replace(found, wide=wide))["sets_in_512_bit_code"]
    assert isinstance(written, list)
    assert [one["variants"] for one in written] == [list(found.sets[0].members)]


def test_parts_that_nothing_blocks_are_said_and_written(found: TimedMachine) -> None:
    assert document(found)["parts"] == []
    example = Catalogue.load().by_string("ANDN (R64, R64, M64)")
    part = KnownPart(frozenset({"r0", "r1", "FP2"}), frozenset({"r1", "r0"}), example, PortUsage.parse("1*r01"))
    with_part = replace(found, parts=(part,))
    assert list(lines_of(with_part))[-1] == "r01 of r01|FP2, which nothing blocks: ANDN (R64, R64, M64)"
    assert document(with_part)["parts"] == [
        {"ports": ["r0", "r1"], "of": ["r0", "r1", "FP2"], "example": "ANDN (R64, R64, M64)"}
    ]


def test_a_noisy_machine_and_one_without_sets_say_so(found: TimedMachine) -> None:
    assert "too noisy" in "\n".join(lines_of(replace(found, off=Fraction(1, 10))))
    assert "no instruction shows a set" in "\n".join(lines_of(replace(found, sets=())))


def test_the_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "sets.json"
    assert called(["sets", "--backend", "sim", "--arch", MACHINE, "--json", str(target)], ports.app) == 0
    said = capsys.readouterr().out
    written = json.loads(target.read_text())
    assert f"issue width {written['issue_width']};" in said
    assert said.startswith(f"{MACHINE}: simulated {MACHINE} (a model, not a CPU), backend sim\n")
    assert (written["provenance"]["architecture"], written["provenance"]["is_model"]) == (MACHINE, True)
    assert all(one["variants"][0] in said for one in some(written["sets"], 2))
    assert said.splitlines()[-1] == f"in {taken_text(written['seconds'], 0)}"
    assert written["seconds_lost_to_others"] == 0


def test_the_command_says_that_the_core_was_busy(
    found: TimedMachine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Measurer, "lost_seconds", 3600.0)
    monkeypatch.setattr("runner.port_sets.find_port_sets", lambda *_: found)
    target = tmp_path / "sets.json"
    assert called(["sets", "--backend", "sim", "--arch", MACHINE, "--json", str(target)], ports.app) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.endswith("1 h 0 min of it lost to other users of the core; the machine was busy, sets may be missing")
    assert json.loads(target.read_text())["seconds_lost_to_others"] == 3600


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--arch", "NONE"], 2, "NONE"),
        (["--backend", "none"], 2, "none"),
        (["--json", "/nowhere/sets.json"], 3, "the folder /nowhere does not exist"),
    ],
)
def test_what_cannot_be_used_is_refused(
    options: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(["sets", "--backend", "sim", *options], ports.app) == code
    assert says in capsys.readouterr().err
