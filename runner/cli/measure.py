"""Measure any code: cycles per copy, and whatever else the backend counts."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fractions import Fraction

    from runner.backend import BackendInfo
    from runner.own_code.code import CounterRow, Report

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

SOME_FAILED = 4


@app.command()
def measure(
    asm: Annotated[str, typer.Option(metavar="CODE", help='Intel syntax, parted by semicolons: "IMUL RAX, RBX".')],
    init: Annotated[
        str, typer.Option(metavar="CODE", help="Code that runs once before. Registers are 0; R14 points to memory.")
    ] = "",
    backend: Annotated[str, typer.Option(metavar="NAME", help="auto, or one that `uopscope doctor` lists.")] = "auto",
    arch: Annotated[str | None, typer.Option(metavar="NAME", help="The microarchitecture to simulate.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Simulate the machine that an instructions.xml describes.")
    ] = None,
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="The logical CPU to measure on.")] = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Run in the kernel what no campaign runs. The machine may stop.")
    ] = False,
) -> None:
    """Measure any code: cycles per copy, unrolled and in a loop, and whatever else the backend counts."""
    from runner.backends.registry import open_backend  # noqa: PLC0415 - `--help` needs none of these
    from runner.measuring.protocol import Measurer  # noqa: PLC0415
    from runner.own_code.code import benchmark_of  # noqa: PLC0415
    from runner.own_code.code import measure as measure_code  # noqa: PLC0415
    from runner.refusals import check_code  # noqa: PLC0415
    from xed_convert.assembly.assembler import assemble  # noqa: PLC0415

    benchmark = benchmark_of(assemble(asm), assemble(init) if init.strip() else b"")
    opened = open_backend(backend, cpu=cpu, architecture=arch, model=model)
    try:
        measurer = Measurer(opened)
        if not force:
            check_code(benchmark.setup_code + benchmark.body_code, measurer.info)
        report = measure_code(measurer, benchmark)
    finally:
        opened.close()
    print("\n".join(_text(report, measurer.info)))
    if not (report.unrolled.ok and report.loop.ok):
        raise typer.Exit(SOME_FAILED)


def _text(report: Report, info: BackendInfo) -> list[str]:
    width = max(len(line.text) for line in (*report.benchmark.setup, *report.benchmark.body))
    lines = [f"  {line.text:{width}}  {line.code.hex(' ')}" for line in report.benchmark.body]
    if report.benchmark.setup:
        setup = [f"  {line.text:{width}}  {line.code.hex(' ')}" for line in report.benchmark.setup]
        lines = ["once:", *setup, "measured:", *lines]
    if report.rows:
        lines += ["", f"{'per copy':20} {'unrolled':>20} {'in a loop':>20}", *map(_row, report.rows)]
    lines += ["", *(f"! {problem}" for problem in report.problems)]
    where = info.provenance
    model = "model of " if where.is_model else ""
    lines.append(f"{model}{where.architecture} ({where.cpu}), backend {where.backend}")
    return [*lines, *(f"  {caveat}" for caveat in info.caveats)]


def _row(row: CounterRow) -> str:
    unrolled = _value(row.unrolled, row.unrolled_spread)
    return f"{row.counter:20} {unrolled:>20} {_value(row.loop, row.loop_spread):>20}"


def _value(value: Fraction | None, spread: Fraction | None) -> str:
    if value is None:
        return "-"
    return f"{float(value):.3f} ± {float(spread or 0):.3f}"
