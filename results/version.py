"""The version of uopscope, as it goes into the provenance of results, and hashes that tell its sources apart."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
"""The top of the checkout, or where the packages are installed."""

SUFFIXES = {".py", ".tsv", ".toml", ".j2", ".bin"}
"""Endings of the files that count as sources: code, tables, templates, the catalogue."""


@cache
def version() -> str:
    """Return the version of the checkout that this file is in, or of the installed package."""
    project = ROOT / "pyproject.toml"
    if project.is_file():
        with project.open("rb") as file:
            return str(tomllib.load(file)["project"]["version"])
    from importlib import metadata  # noqa: PLC0415 - takes long, and a checkout does not need it

    return metadata.version("uopscope")


def sources(names: Sequence[str], root: Path = ROOT) -> Iterator[Path]:
    """Yield the sources in folders and files that are named relative to `root`."""
    for name in names:
        place = root / name
        yield from [place] if place.is_file() else (path for path in place.rglob("*") if path.suffix in SUFFIXES)


@cache
def hash_of_sources(names: tuple[str, ...], root: Path = ROOT) -> str:
    """Return a hash over the sources in folders and files, names and contents: 8 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(sources(names, root)):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
