"""Makes `templates/assembled.tsv`, through keystone, and from it `templates/fixed.tsv`.

`python -m generator.harness.assemble_templates` does it.
"""

from __future__ import annotations

from generator.harness.assembly import (
    FIXED,
    FIXED_TEMPLATES,
    FREE_RUNNING_MSRS,
    TABLE,
    fixed_text,
    fragments,
    instructions,
)
from generator.harness.harness import MAX_COUNTERS, RDTSC, CounterReader, listing
from generator.harness.style import LOOP_REGISTERS, State, Style


def template_lines() -> list[str]:
    """Return every instruction that the templates can render, in order, each once."""
    programmable, fixed = range(MAX_COUNTERS), range(0x40000000, 0x40000008)
    readers = [
        RDTSC,
        CounterReader(tuple(programmable)),
        CounterReader(tuple(fixed)),
        CounterReader(FREE_RUNNING_MSRS, "rdmsr"),
    ]
    found = dict.fromkeys(line for name in FIXED_TEMPLATES for line in instructions(fixed_text(name)))
    styles = [Style(clean_uppers=clean, state=state) for clean in (False, True) for state in State]
    styles += [Style(loop_register=name) for name in LOOP_REGISTERS]
    for reader in readers:
        for style in styles:
            found |= dict.fromkeys(listing(reader, style).splitlines())
    return [line for line in found if not line.startswith("@")]


def assembled_table() -> str:
    """Return the table of `template_lines` with their bytes, assembled by keystone."""
    import keystone  # noqa: PLC0415 (only whoever makes the table needs an assembler)

    assembler = keystone.Ks(keystone.KS_ARCH_X86, keystone.KS_MODE_64)
    rows = [f"{line}\t{bytes(assembler.asm(line)[0]).hex()}" for line in template_lines()]
    return "\n".join(["# made by python -m generator.harness.assemble_templates, with keystone", *rows, ""])


def fixed_table() -> str:
    """Return the table of the fragments of `FIXED_TEMPLATES`, by what the table of lines has."""
    rows = [
        f"{name}\t{fragment}\t{code.hex()}"
        for name in FIXED_TEMPLATES
        for fragment, code in fragments(fixed_text(name)).items()
    ]
    return "\n".join(["# made by python -m generator.harness.assemble_templates", *rows, ""])


if __name__ == "__main__":
    TABLE.write_text(assembled_table(), encoding="utf-8")
    FIXED.write_text(fixed_table(), encoding="utf-8")
