"""A tighter upper bound: blocked ports whose queues are equally long.

A µop that may use several ports goes to the one with the shortest queue. Long microcode fills the queues of the ports
that are not blocked. When these are as long as that of a blocked port, µops stray onto the blocked port, in every copy.

Blocking instructions add equally many µops to all queues of the set, but the microcode's own µops do not. With seven
µops for p0 and three for p5, strays go to p5. So single-port instructions are added after the blocking instructions,
which make all queues equally long. The count is still an upper bound, since confined µops must run on the set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.errors import GenerationError
from inference.ports.ask import conclude_bound, measure
from inference.ports.blocking_instructions import Blockers
from inference.ports.load import load_of
from results.ports import PortSet, confined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Procedure
    from inference.ports.blocking_instructions import BlockingSet
    from inference.ports.probe import PortProbe
    from results.model import PortUsage

MANY = 600
"""Blocking instructions: more than any reorder buffer holds (512 entries on Golden Cove), so that queues are as long as
possible."""


def equalize_queues(probe: PortProbe, usages: Sequence[PortUsage]) -> Procedure[PortProbe]:
    """Ask again about every set that has only a bound and where usages differ; settle for the usages that are left."""
    left = list(usages)
    for ports in probe.blocking.sets() if len(left) > 1 else ():
        answer = probe.space.answers.get(ports)
        counts = {confined(usage, ports) for usage in left}
        if answer is None or answer.exact or len(counts) < 2:
            continue
        blockers = equalizing(probe.blocking, ports, min(left, key=lambda usage: confined(usage, ports)))
        if len(blockers.instructions) == 1:
            continue  # all queues are equally long as they are
        try:
            probe, measured = yield from measure(probe, blockers)
        except GenerationError:
            continue
        if measured.ok:
            load = load_of(probe, measured, blockers, ports)
            probe = conclude_bound(probe, measured, blockers, ports, load)
            left = [usage for usage in left if probe.space.agrees(usage)]
    return probe.settled(left)


def equalizing(blocking: BlockingSet, ports: PortSet, usage: PortUsage) -> Blockers:
    """Return blocking instructions of a set, and after them those for the ports with shorter queues."""
    known = blocking.instructions
    waiting = _queues(usage, ports)
    needed = {frozenset(port): max(waiting.values()) - count for port, count in sorted(waiting.items())}
    more = {part: count for part, count in needed.items() if count and part in known and known[part].usage.total == 1}
    counts = (MANY - MANY % len(ports), *more.values())
    return Blockers((known[ports], *(known[part] for part in more)), counts, in_turns=False)


def _queues(usage: PortUsage, ports: PortSet) -> dict[str, int]:
    """Return how many µops confined to the ports wait for each; those with a choice take the shortest queue."""
    waiting = dict.fromkeys(sorted(ports), 0)
    for able, count in sorted(usage.uops.items(), key=lambda item: (len(item[0]), sorted(item[0]))):
        for _ in range(count if able <= ports else 0):
            waiting[min(sorted(able), key=waiting.__getitem__)] += 1
    return waiting
