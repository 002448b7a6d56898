"""All port sets that a µop of an instruction may have, as far as the measurements say."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from inference.ports.blocking_instructions import SATURATED
from inference.ports.usages.every_usage import subsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.ports.alone.layout import PortLayout
    from inference.ports.probe import PortProbe
    from inference.ports.usages.hypotheses import HypothesisSpace
    from results.ports import PortSet


def conceivable_sets(probe: PortProbe) -> list[PortSet]:
    """Return all sets that a µop may have, as far as the answers say."""
    return sets_within(probe, joined_groups(probe, groups_of(probe)))


def groups_of(probe: PortProbe) -> list[PortSet]:
    """Return the ports in question in groups that known sets join, smaller ones first.

    Ports of no known set may be joined with any.
    """
    reached = _reached(probe)
    groups = [frozenset(port) for port in sorted(reached)]
    joining = [ports & reached for ports in probe.blocking.sets()]
    if reached - frozenset().union(*joining):
        joining.append(reached)
    for ports in (*joining, *(counted & reached for counted in probe.space.layout.counters.values())):
        touched = [group for group in groups if group & ports]
        if touched:
            groups = [group for group in groups if group not in touched] + [frozenset().union(*touched)]
    return sorted(groups, key=lambda one: (len(one), sorted(one)))


def joined_groups(probe: PortProbe, groups: Sequence[PortSet]) -> list[PortSet]:
    """Return the groups with used ports, all joined into one unless no µop can use ports of two groups.

    µops of two groups show when one of the groups is blocked. No µop can use both the ports of loads and stores and
    other ports.
    """
    answers, computing = probe.space.answers, _computing(probe)
    used = [one for one in groups if one & probe.space.isolated.used(probe.space.layout)]
    if not any(one & computing and not (one in answers and answers[one].exact) for one in used):
        return used
    joined = [one for one in groups if one & computing]
    return [frozenset().union(*joined), *(one for one in used if one not in joined)]


def sets_within(probe: PortProbe, groups: Sequence[PortSet]) -> list[PortSet]:
    """Return all subsets of groups of ports, and the sets that loads and stores may have.

    Of ports that only loads and stores use, only known sets are considered, because memory µops are those of loads and
    stores. They may also use a part of the ports that share a counter, if loads and stores do not keep these busy. And
    a load or store that was seen on some ports may have further ones, if nothing has shown that it used all.
    """
    space, known = probe.space, [*probe.blocking.sets(), *probe.space.universe]
    computing = _computing(probe)
    sets: list[PortSet] = []
    for group in groups:
        sets += subsets_of(group & computing if len(groups) > 1 else group)
    reached = frozenset[str]().union(*groups)
    sets += (one for one in known if one <= reached)
    for one in probe.blocking.instructions.values():
        sets += [] if one.saturates else (part for part in _parts(one.ports, space.layout) if part <= reached)
    for seen in probe.blocking.unshown:
        sets += [
            seen | more for group in groups if seen <= group for more in (frozenset[str](), *subsets_of(group - seen))
        ]
    return list(dict.fromkeys([*sets, *space.universe]))


def _reached(probe: PortProbe) -> PortSet:
    """Return the ports that µops may be able to use: those of isolation, and others if it does not show all.

    Isolation may hide ports in three cases. An answer contradicts it. The core does not use all ports by turns, unless
    one µop has kept its ports busy. Or issue alone limits the instruction, so that some ports of its sets are never
    needed.
    """
    space, known = probe.space, frozenset().union(*probe.blocking.sets())
    used = space.isolated.used(space.layout)
    if any(not ports <= used for ports in space.universe):
        return space.layout.ports
    if not probe.blocking.scheduling.takes_turns and not (space.isolated.total == 1 and is_saturated(space, used)):
        return space.layout.ports
    return space.layout.ports if space.issue_limited and not space.layout.ports <= known else used


def is_saturated(space: HypothesisSpace, ports: PortSet) -> bool:
    """Whether alone the instruction kept all of these ports busy, and nothing else limited it."""
    isolated = space.isolated
    loads = [isolated.uops[name] / len(space.layout.counters[name]) for name in space.layout.touching(ports)]
    return min(loads) >= SATURATED * isolated.cycles and isolated.free and not space.issue_limited


def _computing(probe: PortProbe) -> PortSet:
    """Return the ports that are used by something else than loads and stores."""
    known = probe.blocking.instructions.values()
    memory = frozenset().union(*(one.ports for one in known if one.of_memory))
    return probe.space.layout.ports - memory | frozenset().union(*(one.ports for one in known if not one.of_memory))


def _parts(ports: PortSet, layout: PortLayout) -> list[PortSet]:
    """Return the sets that the same counters count, each at least a port of each counter."""
    counted = [layout.counters[name] & ports for name in layout.touching(ports)]
    return [frozenset().union(*chosen) for chosen in product(*map(subsets_of, counted))]
