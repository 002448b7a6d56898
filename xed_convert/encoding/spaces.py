"""Fields to bytes: one class for each encoding space.

Sources: Intel SDM volume 2A, chapter 2 (prefixes, REX, VEX, EVEX); AMD64 Architecture Programmer's Manual volume 3,
section 1.2 (XOP); the Intel APX architecture specification, section 3.1 (REX2 and extended EVEX).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xed_convert.encoding.registers import FORBIDS_REX, NEEDS_REX
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from xed_convert.encoding.fields import Fields, FixedParts

_ESCAPES = {0: b"", 1: b"\x0f", 2: b"\x0f\x38", 3: b"\x0f\x3a"}
"""Opcode bytes before the opcode of a legacy encoding, by map."""


class SpaceEncoder:
    """Makes the instructions of one form; a subclass for each encoding space."""

    def __init__(self, fixed: FixedParts) -> None:
        condition = fixed.condition
        self.fixed = fixed
        self.w = condition.get("w", 0)
        self.l = condition.get("l", 0)
        self.pp = condition.get("pp", 0)
        self.allowed = fixed.form.conditions

    def __call__(self, fields: Fields) -> bytes:
        """Return the bytes of the instruction."""
        raise NotImplementedError

    def check(self, fields: Fields, base: int) -> None:
        """Refuse register numbers that a condition forbids (90 is NOP, not `XCHG RAX, RAX`).

        Raises:
            EncodingError: the form is for other registers.
        """
        actual = {"b3": base >> 3 & 1, "b4": base >> 4 & 1, "r3": fields.reg >> 3 & 1, "r4": fields.reg >> 4 & 1}
        actual["srm"] = fields.srm & 7
        if any(actual[name] not in self.allowed[name] for name in self.fixed.checks):
            raise EncodingError("the registers belong to another variant")


class _Legacy(SpaceEncoder):
    """Prefixes, REX or REX2, escape bytes, opcode."""

    def __init__(self, fixed: FixedParts) -> None:
        super().__init__(fixed)
        condition = fixed.condition
        self.prefixes = b"\x67" * condition.get("asz", 0) + b"\xf0" * condition.get("lock", 0)
        self.prefixes += b"\x66" * condition.get("osz", 0) + {0: b"", 2: b"\xf2", 3: b"\xf3"}[condition.get("rep", 0)]
        self.map = fixed.form.map
        self.escape = _ESCAPES[self.map]
        self.always_rex2 = condition.get("rex2", 0) == 1
        self.may_rex2 = fixed.form.has_extended_registers

    def __call__(self, fields: Fields) -> bytes:
        """Return the bytes of the instruction."""
        address = fields.address
        prefixes = self.prefixes
        index = 0
        if address is None:
            base = fields.rm | fields.srm
        else:
            base, index = address.base, address.index
            prefixes = address.prefixes + prefixes
        reg = fields.reg
        if self.fixed.checks:
            self.check(fields, base)
        rex = self.w << 3 | reg >> 1 & 4 | index >> 2 & 2 | base >> 3 & 1
        escape = self.escape
        if (reg | index | base) & 16 or self.always_rex2:
            prefixes += self.rex2(rex | (reg & 16) << 2 | (index & 16) << 1 | base & 16, fields.rex)
            escape = b""
        elif rex or fields.rex & NEEDS_REX:
            if fields.rex & FORBIDS_REX:
                raise EncodingError("AH, CH, DH and BH cannot be encoded together with a REX prefix")
            prefixes += bytes((0x40 | rex,))
        opcode = bytes((self.fixed.opcode | fields.srm & 7,))
        if address is not None and address.modrm < 0:
            return prefixes + escape + opcode + fields.immediate
        return prefixes + escape + opcode + self.fixed.tail(fields)

    def rex2(self, payload: int, flags: int) -> bytes:
        """Return the REX2 prefix. It stands for the escape byte 0F, too.

        Raises:
            EncodingError: the form does not allow REX2.
        """
        if not self.may_rex2:
            raise EncodingError("R16 to R31 cannot be used here")
        if flags & FORBIDS_REX:
            raise EncodingError("AH, CH, DH and BH cannot be encoded together with a REX2 prefix")
        return bytes((0xD5, payload | self.map << 7))


class _Vex(SpaceEncoder):
    """A VEX prefix of two or three bytes, or an XOP prefix."""

    def __init__(self, fixed: FixedParts) -> None:
        super().__init__(fixed)
        self.lead = 0x8F if fixed.form.space == "xop" else 0xC4
        self.map = fixed.form.map
        self.short = fixed.form.space == "vex" and self.map == 1 and not self.w
        self.opcode = bytes((fixed.opcode,))

    def __call__(self, fields: Fields) -> bytes:
        """Return the bytes of the instruction."""
        address = fields.address
        index, prefixes = 0, b""
        if address is None:
            base = fields.rm
        else:
            base, index, prefixes = address.base, address.index, address.prefixes
        reg = fields.reg
        if (reg | index | base | fields.vvvv) & 16:
            raise EncodingError("registers above 15 cannot be used here")
        if self.fixed.checks:
            self.check(fields, base)
        last = (~fields.vvvv & 15) << 3 | self.l << 2 | self.pp
        if self.short and not (index | base) & 8:
            prefix = bytes((0xC5, (~reg & 8) << 4 | last))
        else:
            inverted = (~reg & 8) << 4 | (~index & 8) << 3 | (~base & 8) << 2
            prefix = bytes((self.lead, inverted | self.map, self.w << 7 | last))
        return prefixes + prefix + self.opcode + self.fixed.tail(fields)


class _Evex(SpaceEncoder):
    """An EVEX prefix."""

    def __init__(self, fixed: FixedParts) -> None:
        super().__init__(fixed)
        self.map = fixed.form.map
        self.u = fixed.condition.get("u", 1)
        self.p2 = fixed.condition.get("z", 0) << 7 | fixed.condition.get("b", 0) << 4
        self.vector_rm = any(code == "BX" for _, code in fixed.form.places)
        self.vector_index = any(code in ("MX", "MY", "MZ") for _, code in fixed.form.places)
        self.rounding = fixed.form.rounding
        self.opcode = bytes((fixed.opcode,))

    def __call__(self, fields: Fields) -> bytes:
        """Return the bytes of the instruction."""
        address = fields.address
        reg, vvvv = fields.reg, fields.vvvv
        prefixes, u = b"", self.u
        base, x, b4 = fields.rm, 0, 0
        if address is not None:
            base, x, prefixes = address.base, address.index, address.prefixes
            b4 = base & 16
            if self.vector_index:
                vvvv |= x & 16
            elif x & 16:
                u = 0
        elif self.vector_rm:
            x = base >> 1
        else:
            b4 = base & 16
        if self.fixed.checks:
            self.check(fields, base)
        p0 = (~reg & 8) << 4 | (~x & 8) << 3 | (~base & 8) << 2 | ~reg & 16 | b4 >> 1 | self.map
        p1 = self.w << 7 | (~vvvv & 15) << 3 | u << 2 | self.pp
        length = fields.mode if self.rounding else self.l
        p2 = self.p2 | length << 5 | (~vvvv & 16) >> 1 | fields.aaa
        return prefixes + bytes((0x62, p0, p1, p2)) + self.opcode + self.fixed.tail(fields)


SPACE_ENCODERS: dict[str, type[SpaceEncoder]] = {"leg": _Legacy, "vex": _Vex, "xop": _Vex, "evex": _Evex}
"""The class by encoding space."""
