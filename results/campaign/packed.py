"""The conclusions of a campaign as text, packed by xz: the format of the shipped campaigns.

The lines are JSON objects. The first says what the file is. Each start of the campaign has a line with its `provenance`
and `backend`, and then a line for each of its conclusions (`result`, `inference`, `time`). `results.campaign.codec`
describes their members. There are no samples, so inference cannot be repeated.
"""

from __future__ import annotations

import json
import lzma
from typing import IO, TYPE_CHECKING, Any

from results.campaign import codec
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from results.campaign.records import Conclusion
    from results.model import Provenance

SUFFIX = ".jsonl.xz"
SUFFIXES = (".sqlite", ".db", SUFFIX)
"""The usual endings of campaign files."""

SQLITE = b"SQLite format 3\0"
"""The first bytes of an SQLite file: `characterize --db` takes any name."""

HEAD = {"format": "conclusions of uopscope", "version": 1}

MAXIMUM_LINE = 4 << 20
"""Bytes: a conclusion with hundreds of latencies has some ten thousand."""

MAXIMUM_LINES = 500_000
"""Lines of a file: thirty campaigns over the whole catalogue. More is not ours."""


class PackedError(UopscopeError):
    """A packed campaign cannot be read; the message begins with `file:line:`."""

    exit_code = 3


def is_campaign(path: Path) -> bool:
    """Whether a file is a campaign's, by its name or its first bytes; other databases are XML."""
    return path.name.endswith(SUFFIXES) or _is_sqlite(path)


def _is_sqlite(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def write(parts: Iterable[tuple[Provenance, Mapping[str, Any], Iterable[Conclusion]]], file: IO[bytes]) -> None:
    """Write provenances with what their backends said of themselves, and the conclusions that were drawn of each."""
    lines: list[object] = [HEAD]
    for provenance, backend, conclusions in parts:
        lines.append({"provenance": codec.encode_provenance(provenance), "backend": dict(backend)})
        lines += (
            {
                "inference": one.inference,
                "time": one.time,
                "result": codec.encode_characterization(one.result),
            }
            for one in conclusions
        )
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    file.write(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def provenances(path: Path) -> list[Provenance]:
    """Return where a file comes from: an entry per start of its campaign. No conclusion is decoded.

    Raises:
        PackedError: the file is damaged, of another kind, or too large.
    """
    return [codec.decode_provenance(line["provenance"]) for line in read(path) if "provenance" in line]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of the lines after the first.

    Raises:
        PackedError: the file is damaged, of another kind, or too large.
    """
    number = 0
    try:
        with lzma.open(path) as file:
            while line := file.readline(MAXIMUM_LINE):
                number += 1
                if number > MAXIMUM_LINES or len(line) == MAXIMUM_LINE:
                    raise PackedError(f"{path}:{number}: larger than the conclusions of any campaign")
                found = json.loads(line)
                if not isinstance(found, dict) or (number == 1 and found != HEAD):
                    raise PackedError(f"{path}:{number}: not {HEAD['format']}, version {HEAD['version']}")
                if number > 1:
                    yield found
    except (lzma.LZMAError, EOFError, ValueError, RecursionError) as error:
        raise PackedError(f"{path}:{number}: damaged: {error}", hint="fetch it again") from error
    except OSError as error:
        raise PackedError(f"{path}: cannot be read: {error.strerror}") from error
    if number == 0:
        raise PackedError(f"{path}: empty")
