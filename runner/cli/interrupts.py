"""Show at which instructions of a loop interrupts arrive, beside the prediction of a retirement model."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer reads it
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.process.guard import UsageError
from runner.cli.support.own_code import shown_anyway, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.host.interrupts.sample import Source
    from runner.interrupts.study import Interrupted

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def interrupts(
    asm: Annotated[str, typer.Option(metavar="CODE", help='Text, separated by semicolons: "MOV RAX, [R14+RAX]".')],
    init: Annotated[str, typer.Option(metavar="CODE", help="Runs before the loop.")] = "",
    samples: Annotated[
        int, typer.Option(metavar="N", min=100, max=1_000_000, help="Samples by each source, in each layout and round.")
    ] = 5000,
    period: Annotated[
        int, typer.Option(metavar="NS", min=5000, max=10_000_000, help="Nanoseconds between two interrupts.")
    ] = 20_000,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="perf, timer or kmod (default: perf and timer). May be repeated."),
    ] = None,
    backend: Annotated[
        str, typer.Option(metavar="NAME", help="kmod: the kernel module's interrupts, too (needs root).")
    ] = "",
    rounds: Annotated[int, typer.Option(metavar="N", min=1, max=20, help="The number of rounds.")] = 2,
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="The logical CPU to run on.")] = None,
    arch: Annotated[
        str | None, typer.Option(metavar="NAME", help="Predict for it, such as SKL (default: the CPU at hand).")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Predict by these measurements: an instructions.xml, or a campaign (.sqlite)."
        ),
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write JSON (- is standard output).")
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Write a picture as SVG.")] = None,
    *,
    predict: Annotated[bool, typer.Option("--predict", help="Only predict; run nothing.")] = False,
) -> None:
    """Show at which instructions of a loop interrupts arrive, beside the prediction of a retirement model."""
    from runner.host.interrupts.sample import USUAL_SOURCES, Sampling  # noqa: PLC0415 - `--help` needs none of these
    from runner.interrupts.plot import svg  # noqa: PLC0415 - likewise
    from runner.interrupts.report import json_of, lines_of  # noqa: PLC0415 - likewise
    from runner.interrupts.study import interrupted  # noqa: PLC0415 - likewise
    from runner.own_code.reading.sources import code_of  # noqa: PLC0415 - likewise

    if predict and cpu is not None:
        raise UsageError("--predict runs nothing", hint="leave out --cpu")
    sources = _sources(source or USUAL_SOURCES, backend)
    sampling = None if predict else Sampling(samples, period, cpu, sources=sources, rounds=rounds)
    found: Interrupted = interrupted(code_of(asm), code_of(init), arch or "", sampling, data)
    with shown_anyway() as attempt:
        attempt(lambda: write_text(json_file, lambda: json.dumps(json_of(found), ensure_ascii=False) + "\n"))
        attempt(lambda: write_text(plot, lambda: svg(found)))
        if "-" not in {json_file, plot}:
            print("\n".join(lines_of(found)))


def _sources(names: Sequence[str], backend: str) -> tuple[Source, ...]:
    """Return the sources of these names, with the backend's own.

    Raises:
        UsageError: there is no such source or backend.
    """
    from runner.host.interrupts.sample import Source  # noqa: PLC0415 - `--help` needs it not

    if backend not in ("", Source.KMOD):
        raise UsageError(f"--backend {backend}: only kmod has interrupts of its own", hint="leave it out")
    if unknown := [name for name in names if name not in tuple(Source)]:
        raise UsageError(f"--source {unknown[0]}: there is no such source", hint="perf, timer or kmod")
    return tuple(dict.fromkeys(map(Source, (*names, backend) if backend else names)))
