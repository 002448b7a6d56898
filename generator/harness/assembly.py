"""Turns the instructions of our own assembly templates into bytes, without an assembler at run time.

`templates/assembled.tsv` holds the bytes of every line that the templates can render, made through keystone by
`python -m generator.harness.assemble_templates`; a test makes it again and compares. A missing line is our error,
never of a user: text that people type goes through `xed_convert.assembly.assembler.assemble`.
"""

from __future__ import annotations

import functools
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
TABLE = TEMPLATES / "assembled.tsv"

FIXED_TEMPLATES = ("clock_driver", "perf_driver", "kernel_clock", "fault_handler", "cpuid")
"""Templates without parameters: what backends need beside the harness."""

PATCH_CONTEXT = 0x7E570001
"""Marks the distance to the literal that holds the context's address."""

PATCH_LOOP = 0x7E570003
"""Marks the target of a jump at the end of a fragment; whoever knows the distance replaces the last four bytes."""

_COUNTER = re.compile(r"mov ecx, (0x[0-9a-f]+)")
"""Chooses a counter: any number is possible, so these lines are encoded here (MOV r32, imm32: B8+rd)."""

FREE_RUNNING_MSRS = (0xE8, 0xE7)
"""APERF and MPERF (Intel SDM volume 4, table 2-2)."""


class TemplateError(UopscopeError):
    """An assembly template has a line whose bytes nobody has assembled."""


@functools.cache
def environment() -> Environment:
    """Return the jinja2 environment of the assembly templates: an undefined name is an error."""
    from jinja2 import (  # noqa: PLC0415 - slow to import, and most commands render nothing
        Environment,
        FileSystemLoader,
        StrictUndefined,
        select_autoescape,
    )

    return Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=select_autoescape(("html",))
    )


def instructions(text: str) -> list[str]:
    """Return the lines of rendered assembly that are instructions or fragment names, without blanks."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def bytes_of(line: str) -> bytes:
    """Return the bytes of one instruction of a template.

    Raises:
        TemplateError: the table does not have that line.
    """
    if number := _COUNTER.fullmatch(line):
        return b"\xb9" + struct.pack("<I", int(number[1], 16))
    try:
        return _table()[line]
    except KeyError:
        message = f"{TABLE.name}: no bytes for the template line {line!r}"
        raise TemplateError(
            message, hint="make the table again: python -m generator.harness.assemble_templates"
        ) from None


def fragments(text: str) -> dict[str, bytes]:
    """Cut rendered assembly at its `@name` lines and return the bytes of each fragment by name.

    Raises:
        TemplateError: a line has no bytes in the table, or stands before the first name.
    """
    found: dict[str, bytes] = {}
    name = ""
    for line in instructions(text):
        if line.startswith("@"):
            name = line[1:]
            found[name] = b""
        elif name:
            found[name] += bytes_of(line)
        else:
            raise TemplateError(f"the template line {line!r} stands before the first @name")
    return found


def fixed_text(name: str) -> str:
    """Return the assembly of one of `FIXED_TEMPLATES`."""
    return (
        environment()
        .get_template(f"{name}.asm.j2")
        .render(PATCH_CONTEXT=hex(PATCH_CONTEXT), PATCH_LOOP=hex(PATCH_LOOP))
    )


def fixed_fragments(name: str) -> dict[str, bytes]:
    """Return the bytes of one of `FIXED_TEMPLATES` by fragment."""
    return fragments(fixed_text(name))


@functools.cache
def _table() -> dict[str, bytes]:
    rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {text: bytes.fromhex(code) for text, code in rows}
