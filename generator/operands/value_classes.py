"""Classes of operand values that may change the time: denormals, NaN, zeros, masks, counts, lengths.

`value_classes.tsv` has a row per instruction class (a glob) and place. A place is a register family or an operand, as
in `generator.operands.values`. "-" stands for every explicit operand that is read and whose elements have the type
`xtype`. It is for instructions that MXCSR, the floating-point control register, affects: only these compute with the
numbers. Others (moves, shuffles, logic) carry bits. "last" is the last of these operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from generator.facts import read_facts
from generator.operands.values import DEFAULT_VALUE, Values, kinds_of, values_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xed_convert.model import InstructionVariant

COLUMNS = ("iclass", "xtype", "class", "place", "value", "reason", "source")
EVERY_OPERAND, LAST_OPERAND = "-", "last"
USUAL = "usual"
"""The class of the values that all other measurements have."""
USUAL_NUMBERS = {"f16": 0x4000400040004000, "f32": 0x4000000040000000, "f64": 0x4000000000000000}
"""2.0 in every lane, by the type of the elements."""
VALUES = frozenset({OperandKind.REGISTER, OperandKind.MEMORY})


@dataclass(frozen=True, slots=True)
class ValueClass:
    """A class of values: its name, and what the places hold that make it."""

    name: str
    places: Mapping[str, int]

    @property
    def text(self) -> str:
        """Places and values for people."""
        return ", ".join(f"{place} = {value:#x}" for place, value in self.places.items())

    def values(self, variant: InstructionVariant) -> Values:
        """Return the values of a variant with those of the class, which chains put back."""
        own = values_of(variant, kinds_of(variant)[0])
        return Values({**own.places, **self.places}, own.restored | self.places.keys())


def classes_of(variant: InstructionVariant) -> tuple[ValueClass, ...]:
    """Return the classes of values to try, the usual one first; none if no row is about the variant."""
    found: dict[str, dict[str, int]] = {}
    usual: dict[str, int] = {}
    own = values_of(variant, kinds_of(variant)[0]).places
    for row in _rows():
        if not fnmatchcase(variant.iclass, row["iclass"]):
            continue
        for place in _places(variant, row):
            found.setdefault(row["class"], {})[place] = int(row["value"], 0)
            usual.setdefault(place, USUAL_NUMBERS.get(row["xtype"], own.get(place, DEFAULT_VALUE)))
    if not found:
        return ()
    # A class that a place has no row of leaves it as usual
    classes = [ValueClass(name, {**usual, **places}) for name, places in found.items()]
    return (ValueClass(USUAL, usual), *classes)


def _places(variant: InstructionVariant, row: Mapping[str, str]) -> list[str]:
    """Return the places of a variant that a row is about."""
    explicit = [o for o in variant.operands if o.explicit and o.kind in VALUES and o.read and not o.opmask]
    if row["place"] in {EVERY_OPERAND, LAST_OPERAND}:
        numbers = variant.attributes.get("mxcsr") == "1"
        found = [f"op{o.index}" for o in explicit if numbers and o.xtype == row["xtype"]]
        return found[-1:] if row["place"] == LAST_OPERAND else found
    if row["place"].startswith("op"):
        return [row["place"]] if row["place"] in {f"op{o.index}" for o in explicit} else []
    return [row["place"]] if row["place"] in _implicit(variant) else []


def _implicit(variant: InstructionVariant) -> set[str]:
    """Return the full names of the registers that a variant reads without naming them."""
    names = {o.registers[0] for o in variant.operands if o.read and not o.explicit and len(o.registers) == 1}
    return {name if len(name) > 2 else f"R{name.replace('L', 'X')}" for name in names}


@cache
def _rows() -> tuple[dict[str, str], ...]:
    return tuple(read_facts("value_classes.tsv", COLUMNS, ("iclass", "xtype", "class", "place")))
