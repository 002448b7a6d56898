"""Operand values that matter, for an instruction's time or for the memory that it accesses.

`operand_values.tsv` has a row per instruction class (a glob), width of the first operand, form, kind and place:

- form `mem`: only with an explicit memory operand;
- kinds `slow` and `fast`: the instruction's time depends on the values, and both are measured;
- kind `any`: with other values it faults, or does not do its usual work;
- place: a register family, `VEC` for all vectors, or an operand. `op2` is explicit operand 2; `last` and `before` are
  the last explicit operand and the one before, masks and immediates apart;
- `restore`: whether a chain through the place has to put the value back. AND with zero and OR with the value do that,
  and leave the dependency.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from generator.facts import read_facts
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xed_convert.model import InstructionVariant

COLUMNS = ("iclass", "width_bits", "form", "kind", "place", "value", "restore", "reason", "source")
DEFAULT_VALUE = 1
"""What general purpose registers hold unless a row says otherwise."""


class ValueKind(StrEnum):
    """Which operand values a benchmark uses."""

    ANY = "any"
    SLOW = "slow"
    FAST = "fast"


@dataclass(frozen=True, slots=True)
class Values:
    """Values by place: register families ("RAX") and operands ("op1"); `restored` are those that chains put back."""

    places: Mapping[str, int] = field(default_factory=dict)
    restored: frozenset[str] = frozenset()


@cache
def value_rows() -> tuple[dict[str, str], ...]:
    """Return the rows of the table."""
    return tuple(read_facts("operand_values.tsv", COLUMNS, ("iclass", "width_bits", "form", "kind", "place")))


def kinds_of(variant: InstructionVariant) -> tuple[ValueKind, ...]:
    """Return the kinds of values that the variant is to be measured with: slow and fast, or any."""
    kinds = {row["kind"] for row in _matching(variant)}
    return (ValueKind.SLOW, ValueKind.FAST) if "slow" in kinds else (ValueKind.ANY,)


def values_of(variant: InstructionVariant, kind: ValueKind = ValueKind.ANY) -> Values:
    """Return the values that matter for a variant."""
    rows = [row for row in _matching(variant) if row["kind"] in {kind, ValueKind.ANY}]
    names = {row["place"]: _place(variant, row["place"]) for row in rows}
    return Values(
        {names[row["place"]]: int(row["value"], 0) for row in rows},
        frozenset(names[row["place"]] for row in rows if row["restore"] == "yes"),
    )


def _place(variant: InstructionVariant, name: str) -> str:
    """Return the operand that `last` and `before` stand for: the last explicit value operand, and the one before."""
    position = {"last": -1, "before": -2}.get(name)
    if position is None:
        return name
    kinds = {OperandKind.REGISTER, OperandKind.MEMORY}
    operands = [o.index for o in variant.operands if o.explicit and o.kind in kinds and not o.opmask]
    return f"op{operands[position]}"


def _matching(variant: InstructionVariant) -> list[dict[str, str]]:
    """Return the rows for a variant, by its class, the width of its first operand, and its form."""
    first = next((operand for operand in variant.operands if operand.kind is not OperandKind.FLAGS), None)
    width = str(first.width_bits if first else 0)
    forms = {"-"}
    if any(operand.kind is OperandKind.MEMORY and operand.explicit for operand in variant.operands):
        forms.add("mem")
    return [row for row in _of_class(variant.iclass) if row["width_bits"] in {"-", width} and row["form"] in forms]


@cache
def _of_class(iclass: str) -> list[dict[str, str]]:
    """Return the rows for an instruction class."""
    return [row for row in value_rows() if fnmatchcase(iclass, row["iclass"])]
