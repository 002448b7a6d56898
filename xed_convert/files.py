"""Files are written whole or not at all: to a temporary name in the same folder, then renamed.

What people name as an output is packed as its name says (`named_write`).
"""

from __future__ import annotations

import gzip
import lzma
import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutputError(UopscopeError):
    """A file cannot be written; the message names it."""


NOT_WRITTEN = frozenset({".7z", ".br", ".bz2", ".lz", ".lz4", ".lzma", ".tar", ".tgz", ".txz", ".z", ".zip", ".zst"})
"""Suffixes of packed files that `named_write` does not make: under such a name, other programs expect just that."""


def cache_folder(name: str) -> Path:
    """Return a folder in the user's one for files that can be made again (XDG Base Directory Specification).

    Raises:
        RuntimeError: the user has no home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "uopscope" / name


class PackingError(OutputError):
    """The name of an output asks for a way of packing that there is not: the input is wrong, not the machine."""

    exit_code = 2


def check_writable(path: Path | str) -> None:
    """Check before long work that `named_write` can write there. Nothing is left behind.

    Raises:
        OutputError: the folder does not exist or cannot be written, or `path` is a folder.
        PackingError: the name says that the file is packed in a way that is not known here.
    """
    path = Path(path)
    if path.suffix.lower() in NOT_WRITTEN:
        hint = "behind a name, .gz or .xz packs the file; without them it is plain"
        raise PackingError(f"{path}: no {path.suffix} file can be written", hint=hint)
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


@contextmanager
def named_write(path: Path | str) -> Iterator[IO[bytes]]:
    """Write a file as `atomic_write` does, packed if its name ends in .gz or .xz.

    Raises:
        OutputError: the folder does not exist or cannot be written, or the disk is full.
    """
    suffix = Path(path).suffix
    with atomic_write(path) as file:
        if suffix == ".xz":
            with lzma.open(file, "wb") as packed:
                yield packed
        elif suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:  # the same bytes every time
                yield cast("IO[bytes]", packed)
        else:
            yield file


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
