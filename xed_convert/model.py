"""The catalogue's data model: instruction variants, their operands, and values for those operands.

Terms and attributes are those of uops.info's instructions.xml, so that its readers can read ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_ATTRIBUTES = ("agen", "bcast", "eosz", "high8", "immzero", "mask", "rep", "rm", "sae", "zeroing")
"""Together with the iform these identify a variant; an attribute that is absent counts as "0"."""

APX_KEY_ATTRIBUTES = ("ndd", "nf", "opcode")
"""Further parts of the key of APX variants: those that have any of these attributes."""


class OperandKind(StrEnum):
    """What an operand is; the values are those of the XML attribute `type`."""

    REGISTER = "reg"
    MEMORY = "mem"
    AGEN = "agen"
    IMMEDIATE = "imm"
    RELATIVE_BRANCH = "relbr"
    FLAGS = "flags"
    DEFAULT_FLAGS = "dfv"


@dataclass(frozen=True, slots=True)
class MemoryShape:
    """The fixed parts of a memory operand: assembler decorations and implicit address registers ("" if free)."""

    prefix: str = ""
    suffix: str = ""
    vsib: str = ""
    moffs: bool = False
    base: str = ""
    index: str = ""
    segment: str = ""

    @property
    def elements(self) -> int:
        """How many elements of a vector the memory is broadcast to (`{1to8}`), else 1."""
        return int(self.suffix[len("{1to") : -1]) if self.suffix.startswith("{1to") else 1


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a variant.

    - `index`: counts from 1 as in the XML (`idx`).
    - `flags`: of the flags operand, the access ("r", "w", "cw", "r/w", "r/cw", "undef") by status flag ("CF").
    - `registers`: which registers a register operand may be.
    - `value`: an immediate's fixed value as text.
    - `suppressed`: the operand is no part of the assembly text.
    - `implicit`: it is part of the text, but has only one value.
    """

    index: int
    kind: OperandKind
    name: str = ""
    read: bool = False
    written: bool = False
    conditional_write: bool = False
    implicit: bool = False
    suppressed: bool = False
    width_bits: int | None = None
    xtype: str = ""
    registers: tuple[str, ...] = ()
    value: str = ""
    opmask: bool = False
    multireg: int | None = None
    memory: MemoryShape | None = None
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def explicit(self) -> bool:
        """Whether an encoder needs a value for it: neither suppressed, nor implicit, nor the flags."""
        return not (self.suppressed or self.implicit) and self.kind is not OperandKind.FLAGS


@dataclass(frozen=True, slots=True)
class InstructionVariant:
    """What the catalogue says of one instruction variant.

    - `attributes`: the further XML attributes by name (`eosz`, `high8`, `mask`, `evex`, `locked` ...), with the value
      "0" where the XML has it.
    - `encoding`: XED's pattern as `xed_convert.encoding.form` describes it ("" in catalogues by other tools).
    """

    iform: str
    string: str
    asm: str
    iclass: str
    category: str
    extension: str
    isa_set: str
    cpl: int
    attributes: Mapping[str, str]
    operands: tuple[Operand, ...]
    encoding: str = ""
    _key: str = field(default="", init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The identity of the variant: iform and key attributes, joined by `|`."""
        if not self._key:
            # Kept, since generators ask for it several times per instruction
            object.__setattr__(self, "_key", self._joined_key())
        return self._key

    @property
    def accesses_memory(self) -> bool:
        """Whether it loads or stores."""
        return any(operand.kind is OperandKind.MEMORY for operand in self.operands)

    @property
    def read_memory(self) -> list[Operand]:
        """The operands in memory that are read."""
        return [one for one in self.operands if one.kind is OperandKind.MEMORY and one.read]

    @property
    def writes_masks(self) -> bool:
        """Whether it writes a mask register."""
        return any("K1" in operand.registers for operand in self.operands if operand.written)

    @property
    def explicit_registers(self) -> list[Operand]:
        """The explicit register operands without write masks: those that may be one register."""
        return [one for one in self.operands if one.explicit and one.kind is OperandKind.REGISTER and not one.opmask]

    @property
    def only_written(self) -> Operand | None:
        """The only explicit register operand that is written (None: there are more, or it is read or kept, too)."""
        explicit = [one for one in self.operands if one.explicit and one.kind is OperandKind.REGISTER]
        written = [one for one in explicit if one.written or one.conditional_write]
        if len(written) != 1 or written[0].read or written[0].conditional_write:
            return None
        return written[0]

    def _joined_key(self) -> str:
        names: tuple[str, ...] = KEY_ATTRIBUTES
        if not self.attributes.keys().isdisjoint(APX_KEY_ATTRIBUTES):
            names += APX_KEY_ATTRIBUTES
        return "|".join([self.iform, *[self.attributes.get(name, "0") for name in names]])

    def operand(self, index: int) -> Operand:
        """Return the operand with that `idx`.

        Raises:
            KeyError: the variant has no such operand.
        """
        for operand in self.operands:
            if operand.index == index:
                return operand
        message = f"{self.string} has no operand {index}"
        raise KeyError(message)


@dataclass(frozen=True, slots=True)
class MemoryAddress:
    """The value of a memory or agen operand: [segment: base + index * scale + displacement], "" for none.

    `displacement_bits` forces the width of the encoded displacement (0: the shortest legal one).
    """

    base: str = ""
    index: str = ""
    scale: int = 1
    displacement: int = 0
    segment: str = ""
    displacement_bits: int = 0


OperandValue = str | int | MemoryAddress
"""A register name, an immediate or branch displacement (signed, from the end of the instruction), or an address."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A variant with a value for each explicit operand, keyed by operand index."""

    variant: InstructionVariant
    values: Mapping[int, OperandValue]
