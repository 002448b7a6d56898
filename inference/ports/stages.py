"""The stages of port inference, in order: the condition of each, the usages that it excludes, its conclusion.

A stage gets the state (`PortProbe`), may measure, and returns a new state. Later stages may reject the usage that an
earlier one found. `infer` runs the stages whose `when` holds; the last state has the conclusion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

from inference.ports.alone.isolation import is_integral
from inference.ports.alone.load_balance import evenly_loaded, is_uneven, likeliest
from inference.ports.ask import ask, conclude_bound, doubt, lengthened, look, measure
from inference.ports.blocking_instructions import FEW_UOPS, Blockers
from inference.ports.conceivable import conceivable_sets, groups_of, joined_groups, sets_within
from inference.ports.equalize import equalize_queues
from inference.ports.load import load_of
from inference.ports.questions import driving_sets, is_answerable, telling_set, unverified_set
from inference.ports.usages.every_usage import another_usage, every_usage, known_usages
from inference.ports.usages.hypotheses import Answer
from inference.ports.usages.timing import consistent_with_time, is_slower
from results.findings import FractionalUops, NoUsage, OnlyBounds, TooManyUops, TooManyUsages, UopsDisagree
from results.model import PortUsage
from results.ports import PortSet, confined, moved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from inference.experiment import Procedure
    from inference.ports.probe import PortProbe

STEADY = (150, 600, 720)
"""Blocking instructions for long microcode: about as many as wait, then more than any reorder buffer holds (512
entries)."""

MOST_STEADY = 40
"""µops. Of more, only bounds are found: a scheduler (60 entries on Haswell) cannot hold them beside blocking ones."""

MOST_FITTING = 20
"""Usages that steady counts or all questions may leave. This many are still worth naming if they cannot be told
apart."""

BUSY = Fraction(3, 4)
"""Share of the ports' time. Blocking instructions that take less did not block the ports. In the rest the instruction
itself may wait: 200 cycles on one port, with the most blocking instructions of `STEADY`."""

MOST_UOPS = 100
"""µops of the largest instruction whose ports are inferred: `MOST_BLOCKERS` blocking instructions do not outweigh
more."""

MOST_DRIVEN = 12
"""Sets that are blocked once each to drive µops onto other ports: all of a small core, and each costs a measurement."""

MOST_SMALLER = 4
"""µops. Up to this many, sets smaller than any known one are considered; with more µops the usages are too many to
list."""


class When(Enum):
    """In which states a stage runs."""

    UNDECIDED = "undecided"
    """There is neither a usage nor a reason why none can be stated."""

    FOUND = "found"
    """The stages before have found a usage."""

    OPEN = "open"
    """Either of the two."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A named step of port inference; `of` says for how many µops it is made."""

    name: str
    when: When
    run: Callable[[PortProbe], Procedure[PortProbe]]
    of: range = range(MOST_UOPS + 1)

    def applies(self, probe: PortProbe) -> bool:
        """Whether it has anything to do in a state."""
        found = probe.usage is not None
        wanted = {When.UNDECIDED: probe.undecided, When.FOUND: found, When.OPEN: found or probe.undecided}
        return wanted[self.when] and probe.space.isolated.total in self.of


def check_sum(probe: PortProbe) -> Procedure[PortProbe]:
    """Refuse unclear counts, and state instructions that use no port.

    Refused are a sum of µops that is no whole number, one that differs from the executed µops, and too many µops. Needs
    isolation only. Excludes nothing.
    """
    yield from ()
    isolated = probe.space.isolated
    if not is_integral(isolated):
        return replace(probe, failure=FractionalUops(sum(isolated.uops.values(), Fraction(0))))
    if isolated.executed not in (None, isolated.total):
        return replace(probe, failure=UopsDisagree(isolated.executed, isolated.total))
    if isolated.total > MOST_UOPS:
        return replace(probe, failure=TooManyUops(isolated.total))
    return replace(probe, usage=None if isolated.total else PortUsage({}))


def bound_long_microcode(probe: PortProbe) -> Procedure[PortProbe]:
    """Bound how many µops of very long microcode are confined to each set; state nothing.

    Its waiting µops fill the scheduler, so blocked ports run dry. Then µops that could go elsewhere run there, in every
    copy: no number is exact, however steady. An indistinguishable machine proves it (docs/ports.md).
    """
    used = probe.space.isolated.used(probe.space.layout)
    for ports in probe.blocking.sets():
        if ports & used and not used <= ports:
            probe = yield from ask(probe, ports)
            probe = probe.unanswered(ports)
    return replace(probe, failure=OnlyBounds(probe.space.isolated.total, probe.space.facts(), fills_scheduler=True))


def block_known_sets(probe: PortProbe) -> Procedure[PortProbe]:
    """Ask until one usage of the sets in question is left, and no open question could contradict it.

    Needs blocking instructions for some of the ports. Excludes every usage of these sets that contradicts an answer.
    Finds a usage; or none, because no usage agrees, or because no question tells several apart.
    """
    while True:
        space = probe.space
        usages = known_usages(space)
        question: PortSet | None
        if usages is None:
            question = space.next_in_order(probe.askable)
            usage = space.by_subtraction() if question is None else None
            usages = [usage] if usage is not None and space.agrees(usage) else []
        else:
            question = space.best_question(usages, probe.askable)
        if question is not None:
            probe = yield from ask(probe, question)
            continue
        usages = likeliest(usages, tuple(probe.blocking.instructions), space.isolated, space.layout)
        if len(usages) != 1:
            return replace(probe, usage=None)
        question = unverified_set(probe, usages[0])
        if question is None:
            return replace(probe, usage=usages[0])
        probe = yield from ask(probe, question)
        if not probe.space.answers[question].allows(confined(usages[0], question)):
            probe = _with_unused(probe)


def exclude_all_others(probe: PortProbe) -> Procedure[PortProbe]:
    """Ask until no other usage over any subsets of the used ports agrees with the measurements.

    Several usages of more than a few µops are left undecided: steady counts may still tell them apart.
    """
    settled = yield from list_all(probe)
    several = len(settled.indistinguishable) > 1 and probe.usage is None
    return replace(settled, indistinguishable=()) if several and probe.space.isolated.total > FEW_UOPS else settled


def list_all(probe: PortProbe) -> Procedure[PortProbe]:
    """Ask until no other usage over any subsets of the used ports agrees with the measurements.

    Sets that no instruction of one µop has are blocked by two. The first questions are about groups of ports that known
    sets join: are µops confined to a group? Then all sets within the groups are considered. Usages that no question
    tells apart are indistinguishable. There may be a usage, but too many others to list. Then an integer linear program
    finds another one, and a question tells it from the first, until there is none.
    """
    groups = groups_of(probe)
    for ports in groups if len(groups) > 1 else ():
        if is_answerable(probe, ports) and ports not in probe.space.answers:
            probe = yield from ask(probe, ports)
    groups = joined_groups(probe, groups)
    while True:
        sets = sets_within(probe, groups)
        found = every_usage(probe.space, sets)
        if not found.usages and found.complete and len(groups) > 1:
            groups = [frozenset().union(*groups)]
            continue
        listed = found.complete or probe.usage is None
        usages: Sequence[PortUsage] = found.usages if listed else _two_of_many(probe, sets)
        question = telling_set(probe, usages)
        if question is not None:
            probe = yield from ask(probe, question)
        elif found.complete or (not listed and len(usages) < 2):
            probe, usages = yield from _drive_out(probe, usages)
            return probe.settled(_as_loaded(probe, usages))
        else:
            failure = None if probe.usage is None else TooManyUsages(probe.space.facts())
            return replace(probe, usage=None, failure=failure)


def _drive_out(probe: PortProbe, usages: Sequence[PortUsage]) -> Procedure[tuple[PortProbe, Sequence[PortUsage]]]:
    """Return the usages that are left once µops were driven onto ports that isolation did not show.

    A µop may run on some of its ports only while the others are busy: other µops use these, or the core prefers others.
    What ran on a port then excludes the usages of which no µop could have run there.
    """
    if not 1 < len(usages) <= MOST_FITTING:
        return probe, usages
    for ports in islice(driving_sets(probe, usages), MOST_DRIVEN):
        probe = yield from look(probe, ports)
        usages = [usage for usage in usages if probe.space.agrees(usage)]
        if len(usages) < 2:
            break
    return probe, usages


def _as_loaded(probe: PortProbe, usages: Sequence[PortUsage]) -> Sequence[PortUsage]:
    """Return the usages that explain how ports with a shared counter were loaded in isolation; all if none does.

    That decides only on cores where each µop is known to use all of its ports by turns.
    """
    if not probe.blocking.scheduling.takes_turns:
        return usages
    isolated, layout = probe.space.isolated, probe.space.layout
    return [usage for usage in usages if not is_uneven(usage, isolated, layout)] or usages


def _two_of_many(probe: PortProbe, sets: Sequence[PortSet]) -> list[PortUsage]:
    """Return the usage that was found and another one, each if it agrees with everything."""
    if probe.usage is None or not probe.space.agrees(probe.usage):
        return []
    other = another_usage(probe.space, probe.usage, sets)
    return [probe.usage] if other is None else [probe.usage, other]


def ask_again(probe: PortProbe) -> Procedure[PortProbe]:
    """Ask everything again, with twice as many blocking instructions and in the other order.

    Answers that contradict each other were wrong somewhere. Exact answers become bounds. Does nothing if some usage
    agrees with all answers.
    """
    if every_usage(probe.space, conceivable_sets(probe)).usages:
        return probe
    probe = replace(probe, space=probe.space.reconsider(), factor=2, reverse=True)
    probe = yield from block_known_sets(_with_unused(probe))
    return (yield from exclude_all_others(probe))


def exclude_others(probe: PortProbe) -> Procedure[PortProbe]:
    """Look for other usages that explain the answers, and equalize queues to tell them apart.

    They have smaller sets, larger sets, or fewer ports of a shared counter, if these explain the time of isolation.
    Needs a usage; states it, or finds the indistinguishable ones.
    """
    usage = _usage(probe)
    if not probe.space.isolated.separable(probe.space.layout) and is_slower(usage, probe.space):
        probe = yield from lengthened(probe)
    space = probe.space
    slower = consistent_with_time(usage, space) if usage.total > MOST_SMALLER or is_slower(usage, space) else []
    others = [*_on_smaller_sets(probe, usage), *_on_larger_sets(probe, usage), *slower]
    left = [usage, *(other for other in others if space.agrees(other))]
    while (question := telling_set(probe, left)) is not None:
        probe = yield from ask(probe, question)
        left = [other for other in left if probe.space.agrees(other)]
    return (yield from equalize_queues(probe, left))


def _on_smaller_sets(probe: PortProbe, usage: PortUsage) -> list[PortUsage]:
    """Return the usage with µops moved to a smaller set, on which more µops ran than the usage confines to it.

    They may be strays, or this set may be all that they can use. That counts if another instruction has the set, if
    time says just that number, or if all of several µops would fit, which come last.
    """
    space = probe.space
    bounds = {ports: answer for ports, answer in space.answers.items() if not answer.exact}
    likely = {ports for ports, answer in bounds.items() if ports in probe.blocking or answer.timed}
    found: list[PortUsage] = []
    for ports in sorted(bounds, key=lambda one: one not in likely):
        most = space.limit(ports) - confined(usage, ports)
        for able, count in usage.uops.items():
            if ports < able:
                all_of_several = [count] if 1 < count <= most else []
                numbers = range(1, min(count, most) + 1) if ports in likely else all_of_several
                found += [moved(usage, able, ports, number) for number in numbers]
    return found


def _on_larger_sets(probe: PortProbe, usage: PortUsage) -> list[PortUsage]:
    """Return the usage with a set that no other instruction has replaced by a larger one that was seen.

    Isolation may have shown only a part of the larger set, unless the core is known to use all ports by turns.
    """
    known, space = probe.blocking, probe.space
    if known.scheduling.takes_turns:
        return []
    novel = [able for able, count in usage.uops.items() if count and able not in known]
    larger = [moved(usage, able, one, usage.uops[able]) for able in novel for one in known.sets() if able < one]
    return [other for other in larger if not is_uneven(other, space.isolated, space.layout)]


def count_steadily(probe: PortProbe) -> Procedure[PortProbe]:
    """Conclude from counts that stay the same however many blocking instructions there are.

    While long microcode waits, the reorder buffer fills with blocking instructions that are done. So blocked ports run
    idle, but not at the time when the microcode's µops are given their ports. A count is taken if it stays the same,
    and if all answers together make a usage. Needs microcode whose usage nothing else has told, on a core whose µops
    keep away from busy ports. Finds a usage, or says that there are too many.
    """
    if not probe.blocking.scheduling.keeps_away:
        return probe
    answers = probe.space.answers
    probe = replace(probe, space=probe.space.reconsider(), reverse=True)
    used = probe.space.isolated.used(probe.space.layout)
    for ports in probe.blocking.sets():
        if ports & used and probe.blocking.instructions[ports].saturates:
            probe = yield from _ask_steadily(probe, ports)
    fitting = probe.space.by_subtractions([ports for ports in probe.blocking.sets() if ports <= used])
    probe = yield from equalize_queues(probe, fitting if len(fitting) < MOST_FITTING else [])
    if probe.indistinguishable:  # sets that nothing else has may explain the counts as well
        return replace(probe, indistinguishable=(), failure=TooManyUsages(probe.space.facts()))
    return _remembering(probe, answers) if probe.usage is None else probe


def _ask_steadily(probe: PortProbe, ports: PortSet) -> Procedure[PortProbe]:
    """Block a set for longer and longer; its answer is exact if two counts come to the lowest bound."""
    counts: list[Fraction] = []
    for count in STEADY:
        blockers = Blockers((probe.blocking.instructions[ports],), (count - count % len(ports),))
        probe, measured = yield from measure(probe, blockers)
        if measured.ok and probe.space.layout.separable(ports):
            load = load_of(probe, measured, blockers, ports)
            busy = load.own >= BUSY * measured.cycles * len(ports)
            queued = busy and len(ports) * 2 <= probe.blocking.width
            counts += [load.ran] if queued and load.whole else []
            probe = conclude_bound(probe, measured, blockers, ports, load)
    least = probe.space.limit(ports)
    if sum(round(count) == least for count in counts) < 2:
        return probe
    return (yield from doubt(probe.answered(ports, Answer(least)), ports, blockers))


def _remembering(probe: PortProbe, answers: Mapping[PortSet, Answer]) -> PortProbe:
    """Return the probe with exact answers of earlier stages where there is none now, if some usage agrees with all.

    So many blocking instructions blur a count where counters are off, and say less than fewer of them did.
    """
    exact = {ports: answer for ports, answer in answers.items() if answer.exact}
    known = {ports: answer for ports, answer in probe.space.answers.items() if answer.exact}
    space = replace(probe.space, answers={**probe.space.answers, **exact, **known})
    remembering = replace(probe, space=space)
    return remembering if every_usage(space, conceivable_sets(remembering)).usages else probe


def check_load_alone(probe: PortProbe) -> Procedure[PortProbe]:
    """Name the usage beside those that fit, if it does not explain how the instruction loaded its ports alone.

    Needs a usage with ports that share a counter: blocking shows little of them. Excludes nothing, since µops that wait
    for each other load ports unevenly, too.
    """
    yield from ()
    usage, isolated, layout = _usage(probe), probe.space.isolated, probe.space.layout
    if not is_uneven(usage, isolated, layout):
        return probe
    even = [
        moved(usage, ports, one, count)
        for ports, count in usage.uops.items()
        for one in evenly_loaded(isolated, layout, layout.touching(ports))
        if count and one != ports
    ]
    fitting = [other for other in even if not is_uneven(other, isolated, layout)]
    probe = probe.settled([usage, *fitting])
    return probe if fitting else replace(probe, usage=None, failure=NoUsage(probe.blocking.sets(), probe.space.facts()))


LONG = range(MOST_SMALLER + 1, MOST_STEADY + 1)
"""Numbers of µops of long microcode whose usage can be found."""

TOLD = range(1, MOST_STEADY + 1)
"""Numbers of µops of instructions whose usage can be found."""

STAGES = (
    Stage("whole µops", When.UNDECIDED, check_sum, range(10**6)),
    Stage("bounds of long microcode", When.UNDECIDED, bound_long_microcode, range(MOST_STEADY + 1, MOST_UOPS + 1)),
    Stage("blocking of known sets", When.UNDECIDED, block_known_sets),
    Stage("all other usages", When.OPEN, exclude_all_others),
    Stage("the same again", When.UNDECIDED, ask_again),
    Stage("other usages", When.FOUND, exclude_others, TOLD),
    Stage("steady counts", When.UNDECIDED, count_steadily, range(FEW_UOPS + 1, MOST_UOPS + 1)),
    Stage("all other usages of steady counts", When.FOUND, exclude_all_others, LONG),
    Stage("all that is left", When.UNDECIDED, list_all),
    Stage("load alone", When.FOUND, check_load_alone, TOLD),
)
"""All stages, in the order in which they run."""


def _usage(probe: PortProbe) -> PortUsage:
    assert probe.usage is not None
    return probe.usage


def _with_unused(probe: PortProbe) -> PortProbe:
    """Return the probe that considers sets with ports that were not used in isolation, too."""
    used = probe.space.isolated.used(probe.space.layout)
    return probe.consider(ports for ports in probe.blocking.sets() if ports & used)
