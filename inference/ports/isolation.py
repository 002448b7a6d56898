"""What an instruction does alone, and what its counters and its time say of its ports before anything is blocked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from inference.experiment import Measured
    from inference.ports.layout import PortLayout
    from results.model import PortUsage
    from results.ports import PortSet

UNUSED = Fraction(1, 25)
"""µops per instruction on a port that counts as unused: the harness leaves a little there."""

TOLERANCE_PER_UOP = Fraction(1, 20)
"""How far, in µops per µop, a sum over ports may be from an integer (measured on hardware by the method's authors'
successors)."""

MOST_OFF = Fraction(3, 10)
"""µops that a sum over counters may be from an integer at most: with more, another integer may as well be meant."""

WHOLE_PORTS = Fraction(1, 8)
"""Ports by which µops per cycle on a counter may be off: a quarter of what tells n ports from n + 1/2, which no
instruction of one µop keeps busy."""

NEAR = Fraction(1, 20)
"""How far, in µops, the count of a blocking instruction's one µop may be from an integer in isolation."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """What an instruction did alone: µops per counter and core cycles, per instruction; `total` µops in all.

    `free` says that instances do not depend on each other, so that ports alone can limit them. `issued` are the
    µops of the fused domain (0: they were not counted). `executed` are the µops by a counter of their own (None: there
    is none, or it counted no whole number).
    """

    uops: Mapping[str, Fraction]
    cycles: Fraction
    total: int
    free: bool = False
    issued: Fraction = Fraction(0)
    executed: int | None = None

    @property
    def tolerance(self) -> Fraction:
        """How much a sum over ports may be wrong."""
        return min(MOST_OFF, Fraction(1, 20) + TOLERANCE_PER_UOP * self.total)

    def used(self, layout: PortLayout) -> PortSet:
        """Return the ports whose counters counted anything."""
        busy = (ports for name, ports in layout.counters.items() if self.uops[name] > UNUSED)
        return frozenset().union(*busy)

    def explained(self, usage: PortUsage, layout: PortLayout) -> bool:
        """Whether every counter that counted something can have counted µops of the usage."""
        reached = frozenset().union(*(ports for ports, count in usage.uops.items() if count))
        most = self.tolerance / 2  # of one counter: sums over several are less exact
        return all(ports & reached or self.uops[name] <= most for name, ports in layout.counters.items())

    def separable(self, layout: PortLayout) -> bool:
        """Whether every port that was used has a counter of its own."""
        return all(len(ports) == 1 for name, ports in layout.counters.items() if self.uops[name] > UNUSED)


def isolated_of(measured: Measured, layout: PortLayout) -> Isolated:
    """Return what one instruction of a throughput sequence did, from the whole sequence's measurement."""
    divisor = measured.request.benchmark.divisor
    uops = {name: measured.values[name] / divisor for name in layout.counters}
    issued = measured.values.get("uops_issued", Fraction(0)) / divisor
    executed = measured.values.get("uops_executed")
    whole = None if executed is None else round(executed / divisor)
    near = executed is not None and whole is not None and abs(executed / divisor - whole) <= MOST_OFF
    total = round(sum(uops.values()))
    return Isolated(uops, measured.cycles / divisor, total, issued=issued, executed=whole if near else None)


def is_integral(isolated: Isolated) -> bool:
    """Whether the µop sum is near an integer."""
    return abs(sum(isolated.uops.values(), Fraction(0)) - isolated.total) <= isolated.tolerance


def name_ports(isolated: Isolated, layout: PortLayout) -> PortSet:
    """Return the ports of an instruction of one µop, from the counters that counted it and from its throughput.

    Counters that count several ports do not say which of them were used. How many were used follows from the throughput
    where the ports limit it: one µop that n ports can take needs 1/n cycles. The first ports of a counter are
    named then, since which of two is which cannot be told from outside.
    """
    busy = [name for name in layout.counters if isolated.uops[name] > UNUSED]
    sizes = {name: len(layout.counters[name]) for name in busy}
    shared = [name for name in busy if sizes[name] > 1]
    if not shared or not isolated.cycles:
        return layout.first(sizes)
    possible = round(1 / isolated.cycles)
    for name in shared:
        share = isolated.uops[name] / isolated.cycles
        if possible < sum(sizes.values()) and abs(share - round(share)) < WHOLE_PORTS:
            sizes[name] = min(sizes[name], max(1, round(share)))
    return layout.first(sizes)


def tight_parts(isolated: Isolated, layout: PortLayout) -> list[PortSet]:
    """Split the counters of an instruction of two µops into two parts that carry one µop each ([] if not one way).

    A µop runs on the ports that it can use and nowhere else, so the two parts are the µops' ports if they are disjoint.
    """
    busy = [name for name in layout.counters if isolated.uops[name] > UNUSED]
    found: list[tuple[str, ...]] = []
    for size in range(1, len(busy)):
        for part in combinations(busy, size):
            load = sum((isolated.uops[name] for name in part), Fraction(0))
            if busy[0] in part and abs(load - 1) <= NEAR:
                found.append(part)
    if len(found) != 1:
        return []
    rest = [name for name in busy if name not in found[0]]
    return [frozenset().union(*(layout.counters[name] for name in part)) for part in (found[0], rest)]
