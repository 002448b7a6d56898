"""Signals and closed pipes: the process ends soon, with its code, with what there is, and without a traceback."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inference.ports.fitted.fit import ResourceMapping
from results.campaign.file import StoreError
from results.campaign.store import Store
from runner.cli.process import guard, stop
from runner.cli.support.mixes import NamedMapping, mapping_json
from runner.measuring.session import Session
from tests.attempts import undisturbed
from tests.runner.cli.commands import SIMULATED, command, command_of, environment, need_catalogue
from tests.shared import CHECKOUT
from tests.signals import signals_restored

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("catalogue")

MAPPING = NamedMapping(("ADD", "IMUL"), ResourceMapping((0, 1), ((0.25, 0.0), (0.25, 1.0)), {}))

SOON_SECONDS = 3.0
"""On a quiet machine; `undisturbed` waits for one."""


@pytest.fixture(scope="module")
def catalogue() -> None:
    need_catalogue()


def concluded(database: Path) -> int:
    try:
        with Store.read(database) as store:
            return len(store.outcomes())
    except StoreError:  # it is being made
        return 0


def started(arguments: list[str]) -> subprocess.Popen[str]:
    # Shells start what runs in the background with SIGINT ignored, and children inherit that.
    words = ["env", "--default-signal=INT", *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ([signal.SIGINT], 130),
        ([signal.SIGTERM], 143),
        ([signal.SIGINT, signal.SIGINT], 130),
        ([signal.SIGTERM, signal.SIGINT, signal.SIGTERM], 143),
    ],
)
def test_what_is_stopped_ends_soon_with_what_there_is(
    tmp_path: Path, sent: list[signal.Signals], code: int, jobs: int
) -> None:
    folders = (tmp_path / str(number) for number in itertools.count())
    undisturbed(lambda: seconds_until_stopped(next(folders), sent, code, jobs), lambda found: found < SOON_SECONDS)


def seconds_until_stopped(folder: Path, sent: list[signal.Signals], code: int, jobs: int) -> float:
    folder.mkdir()
    database, out = folder / "c.sqlite", folder / "out.json"
    arguments = [*SIMULATED, "--instr", "ADD*", "--db", str(database), "--json", str(out), "--jobs", str(jobs)]
    with started(command(arguments)) as campaign:
        while not (database.exists() and concluded(database)):
            assert campaign.poll() is None, campaign.communicate()
            time.sleep(0.1)
        at = time.monotonic()
        for number in sent:
            campaign.send_signal(number)
            time.sleep(0.1)
        _, said = campaign.communicate(timeout=60)
        seconds = time.monotonic() - at
    assert campaign.returncode == code, said
    assert "Traceback" not in said
    assert "the same command resumes it" in said
    results = json.loads(out.read_text())["results"]
    assert 0 < len(results) <= concluded(database)
    assert sorted(path.name for path in folder.iterdir()) == ["c.sqlite", "c.sqlite.log", "out.json"]
    return seconds


def interrupted(seconds: float) -> tuple[int, str]:
    """Return the exit code, and what was said, of a program that Ctrl-C reaches so long after its start."""
    start = [sys.executable, "-S", str(CHECKOUT / "runner" / "cli" / "process" / "start.py"), "runner.cli.characterize"]
    with started([*start, *SIMULATED, "--instr", "ADD*"]) as campaign:
        time.sleep(seconds)
        campaign.send_signal(signal.SIGINT)
        _, said = campaign.communicate(timeout=60)
    return campaign.returncode, said


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
def test_ctrl_c_while_the_program_is_loaded_is_no_traceback(seconds: float) -> None:
    """The interpreter has a traceback of its own in its first milliseconds, before any code of ours: three tries."""
    tries = [interrupted(seconds) for _ in range(3)]
    assert any(code in (130, -signal.SIGINT) and "Traceback" not in said for code, said in tries), tries


LOSES = """
import os, signal, sys, time
from runner.cli.process import stop
def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)
class Loses:
    def __del__(self):
        interrupted()
def loses():
    try:
        interrupted()
    except:
        pass
stop.raise_when_stopped()
{loses}()
try:
    time.sleep(60)
except stop.Stopped as stopped:
    sys.exit(stopped.take())
"""


@pytest.mark.parametrize("loses", ["Loses", "loses"])
def test_a_signal_is_not_lost_where_an_exception_is_dropped(loses: str) -> None:
    """By Python itself, or by a bare `except`, as packages have it for what they try to import."""
    done = subprocess.run(
        ["env", "--default-signal=INT", sys.executable, "-c", LOSES.format(loses=loses)],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
        env=environment(),
    )
    assert (done.returncode, done.stderr) == (130, "")


@pytest.fixture
def stoppable() -> Iterator[None]:
    """Signals stop a command in this process, too."""
    with signals_restored():
        # A shell that starts the tests in the background has them ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop.raise_when_stopped()
        yield


@pytest.mark.usefixtures("stoppable")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["sets", *SIMULATED, "--json"], (Session, "_report")),
        (["predict", "mapping.json", "--mix", "ADD; IMUL", "-o"], (ResourceMapping, "limits")),
    ],
)
def test_ports_commands_that_are_stopped_write_nothing(
    arguments: list[str],
    place: tuple[type, str],
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mapping.json").write_text(json.dumps(mapping_json(MAPPING)))
    with monkeypatch.context() as patch:
        patch.setattr(*place, lambda *_: os.kill(os.getpid(), number))
        assert command_of("ports", [*arguments, "out"]) == 128 + number
    assert capfd.readouterr() == ("", f"error: stopped by {stop.NAMES[number]}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mapping.json"]


def in_bash(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True, env=environment())


def test_a_reader_that_goes_away_ends_the_program_as_sigpipe_does() -> None:
    line = " ".join(command(["--list", "--all"]))
    done = in_bash(f"{line} | head -1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (141, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        "characterize ADD_GPRv_GPRv_01 --backend sim --arch HSW",  # a table by rich
        "characterize --help",  # rich inside typer
        "db query --fields",
        "--help",
        "nosuch 2>&1",
        "",
    ],
)
def test_whatever_writes_ends_so_when_the_reader_has_gone(words: str) -> None:
    line = f"{sys.executable} -m runner.cli.uopscope {words}"
    done = in_bash(f"(sleep 0.1; {line}; echo $? >&3) 3>&2 | true")
    assert done.stderr == "141\n"


def test_an_error_that_nobody_reads_keeps_its_code() -> None:
    line = " ".join(command(["NOSUCH"]))
    done = in_bash(f"{line} 2>&1 | true; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == guard.ExitCode.BAD_INPUT


OTHER_VERSION = "#!/bin/sh\necho 3.13\n"
"""A Python that says which version it is, and does nothing else."""


@pytest.mark.parametrize(
    ("python", "said"),
    [
        (None, " is no Python 3.11"),
        ("#!/bin/sh\n", " is no Python 3.11"),  # it runs, and is no Python
        ("#!/bin/sh\necho 3.10\n", " is no Python 3.11"),
        (OTHER_VERSION, " is another version than the environment's"),
    ],
)
def test_a_named_python_that_cannot_be_used_is_refused(tmp_path: Path, python: str | None, said: str) -> None:
    named = tmp_path / "python3"
    if python is not None:
        text = python.replace("3.13", "3.12") if sys.version_info[:2] == (3, 13) else python
        named.write_text(text, encoding="utf-8")
        named.chmod(0o755)
    done = subprocess.run(
        [str(CHECKOUT / "characterize"), "--help"],
        check=False,
        capture_output=True,
        text=True,
        env=environment() | {"PYTHON": str(named)},
    )
    assert done.returncode == 3
    assert f"PYTHON={named}{said}" in done.stderr
