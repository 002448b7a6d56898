"""Instructions that the catalogue omits, with reasons: `data/exclusions.toml`. They can be included by name."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from xed_convert.errors import ConversionError
from xed_convert.globs import any_pattern

if TYPE_CHECKING:
    from re import Pattern

    from xed_convert.expansion.facts import RecordFacts

_TABLE = "data/exclusions.toml"


@dataclass(frozen=True, slots=True)
class RecordExclusion:
    """A row: leaves out the records that fit all of its conditions (shell patterns), except the iforms in `but`.

    With `eosz`, it leaves out the variants with that operand size only. `operand` fits if any operand of the record
    does.
    """

    name: str
    reason: str
    source: str
    iclass: Pattern[str] | None = None
    iform: Pattern[str] | None = None
    extension: Pattern[str] | None = None
    isa_set: Pattern[str] | None = None
    attribute: Pattern[str] | None = None
    but: Pattern[str] | None = None
    version: Pattern[str] | None = None
    eosz: str = ""
    operand: Pattern[str] | None = None

    def fits(self, facts: RecordFacts, iform: str, eosz: int | None) -> bool:
        """Whether the row excludes a record with an operand size."""
        record = facts.record
        return (
            (not self.iclass or self.iclass.match(record.iclass) is not None)
            and (not self.iform or self.iform.match(iform) is not None)
            and (not self.extension or self.extension.match(record.extension) is not None)
            and (not self.isa_set or self.isa_set.match(record.isa_set) is not None)
            and (not self.attribute or any(map(self.attribute.match, record.attributes)))
            and (not self.operand or any(map(self.operand.match, record.operands.split())))
            and (not self.eosz or self.eosz == str(eosz))
            and not (self.but and self.but.match(iform))
        )


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The rows that apply."""

    rows: tuple[RecordExclusion, ...]

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
        rows = [row for row in rows if not row.version or row.version.fullmatch(version)]
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


def _row(entry: dict[str, str | list[str]], number: int) -> RecordExclusion:
    """Check and make a row."""
    if unknown := set(entry) - set(RecordExclusion.__dataclass_fields__):
        raise ConversionError(f"{_TABLE}: row {number} has unknown columns: {', '.join(sorted(unknown))}")
    if missing := {"name", "reason", "source"} - set(entry):
        raise ConversionError(f"{_TABLE}: row {number} lacks {', '.join(sorted(missing))}")
    values = {key: any_pattern(value) if isinstance(value, list) else value for key, value in entry.items()}
    return RecordExclusion(**values)  # type: ignore[arg-type] # the columns were checked, the values are text or patterns
