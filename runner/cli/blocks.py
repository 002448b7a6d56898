"""Take a program apart into basic blocks, to be measured by `uopscope measure --blocks`."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.support.own_code import write_text
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from runner.own_code.reading.programs import BasicBlock

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

COLUMNS = ("hex", "count", "instructions", "bytes", "address", "function")


class NoBlocksError(UopscopeError):
    """The program has nothing to measure."""


@app.command()
def blocks(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM", help="An ELF program, library or object file.")],
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=1, help="The N blocks that occur most often.")
    ] = 10_000,
    function: Annotated[str | None, typer.Option(metavar="NAME", help="Only blocks of this function.")] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The file to write (- is standard output).")
    ] = "-",
) -> None:
    """Take a program apart into basic blocks, and count how often each stands in it."""
    from runner.own_code.reading.objects import names_near, read_program  # noqa: PLC0415 - `--help` needs none of these
    from runner.own_code.reading.programs import blocks_of  # noqa: PLC0415
    from xed_convert.files import check_writable  # noqa: PLC0415

    if output != "-":
        check_writable(output)
    read = read_program(program)
    if function is not None and not read.functions(function):
        raise NoBlocksError(f"{program}: no function {function!r}", hint=names_near(function, read.names))
    found = blocks_of(read, function)
    if not found:
        raise NoBlocksError(f"{program}: there are no basic blocks in it")
    write_text(output, lambda: _table(found[:most]))
    if output == "-":
        return
    total = sum(block.count for block in found)
    print(f"{len(found[:most])} of {len(found)} different blocks; {total} blocks in all: {output}", file=sys.stderr)


def _table(found: list[BasicBlock]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in found:
        address = f"{one.address:#x}"
        writer.writerow((one.code.hex(), one.count, one.instructions, len(one.code), address, one.function))
    return file.getvalue()
