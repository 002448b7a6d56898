"""The finished rows of a table, in a file beside it, so that a stopped sweep or list of blocks can be resumed.

The first line says which table it is, then there is a line per row. The file is removed when the table is written.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from xed_convert.files import OutputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

SUFFIX = ".partial"


def is_resumable(output: str) -> bool:
    """Return whether a journal can be beside an output: it is a file, and no device, pipe, or standard output ("-")."""
    path = Path(output)
    return output != "-" and (path.is_file() or not path.exists())


class Journal:
    """Rows by their place in the table; `rows` are those that an earlier start made."""

    def __init__(self, output: Path, table: Mapping[str, Any]) -> None:
        """Say for which output it is, and which table; what is there of another table is dropped.

        Raises:
            OutputError: the file cannot be written, or another process writes it.
        """
        self.path = output.with_name(output.name + SUFFIX)
        self.rows: dict[int, dict[str, Any]] = {}
        self._header = json.dumps(table, sort_keys=True)
        self._file = self._open()

    def _open(self) -> IO[str]:
        try:
            file = self.path.open("a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise OutputError(f"{self.path}: another run writes it", hint="name another output") from None
            self._read(file)
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from error
        return file

    def _read(self, file: IO[str]) -> None:
        """Take over what is there of this table, and drop a line that was cut off."""
        file.seek(0)
        header, *lines = file.read().split("\n")
        if header == self._header:
            for line in lines[:-1]:
                place, row = json.loads(line)
                self.rows[place] = row
        file.truncate(0)
        file.write(self._header + "\n")
        for place, row in self.rows.items():
            self._write(file, place, row)
        file.flush()

    def add(self, place: int, row: Mapping[str, object]) -> None:
        """Keep a row.

        Raises:
            OutputError: the disk is full.
        """
        try:
            self._write(self._file, place, row)
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from error

    def _write(self, file: IO[str], place: int, row: Mapping[str, object]) -> None:
        file.write(json.dumps([place, row]) + "\n")

    def done(self) -> None:
        """Remove the file: the output has everything."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
