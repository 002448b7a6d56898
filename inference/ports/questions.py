"""Which port set to block next: the one whose answer tells most usages apart.

- `telling_set`: for several usages that agree with all answers;
- `driving_sets`: for several that no count tells apart, to drive µops onto ports that isolation did not show;
- `unverified_set`: for a single usage, of which isolation may have hidden ports.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from inference.ports.blocking_instructions import SATURATED
from inference.ports.conceivable import is_saturated
from results.ports import confined, mask_of, mask_unions, pairs_of, threes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from inference.ports.probe import PortProbe
    from inference.ports.usages.hypotheses import HypothesisSpace
    from results.model import PortUsage
    from results.ports import PortSet


def telling_set(probe: PortProbe, usages: Sequence[PortUsage]) -> PortSet | None:
    """Return the set that leaves the fewest usages if the one that was found is true; None if no set tells any apart.

    If that usage is excluded, return the set that leaves the fewest in the worst case. Among equals, sets that counters
    can tell apart come first, then smaller ones. Sets that need three blocking instructions follow. Last come those of
    two that have ports in common, where only time tells: of these there are bounds only.
    """
    pairs = pairs_of(probe.blocking.sets())
    found = _best_of(probe, usages, [*probe.askable, *_joined(probe, pairs)])
    found = found or _best_of(probe, usages, _joined(probe, threes_of(probe.blocking.sets())))
    return found or _best_of(probe, usages, _joined(probe, pairs, uneven=True))


def _best_of(probe: PortProbe, usages: Sequence[PortUsage], sets: Iterable[PortSet]) -> PortSet | None:
    """Return the best of some sets to ask about, None if none tells any usages apart."""
    space, best = probe.space, None
    uops = [[(mask_of(able), count) for able, count in usage.uops.items()] for usage in usages]
    for ports in dict.fromkeys(sets):
        if ports in space.answers or not is_answerable(probe, ports):
            continue
        rest = ~mask_of(ports)
        sizes = Counter([sum([count for able, count in one if not able & rest]) for one in uops])
        if len(sizes) < 2:
            continue
        left = max(sizes.values())
        if probe.usage is not None and probe.usage in usages:
            left = sizes[confined(probe.usage, ports)]
        rank = (left, not space.layout.separable(ports), len(ports), sorted(ports))
        best = rank if best is None else min(best, rank)
    return None if best is None else frozenset(best[-1])


def driving_sets(probe: PortProbe, usages: Sequence[PortUsage]) -> Iterator[PortSet]:
    """Yield sets that could exclude one of several usages if they were busy, those first that block most other ports.

    Such a set lies within a union of the usage's sets that lacks a port which other usages have.
    """
    able = {ports for usage in usages for ports, count in usage.uops.items() if count}
    differing = {mask_of(ports) for ports in able if len({usage.uops.get(ports, 0) for usage in usages}) > 1}
    every = reduce(or_, differing, 0)
    common = reduce(and_, differing, every)
    unions = {
        union
        for usage in usages
        for union in mask_unions(mask_of(ports) for ports, count in usage.uops.items() if count)
        if every & ~common & ~union and any(not mask & ~union for mask in differing)
    }
    known, space = probe.blocking.sets(), probe.space
    sets = {*probe.askable, *_joined(probe, pairs_of(known)), *_joined(probe, threes_of(known))} - {*space.answers}
    within = [ports for ports in sets if any(not mask_of(ports) & ~union for union in unions)]
    within.sort(key=lambda one: (-(mask_of(one) & common).bit_count(), len(one), sorted(one)))
    return (ports for ports in within if is_answerable(probe, ports))


def is_answerable(probe: PortProbe, ports: PortSet) -> bool:
    """Whether blocking a set can give an exact count: issue is wider than the set, and the set stays busy."""
    known = probe.blocking.instructions
    if len(ports) >= probe.blocking.width:
        return False
    if ports in known:
        return known[ports].saturates
    pairs, threes = probe.unions(ports)
    return any(all(known[part].saturates for part in one) for one in (*pairs, *threes))


def unverified_set(probe: PortProbe, usage: PortUsage) -> PortSet | None:
    """Return a set of the usage whose µops could also use ports that isolation happened not to use; None if none.

    There are no such ports if the instruction alone kept the set busy. Nor are there any if its µops were distributed
    over the set, so that no port took whole ones.
    """
    space = probe.space
    used = space.isolated.used(space.layout)
    sets = [ports for ports, count in usage.uops.items() if count]
    for ports in sorted(sets, key=lambda one: (len(one), sorted(one))):
        if ports in space.answers or ports not in probe.askable:
            continue
        if any(_overlapping(probe, ports, other) for other in sets if other != ports):
            return ports
        if not any(ports < other and not other <= used for other in probe.blocking.instructions):
            continue
        if not _reaches_all(space, ports):
            return ports
    return None


def _overlapping(probe: PortProbe, one: PortSet, other: PortSet) -> bool:
    """Whether some instruction can use ports of both sets, so that their µops could be of one larger set."""
    return any(ports & one and ports & other for ports in probe.blocking.instructions)


def _reaches_all(space: HypothesisSpace, ports: PortSet) -> bool:
    """Whether isolation shows that µops on these ports went to all ports that they can use."""
    isolated = space.isolated
    names = space.layout.touching(ports)
    loads = [isolated.uops[name] / len(space.layout.counters[name]) for name in names]
    if is_saturated(space, ports):
        return True
    return len(loads) > 1 and max(loads) < SATURATED and min(loads) * 2 >= max(loads)


def _joined(probe: PortProbe, together: Iterable[Sequence[PortSet]], *, uneven: bool = False) -> list[PortSet]:
    """Return the used sets that can be blocked by several instructions `together`.

    `uneven`: also where only time tells what ran on them, and the instructions have ports in common.
    """
    layout = probe.space.layout
    used = probe.space.isolated.used(layout)
    joined = ((frozenset[str]().union(*parts), sum(map(len, parts))) for parts in together)
    return list(
        dict.fromkeys(
            ports
            for ports, size in joined
            if ports & used and (uneven or layout.separable(ports) or size == len(ports))
        )
    )
