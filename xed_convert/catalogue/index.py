"""What a variant is looked up by: the words of its assembly, and the opcodes of its encoding.

The catalogue's file has both for each variant, so that a lookup reads only the variants that it finds.
"""

from __future__ import annotations


def words_of(asm: str) -> str:
    """Return prefixes and mnemonic without pseudo prefixes: `{load} ADD` gives `ADD`."""
    return " ".join(word for word in asm.split() if word[0] != "{") if "{" in asm else asm


def opcodes_of(encoding: str) -> str:
    """Return space, map and opcode of each form: `leg.1.AF vex.2.F7`; "" without an encoding."""
    return " ".join(form.partition(" ")[0] for form in encoding.split(" | "))
