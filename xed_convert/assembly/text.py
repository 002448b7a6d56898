"""Assembly text in both directions: `format_instance` writes an instruction, `assemble` reads what people type."""

from xed_convert.assembly.assembler import Assembler, assemble, shipped_assembler
from xed_convert.assembly.formatting import format_instance

__all__ = ["Assembler", "assemble", "format_instance", "shipped_assembler"]
