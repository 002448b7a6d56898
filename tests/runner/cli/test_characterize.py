"""`characterize` from options to exit codes, in this process and as real processes."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lxml import etree

from results.campaign.store import Store
from runner.campaigns.start import CampaignSetup
from runner.cli.support import characterize
from tests.effort import sample
from tests.runner.cli.commands import ADC, SIMULATED, called, command, environment, need_catalogue, process

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("catalogue")


@pytest.fixture(scope="module")
def catalogue() -> None:
    need_catalogue()


def test_the_first_example(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = {kind: tmp_path / f"out.{kind}" for kind in ("xml", "json", "csv")}
    arguments = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    assert called([*SIMULATED, "--instr", ADC, *arguments]) == 0
    printed = capfd.readouterr().out
    assert re.search(r"^ADC_11 \(R64, R64\) +2 +1\*p0156\+1\*p06 ", printed, re.MULTILINE)
    assert "HSW: simulated HSW (a model, not a CPU), backend sim" in printed
    (measurement,) = etree.parse(files["xml"]).findall(".//architecture[@name='HSW']/measurement")
    assert measurement.get("ports") == "1*p0156+1*p06"
    assert measurement.get("simulated") == "1"
    (result,) = json.loads(files["json"].read_text())["results"]
    assert (result["string"], result["uops"], result["ports"]) == (ADC, 2, "1*p0156+1*p06")
    (row,) = csv.DictReader(io.StringIO(files["csv"].read_text()))
    assert (row["string"], row["uops"], row["ports"]) == (ADC, "2", "1*p0156+1*p06")


@pytest.mark.parametrize(
    ("option", "code", "ports", "said"),
    [
        ([], 0, r"\?", "--ports-by-time infers them"),
        (["--ports-by-time"], 4, r"1\*r\d+", "ports were inferred by time alone"),
    ],
)
def test_a_few_variants_have_ports_by_time_if_asked_for(
    option: list[str], code: int, ports: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert called([*SIMULATED, "--hide-counters", "--instr", "PADDB (XMM, XMM)", "--instr", ADC, *option]) == code
    printed = capfd.readouterr().out
    assert re.search(rf"^PADDB \(XMM, XMM\) +\? +{ports} ", printed, re.MULTILINE)
    assert said in printed
    assert (f"✗ {ADC}: ports: only 1*r" in printed) == (code == 4), "one of its two µops shows in no mix"


def test_explanations_show_code_samples_and_arithmetic(capfd: pytest.CaptureFixture[str]) -> None:
    assert called([*SIMULATED, "--instr", ADC, "--explain"]) == 0
    printed = capfd.readouterr().out
    assert re.search(r"^ports  1\*p0156\+1\*p06$", printed, re.MULTILINE)
    assert re.search(r"48 11 [0-9a-f]{2} +.*ADC R..?, R", printed)
    assert re.search(r"^ +p0 +\d+ +\d+ +4 +0\.50$", printed, re.MULTILINE)
    assert "per copy = (110 copies - 10 copies) / 100" in printed


def test_json_alone_goes_to_standard_output() -> None:
    done = process([*SIMULATED, "--instr", ADC, "--json", "-"])
    assert done.returncode == 0
    assert [result["string"] for result in json.loads(done.stdout)["results"]] == [ADC]
    assert "1*p0156+1*p06" in done.stderr


def test_a_locale_without_the_signs_gets_plain_ones() -> None:
    done = process([*SIMULATED, "--instr", ADC], PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert " uops  Ports " in done.stdout
    assert "1->flags 2" in done.stdout


def test_a_closed_standard_output_stops_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    line = shlex.join(command([*SIMULATED, "--instr", ADC, "--json", str(out)]))
    done = subprocess.run(
        ["sh", "-c", f"exec {line} >&-"], check=False, capture_output=True, text=True, env=environment()
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(out.read_text())["results"]) == 1


def test_list_shows_what_is_meant(capfd: pytest.CaptureFixture[str]) -> None:
    assert called(["--list", "--instr", "adc_gprv_gprv_11"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["ADC_11 (R16, R16)", "ADC_11 (R32, R32)", ADC]


def test_list_of_an_extension(capfd: pytest.CaptureFixture[str]) -> None:
    assert called(["--list", "--extension", "sse4A", "--instr", "EXTRQ"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[-2:] for line in lines] == [["SSE4a", "SSE4a"]] * 2
    assert called(["--list", "--extension", "SSE22"]) == 2
    assert "did you mean: SSE2" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--instr", "ADCX_GPR"], 2, "ADCX"),
        ([], 2, "no instruction is named"),
        (["--instr", "ADC", "--all"], 2, "contradict"),
        (["--instr", "ADC", "--arch-auto", "--arch", "HSW"], 2, "contradict"),
        (["--reinfer"], 2, "--reinfer needs the stored samples"),
        (["--instr", "NOSUCH"], 2, "Nearest: "),
        (["--instr", ADC, "--backend", "none"], 2, "no backend 'none'"),
        (["--instr", ADC, "--backend", "tcs"], 2, "nearest: tsc"),
        (["--instr", ADC, "--backend", "sim"], 2, "--arch"),
        (["--instr", ADC, "--backend", "sim", "--arch", "PENTIUM"], 2, "PENTIUM"),
        (["--instr", ADC, "--backend", "sim", "--arch", "SKLX"], 2, "nearest: SKX, SKL"),
        (["--instr", ADC, "--arch", "HSWW"], 2, "no microarchitecture 'HSWW'"),
        (["--instr", ADC, "--arch", "NHM"], 3, "not NHM"),
        (["--instr", ADC, "--cpu", "4000"], 3, "CPU 4000"),
        (["--instr", ADC, "--cpu", "-1"], 2, "--cpu"),
        (["--instr", ADC, "--jobs", "0"], 2, "--jobs"),
        (["--instr", ADC, "--nonsense"], 2, "--nonsense"),
        ([*SIMULATED, "--instr", ADC, "--xml", "/nowhere/at/all.xml"], 3, "/nowhere/at/all.xml"),
        ([*SIMULATED, "--all", "--csv", "/nowhere/at/all.csv"], 3, "folder /nowhere/at does not exist"),
        ([*SIMULATED, "--all", "--json", "/proc"], 3, "/proc: cannot be written: it is a folder"),
        ([*SIMULATED, "--instr", ADC, "--db", "/nowhere/at/all.sqlite"], 3, "/nowhere/at/all.sqlite"),
        (["--db", "/nowhere/at/all.sqlite", "--reinfer"], 2, "no such file"),
    ],
)
def test_wrong_input_is_named_and_has_its_code(
    arguments: list[str], code: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert called(arguments) == code
    said = capfd.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_what_the_machine_lacks_is_skipped_with_the_reason(capfd: pytest.CaptureFixture[str]) -> None:
    assert called([*SIMULATED, "--instr", "VPADDB (ZMM, ZMM, ZMM)"]) == 0
    assert "skipped, the model of HSW does not have it: VPADDB (ZMM, ZMM, ZMM)" in capfd.readouterr().out


@pytest.mark.slow
@settings(max_examples=sample(80, 300), suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=40), st.text("ADC_GPRvRM(64,)*?[]{}-\\ '\"\0\n", max_size=30)))
@example("\0")
def test_no_pattern_whatever_makes_a_traceback(pattern: str) -> None:
    assert called([f"--instr={pattern}", "--list"]) in (0, 2)


def test_a_campaign_is_stored_explained_and_inferred_again(tmp_path: Path) -> None:
    database = str(tmp_path / "hsw.sqlite")
    first = process([*SIMULATED, "--instr", ADC, "--db", database])
    assert first.returncode == 0, first.stderr
    again = process([*SIMULATED, "--instr", ADC, "--instr", "BSWAP", "--db", database])
    assert again.returncode == 0, again.stderr
    assert "BSWAP (R64)" in again.stdout
    explained = process(["explain", database, ADC], module="uopscope")
    assert explained.returncode == 0, explained.stderr
    assert "1*p0156+1*p06" in explained.stdout
    inferred = process(["--reinfer", "--db", database])
    assert inferred.returncode == 0, inferred.stderr
    with Store.read(tmp_path / "hsw.sqlite") as store:
        assert {each.result.string for each in store.conclusions()} == {ADC, "BSWAP (R32)", "BSWAP (R64)"}
    assert "start: HSW" in (tmp_path / "hsw.sqlite.log").read_text()


def test_conclusions_stay_where_inference_asks_for_what_was_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "hsw.sqlite"
    done = process([*SIMULATED, "--instr", "CBW", "--instr", "BSWAP", "--db", str(path)])
    assert done.returncode == 0, done.stderr
    with Store.read(path) as store:
        (cbw,) = (each for each in store.conclusions() if each.result.string == "CBW")
        lost = store.evidence(cbw)[-1].request
    with closing(sqlite3.connect(path)) as database, database:
        (trigger,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'measurement_is_final'").fetchone()
        database.execute("DROP TRIGGER measurement_is_final")
        # As if an older version had measured something else instead
        database.execute("UPDATE measurement SET request = 'other' WHERE request = ?", (lost,))
        database.execute(trigger)
    inferred = process(["--reinfer", "--db", str(path)])
    assert inferred.returncode == 0, inferred.stderr
    assert "1 of 3 variants keep their last conclusions" in inferred.stderr
    with Store.read(path) as store:
        assert len(list(store.conclusions(cbw.result.key))) == 1
        assert {each.result.string for each in store.conclusions()} == {"CBW", "BSWAP (R32)", "BSWAP (R64)"}


def test_processes_share_a_simulated_campaign(tmp_path: Path) -> None:
    alone, shared = tmp_path / "alone.sqlite", tmp_path / "shared.sqlite"
    patterns = ["--instr", "ADD_GPRv_GPRv_01", "--instr", "BSWAP"]
    for arguments in (["--db", str(alone)], ["--db", str(shared), "--jobs", "2"]):
        done = process([*SIMULATED, *patterns, *arguments])
        assert done.returncode == 0, done.stderr
    with Store.read(alone) as first, Store.read(shared) as second:
        found = [{each.result.key: each.result for each in store.conclusions()} for store in (first, second)]
    assert found[0] == found[1]
    assert found[0]


def test_no_more_processes_start_than_there_is_work(capfd: pytest.CaptureFixture[str]) -> None:
    """The end would not come with a million processes."""
    assert called([*SIMULATED, "--instr", ADC, "--jobs", "1000000"]) == 0
    assert "1*p0156+1*p06" in capfd.readouterr().out


def test_a_campaign_goes_to_standard_output_under_other_names(tmp_path: Path) -> None:
    database = str(tmp_path / "c.sqlite")
    assert process([*SIMULATED, "MOVZX (R32, M16)", "--db", database]).returncode == 0
    built = process(["db", "build", database, "-o", "-", "--names", "2024.11.04"], module="uopscope")
    assert built.returncode == 0, built.stderr
    root = etree.fromstring(built.stdout.encode())
    (measured,) = (one for one in root.iter("instruction") if one.find("architecture") is not None)
    assert (measured.get("iform"), measured.get("eosz")) == ("MOVZX_GPRv_MEMw", "2")
    assert "variants" in built.stderr
    assert not (tmp_path / "-").exists()


def test_a_large_campaign_ends_without_reading_what_nobody_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So Ctrl-C does not wait until thousands of conclusions are read."""
    monkeypatch.setattr(characterize, "TABLE_AT_MOST", 1)
    arguments = [*SIMULATED, "VPADDB (ZMM, ZMM, ZMM)", "VPADDW (ZMM, ZMM, ZMM)", "--db", str(tmp_path / "c.sqlite")]
    with monkeypatch.context() as patch:
        patch.setattr(CampaignSetup, "conclusions", lambda _: pytest.fail("all conclusions are read"))
        assert called(arguments) == 0
        assert "2 skipped" in capfd.readouterr().out
    assert called([*arguments, "--json", str(tmp_path / "c.json")]) == 0
    assert len(json.loads((tmp_path / "c.json").read_text())["results"]) == 2


def test_the_version_and_patterns_need_no_option(capfd: pytest.CaptureFixture[str]) -> None:
    assert called(["--version"]) == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", capfd.readouterr().out)
    assert called(["ADC_GPRv_GPRv_11", "BSWAP", "--list"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 5
