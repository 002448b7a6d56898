"""`uopscope db` on campaigns and parts of the instruction set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from results.database import rules
from tests.runner.cli.commands import ADC, SIMULATED, called, command_of, need_catalogue

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Return a campaign over a single variant."""
    need_catalogue()
    path = tmp_path / "part.sqlite"
    assert called(["--instr", ADC, *SIMULATED, "--db", str(path)]) == 0
    return path


def test_a_part_keeps_the_rules_as_a_campaign_and_as_xml(campaign: Path, capfd: pytest.CaptureFixture[str]) -> None:
    xml = campaign.with_suffix(".xml")
    assert command_of("db", ["build", str(campaign), "-o", str(xml)]) == 0
    for path in (campaign, xml):
        capfd.readouterr()
        assert command_of("db", ["check", str(path)]) == 0
        said = capfd.readouterr().out
        assert "HSW: results of 1 of " in said
        assert f"HSW: a part of the instruction set. uiCA needs the ports of {rules.ANCHOR_IFORM}, too" in said
        assert f"{path}: every rule holds" in said
