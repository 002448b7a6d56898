"""A folder of XED's datafiles as one object.

`Datafiles.load(folder)` reads the layers in order, and gives records, nonterminals, macros and tables. Its errors begin
with `file:line`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xed_convert.datafiles import tables
from xed_convert.datafiles.corrections import Corrections
from xed_convert.datafiles.layers import find_datafiles, layer_order, read_layers, version_of
from xed_convert.datafiles.nonterminals import Nonterminal, read_nonterminals
from xed_convert.datafiles.operand_spec import OperandReader, OperandSpec
from xed_convert.datafiles.pattern import Macros, Token
from xed_convert.datafiles.records import Record, read_records
from xed_convert.datafiles.source import FileLine, read_lines
from xed_convert.errors import ConversionError
from xed_convert.garbage import without_collection

if TYPE_CHECKING:
    from pathlib import Path

    from xed_convert.datafiles.layers import DataFile

REQUIRED_KINDS = (
    "dec-instructions",
    "dec-patterns",
    "state",
    "widths",
    "extra-widths",
    "fields",
    "element-types",
    "pointer-names",
    "conversion-table",
)


@dataclass(frozen=True, slots=True)
class Datafiles:
    """The datafiles of one version of XED.

    - `version`: the known version with the same layers ("": none).
    - `files`: the datafiles by type.
    - `flat_nonterminals`: the nonterminals that give no register.
    - `extra_widths`: width codes of registers and nonterminals.
    - `pointer_names`: the assembler's names of memory sizes, by size in bits.
    - `strings`: conversion tables (BCASTSTR ...) by name.
    """

    folder: Path
    version: str
    files: dict[str, list[DataFile]]
    macros: Macros
    records: list[Record]
    nonterminals: dict[str, Nonterminal]
    flat_nonterminals: dict[str, Nonterminal]
    widths: dict[str, tables.Width]
    element_types: dict[str, tables.ElementType]
    fields: dict[str, tables.Field]
    extra_widths: dict[str, str]
    pointer_names: dict[int, str]
    strings: dict[str, tables.ConversionTable]
    operand_reader: OperandReader

    @classmethod
    def load(cls, folder: Path, *, layers: list[str] | None = None) -> Datafiles:
        """Read a datafiles folder or an XED checkout; `layers` names the `.cfg` files if their order is not known.

        Raises:
            ConversionError: something is missing or not of the known form; the message says where.
        """
        with without_collection():
            return cls._load(find_datafiles(folder), layers)

    @classmethod
    def _load(cls, root: Path, layers: list[str] | None) -> Datafiles:
        """Read the datafiles folder `root`."""
        order = layers if layers is not None else layer_order(root)
        files = read_layers(root, order)
        if missing := [kind for kind in REQUIRED_KINDS if kind not in files]:
            message = f"{root / 'files.cfg'}: the layers name no file of type {', '.join(missing)}"
            raise ConversionError(message, hint="The list of layers is probably incomplete.")
        corrections = Corrections.load()

        def lines_of(file: DataFile) -> list[FileLine]:
            return corrections.apply(read_lines(file.path, file.name, named_by=file.named_by), file.name)

        def all_lines(kind: str) -> list[FileLine]:
            return [line for file in files[kind] for line in lines_of(file)]

        macros = Macros.read(all_lines("state"))
        nonterminals = read_nonterminals(all_lines("dec-patterns"), macros)
        fields = tables.read_fields(all_lines("fields"))
        return cls(
            folder=root,
            version=version_of(order),
            files=files,
            macros=macros,
            records=corrections.with_flags(read_records(lines_of(file) for file in files["dec-instructions"])),
            nonterminals=nonterminals,
            flat_nonterminals={name: one for name, one in nonterminals.items() if not one.gives_register},
            widths=tables.read_widths(all_lines("widths")),
            element_types=tables.read_element_types(all_lines("element-types")),
            fields=fields,
            extra_widths=tables.read_extra_widths(all_lines("extra-widths")),
            pointer_names=tables.read_pointer_names(all_lines("pointer-names")),
            strings=tables.read_conversion_tables(all_lines("conversion-table")),
            operand_reader=OperandReader(fields, macros),
        )

    def pattern(self, record: Record) -> tuple[Token, ...]:
        """Return the tokens of a record's pattern with the macros expanded.

        Raises:
            ConversionError: a token is not of the language.
        """
        return self.macros.expand(record.pattern, record.location)

    def operands(self, record: Record) -> tuple[OperandSpec, ...]:
        """Return a record's operands, including those with the visibility ECOND.

        Raises:
            ConversionError: an operand is not of the known form.
        """
        return self.operand_reader.read(record.operands, record.location)
