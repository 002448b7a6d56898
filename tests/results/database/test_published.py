"""Files that others published: every command reads them, whatever they hold beside what we write.

`tests/data/published.xml` has what uops.info's files have and ours do not: AMD's resources as ports (`1*FP23`), kinds
of µops (`V`, `1*ALU`), `summary` elements, analyses by IACA, -1.00 and the largest integer as throughputs.
"""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from results.database.reader import Repair, read_database
from results.exports.tidy import load
from results.model import PortUsage
from tests.runner.cli.commands import command_of
from tests.shared import CHECKOUT, shared

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PUBLISHED = CHECKOUT / "tests" / "data" / "published.xml"


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("1*FP01+2*p06", {frozenset({"FP0", "FP1"}): 1, frozenset("06"): 2}),
        ("V", {frozenset({"V"}): 1}),
        ("2*ALU+1*FP", {frozenset({"ALU"}): 2, frozenset({"FP"}): 1}),
        ("1*FP01|ALU", {frozenset({"FP0", "FP1", "ALU"}): 1}),
    ],
)
def test_ports_may_be_named_resources(text: str, sets: dict[frozenset[str], int]) -> None:
    usage = PortUsage.parse(text)
    assert usage.uops == sets
    assert PortUsage.parse(str(usage)) == usage


def test_what_cannot_be_is_left_out_and_said() -> None:
    repairs: list[Repair] = []
    entries = {entry.variant.string: entry for entry in read_database(PUBLISHED, repairs)}
    assert {(one.architecture, one.attribute, one.value) for one in repairs} == {
        ("ZEN4", "TP_unrolled", "-1.00"),
        ("ADL-E", "TP_loop", "-1.00"),
        ("ADL-E", "TP_unrolled", "9223372036854775808.00"),
        ("ADL-E", "uops_MITE", "-1"),
    }
    assert entries["ADD_03 (R32, R32)"].results["ADL-E"].measurement == {"uops": "1", "ports": "V"}
    assert [one.tag for one in entries["ADD_03 (R32, R32)"].results["NHM"].analyses] == ["IACA"]


@pytest.mark.parametrize(("attribute", "value"), [("ports", "1*p0x"), ("TP_loop", "fast"), ("uops", "1e3")])
def test_a_value_of_no_known_form_is_left_out_and_no_fault(attribute: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.xml"
    path.write_text(PUBLISHED.read_text().replace('ports="1*FP23"', f'ports="1*FP23" {attribute}_same_reg="{value}"'))
    path.write_text(path.read_text().replace(' ports_same_reg="2*FP0123+1*V"', ""))
    repairs: list[Repair] = []
    list(read_database(path, repairs))
    assert (f"{attribute}_same_reg", value) in {(one.attribute, one.value) for one in repairs}
    assert db("query", "uops = 1", "--db", str(path)) == 0


def db(*arguments: str) -> int:
    return command_of("db", arguments)


def test_tables_have_the_resources(tmp_path: Path) -> None:
    found = load(PUBLISHED).ports.where(string="VADDPS (XMM, XMM, XMM)")
    assert dict(zip(found["port_set"], found["uops"], strict=True)) == {"FP23": 1, "FP0123": 2, "V": 1}
    table = tmp_path / "all.csv"
    assert db("export", str(PUBLISHED), "--csv", str(table)) == 0
    assert {row["ports"] for row in csv.DictReader(table.read_text().splitlines())} == {"1*ALU", "V", "", "1*FP23"}
    document = tmp_path / "all.json"
    assert db("export", str(PUBLISHED), "--json", str(document)) == 0
    assert len(json.loads(document.read_text())["variants"]) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["query", "ports has FP23", "--db"], 0, "1*FP23"),
        (["query", "ports has V", "--db"], 0, "ADL-E"),
        (["query", "ports uses FP2", "--db"], 0, "1*FP23"),
        (["query", "ports has FP2", "--db"], 0, "ports uses X"),
        (["check"], 1, "ports"),
        (["export", "--arch", "ZEN4", "--osaca", "-"], 0, '"FP2"'),
    ],
)
def test_commands_read_it(arguments: Sequence[str], code: int, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert db(*arguments, str(PUBLISHED)) == code
    output = capfd.readouterr()
    assert said in output.out
    assert "fault" not in output.err


def test_ports_that_were_inferred_by_time_can_be_queried(capfd: pytest.CaptureFixture[str]) -> None:
    assert db("query", "ports has r0", "--arch", "ZEN4") == 0
    rows = capfd.readouterr().out.splitlines()
    assert len(rows) > 2
    assert all("*r0" in row for row in rows[1:-1])


def test_it_does_not_differ_from_itself(capfd: pytest.CaptureFixture[str]) -> None:
    assert db("diff", str(PUBLISHED), str(PUBLISHED)) == 0
    assert "0 changes" in capfd.readouterr().out


def test_the_site_shows_it(tmp_path: Path) -> None:
    assert command_of("site", [str(PUBLISHED), "-o", str(tmp_path / "site"), "--jobs", "1"]) == 0
    page = (tmp_path / "site" / "v" / "ZEN4" / "vaddps-xmm-xmm-xmm.html").read_text()
    assert "1*FP23" in page
    assert "<b>FP2</b>" in page
    assert ">FP23<" in (tmp_path / "site" / "arch" / "ZEN4.html").read_text()


@pytest.mark.parametrize(
    "arguments",
    [["check"], ["query", "uops > 0", "--db"], ["export", "--csv", "-"], ["export", "--osaca", "-"]],
)
def test_a_whole_published_file(arguments: Sequence[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert db(*arguments, str(shared("measured/HSW.uops-info.xml.xz"))) == 0
    assert len(capfd.readouterr().out) > 50
