"""Where the tests keep what is slow to make or to fetch, and how they say that they cannot have it."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "uopscope" / "vm"


class Unavailable(Exception):  # noqa: N818 - it is a reason to skip, not an error
    """Why something cannot be had here."""


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Let one process at a time make something in the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
