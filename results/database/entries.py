"""The entries of a file with results, be it an instructions.xml or a campaign: all, or those of one architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.campaign.packed import SUFFIX, is_campaign, provenances
from results.database.merge import Campaigns, Merge
from results.database.reader import DatabaseError, Entry, read_database, read_provenances
from results.model import PortUsage
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.garbage import without_collection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from results.model import Provenance


def entries_of(path: Path, architecture: str = "", others: set[str] | None = None) -> Iterator[Entry]:
    """Yield the database entries of a file, campaign or XML (see `results.campaign.packed.is_campaign`).

    With `architecture` (in any case) an instructions.xml yields only those that have results of it. The names of other
    architectures in it are put into `others`.
    """
    if is_campaign(path):
        yield from entries_of_campaigns([path])
    else:
        yield from read_database(path, architecture=architecture, others=others)


def entries_of_architecture(path: Path, architecture: str) -> tuple[list[Entry], str]:
    """Return the entries of a file with only the results of an architecture ("": of all), and its name in the file.

    Raises:
        DatabaseError: the file has no result of it; the hint names those that there are.
    """
    others: set[str] = set()
    entries = list(entries_of(path, architecture, others))
    name = as_named(architecture, architectures(entries))
    return list(only(entries, name, others)), name


def as_named(architecture: str, names: Sequence[str]) -> str:
    """Return an architecture as the results name it, if only the case of letters differs."""
    alike = [name for name in names if name.casefold() == architecture.casefold()]
    return alike[0] if len(alike) == 1 else architecture


def provenances_of(path: Path) -> list[Provenance]:
    """Return where the results of a file come from, [] where an instructions.xml does not say."""
    if not is_campaign(path):
        return read_provenances(path)
    if path.name.endswith(SUFFIX):
        return list({repr(one): one for one in provenances(path)}.values())
    with Campaigns([path]) as campaigns:
        return campaigns.provenances()


def entries_of_campaigns(paths: Sequence[Path]) -> list[Entry]:
    """Return the entries that campaigns make together, only those of variants with a result."""
    with without_collection(), Campaigns(paths) as campaigns:
        return [entry for entry in Merge(Catalogue.load(), campaigns.lookup).entries() if entry.results]


def architectures(entries: Iterable[Entry]) -> list[str]:
    """Return the names of all architectures that there are results of."""
    return sorted({name for entry in entries for name in entry.results})


def only(entries: Iterable[Entry], architecture: str, others: Iterable[str] = ()) -> Iterator[Entry]:
    """Yield the entries with only the results of that architecture ("": all); none without any.

    Raises:
        DatabaseError: there are results, but none of that architecture; the hint names those that there are, `others`
            among them.
    """
    names = set(others)
    found = False
    for entry in entries:
        names.update(entry.results)
        results_of = {name: one for name, one in entry.results.items() if architecture in ("", name)}
        if results_of:
            found = True
            yield Entry(entry.variant, results_of)
    if architecture and not found:
        raise DatabaseError(
            f"no result of the architecture {architecture!r}", hint=f"there are: {', '.join(sorted(names)) or 'none'}"
        )


def known_ports(measurement: Mapping[str, str]) -> PortUsage:
    """Return the port usage of a measurement, or the part of it that is known."""
    return PortUsage.parse(measurement.get("ports", measurement.get("some_ports", "")))


def is_model(measurement: object) -> bool:
    """Whether the attributes of a measurement say that a machine model said it, and no CPU."""
    return isinstance(measurement, dict) and measurement.get("simulated") == "1"
