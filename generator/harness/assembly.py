"""Turns the instructions of our own assembly templates into bytes, without an assembler at run time.

`templates/assembled.tsv` holds the bytes of every line that the templates can render, made through keystone by
`python -m generator.harness.assemble_templates`. `templates/fixed.tsv` holds those of templates without parameters. A
test makes both again and compares. A missing line is our error, never of a user: text that people type goes through
`xed_convert.assembly.assembler.assemble`.
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
FIXED = TEMPLATES / "fixed.tsv"

FIXED_TEMPLATES = (
    "clock_driver",
    "perf_driver",
    "kernel_clock",
    "contention_probe",
    "load_probe",
    "fault_handler",
    "signal_sampler",
    "cpuid",
)
"""Templates without parameters: what backends need beside the harness."""

PATCH_CONTEXT = 0x7E570001
"""Marks the distance to the literal that holds the context's address."""

PATCH_LOOP = 0x7E570003
"""Marks the target of a jump at the end of a fragment; whoever knows the distance replaces the last four bytes."""

PROBE_COPIES, PROBE_ITERATIONS = 40, 40
"""Of eight ADDs in a contention probe: 2,000 to 3,200 cycles in all on cores with four to six ALUs, many ticks of
any clock and still short. 320 in an iteration are more than any loop buffer holds. So the probe also slows down where
another thread, which uses no ALU, takes every other cycle of the front end."""

PROBE_WARM_UP = 10
"""Iterations before those that count: on an Ice Lake, where no branch is known any more, the probe takes 4.7% longer
with one, 2.3% with six, 1.4% with ten. Three percent make a repetition disturbed."""

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
        .render(
            PATCH_CONTEXT=hex(PATCH_CONTEXT),
            PATCH_LOOP=hex(PATCH_LOOP),
            PROBE_COPIES=PROBE_COPIES,
            PROBE_ITERATIONS=hex(PROBE_ITERATIONS),
            PROBE_WARM_UP=hex(PROBE_WARM_UP),
        )
    )


def fixed_fragments(name: str) -> dict[str, bytes]:
    """Return the bytes of one of `FIXED_TEMPLATES` by fragment.

    They come from a table that `python -m generator.harness.assemble_templates` makes: rendering the templates takes a
    tenth of the time of one measurement.
    """
    return {fragment: code for (template, fragment), code in _fixed().items() if template == name}


@functools.cache
def _fixed() -> dict[tuple[str, str], bytes]:
    rows = (line.split("\t") for line in FIXED.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {(template, fragment): bytes.fromhex(code) for template, fragment, code in rows}


@functools.cache
def _table() -> dict[str, bytes]:
    rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {text: bytes.fromhex(code) for text, code in rows}
