"""Changes between two instructions.xml: `uopscope db diff`.

Every attribute of every measurement and latency is compared. A difference within the recorded spread is noise, not a
change. A variant that only one of them has results of on an architecture is no change, either: another selection was
measured. The same change in many variants is one line with a count.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.database.reader import ArchitectureResult, Entry

ROUNDING = 0.011
"""Throughputs are written with two decimals: two roundings of the same value are at most one hundredth apart."""

SPREADS = 3.0
"""How many times the recorded spreads (half the distance of the quartiles) two runs may be apart and still agree."""


class ChangeKind(StrEnum):
    """What became of a value; with `ONLY_OLD` and `ONLY_NEW`, of all values of a variant on an architecture."""

    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    NOISE = "noise"
    ONLY_OLD = "only in the old"
    ONLY_NEW = "only in the new"

    @property
    def is_change(self) -> bool:
        """Whether both files have results of the variant, and more than noise is between them."""
        return self in (ChangeKind.CHANGED, ChangeKind.NEW, ChangeKind.GONE)


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs; `old` or `new` is "" where there is none. Latencies are named as `latency 1→2 cycles`.

    If only one file has results of the variant, `attribute` is "", too.
    """

    kind: ChangeKind
    string: str
    isa_set: str
    architecture: str
    attribute: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Group:
    """The same change in several variants of an ISA set, with their strings."""

    kind: ChangeKind
    isa_set: str
    architecture: str
    attribute: str
    old: str
    new: str
    strings: tuple[str, ...]


def compare(old: Iterable[Entry], new: Iterable[Entry], architectures: frozenset[str] = frozenset()) -> list[Change]:
    """Return all differences between two databases, in the order of the strings.

    Args:
        old: entries of the earlier file.
        new: entries of the later file.
        architectures: only these (all if empty).
    """
    before = {entry.variant.key: entry for entry in old}
    changes: list[Change] = []
    for entry in new:
        changes += _compare_entries(before.pop(entry.variant.key, None), entry, architectures)
    for entry in before.values():
        changes += _compare_entries(entry, None, architectures)
    return sorted(changes, key=lambda change: (change.string, change.architecture, change.attribute))


def _compare_entries(old: Entry | None, new: Entry | None, wanted: frozenset[str]) -> Iterator[Change]:
    entry = new or old
    assert entry is not None
    variant = entry.variant
    old_results: Mapping[str, ArchitectureResult] = old.results if old else {}
    new_results: Mapping[str, ArchitectureResult] = new.results if new else {}
    for name in sorted({*old_results, *new_results}):
        if wanted and name not in wanted:
            continue
        if name not in old_results or name not in new_results:
            kind = ChangeKind.ONLY_OLD if name in old_results else ChangeKind.ONLY_NEW
            yield Change(kind, variant.string, variant.isa_set, name, "", "", "")
            continue
        before, after = _values(old_results[name]), _values(new_results[name])
        for attribute in sorted({*before, *after}):
            pair = before.get(attribute, ""), after.get(attribute, "")
            if pair[0] != pair[1] and not _is_beside(attribute):
                kind = _kind(attribute, pair, before, after)
                yield Change(kind, variant.string, variant.isa_set, name, attribute, *pair)


def _values(result: ArchitectureResult) -> dict[str, str]:
    """Return all values of a result by a name that is unique in it."""
    values = dict(result.measurement or {})
    for row in result.latencies:
        values |= {f"latency {row.start}→{row.target} {name}": value for name, value in row.values.items()}
    for analysis in result.analyses:
        values |= {f"{analysis.tag} {name}": value for name, value in analysis.values.items()}
    return values


def _is_beside(attribute: str) -> bool:
    """Whether an attribute only says how steady a value is: two runs need not see the same rhythms."""
    return attribute.endswith(("_spread", " spread")) or attribute.startswith("rhythms_")


def _kind(attribute: str, pair: tuple[str, str], before: Mapping[str, str], after: Mapping[str, str]) -> ChangeKind:
    if not pair[0]:
        return ChangeKind.NEW
    if not pair[1]:
        return ChangeKind.GONE
    spread = _spread(attribute, before) + _spread(attribute, after)
    margin = SPREADS * spread + (ROUNDING if attribute.startswith("TP_") else 0)
    try:
        distance = abs(float(pair[0]) - float(pair[1]))
    except ValueError:
        return ChangeKind.CHANGED
    return ChangeKind.NOISE if distance <= margin else ChangeKind.CHANGED


def _spread(attribute: str, values: Mapping[str, str]) -> float:
    """Return the spread recorded with a value: `TP_loop_spread` for `TP_loop`, a latency's `spread` for its cycles."""
    name = attribute.rsplit(" ", 1)[0] + " spread" if attribute.startswith("latency ") else attribute + "_spread"
    try:
        return float(values.get(name, "0"))
    except ValueError:
        return 0.0


def group(changes: Iterable[Change]) -> list[Group]:
    """Put the same change of many variants of an ISA set together; the largest groups first."""
    strings: dict[tuple[ChangeKind, str, str, str, str, str], list[str]] = defaultdict(list)
    for change in changes:
        key = (change.kind, change.isa_set, change.architecture, change.attribute, change.old, change.new)
        strings[key].append(change.string)
    groups = [Group(*key, tuple(found)) for key, found in strings.items()]
    return sorted(groups, key=lambda one: (-len(one.strings), one.architecture, one.attribute, one.strings))


def only_in_one(groups: Iterable[Group], kind: ChangeKind) -> list[str]:
    """Return the variants of all groups of a kind, one for each architecture: `ONLY_OLD` or `ONLY_NEW`."""
    return [string for one in groups if one.kind is kind for string in one.strings]
