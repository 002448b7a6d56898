"""Predict how many cycles code takes on a CPU, and what limits it."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.process.guard import UsageError
from runner.cli.support.counting import Counting
from runner.cli.support.own_code import one_source, text_of, write_text
from xed_convert.errors import AssemblyError
from xed_convert.numbers import decimal

if TYPE_CHECKING:
    from analysis.bounds.components import Running
    from analysis.prediction import PredictionMode
    from runner.own_code.analyzing.analyzed import Given
    from runner.own_code.analyzing.many_blocks import PredictionTask
    from runner.own_code.reading.text import OperandSyntax

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

INITIAL_STATES = ("any", "bhive")
FORMATS = ("text", "compiler")
GRAPHS = ("dependencies", "flow")
DISASSEMBLY = re.compile(r"^\S.*:\s+file format \S+\s*$", re.MULTILINE)
"""What objdump and llvm-objdump begin with. Their lines have addresses and jumps to places inside of symbols."""
BEGINNING = 10_000
"""Characters of a text among which that may be: the name of the file is before it."""


@app.command()
def analyze(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A file with assembly text (- is standard input).")
    ] = None,
    asm: Annotated[
        str | None, typer.Option(metavar="CODE", help='Text, separated by semicolons: "IMUL RAX, RBX".')
    ] = None,
    hexadecimal: Annotated[
        str | None, typer.Option("--bytes", metavar="HEX", help="Machine code (- is standard input).")
    ] = None,
    object_file: Annotated[Path | None, typer.Option("--object", metavar="FILE", help="An object file.")] = None,
    symbol: Annotated[
        str | None, typer.Option("--function", "--symbol", metavar="NAME", help="The function in it, or in the text.")
    ] = None,
    loop: Annotated[
        str | None, typer.Option(metavar="N", help="A loop of the code: auto (the innermost), or its number.")
    ] = None,
    taken: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS=P", help="With --loop: how likely a branch is taken. May be repeated."),
    ] = None,
    times: Annotated[
        list[str] | None,
        typer.Option(metavar="N=COUNT", help="With --loop: how often its inner loop N runs. May be repeated."),
    ] = None,
    blocks: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Basic blocks, one per line in hexadecimal (- is standard input)."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="With --blocks: the number of processes, at most one per CPU. Default: 1."
        ),
    ] = None,
    syntax: Annotated[
        str, typer.Option(metavar="NAME", help="intel, att, or auto: att if registers have percent signs.")
    ] = "auto",
    arch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The CPU, such as HSW; several are shown side by side."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measurements of these CPUs: an instructions.xml, or a campaign (.sqlite)."),
    ] = None,
    runs: Annotated[
        str, typer.Option(metavar="NAME", help="auto, loop, or unrolled: copies in a row, from the decoders.")
    ] = "auto",
    mode: Annotated[
        str, typer.Option(metavar="NAME", help="simulation; or bounds: the largest bound of a single component.")
    ] = "simulation",
    initial_state: Annotated[
        str,
        typer.Option(metavar="NAME", help="any; or bhive: registers and memory as BHive sets them."),
    ] = "any",
    output_format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="text; or compiler: file:line: messages for editors.")
    ] = "text",
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write JSON (- is standard output).")
    ] = None,
    html_file: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write a page that needs no other file.")
    ] = None,
    svg_file: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Draw a graph of the first CPU as SVG.")
    ] = None,
    dot_file: Annotated[
        str | None, typer.Option("--dot", metavar="FILE", help="Write a graph of the first CPU for Graphviz.")
    ] = None,
    graph: Annotated[
        str, typer.Option(metavar="NAME", help="Which graph: dependencies, or flow (needs --loop).")
    ] = "dependencies",
    csv_file: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="With --blocks: write CSV (- is standard output).")
    ] = None,
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="With --measure: the logical CPU.")] = None,
    *,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure the code on this CPU, and show both.")
    ] = False,
) -> None:
    """Predict how many cycles code takes on a CPU, and what limits it."""
    running = _running(runs)
    chosen = _mode(mode)
    _one_of("--initial-state", initial_state, INITIAL_STATES)
    _one_of("--format", output_format, FORMATS)
    _one_of("--graph", graph, GRAPHS)
    bhive = initial_state == "bhive"
    if blocks is not None:
        if any((file, asm, hexadecimal, object_file, symbol, json_file, html_file, svg_file, dot_file, loop, measure)):
            raise UsageError("--blocks brings its own code, and goes with --csv", hint="leave out the other options")
        if len(arch or ()) > 1:
            raise UsageError("--blocks takes one --arch at a time")
        task = _task((arch or [""])[0], data, running, chosen, bhive=bhive)
        _predict_blocks(blocks, task, jobs or 1, csv_file or "-")
        return
    if csv_file is not None:
        raise UsageError("--csv goes with --blocks", hint="--json FILE for one piece of code")
    if jobs is not None:
        raise UsageError("--jobs goes with --blocks", hint="a single piece of code takes one process")
    if cpu is not None and not measure:
        raise UsageError("--cpu goes with --measure", hint="a prediction is the same on each CPU; --arch names a model")
    if loop is None and (taken or times or graph == "flow"):
        option = "--taken" if taken else "--times" if times else "--graph flow"
        raise UsageError(f"{option} needs a loop", hint="--loop auto")
    if arch and all(map(_is_aarch64, arch)):
        if any((hexadecimal, object_file, symbol, loop, data, html_file, svg_file, dot_file, measure)):
            raise UsageError("AArch64 kernels come from FILE or --asm, and are written as text or with --json")
        one_source({"FILE": None if file is None else str(file), "--asm": asm}, None, None)
        _analyze_aarch64(file, asm or "", arch, json_file)
        return
    given = _given(file, asm, hexadecimal, object_file, symbol, _syntax(syntax), whole=loop is not None)
    if loop is not None and runs == "unrolled":
        raise UsageError("--loop and --runs unrolled contradict each other")
    from runner.cli.support.analyzed import AnalyzeOptions, write_reports  # noqa: PLC0415 - `--help` needs none of these

    wanted = AnalyzeOptions(
        tuple(arch or [""]),
        data,
        running,
        chosen,
        bhive,
        loop,
        _probabilities(taken or []),
        _times(times or []),
        measure,
        cpu,
        output_format,
        json_file,
        html_file,
        svg_file,
        dot_file,
        graph,
    )
    write_reports(given, wanted)


def _is_aarch64(name: str) -> bool:
    from analysis.aarch64.kernel import is_aarch64  # noqa: PLC0415

    return is_aarch64(name)


def _analyze_aarch64(file: Path | None, asm: str, names: list[str], json_file: str | None) -> None:
    """Analyze a kernel by LLVM's models."""
    from analysis.aarch64.kernel import analyze as analyze_kernel  # noqa: PLC0415
    from xed_convert.assembly.syntax import LONGEST_TEXT  # noqa: PLC0415

    text = text_of(file, 4 * LONGEST_TEXT)[0] if file is not None else asm.replace(";", "\n")
    found = [analyze_kernel(text, name) for name in names]
    written = [one.json() for one in found]
    write_text(json_file, lambda: json.dumps(written, indent=2, ensure_ascii=False) + "\n")
    if json_file != "-":
        print("\n\n".join(map(repr, found)))


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{option} {value}: not one of {', '.join(known)}")


def _running(name: str) -> Running:
    from analysis.bounds.components import Running  # noqa: PLC0415

    _one_of("--runs", name, tuple(one.value for one in Running))
    return Running(name)


def _mode(name: str) -> PredictionMode:
    from analysis.prediction import PredictionMode  # noqa: PLC0415

    _one_of("--mode", name, tuple(one.value for one in PredictionMode))
    return PredictionMode(name)


def _syntax(name: str) -> OperandSyntax | None:
    from runner.own_code.reading.text import OperandSyntax  # noqa: PLC0415

    _one_of("--syntax", name, ("auto", *(one.value for one in OperandSyntax)))
    return None if name == "auto" else OperandSyntax(name)


def _probabilities(taken: list[str]) -> dict[int, float]:
    """Return how likely branches are taken, by the address behind them."""
    found = {}
    for text in taken:
        address, equals, share = text.partition("=")
        try:
            place, probability = int(address, 0), float(share)
        except ValueError:
            equals = ""
        if not equals or not 0 <= probability <= 1:
            raise UsageError(f"--taken {text}: not an address and a probability", hint="as in --taken 0x1243=0.9")
        found[place] = probability
    return found


def _times(given: list[str]) -> dict[int, int]:
    """Return how often loops run, by their numbers."""
    found = {}
    for text in given:
        loop, count = map(decimal, text.partition("=")[::2])
        if loop is None or not count:
            raise UsageError(f"--times {text}: not a loop and a number from 1", hint="as in --times 2=10")
        found[loop] = count
    return found


def _given(
    file: Path | None,
    asm: str | None,
    hexadecimal: str | None,
    object_file: Path | None,
    symbol: str | None,
    syntax: OperandSyntax | None,
    *,
    whole: bool,
) -> Given:
    """Return the code of the only source that is named."""
    from runner.own_code.analyzing.analyzed import of_bytes, of_object, of_text  # noqa: PLC0415
    from runner.own_code.reading.listing import MOST_BYTES  # noqa: PLC0415
    from runner.own_code.reading.objects import names_near, read_program  # noqa: PLC0415
    from runner.own_code.reading.sources import bytes_of  # noqa: PLC0415

    is_text = file is not None or asm is not None
    given = {
        "FILE": None if file is None else f"@{file}",
        "--asm": asm,
        "--bytes": None if hexadecimal is None else f"hex:{hexadecimal}",
    }
    unnamed = object_file is not None and symbol is None
    one_source(given, object_file, "" if unnamed else None if is_text and object_file is None else symbol)
    if object_file is not None:
        if str(object_file) == "-":
            raise UsageError("--object needs a file: parts of it are read in any order", hint="for text: analyze -")
        if symbol is None:
            names = names_near("", read_program(object_file).names)
            raise UsageError(f"--object {object_file} needs --function NAME", hint=names)
        return of_object(object_file, symbol, whole=whole)
    if hexadecimal is not None:
        digits = text_of(Path("-"), MOST_BYTES)[0] if hexadecimal == "-" else hexadecimal
        return of_bytes(bytes_of(" ".join(digits.split())))
    text, name = (asm or "", "") if file is None else text_of(file, MOST_BYTES)
    if DISASSEMBLY.search(text[:BEGINNING]):
        hint = "--object FILE --function NAME reads the program itself"
        raise UsageError(f"{name or '--asm'}: a disassembly, and no assembly text", hint=hint)
    try:
        with Counting("statements") as counting:
            return of_text(text, name, syntax, symbol, counting)
    except AssemblyError as error:
        if _is_list_of_blocks(text):
            hint = "--bytes HEX takes one of them" if file is None else f"--blocks {file}"
            raise UsageError(f"{name or '--asm'}: code in hexadecimal, and no assembly text", hint=hint) from error
        raise


def _is_list_of_blocks(text: str) -> bool:
    from runner.own_code.block_shapes import read_blocks  # noqa: PLC0415
    from runner.own_code.code import MeasureError  # noqa: PLC0415

    try:
        return bool(list(read_blocks(text.splitlines(), "")))
    except MeasureError:
        return False


def _task(
    architecture: str, data: Path | None, running: Running, mode: PredictionMode, *, bhive: bool
) -> PredictionTask:
    from runner.own_code.analyzing.many_blocks import PredictionTask  # noqa: PLC0415

    return PredictionTask(architecture, "" if data is None else str(data), running.value, mode.value, bhive)


def _predict_blocks(source: str, task: PredictionTask, jobs: int, target: str) -> None:
    from runner.cli.support.blocks import blocks_of, write_blocks  # noqa: PLC0415
    from runner.own_code.analyzing.many_blocks import HEADER, journal_of, predict_blocks  # noqa: PLC0415

    codes = blocks_of(source)
    rows = partial(predict_blocks, codes, task, jobs)
    write_blocks(target, HEADER, rows, len(codes), lambda output: journal_of(output, task, codes))
