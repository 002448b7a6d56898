"""Merges campaigns into one database, and chooses among several conclusions about the same variant.

The choice goes by these preferences, in order: a measurement over a model, no failures over failures, the kernel
module over perf over the clock, newer over older. Conclusions about the same architecture that differ by more than
their spread are listed in any case.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import IO, TYPE_CHECKING, Self

from results.campaign.store import Store
from results.database.diff import Change, ChangeKind, compare
from results.database.writer import write_database
from results.database.xml import SOFTWARE_MODELS, ConcludedVariant, database_entry
from results.findings import NoPorts, known_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from results.database.reader import Entry
    from results.model import Provenance
    from xed_convert.model import InstructionVariant

BACKENDS = ("tsc", "perf", "kmod")
"""Backends that measure, the most trusted last; one that is not here is trusted least."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two campaigns on one architecture say different things; `winner` and `loser` name them by backend and time."""

    change: Change
    winner: str
    loser: str


Lookup = Callable[[str], "Iterable[ConcludedVariant]"]
"""Gives all conclusions about the variant with a key of the shipped catalogue."""


class Merge:
    """Puts conclusions into a catalogue, one variant at a time, so that memory does not grow with the campaigns.

    These are complete when all entries were taken: `disagreements`; `counts`, the number of results by architecture;
    `provenances`, where the results come from. Provenances are kept by their text, since those of one campaign are
    equal but need not be the same object.
    """

    def __init__(self, variants: Iterable[InstructionVariant], lookup: Lookup) -> None:
        """Merge what `lookup` gives for each variant."""
        self._variants = sorted(variants, key=lambda one: (one.extension, one.string, one.key))
        self._lookup = lookup
        self.disagreements: list[Disagreement] = []
        self.counts: Counter[str] = Counter()
        self.provenances: dict[str, Provenance] = {}

    def __len__(self) -> int:
        return len(self._variants)

    def entries(self) -> Iterator[Entry]:
        """Yield the entry of every variant in the order in which they are written."""
        for variant in self._variants:
            found = [one for one in self._lookup(variant.key) if not one.result.skipped]
            chosen = list(_chosen(variant, found, self.disagreements))
            self.provenances |= {repr(one.provenance): one.provenance for one in chosen}
            entry = database_entry(variant, chosen)
            self.counts.update(entry.results.keys())
            yield entry


def lookup_among(conclusions: Iterable[ConcludedVariant]) -> Lookup:
    """Return a lookup among conclusions that are held in memory."""
    by_key: dict[str, list[ConcludedVariant]] = defaultdict(list)
    for conclusion in conclusions:
        by_key[current_key(conclusion.result.key)].append(conclusion)
    return lambda key: by_key.get(key, [])


def write_xml(
    variants: Iterable[InstructionVariant], conclusions: Iterable[ConcludedVariant], file: IO[bytes]
) -> Merge:
    """Write these variants with the conclusions that count; return what was found on the way."""
    merged = Merge(variants, lookup_among(conclusions))
    entries = list(merged.entries())
    write_database(entries, merged.provenances.values(), file)
    return merged


class Campaigns:
    """Several campaign files, open for reading at once."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Open the files.

        Raises:
            StoreError: one cannot be read.
        """
        self._stores: list[Store] = []
        try:
            self._stores += map(Store.read, paths)
            self._known = [set(store.outcomes()) for store in self._stores]
        except BaseException:
            self.close()
            raise
        self._old_keys = {new: old for old, new in renamed_keys().items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        for store in self._stores:
            store.close()

    def lookup(self, key: str) -> Iterator[ConcludedVariant]:
        """Yield what each campaign concluded about a variant."""
        names = [key, *filter(None, [self._old_keys.get(key)])]
        for store, known in zip(self._stores, self._known, strict=True):
            for name in filter(known.__contains__, names):
                for found in store.conclusions(name):
                    yield ConcludedVariant(found.result, found.provenance)

    def provenances(self) -> list[Provenance]:
        """Return where all of it comes from."""
        found = (provenance for store in self._stores for provenance in store.provenances())
        return list({repr(provenance): provenance for provenance in found}.values())

    def ports(self) -> dict[str, set[str]]:
        """Return all ports in the port usages, or in known parts of them, by architecture."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in (one for store in self._stores for one in store.conclusions()):
            usages = [form.ports for form in one.result.forms.values() if form.ports is not None]
            usages += [known_part(failure.why) for failure in one.result.failures if isinstance(failure, NoPorts)]
            found[one.provenance.architecture] |= {port for usage in usages for ports in usage.uops for port in ports}
        return found

    def unknown(self, keys: Iterable[str]) -> list[str]:
        """Return the keys that campaigns have conclusions about and that are not among these."""
        known = set(keys)
        return sorted({key for store in self._stores for key in store.outcomes() if current_key(key) not in known})


def _chosen(
    variant: InstructionVariant, found: Iterable[ConcludedVariant], disagreements: list[Disagreement]
) -> Iterator[ConcludedVariant]:
    """Yield the best conclusion for each architecture and kind of element; note where others disagree with it."""
    places: dict[tuple[str, str], list[ConcludedVariant]] = defaultdict(list)
    for conclusion in found:
        provenance = conclusion.provenance
        places[provenance.architecture, SOFTWARE_MODELS.get(provenance.backend, "")].append(conclusion)
    for _, conclusions in sorted(places.items()):
        best = max(conclusions, key=rank)
        others = [conclusion for conclusion in conclusions if conclusion is not best]
        disagreements += (one for other in others for one in _disagreements(variant, best, other))
        yield best


def _disagreements(
    variant: InstructionVariant, best: ConcludedVariant, other: ConcludedVariant
) -> Iterator[Disagreement]:
    """Yield the differences between two conclusions of the same kind, where both know a value."""
    if best.provenance.is_model != other.provenance.is_model:
        return
    for change in compare([database_entry(variant, [other])], [database_entry(variant, [best])]):
        if change.kind is ChangeKind.CHANGED:
            yield Disagreement(change, _name(best), _name(other))


def _name(conclusion: ConcludedVariant) -> str:
    return f"{conclusion.provenance.backend} {conclusion.provenance.time}"


def rank(conclusion: ConcludedVariant) -> tuple[bool, bool, int, str]:
    """Return what orders conclusions about the same variant: the greatest wins."""
    provenance = conclusion.provenance
    trust = BACKENDS.index(provenance.backend) if provenance.backend in BACKENDS else -1
    return not provenance.is_model, not conclusion.result.failures, trust, provenance.time


def renamed_rows() -> list[dict[str, str]]:
    """Return the table of variants that a new XED release renamed: keys `old` and `new`, and the `reason`."""
    text = resources.files("results").joinpath("data/renamed_variants.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


@lru_cache(maxsize=1)
def renamed_keys() -> dict[str, str]:
    """Return the keys of renamed variants, old to new."""
    return {row["old"]: row["new"] for row in renamed_rows()}


def current_key(key: str) -> str:
    """Return the key under which the shipped catalogue has a variant."""
    return renamed_keys().get(key, key)
