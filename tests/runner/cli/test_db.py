"""`uopscope db` on campaigns and parts of the instruction set."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from results.database import reader, rules
from results.memory.documents import encode, read_document
from results.shipped import shipped_campaigns, shipped_database, shipped_memory
from tests.nonempty import some
from tests.runner.cli.commands import ADC, SIMULATED, called, command_of, need_catalogue
from tests.shared import CHECKOUT
from xed_convert.catalogue.xml import open_catalogue

if TYPE_CHECKING:
    from io import BufferedIOBase
    from pathlib import Path

PUBLISHED = CHECKOUT / "tests" / "data" / "published.xml"


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


@pytest.mark.parametrize("suffix", [".xml", ".xml.gz", ".xml.xz"])
def test_a_file_is_compressed_as_its_name_says_and_code_is_analyzed_with_it(
    suffix: str, campaign: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = campaign.with_suffix(suffix)
    assert command_of("db", ["build", str(campaign), "-o", str(path)]) == 0
    capfd.readouterr()
    assert command_of("analyze", ["--data", str(path), "--asm", "adc rax, rbx", "--mode", "bounds"]) == 0
    said = capfd.readouterr().out
    assert f"\n  simulations (a model, not a CPU) of HSW in {path.name} (simulated HSW, backend sim)\n" in said


def test_an_unknown_field_gives_its_nearest_names_on_a_short_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert command_of("db", ["query", "TP_unroled > 3", "--db", str(PUBLISHED)]) == 2
    said = capfd.readouterr().err
    assert "nearest: TP_unrolled" in said
    assert "`uopscope db query --fields` lists all" in said
    assert max(map(len, said.splitlines())) < 160


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("ports has p9", "no result fulfils `ports has p9`: sets of ports are ALU, V, FP23"),
        ("extension = AVX512", "no result fulfils `extension = AVX512`: "),
        ("TP_loop > 99999 and extension = BASE", "`TP_loop > 99999`: values are from"),
        ("latency(7,8) > 1", "latency(7,8) is not known of any result"),
        ('string = "ADD (R32,R32)"', "values are ADD_03 (R32, R32), "),
    ],
)
def test_a_value_that_no_result_has_is_named_with_those_that_there_are(
    query: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command_of("db", ["query", query, "--db", str(PUBLISHED)]) == 0
    first, *lines = capfd.readouterr().out.splitlines()
    assert first.startswith("nothing found among results of")
    assert says in lines[0]
    assert len([line for line in lines if "no result fulfils" in line]) <= 1


def test_what_is_negated_or_fulfilled_by_some_explains_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    query = "not (extension = NOPE) and iclass = ADC and iclass = ADD"
    assert command_of("db", ["query", query, "--db", str(PUBLISHED)]) == 0
    assert "NOPE" not in capfd.readouterr().out


def test_an_architecture_that_is_missing_is_said_after_one_reading(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    def counted(path: Path) -> BufferedIOBase:
        opened.append(path)
        return open_catalogue(path)

    monkeypatch.setattr(reader, "open_catalogue", counted)
    assert command_of("db", ["query", "TP < 1", "--db", str(PUBLISHED), "--arch", "ZEN9"]) == 2
    assert re.search("there are: ADL-E, NHM, ZEN4", capfd.readouterr().err)
    assert opened == [PUBLISHED]


@pytest.mark.parametrize(
    ("query", "place"),
    [("TP > nan", "nan"), ("TP = inf", "inf"), ("latency(1,2) != x", "x"), ("TP > 1 \t ~ 3", "~"), ("uops =", "")],
)
def test_the_caret_is_below_what_is_wrong(query: str, place: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command_of("db", ["query", query, "--db", str(PUBLISHED)]) == 2
    _, line, pointer, *_ = capfd.readouterr().err.splitlines()
    assert line == "  " + query.replace("\t", " ")
    assert line[pointer.index("^") :].startswith(place)


def test_a_file_without_any_result_says_so(campaign: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = campaign.with_suffix(".xml")
    assert command_of("db", ["build", str(campaign), "-o", str(path)]) == 0
    text = re.sub(r"<architecture .*?</architecture>", "", path.read_text("utf-8"), flags=re.DOTALL)
    path.write_text(text, "utf-8")
    capfd.readouterr()
    assert command_of("db", ["check", str(path)]) == 0
    said = capfd.readouterr().out
    assert "no result of any" in said
    assert "every rule holds, but none about results was needed" in said
    assert command_of("db", ["query", "TP > 1", "--db", str(path)]) == 0
    assert capfd.readouterr().out == "nothing found: no variant has a result\n"


def test_all_fields_are_listed_and_each_can_be_asked_about(capfd: pytest.CaptureFixture[str]) -> None:
    assert command_of("db", ["query", "--fields", "--db", str(PUBLISHED)]) == 0
    names = [line.split()[0] for line in capfd.readouterr().out.splitlines()[1:]]
    assert {"latency(1,2)", "TP", "uops", "iform", "extension"} <= set(names)
    for name in some(names, 10):
        assert command_of("db", ["query", f"{name} = 1", "--db", str(PUBLISHED)]) == 0, name


def test_the_shipped_database_is_exported_with_the_shipped_memory(capfd: pytest.CaptureFixture[str]) -> None:
    for path in (shipped_database(), *some(one for one in shipped_campaigns() if "ZEN4" in one.name)):
        assert command_of("db", ["export", str(path), "--arch", "ZEN4", "--osaca", "-"]) == 0
        assert "store_to_load_forward_latency: 4.01\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("diff", "{}", "{}", "--arch", "zen4"), "0 changes in 0 groups"),
        (("diff", "--agreement", "{}", "{}", "--arch", "zen4"), "latency: "),
        (("query", "TP > 0", "--db", "{}", "--arch", "zen4"), "ZEN4"),
        (("export", "{}", "--arch", "zen4", "--csv", "-"), ",ZEN4,"),
        (("compare", "{}", "{}", "--arch", "zen4", "--published-arch", "Adl-e"), "different CPUs (ADL-E, ZEN4)"),
    ],
)
def test_an_architecture_may_be_in_small_letters(
    arguments: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    command_of("db", [one.format(PUBLISHED) for one in arguments])
    found = capfd.readouterr()
    assert (said in found.out, found.err) == (True, "")


def test_memory_of_another_architecture_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "icx.json"
    shipped = shipped_memory("ICX")
    assert shipped is not None
    other.write_text(json.dumps(encode(read_document(shipped))))
    options = [str(shipped_database()), "--osaca", "-", "--arch", "ZEN4", "--memory", str(other)]
    assert command_of("db", ["export", *options]) == 2
    assert "it is about ICX, not ZEN4" in capfd.readouterr().err


def test_memory_of_a_file_and_of_the_database_itself_is_exported(
    campaign: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shipped = shipped_memory("ICX")
    assert shipped is not None
    report = read_document(shipped)
    of_haswell = replace(report, provenance=replace(report.provenance, architecture="HSW"))
    memory, xml = campaign.with_name("hsw.json"), campaign.with_suffix(".xml")
    memory.write_text(json.dumps(encode(of_haswell)))
    assert command_of("db", ["build", str(campaign), "--memory", str(memory), "-o", str(xml)]) == 0
    for arguments in ([str(xml)], [str(campaign), "--memory", str(memory)]):
        capfd.readouterr()
        assert command_of("db", ["export", *arguments, "--osaca", "-"]) == 0
        assert "store_to_load_forward_latency: 5.0\n" in capfd.readouterr().out
