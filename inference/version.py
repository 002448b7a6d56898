"""The version of the inference: the code and tables from which a conclusion follows.

It is a hash over the sources, so nobody has to remember to raise it. Any change gives another version: of generators,
inference, the aggregation of samples, port arithmetic, or their tables.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from results.version import version

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = ("generator", "inference", "runner/measuring", "results/model.py", "results/ports.py")
"""Folders and files on which conclusions from samples depend, relative to the top of the checkout."""

ROOT = Path(__file__).resolve().parents[1]
"""The top of the checkout, or where the packages are installed."""

SUFFIXES = {".py", ".tsv", ".toml", ".j2"}
"""Endings of the files that count: code, tables, templates."""


@cache
def inference_version(root: Path = ROOT) -> str:
    """Return `<version of uopscope>+<8 digits of a hash over the sources of generators and inference>`.

    Args:
        root: the folder of the packages.
    """
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(sources(root)):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version()}+{digest.hexdigest()}"


def sources(root: Path) -> Iterator[Path]:
    """Yield the files on which conclusions depend."""
    for name in SOURCES:
        place = root / name
        yield from [place] if place.is_file() else (path for path in place.rglob("*") if path.suffix in SUFFIXES)
