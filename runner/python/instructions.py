"""Instructions as rows: every encoding of a text, what bytes mean, and variants of the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.rows import Rows
from xed_convert.assembly.formatting import format_instance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xed_convert.assembly.matching import Match
    from xed_convert.encoding.decoder import Decoded
    from xed_convert.model import InstructionVariant

CODE_COLUMNS = ("code", "text", "string", "iform", "key")
VARIANT_COLUMNS = ("string", "asm", "iform", "iclass", "extension", "isa_set", "category", "cpl", "key")


def code_rows(found: Iterable[tuple[bytes, Match | Decoded]]) -> Rows:
    """Return a row per instruction: its bytes in hexadecimal, its text, and the variant that it is of."""
    return Rows.of((_code_row(code, one) for code, one in found), CODE_COLUMNS)


def _code_row(code: bytes, one: Match | Decoded) -> Mapping[str, object]:
    variant = one.variant
    return {
        "code": code.hex(" "),
        "text": format_instance(variant, one.values),
        "string": variant.string,
        "iform": variant.iform,
        "key": variant.key,
    }


def variant_rows(variants: Iterable[InstructionVariant]) -> Rows:
    """Return a row per variant with what names and classifies it."""
    return Rows.of(({name: getattr(one, name) for name in VARIANT_COLUMNS} for one in variants), VARIANT_COLUMNS)
