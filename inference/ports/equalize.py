"""A closer bound where only bounds are left: a set is blocked so that all of its ports have equally many µops waiting.

A µop with a choice goes to the port where the fewest wait. Long microcode waits for itself, and queues up on the ports
that are left. Once as many wait there as for one of the blocked ports, some µops stray onto that one, in every copy.

Blocking instructions wait in equal numbers for all ports of the set; the microcode's own µops do not. With seven of p0
and three of p5, strays go to p5. So a few more instructions stand behind the blocking ones, each of one port only: they
make all queues equally long. What runs on the set is a bound as ever, since confined µops must run there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.errors import GenerationError
from inference.ports.ask import conclude, measure
from inference.ports.blocking_instructions import Blockers
from inference.ports.load import load_of
from inference.ports.usages.hypotheses import Answer
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
    """Ask again about every set with only a bound where usages differ; settle for the usages that are left."""
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
            most = min(probe.space.limit(ports), load_of(probe, measured, blockers, ports).most)
            probe = conclude(probe, measured, blockers, ports, Answer(most, exact=False))
            left = [usage for usage in left if probe.space.agrees(usage)]
    return probe.settled(left)


def equalizing(blocking: BlockingSet, ports: PortSet, usage: PortUsage) -> Blockers:
    """Return blocking instructions of a set, and behind them those for the ports with shorter queues."""
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
