"""Find the resources that instructions share, from given times of mixes."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from xed_convert.errors import UopscopeError
from xed_convert.files import atomic_write, check_writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.ports.by_time.fit import ResourceMapping, TimedMix

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)

FORM = '{"instructions": [names], "experiments": [[[numbers], cycles], ...]}'
"""What a file of mixes holds."""

MOST_INSTRUCTIONS = 20_000
"""Instructions of a file: more would take longer than anybody waits."""


class MixesError(UopscopeError):
    """A file of mixes that cannot be used."""


@app.callback()
def ports() -> None:
    """Infer ports from times that others measured."""


@app.command()
def fit(
    mixes: Annotated[
        Path,
        typer.Argument(
            metavar="MIXES",
            help=f"JSON, or .json.xz: {escape(FORM)}.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the mapping there as JSON (- is standard output).")
    ] = None,
) -> None:
    """Find classes of instructions, their loads on resources, and pairs that contend; say how well mixes are predicted.

    A tenth of the mixes is held back from the fit and predicted.
    """
    from inference.ports.by_time.fit import fit as fitted  # noqa: PLC0415 - `--help` does not need it
    from inference.ports.by_time.fit import split  # noqa: PLC0415

    if output is not None and str(output) != "-":
        check_writable(output)
    names, timed = read_mixes(mixes)
    kept, held = split(timed, 1)
    mapping = fitted(kept, len(names))
    text = json.dumps(_as_json(names, mapping, kept, held), indent=1, ensure_ascii=False)
    if output is not None and str(output) != "-":
        with atomic_write(output) as file:
            file.write(f"{text}\n".encode())
    lines = list(_lines(mapping, kept, held))
    if str(output) == "-":
        sys.stdout.write(f"{text}\n")
    else:
        print("\n".join(lines))


def read_mixes(path: Path) -> tuple[list[str], list[TimedMix]]:
    """Return the names of instructions and the mixes of a file.

    Raises:
        MixesError: it cannot be read, or is not of that form.
    """
    from inference.ports.by_time.fit import TimedMix  # noqa: PLC0415

    try:
        raw = path.read_bytes()
        text = lzma.decompress(raw) if path.suffix == ".xz" else raw
        data = json.loads(text)
        names = [str(name) for name in data["instructions"]]
        found = [
            TimedMix(tuple(int(number) for number in numbers), float(cycles)) for numbers, cycles in data["experiments"]
        ]
    except OSError as error:
        raise MixesError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError, lzma.LZMAError, EOFError) as error:
        raise MixesError(
            f"{path}: not a file of mixes ({type(error).__name__}: {str(error)[:80]})",
            hint=f"expected {FORM}",
        ) from error
    if not 1 < len(names) <= MOST_INSTRUCTIONS:
        raise MixesError(f"{path}: {len(names)} instructions; 2 to {MOST_INSTRUCTIONS} can be fitted")
    for number, one in enumerate(found):
        is_known = one.instructions and all(0 <= each < len(names) for each in one.instructions)
        if not is_known or not 0 < one.cycles < float("inf"):
            raise MixesError(
                f"{path}: experiment {number} names no or unknown instructions, or no time above 0",
                hint="instructions are numbers from 0 on, cycles are positive",
            )
    return names, found


def _errors(mapping: ResourceMapping, mixes: Sequence[TimedMix]) -> dict[str, float]:
    """Return the mean relative errors by length, and of all, without and with contention."""
    found = {}
    for length in sorted({len(one.instructions) for one in mixes}):
        found[f"length {length}"] = mapping.error([one for one in mixes if len(one.instructions) == length])
    found["all, by loads alone"] = mapping.error(mixes, with_contention=False)
    found["all"] = mapping.error(mixes)
    return found


def _as_json(
    names: Sequence[str], mapping: ResourceMapping, kept: Sequence[TimedMix], held: Sequence[TimedMix]
) -> dict[str, object]:
    members: dict[int, list[str]] = {}
    for number, one in enumerate(mapping.class_of):
        members.setdefault(one, []).append(names[number])
    return {
        "classes": [
            {
                "class": one,
                "loads": {f"r{place}": round(load, 4) for place, load in enumerate(mapping.loads[one]) if load > 0},
                "instructions": members[one],
            }
            for one in sorted(members)
        ],
        "contention": [
            {"classes": list(pair), "longer": round(share, 4)} for pair, share in mapping.contention.items()
        ],
        "errors": {"fitted": _errors(mapping, kept), "held_back": _errors(mapping, held)},
    }


def _lines(mapping: ResourceMapping, kept: Sequence[TimedMix], held: Sequence[TimedMix]) -> list[str]:
    used = sorted(set(mapping.class_of))
    lines = [
        (
            f"{len(mapping.class_of)} instructions in {len(used)} classes on {len(mapping.loads[0])} resources;"
            f" {len(mapping.contention)} pairs of classes contend"
        )
    ]
    for title, mixes in (("fitted", kept), ("held back", held)):
        errors = ", ".join(f"{name} {error:.2%}" for name, error in _errors(mapping, mixes).items())
        lines.append(f"error on {len(mixes)} mixes {title}: {errors}")
    return lines
