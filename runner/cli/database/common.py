"""What the commands of `uopscope db` share: arguments, checks of output files, ends of long lists."""

from __future__ import annotations

from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xed_convert.files import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

Database = Annotated[Path, typer.Argument(help="An instructions.xml (plain, .gz or .xz) or a campaign's .sqlite file.")]

Architecture = Annotated[str, typer.Option("--arch", help="Only this architecture.")]

Memories = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="What `uopscope memory --json` wrote. May be repeated.")
]

SHOWN = 20
"""How many of a kind are listed unless more are asked for."""

NOTHING_SHARED, COMPARABLE = "no variant was measured in both", "compare two runs of the same architecture"


def and_more(count: int, what: str, shown: int = SHOWN) -> Iterator[str]:
    """Yield a line for the end of a list if only the first `shown` of `count` are in it."""
    if count > shown:
        yield f"... {count} {what} in all"


def percent(share: Fraction) -> str:
    """Write a share, rounded down: what is below a goal does not look like it, and 100.00% means all."""
    return f"{floor(share * 10_000) / 100:.2f}%"


def check_outputs(*targets: str) -> None:
    """Refuse files that cannot be written, before databases are read. Those without a name and `-` are left out.

    Raises:
        OutputError: names the first such file.
    """
    for target in targets:
        if target not in {"", "-"}:
            check_writable(target)
