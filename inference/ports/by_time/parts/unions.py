"""Parts of sets that are two smaller sets together, which no other instruction may have.

Where nothing that can block has p05, instructions with that set seem to have p015. If the throughput needs all ports
of the larger set, there is nothing to ask. Else a mix blocks both smaller sets. If it takes longer than
one with as many µops that are known to use the larger set, some of their µops have only the smaller ones.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from inference.ports.by_time.conclude import usage_of
from inference.ports.by_time.members import SHARES
from inference.ports.by_time.mixes import MANY, cycles_of
from inference.ports.by_time.timed_probe import SLOWER
from results.findings import Indistinguishable, SequenceTime
from results.ports import moved, throughput_of

if TYPE_CHECKING:
    from inference.experiment import Procedure, Request
    from inference.ports.by_time.mixes import MixFactory
    from inference.ports.by_time.timed_probe import TimedProbe
    from inference.ports.infer import PortConclusion
    from results.model import PortUsage
    from results.ports import PortSet


def told_of_unions(probe: TimedProbe, mixes: MixFactory, found: PortConclusion) -> Procedure[PortConclusion]:
    """Ask whether µops of a set are confined to two smaller ones together; return the conclusion after that."""
    usage = usage_of(found)
    if usage is None:
        return found
    askable = probe.askable()
    planned: list[tuple[PortSet, PortSet, Request]] = []
    counts = {ports: usage.uops.get(probe.machine.public(ports), 0) for ports in askable}
    for whole in (ports for ports, count in counts.items() if count):
        inner = [ports for ports in askable if ports < whole]
        for one, other in combinations(inner, 2):
            part = one | other
            if one & other or len(part) == len(whole) or not _may_have_part(probe, usage, whole, part):
                continue
            # So many that a single µop in the part makes it the fullest set
            number = MANY * counts[whole]
            blockers = [(askable[each].blockers[probe.kind], number * len(each)) for each in (one, other)]
            known = (askable[whole].blockers[probe.kind], number)
            made = mixes.possible([([*blockers, (probe.variant, MANY)], None), ([*blockers, known], None)])
            planned += [(whole, part, request) for request in made]
    if not planned:
        return found
    measured = yield [one for *_, one in planned]
    times = [cycles_of(one) or Fraction(0) for one in measured]
    experiments = (*found.experiments, *(request.benchmark.id for *_, request in planned))
    steps = [
        *found.steps,
        *(SequenceTime(one[2].benchmark.purpose, time, MANY) for one, time in zip(planned, times, strict=True)),
    ]
    fitting = [
        (whole, part)
        for (whole, part, _), time, other in zip(planned[::2], times[::2], times[1::2], strict=True)
        if (time / MANY - counts[whole]) * len(part) > SHARES and time > other * SLOWER
    ]
    if not fitting:
        return replace(found, steps=tuple(steps), experiments=experiments)
    usages = {str(usage): usage}
    for whole, part in fitting:
        for count in range(1, counts[whole] + 1):
            other_usage = _moved(probe, usage, whole, part, count)
            usages[str(other_usage)] = other_usage
    why = Indistinguishable(tuple(usages.values()))
    return replace(found, usage=None, failure=why, steps=tuple(steps), experiments=experiments)


def _may_have_part(probe: TimedProbe, usage: PortUsage, whole: PortSet, part: PortSet) -> bool:
    """Whether the throughput allows that one µop of a set is confined to a part of it."""
    return throughput_of(_moved(probe, usage, whole, part, 1)) <= probe.slowest


def _moved(probe: TimedProbe, usage: PortUsage, whole: PortSet, part: PortSet, count: int) -> PortUsage:
    """Return the usage with so many µops of a set confined to a part of it; the sets have the machine's letters."""
    return moved(usage, probe.machine.public(whole), probe.machine.public(part), count)
