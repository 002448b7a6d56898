"""Names and assembler prefixes for variants that look alike otherwise: by opcode, prefix, direction or width."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from xed_convert.expansion import apx, asm_syntax
from xed_convert.expansion.facts import EVEX, VEX

if TYPE_CHECKING:
    from xed_convert.expansion.asm_syntax import SyntaxTables
    from xed_convert.expansion.pending import PendingVariant

WIDE = 3
"""The value of EOSZ for 64 bits."""


def name_siblings(pending: list[PendingVariant], tables: SyntaxTables) -> None:
    """Give a suffix or prefix to each variant that only its opcode or encoding tells from others."""
    _name_promoted(pending)
    _name_directions(pending)
    _name_vector_encodings(pending, tables)
    _name_displacements(pending)
    _name_wide_forms(pending)
    for group in _same_string(pending):
        for variant in group:
            variant.name_suffix += asm_syntax.mnemonic_suffix(variant.record, variant.iform)
    for variant in [variant for group in _same_string(pending) for variant in group]:
        variant.name_suffix += "_EVEX" if variant.facts.encoding_space == EVEX else ""


def _same_string(pending: list[PendingVariant]) -> list[list[PendingVariant]]:
    """Return the groups of variants that have the same string."""
    strings = [variant.string for variant in pending]
    counts = Counter(strings)
    groups: dict[str, list[PendingVariant]] = defaultdict(list)
    for variant, string in zip(pending, strings, strict=True):
        if counts[string] > 1:
            groups[string].append(variant)
    return list(groups.values())


def _name_wide_forms(pending: list[PendingVariant]) -> None:
    """Mark the form with REX.W (`REX64`) where forms of the other sizes have the same operands."""
    for group in _same_string(pending):
        sizes = {variant.choice.eosz for variant in group}
        if len({variant.iform for variant in group}) > 1 or len(sizes) < len(group):
            continue
        for variant in group:
            if variant.choice.eosz == WIDE:
                variant.asm_prefix = f"{variant.asm_prefix} REX64".lstrip()
                variant.name_suffix = "_REX64"


def _name_promoted(pending: list[PendingVariant]) -> None:
    """Name and prefix the promoted forms of APX. Where only the opcode tells them apart, the name has it."""
    legacy = {variant.record.iclass for variant in pending if not variant.facts.is_apx}
    promoted = [variant for variant in pending if apx.is_promoted(variant.facts)]
    for variant in promoted:
        known = variant.record.iclass in legacy
        variant.asm_prefix = apx.asm_prefix(variant.facts, has_legacy_form=known)
        variant.name_suffix = apx.name_suffix(variant.facts, has_legacy_form=known)
    for group in _same_string(promoted):
        opcodes = {variant.attributes["opcode"] for variant in group}
        for variant in group:
            bit = f"_NF{variant.attributes['nf']}"
            variant.name_suffix += f"_{variant.attributes['opcode']}" if len(opcodes) > 1 else bit


def _name_directions(pending: list[PendingVariant]) -> None:
    """Put the opcode into the names of forms with the same register operands; prefix those that differ in direction."""
    groups: dict[tuple[object, ...], list[PendingVariant]] = defaultdict(list)
    for variant in pending:
        registers = asm_syntax.explicit_registers(variant.operands, variant.syntax.operands)
        if registers and variant.facts.encoding_space != EVEX:
            groups[variant.iform.rpartition("_")[0], registers].append(variant)
    for group in groups.values():
        if len({variant.iform for variant in group}) < 2:
            continue
        for variant in group:
            variant.name_suffix += asm_syntax.mnemonic_suffix(variant.record, variant.iform)
        opcodes = {asm_syntax.direction(variant.facts) for variant in group}
        if opcodes == {"load", "store"}:
            for variant in group:
                variant.asm_prefix = f"{{{asm_syntax.direction(variant.facts)}}}"


def _name_vector_encodings(pending: list[PendingVariant], tables: SyntaxTables) -> None:
    """Where a mnemonic has both, prefix the EVEX forms; in extensions whose VEX forms are newer, the VEX forms too."""
    spaces: dict[str, set[int]] = defaultdict(set)
    for variant in pending:
        spaces[variant.syntax.mnemonic].add(variant.facts.encoding_space)
    for variant in pending:
        if not spaces[variant.syntax.mnemonic] >= {VEX, EVEX} or apx.is_promoted(variant.facts):
            continue
        if variant.facts.encoding_space == VEX and variant.record.extension in tables.vex_after_evex:
            variant.asm_prefix, variant.name_suffix = "{vex}", "_VEX"
        elif variant.facts.encoding_space == EVEX and not variant.choice.mask and "ZMM" not in variant.syntax.operands:
            variant.asm_prefix, variant.name_suffix = "{evex}", "_EVEX"


def _name_displacements(pending: list[PendingVariant]) -> None:
    """Prefix branches with a 32-bit displacement, so that no assembler takes a shorter one."""
    for variant in pending:
        if variant.syntax.operands == ("Rel32",):
            variant.asm_prefix = "{disp32}"
