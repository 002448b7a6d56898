"""Upper bounds on the µops confined to a set of ports, from all counts.

Confined µops run on their ports in any case, so every count is an upper bound. If some of the ports are blocked, the
bound is tighter than in isolation, because other µops avoid them.

The search for usages needs tens of thousands of these bounds per measurement. So sets and counts are integers here, and
bounds are cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from results.ports import PortSet, mask_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from inference.ports.alone.isolation import Isolated
    from inference.ports.alone.layout import PortLayout
    from results.model import PortUsage


@dataclass(frozen=True, slots=True)
class Observation:
    """What ran while a set of ports was blocked: µops per counter; `own` are those of the blocking instructions.

    `off` is the share of itself by which a count may be off.
    """

    blocked: PortSet
    uops: Mapping[str, Fraction]
    own: PortUsage
    off: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class CountedBounds:
    """What a measurement, and those `before` it, say of sets of ports; sets are integers as `mask_of` makes them.

    - `counters`: the ports of each counter, and what it counted, in µops divided by `unit`.
    - `tolerance`: by how much a sum over counters may be off, in the same unit.
    - `blocked`: the ports that were kept busy; `own`: the µops that did so, by the ports that they can use.
    """

    counters: tuple[tuple[int, int], ...]
    tolerance: int
    unit: int
    blocked: int = 0
    own: tuple[tuple[int, int], ...] = ()
    before: CountedBounds | None = None
    _found: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, isolated: Isolated, layout: PortLayout) -> CountedBounds:
        """Return what isolation says."""
        return cls(*_in_units(isolated.uops, isolated.tolerance, layout))

    def seen(self, observation: Observation, tolerance: Fraction, layout: PortLayout) -> CountedBounds:
        """Return the bounds with another measurement, whose sums over counters may be off by some µops."""
        uops = {name: observation.uops[name] * (1 + observation.off) for name in layout.counters}
        own = tuple((mask_of(able), count) for able, count in observation.own.uops.items())
        return CountedBounds(*_in_units(uops, tolerance, layout), mask_of(observation.blocked), own, self)

    def most(self, ports: int) -> int:
        """Return how many µops can at most be confined to a set."""
        found = self._found.get(ports)
        if found is None:
            before = [] if self.before is None else [self.before.most(ports)]
            found = min(before if self.blocked & ~ports else [*before, self._here(ports)])
            self._found[ports] = found
        return found

    def _here(self, ports: int) -> int:
        """Return the bound of this measurement for a set that contains the blocked one."""
        counted = sum([uops for counter, uops in self.counters if counter & ports])
        return (counted + self.tolerance) // self.unit - sum([count for able, count in self.own if not able & ~ports])


def _in_units(
    uops: Mapping[str, Fraction], tolerance: Fraction, layout: PortLayout
) -> tuple[tuple[tuple[int, int], ...], int, int]:
    """Return the counts by ports and a tolerance as integers, and their unit: a µop is so many."""
    unit = lcm(tolerance.denominator, *(uops[name].denominator for name in layout.counters))
    counted = tuple((mask_of(ports), int(uops[name] * unit)) for name, ports in layout.counters.items())
    return counted, int(tolerance * unit), unit
