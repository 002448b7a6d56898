"""Whether the counters could tell a port usage at all: whether only the true one fits everything that they can say.

Of a variant they can say what it does alone. For each set of ports that up to three blocking instructions keep busy,
they can tell how many µops are confined to it. They can also tell what ran on all other ports. So all of these sets are
blocked, the true counts are taken as answers, and every other usage is looked for. Only a core whose µops keep away
from busy ports lets anything but zero be concluded from a count (`inference.ports.scheduling`).

An instruction may take longer than its ports, and just as long as it would with fewer ports of a shared counter. Then
no counter shows that all of these ports are used, and the usage is not tellable either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.operands.values import kinds_of
from generator.sequences.blocking import kind_of
from generator.sequences.throughput import ThroughputFactory
from inference.experiment import Procedure, Want
from inference.forms import measure_first
from inference.port_usage import subject_of
from inference.ports.alone.isolation import isolated_of
from inference.ports.ask import lengthened, measure
from inference.ports.blocking_instructions import Blockers, Pace, blockers_for
from inference.ports.conceivable import conceivable_sets, groups_of, sets_within
from inference.ports.infer import begin
from inference.ports.load import CLEAR, load_of
from inference.ports.usages.bounds import Observation
from inference.ports.usages.every_usage import another_usage, every_usage
from inference.ports.usages.hypotheses import Answer
from inference.ports.usages.timing import consistent_with_time, is_slower
from inference.throughput import Search
from results.ports import PortSet, confined, joined

if TYPE_CHECKING:
    from inference.context import Context
    from inference.ports.blocking_instructions import BlockingInstruction, BlockingSet
    from inference.ports.probe import PortProbe
    from results.model import PortUsage
    from xed_convert.model import InstructionVariant

MOST_TOGETHER = 3
"""Blocking instructions that block a set together: registers suffice for no more."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Sees everything that the counters can say; `true` is the true usage, with the port names of inference."""

    variant: InstructionVariant
    context: Context
    true: PortUsage

    def is_only_one(self) -> Procedure[bool]:
        """Return whether no usage but the true one fits."""
        probe = yield from self._observe()
        if probe is None:
            return False
        sets = self._conceivable(probe)
        found = every_usage(probe.space, sets)
        if found.complete or len(found.usages) > 1:
            only = [usage.uops for usage in found.usages] == [self.true.uops]
        else:
            only = probe.space.agrees(self.true) and another_usage(probe.space, self.true, sets) is None
        return only and not (yield from self._may_have_fewer_ports(probe))

    def _conceivable(self, probe: PortProbe) -> list[PortSet]:
        """Return all sets that µops may have, and those of the true usage.

        If the true usage has others than are conceivable, µops may have the ports of several groups, as inference finds
        out, too: no usage of single groups fits.
        """
        sets = conceivable_sets(probe)
        if not set(self.true.uops) <= set(sets):
            sets = sets_within(probe, [frozenset().union(*groups_of(probe))])
        return list(dict.fromkeys([*sets, *self.true.uops]))

    def _may_have_fewer_ports(self, probe: PortProbe) -> Procedure[bool]:
        """Return whether fewer ports of a shared counter explain the time in isolation, where the true ones do not."""
        if not is_slower(self.true, probe.space):
            return False
        probe = yield from lengthened(probe)
        return any(map(probe.space.agrees, consistent_with_time(self.true, probe.space)))

    def _observe(self) -> Procedure[PortProbe | None]:
        """Block everything that can be blocked; None if the variant does not run."""
        factory = ThroughputFactory(self.context.instructions, self.variant)
        search = Search(factory, kinds_of(self.variant)[-1], balanced=self.context.loops_only)
        yield from measure_first(search, Want.ALL)
        if not search.unrolled:
            return None
        isolated = isolated_of(search.unrolled[0].measured, self.context.layout)
        subject, isolated = yield from subject_of(search, isolated, self.context)
        blocking = self.context.blocking[kind_of(self.variant)]
        probe, alone = yield from measure(begin(subject, isolated, blocking), Blockers((), ()))
        probe = replace(probe, chain=alone.cycles if alone.ok else isolated.cycles)
        for ports, instructions in _blockable(blocking).items():
            if ports & isolated.used(blocking.layout):
                probe = yield from self._block(probe, ports, instructions)
        return probe

    def _block(
        self, probe: PortProbe, ports: PortSet, instructions: tuple[BlockingInstruction, ...]
    ) -> Procedure[PortProbe]:
        """Block a set, and take the true count for the answer."""
        pace = Pace(probe.chain or Fraction(0), probe.blocking.width)
        blockers = blockers_for(instructions, probe.space.isolated, pace)
        blockers = blockers.balanced([confined(self.true, one.ports) for one in instructions])
        try:
            probe, measured = yield from measure(probe, blockers)
        except GenerationError:
            return probe
        load = load_of(probe, measured, blockers, ports) if measured.ok else None
        if load is None or load.ran < -CLEAR - load.error:
            return probe
        count = confined(self.true, ports)
        answer = Answer(count, exact=count == 0 or probe.blocking.scheduling.keeps_away)
        own = joined(blockers.usage, probe.subject.extra)
        observation = Observation(ports, measured.values, own, probe.blocking.accuracy.counts)
        return replace(probe, space=probe.space.observe(observation, answer))


def _blockable(blocking: BlockingSet) -> dict[PortSet, tuple[BlockingInstruction, ...]]:
    """Return the sets that can be kept busy and are narrower than issue, each with the fewest instructions."""
    busy = [one for one in blocking.instructions.values() if one.saturates]
    found: dict[PortSet, tuple[BlockingInstruction, ...]] = {}
    for count in range(1, MOST_TOGETHER + 1):
        for parts in combinations(busy, count):
            union = frozenset[str]().union(*(one.ports for one in parts))
            if len(union) < blocking.width and not any(a.ports < b.ports for a in parts for b in parts):
                found.setdefault(union, parts)
    return found
