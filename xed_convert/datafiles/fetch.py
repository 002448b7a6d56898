"""Getting XED's datafiles: a shallow git clone of the pinned version into a cache."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING

from xed_convert.errors import UopscopeError
from xed_convert.files import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable

PINNED_TAG = "v2026.07.15"
"""The version from which the shipped catalogue is made."""

REPOSITORY = "https://github.com/intelxed/xed.git"
REPOSITORY_VARIABLE = "UOPSCOPE_XED_REPOSITORY"
"""An environment variable that names another repository: a mirror or a local clone."""

TIMEOUT_SECONDS = 900.0
"""After this time a clone is given up; a slow connection is done by then."""


class FetchError(UopscopeError):
    """The datafiles cannot be fetched."""

    exit_code = 3


def clones() -> Path:
    """Return the folder where clones are kept.

    Raises:
        FetchError: there is no home folder.
    """
    try:
        return cache_folder("xed")
    except RuntimeError as error:  # no HOME, and no such user
        raise FetchError("there is no home folder to keep XED in", hint="set XDG_CACHE_HOME to a folder") from error


def cached(tag: str = PINNED_TAG) -> Path | None:
    """Return the checkout of that version if it is in the cache.

    Raises:
        FetchError: there is no home folder.
    """
    target = clones() / tag
    return target if (target / "datafiles" / "files.cfg").is_file() else None


def fetch(tag: str = PINNED_TAG, *, progress: Callable[[str], None] | None = None) -> Path:
    """Return the checkout of that version; clone it if it is not in the cache. A failed clone leaves nothing behind.

    `progress` gets lines of text on how far the clone is.

    Raises:
        FetchError: git is missing, the repository cannot be reached, or has no such tag.
    """
    if found := cached(tag):
        return found
    target = clones() / tag
    repository = os.environ.get(REPOSITORY_VARIABLE) or REPOSITORY
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{tag}.", dir=target.parent))
        _clone(repository, tag, temporary / "xed", progress or _nothing)
        shutil.rmtree(target, ignore_errors=True)
        (temporary / "xed").replace(target)
    except OSError as error:
        raise FetchError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def _nothing(_text: str) -> None:
    """Show no progress."""


def _clone(repository: str, tag: str, target: Path, progress: Callable[[str], None]) -> None:
    """Clone a tag without its history.

    Raises:
        FetchError: git is missing, or fails; the message has git's reason.
    """
    progress(f"cloning {repository}")
    command = ["git", "-c", "advice.detachedHead=false", "clone", "--progress", "--depth", "1", "--branch", tag]
    try:
        process = subprocess.Popen(
            [*command, "--", repository, str(target)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            start_new_session=True,  # so that `_end` reaches git's children, too
        )
    except FileNotFoundError as error:
        raise FetchError("git is not installed", hint="Install git, or name a datafiles folder.") from error
    said = _follow(process, repository, progress)
    if process.returncode:
        reasons = [line for line in said if line.startswith("fatal: ")] or said or ["no reason given"]
        hint = f"Check the network, or set {REPOSITORY_VARIABLE} to a mirror, or name a datafiles folder."
        raise FetchError(f"git cannot clone {tag} of {repository}: {reasons[0].removeprefix('fatal: ')}", hint=hint)


def _follow(process: subprocess.Popen[str], repository: str, progress: Callable[[str], None]) -> list[str]:
    """Pass on git's progress until it ends; return its other lines.

    Raises:
        FetchError: it takes too long.
    """
    late = Event()

    def end() -> None:
        late.set()
        _end(process)

    timer = Timer(TIMEOUT_SECONDS, end)
    timer.start()
    said: list[str] = []
    assert process.stderr is not None
    try:
        for line in process.stderr:  # a carriage return ends progress; Python reads it as the end of a line
            text = line.strip()
            if "%" in text:
                progress(text)
            elif text:
                said.append(text)
        process.wait()
    finally:
        timer.cancel()
        _end(process)
        process.stderr.close()
    if late.is_set():
        raise FetchError(f"git clone of {repository} takes more than {TIMEOUT_SECONDS:g} s")
    return said


def _end(process: subprocess.Popen[str]) -> None:
    """End git and its children if they are still running."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
