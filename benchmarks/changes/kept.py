"""Measurements that need not be simulated again: those of one machine, in a file."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from inference.experiment import Request
    from results.model import Measurement


class Kept:
    """A source of measurements for a session.

    `asked` are the keys of those that were looked up, `shared` the first of these, which all variants share.
    """

    def __init__(self, path: Path) -> None:
        """Read the file, if there is one."""
        self._path, self._part = path, ""
        self.known: dict[str, Measurement] = pickle.loads(path.read_bytes()) if path.exists() else {}  # noqa: S301 - ours
        self.asked: set[str] = set()
        self.shared: frozenset[str] = frozenset()
        self._begun_with = len(self.known)

    def part(self, name: str) -> Kept:
        """Return a view of the same for another machine in this file: its experiments have the same keys."""
        view = object.__new__(Kept)
        view.__dict__.update(self.__dict__, _part=f"{name} ")
        return view

    def lookup(self, request: Request) -> Measurement | None:
        """Return what a request gave."""
        key = self._part + request.key
        self.asked.add(key)
        return self.known.get(key)

    def save(self, measured: Sequence[tuple[Request, Measurement]]) -> None:
        """Keep what requests gave, in memory."""
        self.known.update((self._part + request.key, measurement) for request, measurement in measured)

    def write(self) -> None:
        """Write the file, unless there was one."""
        if not self._begun_with:
            with atomic_write(self._path) as file:
                file.write(pickle.dumps(self.known))
