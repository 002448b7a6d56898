"""The finished rows of a table, in a file beside it, so that a stopped sweep or list of blocks can be resumed.

The first line says which table it is, then there is a line per row. The file is removed when the table is written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from results.campaign import codec
from xed_convert.files import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from results.model import Provenance

SUFFIX = ".partial"


def is_resumable(output: str) -> bool:
    """Return whether a journal can be beside an output: it is a file, and no device, pipe, or standard output ("-")."""
    path = Path(output)
    return output != "-" and (path.is_file() or not path.exists())


def machine_of(provenance: Provenance) -> dict[str, Any]:
    """Return the machine of a table's header: rows of an earlier start on it are those of this one."""
    return {**codec.encode_provenance(provenance), "time": ""}


def digest_of(blocks: Sequence[bytes]) -> str:
    """Return what stands for a list of blocks in a table's header."""
    return hashlib.sha256(b"\n".join(blocks)).hexdigest()


def resumed(
    journal: Journal | None, places: Sequence[int], make: Callable[[list[int]], Iterator[Mapping[str, Any]]]
) -> Iterator[Mapping[str, Any]]:
    """Yield the row of each place: one that the journal has, or one that is made and then kept.

    Args:
        journal: the rows of an earlier start (None: there is none, and nothing is kept).
        places: all places of the table, in order.
        make: yields the rows of the places that it gets, in order.

    Raises:
        OutputError: the journal cannot be written.
    """
    known = journal.rows if journal is not None else {}
    made = make([place for place in places if place not in known])
    for place in places:
        if place in known:
            yield known[place]
            continue
        row = next(made)
        if journal is not None:
            journal.add(place, row)
        yield row


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
