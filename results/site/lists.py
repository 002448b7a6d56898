"""Plain lists with a link to each page of a variant: for browsers without JavaScript, for search engines, for print.

A page has an extension, or a part of a large one: from one mnemonic to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.site.views import slugs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from results.database.reader import Entry

MOST_VARIANTS = 400
"""On a page, unless a single mnemonic has more: of one architecture they take about 50 KB."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page: its extension, which part of it ("": all), its file name, and the variants by mnemonic."""

    extension: str
    part: str
    name: str
    mnemonics: Mapping[str, Sequence[Entry]]

    @property
    def title(self) -> str:
        """Return what the page is called."""
        return f"{self.extension}: {self.part}" if self.part else self.extension


def list_pages(entries: Iterable[Entry]) -> list[ListPage]:
    """Return the pages of all variants, by extension and mnemonic."""
    found: dict[tuple[str, str], Mapping[str, Sequence[Entry]]] = {}
    for extension, variants in _by(lambda entry: entry.variant.extension, entries).items():
        parts = list(_parts(_by(lambda entry: entry.variant.iclass, variants)))
        found |= {(extension, _range(part) if len(parts) > 1 else ""): part for part in parts}
    names = slugs(f"{extension} {part}" for extension, part in found)
    return [
        ListPage(extension, part, names[f"{extension} {part}"], mnemonics)
        for (extension, part), mnemonics in found.items()
    ]


def _by(key: Callable[[Entry], str], entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return dict(sorted(groups.items()))


def _parts(mnemonics: Mapping[str, list[Entry]]) -> Iterator[dict[str, list[Entry]]]:
    """Yield mnemonics in parts that are small enough for a page."""
    part: dict[str, list[Entry]] = {}
    size = 0
    for mnemonic, entries in mnemonics.items():
        if part and size + len(entries) > MOST_VARIANTS:
            yield part
            part, size = {}, 0
        part[mnemonic] = entries
        size += len(entries)
    if part:
        yield part


def _range(mnemonics: Mapping[str, object]) -> str:
    first, *others = mnemonics
    return f"{first} to {others[-1]}" if others else first
