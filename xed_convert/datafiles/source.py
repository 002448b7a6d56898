"""Lines of a datafile with their places, without comments, continued lines joined.

In XED's datafiles `#` starts a comment anywhere in a line and a trailing backslash continues a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xed_convert.errors import ConversionError

if TYPE_CHECKING:
    from pathlib import Path


class Location(NamedTuple):
    """A line of a file. Errors about it begin with its `str()`, which is `file:line`."""

    path: str
    line: int

    def __str__(self) -> str:
        """Return `file:line`."""
        return f"{self.path}:{self.line}"


class FileLine(NamedTuple):
    """A non-empty line without comment; `number` counts the file's lines from 1 (of joined lines, the first)."""

    path: str
    number: int
    text: str

    @property
    def location(self) -> Location:
        """Where the line begins."""
        return Location(self.path, self.number)

    def error(self, message: str, *, hint: str = "") -> ConversionError:
        """Return (not raise) an error that begins with the place of this line."""
        return ConversionError(f"{self.path}:{self.number}: {message}", hint=hint)


def read_text(path: Path, *, named_by: str = "") -> str:
    """Read a datafile as UTF-8.

    Raises:
        ConversionError: the file is missing, unreadable or not text; begins with `named_by` (`file:line`) if given.
    """
    prefix = f"{named_by}: " if named_by else f"{path}: "
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        message = f"{prefix}the file {path} does not exist"
        raise ConversionError(message, hint="The datafiles are incomplete: get them again.") from error
    except (OSError, UnicodeDecodeError) as error:
        message = f"{prefix}cannot read {path} as text: {error}"
        raise ConversionError(message) from error


def split_lines(text: str, path: str) -> list[FileLine]:
    """Strip comments, join continued lines, and return the lines that are not empty.

    Raises:
        ConversionError: the last line ends with a backslash.
    """
    lines: list[FileLine] = []
    pending, start = "", 0
    number = 0
    for number, raw in enumerate(text.removesuffix("\n").split("\n"), 1):
        stripped = raw.partition("#")[0].strip()
        if not stripped and (not pending or "#" in raw):
            continue  # an empty line, or a comment between continued ones
        if stripped[-1:] == "\\":
            start = start or number
            pending += stripped[:-1] + " "
            continue
        if pending:
            stripped = (pending + stripped).strip()
        if stripped:
            lines.append(FileLine(path, start or number, stripped))
        pending, start = "", 0
    if pending:
        message = f"{path}:{number}: the file ends in a continued line (expected a line after the backslash)"
        raise ConversionError(message, hint="The file is probably truncated: get it again.")
    return lines


def read_lines(path: Path, name: str, *, named_by: str = "") -> list[FileLine]:
    """Read a datafile as lines; `name` is the path to show in errors.

    Raises:
        ConversionError: as `read_text` and `split_lines`.
    """
    return split_lines(read_text(path, named_by=named_by), name)
