"""Predict how many cycles code takes on a CPU, and say what limits it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli._guard import UsageError
from runner.cli._own_code import lines_of, one_source, write_text
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from analysis.bounds import Running
    from analysis.prediction import Tools

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

INITIAL_STATES = ("any", "bhive")


@app.command()
def analyze(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A file with assembly text.")] = None,
    asm: Annotated[
        str | None, typer.Option(metavar="CODE", help='Text, parted by semicolons: "IMUL RAX, RBX".')
    ] = None,
    hexadecimal: Annotated[str | None, typer.Option("--bytes", metavar="HEX", help="Machine code.")] = None,
    object_file: Annotated[Path | None, typer.Option("--object", metavar="FILE", help="An object file.")] = None,
    symbol: Annotated[str | None, typer.Option(metavar="NAME", help="The function in it.")] = None,
    blocks: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Basic blocks, one per line in hexadecimal (- is standard input)."),
    ] = None,
    syntax: Annotated[
        str, typer.Option(metavar="NAME", help="intel, att, or auto: att if registers have percent signs.")
    ] = "auto",
    arch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The CPU, such as HSW; several are shown one after another."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An instructions.xml with measurements of these CPUs.")
    ] = None,
    runs: Annotated[
        str, typer.Option(metavar="NAME", help="auto, loop, or unrolled: copies in a row, from the decoders.")
    ] = "auto",
    initial_state: Annotated[
        str,
        typer.Option(metavar="NAME", help="any; or bhive: registers and memory as BHive sets them."),
    ] = "any",
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write JSON (- is the output).")
    ] = None,
    csv_file: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Of --blocks: write CSV (- is the output).")
    ] = None,
) -> None:
    """Predict how many cycles code takes on a CPU, and say what limits it."""
    from runner.own_code.analyzed import tools_for  # noqa: PLC0415 - `--help` needs none of these

    running = _running(runs)
    if initial_state not in INITIAL_STATES:
        raise UsageError(f"--initial-state {initial_state}: not one of {', '.join(INITIAL_STATES)}")
    if blocks is not None:
        if any((file, asm, hexadecimal, object_file, symbol, json_file)):
            raise UsageError("--blocks brings its own code, and goes with --csv", hint="leave out the other code")
        if len(arch or ()) > 1:
            raise UsageError("--blocks takes one --arch at a time")
        tools = tools_for((arch or [""])[0], data, bhive=initial_state == "bhive")
        write_text(csv_file or "-", lambda: _table(_block_rows(tools, blocks, running)))
        return
    if csv_file is not None:
        raise UsageError("--csv goes with --blocks", hint="--json FILE for one piece of code")
    code = _code(file, asm, _source(file, asm, hexadecimal, object_file, symbol), syntax)
    found = [tools_for(name, data, bhive=initial_state == "bhive").predict(code, running) for name in arch or [""]]
    write_text(json_file, lambda: json.dumps([one.json() for one in found], indent=2, ensure_ascii=False) + "\n")
    if json_file != "-":
        print("\n\n".join(map(repr, found)))


def _running(name: str) -> Running:
    from analysis.bounds import Running  # noqa: PLC0415

    known = [one.value for one in Running]
    if name not in known:
        raise UsageError(f"--runs {name}: not one of {', '.join(known)}")
    return Running(name)


def _source(
    file: Path | None, asm: str | None, hexadecimal: str | None, object_file: Path | None, symbol: str | None
) -> str:
    """Return the one source of the code (see `runner.own_code.sources`)."""
    given = {
        "FILE": None if file is None else f"@{file}",
        "--asm": asm,
        "--bytes": None if hexadecimal is None else f"hex:{hexadecimal}",
    }
    return one_source(given, object_file, symbol)


def _code(file: Path | None, asm: str | None, source: str, syntax: str) -> bytes:
    """Return the code of the marked region, or all of it without marks."""
    from analysis.markers import marked_code  # noqa: PLC0415
    from runner.own_code.analyzed import assemble_region  # noqa: PLC0415
    from runner.own_code.sources import code_of, read_text  # noqa: PLC0415
    from runner.own_code.text import Syntax  # noqa: PLC0415

    known = ["auto", *(one.value for one in Syntax)]
    if syntax not in known:
        raise UsageError(f"--syntax {syntax}: not one of {', '.join(known)}")
    text = read_text(file) if file is not None else asm
    if text is None:
        return marked_code(code_of(source))
    return assemble_region(text, None if syntax == "auto" else Syntax(syntax))


def _block_rows(tools: Tools, source: str, running: Running) -> Iterator[tuple[str, ...]]:
    """Yield a row per block: its code, cycles, what limits it, how many instructions are not known, what went wrong."""
    from runner.own_code.blocks import read_blocks  # noqa: PLC0415

    yield ("hex", "cycles", "limits", "unknown", "problem")
    for code in read_blocks(lines_of(source), source):
        try:
            bounds = tools.predict(code, running).bounds
        except UopscopeError as error:
            yield (code.hex(), "", "", "", error.message)
            continue
        limits = " ".join(one.value for one in bounds.limits)
        yield (code.hex(), f"{float(bounds.cycles):.2f}", limits, str(len(bounds.block.unknown)), "")


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
