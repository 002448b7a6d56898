"""Measure any code: cycles per copy and the backend's counters; also thousands of basic blocks."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.process.guard import ExitCode, UsageError
from runner.cli.support.own_code import one_source, shown_anyway, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.backend import Backend
    from runner.backends.registry import MachineChoice
    from runner.own_code.measure import CodeRequest, Result

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

SOURCE_HELP = "as --asm; or @FILE (text), hex:BYTES, raw:FILE (machine code), object:FILE:SYMBOL."
INITIAL_VALUE = "0x2324000"


@app.command()
def measure(
    asm: Annotated[
        str | None, typer.Option(metavar="CODE", help='Text, separated by semicolons: "IMUL RAX, RBX".')
    ] = None,
    asm_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A file with text.")] = None,
    hexadecimal: Annotated[str | None, typer.Option("--bytes", metavar="HEX", help="Machine code.")] = None,
    code_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A file with machine code.")] = None,
    object_file: Annotated[Path | None, typer.Option("--object", metavar="FILE", help="An object file.")] = None,
    symbol: Annotated[str | None, typer.Option(metavar="NAME", help="The function in it.")] = None,
    blocks: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Basic blocks, one per line in hexadecimal (- is standard input)."),
    ] = None,
    init: Annotated[str, typer.Option(metavar="CODE", help=f"Runs before every measurement: {SOURCE_HELP}")] = "",
    late_init: Annotated[str, typer.Option(metavar="CODE", help="Runs after the counters are read, once.")] = "",
    one_time_init: Annotated[str, typer.Option(metavar="CODE", help="Runs before the first measurement only.")] = "",
    syntax: Annotated[str, typer.Option(metavar="NAME", help="intel or att.")] = "intel",
    unroll: Annotated[int | None, typer.Option(metavar="N", help="Run this many copies, and twice as many.")] = None,
    loop: Annotated[int | None, typer.Option(metavar="N", help="In a loop of this many iterations (0: none).")] = None,
    repeat: Annotated[int | None, typer.Option(metavar="N", help="Number of measurements.")] = None,
    warm_up: Annotated[int | None, typer.Option(metavar="N", help="Warm-up runs, which do not count.")] = None,
    initial_warm_up: Annotated[int | None, typer.Option(metavar="N", help="Runs before everything.")] = None,
    aggregate: Annotated[
        str | None, typer.Option(metavar="NAME", help="min, median, mean, trimmed (by 20% at either end), or max.")
    ] = None,
    counters: Annotated[
        str | None, typer.Option(metavar="LIST", help="all, default, names, events (C0.00 NAME), or a file of them.")
    ] = None,
    offset: Annotated[int, typer.Option(metavar="N", help="Begin this many bytes behind a multiple of 64.")] = 0,
    value: Annotated[
        str, typer.Option(metavar="N", help="With --on-demand, --blocks: value of registers, memory.")
    ] = INITIAL_VALUE,
    modes: Annotated[
        str, typer.Option(metavar="LIST", help="With --blocks: unrolled (the default), loop, or both.")
    ] = "",
    area_size: Annotated[str | None, typer.Option(metavar="BYTES", help="The memory around R14: 64K, 16M, 1G.")] = None,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds that one run may take.")] = 1.0,
    backend: Annotated[str, typer.Option(metavar="NAME", help="auto, or one that `uopscope doctor` lists.")] = "auto",
    arch: Annotated[str | None, typer.Option(metavar="NAME", help="The microarchitecture to simulate.")] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Simulate the machine that an instructions.xml or a campaign (.sqlite) describes."
        ),
    ] = None,
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="The logical CPU to measure on.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write JSON (- is standard output).")
    ] = None,
    csv_file: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write CSV (- is standard output).")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(metavar="N=0..64:4", help="Put these numbers for {N} or $N into the code. May be repeated."),
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Plot a sweep as SVG (-: as bars on the terminal).")
    ] = None,
    *,
    basic: Annotated[
        bool, typer.Option("--basic", help="Subtract a run without copies, not one with half as many.")
    ] = False,
    no_normalization: Annotated[
        bool, typer.Option("--no-normalization", help="Do not divide by the number of copies.")
    ] = False,
    samples: Annotated[bool, typer.Option("--samples", help="Show every measurement of the larger size.")] = False,
    drain: Annotated[bool, typer.Option("--drain", help="Empty the front end before: 128 long NOPs.")] = False,
    on_demand: Annotated[
        bool, typer.Option("--on-demand", help="Map memory wherever the code reads and writes (as for --blocks).")
    ] = False,
    contiguous: Annotated[
        bool, typer.Option("--contiguous", help="Physically contiguous memory (kernel module).")
    ] = False,
    idle_sibling: Annotated[
        bool, typer.Option("--idle-sibling", help="Keep the other threads of the core idle.")
    ] = False,
    allow_syscalls: Annotated[bool, typer.Option("--allow-syscalls", help="Allow system calls.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Run in the kernel what campaigns leave out. The machine may stop.")
    ] = False,
) -> None:
    """Measure any code: cycles per copy, unrolled and in a loop, and whatever else the backend counts."""
    from runner.backend import ExecutionEnvironment  # noqa: PLC0415 - `--help` needs none of these
    from runner.backends.registry import MachineChoice  # noqa: PLC0415
    from runner.own_code.counters import choose  # noqa: PLC0415
    from runner.own_code.measure import Settings, provide  # noqa: PLC0415
    from runner.own_code.template import Template, runs_of, size_of, syntax_of, time_limit_of  # noqa: PLC0415

    environment = ExecutionEnvironment(size_of(area_size) if area_size else 0, contiguous, idle_sibling)
    number = _number(value)
    machine = MachineChoice(backend, arch, cpu, model)
    if plot is not None and not sweep:
        raise UsageError("--plot is for sweeps", hint="for example: --sweep N=0..64:4")
    if modes and blocks is None:
        raise UsageError("--modes is for --blocks", hint="leave it out: code is measured unrolled and in a loop")
    if value != INITIAL_VALUE and blocks is None and not on_demand:
        raise UsageError("--value is for --on-demand and --blocks", hint="--init sets registers, as in 'mov rax, 5'")
    if blocks is not None:
        _refuse_beside_blocks(asm, asm_file, hexadecimal, code_file, object_file, init, late_init, one_time_init, sweep)
        if area_size or contiguous:
            raise UsageError("--blocks has memory on demand, and no areas", hint="leave out --area-size, --contiguous")
        _refuse_for_blocks(
            {
                "--json": json_file,
                "--unroll": unroll,
                "--loop": loop,
                "--repeat": repeat,
                "--warm-up": warm_up,
                "--initial-warm-up": initial_warm_up,
                "--aggregate": aggregate,
                "--counters": counters,
                "--symbol": symbol,
                "--offset": offset or None,
                "--basic": basic or None,
                "--no-normalization": no_normalization or None,
                "--samples": samples or None,
                "--drain": drain or None,
                "--force": force or None,
            }
        )
        with closing(machine.open()) as opened:
            provide(environment, opened)
            _measure_blocks(opened, blocks, modes or "unrolled", number, csv_file, time_limit, may_call=allow_syscalls)
        return
    numbers = {"unroll": unroll, "loop": loop, "measurements": repeat}
    numbers |= {"warm_ups": warm_up, "initial_warm_ups": initial_warm_up}
    template = Template(
        _body(asm, asm_file, hexadecimal, code_file, object_file, symbol),
        init,
        late_init,
        one_time_init,
        syntax_of(syntax),
        Settings(
            runs=runs_of(numbers, aggregate, basic=basic, normalize=not no_normalization),
            counters=choose(counters),
            offset_bytes=offset,
            drained=drain,
            on_demand=number if on_demand else None,
            may_call=allow_syscalls,
            force=force,
            environment=environment,
            time_limit_seconds=time_limit_of(time_limit),
        ),
    )
    if sweep:
        from runner.cli.support.sweep import Outputs, measure_sweep  # noqa: PLC0415 - most measurements are none

        is_complete = measure_sweep(
            template, sweep, Outputs(csv_file, json_file, plot), lambda: closing(machine.open())
        )
        raise typer.Exit(0 if is_complete else ExitCode.SOME_FAILED)
    _measure_one(template.request(), machine, json_file, csv_file, samples=samples)


def _measure_one(
    request: CodeRequest,
    machine: MachineChoice,
    json_file: str | None,
    csv_file: str | None,
    *,
    samples: bool,
) -> None:
    from runner.own_code.measure import benchmark_of, measure  # noqa: PLC0415
    from runner.own_code.report import csv_of_result, json_of_result, lines_of_result  # noqa: PLC0415

    benchmark_of(request)  # what is wrong with it is said before a backend is looked for
    with closing(machine.open()) as opened:
        result = measure(request, opened)
    document = partial(json.dumps, json_of_result(result), indent=2, ensure_ascii=False)
    with shown_anyway() as attempt:
        attempt(lambda: write_text(json_file, lambda: document() + "\n"))
        attempt(lambda: write_text(csv_file, lambda: csv_of_result(result)))
        if "-" not in (json_file, csv_file):
            print("\n".join(lines_of_result(result, samples=samples)))
            _say_sibling(result)
    if not result.ok:
        raise typer.Exit(ExitCode.SOME_FAILED)


def _number(text: str) -> int:
    from xed_convert.assembly.syntax import parse_number  # noqa: PLC0415

    try:
        number = parse_number(text)
    except ValueError as error:
        raise UsageError(f"--value {text}: {error}") from error
    if not 0 <= number < 1 << 64:
        raise UsageError(f"--value {text}: not a number of 64 bits")
    return number


def _refuse_beside_blocks(*others: object) -> None:
    if any(others):
        raise UsageError("--blocks brings its own code", hint="leave out --asm, --init and the like")


def _refuse_for_blocks(given: Mapping[str, object]) -> None:
    """Refuse options that lists of blocks have no use for, by name: nobody may think that they counted."""
    if named := [option for option, value in given.items() if value is not None]:
        hint = "blocks are measured as docs/measure.md says, and --csv FILE has all of them"
        raise UsageError(f"{', '.join(named)}: not with --blocks", hint=hint)


def _body(
    asm: str | None,
    asm_file: Path | None,
    hexadecimal: str | None,
    code_file: Path | None,
    object_file: Path | None,
    symbol: str | None,
) -> str:
    """Return the one source of the code (see `runner.own_code.reading.sources`)."""
    given = {
        "--asm": asm,
        "--asm-file": None if asm_file is None else f"@{asm_file}",
        "--bytes": None if hexadecimal is None else f"hex:{hexadecimal}",
        "--code-file": None if code_file is None else f"raw:{code_file}",
    }
    return one_source(given, object_file, symbol)


def _measure_blocks(
    backend: Backend, source: str, modes: str, value: int, csv_file: str | None, time_limit: float, *, may_call: bool
) -> None:
    """Measure blocks line by line."""
    from runner.cli.support.blocks import blocks_of, write_blocks  # noqa: PLC0415
    from runner.own_code.block_table import block_header, block_journal, block_rows  # noqa: PLC0415
    from runner.own_code.blocks import BlockMeasurer, BlockMode, BlockOptions  # noqa: PLC0415
    from runner.own_code.template import time_limit_of  # noqa: PLC0415

    known = [mode.value for mode in BlockMode]
    wanted = modes.split(",")
    if not set(wanted) <= set(known):
        raise UsageError(f"--modes {modes}: of {', '.join(known)}")
    chosen = tuple(mode for mode in BlockMode if mode.value in wanted)
    options = BlockOptions(value=value, modes=chosen, time_limit_seconds=time_limit_of(time_limit), may_call=may_call)
    blocks = blocks_of(source)
    measurer = BlockMeasurer(backend, options)
    write_blocks(
        csv_file or "-",
        block_header(chosen),
        partial(block_rows, measurer, blocks),
        len(blocks),
        lambda output: block_journal(output, measurer, blocks),
    )


def _say_sibling(result: Result) -> None:
    """Name the other threads of the core, if they may disturb the measurement."""
    from runner.host.cpu import siblings  # noqa: PLC0415

    number = result.provenance.options.get("cpu", "")
    if result.request.settings.environment.idle_siblings:
        return
    others = siblings(int(number)) if number.isdigit() and not result.provenance.is_model else []
    if others:
        print(f"  CPU {number} shares its core with CPU {', '.join(map(str, others))}: --idle-sibling keeps that idle")
