"""Measure memory: store forwarding, loads and stores, levels of cache."""

from __future__ import annotations

import io
import json
from contextlib import closing
from functools import partial
from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.process.guard import UsageError
from runner.cli.support.own_code import shown_anyway, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from enum import StrEnum

    from results.memory.model import MemoryReport
    from runner.memory import WantedMemory

FORWARDING = "forwarding"
"""The part that `--plot` draws."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def memory(
    parts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PART", help="forwarding, times, levels, policies; all if none is named."),
    ] = None,
    access: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this store and load, such as r64 or x128. May be repeated."),
    ] = None,
    place: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this place: line, lines, or pages. May be repeated.")
    ] = None,
    addressing: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this address: same, base, index, or other_index. May be repeated."),
    ] = None,
    backend: Annotated[str, typer.Option(metavar="NAME", help="auto, or one that `uopscope doctor` lists.")] = "auto",
    arch: Annotated[str | None, typer.Option(metavar="NAME", help="What to simulate, such as SKX:memory.")] = None,
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="The logical CPU to measure on.")] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Measure nothing: show a file of --json, or what is shipped: CLX, ICX, ZEN3, ZEN4.",
        ),
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write JSON (- is standard output).")
    ] = None,
    xml_file: Annotated[
        str | None, typer.Option("--xml", metavar="FILE", help="Write the section of an instructions.xml (likewise).")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a heat map as SVG.")] = None,
    sequence: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help='Find out whether the accesses with ? hit the first-level cache: "A B A?".'),
    ] = None,
    *,
    every_offset: Annotated[bool, typer.Option("--every-offset", help="Show every case, not only tables.")] = False,
) -> None:
    """Measure memory: store forwarding, loads and stores, levels of cache."""
    from results.memory.documents import read_document  # noqa: PLC0415 - `--help` needs none of these
    from xed_convert.files import check_writable  # noqa: PLC0415 - likewise

    if sequence is not None:
        if any((parts, access, place, addressing, from_file, json_file, xml_file, plot)):
            raise UsageError("--sequence goes with --backend, --arch and --cpu only")
        print("\n".join(_asked(backend, cpu, arch, sequence)))
        return
    for target in (json_file, xml_file, plot):
        if target is not None and str(target) != "-":
            check_writable(target)
    if plot is not None:
        from xed_convert.extras import extra  # noqa: PLC0415 - likewise

        if parts and FORWARDING not in parts:
            raise UsageError("--plot draws store forwarding", hint=f"name the part {FORWARDING}, too")
        extra("matplotlib", "--plot FILE")
    if from_file is not None:
        if parts or access or place or addressing or cpu is not None or arch:
            raise UsageError("--from shows what was measured before", hint="leave out the options about measuring")
        report = read_document(_document(from_file))
    else:
        report = _measured(backend, cpu, arch, _wanted(parts or [], access or [], place or [], addressing or []))
    with shown_anyway() as attempt:
        for write in _writers(report, json_file, xml_file, plot):
            attempt(write)
        if "-" not in (json_file, xml_file):
            from results.memory.text import lines_of  # noqa: PLC0415 - likewise

            print("\n".join(lines_of(report, every_offset=every_offset)))


def _document(name: Path) -> Path:
    """Return the file of that name, or what is shipped under it."""
    from results.shipped import shipped_memories, shipped_memory  # noqa: PLC0415 - `--help` does not need it

    path = name if name.exists() else shipped_memory(str(name))
    if path is None:
        names = ", ".join(one.name.split(".")[1] for one in shipped_memories())
        message = f"--from {name}: no such file, and nothing is shipped under that name"
        raise UsageError(message, hint=f"shipped: {names}")
    return path


def _measured(backend: str, cpu: int | None, arch: str | None, wanted: WantedMemory) -> MemoryReport:
    from runner.backends.registry import open_backend  # noqa: PLC0415 - likewise
    from runner.cli.support.counting import measured_so_far  # noqa: PLC0415 - likewise
    from runner.memory import measure_memory  # noqa: PLC0415 - likewise
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - likewise

    with closing(open_backend(backend, cpu=cpu, architecture=arch)) as opened:
        return measure_memory(opened, Catalogue.load(), wanted, measured_so_far("microbenchmarks"))


def _asked(backend: str, cpu: int | None, arch: str | None, text: str) -> list[str]:
    """Return a line for each access that a sequence asks about."""
    from runner.backends.registry import open_backend  # noqa: PLC0415 - likewise
    from runner.memory import ask_sequence  # noqa: PLC0415 - likewise
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - likewise

    with closing(open_backend(backend, cpu=cpu, architecture=arch)) as opened:
        found = ask_sequence(opened, Catalogue.load(), text)
    verdicts = {True: "hit", False: "miss", None: "not measured"}
    return [
        f"access {one.number + 1}, {one.line}: {verdicts[one.hits]}"
        + ("" if one.cycles is None else f" ({float(one.cycles):.1f} cycles)")
        for one in found
    ]


def _wanted(parts: list[str], names: list[str], places: list[str], addressings: list[str]) -> WantedMemory:
    from results.memory.model import Addressing, LineCrossing  # noqa: PLC0415 - likewise
    from runner.memory import MemoryPart, WantedMemory  # noqa: PLC0415 - likewise

    wanted = (("PART", parts, MemoryPart), ("--place", places, LineCrossing), ("--addressing", addressings, Addressing))
    for option, given, known in wanted:
        _check(option, given, known)
    return WantedMemory(
        tuple(map(MemoryPart, parts)),
        tuple(names),
        tuple(map(LineCrossing, places)),
        tuple(map(Addressing, addressings)),
    )


def _check(option: str, given: list[str], known: type[StrEnum]) -> None:
    for name in given:
        if name not in set(known):
            raise UsageError(f"{option} {name}: not one of {', '.join(known)}")


def _writers(
    report: MemoryReport, json_file: str | None, xml_file: str | None, plot: Path | None
) -> Iterator[Callable[[], None]]:
    """Yield what writes each file."""
    from results.memory.documents import encode  # noqa: PLC0415 - likewise

    yield lambda: write_text(json_file, lambda: json.dumps(encode(report), ensure_ascii=False) + "\n")
    yield lambda: write_text(xml_file, lambda: _section(report))
    if plot is not None:
        yield partial(_draw, report, plot)


def _section(report: MemoryReport) -> str:
    from results.database.memory_section import write_memories  # noqa: PLC0415 - likewise

    file = io.BytesIO()
    write_memories([report], file)
    return file.getvalue().decode()


def _draw(report: MemoryReport, plot: Path) -> None:
    from results.memory.heat_map import svg  # noqa: PLC0415 - likewise
    from xed_convert.files import named_write  # noqa: PLC0415 - likewise

    if report.forwarding is None:
        raise UsageError("there is no store forwarding to plot")
    picture = svg(report.forwarding, report.provenance.architecture)
    with named_write(plot) as output:
        output.write(picture)
