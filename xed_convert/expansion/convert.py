"""From datafiles to the catalogue: expands all records, leaves out what is to be left out, and gives unique names."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from xed_convert.errors import ConversionError, EncodingError
from xed_convert.expansion import apx, asm_syntax
from xed_convert.expansion.asm_syntax import Syntax, SyntaxTables, syntax_of
from xed_convert.expansion.attributes import choices, operand_sizes
from xed_convert.expansion.exclusions import Exclusions
from xed_convert.expansion.facts import RecordFacts
from xed_convert.expansion.iform import iform_of
from xed_convert.expansion.operands import OperandBuilder, RegisterTables
from xed_convert.expansion.patterns import encoding_of, merge_encodings
from xed_convert.memory import without_collection
from xed_convert.model import APX_KEY_ATTRIBUTES, KEY_ATTRIBUTES, InstructionVariant

if TYPE_CHECKING:
    from xed_convert.datafiles.folder import Datafiles
    from xed_convert.datafiles.records import Record
    from xed_convert.expansion.attributes import Choice
    from xed_convert.model import Operand

VEX, EVEX = 1, 2
"""Values of VEXVALID."""

WIDE = 3
"""The value of EOSZ for 64 bits."""


@dataclass(slots=True)
class Draft:
    """A variant while its siblings are being collected."""

    facts: RecordFacts
    choice: Choice
    iform: str
    operands: tuple[Operand, ...]
    attributes: dict[str, str]
    syntax: Syntax
    name_suffix: str = ""
    asm_prefix: str = ""
    encodings: list[str] = field(default_factory=list)

    @property
    def record(self) -> Record:
        """The record that the variant comes from."""
        return self.facts.record


@dataclass(frozen=True, slots=True)
class Conversion:
    """The catalogue's variants in the order of the XML, and what became of the records.

    `extensions` are those of all records that are not excluded, in 64-bit mode also those whose addresses are not
    64-bit.
    `records_used` counts the records that gave variants, `excluded` others by the reason of the exclusion,
    `not_64_bit` those that cannot be used in 64-bit mode with 64-bit addresses; `excluded_sizes` counts by reason what
    was left out of records for some operand size.
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
        include: names of exclusions (rows of data/exclusions.toml) that are not to be applied; "all" for none of them.

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
    drafts = collector.drafts
    _complete_attributes(drafts)
    drafts = _merge(drafts)
    _name_siblings(drafts, syntax_tables)
    variants = [_variant(draft) for draft in drafts]
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
    """Collects the variants of all records, before they know of each other, and counts what is left out."""

    def __init__(self, datafiles: Datafiles, exclusions: Exclusions, syntax_tables: SyntaxTables) -> None:
        self.datafiles = datafiles
        self.exclusions = exclusions
        self.syntax_tables = syntax_tables
        self.registers = RegisterTables(datafiles)
        self.with_apx = not exclusions.has("apx")
        self.drafts: list[Draft] = []
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
        of_record = _record_attributes(facts)
        if self.with_apx:
            of_record |= apx.extended_registers(facts)
        for choice in choices(facts, sizes):
            operands = builder.build(choice)
            syntax = syntax_of(facts, iform, choice, operands, self.syntax_tables)
            attributes = _choice_attributes(choice) | of_record
            self.drafts.append(Draft(facts, choice, iform, operands, attributes, syntax))


def _record_attributes(facts: RecordFacts) -> dict[str, str]:
    """Return the XML attributes that all variants of a record have, beyond those that every variant has."""
    rounding = "ROUNDC" in facts.texts
    has = {
        "roundc": rounding,
        "sae": rounding or "SAESTR" in facts.texts,
        "locked": facts.fixes("LOCK", 1),
        "vex": facts.encoding_space == VEX,
        "evex": facts.encoding_space == EVEX,
        "mxcsr": "MXCSR" in facts.record.attributes,
    }
    found = {name: "1" for name, value in has.items() if value}
    return found | apx.attributes(facts) if apx.is_promoted(facts) else found


@cache
def _choice_attributes(choice: Choice) -> dict[str, str]:
    """Return the XML attributes that tell a record's variants apart; not to be changed, since choices recur."""
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


def _complete_attributes(drafts: list[Draft]) -> None:
    """Write an attribute that any variant of an iform has as "0" on the others."""
    names: dict[str, set[str]] = defaultdict(set)
    for draft in drafts:
        names[draft.iform] |= draft.attributes.keys() - _NOT_FILLED
    for draft in drafts:
        for name in names[draft.iform]:
            draft.attributes.setdefault(name, "0")


_ALL_KEY_ATTRIBUTES = (*KEY_ATTRIBUTES, *APX_KEY_ATTRIBUTES)


def _key(draft: Draft) -> tuple[str, ...]:
    """Return what the key of the variant is made of."""
    return (draft.iform, *[draft.attributes.get(name, "0") for name in _ALL_KEY_ATTRIBUTES])


def _merge(drafts: list[Draft]) -> list[Draft]:
    """Join the drafts that have the same key: several records can describe encodings of one variant.

    A LOCK prefix that changes nothing (XCHG) is an encoding of the variant without it.
    """
    merged: dict[tuple[str, ...], Draft] = {}
    for draft in drafts:
        text = _encoding(draft)
        key = _key(draft)
        known = merged.setdefault(key, draft)
        if "locked" in known.attributes and "locked" not in draft.attributes:
            draft.encodings = known.encodings
            known = merged[key] = draft
        known.attributes |= {name: value for name, value in draft.attributes.items() if name in ("egpr", "rex2")}
        known.encodings.append(text)
    return list(merged.values())


def _encoding(draft: Draft) -> str:
    """Return the encoding string of a draft's own record.

    Raises:
        ConversionError: the record's pattern says something that cannot be encoded.
    """
    try:
        return encoding_of(draft.facts, draft.attributes, draft.operands)
    except EncodingError as error:
        raise draft.record.error(error.message, hint=error.hint) from error


def _name_siblings(drafts: list[Draft], tables: SyntaxTables) -> None:
    """Give names and prefixes to the variants that only an opcode or a prefix tells apart."""
    _name_promoted(drafts)
    _name_directions(drafts)
    _name_vector_encodings(drafts, tables)
    _name_displacements(drafts)
    _name_wide_forms(drafts)
    for group in _same_string(drafts):
        for draft in group:
            draft.name_suffix += asm_syntax.mnemonic_suffix(draft.record, draft.iform)
    for draft in [draft for group in _same_string(drafts) for draft in group]:
        draft.name_suffix += "_EVEX" if draft.facts.encoding_space == EVEX else ""


def _same_string(drafts: list[Draft]) -> list[list[Draft]]:
    """Return the groups of drafts that have the same string."""
    strings = [_string(draft) for draft in drafts]
    counts = Counter(strings)
    groups: dict[str, list[Draft]] = defaultdict(list)
    for draft, string in zip(drafts, strings, strict=True):
        if counts[string] > 1:
            groups[string].append(draft)
    return list(groups.values())


def _name_wide_forms(drafts: list[Draft]) -> None:
    """Name and prefix the form with REX.W of instructions where it changes nothing that is seen."""
    for group in _same_string(drafts):
        sizes = {draft.choice.eosz for draft in group}
        if len({draft.iform for draft in group}) > 1 or len(sizes) < len(group):
            continue
        for draft in group:
            if draft.choice.eosz == WIDE:
                draft.asm_prefix, draft.name_suffix = "REX64", "_REX64"


def _name_promoted(drafts: list[Draft]) -> None:
    """Name and prefix the promoted forms of APX; where only the opcode tells them apart, name it."""
    legacy = {draft.record.iclass for draft in drafts if not draft.facts.is_apx}
    promoted = [draft for draft in drafts if apx.is_promoted(draft.facts)]
    for draft in promoted:
        known = draft.record.iclass in legacy
        draft.asm_prefix = apx.asm_prefix(draft.facts, has_legacy_form=known)
        draft.name_suffix = apx.name_suffix(draft.facts, has_legacy_form=known)
    for group in _same_string(promoted):
        opcodes = {draft.attributes["opcode"] for draft in group}
        for draft in group:
            bit = f"_NF{draft.attributes['nf']}"
            draft.name_suffix += f"_{draft.attributes['opcode']}" if len(opcodes) > 1 else bit


def _name_directions(drafts: list[Draft]) -> None:
    """Name the opcodes of forms with the same register operands, and prefix those that differ in direction."""
    groups: dict[tuple[object, ...], list[Draft]] = defaultdict(list)
    for draft in drafts:
        registers = asm_syntax.explicit_registers(draft.operands, draft.syntax.operands)
        if registers and draft.facts.encoding_space != EVEX:
            groups[draft.iform.rpartition("_")[0], registers].append(draft)
    for group in groups.values():
        if len({draft.iform for draft in group}) < 2:
            continue
        for draft in group:
            draft.name_suffix += asm_syntax.mnemonic_suffix(draft.record, draft.iform)
        opcodes = {asm_syntax.direction(draft.facts) for draft in group}
        if opcodes == {"load", "store"}:
            for draft in group:
                draft.asm_prefix = f"{{{asm_syntax.direction(draft.facts)}}}"


def _name_vector_encodings(drafts: list[Draft], tables: SyntaxTables) -> None:
    """Prefix the EVEX forms, and of the newer extensions the VEX forms, of iclasses that have both."""
    spaces: dict[str, set[int]] = defaultdict(set)
    for draft in drafts:
        spaces[draft.record.iclass].add(draft.facts.encoding_space)
    for draft in drafts:
        if not spaces[draft.record.iclass] >= {VEX, EVEX} or apx.is_promoted(draft.facts):
            continue
        if draft.facts.encoding_space == VEX and draft.record.extension in tables.vex_after_evex:
            draft.asm_prefix, draft.name_suffix = "{vex}", "_VEX"
        elif draft.facts.encoding_space == EVEX and not draft.choice.mask and "ZMM" not in draft.syntax.operands:
            draft.asm_prefix, draft.name_suffix = "{evex}", "_EVEX"


def _name_displacements(drafts: list[Draft]) -> None:
    """Prefix branches with 32-bit displacement where there is one with 8 bits."""
    short = {draft.record.iclass for draft in drafts if draft.syntax.operands == ("Rel8",)}
    for draft in drafts:
        if draft.syntax.operands == ("Rel32",) and draft.record.iclass in short:
            draft.asm_prefix = "{disp32}"


def _string(draft: Draft) -> str:
    """Return the `string` of a draft."""
    return draft.syntax.name + draft.name_suffix + draft.syntax.ending


def _variant(draft: Draft) -> InstructionVariant:
    """Return the variant that has become of a draft."""
    record = draft.record
    return InstructionVariant(
        iform=draft.iform,
        string=_string(draft),
        asm=" ".join(filter(None, (draft.asm_prefix, draft.syntax.prefix, draft.syntax.mnemonic))),
        iclass=record.iclass,
        category=record.category,
        extension=record.extension,
        isa_set=record.isa_set,
        cpl=record.cpl,
        attributes=dict(sorted(draft.attributes.items())),
        operands=draft.operands,
        encoding=merge_encodings(draft.encodings),
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
