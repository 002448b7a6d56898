"""Shared by commands that take code of a user: the source of the code, lists of blocks, and output files."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from runner.cli.process.guard import UsageError
from xed_convert.files import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


def one_source(given: Mapping[str, str | None], object_file: Path | None, symbol: str | None) -> str:
    """Return the one source of the code (see `runner.own_code.reading.sources`).

    Args:
        given: the sources by option; None: the option was not given.
        object_file: the file of `--object`, which is one more source.
        symbol: the function in it.

    Raises:
        UsageError: there is no source, or more than one; or a file without a symbol.
    """
    sources = {**given, "--object": None if object_file is None else f"object:{object_file}:{symbol or ''}"}
    there = {name: source for name, source in sources.items() if source is not None}
    if len(there) != 1:
        named = " and ".join(there) or "nothing"
        raise UsageError(f"one source of code is needed, not {named}", hint=f"one of {', '.join(sources)}, --blocks")
    if (object_file is None) != (symbol is None):
        raise UsageError("--object FILE and --symbol NAME go together")
    return next(iter(there.values()))


def text_of(file: Path, most: int) -> tuple[str, str]:
    """Return the text of a file ("-": of standard input) of at most `most` bytes, and how messages call it.

    Raises:
        UsageError: standard input cannot be read.
        MeasureError: the file cannot be read; or there is no text, or it is longer.
    """
    from runner.own_code.reading.sources import STANDARD_INPUT, read_input, read_text  # noqa: PLC0415 - for `--help`

    if str(file) != "-":
        return read_text(file, most), str(file)
    try:
        return read_input(_standard_input().buffer, most), STANDARD_INPUT
    except OSError as error:
        raise UsageError(f"{STANDARD_INPUT}: {error.strerror}") from error


def _standard_input() -> TextIO:
    """Return standard input.

    Raises:
        UsageError: it is closed.
    """
    if sys.stdin is None:
        raise UsageError("- is standard input, which is closed", hint="COMMAND | uopscope analyze -, or name a file")
    return sys.stdin


def lines_of(source: str) -> list[str]:
    """Return the lines of a file, or of standard input.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        if source == "-":
            return _standard_input().read().splitlines()
        return Path(source).read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"{source}: {getattr(error, 'strerror', None) or error}") from error


@contextmanager
def shown_anyway(hint: str = "the results were shown nevertheless") -> Iterator[Callable[[Callable[[], None]], None]]:
    """Yield a function that calls what writes a file. Failures are raised at the end of the block, which shows results.

    So a disk that became full during a measurement costs the file, and not what was measured.

    Raises:
        OutputError: names every file that could not be written.
    """
    failures: list[OutputError] = []

    def attempt(write: Callable[[], None]) -> None:
        try:
            write()
        except OutputError as error:
            failures.append(error)

    yield attempt
    if failures:
        raise OutputError("\nerror: ".join(error.message for error in failures), hint=hint) from failures[0]


@contextmanager
def written(target: str) -> Iterator[IO[bytes]]:
    """Open a file that appears when it is whole, compressed if its name says so, or standard output ("-")."""
    from xed_convert.files import named_write  # noqa: PLC0415 - most texts go to standard output

    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with named_write(target) as file:
        yield file


def write_text(target: str | None, text: Callable[[], str]) -> None:
    """Write a text to a file, to standard output ("-"), or nowhere (None).

    Raises:
        OutputError: the file cannot be written.
    """
    write_pieces(target, lambda: (text(),))


def write_pieces(target: str | None, pieces: Callable[[], Iterable[str]]) -> None:
    """Write a text that comes in pieces, as `write_text` does."""
    from xed_convert.files import check_writable, named_write  # noqa: PLC0415 - most texts go to standard output

    if target == "-":
        sys.stdout.writelines(pieces())
    elif target is not None:
        check_writable(target)
        with named_write(target) as file:
            file.writelines(piece.encode() for piece in pieces())
