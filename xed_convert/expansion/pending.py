"""Variants before they have names: made from single records, completed, and merged over all records."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from xed_convert.errors import EncodingError
from xed_convert.expansion import apx
from xed_convert.expansion.facts import EVEX, VEX
from xed_convert.expansion.patterns import encoding_of
from xed_convert.model import APX_KEY_ATTRIBUTES, KEY_ATTRIBUTES

if TYPE_CHECKING:
    from xed_convert.datafiles.records import Record
    from xed_convert.expansion.asm_syntax import VariantSyntax
    from xed_convert.expansion.attributes import VariantAttributes
    from xed_convert.expansion.facts import RecordFacts
    from xed_convert.model import Operand


@dataclass(slots=True)
class PendingVariant:
    """A variant of one record. Its name and its other encodings are added when all records are known."""

    facts: RecordFacts
    choice: VariantAttributes
    iform: str
    operands: tuple[Operand, ...]
    attributes: dict[str, str]
    syntax: VariantSyntax
    name_suffix: str = ""
    asm_prefix: str = ""
    encodings: list[str] = field(default_factory=list)

    @property
    def record(self) -> Record:
        """The record that the variant comes from."""
        return self.facts.record

    @property
    def string(self) -> str:
        """The catalogue's `string`, with the suffixes added so far."""
        return self.syntax.name + self.name_suffix + self.syntax.ending


def record_attributes(facts: RecordFacts) -> dict[str, str]:
    """Return the XML attributes that all variants of a record have, beyond those that every variant has."""
    rounding = "ROUNDC" in facts.texts
    has = {
        "roundc": rounding,
        "sae": rounding or "SAESTR" in facts.texts,
        "locked": facts.fixes("LOCK", 1) or "LOCKED" in facts.record.attributes,
        "vex": facts.encoding_space == VEX,
        "evex": facts.encoding_space == EVEX,
        "mxcsr": "MXCSR" in facts.record.attributes,
    }
    found = {name: "1" for name, value in has.items() if value}
    return found | apx.attributes(facts) if apx.is_promoted(facts) else found


@cache
def choice_attributes(choice: VariantAttributes) -> dict[str, str]:
    """Return the XML attributes that tell a record's variants apart. The result is shared: do not change it."""
    values = {
        "agen": choice.agen or None,
        "bcast": choice.bcast,
        "eosz": choice.eosz,
        "high8": None if choice.high8 is None else ",".join(choice.high8),
        "immzero": None if choice.immzero is None else int(choice.immzero),
        "mask": None if choice.mask is None else int(choice.mask),
        "zeroing": None if choice.zeroing is None else int(choice.zeroing),
        "rep": choice.rep or None,
        "rm": choice.rm or None,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


_NOT_FILLED = frozenset({"rm", "vex", "evex", "mxcsr", "locked", "map", "pp", "zu", "scc", "egpr", "rex2"})
"""Attributes that variants without them do not get as "0"."""


def complete_attributes(pending: list[PendingVariant]) -> None:
    """If a variant of an iform has an attribute, give it to the iform's other variants as "0"."""
    names: dict[str, set[str]] = defaultdict(set)
    for variant in pending:
        names[variant.iform] |= variant.attributes.keys() - _NOT_FILLED
    for variant in pending:
        for name in names[variant.iform]:
            variant.attributes.setdefault(name, "0")


_ALL_KEY_ATTRIBUTES = (*KEY_ATTRIBUTES, *APX_KEY_ATTRIBUTES)


def _key(variant: PendingVariant) -> tuple[str, ...]:
    """Return the parts of a variant's key."""
    return (variant.iform, *[variant.attributes.get(name, "0") for name in _ALL_KEY_ATTRIBUTES])


def merge(pending: list[PendingVariant]) -> list[PendingVariant]:
    """Join the variants with the same key: several records can describe encodings of one variant.

    A LOCK prefix that changes nothing (XCHG) is an encoding of the variant without it.
    """
    merged: dict[tuple[str, ...], PendingVariant] = {}
    for variant in pending:
        text = _encoding(variant)
        key = _key(variant)
        known = merged.setdefault(key, variant)
        if known.facts.fixes("LOCK", 1) and not variant.facts.fixes("LOCK", 1):
            variant.encodings = known.encodings
            known = merged[key] = variant
        known.attributes |= {name: value for name, value in variant.attributes.items() if name in ("egpr", "rex2")}
        known.encodings.append(text)
    return list(merged.values())


def _encoding(variant: PendingVariant) -> str:
    """Return the encoding string of a variant by its own record.

    Raises:
        ConversionError: the record's pattern says something that cannot be encoded.
    """
    try:
        return encoding_of(variant.facts, variant.attributes, variant.operands)
    except EncodingError as error:
        raise variant.record.error(error.message, hint=error.hint) from error
