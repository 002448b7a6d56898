"""The systemd units of nightly runs: written, enabled, and removed without a trace."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from runner.nightly.night import NightlyError, NightlyInputError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path("/etc/systemd/system")
NAME = "uopscope-nightly"
UNITS = (f"{NAME}.service", f"{NAME}.timer")


def unit_texts(command: Sequence[str], calendar: str) -> dict[str, str]:
    """Return the text of each unit; `command` is what the service runs, `calendar` a systemd calendar expression."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("runner.nightly", "templates"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - units are no markup
    )
    # In a unit a percent sign begins a specifier, and a dollar sign a variable.
    quoted = shlex.join(command).replace("%", "%%").replace("$", "$$")
    values = {"command": quoted, "calendar": calendar}
    return {name: environment.get_template(f"{name}.j2").render(values) for name in UNITS}


def install(command: Sequence[str], calendar: str, folder: Path = FOLDER) -> list[Path]:
    """Write the units and start the timer; return their paths.

    Raises:
        NightlyError: systemd does not run here, or the folder cannot be written.
        NightlyInputError: the calendar is not understood.
    """
    _need_systemd()
    if _run(["systemd-analyze", "calendar", calendar]).returncode:
        raise NightlyInputError(f"systemd does not understand the time {calendar!r}", hint="for example: *-*-* 02:30")
    written = []
    for name, text in unit_texts(command, calendar).items():
        with atomic_write(folder / name) as file:
            file.write(text.encode())
        written.append(folder / name)
    try:
        _systemctl("daemon-reload")
        _systemctl("enable", "--now", f"{NAME}.timer")
    except NightlyError:
        _remove(folder)
        raise
    return written


def uninstall(folder: Path = FOLDER) -> list[Path]:
    """Stop the timer and remove the units; return their paths.

    Raises:
        NightlyError: systemd does not run here, or the folder cannot be written.
    """
    _need_systemd()
    if (folder / f"{NAME}.timer").exists():
        _systemctl("disable", "--now", f"{NAME}.timer")
    removed = _remove(folder)
    _systemctl("daemon-reload")
    return removed


def _remove(folder: Path) -> list[Path]:
    found = [folder / name for name in UNITS if (folder / name).exists()]
    for path in found:
        try:
            path.unlink()
        except OSError as error:
            raise NightlyError(f"{path}: {error.strerror}", hint="run it as root") from error
    return found


def _need_systemd() -> None:
    if shutil.which("systemctl") is None:
        raise NightlyError(
            "systemd does not run here", hint="run `uopscope nightly` from cron instead; it resumes by itself"
        )


def _systemctl(*arguments: str) -> None:
    done = _run(["systemctl", *arguments])
    if done.returncode:
        raise NightlyError(f"systemctl {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
