"""Exclusions with their reasons: instructions (`exclusions.tsv`) and places (`unreachable_places.tsv`).

Scopes of an instruction: `all` (nothing is measured), `privileged` (only on a backend that runs at privilege level 0),
`latency` (throughput and ports are measured, latency is not).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from generator.errors import FactError
from generator.facts import read_facts

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant


class Scope(StrEnum):
    """What an exclusion is about."""

    ALL = "all"
    PRIVILEGED = "privileged"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A row of `exclusions.tsv`: variants whose `field` matches the glob `pattern`."""

    field: str
    pattern: str
    scope: Scope
    reason: str
    source: str

    def applies(self, variant: InstructionVariant) -> bool:
        """Whether the row is about the variant."""
        return fnmatchcase(getattr(variant, self.field), self.pattern)


PRIVILEGED = Exclusion("cpl", "0", Scope.PRIVILEGED, "needs privilege level 0", "catalogue")
_FIELDS = frozenset({"iclass", "iform", "extension", "category", "isa_set", "string"})


@cache
def exclusions() -> tuple[Exclusion, ...]:
    """Return the table's rows.

    Raises:
        FactError: a row names an unknown field or scope.
    """
    rows = read_facts("exclusions.tsv", ("field", "pattern", "scope", "reason", "source"), ("field", "pattern"))
    for row in rows:
        if row["field"] not in _FIELDS or row["scope"] not in set(Scope):
            raise FactError(f"exclusions.tsv: {row['field']} {row['pattern']}: unknown field or scope {row['scope']}")
    return tuple(
        Exclusion(row["field"], row["pattern"], Scope(row["scope"]), row["reason"], row["source"]) for row in rows
    )


@cache
def _about(field: str, value: str) -> tuple[Exclusion, ...]:
    """Return the rows about a value of a field."""
    return tuple(one for one in exclusions() if one.field == field and fnmatchcase(value, one.pattern))


@cache
def _unreachable() -> tuple[tuple[str, str], ...]:
    """Return patterns of places and reasons."""
    return tuple(
        (row["place"], row["reason"]) for row in read_facts("unreachable_places.tsv", ("place", "reason"), ("place",))
    )


def exclusions_of(variant: InstructionVariant) -> list[Exclusion]:
    """Return all rows that apply to a variant, the widest scope first."""
    found = [exclusion for field in sorted(_FIELDS) for exclusion in _about(field, getattr(variant, field))]
    if variant.cpl == 0:
        found.append(PRIVILEGED)
    return sorted(found, key=lambda exclusion: list(Scope).index(exclusion.scope))


def excluded(variant: InstructionVariant, *, privileged: bool = False) -> str:
    """Return the reason why nothing of a variant is measured ("": it is).

    Args:
        variant: the variant.
        privileged: whether the backend can run privileged instructions.
    """
    for exclusion in exclusions_of(variant):
        if exclusion.scope is Scope.ALL or (exclusion.scope is Scope.PRIVILEGED and not privileged):
            return exclusion.reason
    return ""


def excluded_latency(variant: InstructionVariant) -> str:
    """Return the reason why a variant's latency alone is not measured ("": it is measured)."""
    return next((e.reason for e in exclusions_of(variant) if e.scope is Scope.LATENCY), "")


def unreachable(place: str) -> str:
    """Return the reason why no chain reaches a register, flag or family ("": none is known)."""
    return next((reason for pattern, reason in _unreachable() if fnmatchcase(place, pattern)), "")
