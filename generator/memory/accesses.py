"""The stores and loads of memory microbenchmarks: a row of `memory_accesses.tsv` each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from generator.errors import FactError
from generator.facts import read_facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line
    from xed_convert.model import InstructionVariant, MemoryAddress

COLUMNS = ("name", "bytes", "file", "store", "stored", "load", "loaded", "reason", "source")
WITHOUT_AVX = "_sse"
"""Ends the names of accesses that stand in where the CPU lacks AVX."""


class File(StrEnum):
    """Which registers an access moves."""

    GENERAL = "general"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class AccessInstructions:
    """A store and a load of equal size: `store` and `load` are the catalogue's strings, with their registers."""

    name: str
    size_bytes: int
    file: File
    store: str
    stored: str
    load: str
    loaded: str

    def store_line(self, instructions: InstructionFactory, place: MemoryAddress) -> Line:
        """Return the store to a place."""
        return instructions.line(self.store, place, self.stored)

    def load_line(self, instructions: InstructionFactory, place: MemoryAddress) -> Line:
        """Return the load from a place."""
        return instructions.line(self.load, self.loaded, place)


@cache
def accesses() -> tuple[AccessInstructions, ...]:
    """Return the table's rows.

    Raises:
        FactError: a row names another file of registers, or no number of bytes.
    """
    rows = read_facts("memory_accesses.tsv", COLUMNS, ("name",))
    return tuple(_access(row) for row in rows)


def accesses_of(
    instructions: InstructionFactory, lacks: Callable[[InstructionVariant], str]
) -> tuple[AccessInstructions, ...]:
    """Return the accesses that a CPU has, by size; of two that differ in encoding only the first one.

    Args:
        instructions: where variants are looked up.
        lacks: the reason why a variant does not run ("": it does).
    """
    found: dict[str, AccessInstructions] = {}
    for one in accesses():
        name = one.name.removesuffix(WITHOUT_AVX)
        if name not in found and not lacks(instructions.variant(one.store)):
            found[name] = one
    return tuple(found.values())


def _access(row: dict[str, str]) -> AccessInstructions:
    where = f"memory_accesses.tsv: {row['name']}"
    if row["file"] not in set(File):
        raise FactError(f"{where}: no file of registers {row['file']}")
    if not row["bytes"].isdigit():
        raise FactError(f"{where}: {row['bytes']} is no number of bytes")
    names = (row[name] for name in ("store", "stored", "load", "loaded"))
    return AccessInstructions(row["name"], int(row["bytes"]), File(row["file"]), *names)
