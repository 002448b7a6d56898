"""The matrix of store forwarding as an SVG heat map: a panel for each place and addressing.

A panel has a block for each store (down) and load (across), and in it a stripe from the first to the last offset. The
colour says how many cycles the load took.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from results.memory.model import Addressing, ForwardingMatrix, ForwardingOutcome, LineCrossing
from results.memory.text import title
from xed_convert.extras import extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from results.memory.model import ForwardingRow

GAP = 2
"""Cells between two blocks."""
ROW_HEIGHT = 3
"""Cells: a stripe is higher than wide, so that it can be seen."""


def svg(forwarding: ForwardingMatrix, name: str) -> bytes:
    """Return the picture; `name` is that of the machine.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    extra("matplotlib", "--plot FILE")
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - likewise

    panels = list(dict.fromkeys((row.place, row.addressing) for row in forwarding.rows))
    most = max((float(cycles) for row in forwarding.rows for cycles in row.cycles if cycles is not None), default=1.0)
    with rc_context({"svg.hashsalt": "uopscope", "svg.fonttype": "none"}):
        figure = Figure(figsize=(11, 3.2 * len(panels)), layout="constrained")
        figure.suptitle(f"{name}: cycles from the stored register to the loaded one, by offset")
        every = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, (place, addressing) in zip(every, panels, strict=True):
            image = _panel(axes, forwarding, place, addressing, most)
        figure.colorbar(image, ax=list(every), label="core cycles", shrink=0.5)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def grid(
    forwarding: ForwardingMatrix, place: LineCrossing, addressing: Addressing
) -> tuple[list[list[float]], list[float]]:
    """Return a line of cells for each store, and where the middle of each load's block is.

    What was not measured, and the gaps between blocks, are not a number.
    """
    sizes = forwarding.sizes
    widths = [
        max((len(row.cycles) for store in sizes if (row := _row(forwarding, store.name, load.name))), default=1)
        for load in sizes
    ]
    lines = []
    for store in sizes:
        line: list[float] = []
        for load, width in zip(sizes, widths, strict=True):
            row = forwarding.row(store.name, load.name, place, addressing)
            line += _stripe(row, width) + GAP * [float("nan")]
        lines.append(line)
    middles = [sum(widths[:index]) + GAP * index + width / 2 for index, width in enumerate(widths)]
    return lines, middles


def _row(forwarding: ForwardingMatrix, store: str, load: str) -> ForwardingRow | None:
    rows = (forwarding.row(store, load, place) for place in LineCrossing)
    return max((row for row in rows if row is not None), key=lambda row: len(row.cycles), default=None)


def _stripe(row: ForwardingRow | None, width: int) -> list[float]:
    """Return `width` cells, with those of a row in the middle."""
    if row is None:
        return width * [float("nan")]
    known = zip(row.cycles, row.outcomes, strict=True)
    cells = [
        float("nan") if cycles is None or one is ForwardingOutcome.UNKNOWN else float(cycles) for cycles, one in known
    ]
    before = (width - len(cells)) // 2
    return [*(before * [float("nan")]), *cells, *((width - len(cells) - before) * [float("nan")])]


def _panel(
    axes: Axes, forwarding: ForwardingMatrix, place: LineCrossing, addressing: Addressing, most: float
) -> AxesImage:
    lines, middles = grid(forwarding, place, addressing)
    image = axes.imshow(_tall(lines), aspect="auto", vmin=0, vmax=most, cmap="viridis", interpolation="nearest")
    names = [one.name for one in forwarding.sizes]
    axes.set_xticks(middles, names)
    axes.set_yticks([ROW_HEIGHT * index + (ROW_HEIGHT - 2) / 2 for index in range(len(names))], names)
    axes.set(title=title(place, addressing), xlabel="load", ylabel="store")
    return image


def _tall(lines: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Return each line several times, with an empty one between."""
    empty = len(lines[0]) * [float("nan")]
    return [one for line in lines for one in (*((ROW_HEIGHT - 1) * [line]), empty)]
