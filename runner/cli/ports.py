"""Find the ports that instructions share, from times alone: measured here, or given. Predict mixes."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from runner.cli.process.guard import UsageError
from runner.cli.support.mixes import (
    MIXES_FORM,
    MixesError,
    NamedMapping,
    mapping_json,
    read_mapping,
    read_mixes,
)
from runner.cli.support.output import columns
from runner.cli.support.own_code import shown_anyway, write_text
from xed_convert.files import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from inference.ports.fitted.fit import ResourceMapping, TimedMix

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)

SHOWN = 20
"""Predicted mixes that are listed unless a file is written."""


@app.callback()
def ports() -> None:
    """Find sets of ports from times alone, or fit resources to times that others measured; predict mixes."""


@app.command(epilog="Example: uopscope ports sets --backend sim --arch HSW")
def sets(
    backend: Annotated[str, typer.Option(metavar="NAME", help="auto, or one that `uopscope doctor` lists.")] = "auto",
    arch: Annotated[str | None, typer.Option(metavar="NAME", help="What to simulate, such as HSW.")] = None,
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="The logical CPU to measure on.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write JSON (- is standard output).")
    ] = None,
) -> None:
    """Find the sets of ports that instructions keep busy, by time alone, and draw how they lie in each other.

    `characterize --ports-by-time` begins with the same search. It takes about a minute, and up to
    seven where times are noisy.
    """
    from results.campaign.codec import encode_provenance  # noqa: PLC0415 - `--help` needs none of these
    from results.text import machine_text, taken_text  # noqa: PLC0415 - likewise
    from runner.backends.registry import open_backend  # noqa: PLC0415 - likewise
    from runner.cli.support.counting import measured_so_far  # noqa: PLC0415 - likewise
    from runner.measuring.protocol import Measurer  # noqa: PLC0415 - likewise
    from runner.port_sets import document, find_port_sets, lines_of  # noqa: PLC0415 - likewise
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - likewise

    if json_file is not None and json_file != "-":
        check_writable(Path(json_file))
    with closing(open_backend(backend, cpu=cpu, architecture=arch)) as opened:
        measurer, catalogue, begun = Measurer(opened), Catalogue.load(), monotonic()
        found = find_port_sets(measurer, catalogue, measured_so_far("microbenchmarks"))
        seconds, provenance = monotonic() - begun, opened.info().provenance
    taken = {"seconds": seconds, "seconds_lost_to_others": measurer.lost_seconds}
    data = {"provenance": encode_provenance(provenance)} | taken | document(found)
    with shown_anyway() as attempt:
        attempt(lambda: write_text(json_file, lambda: json.dumps(data, indent=1, ensure_ascii=False) + "\n"))
        if json_file != "-":
            print(machine_text(provenance))
            print("\n".join(lines_of(found)))
            print(f"in {taken_text(seconds, measurer.lost_seconds, 'sets may be missing')}")


@app.command(epilog="Example: uopscope ports fit mixes.json -o mapping.json")
def fit(
    mixes: Annotated[
        Path,
        typer.Argument(
            metavar="MIXES",
            help=f"JSON, or .json.xz: {escape(MIXES_FORM)}.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the mapping there as JSON (- is standard output).")
    ] = None,
) -> None:
    """Find classes of instructions, their loads on resources, and pairs that contend; say how well mixes are predicted.

    A tenth of the mixes is held back from the fit and predicted.
    """
    from inference.ports.fitted.fit import fit as fitted  # noqa: PLC0415 - `--help` does not need it
    from inference.ports.fitted.fit import split  # noqa: PLC0415

    if output is not None and str(output) != "-":
        check_writable(output)
    given = read_mixes(mixes)
    given.check_enough(mixes)
    kept, held = split(given.timed(), 1)
    mapping = fitted(kept, len(given.names))
    errors = {"fitted": _errors(mapping, kept), "held_back": _errors(mapping, held)}
    data = mapping_json(NamedMapping(given.names, mapping)) | {"errors": errors}
    target = None if output is None else str(output)
    write_text(target, lambda: f"{json.dumps(data, indent=1, ensure_ascii=False)}\n")
    if target != "-":
        print("\n".join(_lines(mapping, kept, held)))


@app.command(epilog="Example: uopscope ports predict mapping.json --mix 'ADD; IMUL; IMUL'")
def predict(
    mapping: Annotated[Path, typer.Argument(metavar="MAPPING", help="What `uopscope ports fit -o` wrote.")],
    mixes: Annotated[
        Path | None,
        typer.Argument(
            metavar="MIXES", help=f"JSON, or .json.xz: {escape(MIXES_FORM)}. Cycles may be null; others are compared."
        ),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option("--mix", metavar="NAMES", help="A mix: names of instructions with ; between. May be repeated."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write all predictions there as CSV (- is standard output).")
    ] = None,
) -> None:
    """Predict how many cycles mixes take, from a mapping that was fitted.

    Where times are given, the error of the mapping on them is printed, too.
    """
    if (mixes is None) == (not mix):
        raise UsageError("nothing to predict, or two things", hint="name either a file of mixes or mixes with --mix")
    if output is not None and str(output) != "-":
        check_writable(output)
    known = read_mapping(mapping)
    rows, timed = _predictions(known, mixes, mix or [])
    if output is not None:
        _write_csv(output, rows)
    if str(output) == "-":
        return
    if output is None:
        for line in columns(rows[:SHOWN], (), ("cycles", "limited by", "mix")):
            print(line)
        if len(rows) > SHOWN:
            print(f"... {len(rows)} mixes in all; -o FILE writes them")
    if timed:
        print(_error_line(known.mapping, timed, "that were measured"))


def _predictions(
    known: NamedMapping, path: Path | None, named: Sequence[str]
) -> tuple[list[dict[str, str]], list[TimedMix]]:
    """Return a row for each mix, and the mixes whose time was measured, in the numbers of the mapping."""
    from inference.ports.fitted.fit import TimedMix  # noqa: PLC0415 - `--help` does not need it

    if path is None:
        texts = [[name.strip() for name in text.split(";") if name.strip()] for text in named]
        if not all(texts):
            raise UsageError("--mix: a mix has no instruction", hint="such as --mix 'ADD; IMUL; IMUL'")
        cycles: Sequence[float | None] = [None] * len(texts)
    else:
        given = read_mixes(path)
        texts = [[given.names[number] for number in one] for one in given.mixes]
        cycles = given.cycles
    rows, timed = [], []
    for names, time in zip(texts, cycles, strict=True):
        numbers = known.numbers(names)
        resource, pair = known.mapping.limits(numbers)
        rows.append(
            {
                "cycles": f"{known.mapping.cycles(numbers):.2f}",
                "measured": "" if time is None else f"{time:.2f}",
                "limited by": f"r{resource}" + (f", classes {pair[0]} and {pair[1]} contend" if pair else ""),
                "mix": "; ".join(names),
            }
        )
        if time is not None:
            timed.append(TimedMix(numbers, time))
    if not rows:
        raise MixesError(f"{path}: no mix to predict")
    return rows, timed


def _write_csv(output: Path, rows: Sequence[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(str(output), text.getvalue)


def _errors(mapping: ResourceMapping, mixes: Sequence[TimedMix]) -> dict[str, float]:
    """Return the mean relative errors by length, and of all, without and with contention."""
    found = {}
    for length in sorted({len(one.instructions) for one in mixes}):
        found[f"length {length}"] = mapping.error([one for one in mixes if len(one.instructions) == length])
    found["all, by loads alone"] = mapping.error(mixes, with_contention=False)
    found["all"] = mapping.error(mixes)
    return found


def _lines(mapping: ResourceMapping, kept: Sequence[TimedMix], held: Sequence[TimedMix]) -> Iterator[str]:
    used = sorted(set(mapping.class_of))
    pairs = len(mapping.contention)
    yield (
        f"{len(mapping.class_of)} instructions in {len(used)} class{'es' * (len(used) != 1)}"
        f" on {len(mapping.loads[0])} resources; {pairs or 'no'} pair{'s' * (pairs > 1)} of classes"
        f" contend{'s' * (pairs < 2)}"
    )
    yield _error_line(mapping, kept, "fitted")
    yield _error_line(mapping, held, "held back")


def _error_line(mapping: ResourceMapping, mixes: Sequence[TimedMix], which: str) -> str:
    errors = ", ".join(f"{name} {error:.2%}" for name, error in _errors(mapping, mixes).items())
    return f"error on {len(mixes)} mixes {which}: {errors}"
