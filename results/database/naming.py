"""Names that other tools know: variants as an earlier XED calls them, and CPUs that only they tell apart.

uiCA and OSACA read variants by the names of XED 2024.11.04; a later release renamed some (`data/renamed_variants.tsv`).
Kaby Lake and Coffee Lake have Skylake's core and are SKL here; readers know them as KBL and CFL. CPUID tells which one
a campaign was measured on (`data/reader_names.tsv`), and results then stand under both names. Cascade Lake (CLX) and
Rocket Lake (RKL) have names of their own here, too.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from results.database.merge import renamed_rows
from results.database.reader import Entry
from xed_convert.errors import UopscopeError
from xed_convert.model import KEY_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.model import Provenance
    from xed_convert.model import InstructionVariant

XED_2024 = "2024.11.04"
"""The release whose names can be written."""


class NamingError(UopscopeError):
    """There are no names of that version."""


@dataclass(frozen=True, slots=True)
class Naming:
    """How variants and architectures are named in a file; empty fields change no name.

    `old_keys` are the earlier keys by key. `by_cpu` are further names by architecture and CPU signature ("6-9E-A").
    """

    old_keys: Mapping[str, str] = field(default_factory=dict)
    by_cpu: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def entries(self, entries: Iterable[Entry], provenances: Iterable[Provenance]) -> Iterator[Entry]:
        """Yield the entries under those names, in their order."""
        further = {one.architecture: name for one in provenances if (name := self._of_cpu(one))}
        for entry in entries:
            results = dict(entry.results)
            for name, new in further.items():
                if name in results:
                    results.setdefault(new, replace(results[name], architecture=new))
            yield Entry(self._variant(entry.variant), results)

    def provenances(self, provenances: Iterable[Provenance]) -> list[Provenance]:
        """Return where results come from, also under the further names."""
        found = list(provenances)
        return [*found, *(replace(one, architecture=name) for one in found if (name := self._of_cpu(one)))]

    def _of_cpu(self, provenance: Provenance) -> str:
        return self.by_cpu.get((provenance.architecture, provenance.cpu_signature), "")

    def _variant(self, variant: InstructionVariant) -> InstructionVariant:
        """Return the variant with the iform and the attributes that its earlier key has."""
        if variant.key not in self.old_keys:
            return variant
        iform, *values = self.old_keys[variant.key].split("|")
        attributes = dict(variant.attributes)
        for name, value in zip(KEY_ATTRIBUTES, values, strict=False):
            if value != attributes.get(name, "0"):
                attributes[name] = value
        return replace(variant, iform=iform, attributes=attributes)


def naming_of(version: str) -> Naming:
    """Return the names of a version of XED ("": as they are here).

    Raises:
        NamingError: nothing is known of that version.
    """
    if not version:
        return Naming()
    if version != XED_2024:
        raise NamingError(f"no names of {version!r} are known", hint=f"there are those of {XED_2024}")
    old_keys = {row["new"]: row["old"] for row in renamed_rows()}
    return Naming(old_keys, {(row.architecture, row.signature): row.name for row in _reader_names()})


class _ReaderName(NamedTuple):
    """A name that readers have for one stepping of a CPU."""

    architecture: str
    signature: str
    name: str


def _reader_names() -> Iterator[_ReaderName]:
    text = resources.files("results").joinpath("data/reader_names.tsv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        for stepping in row["steppings"].split(","):
            yield _ReaderName(row["architecture"], f"{row['family']}-{row['model']}-{stepping}", row["name"])
