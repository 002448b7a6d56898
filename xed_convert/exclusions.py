"""What the catalogue leaves out, and why: a table (`data/exclusions.toml`) whose rows can be asked for by name."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from xed_convert.errors import ConversionError
from xed_convert.globs import any_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xed_convert.facts import RecordFacts

_TABLE = "data/exclusions.toml"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A row: the records that fit all of its conditions (shell patterns) are left out, but for iforms in `but`.

    With `eosz` it leaves out the variants with that operand size only; `operand` is one of the record's operands.
    """

    name: str
    reason: str
    source: str
    iclass: tuple[str, ...] = ()
    iform: tuple[str, ...] = ()
    extension: tuple[str, ...] = ()
    isa_set: tuple[str, ...] = ()
    attribute: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    eosz: str = ""
    operand: tuple[str, ...] = ()

    def fits(self, facts: RecordFacts, iform: str, eosz: int | None) -> bool:
        """Whether the row excludes a record with an operand size."""
        if self.eosz and self.eosz != str(eosz):
            return False
        record = facts.record
        return (
            _matches((iform,), self.iform)
            and _matches((record.iclass,), self.iclass)
            and _matches((record.extension,), self.extension)
            and _matches((record.isa_set,), self.isa_set)
            and _matches(record.attributes, self.attribute)
            and _matches(record.operands.split(), self.operand)
            and not (self.but and _matches((iform,), self.but))
        )


def _matches(values: Iterable[str], patterns: tuple[str, ...]) -> bool:
    """Whether any of the values matches any of the patterns; where there is no pattern, all do."""
    if not patterns:
        return True
    match = any_pattern(patterns).match
    return any(match(value) for value in values)


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The rows that apply."""

    rows: tuple[Exclusion, ...]

    @classmethod
    def load(cls, version: str, include: frozenset[str] = frozenset()) -> Exclusions:
        """Read the shipped table for a version of XED without the rows named in `include` ("all": without any).

        Raises:
            ConversionError: a column is unknown or missing, or `include` names no row.
        """
        text = resources.files("xed_convert").joinpath(_TABLE).read_text(encoding="utf-8")
        rows = [_row(entry, number) for number, entry in enumerate(tomllib.loads(text)["exclusion"], 1)]
        if unknown := include - {row.name for row in rows} - {"all"}:
            hint = f"There are: {', '.join(sorted({row.name for row in rows}))}, all."
            raise ConversionError(f"no exclusion is called {', '.join(sorted(unknown))}", hint=hint)
        rows = [row for row in rows if not row.version or version in row.version]
        return cls(tuple(row for row in rows if row.name not in include and "all" not in include))

    def has(self, name: str) -> bool:
        """Whether a row of that name applies."""
        return any(row.name == name for row in self.rows)

    def reason(self, facts: RecordFacts, iform: str, eosz: int | None) -> str:
        """Return `name: reason` of the first row that excludes a record with an operand size, "" if none does."""
        for row in self.rows:
            if row.fits(facts, iform, eosz):
                return f"{row.name}: {row.reason}"
        return ""


def _row(entry: dict[str, str | list[str]], number: int) -> Exclusion:
    """Check and make a row."""
    if unknown := set(entry) - set(Exclusion.__dataclass_fields__):
        raise ConversionError(f"{_TABLE}: row {number} has unknown columns: {', '.join(sorted(unknown))}")
    if missing := {"name", "reason", "source"} - set(entry):
        raise ConversionError(f"{_TABLE}: row {number} lacks {', '.join(sorted(missing))}")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return Exclusion(**values)  # type: ignore[arg-type] # the columns were checked, the values are text or lists of it
