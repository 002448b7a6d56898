"""Backends are found by listing this folder: every file that has a function `create`.

`create(cpu, architecture)` returns a `Backend` or raises `BackendError` with a hint if it cannot be used here. A file
may say more of its backend: `PREFERENCE` (an integer; `auto` tries the highest first; a backend without it is never
taken by `auto`), and `SUMMARY` (one line for people; else the first line of the docstring).
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import runner.backends
from runner import cpu as cpus
from runner.backends.base import Backend, BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTO = "auto"
_NOT_BACKENDS = {"base", "registry"}


class _Create(Protocol):
    def __call__(self, cpu: int | None, architecture: str | None) -> Backend: ...


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """A backend that the folder has; `preference` is None for those that `auto` never takes."""

    name: str
    summary: str
    preference: int | None
    create: _Create


def backends() -> dict[str, BackendEntry]:
    """Return every backend by name, the most preferred first."""
    found = {entry.name: entry for entry in _entries()}
    order = sorted(found.values(), key=lambda entry: (-(entry.preference or 0), entry.name))
    return {entry.name: entry for entry in order}


def open_backend(name: str = AUTO, *, cpu: int | None = None, architecture: str | None = None) -> Backend:
    """Return a usable backend: the named one, or for "auto" the best for the real CPU, never a simulated one.

    Raises:
        BackendError: there is no such backend, or it cannot be used here; the hint says what to do.
    """
    known = backends()
    if name != AUTO:
        if name not in known:
            raise BackendError(f"no backend {name!r}", hint=f"there are: {', '.join(known)}, {AUTO}")
        return known[name].create(cpu, architecture)
    if cpu is not None:
        cpus.choose(cpu)
    reasons = []
    for entry in known.values():
        if entry.preference is not None:
            try:
                return _usable(entry.create(cpu, architecture))
            except BackendError as error:
                reasons.append(f"{entry.name}: {error.message}")
    raise BackendError("; ".join(reasons) or "no backend for a real CPU", hint="`uopscope doctor` says more")


def _usable(backend: Backend) -> Backend:
    """Return the backend if it can say what it counts.

    Raises:
        BackendError: it cannot be used here after all.
    """
    backend.info()
    return backend


def _entries() -> Iterator[BackendEntry]:
    for module in pkgutil.iter_modules(runner.backends.__path__):
        if module.name in _NOT_BACKENDS:
            continue
        loaded = importlib.import_module(f"runner.backends.{module.name}")
        create = getattr(loaded, "create", None)
        if create:
            summary = getattr(loaded, "SUMMARY", (loaded.__doc__ or "").partition("\n")[0])
            yield BackendEntry(module.name, summary, getattr(loaded, "PREFERENCE", None), cast("_Create", create))
