"""From datafiles to the catalogue: expands all records, applies the exclusions, and gives unique names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xed_convert.errors import ConversionError
from xed_convert.expansion import apx
from xed_convert.expansion.asm_syntax import SyntaxTables, syntax_of
from xed_convert.expansion.attributes import choices, operand_sizes
from xed_convert.expansion.exclusions import Exclusions
from xed_convert.expansion.facts import RecordFacts
from xed_convert.expansion.iform import iform_of
from xed_convert.expansion.operands import OperandBuilder, RegisterTables
from xed_convert.expansion.patterns import merge_encodings
from xed_convert.expansion.pending import (
    PendingVariant,
    choice_attributes,
    complete_attributes,
    merge,
    record_attributes,
)
from xed_convert.expansion.siblings import name_siblings
from xed_convert.garbage import without_collection
from xed_convert.model import InstructionVariant

if TYPE_CHECKING:
    from xed_convert.datafiles.folder import Datafiles
    from xed_convert.datafiles.records import Record


@dataclass(frozen=True, slots=True)
class Conversion:
    """The catalogue's variants in the order of the XML, and what became of the records.

    - `extensions`: of all records for 64-bit mode that are not excluded, including those with 32-bit addresses only.
    - `records_used`: how many records gave variants.
    - `excluded`: how many records gave none, by the reason of the exclusion.
    - `excluded_sizes`: how many operand sizes of records in use are left out, by the reason.
    - `not_64_bit`: how many records cannot be used in 64-bit mode with 64-bit addresses.
    """

    variants: list[InstructionVariant]
    extensions: frozenset[str]
    records_used: int
    excluded: Counter[str]
    excluded_sizes: Counter[str]
    not_64_bit: int

    @property
    def by_extension(self) -> Counter[str]:
        """The number of variants of each extension."""
        return Counter(variant.extension for variant in self.variants)


def convert(datafiles: Datafiles, *, include: frozenset[str] = frozenset()) -> Conversion:
    """Convert all records.

    Args:
        datafiles: what was read.
        include: names of exclusions (rows of data/exclusions.toml) to pass over; "all" passes over every one.

    Raises:
        ConversionError: a record cannot be converted, or two variants get the same key or string.
    """
    with without_collection():
        return _convert(datafiles, Exclusions.load(datafiles.version, include))


def _convert(datafiles: Datafiles, exclusions: Exclusions) -> Conversion:
    """Convert all records that are not excluded."""
    syntax_tables = SyntaxTables.load()
    collector = _Collector(datafiles, exclusions, syntax_tables)
    for record in datafiles.records:
        collector.add(record)
    pending = collector.pending
    complete_attributes(pending)
    pending = merge(pending)
    name_siblings(pending, syntax_tables)
    variants = [_variant(pending) for pending in pending]
    variants.sort(key=lambda variant: (variant.extension, variant.string))
    _check_unique(variants)
    return Conversion(
        variants=variants,
        extensions=frozenset(collector.extensions),
        records_used=collector.used,
        excluded=collector.excluded,
        excluded_sizes=collector.excluded_sizes,
        not_64_bit=collector.not_64_bit,
    )


class _Collector:
    """Collects the variants of one record after the other, and counts omitted records."""

    def __init__(self, datafiles: Datafiles, exclusions: Exclusions, syntax_tables: SyntaxTables) -> None:
        self.datafiles = datafiles
        self.exclusions = exclusions
        self.syntax_tables = syntax_tables
        self.registers = RegisterTables(datafiles)
        self.with_apx = not exclusions.has("apx")
        self.pending: list[PendingVariant] = []
        self.extensions: set[str] = set()
        self.excluded: Counter[str] = Counter()
        self.excluded_sizes: Counter[str] = Counter()
        self.used = 0
        self.not_64_bit = 0

    def add(self, record: Record) -> None:
        """Add the variants of a record.

        Raises:
            ConversionError: the record cannot be converted.
        """
        facts = RecordFacts(record, self.datafiles)
        iform = iform_of(record, facts.specs)
        reasons = {size: self.exclusions.reason(facts, iform, size) for size in operand_sizes(facts)}
        sizes = tuple(size for size, reason in reasons.items() if not reason)
        if sizes and facts.in_64_bit_mode:
            self.extensions.add(record.extension)
        if not facts.usable:
            self.not_64_bit += 1
            return
        if not sizes:
            self.excluded[next(iter(reasons.values()), "no operand size is possible")] += 1
            return
        self.used += 1
        self.excluded_sizes.update(filter(None, reasons.values()))
        builder = OperandBuilder(facts, self.registers, self.syntax_tables.no_pointer_name)
        of_record = record_attributes(facts)
        extended = apx.extended_registers(facts) if self.with_apx else {}
        for choice in choices(facts, sizes):
            operands = builder.build(choice)
            syntax = syntax_of(facts, iform, choice, operands, self.syntax_tables)
            attributes = choice_attributes(choice) | of_record | ({} if choice.high8 else extended)
            self.pending.append(PendingVariant(facts, choice, iform, operands, attributes, syntax))


def _variant(pending: PendingVariant) -> InstructionVariant:
    """Return the finished variant."""
    record = pending.record
    return InstructionVariant(
        iform=pending.iform,
        string=pending.string,
        asm=" ".join(filter(None, (pending.asm_prefix, pending.syntax.prefix, pending.syntax.mnemonic))),
        iclass=record.iclass,
        category=record.category,
        extension=record.extension,
        isa_set=record.isa_set,
        cpl=record.cpl,
        attributes=dict(sorted(pending.attributes.items())),
        operands=pending.operands,
        encoding=merge_encodings(pending.encodings),
    )


def _check_unique(variants: list[InstructionVariant]) -> None:
    """Make sure that keys and strings are unique.

    Raises:
        ConversionError: they are not; names the first few.
    """
    for name in ("key", "string"):
        values = [getattr(variant, name) for variant in variants]
        if len(set(values)) < len(values):
            repeated = [value for value, count in Counter(values).items() if count > 1]
            message = f"{len(repeated)} variants share their {name} with another: {'; '.join(repeated[:5])}"
            raise ConversionError(message)
