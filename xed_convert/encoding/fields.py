"""The fields of one instruction while it is put together, and the parts that all instructions of a form share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xed_convert.encoding.address import AddressBytes
    from xed_convert.encoding.form import EncodingForm

CHECKED = ("b3", "b4", "r3", "r4", "srm")
"""Fields that register numbers fill and that a form may restrict nevertheless."""


class FixedParts:
    """What a form says before the operands have values.

    `condition` is the value of each field that the form fixes; of several, the one that the encoder prefers. `checks`
    names the fields that the operands fill and the form restricts.
    """

    __slots__ = ("aaa", "checks", "condition", "form", "has_nibbles", "opcode", "reg", "rm", "srm", "suffix", "vvvv")

    def __init__(self, form: EncodingForm) -> None:
        condition = {name: values[0] for name, values in form.conditions.items()}
        self.form = form
        self.condition = condition
        self.opcode = form.opcode
        self.reg = condition.get("reg", 0)
        self.rm = condition.get("rm", 0)
        self.vvvv = condition.get("v", 0) | condition.get("v4", 0) << 4
        self.aaa = condition.get("a", 0)
        self.srm = condition.get("srm", 0)
        self.checks = tuple(name for name in CHECKED if name in form.conditions)
        self.has_nibbles = any(code in ("Q", "U4") for _, code in form.places)
        self.suffix = b"" if form.suffix is None else bytes((form.suffix,))

    def tail(self, fields: Fields) -> bytes:
        """Return what follows the opcode: ModRM, SIB, displacement, immediates."""
        immediate = bytes((fields.nibbles,)) if self.has_nibbles else fields.immediate
        address = fields.address
        if address is not None:
            return bytes((address.modrm | (fields.reg & 7) << 3,)) + address.tail + immediate + self.suffix
        if self.form.has_modrm:
            return bytes((0xC0 | (fields.reg & 7) << 3 | fields.rm & 7,)) + immediate + self.suffix
        return immediate


class Fields:
    """The fields of one instruction; register numbers have up to five bits.

    They start with the fixed parts of the form, and the operands fill in the rest. `rex` collects what registers
    demand of a REX prefix (`registers.NEEDS_REX`, `FORBIDS_REX`), `mode` is the rounding mode, `nibbles` the immediate
    byte that is made of two operands.
    """

    __slots__ = ("aaa", "address", "immediate", "mode", "nibbles", "reg", "rex", "rm", "srm", "vvvv")

    def __init__(self, fixed: FixedParts) -> None:
        self.reg = fixed.reg
        self.rm = fixed.rm
        self.vvvv = fixed.vvvv
        self.aaa = fixed.aaa
        self.srm = fixed.srm
        self.rex = 0
        self.nibbles = 0
        self.mode = 0
        self.immediate = b""
        self.address: AddressBytes | None = None
