"""How long code is issued on a core that gives each port one µop per cycle, and issues instructions whole.

Such a core takes instructions in program order, until one does not fit into the cycle: it has no slots left, or no port
of its own for each of its µops. On a Zen 3 the ALUs are such ports. TZCNT (two µops) and ANDN (one) take turns at a
cycle each, although four ALUs could do four µops: the next TZCNT finds one ALU left. On an Emerald Rapids they do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from results.model import PortUsage
from results.ports import joined, throughput_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.ports import PortSet


@dataclass(frozen=True, slots=True)
class IssuedInstruction:
    """The µops of an instruction by their ports, its issue slots (one or more), and whether it writes masks."""

    usage: PortUsage
    slots: int
    masks: bool = False


def issue_cycles(code: Sequence[IssuedInstruction], width: int, ports: PortSet = frozenset()) -> Fraction:
    """Return in how many cycles a copy of repeated code is issued, if `ports` take one µop per cycle each.

    Args:
        code: the instructions in program order.
        width: slots that are issued per cycle.
        ports: those that take one µop per cycle. Their sets lie within them. None: only slots
            count.
    """
    own = [IssuedInstruction(within(one.usage, ports), one.slots) for one in code]
    begun: dict[int, tuple[int, int]] = {}
    cycles = place = 0
    while place % len(own) not in begun:  # what follows depends on the first instruction of the cycle alone
        begun[place % len(own)] = cycles, place
        taken, lasts = _next_group(own, place, width)
        cycles, place = cycles + lasts, place + taken
    cycles_before, place_before = begun[place % len(own)]
    return Fraction((cycles - cycles_before) * len(own), place - place_before)


def within(usage: PortUsage, ports: PortSet) -> PortUsage:
    """Return the µops that use these ports and no others."""
    return PortUsage({one: count for one, count in usage.uops.items() if one and one <= ports})


def _next_group(code: Sequence[IssuedInstruction], first: int, width: int) -> tuple[int, int]:
    """Return how many instructions are issued together from `first` on, and for how many cycles.

    An instruction that is too large for a cycle is issued alone.
    """
    usage, slots, taken = PortUsage({}), 0, 0
    while True:
        one = code[(first + taken) % len(code)]
        more, slots = joined(usage, one.usage), slots + one.slots
        cycles = max(throughput_of(more), Fraction(slots, width))
        if cycles > 1 and taken:
            return taken, 1
        if cycles > 1:
            return 1, ceil(cycles)
        usage, taken = more, taken + 1
