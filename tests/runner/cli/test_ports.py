"""`uopscope ports fit` and `predict`: files of mixes and of mappings, what is printed, and what is refused."""

from __future__ import annotations

import csv
import json
import lzma
import random
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from inference.ports.fitted.fit import FEWEST_TO_FIT, ResourceMapping
from runner.cli import ports
from runner.cli.support import mixes as mixes_module
from runner.cli.support.counting import measured_so_far
from runner.cli.support.mixes import MixesError, NamedMapping, mapping_json, read_mapping, read_mixes
from runner.measuring.session import Progress
from tests.runner.cli.commands import called

if TYPE_CHECKING:
    from pathlib import Path

MAPPING = NamedMapping(("ADD", "SUB", "IMUL"), ResourceMapping((0, 0, 1), ((0.25, 0.0), (0.25, 1.0)), {(0, 1): 0.1}))


Command = Callable[..., tuple[int, str, str]]
"""Runs `uopscope ports` and returns exit code and output."""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = called(tuple(map(str, arguments)), ports.app)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def mixes(instructions: int, count: int) -> dict[str, object]:
    """Return times of mixes on a machine with four slots, where every third instruction waits for one port."""
    source = random.Random(3)
    alone = [[number] for number in range(instructions)]
    several = [source.choices(range(instructions), k=source.randint(2, 5)) for _ in range(count)]
    timed = [[one, max(len(one) / 4, sum(number % 3 == 0 for number in one))] for one in (*alone, *several)]
    return {"instructions": [f"I{number}" for number in range(instructions)], "experiments": timed}


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    path = tmp_path / "mapping.json"
    path.write_text(json.dumps(mapping_json(MAPPING)))
    return path


def test_a_fitted_mapping_predicts_the_mixes_that_were_held_back_and_others(command: Command, tmp_path: Path) -> None:
    source, target, predicted = tmp_path / "mixes.json.xz", tmp_path / "mapping.json", tmp_path / "predicted.csv"
    source.write_bytes(lzma.compress(json.dumps(mixes(12, 400)).encode()))
    code, said, _ = command("fit", source, "-o", target)
    assert code == 0
    assert "held back" in said
    found = json.loads(target.read_text())
    assert sorted(name for one in found["classes"] for name in one["instructions"]) == sorted(
        f"I{number}" for number in range(12)
    )
    assert found["errors"]["held_back"]["all"] < 0.08
    longer = {"instructions": ["I0", "I1"], "experiments": [[[0] * 5 + [1], 5], [[1] * 8, None]]}
    (tmp_path / "longer.json").write_text(json.dumps(longer))
    code, said, _ = command("predict", target, tmp_path / "longer.json", "-o", predicted)
    assert code == 0
    assert "error on 1 mixes that were measured" in said
    first, second = csv.DictReader(predicted.read_text().splitlines())
    assert float(first["cycles"]) == pytest.approx(5, rel=0.1)
    assert (first["measured"], second["measured"]) == ("5.00", "")
    assert float(second["cycles"]) == pytest.approx(2, rel=0.1)


def test_mixes_of_the_command_line_are_predicted(command: Command, mapping: Path) -> None:
    code, said, _ = command("predict", mapping, "--mix", "ADD; SUB; ADD; SUB", "--mix", "IMUL;IMUL;ADD")
    assert code == 0
    assert [re.split(" {2,}", line) for line in said.splitlines()] == [
        ["cycles", "limited by", "mix"],
        ["1.00", "r0", "ADD; SUB; ADD; SUB"],
        ["2.20", "r1, classes 0 and 1 contend", "IMUL; IMUL; ADD"],
    ]


def test_a_file_of_one_instruction_is_predicted(command: Command, mapping: Path, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"instructions": ["ADD"], "experiments": [[[0, 0, 0, 0], null]]}')
    code, said, _ = command("predict", mapping, tmp_path / "one.json")
    assert (code, said.splitlines()[1].split()) == (0, ["1.00", "r0", "ADD;", "ADD;", "ADD;", "ADD"])


def test_the_fewest_mixes_that_are_asked_for_can_be_fitted(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "mixes.json"
    source.write_text(json.dumps({"instructions": ["A", "B"], "experiments": [[[0, 1], 0.5]] * FEWEST_TO_FIT}))
    code, said, _ = command("fit", source, "-o", tmp_path / "mapping.json")
    assert code == 0
    assert said.startswith("2 instructions in 2 classes on 8 resources; no pair of classes contends\n")
    loads = [
        load for one in json.loads((tmp_path / "mapping.json").read_text())["classes"] for load in one["loads"].values()
    ]
    assert all(loads)
    assert loads


def test_terminals_alone_show_how_much_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measured_so_far("rings") is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = measured_so_far("rings")
    assert show is not None
    show(Progress(3, 20))
    assert capsys.readouterr().err == "\r20 rings\r"


def test_a_mapping_is_read_as_it_was_written(mapping: Path) -> None:
    assert read_mapping(mapping) == MAPPING


def test_only_some_of_many_predictions_are_listed(command: Command, mapping: Path, tmp_path: Path) -> None:
    many = {"instructions": ["ADD", "IMUL"], "experiments": [[[0, 1], None]] * 30}
    (tmp_path / "many.json").write_text(json.dumps(many))
    code, said, _ = command("predict", mapping, tmp_path / "many.json")
    assert code == 0
    assert len(said.splitlines()) == 22
    assert "30 mixes in all" in said
    code, said, _ = command("predict", mapping, tmp_path / "many.json", "-o", "-")
    assert len(said.splitlines()) == 31


BAD_MIXES = (
    ("", "the file is empty"),
    ("{", "not of the expected form"),
    ("[1]", "a list, and no object"),
    ("null", "null, and no object"),
    ('{"instructions": ["A", "B"]}', "'experiments' is missing"),
    ('{"classes": []}', "a mapping, and no mixes"),
    ("[" * 100_000, "not of the expected form"),
    ('{"instructions": "AB", "experiments": []}', "not a list"),
    ('{"instructions": ["A", 7], "experiments": []}', "'7' is no name"),
    ('{"instructions": ["A", "A"], "experiments": []}', "'A' has two numbers"),
    ('{"instructions": [], "experiments": []}', "0 instructions"),
    ('{"instructions": ["A"], "experiments": [], "unit": "ns"}', "unknown key 'unit'"),
    ('{"instructions": ["A"], "experiments": [], "experiments": []}', "'experiments' stands there twice"),
    ('{"instructions": ["A", "B"], "experiments": {}}', "not a list"),
    ('{"instructions": ["A", "B"], "experiments": [7]}', "experiment 0: '7' is no pair"),
    ('{"instructions": ["A", "B"], "experiments": [[[0], 1, 2]]}', "is no pair of a mix and its cycles"),
    (
        '{"instructions": ["A", "B"], "experiments": [[[0], 1], [[0, 7], 1]]}',
        "experiment 1: there is no number 7",
    ),
    ('{"instructions": ["A", "B"], "experiments": [[[0, -1], 1.0]]}', "no number -1"),
    ('{"instructions": ["A", "B"], "experiments": [[[0.5], 1.0]]}', "not a whole number"),
    ('{"instructions": ["A", "B"], "experiments": [[[true], 1.0]]}', "not a whole number"),
    ('{"instructions": ["A", "B"], "experiments": [[[], 1.0]]}', "an empty list"),
    ('{"instructions": ["A", "B"], "experiments": [[[0], -1]]}', "not between"),
    ('{"instructions": ["A", "B"], "experiments": [[[0], 0]]}', "not between"),
    ('{"instructions": ["A", "B"], "experiments": [[[0], NaN]]}', "nan is not between"),
    ('{"instructions": ["A", "B"], "experiments": [[[0], Infinity]]}', "inf is not between"),
    ('{"instructions": ["A", "B"], "experiments": [[[0], 1e999]]}', "inf is not between"),
    ('{"instructions": ["A", "B"], "experiments": [[[0], "1"]]}', "'1' is not a number"),
)


@pytest.mark.parametrize(("text", "says"), BAD_MIXES)
def test_files_of_mixes_that_cannot_be_used_are_refused(tmp_path: Path, text: str, says: str) -> None:
    source = tmp_path / "mixes.json"
    source.write_text(text)
    with pytest.raises(MixesError) as error:
        read_mixes(source)
    assert says in str(error.value)


def test_packed_files_that_are_too_large_or_cut_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = lzma.compress(json.dumps(mixes(12, 400)).encode())
    source = tmp_path / "mixes.json.xz"
    source.write_bytes(packed[:-20])
    with pytest.raises(MixesError, match="a part of one"):
        read_mixes(source)
    source.write_bytes(packed)
    monkeypatch.setattr(mixes_module, "MOST_BYTES", 1000)
    with pytest.raises(MixesError, match="unpacked"):
        read_mixes(source)


CLASS = '{"class": 0, "loads": {"r0": 1}, "instructions": ["A"]}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"instructions": ["A", "B"], "experiments": []}', "mixes, and no mapping"),
        ("7", "a number, and no object"),
        ('{"classes": []}', "has instructions and loads"),
        ('{"classes": ["A"]}', "expected form"),
        (f'{{"classes": [{CLASS}, {CLASS}]}}', "numbered 0, 1"),
        (f'{{"classes": [{CLASS}, {CLASS.replace("0,", "1,", 1)}]}}', "'A' has two numbers"),
        (f'{{"classes": [{CLASS.replace("r0", "p0")}]}}', "'p0' is no resource"),
        (f'{{"classes": [{CLASS.replace("1}", "-1}")}]}}', "-1 is not between"),
        (f'{{"classes": [{CLASS.replace("1}", "NaN}")}]}}', "nan is not between"),
        (f'{{"classes": [{CLASS}], "unit": "ns"}}', "unknown key 'unit'"),
        (f'{{"classes": [{CLASS}], "contention": [{{"classes": [0, 4], "longer": 0.1}}]}}', "no number 4"),
    ],
)
def test_files_of_mappings_that_cannot_be_used_are_refused(tmp_path: Path, text: str, says: str) -> None:
    source = tmp_path / "mapping.json"
    source.write_text(text)
    with pytest.raises(MixesError) as error:
        read_mapping(source)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("experiments", "says"),
    [
        ("[[[0, 1], 1.0]]", "1 measured mixes of several instructions are too few"),
        ("[[[0], 1], [[1], 1], [[1, 1], 2]]", "0 measured mixes of several instructions are too few"),
        (json.dumps([[[0, 1], 1]] * 11), "at least 12"),
        ("[[[0, 0], 1.0]]", "'B' is in no mix that was measured"),
        ("[[[0], 1.0], [[0, 1], null]]", "'B' is in no mix that was measured"),
        ("[]", "'A' is in no mix that was measured"),
    ],
)
def test_too_few_mixes_are_no_fit(command: Command, tmp_path: Path, experiments: str, says: str) -> None:
    source = tmp_path / "mixes.json"
    source.write_text(f'{{"instructions": ["A", "B"], "experiments": {experiments}}}')
    code, _, said = command("fit", source)
    assert code not in {0, 1}
    assert says in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "nothing to predict"),
        (["--mix", "ADD", "mapping.json"], "or two things"),
        (["--mix", "ADD; MUL"], "no instruction 'MUL'"),
        (["--mix", "add"], "such as 'ADD'"),
        (["--mix", "imull"], "such as 'IMUL'"),
        (["--mix", "ADD, IMUL"], "; stands between instructions"),
        (["--mix", "x" * 100_000], "such as 'ADD'"),
        (["--mix", " ; "], "a mix has no instruction"),
        (["nowhere.json"], "nowhere.json"),
    ],
)
def test_what_cannot_be_predicted_is_said(command: Command, mapping: Path, arguments: list[str], says: str) -> None:
    code, _, said = command("predict", mapping, *arguments)
    assert code == 2
    assert says in said
    assert "Traceback" not in said
