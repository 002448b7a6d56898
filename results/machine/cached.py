"""Keeps the machines that were read from files: a second reading of the same file takes a tenth of the time.

A machine is kept in the folder that `UOPSCOPE_CACHE` names (empty: none is kept), else in `uopscope/machines` in the
user's folder for such files (XDG Base Directory Specification). Its name is a hash over what it was made from: the
contents and name of the file, the architecture, Python's version, and the code and tables that read it. So nothing in
there is out of date, and it may be removed at any time. The last `KEPT` machines that were used stay. Of an SQLite file
its times of change count, not its contents: a campaign over the full ISA has gigabytes of samples.

The files are pickles, which can run code when they are read. So only those are read that this user wrote, in a folder
that nobody else can write to.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from results.campaign.packed import SQLITE
from results.version import hash_of_sources
from xed_convert.files import OutputError, atomic_write, cache_folder
from xed_convert.garbage import without_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VARIABLE = "UOPSCOPE_CACHE"
"""The environment variable that names the folder."""

KEPT = 16
"""How many machines are kept; one of a whole instruction set takes half a megabyte."""

SUFFIX = ".machine"
"""How the files end."""

SOURCES = ("results", "xed_convert")
"""Packages whose code and tables make a machine of a file."""

LOG_SUFFIX = "-wal"
"""Behind the name of an SQLite file: what it does not contain yet (SQLite, "Write-Ahead Logging", section 2)."""


T = TypeVar("T")


def kept_or_read(path: Path, names: Sequence[str], read: Callable[[], list[T]]) -> list[T]:
    """Return the machines of architectures in a file: those that are kept, if all are, else what `read` returns.

    They are kept then, unless the file has changed meanwhile.
    """
    folder = _folder()
    if folder is None:
        return read()
    places = _places(folder, path, names)
    found: list[T | None] = [_kept(place) for place in places]
    if found and None not in found:
        return [one for one in found if one is not None]
    machines = read()
    if places == _places(folder, path, names):
        for place, machine in zip(places, machines, strict=True):
            _keep(place, machine)
    return machines


def _folder() -> Path | None:
    """Return the folder, which there may not be yet; None if nothing shall be kept."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    try:
        folder = cache_folder("machines")
        owner = next(one for one in folder.parents if one.exists()).stat().st_uid
    except (OSError, RuntimeError):  # the user has no home, or cannot look into it
        return None
    # `sudo` may leave the home of another user, who could not remove what root puts there.
    return folder if owner == os.geteuid() else None


def _places(folder: Path, path: Path, names: Sequence[str]) -> list[Path]:
    """Return where the machines of a file are kept; [] if the file cannot be read, which its reader explains."""
    whole = hashlib.sha256(f"{path.name}\0{sys.version}\0{hash_of_sources(SOURCES)}\0".encode())
    try:
        whole.update(_identity(path))
    except OSError:
        return []
    places = []
    for name in names:
        one = whole.copy()
        one.update(name.casefold().encode())
        places.append(folder / f"{one.hexdigest()}{SUFFIX}")
    return places


def _identity(path: Path) -> bytes:
    """Return what changes with a file: a hash of its contents, of an SQLite file the times and sizes that Linux has."""
    with path.open("rb") as file:
        if file.read(len(SQLITE)) != SQLITE:
            file.seek(0)
            return hashlib.file_digest(file, "sha256").digest()
    log = path.with_name(path.name + LOG_SUFFIX)
    found = [one.stat() for one in (path, log) if one.exists()]
    return repr([(one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found]).encode()


def _kept(place: Path) -> Any:  # noqa: ANN401 - a pickle of what `read` returned
    """Return what is kept there, None if that is nothing, is damaged, or may be somebody else's."""
    try:
        with place.open("rb") as file:
            if not (_is_ours(place.parent.stat()) and _is_ours(os.fstat(file.fileno()))):
                return None
            packed = zlib.decompress(file.read())
    except (OSError, zlib.error):
        return None
    with suppress(OSError):
        os.utime(place)
    with without_collection():
        return pickle.loads(packed)  # noqa: S301 - this user wrote it, see above


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _keep(place: Path, machine: object) -> None:
    """Write a machine, if that can be done, and remove those that were not used for longest."""
    with suppress(OSError, OutputError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(place.parent.stat()):
            return
        with atomic_write(place) as file:
            file.write(zlib.compress(pickle.dumps(machine, protocol=pickle.HIGHEST_PROTOCOL), 1))
        place.chmod(0o600)
        oldest = sorted(place.parent.glob(f"*{SUFFIX}"), key=lambda one: one.stat().st_mtime)[:-KEPT]
        for one in oldest:
            one.unlink(missing_ok=True)
