"""Assembly syntax and the catalogue's `string`: Intel syntax as the GNU assembler reads it.

Mnemonics are XED's. `data/asm_syntax.toml` lists those that differ in the assembler. Prefixes in braces (`{evex}`,
`{vex}`, `{disp32}`, `{load}`, `{store}`) select a form that the assembler would not choose by itself.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from xed_convert.errors import ConversionError
from xed_convert.expansion.iform import nonterminal_base
from xed_convert.globs import any_pattern
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from re import Pattern

    from xed_convert.datafiles.records import Record
    from xed_convert.expansion.attributes import VariantAttributes
    from xed_convert.expansion.facts import RecordFacts
    from xed_convert.model import MemoryShape, Operand

_TABLE = "data/asm_syntax.toml"
_REPEAT = {2: "REPNE", 3: "REPE"}


@dataclass(frozen=True, slots=True)
class MnemonicRow:
    """A row of the table of mnemonics. Empty conditions hold always, empty results change nothing."""

    source: str
    iclass: Pattern[str] | None = None
    iform: Pattern[str] | None = None
    eosz: str = ""
    asm: str = ""
    asm_prefix: str = ""
    asm_suffix: str = ""
    string_suffix: str = ""

    def fits(self, iclass: str, iform: str, eosz: int | None) -> bool:
        """Whether the row applies to a variant."""
        return (
            (not self.iclass or self.iclass.match(iclass) is not None)
            and (not self.iform or self.iform.match(iform) is not None)
            and (not self.eosz or self.eosz == str(eosz))
        )


@dataclass(frozen=True)
class SyntaxTables:
    """The tables of `data/asm_syntax.toml`."""

    mnemonics: tuple[MnemonicRow, ...]
    no_pointer_name: frozenset[str]
    vex_after_evex: frozenset[str]
    _rows: dict[tuple[str, str, int | None], tuple[MnemonicRow, ...]] = field(default_factory=dict)

    @classmethod
    def load(cls) -> SyntaxTables:
        """Read the shipped tables.

        Raises:
            ConversionError: a table or column is unknown, or a row has no source.
        """
        text = resources.files("xed_convert").joinpath(_TABLE).read_text(encoding="utf-8")
        tables = tomllib.loads(text)
        if set(tables) != {"mnemonic", "no_pointer_name", "vex_after_evex"}:
            raise ConversionError(f"{_TABLE}: unknown or missing table among {', '.join(tables)}")
        for name, rows in tables.items():
            for number, row in enumerate(rows, 1):
                if not row.get("source"):
                    raise ConversionError(f"{_TABLE}: {name} row {number} has no source")
        mnemonics: list[MnemonicRow] = []
        for number, row in enumerate(tables["mnemonic"], 1):
            if unknown := set(row) - set(MnemonicRow.__dataclass_fields__):
                raise ConversionError(f"{_TABLE}: mnemonic row {number} has unknown columns {', '.join(unknown)}")
            columns: dict[str, Any] = {
                name: any_pattern(value) if isinstance(value, list) else value for name, value in row.items()
            }
            mnemonics.append(MnemonicRow(**columns))
        return cls(
            tuple(mnemonics),
            frozenset(name for row in tables["no_pointer_name"] for name in row["iclass"]),
            frozenset(name for row in tables["vex_after_evex"] for name in row["extension"]),
        )

    def rows(self, iclass: str, iform: str, eosz: int | None) -> tuple[MnemonicRow, ...]:
        """Return the rows that apply to a variant."""
        key = (iclass, iform, eosz)
        known = self._rows.get(key)
        if known is None:
            known = self._rows[key] = tuple(row for row in self.mnemonics if row.fits(*key))
        return known


@dataclass(frozen=True, slots=True)
class VariantSyntax:
    """How a variant is written, without what tells it from its siblings.

    `operands` are those that `string` lists. `string` is `name`, suffixes of siblings, and `ending`.
    """

    mnemonic: str
    prefix: str
    name: str
    operands: tuple[str, ...]
    ending: str


def syntax_of(
    facts: RecordFacts, iform: str, choice: VariantAttributes, operands: tuple[Operand, ...], tables: SyntaxTables
) -> VariantSyntax:
    """Return how a variant is written."""
    record = facts.record
    mnemonic = (record.disasm_intel or record.disasm or record.iclass).upper()
    name = record.iclass
    prefix = "LOCK" if facts.fixes("LOCK", 1) else ""
    suffix = ""
    if choice.rep:
        prefix = _REPEAT[choice.rep]
        name = name.partition("_")[2]
        suffix = f"_{prefix}"
    if choice.agen:
        suffix += f"_{choice.agen}"
    if choice.rm:
        suffix += f"_R{choice.rm[0]}"
    for row in tables.rows(record.iclass, iform, choice.eosz):
        mnemonic = (row.asm or mnemonic) + row.asm_suffix
        prefix = " ".join(filter(None, (row.asm_prefix, prefix)))
        suffix += row.string_suffix
    shown = operand_strings(facts, operands)
    listed = f" ({', '.join(shown)})" if shown else ""
    return VariantSyntax(mnemonic, prefix, name + suffix, shown, _vector_suffix(facts, choice) + listed)


def _vector_suffix(facts: RecordFacts, choice: VariantAttributes) -> str:
    """Return the suffix of the name in `string` for rounding, suppressed exceptions and zeroing."""
    rounding = "_ER" if "ROUNDC" in facts.texts else "_SAE" if "SAESTR" in facts.texts else ""
    return rounding + ("_Z" if choice.zeroing else "")


def operand_strings(facts: RecordFacts, operands: tuple[Operand, ...]) -> tuple[str, ...]:
    """Return the operands as `string` lists them: those that assembly has, and ST(0) even where assembly lacks it."""
    shown: list[str] = []
    for operand in operands:
        if operand.suppressed:
            if operand.registers == ("ST(0)",):
                shown += ["ST0", "ST(0)"]
            continue
        text = _operand_string(operand, facts.sources)
        if text:
            shown.append(text)
    return tuple(shown)


def _operand_string(operand: Operand, sources: Mapping[str, str]) -> str:
    """Return how `string` names an operand."""
    if operand.kind is OperandKind.REGISTER:
        return _register_string(operand, sources.get(operand.name, ""))
    if operand.kind is OperandKind.MEMORY and operand.memory is not None:
        return _memory_string(operand, operand.memory)
    names = {
        OperandKind.IMMEDIATE: operand.value or f"I{operand.width_bits}",
        OperandKind.RELATIVE_BRANCH: f"Rel{operand.width_bits}",
        OperandKind.DEFAULT_FLAGS: "DFV",
    }
    return names.get(operand.kind, "")


def _memory_string(operand: Operand, memory: MemoryShape) -> str:
    """Return how `string` names a memory operand."""
    if memory.vsib:
        return f"VSIB_{memory.vsib}"
    if memory.moffs:
        return f"Moffs{operand.width_bits}"
    return f"M{operand.width_bits}" + (f"_{memory.suffix.strip('{}')}" if memory.suffix else "")


_CLASSES = {"SEG": "SEG", "MMX": "MM", "MASK": "K", "MASKNOT0": "K", "MASK1": "K", "X87": "ST"}
"""Names in `string` of register classes that XED's nonterminals call otherwise."""

_PLAIN_CLASSES = frozenset({"XMM", "YMM", "ZMM", "TMM", "BND", "CR", "DR"})


def _register_string(operand: Operand, nonterminal: str) -> str:
    """Return how `string` names a register operand: its class and width, or the register if there is only one."""
    if len(operand.registers) == 1:
        return operand.registers[0]
    base = nonterminal_base(nonterminal)
    if base in _PLAIN_CLASSES:
        return base
    if base in _CLASSES and not operand.multireg:
        return _CLASSES[base]
    if base == "GPR8":
        return "R8h" if operand.registers[0] == "AH" else "R8l"
    return f"R{operand.width_bits}" if base.startswith(("GPR", "MASK")) else "R"


def direction(facts: RecordFacts) -> str:
    """Return "load" if the first register operand is in ModRM.reg, "store" if it is in ModRM.rm, else ""."""
    first = next((spec for spec in facts.specs if spec.visibility == "EXPLICIT" and spec.nonterminal), None)
    if first is None:
        return ""
    field = first.nonterminal.rsplit("_", 1)[-1].rstrip("3")
    return {"R": "load", "B": "store"}.get(field, "")


def explicit_registers(operands: tuple[Operand, ...], strings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the explicit register operands; () if they are fewer than two, or if an operand is memory."""
    shown = [operand for operand in operands if operand.explicit]
    if any(operand.kind is OperandKind.MEMORY for operand in shown):
        return ()
    registers = tuple(
        string
        for operand, string in zip(_shown(operands), strings, strict=False)
        if operand.explicit and operand.kind is OperandKind.REGISTER
    )
    return registers if len(registers) > 1 else ()


def _shown(operands: tuple[Operand, ...]) -> list[Operand]:
    """Return the operands that `string` lists."""
    return [operand for operand in operands if not operand.suppressed]


def mnemonic_suffix(record: Record, iform: str) -> str:
    """Return the last part of an iform as a suffix for `string`; it tells encodings of the same operands apart."""
    return "_" + iform.rsplit("_", 1)[-1].upper() if "_" in iform else f"_{record.real_opcode}"
