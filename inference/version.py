"""The version of the inference: which code and tables drew a conclusion.

It is derived from the sources themselves, so nobody has to remember to raise it: any change of a generator, an
inference, the aggregation of samples or their tables gives another one.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from results.version import version

FOLDERS = ("generator", "inference", "runner/measuring")
SUFFIXES = {".py", ".tsv", ".toml", ".j2"}


@cache
def inference_version() -> str:
    """Return `<version of uopscope>+<8 digits of a hash over the sources of generators and inference>`."""
    root = Path(__file__).resolve().parents[1]
    found = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES]
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(found):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version()}+{digest.hexdigest()}"
