"""The catalogue as XML: the format of uops.info's instructions.xml, with the encoding as a child element.

Attributes and extensions are in the order of their names, instructions in that of `string`. An operand's text lists its
registers, or its fixed value. Reading skips the measurements below an instruction.
"""

from __future__ import annotations

import gzip
import lzma
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from lxml import etree

from xed_convert.errors import ConversionError
from xed_convert.model import InstructionVariant, MemoryShape, Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from io import BufferedIOBase
    from pathlib import Path

_NAMED = ("iform", "string", "asm", "iclass", "category", "extension", "isa-set", "cpl")
_FLAG = "flag_"


def open_catalogue(path: Path) -> BufferedIOBase | gzip.GzipFile | lzma.LZMAFile:
    """Open a plain, .gz or .xz file for reading bytes.

    Raises:
        ConversionError: it does not exist or cannot be read.
    """
    try:
        if path.suffix == ".xz":
            return lzma.open(path)
        return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise ConversionError(message) from error


def read_xml(path: Path) -> Iterator[InstructionVariant]:
    """Yield the variants of a catalogue (plain, .gz or .xz) in the order of the file.

    Raises:
        ConversionError: the file cannot be read, is not well-formed, or lacks an attribute.
    """
    line = 0
    with open_catalogue(path) as file:
        try:
            for _, element in etree.iterparse(file, tag="instruction"):
                line = element.sourceline or 0
                yield variant_of(element)
                element.clear()
        except (etree.XMLSyntaxError, EOFError, OSError, lzma.LZMAError) as error:
            message = f"{path}:{getattr(error, 'lineno', None) or line}: not a readable catalogue: {xml_fault(error)}"
            raise ConversionError(message) from error
        except (KeyError, ValueError) as error:
            message = f"{path}:{line}: an <instruction> is not of the known form: {error}"
            raise ConversionError(message) from error


def xml_fault(error: Exception) -> str:
    """Return what is wrong with a file, without its name and the line, which the parser's text repeats."""
    said = error.msg if isinstance(error, etree.XMLSyntaxError) and error.msg else str(error)
    return said.partition(", line ")[0]


def variant_of(element: etree._Element) -> InstructionVariant:
    """Return the variant that an <instruction> element describes.

    Raises:
        KeyError: an attribute is missing.
        ValueError: an attribute has an impossible value.
    """
    attributes = {str(name): str(value) for name, value in element.attrib.items()}
    named = {name: attributes.pop(name) for name in _NAMED}
    encoding = element.find("encoding")
    return InstructionVariant(
        iform=named["iform"],
        string=named["string"],
        asm=named["asm"],
        iclass=named["iclass"],
        category=named["category"],
        extension=named["extension"],
        isa_set=named["isa-set"],
        cpl=int(named["cpl"]),
        attributes=attributes,
        operands=tuple(operand_of(child) for child in element.findall("operand")),
        encoding=(encoding.text or "").strip() if encoding is not None else "",
    )


def operand_of(element: etree._Element) -> Operand:
    """Return the operand that an <operand> element describes.

    Raises:
        KeyError: an attribute is missing.
        ValueError: an attribute has an impossible value.
    """
    return _operand(tuple(element.attrib.items()), (element.text or "").strip())


@lru_cache(maxsize=10_000)
def _operand(attributes: tuple[tuple[str, str], ...], text: str) -> Operand:
    """Return the operand with these attributes and this text; a file of 22,766 variants has some 2,000 of them."""
    values = dict(attributes)
    get = values.get
    kind = OperandKind(values["type"])
    width, multireg = get("width"), get("multireg")
    in_memory = kind in (OperandKind.MEMORY, OperandKind.AGEN)
    return Operand(
        index=int(values["idx"]),
        kind=kind,
        name=get("name", ""),
        read=get("r") == "1",
        written=get("w") == "1",
        conditional_write=get("conditionalWrite") == "1",
        implicit=get("implicit") == "1",
        suppressed=get("suppressed") == "1",
        width_bits=int(width) if width else None,
        xtype=get("xtype", ""),
        registers=tuple(text.split(",")) if kind is OperandKind.REGISTER and text else (),
        value=text if kind is not OperandKind.REGISTER else "",
        opmask=get("opmask") == "1",
        multireg=int(multireg) if multireg else None,
        memory=_memory_of(values) if in_memory else None,
        flags={name[len(_FLAG) :]: value for name, value in attributes if name.startswith(_FLAG)},
    )


def _memory_of(values: Mapping[str, str]) -> MemoryShape:
    """Return the fixed parts of a memory operand's address."""
    get = values.get
    return MemoryShape(
        prefix=get("memory-prefix", ""),
        suffix=get("memory-suffix", ""),
        vsib=get("VSIB", ""),
        moffs=get("moffs") == "1",
        base=get("base", ""),
        index=get("index", ""),
        segment=get("seg", ""),
    )


def operand_attributes(operand: Operand) -> dict[str, str]:
    """Return the XML attributes of an operand."""
    memory = operand.memory or MemoryShape()
    values = {
        "idx": str(operand.index),
        "type": operand.kind.value,
        "name": operand.name,
        "r": "1" if operand.read else "",
        "w": "1" if operand.written else "",
        "conditionalWrite": "1" if operand.conditional_write else "",
        "implicit": "1" if operand.implicit else "",
        "suppressed": "1" if operand.suppressed else "",
        "width": "" if operand.width_bits is None else str(operand.width_bits),
        "xtype": operand.xtype,
        "opmask": "1" if operand.opmask else "",
        "multireg": str(operand.multireg) if operand.multireg else "",
        "memory-prefix": memory.prefix,
        "memory-suffix": memory.suffix,
        "VSIB": memory.vsib,
        "moffs": "1" if memory.moffs else "",
        "base": memory.base,
        "index": memory.index,
        "seg": memory.segment,
    }
    values |= {_FLAG + name: access for name, access in operand.flags.items()}
    return {name: value for name, value in values.items() if value}


def instruction_attributes(variant: InstructionVariant) -> dict[str, str]:
    """Return the XML attributes of a variant."""
    return {
        **variant.attributes,
        "iform": variant.iform,
        "string": variant.string,
        "asm": variant.asm,
        "iclass": variant.iclass,
        "category": variant.category,
        "extension": variant.extension,
        "isa-set": variant.isa_set,
        "cpl": str(variant.cpl),
    }


class WritesBytes(Protocol):
    """Takes bytes: a file or a compressor."""

    def write(self, data: bytes, /) -> object:
        """Take bytes."""


def write_xml(
    variants: Iterable[InstructionVariant],
    file: WritesBytes,
    *,
    head: str = "",
    below: Callable[[InstructionVariant], str] | None = None,
    empty_extensions: Iterable[str] = (),
) -> None:
    """Write a catalogue; the same variants give the same bytes.

    - `head`: XML text for the start of the root element.
    - `below`: returns XML text (whole lines, indented) for the end of a variant's element.
    - `empty_extensions`: extensions that get an element even without variants.
    """
    extensions: dict[str, list[InstructionVariant]] = {name: [] for name in empty_extensions}
    for variant in variants:
        extensions.setdefault(variant.extension, []).append(variant)
    write = file.write
    operands = OperandTexts()
    write(b"<?xml version='1.0' encoding='UTF-8'?>\n<root>\n")
    write(head.encode())
    for name in sorted(extensions):
        if not extensions[name]:
            write(f'  <extension name="{escape(name)}"/>\n'.encode())
            continue
        write(f'  <extension name="{escape(name)}">\n'.encode())
        for variant in sorted(extensions[name], key=lambda variant: (variant.string, variant.iform)):
            write(instruction_text(variant, below(variant) if below else "", operands).encode())
        write(b"  </extension>\n")
    write(b"</root>\n")


class OperandTexts:
    """Writes operands; those that variants share are formatted once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Operand, str]] = {}

    def text(self, operand: Operand) -> str:
        """Return an <operand> element as indented text."""
        known = self._known.get(id(operand))
        if known is None or known[0] is not operand:
            known = self._known[id(operand)] = (operand, _operand_text(operand))
        return known[1]


def instruction_text(variant: InstructionVariant, results: str = "", operands: OperandTexts | None = None) -> str:
    """Return an <instruction> element as indented text; `results` are further child elements, already as text."""
    head = attributes_text(instruction_attributes(variant))
    operand_text = operands.text if operands else _operand_text
    body = [operand_text(operand) for operand in variant.operands]
    if variant.encoding:
        body.append(f"      <encoding>{escape(variant.encoding)}</encoding>\n")
    if results:
        body.append(results)
    if not body:
        return f"    <instruction{head}/>\n"
    return f"    <instruction{head}>\n{''.join(body)}    </instruction>\n"


def _operand_text(operand: Operand) -> str:
    """Return an <operand> element as indented text."""
    head = attributes_text(operand_attributes(operand))
    text = ",".join(operand.registers) or operand.value
    return f"      <operand{head}>{escape(text)}</operand>\n" if text else f"      <operand{head}/>\n"


def attributes_text(attributes: dict[str, str]) -> str:
    """Return attributes in the order of their names, each after a blank."""
    if _SPECIAL.search("".join(attributes.values())):
        attributes = {name: escape(value) for name, value in attributes.items()}
    return "".join([f' {name}="{attributes[name]}"' for name in sorted(attributes)])


_SPECIAL = re.compile(r'[&<>"]')
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def escape(text: str) -> str:
    """Escape text for use between tags and within quotes."""
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], text) if _SPECIAL.search(text) else text
