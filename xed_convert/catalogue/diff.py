"""The differences of two catalogues: variants that are added, removed, renamed or changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xed_convert.catalogue.xml import instruction_attributes, operand_attributes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xed_convert.model import InstructionVariant, Operand


@dataclass(frozen=True, slots=True)
class CatalogueDiff:
    """The differences, each list in the order of the strings.

    `renamed` has pairs of variants with different keys but the same encoding and operands. `changed` has variants whose
    key stays, each with a line for every difference.
    """

    added: list[InstructionVariant]
    removed: list[InstructionVariant]
    renamed: list[tuple[InstructionVariant, InstructionVariant]]
    changed: list[tuple[InstructionVariant, list[str]]]


def diff_catalogues(old: Iterable[InstructionVariant], new: Iterable[InstructionVariant]) -> CatalogueDiff:
    """Compare two catalogues."""
    before = {variant.key: variant for variant in old}
    after = {variant.key: variant for variant in new}
    removed = {key: variant for key, variant in before.items() if key not in after}
    added = {key: variant for key, variant in after.items() if key not in before}
    renamed = []
    by_meaning = {_meaning(variant): key for key, variant in added.items()}
    for key, variant in list(removed.items()):
        new_key = by_meaning.get(_meaning(variant)) if variant.encoding else None
        if new_key in added:
            renamed.append((variant, added.pop(new_key)))
            del removed[key]
    changed = [
        (after[key], differences)
        for key, variant in before.items()
        if key in after and (differences := differences_of(variant, after[key]))
    ]
    return CatalogueDiff(
        added=sorted(added.values(), key=_string),
        removed=sorted(removed.values(), key=_string),
        renamed=sorted(renamed, key=lambda pair: pair[0].string),
        changed=sorted(changed, key=lambda pair: pair[0].string),
    )


def _string(variant: InstructionVariant) -> str:
    """Return the string, to sort by."""
    return variant.string


def _meaning(variant: InstructionVariant) -> tuple[object, ...]:
    """Return the parts of a variant that a new name does not change."""
    operands = tuple((o.kind, o.name, o.read, o.written, o.width_bits, o.registers) for o in variant.operands)
    return variant.encoding, operands, variant.attributes.get("high8"), variant.attributes.get("immzero")


def differences_of(old: InstructionVariant, new: InstructionVariant) -> list[str]:
    """Return a line for each difference between two variants."""
    found = _named_differences("", instruction_attributes(old), instruction_attributes(new))
    if old.encoding != new.encoding and old.encoding and new.encoding:
        found.append(f"encoding: {old.encoding} -> {new.encoding}")
    if len(old.operands) != len(new.operands):
        return [*found, f"operands: {len(old.operands)} -> {len(new.operands)}"]
    for one, other in zip(old.operands, new.operands, strict=True):
        found += _named_differences(f"operand {one.index} ", _contents(one), _contents(other))
    return found


def _contents(operand: Operand) -> dict[str, str]:
    """Return an operand's attributes and its text."""
    return operand_attributes(operand) | {"registers": ",".join(operand.registers), "value": operand.value}


def _named_differences(prefix: str, old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return a line for each attribute that differs."""
    return [
        f"{prefix}{name}: {old.get(name, '') or 'none'} -> {new.get(name, '') or 'none'}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name, "") != new.get(name, "")
    ]
