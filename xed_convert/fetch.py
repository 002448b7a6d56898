"""Getting XED's datafiles: a shallow git clone of the pinned version into a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from xed_convert.errors import UopscopeError

PINNED_TAG = "v2026.07.15"
"""The version that the shipped catalogue is made from."""

REPOSITORY = "https://github.com/intelxed/xed.git"
REPOSITORY_VARIABLE = "UOPSCOPE_XED_REPOSITORY"
"""An environment variable that names another repository: a mirror or a local clone."""

TIMEOUT_SECONDS = 900


class FetchError(UopscopeError):
    """The datafiles cannot be had."""

    exit_code = 3


def cache_folder() -> Path:
    """Return the folder where clones are kept.

    Raises:
        FetchError: there is no home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "uopscope" / "xed"
    except RuntimeError as error:  # no HOME, and no such user
        raise FetchError("there is no home folder to keep XED in", hint="set XDG_CACHE_HOME to a folder") from error


def fetch(tag: str = PINNED_TAG) -> Path:
    """Return the checkout of that version, cloned if it is not in the cache; a clone that fails leaves nothing.

    Raises:
        FetchError: git is missing, the repository cannot be reached, or has no such tag.
    """
    target = cache_folder() / tag
    if (target / "datafiles" / "files.cfg").is_file():
        return target
    repository = os.environ.get(REPOSITORY_VARIABLE) or REPOSITORY
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{tag}.", dir=target.parent))
        _clone(repository, tag, temporary / "xed")
        shutil.rmtree(target, ignore_errors=True)
        (temporary / "xed").replace(target)
    except OSError as error:
        raise FetchError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def _clone(repository: str, tag: str, target: Path) -> None:
    """Clone a tag without its history.

    Raises:
        FetchError: git is missing or fails; the message has its last line.
    """
    command = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1", "--branch", tag]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            [*command, "--", repository, str(target)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env=environment,
        )
    except FileNotFoundError as error:
        raise FetchError("git is not installed", hint="Install git, or name a datafiles folder.") from error
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"git clone of {repository} takes more than {TIMEOUT_SECONDS} s") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        hint = f"Check the network, or set {REPOSITORY_VARIABLE} to a mirror, or name a datafiles folder."
        raise FetchError(f"git cannot clone {tag} of {repository}: {reason}", hint=hint)
