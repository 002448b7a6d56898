"""Hints from the loads of ports of an instruction in isolation: cores distribute µops evenly.

A µop goes to the port with the shortest queue, and to equal ones in turn. So if no two sets of ports overlap, the µops
of a set put the same load on each of its ports. That is how schedulers are built, but it is no proof. It decides only
if no experiment tells port usages apart, most often because ports share a counter.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.ports.alone.isolation import Isolated
    from inference.ports.alone.layout import PortLayout
    from results.model import PortUsage
    from results.ports import PortSet

EVEN = Fraction(1, 25)
"""Share of the µops by which even loads may differ, because a window need not hold whole periods. Five and six ports
differ by 1/30 per port, and by more in the sum over a counter's ports."""


def is_uneven(usage: PortUsage, isolated: Isolated, layout: PortLayout) -> bool:
    """Whether the instruction alone loaded its ports otherwise than these µops would; False if that cannot be told.

    Only sets with ports that share a counter are judged. All others can be blocked, which tells more.
    """
    sets = {ports: count for ports, count in usage.uops.items() if count}
    if len(frozenset().union(*sets)) < sum(map(len, sets)):  # a port of two sets is busy with µops of both
        return False
    for name in {name for ports in sets if _is_shared(ports, layout) for name in layout.touching(ports)}:
        counted = {ports: count for ports, count in sets.items() if ports & layout.counters[name]}
        even = sum(Fraction(count * len(ports & layout.counters[name]), len(ports)) for ports, count in counted.items())
        if abs(isolated.uops[name] - even) > EVEN * sum(counted.values()):
            return True
    return False


def _is_shared(ports: PortSet, layout: PortLayout) -> bool:
    """Whether a counter of these ports counts several ports."""
    return any(len(layout.counters[name]) > 1 for name in layout.touching(ports))


def _is_apart(usage: PortUsage, layout: PortLayout) -> bool:
    """Whether no counter counts µops of two sets, so that the loads show each set by itself."""
    names = [name for ports, count in usage.uops.items() if count for name in layout.touching(ports)]
    return len(names) == len(set(names))


def evenly_loaded(isolated: Isolated, layout: PortLayout, names: Sequence[str] | None = None) -> list[PortSet]:
    """Return the sets over which the µops of some counters (None: of all) may have been distributed evenly.

    Which ports of a counter were used is not known, so the first ones are named.
    """
    busy = [name for name in names or layout.counters if isolated.uops[name] > EVEN / 2]
    total = sum((isolated.uops[name] for name in busy), Fraction(0))
    most = EVEN * max(Fraction(1), total)
    found = []
    for sizes in product(*(range(1, len(layout.counters[name]) + 1) for name in busy)):
        each = total / max(1, sum(sizes))
        if all(abs(isolated.uops[name] - each * size) <= most for name, size in zip(busy, sizes, strict=True)):
            found.append(layout.first(dict(zip(busy, sizes, strict=True))))
    return found


def is_first(usage: PortUsage, layout: PortLayout) -> bool:
    """Whether each set has the first ports of every counter: so sets are named where nothing tells the ports apart."""
    return all(
        ports == layout.first({name: len(ports & layout.counters[name]) for name in layout.touching(ports)})
        for ports in usage.uops
    )


def novelty(usage: PortUsage, known: Sequence[PortSet]) -> int:
    """Return how many µops have novel sets."""
    return sum(count for ports, count in usage.uops.items() if ports not in known)


def likeliest(
    usages: Sequence[PortUsage], known: Sequence[PortSet], isolated: Isolated, layout: PortLayout
) -> list[PortUsage]:
    """Return the usages that explain the instruction alone with the fewest novel sets: sets that nothing else has.

    A usage that contradicts the loads may stay. It does if all others have more novel sets, and loads cannot judge
    them: loads are a little uneven where µops wait for something else than ports.
    """
    fitting = [usage for usage in usages if not is_uneven(usage, isolated, layout)] or list(usages)
    if fitting and not any(_is_apart(usage, layout) for usage in fitting):
        least = min(novelty(usage, known) for usage in fitting)
        uneven = [usage for usage in usages if usage not in fitting and novelty(usage, known) < least]
        if uneven:
            return [*uneven, *fitting]
    novel = [novelty(usage, known) for usage in fitting]
    least = min(novel, default=0)
    best = [usage for usage, count in zip(fitting, novel, strict=True) if count == least]
    if least == 0:
        return best
    best = [usage for usage in best if is_first(usage, layout)] or best
    return [usage for usage in best if _is_apart(usage, layout)] or best
