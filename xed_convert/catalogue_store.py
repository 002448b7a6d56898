"""The shipped catalogue's file: compressed blocks behind an index, so that a few variants load without the rest.

The file is a magic line, a line of JSON (the header: where each block begins and how long it is, and what the
catalogue was made from), and the blocks, each JSON compressed with zlib:

- `index`: names of all variants, in order: strings, and for each variant the number of its iform and iclass;
- `tables`: operands, register lists and attributes, each once; variants refer to them by number;
- `variants/N`: the variants N * 128 and following, as rows.

Writing is deterministic: the same variants give the same bytes (with the same version of zlib).
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xed_convert.errors import ConversionError
from xed_convert.model import InstructionVariant, MemoryShape, Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xed_convert.catalogue_xml import WritesBytes

MAGIC = b"uopscope catalogue 1\n"
ROWS_PER_BLOCK = 128
SHIPPED = Path(__file__).parent / "data" / "catalogue.bin"

Row = list[Any]
"""A row of JSON: its columns are those that the function that writes it lists."""


class _Numbers:
    """Gives each distinct thing a number in the order of first use."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._known: dict[Any, int] = {}

    def of(self, key: Any, thing: Any) -> int:  # noqa: ANN401 - any JSON value
        """Return the number of a thing; equal keys are the same thing."""
        number = self._known.setdefault(key, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class _Tables:
    """The tables while a catalogue is written."""

    def __init__(self) -> None:
        self.operands = _Numbers()
        self.registers = _Numbers()
        self.attributes = _Numbers()
        self.texts = _Numbers()

    def operand_row(self, operand: Operand) -> Row:
        """Return an operand as a row."""
        memory = operand.memory
        return [
            operand.index,
            operand.kind.value,
            operand.name,
            int(operand.read) + 2 * int(operand.written) + 4 * int(operand.conditional_write),
            int(operand.implicit) + 2 * int(operand.suppressed) + 4 * int(operand.opmask),
            operand.width_bits,
            operand.xtype,
            self.registers.of(operand.registers, ",".join(operand.registers)),
            operand.value,
            operand.multireg,
            None
            if memory is None
            else [
                memory.prefix,
                memory.suffix,
                memory.vsib,
                int(memory.moffs),
                memory.base,
                memory.index,
                memory.segment,
            ],
            dict(sorted(operand.flags.items())),
        ]

    def variant_row(self, variant: InstructionVariant) -> Row:
        """Return a variant as a row; names that the index has are left out."""
        attributes = dict(sorted(variant.attributes.items()))
        operands = []
        for operand in variant.operands:
            row = self.operand_row(operand)
            operands.append(self.operands.of(json.dumps(row), row))
        return [
            variant.asm,
            self.texts.of(variant.category, variant.category),
            self.texts.of(variant.extension, variant.extension),
            self.texts.of(variant.isa_set, variant.isa_set),
            variant.cpl,
            self.attributes.of(json.dumps(attributes), attributes),
            operands,
            variant.encoding,
        ]


def write_store(variants: Iterable[InstructionVariant], file: WritesBytes, *, source: str) -> None:
    """Write a catalogue; `source` says what it was made from."""
    ordered = sorted(variants, key=lambda variant: (variant.extension, variant.string))
    tables = _Tables()
    iforms, iclasses = _Numbers(), _Numbers()
    rows = [tables.variant_row(variant) for variant in ordered]
    index = {
        "strings": [variant.string for variant in ordered],
        "iform": [iforms.of(variant.iform, variant.iform) for variant in ordered],
        "iclass": [iclasses.of(variant.iclass, variant.iclass) for variant in ordered],
        "iforms": iforms.things,
        "iclasses": iclasses.things,
    }
    contents: dict[str, object] = {
        "index": index,
        "tables": {
            "operands": tables.operands.things,
            "registers": tables.registers.things,
            "attributes": tables.attributes.things,
            "texts": tables.texts.things,
        },
    }
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        contents[f"variants/{start // ROWS_PER_BLOCK}"] = rows[start : start + ROWS_PER_BLOCK]
    blocks = {name: zlib.compress(_json(content), 9) for name, content in contents.items()}
    places: dict[str, list[int]] = {}
    offset = 0
    for name, block in blocks.items():
        places[name] = [offset, len(block)]
        offset += len(block)
    file.write(MAGIC + _json({"source": source, "count": len(ordered), "blocks": places}) + b"\n")
    for block in blocks.values():
        file.write(block)


def _json(content: object) -> bytes:
    """Return JSON without blanks."""
    return json.dumps(content, separators=(",", ":")).encode("ascii")


class Store:
    """A catalogue file, open for reading: names at once, variants when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._data = path.read_bytes()
        except OSError as error:
            message = f"{path}: cannot read the catalogue: {error.strerror or error}"
            raise ConversionError(message, hint="Reinstall the package.") from error
        end = self._data.find(b"\n", len(MAGIC))
        if not self._data.startswith(MAGIC) or end < 0:
            message = f"{path}:1: not a catalogue of this version: expected {MAGIC.decode().strip()!r}"
            raise ConversionError(message, hint="Make it anew, or reinstall the package.")
        self._header: dict[str, Any] = self._parse(self._data[len(MAGIC) : end], "header")
        self._start = end + 1
        index = self._block("index")
        self.strings: list[str] = index["strings"]
        self.iforms: list[str] = index["iforms"]
        self.iclasses: list[str] = index["iclasses"]
        self.iform_numbers: list[int] = index["iform"]
        self.iclass_numbers: list[int] = index["iclass"]
        self._tables: dict[str, list[Any]] | None = None
        self._operands: dict[int, Operand] = {}
        self._rows: dict[int, list[Row]] = {}
        self._variants: dict[int, InstructionVariant] = {}

    @property
    def source(self) -> str:
        """What the catalogue was made from."""
        return str(self._header["source"])

    def __len__(self) -> int:
        return len(self.strings)

    def variant(self, number: int) -> InstructionVariant:
        """Return the variant with that number in the order of the file."""
        variant = self._variants.get(number)
        if variant is None:
            variant = self._variants[number] = self._variant(number, self._row(number))
        return variant

    def encoding(self, number: int) -> str:
        """Return the encoding of the variant with that number, without making the variant."""
        encoding: str = self._row(number)[-1]
        return encoding

    def _row(self, number: int) -> Row:
        """Return the row of the variant with that number."""
        block = number // ROWS_PER_BLOCK
        rows = self._rows.get(block)
        if rows is None:
            rows = self._rows[block] = self._block(f"variants/{block}")
        return rows[number % ROWS_PER_BLOCK]

    def _parse(self, text: bytes, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Parse a block of JSON."""
        try:
            return json.loads(text)
        except ValueError as error:
            message = f"{self.path}:1: the block {name!r} is damaged: {error}"
            raise ConversionError(message, hint="Make it anew, or reinstall the package.") from error

    def _block(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Read a block."""
        try:
            offset, length = self._header["blocks"][name]
            start = self._start + offset
            text = zlib.decompress(self._data[start : start + length])
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            message = f"{self.path}:1: the block {name!r} is damaged: {error}"
            raise ConversionError(message, hint="Make it anew, or reinstall the package.") from error
        return self._parse(text, name)

    @property
    def tables(self) -> dict[str, list[Any]]:
        """The tables that variants refer to."""
        if self._tables is None:
            self._tables = self._block("tables")
        return self._tables

    def _variant(self, number: int, row: Row) -> InstructionVariant:
        """Make a variant from its row."""
        tables = self.tables
        texts = tables["texts"]
        asm, category, extension, isa_set, cpl, attributes, operands, encoding = row
        return InstructionVariant(
            iform=self.iforms[self.iform_numbers[number]],
            string=self.strings[number],
            asm=asm,
            iclass=self.iclasses[self.iclass_numbers[number]],
            category=texts[category],
            extension=texts[extension],
            isa_set=texts[isa_set],
            cpl=cpl,
            attributes=tables["attributes"][attributes],
            operands=tuple([self._operand(operand) for operand in operands]),
            encoding=encoding,
        )

    def _operand(self, number: int) -> Operand:
        """Return an operand of the table."""
        known = self._operands.get(number)
        if known is None:
            known = self._operands[number] = self._make_operand(self.tables["operands"][number])
        return known

    def _make_operand(self, row: Row) -> Operand:
        """Make an operand from its row."""
        index, kind, name, access, visibility, width, xtype, registers, value, multireg, memory, flags = row
        names = self.tables["registers"][registers]
        shape = None
        if memory is not None:
            prefix, suffix, vsib, moffs, base, index_register, segment = memory
            shape = MemoryShape(prefix, suffix, vsib, bool(moffs), base, index_register, segment)
        return Operand(
            index=index,
            kind=OperandKind(kind),
            name=name,
            read=bool(access & 1),
            written=bool(access & 2),
            conditional_write=bool(access & 4),
            implicit=bool(visibility & 1),
            suppressed=bool(visibility & 2),
            opmask=bool(visibility & 4),
            width_bits=width,
            xtype=xtype,
            registers=tuple(names.split(",")) if names else (),
            value=value,
            multireg=multireg,
            memory=shape,
            flags=flags,
        )
