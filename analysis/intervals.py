"""How far the data leave a prediction open: bounds in the data make a bound of the prediction.

- **Latencies that are upper bounds** may be as short as a cycle. The code is predicted once more with all of them so.
- **Ports that are not known**: each such instruction has its measured throughput as a resource of its own, so the
  prediction is the least. At most, all of them share one resource, and then their throughputs add up.
- **Instructions of which nothing is known** take any time: there is no upper end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.block.code import Block


@dataclass(frozen=True, slots=True)
class Interval:
    """Core cycles per iteration at least and at most (None: nothing is known), and why, in words."""

    low: Fraction
    high: Fraction | None
    reasons: tuple[str, ...]


def interval_of(block: Block, cycles: Fraction, shortest: Callable[[], Fraction]) -> Interval | None:
    """Return the interval of a prediction, None if the data allow nothing else.

    Args:
        block: the code.
        cycles: the prediction.
        shortest: predicts with every latency that is an upper bound as short as it can be.
    """
    reasons: list[str] = []
    low, high = min(cycles, shortest()), cycles
    if low < cycles:
        reasons.append("latencies are upper bounds")
    unported = [item for item in block.items if item.known and item.effects.occupies and not item.effects.port_masks]
    together = sum((item.effects.occupies for item in unported), Fraction(0))
    if together > high:
        high = together
        reasons.append("ports are not known")
    if block.unknown:
        return Interval(low, None, (*reasons, "instructions are not known"))
    return Interval(low, high, tuple(reasons)) if reasons else None
