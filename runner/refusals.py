"""Instructions that must not run in ring 0 by mistake: those that `exclusions.tsv` leaves out of every campaign.

In user mode such an instruction raises an exception, which is a result. In the kernel it takes effect: INVD discards
the contents of the caches, and OUT to port 0xcf9 resets the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from iced_x86 import Decoder, DecoderOptions

from generator.exclusions import excluded
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder as CatalogueDecoder
from xed_convert.errors import DecodingError, UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.backend import BackendInfo
    from xed_convert.model import InstructionVariant


class RefusedError(UopscopeError):
    """The code is not run on this backend."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An instruction at an offset in bytes, and why it is left out."""

    offset: int
    variant: str
    reason: str


def refusals(code: bytes) -> list[Refusal]:
    """Return the instructions in code that campaigns leave out, in order.

    Bytes that are no instruction are passed over, one at a time: the CPU raises an exception there.
    """
    return [
        Refusal(offset, variant.string, reason)
        for offset, variant in _variants(code)
        if (reason := excluded(variant, privileged=True))
    ]


def check_code(code: bytes, info: BackendInfo) -> None:
    """Refuse instructions that every campaign leaves out, if the backend runs code in ring 0.

    Raises:
        RefusedError: the code has such an instruction; the message names the first one.
    """
    found = refusals(code) if info.supports_privileged and not info.provenance.is_model else []
    if found:
        first = found[0]
        message = f"{first.variant} at offset {first.offset} is not run in the kernel: it {first.reason}"
        hint = "--backend tsc runs it in user mode; --force runs it in the kernel all the same: the machine may stop"
        raise RefusedError(message, hint=hint)


def _variants(code: bytes) -> Iterator[tuple[int, InstructionVariant]]:
    offset = 0
    while offset < len(code):
        try:
            decoded = _decoder().decode(code, offset)
        except DecodingError:
            offset += _length_of_unknown(code[offset:])
            continue
        yield offset, decoded.variant
        offset += decoded.length_bytes


def _length_of_unknown(code: bytes) -> int:
    """Return the length of what the catalogue lacks: as iced-x86 knows it, else 1."""
    instruction = Decoder(64, code, options=DecoderOptions.NO_INVALID_CHECK).decode()
    return 1 if instruction.is_invalid else instruction.len


@cache
def _decoder() -> CatalogueDecoder:
    return CatalogueDecoder(Catalogue.load())
