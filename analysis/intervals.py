"""The interval in which a prediction lies if the data are incomplete.

- **Latencies that are upper bounds** may be as short as a cycle. The low end is a prediction with all of them so short.
- **Ports that are not known**: the prediction takes the measured throughput of each such instruction as a resource of
  its own. At the high end all of them share one resource, so their throughputs add up.
- **Unknown instructions**, and those without a known latency, may take any time: there is no high end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.block.code import Block


UNKNOWN = "instructions are not known"
UNTIMED = "latencies are not known"


@dataclass(frozen=True, slots=True)
class Interval:
    """Core cycles per iteration at least and at most (None: no high end), and why, in words."""

    low: Fraction
    high: Fraction | None
    reasons: tuple[str, ...]


def interval_of(block: Block, cycles: Fraction, shortest: Callable[[], Fraction]) -> Interval | None:
    """Return the interval of a prediction, None if the data allow no other value.

    Args:
        block: the code.
        cycles: the prediction.
        shortest: returns the prediction with every latency that is an upper bound as short as it can be.
    """
    reasons: list[str] = []
    low, high = min(cycles, shortest()), cycles
    if low < cycles:
        reasons.append("latencies are upper bounds")
    unported = [item for item in block.items if item.effects.occupies and not item.effects.port_masks]
    together = sum((item.effects.occupies for item in unported), Fraction(0))
    if together > high:
        high = together
        reasons.append("ports are not known")
    missing = [what for what, items in ((UNKNOWN, block.unknown), (UNTIMED, block.untimed)) if items]
    if missing:
        return Interval(low, None, (*reasons, *missing))
    return Interval(low, high, tuple(reasons)) if reasons else None
