"""`uopscope db export`: databases in other forms, one for each exporter that there is."""

from __future__ import annotations

import inspect
import sys
from functools import cache
from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from results.campaign.packed import is_campaign
from results.database.memory_section import read_memories
from results.memory.documents import read_document
from runner.cli.database.common import Architecture, Database, Memories, check_outputs
from runner.cli.process.guard import UsageError
from runner.cli.support.own_code import written
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from results.memory.model import MemoryReport
    from xed_convert.model import InstructionVariant

Mode = Annotated[str, typer.Option(help="llvm-exegesis: latency, inverse_throughput or uops.")]


def export(
    database: Path, arch: str = "", mode: str = "latency", memory: list[Path] | None = None, **targets: str
) -> None:
    """Write a database in other forms (- for standard output); no upper bound is a value in any of them."""
    from results.database.entries import entries_of_architecture  # noqa: PLC0415 - `--help` does not need it
    from results.exports.exporters import ExportRequest, exporters  # noqa: PLC0415 - likewise

    wanted = {name: target for name, target in targets.items() if target}
    if not wanted:
        options = ", ".join(f"--{option}" for option in exporters())
        raise UsageError("nothing to write", hint=f"name one of {options}")
    check_outputs(*wanted.values())
    given = [read_document(path) for path in memory or ()]
    entries, arch = entries_of_architecture(database, arch)
    _check_memories(given, memory or [], arch)
    memories = (*given, *_known_memories(database))
    request = ExportRequest(tuple(entries), arch, mode, _sample_code, memories)
    for option, exporter in exporters().items():
        if target := wanted.get(option.replace("-", "_")):
            with written(target) as file:
                said = exporter.export(request, file)
            if said:
                print(f"{'standard output' if target == '-' else target}: {said}", file=sys.stderr)


def _check_memories(given: Sequence[MemoryReport], files: Sequence[Path], arch: str) -> None:
    """Refuse what is about memory of another architecture than the one that is exported ("": any)."""
    for report, path in zip(given, files, strict=True):
        found = report.provenance.architecture
        if arch not in ("", found):
            raise UsageError(f"--memory {path}: it is about {found}, not {arch}", hint=f"--arch {found}")


def _known_memories(database: Path) -> Iterator[MemoryReport]:
    """Yield what is known of memory: from the database itself, and what is shipped with it."""
    from results.shipped import is_shipped, shipped_memories  # noqa: PLC0415 - likewise

    if not is_campaign(database):
        yield from read_memories(database)
    if is_shipped(database):
        yield from map(read_document, shipped_memories())


def with_options_of_exporters() -> Callable[..., None]:
    """Return `export` with an option for each exporter that there is."""
    from results.exports.exporters import exporters  # noqa: PLC0415 - likewise

    kinds: dict[str, object] = {"database": Database, "arch": Architecture, "mode": Mode, "memory": Memories}
    kinds |= {
        option.replace("-", "_"): Annotated[str, typer.Option(f"--{option}", metavar="FILE", help=one.help)]
        for option, one in exporters().items()
    }
    defaults: dict[str, object] = {"database": inspect.Parameter.empty, "mode": "latency", "memory": None}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name, ""), annotation=kind)
        for name, kind in kinds.items()
    ]
    export.__annotations__ = {**kinds, "return": None}
    export.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what typer looks at
    return export


def _sample_code(variant: InstructionVariant) -> bytes | None:
    """Return the bytes of an instruction of a variant, or None if it cannot be encoded."""
    from generator.assemble import assemble  # noqa: PLC0415 - only for this export
    from generator.operands.allocation import Allocator  # noqa: PLC0415 - only for this export

    try:
        return assemble(Allocator().instance(_with_encoding(variant))).code
    except UopscopeError:
        return None


def _with_encoding(variant: InstructionVariant) -> InstructionVariant:
    """Return the shipped catalogue's variant where a published file does not say how it is encoded."""
    return variant if variant.encoding else _by_string().get(variant.string, variant)


@cache
def _by_string() -> dict[str, InstructionVariant]:
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - slow to import

    return {variant.string: variant for variant in Catalogue.load()}
