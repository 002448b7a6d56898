"""The list of datafiles and their order: XED's layers.

A layer is a folder with a `.cfg` file. Its lines are `type : file [: priority]`, `add:type:file:priority`,
`remove:type:file` or `clear:type`. A `layers.txt` in or beside the datafiles lists the layers in their order; for known
versions `data/layers.toml` does.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

from xed_convert.datafiles.source import FileLine, read_lines, read_text
from xed_convert.errors import ConversionError
from xed_convert.numbers import decimal

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_PRIORITY = 1
"""The priority of a file whose line names none."""

IGNORED_KINDS = frozenset({"define", "add-source", "remove-source", "add-tests", "no-enc2-instructions"})
"""First words of lines without effect here."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A datafile that a layer names: path, path below the datafiles folder, and the `.cfg` line that names it."""

    path: Path
    name: str
    named_by: str


@dataclass(slots=True)
class _FileList:
    """The files of one type in the layers read so far."""

    priority: int = 0
    files: list[DataFile] = field(default_factory=list)


def find_datafiles(folder: Path) -> Path:
    """Return the datafiles folder of `folder`: itself, or its `datafiles` (an XED checkout).

    Raises:
        ConversionError: neither has a `files.cfg`.
    """
    for candidate in (folder, folder / "datafiles"):
        if (candidate / "files.cfg").is_file():
            return candidate
    message = (
        f"{folder}: no XED datafiles here: expected {folder / 'files.cfg'} or {folder / 'datafiles' / 'files.cfg'}"
    )
    raise ConversionError(message, hint="Name the datafiles folder or an XED checkout, or use --fetch.")


def known_layers() -> dict[str, list[str]]:
    """Return the shipped order of the layers by XED version, oldest first."""
    text = resources.files("xed_convert").joinpath("data/layers.toml").read_text(encoding="utf-8")
    return {version: list(table["layers"]) for version, table in tomllib.loads(text).items()}


def layer_order(folder: Path) -> list[str]:
    """Return the `.cfg` files of a datafiles folder in the order in which to read them, relative to it.

    A `layers.txt` in the folder or beside it counts first. Without one, it is the known version with the most layers
    among those whose layers are all here.

    Raises:
        ConversionError: there is no `layers.txt` and no known version fits.
    """
    for candidate in (folder / "layers.txt", folder.parent / "layers.txt"):
        if candidate.is_file():
            listed = [line.strip() for line in read_text(candidate).splitlines()]
            return list(dict.fromkeys(line for line in listed if line and not line.startswith("#")))
    known = known_layers()
    missing = {version: [name for name in names if not (folder / name).is_file()] for version, names in known.items()}
    fitting = [version for version in known if not missing[version]]
    if fitting:
        return known[max(fitting, key=lambda version: len(known[version]))]
    nearest = min(missing, key=lambda version: len(missing[version]))
    message = (
        f"{folder}: not the datafiles of a known XED version ({', '.join(known)}): "
        f"the nearest, {nearest}, has also {', '.join(missing[nearest][:5])}"
    )
    hint = f"Write the .cfg files in their order, one per line, to {folder / 'layers.txt'}."
    raise ConversionError(message, hint=hint)


def version_of(order: list[str]) -> str:
    """Return the known version of XED with exactly these layers, "" if there is none."""
    return next((version for version, names in known_layers().items() if names == order), "")


def read_layers(folder: Path, order: list[str]) -> dict[str, list[DataFile]]:
    """Read the `.cfg` files and return the datafiles of each type, in order.

    Raises:
        ConversionError: a `.cfg` or a datafile that it names is missing, or a line is not of the known forms.
    """
    lists: dict[str, _FileList] = {}
    removed: set[tuple[str, str]] = set()
    for config in order:
        for line in read_lines(folder / config, config):
            _apply(line, (folder / config).parent, lists, removed)
    result: dict[str, list[DataFile]] = {}
    for kind, entry in lists.items():
        kept = [_named(file, folder) for file in entry.files if (kind, str(file.path)) not in removed]
        result[kind] = list({file.path: file for file in kept}.values())
    return result


def _named(file: DataFile, folder: Path) -> DataFile:
    """Give a datafile its name relative to the datafiles folder."""
    name = file.path.relative_to(folder).as_posix() if file.path.is_relative_to(folder) else str(file.path)
    return DataFile(file.path, name, file.named_by)


def _apply(line: FileLine, folder: Path, lists: dict[str, _FileList], removed: set[tuple[str, str]]) -> None:
    """Apply one line of a `.cfg` that lies in `folder`."""
    parts = [part.strip() for part in line.text.split(":")]
    if parts[0] in IGNORED_KINDS:
        return
    if parts[0] == "clear" and len(parts) == 2:
        lists.pop(parts[1], None)
    elif parts[0] == "remove" and len(parts) == 3:
        removed.add((parts[1], str(folder / parts[2])))
    elif parts[0] == "add" and len(parts) in (3, 4):
        _append(line, folder, lists, parts[1:])
    elif len(parts) in (2, 3) and parts[0] not in ("add", "remove", "clear"):
        _append(line, folder, lists, parts)
    else:
        raise line.error(
            "expected `type : file [: priority]`, `add:type:file:priority`, `remove:type:file` or `clear:type`"
        )


def _append(line: FileLine, folder: Path, lists: dict[str, _FileList], parts: list[str]) -> None:
    """Add a file to its type's list unless its priority is lower; a higher priority starts the list anew."""
    kind, file = parts[0], parts[1]
    if not kind or not file:
        raise line.error("expected a type and a file name on both sides of the colon")
    priority = DEFAULT_PRIORITY
    if len(parts) == 3:
        given = decimal(parts[2])
        if given is None:
            raise line.error(f"expected a number as priority, not {parts[2]!r}")
        priority = given
    entry = lists.setdefault(kind, _FileList())
    if priority > entry.priority:
        entry.priority, entry.files = priority, []
    if priority == entry.priority:
        entry.files.append(DataFile(folder / file, file, str(line.location)))
