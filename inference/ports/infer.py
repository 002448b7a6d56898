"""Port usage: how many µops of an instruction may use exactly which set of ports.

This is Algorithm 1 of Abel and Reineke (ASPLOS 2019, §5.1.2), in an order that saves measurements. Isolation gives an
upper bound on the µops confined to each set. All usages within these bounds are listed, and a set is blocked only if
its answer tells some of them apart. A usage is stated only if it is the only one left and passes all checks. If answers
contradict each other, more is measured; if they still do, the result is a failure with its reason, never a number.
`inference.ports.stages` lists the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from inference.ports.alone.isolation import name_ports
from inference.ports.alone.load_balance import evenly_loaded, likeliest, novelty
from inference.ports.probe import PortProbe, Subject
from inference.ports.shared_counters import interchangeable, names_of
from inference.ports.stages import STAGES
from inference.ports.usages.every_usage import known_usages
from inference.ports.usages.hypotheses import HypothesisSpace
from inference.ports.usages.timing import has_the_time
from results.findings import Indistinguishable, NoUsage, TooManyUsages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Procedure
    from inference.ports.alone.isolation import Isolated
    from inference.ports.blocking_instructions import BlockingSet
    from results.model import Failure, PortUsage, Step
    from results.ports import PortSet

MOST_NAMED = 12
"""Usages that are named where they cannot be told apart, as many as a reader compares. Those with the fewest novel sets
come first."""


@dataclass(frozen=True, slots=True)
class PortConclusion:
    """The port usage, or why there is none; `steps` are the questions and their answers.

    `least` is a lower bound in cycles, from the µops whose ports are proven. `stage` is the name of the stage that
    decided.
    """

    usage: PortUsage | None
    failure: Failure | None = None
    steps: tuple[Step, ...] = ()
    experiments: tuple[str, ...] = ()
    least: Fraction = Fraction(0)
    stage: str = ""


def infer_ports(subject: Subject, isolated: Isolated, blocking: BlockingSet) -> Procedure[PortConclusion]:
    """Infer the port usage of an instruction from what it does alone and among blocking instructions.

    Args:
        subject: makes the combinations.
        isolated: what one instruction did alone, with none of its ports blocked.
        blocking: the blocking instructions that go with this kind of code.
    """
    probe, decisive = begin(subject, isolated, blocking), ""
    for stage in STAGES:
        if stage.applies(probe):
            before, probe = probe, (yield from stage.run(probe))
            changed = (before.usage, before.indistinguishable) != (probe.usage, probe.indistinguishable)
            decisive = stage.name if changed or probe.failure is not None else decisive
    failure = None if probe.usage is not None else _failure(probe)
    exact = [Fraction(answer.count, len(ports)) for ports, answer in probe.space.answers.items() if answer.exact]
    least = max(exact, default=Fraction(0))
    return PortConclusion(probe.usage, failure, probe.steps, probe.experiments, least, decisive)


def begin(subject: Subject, isolated: Isolated, blocking: BlockingSet) -> PortProbe:
    """Return the state before the first stage: hypotheses with sets of the ports that the instruction used alone."""
    used = isolated.used(blocking.layout)
    sets = [*(ports for ports in blocking.sets() if ports <= used), *_shown(isolated, blocking)]
    universe, clock = tuple(dict.fromkeys(sets)), blocking.accuracy.clock
    space = HypothesisSpace(blocking.layout, isolated, universe, width=blocking.width, clock=clock)
    return PortProbe(subject, blocking, space, tuple(ports for ports in blocking.sets() if ports & used))


def _shown(isolated: Isolated, blocking: BlockingSet) -> list[PortSet]:
    """Return the sets that an instruction of one µop was seen on, whether or not anything else can block them."""
    if isolated.total != 1:
        return []
    layout = blocking.layout
    seen = [name_ports(isolated, layout), *evenly_loaded(isolated, layout)]
    classes = interchangeable(layout, blocking.instructions)
    return [named for ports in seen for named in names_of(ports, layout, classes)]


def _failure(probe: PortProbe) -> Failure:
    """Return why no usage is stated."""
    if probe.failure is not None:
        return probe.failure
    space = probe.space
    if not probe.indistinguishable:
        contradictory = known_usages(space) == []
        return NoUsage(probe.blocking.sets(), space.facts()) if contradictory else TooManyUsages(space.facts())
    left = probe.indistinguishable
    named = sorted(left, key=str) if len(left) <= MOST_NAMED else _likeliest_first(probe, left)[:MOST_NAMED]
    return Indistinguishable(tuple(named), len(left) - len(named), space.facts())


def _likeliest_first(probe: PortProbe, usages: Sequence[PortUsage]) -> list[PortUsage]:
    """Order usages: first those that loads and known sets support, then those that take the measured time.

    For ports that share a counter, time may be the only evidence: an x87 store on one of two ports takes a cycle.
    """
    known, space = tuple(probe.blocking.instructions), probe.space
    likely = likeliest(usages, known, space.isolated, space.layout)

    def rank(usage: PortUsage) -> tuple[bool, bool, int, str]:
        return usage not in likely, not has_the_time(usage, space), novelty(usage, known), str(usage)

    return sorted(usages, key=rank)
