"""Backends are found by listing this folder: every file that has a function `create`.

- `create(cpu, architecture)` returns a `Backend`, or raises `BackendError` with a hint if it cannot be used here.
- `create_from(model, architecture)`, optional: simulates the machine that a file describes.
- `PREFERENCE`, optional: an integer. `auto` tries the highest first, and never takes a backend without it.
- `SUMMARY`, optional: one line for people instead of the first line of the docstring.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Protocol, cast

import runner.backends
from runner.backend import Backend, BackendError, UnknownNameError
from runner.host import cpu as cpus
from runner.uarch.tables import all_microarchitectures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

AUTO = "auto"
_NOT_BACKENDS = {"registry"}


class _Create(Protocol):
    def __call__(self, cpu: int | None, architecture: str | None) -> Backend: ...


class _CreateFrom(Protocol):
    def __call__(self, model: Path, architecture: str | None) -> Backend: ...


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """A backend that the folder has; `preference` is None for those that `auto` never takes."""

    name: str
    summary: str
    preference: int | None
    create: _Create
    create_from: _CreateFrom | None = None


def backends() -> dict[str, BackendEntry]:
    """Return every backend by name, the most preferred first."""
    return _in_order(_modules())


def _in_order(names: Iterable[str]) -> dict[str, BackendEntry]:
    found = {entry.name: entry for entry in _entries(names)}
    order = sorted(found.values(), key=lambda entry: (-(entry.preference or 0), entry.name))
    return {entry.name: entry for entry in order}


def open_backend(
    name: str = AUTO, *, cpu: int | None = None, architecture: str | None = None, model: Path | None = None
) -> Backend:
    """Return a usable backend: the named one, or for "auto" the best for the real CPU, never a simulated one.

    With `model`, an instructions.xml, the backend simulates the machine that this describes.

    Raises:
        BackendError: there is no such backend, or it cannot be used here; the hint says what to do.
    """
    if name != AUTO:
        known = _in_order([name] if name in _modules() else [])
        if name not in known:
            raise UnknownNameError.of("backend", name, [*backends(), AUTO])
        if model is not None:
            return _from_model(known[name], model, architecture)
        return known[name].create(cpu, architecture)
    if model is not None:
        raise UnknownNameError("--model needs a backend that simulates it", hint="--backend sim")
    _check_architecture(architecture)
    if cpu is not None:
        cpus.choose(cpu)
    failed: dict[str, BackendError] = {}
    for entry in _in_order(filter(_may_be_preferred, _modules())).values():
        if entry.preference is not None:
            try:
                return _usable(entry.create(cpu, architecture))
            except BackendError as error:
                failed[entry.name] = error
    raise _joined(failed)


@dataclass(frozen=True, slots=True)
class MachineChoice:
    """Which machine to measure: the arguments of `open_backend`."""

    backend: str = AUTO
    architecture: str | None = None
    cpu: int | None = None
    model: Path | None = None

    def open(self) -> Backend:
        """Return a usable backend for it.

        Raises:
            BackendError: as `open_backend` says.
        """
        return open_backend(self.backend, cpu=self.cpu, architecture=self.architecture, model=self.model)


def _from_model(entry: BackendEntry, model: Path, architecture: str | None) -> Backend:
    """Return a backend that simulates a file's machine.

    Raises:
        BackendError: it simulates no files, or not this one.
    """
    if entry.create_from is None:
        raise UnknownNameError(f"the backend {entry.name} simulates no file", hint="--model is for --backend sim")
    return entry.create_from(model, architecture)


def _check_architecture(name: str | None) -> None:
    """Refuse a name that no microarchitecture has.

    Raises:
        UnknownNameError: there is none; names the nearest.
    """
    if name is None or name == cpus.UNKNOWN:
        return  # reading every file takes a tenth of a second
    known = all_microarchitectures()
    if name.upper() not in {one.upper() for one in known}:
        raise UnknownNameError.of("microarchitecture", name, known)


def _joined(failed: Mapping[str, BackendError]) -> BackendError:
    """Return why none of the backends can be used, once where the reason is the same for all."""
    reasons = {error.message: error.hint for error in failed.values()}
    if len(reasons) == 1:
        ((message, hint),) = reasons.items()
        return BackendError(message, hint=hint or "`uopscope doctor` says more")
    message = "; ".join(f"{name}: {error.message}" for name, error in failed.items())
    return BackendError(message or "no backend for a real CPU", hint="`uopscope doctor` says more")


def _usable(backend: Backend) -> Backend:
    """Return the backend if it can say what it counts.

    Raises:
        BackendError: it cannot be used here after all.
    """
    backend.info()
    return backend


def _modules() -> list[str]:
    """Return the names of the files in this folder that may be backends."""
    names = (module.name for module in pkgutil.iter_modules(runner.backends.__path__))
    return [name for name in names if name not in _NOT_BACKENDS]


def _entries(names: Iterable[str]) -> Iterator[BackendEntry]:
    for name in names:
        loaded = importlib.import_module(f"runner.backends.{name}")
        create = getattr(loaded, "create", None)
        if create:
            summary = getattr(loaded, "SUMMARY", (loaded.__doc__ or "").partition("\n")[0])
            yield BackendEntry(
                name,
                summary,
                getattr(loaded, "PREFERENCE", None),
                cast("_Create", create),
                cast("_CreateFrom | None", getattr(loaded, "create_from", None)),
            )


def _may_be_preferred(name: str) -> bool:
    """Look into a file for its preference without running it: what simulates takes longest to import."""
    text = resources.files(runner.backends).joinpath(f"{name}.py").read_text(encoding="utf-8")
    return re.search(r"^PREFERENCE\b", text, re.MULTILINE) is not None
