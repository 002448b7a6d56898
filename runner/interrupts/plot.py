"""Where interrupts catch a loop as an SVG: a bar per instruction, its range over the layouts, and the model's bar."""

from __future__ import annotations

from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.interrupts.study import Interrupted

ROW, CHARACTER, BAR = 24, 7.3, 360
"""Pixels: height of a row, width of a character, length of the longest bar."""
STYLE = """
.interrupts { color-scheme: light dark; font: 12px ui-monospace, monospace; }
.interrupts text { fill: #1a1a1a; } .interrupts rect { fill: #0b57a8; } .interrupts .model { fill: #c4271b; }
.interrupts line { stroke: #5f6b7a; stroke-width: 1.4; }
@media (prefers-color-scheme: dark) {
.interrupts text { fill: #e8e8e8; } .interrupts rect { fill: #8ec2ff; } .interrupts .model { fill: #ff8a80; }
.interrupts line { stroke: #c8c8c8; } }
"""


def svg(found: Interrupted) -> str:
    """Return the picture: blue bars are measured, grey lines the range of the layouts, red bars the model."""
    left = 12 + CHARACTER * max(map(len, found.texts))
    every = [*found.shares.values(), *found.predicted.values(), *(max(one.shares.values()) for one in found.layouts)]
    most = max([*every, Fraction(1, 100)])
    width, height = left + BAR + 80, ROW * (len(found.texts) + 1) + 8
    title = f"Where interrupts catch the loop; model of {found.architecture or 'no machine'}"
    size = f'width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="interrupts" role="img" aria-label="{escape(title)}" {size}>',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text x="{left:.1f}" y="16">measured, range of the layouts, and model (lower bars)</text>',
    ]
    for number in range(len(found.texts)):
        lines += _row(found, number, left, most)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _row(found: Interrupted, number: int, left: float, most: Fraction) -> Iterator[str]:
    top = 4 + ROW * (number + 1)
    share, model = found.share(number), found.predicted.get(number, Fraction(0))
    said = f"{float(share):.1%}" if found.layouts else f"{float(model):.1%}"
    yield f'<text x="6" y="{top + 14}">{escape(found.texts[number])}</text>'
    if found.layouts:
        each = [float(one.shares.get(number, 0) / most) * BAR + left for one in found.layouts]
        yield f'<rect x="{left:.1f}" y="{top + 2}" width="{float(share / most) * BAR:.1f}" height="10"/>'
        yield f'<line x1="{min(each):.1f}" x2="{max(each):.1f}" y1="{top + 7}" y2="{top + 7}"/>'
    if found.predicted:
        yield f'<rect class="model" x="{left:.1f}" y="{top + 14}" width="{float(model / most) * BAR:.1f}" height="5"/>'
    end = left + float(max(share, model) / most) * BAR
    yield f'<text x="{end + 8:.1f}" y="{top + 14}">{said if share or model else ""}</text>'
