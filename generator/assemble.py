"""Turns an instance into a line of code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.cache import PerInstance
from generator.microbenchmark import Line
from xed_convert.assembly.formatting import format_instance
from xed_convert.encoding.encoder import encode

if TYPE_CHECKING:
    from xed_convert.model import Instance


@PerInstance
def assemble(instance: Instance) -> Line:
    """Return bytes and Intel text of an instance (cached).

    Raises:
        EncodingError: the variant cannot be encoded with these operands.
    """
    variant = instance.variant
    text = format_instance(variant, instance.values)
    return Line(encode(variant, instance.values), text, variant.key, accesses_memory=variant.accesses_memory)
