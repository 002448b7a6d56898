"""The version of the inference: the code and tables from which a conclusion follows.

It is a hash over the sources, so nobody has to remember to raise it. Any change gives another version: of generators,
inference, the aggregation of samples, port arithmetic, or their tables.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from results.version import ROOT, hash_of_sources, version

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = ("generator", "inference", "runner/measuring", "results/model.py", "results/ports.py")
"""Folders and files on which conclusions from samples depend, relative to the top of the checkout."""


@cache
def inference_version(root: Path = ROOT) -> str:
    """Return `<version of uopscope>+<8 digits of a hash over the sources of generators and inference>`.

    Args:
        root: the folder of the packages.
    """
    return f"{version()}+{hash_of_sources(SOURCES, root)}"
