"""The shipped catalogue's file: compressed blocks, so that a few variants load without the rest.

The file has a magic line, a header, and blocks. The header is a line of JSON: the catalogue's source, and where each
block begins and how long it is. Each block is compressed with zlib:

- `strings`: the strings of all variants in order, one per line.
- `iforms`, `iclasses`: each name once, one per line.
- `words`, `opcodes`: what variants are looked up by (`index.py`), each text once, one per line.
- `iform`, `iclass`, `word`, `opcode`: for each variant the number of its line, 16 bits, low byte first.
- `operands`, `attributes`: each distinct one as a line of JSON.
- `registers`: each distinct list of registers, one per line; `texts`: other names, one per line.
- `variants/N`: the variants from number N * 128 on, as rows of JSON.

Rows refer to lines by their number, from 0. The same variants give the same bytes (with the same version of zlib).
"""

from __future__ import annotations

import json
import os.path
import struct
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xed_convert.catalogue.index import opcodes_of, words_of
from xed_convert.errors import ConversionError
from xed_convert.model import InstructionVariant, MemoryShape, Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from xed_convert.catalogue.xml import WritesBytes

MAGIC = b"uopscope catalogue 3\n"
"""The first line of the file; the number is that of the format."""

ROWS_PER_BLOCK = 128
"""Variants that are read together: reading one variant decompresses one block."""

SHIPPED = os.path.join(os.path.dirname(__file__), "..", "data", "catalogue.bin")  # noqa: PTH118, PTH120
"""The shipped catalogue. Not a `Path`: importing pathlib takes as long as opening the catalogue."""

JsonRow = list[Any]
"""A row of JSON; `operand_row` and `variant_row` list the columns."""


class _Lines:
    """Gives each distinct line a number in the order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, line: str) -> int:
        """Return the number of a line."""
        return self._numbers.setdefault(line, len(self._numbers))

    def data(self) -> bytes:
        """Return all lines."""
        return "\n".join(self._numbers).encode()


class _Tables:
    """The tables of lines that rows refer to; they grow as rows are written."""

    def __init__(self) -> None:
        self.iforms = _Lines()
        self.iclasses = _Lines()
        self.words = _Lines()
        self.opcodes = _Lines()
        self.operands = _Lines()
        self.registers = _Lines()
        self.attributes = _Lines()
        self.texts = _Lines()

    def operand_row(self, operand: Operand) -> JsonRow:
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
            self.registers.number(",".join(operand.registers)),
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

    def variant_row(self, variant: InstructionVariant) -> JsonRow:
        """Return a variant as a row, without the names that have blocks of their own."""
        return [
            variant.asm,
            self.texts.number(variant.category),
            self.texts.number(variant.extension),
            self.texts.number(variant.isa_set),
            variant.cpl,
            self.attributes.number(_json(dict(sorted(variant.attributes.items())))),
            [self.operands.number(_json(self.operand_row(operand))) for operand in variant.operands],
            variant.encoding,
        ]

    def blocks(self) -> dict[str, bytes]:
        """Return the tables as blocks, not yet compressed."""
        return {name: lines.data() for name, lines in vars(self).items()}


def write_store(variants: Iterable[InstructionVariant], file: WritesBytes, *, source: str) -> None:
    """Write a catalogue; `source` names its origin."""
    ordered = sorted(variants, key=lambda variant: (variant.extension, variant.string))
    tables = _Tables()
    rows = [tables.variant_row(variant) for variant in ordered]
    contents = {
        "strings": "\n".join(variant.string for variant in ordered).encode(),
        "iform": _numbers([tables.iforms.number(variant.iform) for variant in ordered]),
        "iclass": _numbers([tables.iclasses.number(variant.iclass) for variant in ordered]),
        "word": _numbers([tables.words.number(words_of(variant.asm)) for variant in ordered]),
        "opcode": _numbers([tables.opcodes.number(opcodes_of(variant.encoding)) for variant in ordered]),
    }
    contents |= tables.blocks()
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        contents[f"variants/{start // ROWS_PER_BLOCK}"] = _json(rows[start : start + ROWS_PER_BLOCK]).encode()
    blocks = {name: zlib.compress(content, 9) for name, content in contents.items()}
    places: dict[str, list[int]] = {}
    offset = 0
    for name, block in blocks.items():
        places[name] = [offset, len(block)]
        offset += len(block)
    file.write(MAGIC + _json({"source": source, "count": len(ordered), "blocks": places}).encode() + b"\n")
    for block in blocks.values():
        file.write(block)


def _json(content: object) -> str:
    """Return JSON without blanks."""
    return json.dumps(content, separators=(",", ":"))


def _numbers(numbers: list[int]) -> bytes:
    """Return numbers of 16 bits."""
    return struct.pack(f"<{len(numbers)}H", *numbers)


class CatalogueFile:
    """A catalogue file. It reads all names at once, and each variant when it is first used."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - see SHIPPED
                self._data = file.read()
        except OSError as error:
            message = f"{path}: cannot be read: {error.strerror or error}"
            raise ConversionError(message, hint="Reinstall the package.") from error
        end = self._data.find(b"\n", len(MAGIC))
        if not self._data.startswith(MAGIC) or end < 0:
            message = f"{path}:1: not a catalogue of this version: expected {MAGIC.decode().strip()!r}"
            raise ConversionError(message, hint="Make it anew, or reinstall the package.")
        self._header: dict[str, Any] = self._parse(self._data[len(MAGIC) : end], "header")
        self._start = end + 1
        self.strings = self._lines("strings")
        self.iforms = self._lines("iforms")
        self.iclasses = self._lines("iclasses")
        self.iform_numbers = self._numbers("iform")
        self.iclass_numbers = self._numbers("iclass")
        self._operands: dict[int, Operand] = {}
        self._attributes: dict[int, dict[str, str]] = {}
        self._rows: dict[int, list[JsonRow]] = {}
        self._variants: dict[int, InstructionVariant] = {}

    @property
    def source(self) -> str:
        """The origin of the catalogue."""
        return str(self._header["source"])

    def __len__(self) -> int:
        return len(self.strings)

    def variant(self, number: int) -> InstructionVariant:
        """Return the variant with that number in the order of the file."""
        variant = self._variants.get(number)
        if variant is None:
            variant = self._variants[number] = self._variant(number, self._row(number))
        return variant

    @cached_property
    def words(self) -> list[str]:
        """For each variant, prefixes and mnemonic (see `index.words_of`)."""
        return self._lines_by_variant("words", "word")

    @cached_property
    def opcodes(self) -> list[str]:
        """For each variant, the opcodes of its forms (see `index.opcodes_of`)."""
        return self._lines_by_variant("opcodes", "opcode")

    def _row(self, number: int) -> JsonRow:
        """Return the row of the variant with that number."""
        block = number // ROWS_PER_BLOCK
        rows = self._rows.get(block)
        if rows is None:
            name = f"variants/{block}"
            rows = self._rows[block] = self._parse(self._block(name), name)
        return rows[number % ROWS_PER_BLOCK]

    def _parse(self, text: str | bytes, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Parse JSON of the block of that name."""
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._damaged(name, error) from error

    def _block(self, name: str) -> bytes:
        """Read a block."""
        try:
            offset, length = self._header["blocks"][name]
            start = self._start + offset
            return zlib.decompress(self._data[start : start + length])
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise self._damaged(name, error) from error

    def _damaged(self, name: str, error: Exception) -> ConversionError:
        """Return the error for a block that cannot be read."""
        message = f"{self.path}:1: the block {name!r} is damaged: {error}"
        return ConversionError(message, hint="Make it anew, or reinstall the package.")

    def _lines(self, name: str) -> list[str]:
        """Read a block of lines."""
        try:
            return self._block(name).decode().split("\n")
        except UnicodeDecodeError as error:
            raise self._damaged(name, error) from error

    def _numbers(self, name: str) -> tuple[int, ...]:
        """Read a block of numbers, one for each variant."""
        try:
            return struct.unpack(f"<{len(self.strings)}H", self._block(name))
        except struct.error as error:
            raise self._damaged(name, error) from error

    def _lines_by_variant(self, lines: str, numbers: str) -> list[str]:
        """Return the line of each variant, from a block of lines and a block of their numbers."""
        known = self._lines(lines)
        try:
            return [known[number] for number in self._numbers(numbers)]
        except IndexError as error:
            raise self._damaged(numbers, error) from error

    @cached_property
    def _operand_lines(self) -> list[str]:
        return self._lines("operands")

    @cached_property
    def _attribute_lines(self) -> list[str]:
        return self._lines("attributes")

    @cached_property
    def _registers(self) -> list[str]:
        return self._lines("registers")

    @cached_property
    def _texts(self) -> list[str]:
        return self._lines("texts")

    def _variant(self, number: int, row: JsonRow) -> InstructionVariant:
        """Make a variant from its row."""
        texts = self._texts
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
            attributes=self._attributes_of(attributes),
            operands=tuple([self._operand(operand) for operand in operands]),
            encoding=encoding,
        )

    def _operand(self, number: int) -> Operand:
        """Return an operand of the table."""
        known = self._operands.get(number)
        if known is None:
            row = self._parse(self._operand_lines[number], "operands")
            known = self._operands[number] = self._make_operand(row)
        return known

    def _attributes_of(self, number: int) -> dict[str, str]:
        """Return the attributes of that number."""
        known = self._attributes.get(number)
        if known is None:
            known = self._attributes[number] = self._parse(self._attribute_lines[number], "attributes")
        return known

    def _make_operand(self, row: JsonRow) -> Operand:
        """Make an operand from its row."""
        index, kind, name, access, visibility, width, xtype, registers, value, multireg, memory, flags = row
        names = self._registers[registers]
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
