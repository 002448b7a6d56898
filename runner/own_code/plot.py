"""Plots of a sweep: core cycles against its first parameter, as SVG or as bars in a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from results.text import bar
from runner.own_code.sweep import CYCLES, cycle_columns
from xed_convert.extras import extra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from results.rows import Rows

BAR_CHARACTERS = 50
MOST_LINES = 12
"""Lines of a plot that a reader can tell apart."""


def bars(rows: Rows, parameters: Sequence[str]) -> Iterator[str]:
    """Yield a line per combination, with a bar as long as its core cycles (of the first mode).

    Raises:
        MeasureError: there is nothing to plot.
    """
    column = cycle_columns(rows)[0]
    names = [", ".join(f"{name}={row[name]}" for name in parameters) for row in rows]
    values = [row[column] for row in rows]
    most = max(value for value in values if isinstance(value, float))
    width = max(map(len, names))
    yield f"{column} per copy"
    for name, value, row in zip(names, values, rows, strict=True):
        if isinstance(value, float):
            drawn = bar(value / most if most > 0 else 0, BAR_CHARACTERS)
            yield f"{name:>{width}}  {drawn:{BAR_CHARACTERS}}  {value:.2f}"
        else:
            yield f"{name:>{width}}  {row['reason']}"


def svg(rows: Rows, parameters: Sequence[str], title: str) -> bytes:
    """Return a plot against the first parameter: a line per mode, or per combination of the other parameters.

    Raises:
        MissingPackageError: matplotlib is not installed.
        MeasureError: there is nothing to plot.
    """
    extra("matplotlib", "--plot FILE")
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - likewise

    lines = _lines(rows, parameters)
    with rc_context({"svg.hashsalt": "uopscope", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        for name, found in list(lines.items())[:MOST_LINES]:
            axes.plot(list(found), list(found.values()), marker=".", label=name)
        left_out = f" (of {len(lines)} lines the first {MOST_LINES})" if len(lines) > MOST_LINES else ""
        axes.set(xlabel=parameters[0], ylabel="core cycles per copy", title=title + left_out)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _lines(rows: Rows, parameters: Sequence[str]) -> Mapping[str, Mapping[int, float]]:
    """Return the points of each line by its name."""
    first, *others = parameters
    found: dict[str, dict[int, float]] = {}
    for column in cycle_columns(rows):
        mode = column.removeprefix(CYCLES).removeprefix("_") or "cycles"
        for row in rows:
            value, place = row[column], row[first]
            if isinstance(value, float) and isinstance(place, int):
                name = ", ".join([*(f"{other}={row[other]}" for other in others), mode])
                found.setdefault(name, {})[place] = value
    return found
