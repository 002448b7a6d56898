"""Names that other tools know: variants as an earlier XED calls them, CPUs that only they tell apart, numbered ports.

uiCA and OSACA read variants by the names of XED 2024.11.04; a later release renamed some (`data/renamed_variants.tsv`).
Kaby Lake and Coffee Lake have Skylake's core and are SKL here; readers know them as KBL and CFL. CPUID tells which one
a campaign was measured on (`data/reader_names.tsv`), and results then stand under both names. Cascade Lake (CLX) and
Rocket Lake (RKL) have names of their own here, too.

Ports that were found by time alone are called r0, r1 and so on. These readers take each character of a port set for a
port. So each such port is written as a number, which no other port of the architecture has. If numbers run out, usages
with the last ports are left out: readers would take their names apart.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from results.database.merge import renamed_rows
from results.database.reader import Entry
from results.model import PORT_LETTERS, PORT_USAGE, PortUsage, is_by_time, port_order
from xed_convert.errors import UopscopeError
from xed_convert.model import KEY_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.database.reader import ArchitectureResult
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
    `letters` are the letters of ports by architecture and name; "" if there was none left.
    """

    old_keys: Mapping[str, str] = field(default_factory=dict)
    by_cpu: Mapping[tuple[str, str], str] = field(default_factory=dict)
    letters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def with_ports(self, ports: Mapping[str, Iterable[str]]) -> Naming:
        """Return the naming with letters for ports found by time; `ports` are all in use, by architecture."""
        return replace(self, letters={name: port_letters(some) for name, some in ports.items()})

    def entries(self, entries: Iterable[Entry], provenances: Iterable[Provenance]) -> Iterator[Entry]:
        """Yield the entries under those names, in their order."""
        further = {one.architecture: name for one in provenances if (name := self._of_cpu(one))}
        for entry in entries:
            results = {name: self._with_letters(result) for name, result in entry.results.items()}
            for name, new in further.items():
                if name in results:
                    results.setdefault(new, replace(results[name], architecture=new))
            yield Entry(self._variant(entry.variant), results)

    def provenances(self, provenances: Iterable[Provenance]) -> list[Provenance]:
        """Return where results come from, also under the further names."""
        found = [self._with_caveat(one) for one in provenances]
        return [*found, *(replace(one, architecture=name) for one in found if (name := self._of_cpu(one)))]

    def _with_letters(self, result: ArchitectureResult) -> ArchitectureResult:
        """Return a result whose port usages have letters for ports that were found by time."""
        letters = self.letters.get(result.architecture)
        if not letters or result.measurement is None:
            return result
        values = {
            name: _relettered(value, letters) if "ports" in name and re.fullmatch(PORT_USAGE, value) else value
            for name, value in result.measurement.items()
        }
        return replace(result, measurement={name: value for name, value in values.items() if value is not None})

    def _with_caveat(self, provenance: Provenance) -> Provenance:
        """Return a provenance that says which port has which letter."""
        letters = self.letters.get(provenance.architecture)
        if not letters:
            return provenance
        written = ", ".join(f"{port} is p{letter}" for port, letter in letters.items() if letter)
        caveats = [f"ports found by time alone, for readers: {written or 'none'}"]
        caveats += [one for name, one in self.left_out() if name == provenance.architecture]
        return replace(provenance, caveats=(*provenance.caveats, *caveats))

    def left_out(self) -> Iterator[tuple[str, str]]:
        """Yield a sentence for each architecture of which port usages are left out, behind its name."""
        for name, letters in self.letters.items():
            if without := [port for port, letter in letters.items() if not letter]:
                yield name, f"no number is left for {', '.join(without)}: port usages with them are left out"

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


def port_letters(ports: Iterable[str]) -> dict[str, str]:
    """Return letters for the ports `r0`, `r1`, ...: free ones, in the order of the ports; "" if none is left.

    Numbers of resources are taken, too, since OSACA's importer reads FP0 as port 0.
    """
    there = sorted(set(ports), key=port_order)
    taken = {port[-1] for port in there if not is_by_time(port)}
    free = [letter for letter in PORT_LETTERS if letter not in taken]
    by_time = [port for port in there if is_by_time(port)]
    return {port: free[place] if place < len(free) else "" for place, port in enumerate(by_time)}


def _relettered(text: str, letters: Mapping[str, str]) -> str | None:
    """Return a port usage with letters instead of these ports, None if one has no letter."""
    usage = PortUsage.parse(text)
    if any(letters.get(port) == "" for ports in usage.uops for port in ports):
        return None
    return str(PortUsage({frozenset(letters.get(port, port) for port in ports): n for ports, n in usage.uops.items()}))


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
