"""Exporters are found by listing this folder: every file that has a function `export`.

`export(request, file)` writes a database in another form and returns a sentence about it ("": there is nothing to say).
The file also has `OPTION` (its name in `uopscope db export --OPTION FILE`) and `HELP` (one line for people).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable  # noqa: TC003 - a field's type
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import results.exports
from results.database.entries import architectures
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from results.database.reader import Entry
    from results.memory.model import MemoryReport
    from xed_convert.model import InstructionVariant


class ExportError(UopscopeError):
    """An export that is not possible; the hint lists the possible ones."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What is exported: entries of a database, and what some of the forms need to know.

    `architecture` is the only one that is wanted ("": all). `mode` is llvm-exegesis' kind of benchmark. `code_of` gives
    the bytes of an instruction of a variant, or None if it cannot be encoded. `memories` are measurements of memory.
    """

    entries: tuple[Entry, ...]
    architecture: str = ""
    mode: str = "latency"
    code_of: Callable[[InstructionVariant], bytes | None] = lambda _variant: None
    memories: tuple[MemoryReport, ...] = ()

    def memory_of(self, architecture: str) -> MemoryReport | None:
        """Return the measurement of an architecture's memory, the first of several."""
        return next((one for one in self.memories if one.provenance.architecture == architecture), None)

    def of_one_architecture(self) -> str:
        """Return the one architecture that is wanted, or that there is.

        Raises:
            ExportError: there are several and none is named, or there is none.
        """
        return self.architecture or only_architecture(self.entries)


@dataclass(frozen=True, slots=True)
class Exporter:
    """A form that databases are exported in, by the name of its option."""

    option: str
    help: str
    export: Callable[[ExportRequest, IO[bytes]], str]


def exporters() -> dict[str, Exporter]:
    """Return every exporter by its option's name."""
    return {found.option: found for found in sorted(_found(), key=lambda one: one.option)}


def _found() -> Iterator[Exporter]:
    for module in pkgutil.iter_modules(results.exports.__path__):
        loaded = importlib.import_module(f"results.exports.{module.name}")
        if hasattr(loaded, "export"):
            yield Exporter(loaded.OPTION, loaded.HELP, loaded.export)


def only_architecture(entries: Iterable[Entry]) -> str:
    """Return the architecture of all results.

    Raises:
        ExportError: there are several, or there is none.
    """
    names = architectures(entries)
    if len(names) != 1:
        raise ExportError("which architecture?", hint=f"name one with --arch: {', '.join(names) or 'there is none'}")
    return names[0]
