"""Measure bypass delays between classes of instructions."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.support.own_code import shown_anyway, write_text

if TYPE_CHECKING:
    from results.bypass.model import BypassReport

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def bypass(
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Only these classes: by name (float_add), with a width (float_add/256), by width (512), or by "
            "register file (general, vector, mask).",
        ),
    ] = None,
    backend: Annotated[str, typer.Option(metavar="NAME", help="auto, or one that `uopscope doctor` lists.")] = "auto",
    arch: Annotated[str | None, typer.Option(metavar="NAME", help="What to simulate, such as HSW:bypass.")] = None,
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="The logical CPU to measure on.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write JSON (- is standard output).")
    ] = None,
    *,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the code, the cycles and the arithmetic of each ring.")
    ] = False,
) -> None:
    """Measure bypass delays between classes of instructions."""
    from results.bypass.documents import encode  # noqa: PLC0415 - `--help` needs none of these
    from results.bypass.text import lines_of  # noqa: PLC0415 - likewise
    from xed_convert.files import check_writable  # noqa: PLC0415 - likewise

    if json_file is not None and json_file != "-":
        check_writable(json_file)
    words = [] if classes is None else [word.strip() for word in classes.split(",")]
    report = _measured(backend, cpu, arch, words)
    with shown_anyway() as attempt:
        attempt(lambda: write_text(json_file, lambda: json.dumps(encode(report), ensure_ascii=False) + "\n"))
        if json_file != "-":
            print("\n".join(lines_of(report, explain=explain)))


def _measured(backend: str, cpu: int | None, arch: str | None, words: list[str]) -> BypassReport:
    from runner.backends.registry import open_backend  # noqa: PLC0415 - likewise
    from runner.bypass import measure_bypass_delays  # noqa: PLC0415 - likewise
    from runner.cli.support.counting import measured_so_far  # noqa: PLC0415 - likewise
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - likewise

    with closing(open_backend(backend, cpu=cpu, architecture=arch)) as opened:
        return measure_bypass_delays(opened, Catalogue.load(), words, measured_so_far("rings"))
