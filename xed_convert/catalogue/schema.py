"""The schema (XSD) that every instructions.xml written here validates against."""

from __future__ import annotations

import lzma
from importlib import resources
from typing import IO, TYPE_CHECKING, cast

from lxml import etree

from xed_convert.catalogue.xml import open_catalogue, xml_fault
from xed_convert.errors import ConversionError

if TYPE_CHECKING:
    from pathlib import Path


def schema_text() -> str:
    """Return the schema as it is shipped."""
    return resources.files("xed_convert").joinpath("data/instructions.xsd").read_text(encoding="utf-8")


def validate(path: Path) -> None:
    """Check a file against the schema.

    Raises:
        ConversionError: it is not valid, or not XML; the message has the first line that is wrong.
    """
    schema = etree.XMLSchema(etree.fromstring(schema_text().encode()))
    try:
        with open_catalogue(path) as file:
            document = etree.parse(cast("IO[bytes]", file), etree.XMLParser(resolve_entities=False, no_network=True))
    except (etree.XMLSyntaxError, EOFError, OSError, lzma.LZMAError) as error:
        raise ConversionError(
            f"{path}:{getattr(error, 'lineno', None) or 0}: not readable XML: {xml_fault(error)}"
        ) from error
    try:
        schema.assertValid(document)
    except etree.DocumentInvalid as error:
        raise ConversionError(f"{path}: {error}") from error
