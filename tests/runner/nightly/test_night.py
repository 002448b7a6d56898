"""Nightly runs: resumed, locked, summarized; and systemd units that leave no trace."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from results.campaign.records import Outcome
from results.database.diff import Change, ChangeKind, group
from results.model import Provenance
from runner.campaigns.campaign import SkipReason
from runner.cli import nightly as cli
from runner.nightly import night as nightly
from runner.nightly import systemd as units
from runner.nightly.night import Night, NightlyError, NightlyInputError, Places
from tests.nonempty import faults
from tests.runner.cli.commands import called

ROOT = Path(__file__).parents[3]
SELECTION = ["--instr", "ADCX", "--arch", "SKL", "--backend", "sim"]
MACHINE = Provenance("SKL", "a CPU", "6-5E-3", "0xd6", "6.1", "kmod", "1", "2026-01-01T00:00:00Z")


@pytest.mark.slow
def test_four_nights_the_second_killed_in_the_middle_the_last_with_others(tmp_path: Path) -> None:
    places = Places(tmp_path / "state")
    assert "first run" in nightly.run(places, SELECTION)
    assert nightly.run(places, SELECTION) == ""
    _make_due(places)
    wanted = ["--instr", "ADC_*GPRv*", "--arch", "SKL", "--backend", "sim"]
    command = [
        sys.executable,
        "-m",
        "runner.cli.uopscope",
        "nightly",
        "--state",
        str(places.state),
        "--instr",
        "ADC_*GPRv*",
    ]
    process = subprocess.Popen([*command, "--arch", "SKL", "--backend", "sim"], cwd=ROOT, start_new_session=True)
    _wait_for_conclusions(places)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    resumed = nightly.run(places, wanted)
    assert "Went on with an interrupted campaign" in resumed
    _make_due(places)
    assert "0 changes" in nightly.run(places, wanted)
    _make_due(places)
    other = nightly.run(places, SELECTION)
    assert "\n0 changes" in other
    assert "Not in the earlier run: " in other
    assert "Not in this run: " in other
    assert len(list(places.campaigns.glob("*.sqlite"))) == len(list(places.summaries.glob("*.txt"))) == 4
    assert sorted(path.name for path in places.state.iterdir()) == [
        "campaigns",
        "instructions.xml",
        "lock",
        "summaries",
    ]


def _make_due(places: Places) -> None:
    for path in places.campaigns.glob("*.sqlite"):
        os.utime(path, (0, 0))
    time.sleep(1.1)  # names of finished campaigns have seconds


def _wait_for_conclusions(places: Places) -> None:
    for _ in range(600):
        if places.current.exists() and (nightly._unfinished(places) or 0) > 0:
            return
        time.sleep(0.1)
    pytest.fail("the campaign did not begin")


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    places = Places(tmp_path)
    with nightly.locked(places), pytest.raises(NightlyError, match="another nightly run"), nightly.locked(places):
        pytest.fail("the lock was held twice")


def test_a_full_disk_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(NightlyError, match="are needed"):
        nightly.run(Places(tmp_path), SELECTION, free_bytes=1 << 60)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_campaign_that_cannot_begin_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NightlyInputError, match="refuses these options"):
        nightly.run(Places(tmp_path), ["--instr", "NO_SUCH_INSTRUCTION", "--backend", "sim", "--arch", "SKL"])
    assert not (tmp_path / "instructions.xml").exists()


def test_the_summary_says_what_changed_in_the_machine_and_in_the_numbers() -> None:
    changes = [Change(ChangeKind.CHANGED, f"V{n}", "AVX512F", "SKL", "uops", "1", "2") for n in range(30)]
    changes.append(Change(ChangeKind.NOISE, "W", "I86", "SKL", "TP_loop", "1.00", "1.01"))
    changes += [Change(ChangeKind.ONLY_NEW, f"N{n}", "BASE", "SKL", "", "", "") for n in range(638)]
    changes.append(Change(ChangeKind.ONLY_OLD, "GONE", "BASE", "SKL", "", "", ""))
    night = Night(
        dataclasses.replace(MACHINE, microcode="0xf0"),
        MACHINE,
        Counter({Outcome.MEASURED: 29, Outcome.FAILED: 1}),
        [SkipReason("failed: the port sums differ", 1, ["ADC"])],
        group(changes),
        7,
        "30 variants in 60 s, 10 s of it lost to other users of the core; the machine was busy",
    )
    text = nightly.summary_text(night)
    for expected in (
        "microcode changed since last time: 0xd6 → 0xf0",
        "7 variants were done already",
        "30 variants: 1 failed, 29 measured",
        "1 x failed: the port sums differ: ADC",
        "The campaign: 30 variants in 60 s, 10 s of it lost to other users of the core; the machine was busy.",
        "30 changes, 1 differences within the spread",
        "changed: uops 1 → 2: 30 variants of AVX512F",
        "Not in the earlier run: 638 variants (N0, N1, N2, ...).",
        "Not in this run: 1 variants (GONE).",
    ):
        assert expected in text
    assert len(text.encode()) < 2000


def fake_systemd(folder: Path, monkeypatch: pytest.MonkeyPatch, *, fail: str = "") -> Path:
    """Put a systemctl and a systemd-analyze on the path that note how they were called."""
    log = folder / "log"
    for name in ("systemctl", "systemd-analyze"):
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{log}\ncase "$*" in *"{fail or "nothing"}"*) exit 1;; esac\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


def test_installing_and_uninstalling_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, etc = tmp_path / "bin", tmp_path / "etc"
    tools.mkdir()
    etc.mkdir()
    log = fake_systemd(tools, monkeypatch)
    written = units.install(["/usr/local/bin/uopscope", "nightly", "--instr", "ADC (R64, 100%)"], "*-*-* 02:30", etc)
    assert sorted(etc.iterdir()) == sorted(written)
    service = (etc / "uopscope-nightly.service").read_text()
    assert "ExecStart=/usr/local/bin/uopscope nightly --instr 'ADC (R64, 100%%)'\n" in service
    assert "OnCalendar=*-*-* 02:30" in (etc / "uopscope-nightly.timer").read_text()
    assert sorted(units.uninstall(etc)) == sorted(written)
    assert list(etc.iterdir()) == []
    assert log.read_text().splitlines()[1:] == [
        "systemctl daemon-reload",
        "systemctl enable --now uopscope-nightly.timer",
        "systemctl disable --now uopscope-nightly.timer",
        "systemctl daemon-reload",
    ]


@pytest.mark.parametrize(("fail", "code"), [("enable", 3), ("calendar", 2)])
def test_an_installation_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: str, code: int
) -> None:
    tools, etc = tmp_path / "bin", tmp_path / "etc"
    tools.mkdir()
    etc.mkdir()
    fake_systemd(tools, monkeypatch, fail=fail)
    with pytest.raises(NightlyError) as error:
        units.install(["/bin/true"], "*-*-* 02:30", etc)
    assert error.value.exit_code == code
    assert list(etc.iterdir()) == []


def test_without_systemd_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NightlyError, match="systemd does not run here"):
        units.install(["/bin/true"], "daily", tmp_path)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="apt-get install systemd")
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "nightly",
        "--instr",
        "ADC (R64, 100%)",
        "--extension",
        "AVX512*",
        "--instr",
        "it's $HOME",
    ]
    for name, text in units.unit_texts(command, "*-*-* 02:30").items():
        (tmp_path / name).write_text(text)
    paths = sorted(map(str, tmp_path.iterdir()))
    verify = ["systemd-analyze", "verify", "--man=no", *paths]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    complaints = [line for line in faults(done.stderr.splitlines()) if units.NAME in line]
    assert complaints == []


def test_the_timer_runs_what_was_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed: list[list[str]] = []

    def install(command: list[str], _calendar: str) -> list[Path]:
        installed.append(command)
        return []

    monkeypatch.setattr(units, "install", install)
    arguments = ["--install", "--state", str(tmp_path), "--extension", "SSE2", "--isa-set", "SSE*", "--cpu", "1"]
    assert called(arguments, cli.app) == 0
    (command,) = installed
    assert command[1] == "nightly"
    assert " ".join(command).endswith("--extension SSE2 --isa-set SSE* --backend auto --cpu 1")


def test_soon_after_a_finished_run_there_is_nothing_to_do_unless_asked_for(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.campaigns.mkdir()
    (places.campaigns / "x.sqlite").touch()
    nothing = ["--instr", "NO_SUCH_INSTRUCTION", "--backend", "sim", "--arch", "SKL"]
    assert nightly.run(places, nothing) == ""
    with pytest.raises(NightlyInputError, match="refuses these options"):
        nightly.run(places, nothing, again=True)
