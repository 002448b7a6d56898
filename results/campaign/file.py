"""Opening a campaign's SQLite file: locks, tables, and messages about damaged files."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sqlite3
import zlib
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APPLICATION_ID = 0x756F7073
"""Marks the file as ours ("uops" in ASCII)."""

SCHEMA_VERSION = 2
"""Files of version 1 can be read and continued.

Their table of microbenchmarks has no row numbers: rows of 1 KB go to random places of it, and it takes twice the room.
"""

MAXIMUM_VALUE = 64 << 20
"""Bytes of one value: a larger one was not written by us, and is not read into memory."""


class StoreError(UopscopeError):
    """A campaign file cannot be read or written; nothing in it was damaged by the attempt."""

    exit_code = 3


class NoSuchFileError(StoreError):
    """There is no campaign file of that name: the input is wrong, not the machine."""

    exit_code = 2


class Lock:
    """One writer per campaign file. The kernel gives the lock back however the process ends.

    A file of its own is locked: closing any descriptor of the database itself would drop SQLite's own locks.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-lock")
        self._descriptor = self._acquire(database)

    def _acquire(self, database: Path) -> int:
        while True:
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise _cannot_write(database, error) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                raise StoreError(
                    f"{database}: another campaign is writing to it", hint="wait for it, or name another file"
                ) from error
            if self._is_current(descriptor):
                return descriptor
            os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        """Whether the file that was locked is still the one of that name: its last owner removes it."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the lock file and let others have the lock."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file in a mode of SQLite's URIs, with the limits that hostile files need.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAXIMUM_VALUE)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open read-only. Where the log's shared memory cannot be made, read the file without its log.

    Raises:
        StoreError: it is not ours.
        sqlite3.Error: it cannot be read.
    """
    try:
        return _checked(path, connect(path, "ro"))
    except sqlite3.OperationalError as error:
        if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        return _checked(path, connect(path, "ro&immutable=1"))


def _checked(path: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return the connection if the file is ours, else close it."""
    try:
        _check_ours(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file, or check that they are ours.

    Raises:
        StoreError: they are not.
        sqlite3.Error: it cannot be written.
    """
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            make_tables(connection)
        connection.execute("COMMIT")
        _check_ours(path, connection)
    except BaseException:
        connection.close()
        raise


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of `schema.sql`, and mark the file as ours."""
    script = resources.files("results.campaign").joinpath("schema.sql").read_text(encoding="utf-8")
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _check_ours(path: Path, connection: sqlite3.Connection) -> None:
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"{path}: nothing is stored there yet")
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path}: an SQLite file, but not one of uopscope's", hint="name another file")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in range(1, SCHEMA_VERSION + 1):
        raise StoreError(
            f"{path}: made by another version of uopscope (its tables are version {version}, here {SCHEMA_VERSION})",
            hint="use the version that made it, or name another file",
        )
    ours = _our_tables(version)
    missing = {sql for sql in ours if sql not in _tables(connection)}
    triggers = [sql for sql in _tables(connection) if sql.startswith("CREATE TRIGGER") and sql not in ours]
    if missing or triggers:
        raise StoreError(f"{path}: its tables are not those of uopscope", hint="damaged or changed: name another file")


def _tables(connection: sqlite3.Connection) -> set[str]:
    """Return the statements that made what a file has, without comments and blanks."""
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {" ".join(re.sub(r"--[^\n]*", "", sql).split()) for (sql,) in found}


@cache
def _our_tables(version: int) -> frozenset[str]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        make_tables(connection)
        found = _tables(connection)
    finally:
        connection.close()
    if version == 1:
        found = {sql + " WITHOUT ROWID" * sql.startswith("CREATE TABLE benchmark ") for sql in found}
    return frozenset(found)


@contextmanager
def damage_said(path: Path) -> Iterator[None]:
    """Turn any exception from reading a damaged or hostile file into an error that says so."""
    try:
        with errors_about(path):
            yield
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error, RecursionError, OverflowError) as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise StoreError(f"{path}: damaged, or not written by uopscope ({what})", hint=_RECOVER) from error


@contextmanager
def errors_about(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "a pipe or device"
            raise StoreError(f"{path}: it is {what}, and no file", hint="name a file") from error
        raise StoreError(f"{path}: {error}", hint=_HINTS.get(_code(error), "")) from error


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's code of an error; errors of decoding a row have none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


_RECOVER = "recover it with sqlite3's .recover, or start another"

_HINTS = {
    sqlite3.SQLITE_FULL: "free some space and start again: the stored samples are intact, and the campaign is resumed",
    sqlite3.SQLITE_READONLY: "it cannot be written: change its permissions, or name another file",
    sqlite3.SQLITE_CANTOPEN: "the folder has to exist and, for a campaign, to be writable",
    sqlite3.SQLITE_NOTADB: "not an SQLite file: name another file",
    sqlite3.SQLITE_CORRUPT: _RECOVER,
    sqlite3.SQLITE_BUSY: "another program holds it: close that first",
    sqlite3.SQLITE_IOERR: "the disk reported an error",
}


def _cannot_write(path: Path, error: OSError) -> StoreError:
    hint = "free some space" if error.errno == errno.ENOSPC else "its folder has to exist and to be writable"
    return StoreError(f"{path}: cannot be written: {error.strerror}", hint=hint)
