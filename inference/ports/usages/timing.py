"""Usages that agree with the time in isolation: an instruction slower than its ports allow may use fewer ports.

Time decides only if no experiment can: ports share a counter, and nothing blocks one of them alone.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from inference.ports.alone.load_balance import is_first, is_uneven
from inference.ports.usages.hypotheses import WHOLE_TIME
from results.ports import moved, throughput_of

if TYPE_CHECKING:
    from inference.ports.usages.hypotheses import HypothesisSpace
    from results.model import PortUsage

TOO_FAST = Fraction(4, 5)
"""Share of a measured time. Ports that need less do not explain it: a fifth port takes a fifth off the time of four."""


def is_slower(usage: PortUsage, space: HypothesisSpace) -> bool:
    """Whether independent instances took longer than the ports of the usage would take, and than issue takes."""
    limited = space.isolated.free and not space.issue_limited
    return limited and throughput_of(usage) < space.isolated.cycles * TOO_FAST


def has_the_time(usage: PortUsage, space: HypothesisSpace) -> bool:
    """Whether a usage explains both the loads and the time of isolation."""
    off = abs(throughput_of(usage) - space.isolated.cycles) > space.isolated.cycles * (1 - WHOLE_TIME)
    return not (off or is_uneven(usage, space.isolated, space.layout) or not is_first(usage, space.layout))


def consistent_with_time(usage: PortUsage, space: HypothesisSpace) -> list[PortUsage]:
    """Return usages with fewer ports of a shared counter that need just the measured time, where the usage needs less.

    No counter would show that an instruction's many loads never use the third load port.
    """
    if space.issue_limited or throughput_of(usage) >= space.isolated.cycles * TOO_FAST:
        return []
    fewer = [
        (able, able - one | space.layout.first({name: size}))
        for able in usage.uops
        for name, one in space.layout.counters.items()
        for size in range(1, len(one & able))
    ]
    moves = [moved(usage, able, part, more) for able, part in fewer for more in range(1, usage.uops[able] + 1)]
    return [other for other in moves if has_the_time(other, space)]
