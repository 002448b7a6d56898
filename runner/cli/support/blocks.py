"""Writes tables of thousands of blocks. Where they go to a file, a stopped run is resumed by the same command."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli.process import stop
from runner.cli.support.counting import Counting
from runner.cli.support.own_code import lines_of, write_text
from runner.own_code.block_shapes import read_blocks
from runner.own_code.journal import is_resumable
from xed_convert.files import check_writable, named_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from runner.own_code.journal import Journal

    RowsOfBlocks = Callable[[Journal | None, Callable[[int, int], None]], Iterator[Sequence[str]]]
    """Yields the rows of all blocks in order; keeps them in a journal, and tells how many are done, of how many."""


def blocks_of(source: str) -> list[bytes]:
    """Return all blocks of a file ("-": of standard input), so that no work is done before a line is refused.

    Raises:
        UsageError: the file cannot be read.
        MeasureError: a line is no block; or there is no block.
    """
    return list(read_blocks(lines_of(source), source))


def write_blocks(
    target: str, header: Sequence[str], rows: RowsOfBlocks, total: int, journal_of: Callable[[Path], Journal]
) -> None:
    """Write a table of blocks.

    Args:
        target: a file, which appears when it is whole; or "-" for standard output, where a row appears when it is done.
        header: the names of the columns.
        total: how many blocks there are.
        rows: makes the rows.
        journal_of: opens the journal beside the file. Standard output, devices and pipes have none.

    Raises:
        OutputError: the file or its journal cannot be written.
    """
    if target == "-":
        with _Told(total, "with --csv FILE it could be resumed") as told:
            _print(header, rows(None, told))
        return
    check_writable(target)
    if not is_resumable(target):
        with _Told(total, "into a file it could be resumed") as told, named_write(target) as file:
            file.writelines(_line(row).encode() for row in (header, *rows(None, told)))
        return
    with journal_of(Path(target)) as journal:
        if journal.rows:
            print(f"{journal.path}: goes on where it was stopped", file=sys.stderr)
        with _Told(total, "the same command resumes it") as told:
            made = list(rows(journal, told))
        write_text(target, lambda: "".join(map(_line, (header, *made))))
        journal.done()
    print(f"{total} blocks: {target}", file=sys.stderr)


class _Told(Counting):
    """Progress in blocks. If it is stopped, a line says how far it was, and what to do."""

    def __init__(self, total: int, hint: str) -> None:
        super().__init__("blocks")
        self._hint, self._far = hint, (0, total)

    def __call__(self, done: int, total: int) -> None:
        self._far = done, total
        super().__call__(done, total)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        if isinstance(error, (KeyboardInterrupt, stop.Stopped)):
            done, total = self._far
            print(f"stopped after {done} of {total} blocks; {self._hint}", file=sys.stderr)


def _print(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows at once: another program may read them, and after a stop they are there."""
    sys.stdout.write(_line(header))
    for row in rows:
        sys.stdout.write(_line(row))
        sys.stdout.flush()


def _line(row: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue()
