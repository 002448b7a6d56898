"""The operands of a variant, made from the operands of its record.

Internal operands and helpers of memory operands are left out. XED's stack registers become RSP and a memory operand.
All flags become one operand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xed_convert.encoding.registers import HIGH8, needs_rex
from xed_convert.expansion import apx
from xed_convert.expansion.attributes import HIGH_RM, LOW_RM, is_byte_gpr
from xed_convert.expansion.facts import LONG_MODE
from xed_convert.expansion.flags import flag_accesses
from xed_convert.model import MemoryShape, Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xed_convert.datafiles.folder import Datafiles
    from xed_convert.datafiles.operand_spec import OperandSpec
    from xed_convert.expansion.attributes import VariantAttributes
    from xed_convert.expansion.facts import RecordFacts

FLAGS = frozenset({"FLAGS", "EFLAGS", "RFLAGS"})
"""Registers that become the flags operand."""

STACK = {"STACKPUSH": "w", "STACKPOP": "r"}
"""XED's registers for the stack, and how the memory there is accessed."""

HELPERS = ("BASE", "INDEX", "SEG", "SCALE")
"""Beginnings of the names of operands that describe a memory operand's address."""

ALWAYS_64 = frozenset({"RIP", "RSP"})
"""Registers that are 64 bits wide in 64-bit mode, whatever their width code says."""

POINTER_80 = "tbyte"
"""The GNU assembler's name of an 80-bit floating-point number in memory."""

_VSIB = {"VMODRM_XMM": "XMM", "VMODRM_YMM": "YMM"} | {f"UISA_VMODRM_{kind}": kind for kind in ("XMM", "YMM", "ZMM")}
_RM_VALUES = {LOW_RM: frozenset(range(4)), HIGH_RM: frozenset(range(4, 8))}
_UNWRITTEN_ST0 = frozenset({"FST", "FSTP", "FSTPNCE"})
"""x87 stores whose source ST(0) is not part of the assembly."""


def register_name(xed: str) -> str:
    """Return the assembler's name: ST(0) for XED's ST0, MM0 for MMX0, RSP for the stack registers."""
    if len(xed) == 3 and xed.startswith("ST") and xed[2].isdigit():
        return f"ST({xed[2]})"
    if xed in STACK:
        return "RSP"
    return xed.replace("MMX", "MM", 1) if xed.startswith("MMX") else xed


class RegisterTables:
    """The registers that nonterminals stand for."""

    def __init__(self, datafiles: Datafiles) -> None:
        self.datafiles = datafiles
        self._known: dict[tuple[str, int | None, str, int, bool], tuple[str, ...]] = {}
        self._numbered: dict[tuple[int, int], tuple[Operand, Operand]] = {}
        self.operands: dict[tuple[object, ...], Operand] = {}
        self.flags: dict[tuple[object, ...], Operand | None] = {}

    def numbered(self, operand: Operand, index: int) -> Operand:
        """Return the operand with that index, as an object that variants share."""
        key = (id(operand), index)
        known = self._numbered.get(key)
        if known is None or known[0] is not operand:
            known = self._numbered[key] = (operand, replace(operand, index=index))
        return known[1]

    def registers(
        self, nonterminal: str, *, eosz: int | None = None, rm: str = "", space: int = 0, extended: bool = False
    ) -> tuple[str, ...]:
        """Return the registers in the order of the rules, in 64-bit mode; `extended` includes R16 to R31 (APX)."""
        key = (nonterminal, eosz, rm, space, extended)
        found = self._known.get(key)
        if found is None:
            known = dict(LONG_MODE)
            known["VEXVALID"] = frozenset({space})
            if eosz:
                known["EOSZ"] = frozenset({eosz})
            if rm:
                known["RM"] = _RM_VALUES[rm]
            names = self._collect(nonterminal, known, extended=extended)
            found = self._known[key] = tuple(dict.fromkeys(map(register_name, names)))
        return found

    def _collect(self, nonterminal: str, known: Mapping[str, frozenset[int]], *, extended: bool) -> list[str]:
        """Collect the registers of all rules that are compatible with what is known."""
        if nonterminal not in self.datafiles.nonterminals:
            return []
        names: list[str] = []
        for rule in self.datafiles.nonterminals[nonterminal].rules:
            if not rule.compatible(known) or (rule.bound("HAS_EGPR") == 1 and not extended):
                continue
            value = rule.bound("OUTREG")
            if isinstance(value, str) and value.endswith("()"):
                names += self._collect(value[:-2], known, extended=extended)
            elif isinstance(value, str) and value not in ("XED_REG_ERROR", "XED_REG_INVALID"):
                names.append(value.removeprefix("XED_REG_"))
        return names

    def default_segment(self, spec: OperandSpec) -> str:
        """Return the segment of a SEG operand. It is that of 16-bit mode, since 64-bit mode ignores most segments."""
        if spec.register:
            return "" if spec.register == "INVALID" else spec.register
        names = self._collect(spec.nonterminal, {"MODE": frozenset({0})}, extended=False)
        return names[0] if names else ""


class OperandBuilder:
    """Makes the operands of the variants of one record."""

    def __init__(self, facts: RecordFacts, tables: RegisterTables, no_pointer_name: frozenset[str]) -> None:
        self.facts = facts
        self.no_pointer_name = no_pointer_name
        self.tables = tables
        self.helpers = {spec.name: spec for spec in facts.specs if spec.name.startswith(HELPERS)}
        self.shown = [
            spec for spec in facts.specs if not (spec.internal or spec.name in self.helpers or spec.register in FLAGS)
        ]
        self.default_flags = apx.default_flags_operand(facts)

    def build(self, choice: VariantAttributes) -> tuple[Operand, ...]:
        """Return the operands of a variant, `index` counting from 1."""
        operands: list[Operand] = []
        stack: list[Operand] = []
        for spec in self.shown:
            operand = self._operand(spec, choice)
            if operand is not None:
                operands.append(operand)
            if spec.register in STACK:
                stack.append(self._stack_memory(spec, choice))
        if self.default_flags:
            operands.insert(sum(not operand.suppressed for operand in operands), self.default_flags)
        operands += stack
        if flags := self._flags(choice):
            operands.append(flags)
        return tuple([self.tables.numbered(operand, index) for index, operand in enumerate(operands, 1)])

    def _operand(self, spec: OperandSpec, choice: VariantAttributes) -> Operand | None:
        """Return one operand without its index, None if the variant does not have it."""
        if spec.name.startswith("REG"):
            return None if choice.mask is False and _is_opmask(spec) else self._register(spec, choice)
        if spec.name.startswith("MEM"):
            return self._memory(spec, choice)
        read, written = "r" in spec.action, "w" in spec.action
        if spec.name == "AGEN":
            return Operand(0, OperandKind.AGEN, "AGEN", read=read, written=written, memory=MemoryShape())
        width = self._width_bits(spec, choice)
        if spec.name.startswith("IMM"):
            fixed = "1" if "IMPLICIT_ONE" in self.facts.record.attributes else ""
            value = "0" if choice.immzero and spec.name == "IMM0" else fixed
            implicit = spec.visibility == "IMPLICIT"
            key = (id(spec), "imm", width, value)
            known = self.tables.operands.get(key)
            if known is None:
                known = self.tables.operands[key] = Operand(
                    0, OperandKind.IMMEDIATE, spec.name, read=read, width_bits=width, value=value, implicit=implicit
                )
            return known
        if spec.name in ("RELBR", "ABSBR"):
            return Operand(0, OperandKind.RELATIVE_BRANCH, spec.name, read=read, width_bits=width)
        raise self.facts.record.error(f"nothing is known of operands with the name {spec.name}")

    def _register(self, spec: OperandSpec, choice: VariantAttributes) -> Operand:
        """Return a register operand; equal ones are one object."""
        high8 = choice.high8 and spec.name in choice.high8
        unwritten = self._unwritten(spec)
        space, extended = self.facts.encoding_space, self.facts.is_apx
        key: tuple[object, ...] = (
            id(spec),
            choice.eosz,
            bool(choice.high8),
            high8,
            choice.rm,
            choice.mask,
            choice.zeroing,
            unwritten,
        )
        key = (*key, space, extended)
        known = self.tables.operands.get(key)
        if known is None:
            known = self.tables.operands[key] = self._make_register(spec, choice)
        return known

    def _make_register(self, spec: OperandSpec, choice: VariantAttributes) -> Operand:
        """Make a register operand."""
        registers = self._registers(spec, choice)
        merged = choice.mask is True and not choice.zeroing and _is_vector_destination(spec)
        code = spec.oc2 or self.facts.datafiles.extra_widths.get(spec.nonterminal, "")
        width = 64 if registers and set(registers) <= ALWAYS_64 else self._width_bits(spec, choice) if code else None
        suppressed = spec.visibility == "SUPPRESSED" or self._unwritten(spec)
        stack = spec.register in STACK
        return Operand(
            0,
            OperandKind.REGISTER,
            spec.name,
            read="r" in spec.action or merged,
            written="w" in spec.action,
            conditional_write=_is_conditional_write(spec),
            implicit=spec.visibility == "IMPLICIT" and not suppressed,
            suppressed=suppressed,
            width_bits=width,
            xtype="" if stack else self._xtype(spec),
            registers=registers,
            opmask=_is_opmask(spec),
            multireg=spec.multi,
        )

    def _unwritten(self, spec: OperandSpec) -> bool:
        """Whether a register is implicit in the record, but no part of the assembly: ST(0) and AX in x87 arithmetic."""
        record = self.facts.record
        if spec.visibility != "IMPLICIT" or record.category != "X87_ALU":
            return False
        return spec.name == "REG0" or record.iclass in _UNWRITTEN_ST0

    def _registers(self, spec: OperandSpec, choice: VariantAttributes) -> tuple[str, ...]:
        """Return the registers that an operand may be."""
        if spec.register:
            return (register_name(spec.register),)
        if choice.high8 and spec.name in choice.high8:
            return HIGH8
        rm = choice.rm if spec.nonterminal == "GPR8_B" else ""
        space = self.facts.encoding_space
        names = self.tables.registers(
            spec.nonterminal, eosz=choice.eosz, rm=rm, space=space, extended=self.facts.is_apx
        )
        if is_byte_gpr(spec) and not space:
            names = tuple(name for name in names if name not in HIGH8)
        if choice.high8:
            names = tuple(name for name in names if not needs_rex(name))
        if spec.multi:
            names = tuple(name for name in names if _number(name) % spec.multi == 0)
        if _is_opmask(spec) or (choice.mask is True and spec.nonterminal.startswith("MASK")):
            names = tuple(name for name in names if name != "K0")
        if not names:
            raise self.facts.record.error(f"the nonterminal {spec.nonterminal} gives no register")
        return names

    def _memory(self, spec: OperandSpec, choice: VariantAttributes) -> Operand:
        """Return a memory operand; equal ones are one object."""
        number = spec.name[-1]
        suppressed = spec.visibility == "SUPPRESSED"
        width = self._width_bits(spec, choice)
        suffix = ""
        if choice.bcast:
            width = self.facts.bound(BCRC=1)["ELEMENT_SIZE"]
            suffix = self.facts.datafiles.strings["BCASTSTR"].strings[choice.bcast]
        vsib = next((kind for call, kind in _VSIB.items() if call in self.facts.calls), "")
        moffs = "MEMDISPv" in self.facts.calls
        base, segment = self.helpers.get(f"BASE{number}"), self.helpers.get(f"SEG{number}")
        index = self.helpers.get("INDEX") if number == "0" else None
        prefix = "" if vsib else self._pointer_name(spec, width)
        key = (id(spec), width, prefix, suffix, vsib, moffs, id(base), id(index), id(segment))
        known = self.tables.operands.get(key)
        if known is not None:
            return known
        memory = MemoryShape(
            prefix=prefix,
            suffix=suffix,
            vsib=vsib,
            moffs=moffs,
            base=self._address_register(base),
            index=self._address_register(index),
            segment=self.tables.default_segment(segment) if segment else "",
        )
        known = self.tables.operands[key] = Operand(
            0,
            OperandKind.MEMORY,
            spec.name,
            read="r" in spec.action,
            written="w" in spec.action,
            conditional_write=_is_conditional_write(spec),
            suppressed=suppressed,
            width_bits=width,
            xtype=self._xtype(spec),
            memory=memory,
        )
        return known

    def _address_register(self, spec: OperandSpec | None) -> str:
        """Return the register of a BASE or INDEX operand; if several are possible, the last."""
        if spec is None:
            return ""
        if spec.register:
            return "" if spec.register == "INVALID" else spec.register
        names = self.tables.registers(spec.nonterminal)
        return names[-1] if names else ""

    def _stack_memory(self, spec: OperandSpec, choice: VariantAttributes) -> Operand:
        """Return the memory operand on the stack that a push or pop accesses."""
        taken = any(other.name == "MEM0" for other in self.facts.specs)
        width = self._width_bits(spec, choice)
        access = STACK[spec.register]
        memory = MemoryShape(prefix=self._pointer_name(spec, width), base="RSP", segment="SS")
        return Operand(
            0,
            OperandKind.MEMORY,
            "MEM1" if taken else "MEM0",
            read="r" in access,
            written="w" in access,
            suppressed=True,
            width_bits=width,
            xtype=self._xtype(spec),
            memory=memory,
        )

    def _flags(self, choice: VariantAttributes) -> Operand | None:
        """Return the flags operand, None if no flag is accessed.

        XED gives it the name of the next free register. It has no name if it has x87 condition codes only.
        """
        if not self.facts.record.flags:
            return None
        number = sum(spec.name.startswith("REG") and spec.register not in FLAGS for spec in self.facts.specs)
        key = ("flags", self.facts.record.flags, bool(choice.immzero), number)
        if key not in self.tables.flags:
            self.tables.flags[key] = self._make_flags(number, immediate_is_zero=bool(choice.immzero))
        return self.tables.flags[key]

    def _make_flags(self, number: int, *, immediate_is_zero: bool) -> Operand | None:
        """Make the flags operand."""
        accesses = flag_accesses(self.facts.record, immediate_is_zero=immediate_is_zero)
        if not accesses:
            return None
        integer = any(not flag.startswith("FC") for flag in accesses)
        actions = set(accesses.values())
        return Operand(
            0,
            OperandKind.FLAGS,
            f"REG{number}" if integer else "",
            read=any("r" in action for action in actions),
            written=actions != {"r"},
            conditional_write=any("cw" in action for action in actions),
            suppressed=True,
            flags=accesses,
        )

    def _width_bits(self, spec: OperandSpec, choice: VariantAttributes) -> int:
        """Return the width of an operand."""
        datafiles = self.facts.datafiles
        code = spec.oc2 or datafiles.extra_widths.get(spec.nonterminal, "")
        width = datafiles.widths.get(code)
        if width is None:
            raise self.facts.record.error(f"expected a width code in {spec.name}, not {code!r}")
        if width.xtype == "var":
            bound = self.facts.bound(BCRC=0)
            return bound.get("ELEMENT_SIZE", 0) * bound.get("NELEM", 0)
        return width.bits[(choice.eosz or 3) - 1] if code not in ("asz", "ssz") else width.bits[2]

    def _xtype(self, spec: OperandSpec) -> str:
        """Return the element type: the operand's own, else the default of its width code."""
        if spec.xtype or not spec.oc2:
            return spec.xtype
        return self.facts.datafiles.widths[spec.oc2].xtype

    def _pointer_name(self, spec: OperandSpec, width: int) -> str:
        """Return the assembler's name of the memory operand's size."""
        datafiles = self.facts.datafiles
        element = datafiles.element_types.get(self._xtype(spec))
        if width == 80 and element is not None and element.base.startswith("LONG"):
            return f"{POINTER_80} ptr"
        if self.facts.record.iclass in self.no_pointer_name or spec.oc2 in FAR_STACK:
            return ""
        name = datafiles.pointer_names.get(width, "")
        return f"{name} ptr" if name else ""


FAR_STACK = frozenset({"spw2", "spw3", "spw5", "spw8"})
"""Width codes of several words on the stack, for which the assembler has no name."""


def _is_opmask(spec: OperandSpec) -> bool:
    """Whether an operand is the write mask of an EVEX instruction."""
    return spec.nonterminal in ("MASK1", "MASKNOT0")


def _is_conditional_write(spec: OperandSpec) -> bool:
    """Whether an operand is written only under some condition."""
    return "cw" in spec.action


def _is_vector_destination(spec: OperandSpec) -> bool:
    """Whether an operand is a destination that a mask merges into."""
    return spec.name == "REG0" and "w" in spec.action and not spec.nonterminal.startswith("MASK")


def _number(register: str) -> int:
    """Return the number in a register's name."""
    return int("".join(filter(str.isdigit, register)) or 0)
