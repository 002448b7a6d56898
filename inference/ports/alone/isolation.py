"""An instruction in isolation: bounds on its port usage from its counters and its time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from inference.experiment import Measured
    from inference.ports.alone.layout import PortLayout
    from results.model import PortUsage
    from results.ports import PortSet

UNUSED = Fraction(1, 25)
"""µops per instruction. A port with no more counts as unused: the harness leaves a little there."""

TOLERANCE_PER_UOP = Fraction(1, 20)
"""µops per µop by which a sum over ports may be off an integer, and once more for the harness around them. Noise grows
with the count; up to five µops it stays below `MOST_OFF`."""

MOST_OFF = Fraction(3, 10)
"""µops by which a sum over counters may be off an integer at most: if it is off by more, the next integer fits as
well."""

WHOLE_PORTS = Fraction(1, 8)
"""Ports by which µops per cycle on a counter may be off. That is a quarter of the way to n + 1/2 ports, which no
instruction of one µop keeps busy."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """What an instruction did alone: µops per counter and core cycles, per instruction; `total` µops in all.

    `free`: instances do not depend on each other, so that only ports can limit them. `issued`: µops of the fused domain
    (0: not counted). `executed`: µops by the counter of all executed ones (None: there is none, it counted no whole
    number, or some ports have no counters).
    """

    uops: Mapping[str, Fraction]
    cycles: Fraction
    total: int
    free: bool = False
    issued: Fraction = Fraction(0)
    executed: int | None = None

    @property
    def tolerance(self) -> Fraction:
        """µops by which a sum over ports may be off an integer."""
        return min(MOST_OFF, TOLERANCE_PER_UOP * (self.total + 1))

    def used(self, layout: PortLayout) -> PortSet:
        """Return the ports whose counters counted anything."""
        busy = (ports for name, ports in layout.counters.items() if self.uops[name] > UNUSED)
        return frozenset().union(*busy)

    def explained(self, usage: PortUsage, layout: PortLayout) -> bool:
        """Whether every counter that counted something can have counted µops of the usage."""
        reached = frozenset().union(*(ports for ports, count in usage.uops.items() if count))
        return all(ports & reached for ports in self.must_be_reached(layout))

    def must_be_reached(self, layout: PortLayout) -> list[PortSet]:
        """Return the ports of every counter that counted something: µops of a usage run on one of them at least."""
        most = self.tolerance / 2  # of one counter: sums over several are less exact
        return [ports for name, ports in layout.counters.items() if self.uops[name] > most]

    def separable(self, layout: PortLayout) -> bool:
        """Whether every port that was used has a counter of its own."""
        return all(len(ports) == 1 for name, ports in layout.counters.items() if self.uops[name] > UNUSED)


def isolated_of(measured: Measured, layout: PortLayout) -> Isolated:
    """Return what one instruction of a throughput sequence did, from the measurement of the sequence."""
    divisor = measured.request.benchmark.divisor
    uops = {name: measured.values[name] / divisor for name in layout.counters}
    issued = Fraction(0) if layout.kind else measured.values.get("uops_issued", Fraction(0)) / divisor
    executed = None if layout.kind else measured.values.get("uops_executed")
    whole = None if executed is None else round(executed / divisor)
    near = executed is not None and whole is not None and abs(executed / divisor - whole) <= MOST_OFF
    total = round(sum(uops.values()))
    return Isolated(uops, measured.cycles / divisor, total, issued=issued, executed=whole if near else None)


def is_integral(isolated: Isolated) -> bool:
    """Whether the µop sum is near an integer."""
    return abs(sum(isolated.uops.values(), Fraction(0)) - isolated.total) <= isolated.tolerance


def name_ports(isolated: Isolated, layout: PortLayout) -> PortSet:
    """Return the ports of an instruction of one µop, from the counters that counted it and from its throughput.

    A counter for several ports does not say which of them were used. If ports limit the throughput, it shows how many
    were: one µop that n ports can take needs 1/n cycles. Then the first ports of the counter are named, since nothing
    tells one from the other.
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
    """Split the counters of an instruction of two µops into two parts of one µop each ([]: not in just one way).

    If no port can run both µops, the parts are their ports: a µop runs nowhere else.
    """
    busy = [name for name in layout.counters if isolated.uops[name] > UNUSED]
    found: list[tuple[str, ...]] = []
    for size in range(1, len(busy)):
        for part in combinations(busy, size):
            load = sum((isolated.uops[name] for name in part), Fraction(0))
            if busy[0] in part and abs(load - 1) <= TOLERANCE_PER_UOP:
                found.append(part)
    if len(found) != 1:
        return []
    rest = [name for name in busy if name not in found[0]]
    return [frozenset().union(*(layout.counters[name] for name in part)) for part in (found[0], rest)]
