"""Files are written whole or not at all: to a temporary name in the same folder, then renamed."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutputError(UopscopeError):
    """A file cannot be written; the message names it."""


def check_writable(path: Path | str) -> None:
    """Check before long work that `atomic_write` can write there. Nothing is left behind.

    Raises:
        OutputError: the folder does not exist or cannot be written, or `path` is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise OutputError(f"{path}: cannot be written: it is a folder")
    if not path.exists() or path.is_file():
        handle, name = _temporary(_target(path))
        os.close(handle)
        Path(name).unlink()


@contextmanager
def atomic_write(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` for writing bytes; rename it to `path` if the block does not raise.

    Until then the old file stays. The new one gets the permissions that a plain `open` gives. If `path` is a link, its
    target is replaced. A device or pipe (`/dev/null`) is written to directly.

    Raises:
        OutputError: the folder does not exist or cannot be written, or the disk is full.
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with _device(path) as file:
            yield file
        return
    path = _target(path)
    handle, name = _temporary(path)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def _target(path: Path) -> Path:
    """Return where a path leads.

    Raises:
        OutputError: it is a link that leads back to itself.
    """
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError before Python 3.13
        raise OutputError(f"{path}: cannot be written: the link leads nowhere") from error


def _temporary(path: Path) -> tuple[int, str]:
    """Make an empty file beside `path`; return its descriptor and name."""
    try:
        return tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        hint = "" if path.parent.is_dir() else f"the folder {path.parent} does not exist"
        raise OutputError(f"{path}: cannot be written: {error.strerror}", hint=hint) from error


@contextmanager
def _device(path: Path) -> Iterator[IO[bytes]]:
    """Open a device or pipe for writing."""
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    """Return the process's file creation mask. It can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
