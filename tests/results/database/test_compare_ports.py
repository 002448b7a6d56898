"""Port usages beside published ones: which ports are compared, and what counts as the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from results.database.comparison.ports import PortAgreement, common_names, on_ports, port_agreement
from results.database.writer import write_database
from results.model import PortUsage
from tests.results.database.test_compare import entry, entry_of
from tests.runner.cli.commands import command_of

if TYPE_CHECKING:
    from pathlib import Path

TIME = {"ports_by_time": "1"}
PART = {"some_ports_by_time": "1"}


@pytest.mark.parametrize(
    ("published", "values", "agreement"),
    [
        ("1*FP01", {"ports": "1*FP01"}, PortAgreement.ALIKE),
        ("1*FP01", {"ports": "1*FP01+1*r56", **TIME}, PortAgreement.ALIKE),  # loads have other names
        ("1*FP01+1*FP45", {"ports": "1*FP01+1*r4", **TIME}, PortAgreement.ALIKE),
        ("1*FP01", {"ports": "2*FP01", **TIME}, PortAgreement.TWICE),
        ("1*FP01", {"ports": "2*FP01"}, PortAgreement.OTHERWISE),  # counted
        ("1*FP01", {"ports": "1*FP0123", **TIME}, PortAgreement.OTHERWISE),
        ("1*FP01", {"ports": "1*r56", **TIME}, PortAgreement.OTHERWISE),
        ("1*FP01+1*FP23", {"some_ports": "1*FP23", **PART}, PortAgreement.PART),
        ("1*FP01", {"some_ports": "2*FP01", **PART}, PortAgreement.WHOLE_ON_THESE),
        ("1*FP12+1*FP45", {"some_ports": "1*FP12+1*r4", **PART}, PortAgreement.WHOLE_ON_THESE),
        ("1*FP01", {"some_ports": "2*FP01"}, PortAgreement.OTHER_PART),
        ("1*FP01", {"some_ports": "1*FP12", **PART}, PortAgreement.OTHER_PART),
        ("1*FP01", {"some_ports": "1*FP0123", **PART}, PortAgreement.PART),  # perhaps a union of several usages' sets
        ("1*FP0123", {"some_ports": "1*FP01", **PART}, PortAgreement.OTHER_PART),
        ("1*FP45", {"ports": "1*FP01", **TIME}, PortAgreement.OTHERWISE),
        ("1*FP01", {"some_ports": "1*r56", **PART}, PortAgreement.UNSTATED),
        ("1*FP01", {}, PortAgreement.UNSTATED),
    ],
)
def test_only_ports_with_common_names_are_compared(
    published: str, values: dict[str, str], agreement: PortAgreement
) -> None:
    names = common_names([(PortUsage.parse("1*FP0123+1*FP45"), {"ports": "1*FP0123+1*r0123"})])
    assert names == {"FP0", "FP1", "FP2", "FP3"}
    assert port_agreement(on_ports(PortUsage.parse(published), names), values, names) is agreement


ROWS = """string,latency,throughput,ports
"ADC (R64, R64)",,1.00,1*FP01
"SBB (R64, R64)",,1.00,1*FP01
"ADD (R64, R64)",,1.00,1*FP45
"XOR (R64, R64)",,1.00,1*FP45
"""


def test_the_command_says_how_ports_are_beside_published_ones(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table, xml, found = (tmp_path / name for name in ("published.csv", "ours.xml", "found.json"))
    table.write_text(ROWS, encoding="utf-8")
    usages = {"ADC": "1*FP01+1*r5", "SBB": "1*FP1", "ADD": "1*r0", "XOR": "1*FP0"}
    with xml.open("wb") as file:
        ours = [
            entry_of(f"{name} (R64, R64)", {}, {"TP_loop": "1.00", "ports": ports, **TIME})
            for name, ports in usages.items()
        ]
        write_database(ours, [], file)
    assert command_of("db", ["compare", str(table), str(xml)]) == 0  # ports have no goal
    said = capfd.readouterr().out
    assert "ports: of 3 variants a usage of FP01 is published" in said
    assert "1 stated as published: 33.33%" in said
    assert "  SBB (R64, R64): published 1*FP01, ours 1*FP1\n" in said
    assert command_of("db", ["compare", str(table), str(xml), "--json", str(found)]) == 0
    ports = json.loads(found.read_text(encoding="utf-8"))["ports"]
    assert (ports["compared"], ports["names"], ports["alike"], ports["otherwise"]) == (3, ["FP0", "FP1"], 1, 2)
    assert ports["differences"][0] == {"string": "SBB (R64, R64)", "published": "1*FP01", "measured": "1*FP1"}
    assert ports["differences"][1]["string"] == "XOR (R64, R64)"


def test_ports_without_a_common_name_are_not_compared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table, xml = tmp_path / "published.csv", tmp_path / "ours.xml"
    table.write_text(ROWS, encoding="utf-8")
    with xml.open("wb") as file:
        write_database([entry(TP_loop="1.00", ports="1*r0", ports_by_time="1")], [], file)
    assert command_of("db", ["compare", str(table), str(xml)]) == 0
    assert "ports: nothing to compare: none are published, or no port has" in capfd.readouterr().out


def test_a_published_usage_of_no_known_form_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table, xml = tmp_path / "published.csv", tmp_path / "ours.xml"
    table.write_text('string,latency,throughput,ports\n"ADC (R64, R64)",,1.00,1+2\n', encoding="utf-8")
    with xml.open("wb") as file:
        write_database([entry(TP_loop="1.00")], [], file)
    assert command_of("db", ["compare", str(table), str(xml)]) == 2
    assert f"{table}:2: ADC (R64, R64): not a port usage: '1+2'" in capfd.readouterr().err
