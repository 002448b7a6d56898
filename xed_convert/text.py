"""Assembly text in both directions: `format_instance` writes an instruction, `assemble` reads what people type."""

from xed_convert.assembly import Assembler, assemble, shipped_assembler
from xed_convert.formatting import format_instance

__all__ = ["Assembler", "assemble", "format_instance", "shipped_assembler"]
