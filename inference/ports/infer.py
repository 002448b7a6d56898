"""Port usage: how many µops of an instruction may use exactly which set of ports.

Algorithm 1 of Abel and Reineke (ASPLOS 2019, §5.1.2), asked in the order that needs the fewest measurements: isolation
bounds how many µops can be confined to each set, the usages that agree with it are listed, and only those sets are
blocked whose answer tells some of them apart. A usage is stated only if it is the only one left and passes the checks;
answers that contradict each other lead to more evidence, and then to a failure with its reason, never to a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from inference.ports.blocking_instructions import FEW_UOPS, SATURATED, Blockers, BlockingSet
from inference.ports.equalize import equalize_queues
from inference.ports.hypotheses import Answer, HypothesisSpace
from inference.ports.isolation import Isolated, is_integral, name_ports
from inference.ports.load_balance import evenly_loaded, is_uneven, likeliest, rebalanced
from inference.ports.probe import CLEAR, PortProbe, Subject
from inference.ports.shared_counters import with_other_port
from inference.ports.timing import consistent_with_time, has_the_time, is_slower
from results.model import PortUsage
from results.ports import PortSet, confined, describe, moved, pairs_of, throughput_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Procedure

STEADY = (150, 600, 720)
"""Blocking instructions for long microcode: about as many as wait, and more than any reorder buffer holds."""

MOST_STEADY = 40
"""Of more µops only bounds are found: a scheduler (60 entries on Haswell) holds them and blocking ones no more."""

MOST_RIVALS = 20
"""So many usages that cannot be told apart are still worth naming."""

MOST_NAMED = 12
"""Of more usages that cannot be told apart those with the fewest sets that nothing else has are named first."""

BUSY = Fraction(3, 4)
"""Blocking instructions that take this share of the ports' time did block them, though not to the end of a wait."""

MOST_UOPS = 100
"""Instructions of more µops are not taken apart: no blocking count outweighs them."""

MOST_SMALLER = 4
"""Of instructions of up to so many µops it is asked whether their sets are smaller than any that is known."""

MOST_SUBSET_PORTS = 6
"""Up to so many used ports, all their subsets are considered where no known set explains the answers."""


@dataclass(frozen=True, slots=True)
class PortConclusion:
    """The port usage, or why there is none; `answers` says for people what was asked and answered, a line each.

    `least` are the cycles that the µops take of which is known to which ports they are confined, whatever the usage.
    """

    usage: PortUsage | None
    failure: str = ""
    answers: str = ""
    experiments: tuple[str, ...] = ()
    least: Fraction = Fraction(0)


def infer_ports(subject: Subject, isolated: Isolated, blocking: BlockingSet) -> Procedure[PortConclusion]:
    """Infer the port usage of an instruction from what it does alone and among blocking instructions.

    Args:
        subject: makes the combinations.
        isolated: what one instruction did alone; none of its ports must have been blocked.
        blocking: the blocking instructions that go with this kind of code.
    """
    if not is_integral(isolated):
        total = float(sum(isolated.uops.values()))
        return PortConclusion(None, f"the µops per port add up to {total:.2f}, which is not an integer")
    if isolated.total == 0:
        return PortConclusion(PortUsage({}))
    if isolated.total > MOST_UOPS:
        return PortConclusion(None, f"{isolated.total} µops are too many to be told apart by blocking ports")
    used = isolated.used(blocking.layout)
    universe = tuple(
        dict.fromkeys([*(ports for ports in blocking.sets() if ports <= used), *_shown(isolated, blocking)])
    )
    askable = [ports for ports in blocking.sets() if ports & used]
    probe = PortProbe(
        subject, blocking, HypothesisSpace(blocking.layout, isolated, universe, width=blocking.width), askable
    )
    if isolated.total > MOST_STEADY:
        return (yield from _bounded(probe))
    usage = yield from _settle(probe)
    exclude = _exclude_smaller if isolated.total <= MOST_SMALLER else _exclude_parts
    if usage is not None:
        usage = yield from exclude(probe, usage)
    for more in (_closer, _again, _wider):
        if usage is not None or probe.rivals:
            break
        more(probe)
        usage = yield from _settle(probe)
        if usage is not None and (isolated.total > MOST_SMALLER or not isolated.separable(blocking.layout)):
            usage = yield from exclude(probe, usage)
    if usage is not None:
        usage = yield from _only(probe, usage)
    elif isolated.total > FEW_UOPS:
        usage = yield from _steady(probe)
    failure = "" if usage is not None else _failure(probe)
    exact = [Fraction(answer.count, len(ports)) for ports, answer in probe.space.answers.items() if answer.exact]
    least = max(exact, default=Fraction(0))
    return PortConclusion(usage, failure, "\n".join(probe.notes), tuple(probe.experiments), least)


def _bounded(probe: PortProbe) -> Procedure[PortConclusion]:
    """Find out how many µops of very long microcode are confined to each set at most.

    Its waiting µops fill the scheduler, blocked ports run dry, and what could go elsewhere goes there in every copy, so
    that no number is exact, however steady it is. A rival machine proves it (`benchmarks.rivals`).
    """
    space = probe.space
    used = space.isolated.used(space.layout)
    for ports in probe.blocking.sets():
        if ports & used and not used <= ports:
            yield from probe.ask(ports)
            space.answers[ports] = Answer(space.limit(ports), exact=False)
    bounds = [f"{answer.count} to {describe([ports])}" for ports, answer in space.answers.items()]
    failure = (
        f"{space.isolated.total} µops fill the scheduler, so that blocked ports run dry and no count is exact; "
        f"confined are at most {', '.join(bounds)}"
    )
    return PortConclusion(None, failure, "\n".join(probe.notes), tuple(probe.experiments))


def _shown(isolated: Isolated, blocking: BlockingSet) -> list[PortSet]:
    """Return the ports that an instruction of one µop was seen on, whether or not anything else can block them."""
    if isolated.total != 1:
        return []
    shown = name_ports(isolated, blocking.layout)
    pairs = [
        counted for counted in blocking.layout.counters.values() if len(counted) == 2 and len(counted & shown) == 1
    ]
    return [shown, *(with_other_port(shown, pair) for pair in pairs), *evenly_loaded(isolated, blocking.layout)]


def _settle(probe: PortProbe) -> Procedure[PortUsage | None]:
    """Ask until one usage is left and nothing that was not yet asked could contradict it; None if none is left."""
    space = probe.space
    while True:
        usages = space.hypotheses()
        question: PortSet | None
        if usages is None:
            question = space.next_in_order(probe.askable)
            usage = space.by_subtraction() if question is None else None
            usages = [usage] if usage is not None and space.agrees(usage) else []
        else:
            question = space.best_question(usages, probe.askable)
        if question is None:
            usages = likeliest(usages, tuple(probe.blocking.instructions), space.isolated, space.layout)
            if len(usages) != 1:
                return None
            question = _unverified(probe, usages[0])
            if question is None:
                return usages[0]
            yield from probe.ask(question)
            if not space.answers[question].allows(confined(usages[0], question)):
                _admit_unused(probe)
            continue
        yield from probe.ask(question)


def _unverified(probe: PortProbe, usage: PortUsage) -> PortSet | None:
    """Return a set of the usage whose µops could also use ports that isolation happened not to use; None if none.

    Nothing of the kind is possible where alone the instruction kept the set busy, or where its µops were spread over
    the set so that none of its ports took whole ones.
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
        if not _spread(space, ports):
            return ports
    return None


def _overlapping(probe: PortProbe, one: PortSet, other: PortSet) -> bool:
    """Whether some instruction can use ports of both sets, so that their µops could be of one larger set."""
    return any(ports & one and ports & other for ports in probe.blocking.instructions)


def _spread(space: HypothesisSpace, ports: PortSet) -> bool:
    """Whether isolation shows that µops on these ports went wherever they could."""
    isolated = space.isolated
    names = space.layout.touching(ports)
    loads = [isolated.uops[name] / len(space.layout.counters[name]) for name in names]
    if min(loads) >= SATURATED * isolated.cycles:
        return True
    return len(loads) > 1 and max(loads) < SATURATED and min(loads) * 2 >= max(loads)


def _admit_unused(probe: PortProbe) -> None:
    """Consider sets with ports that were not used in isolation."""
    used = probe.space.isolated.used(probe.space.layout)
    more = (ports for ports in probe.blocking.sets() if ports & used)
    probe.space.consider(more)


def _closer(probe: PortProbe) -> None:
    """Consider all sets of ports that were used, also those for which there is no blocking instruction."""
    space = probe.space
    used = space.isolated.used(space.layout)
    if len(used) <= MOST_SUBSET_PORTS and space.isolated.total <= MOST_SMALLER:
        parts = [frozenset(part) for size in range(1, len(used) + 1) for part in combinations(sorted(used), size)]
        space.consider(parts)
        probe.may_ask(_joined(probe))


def _again(probe: PortProbe) -> None:
    """Ask everything again, with twice as many blocking instructions and in the other order."""
    probe.space.reconsider()
    probe.factor, probe.reverse = 2, True
    _admit_unused(probe)


def _exclude_smaller(probe: PortProbe, usage: PortUsage) -> Procedure[PortUsage | None]:
    """Ask whether several µops of the same ports are really µops of different parts of these ports.

    2*p0156 and 1*p05+1*p16 look the same alone and need the same time; a set such as p05 that no instruction of one
    µop has is blocked by two instructions. Where no question tells them apart, the sets that are known to exist win.
    """
    space = probe.space
    if is_slower(usage, space):
        yield from probe.lengthen()
    sets = [ports for ports, count in usage.uops.items() if count]
    shown = usage.total == 1 and not is_slower(usage, space)
    if shown or usage.total > MOST_SMALLER or max(map(len, sets)) > MOST_SUBSET_PORTS:
        return usage
    parts = [
        frozenset(part) for ports in sets for size in range(1, len(ports)) for part in combinations(sorted(ports), size)
    ]
    space.consider(part for part in parts if space.limit(part))
    while True:
        found = space.hypotheses()
        needed = throughput_of(usage)
        usages = [other for other in found or [usage] if throughput_of(other) == needed]
        question = space.best_question(usages, [*probe.askable, *_joined(probe)])
        if question is None:
            return _explained(probe, usage, usages, found or [])
        yield from probe.ask(question)


def _exclude_parts(probe: PortProbe, usage: PortUsage) -> Procedure[PortUsage | None]:
    """Ask whether many µops of some ports are really µops of a part of them that only two instructions can block.

    Four µops of p05 are said to be of p015 where nothing else has p05. What isolation excludes is not asked about.
    """
    space = probe.space
    for ports in sorted(_joined(probe), key=lambda one: (len(one), sorted(one))):
        inside = any(count and ports < able for able, count in usage.uops.items())
        if not inside or ports in space.answers or space.limit(ports) <= confined(usage, ports):
            continue
        yield from probe.ask(ports)
        if not space.answers[ports].allows(confined(usage, ports)):
            space.consider([ports])
            probe.may_ask([ports])
            other = yield from _settle(probe)
            return other if other is None else (yield from _exclude_parts(probe, other))
    return usage


def _only(probe: PortProbe, usage: PortUsage) -> Procedure[PortUsage | None]:
    """Return the only usage that explains the answers, None if there are others (they are its rivals then).

    A set that carried more µops than are confined to it, where strays are not excluded, may as well be the set of them
    if other instructions have it: of a set that nothing else has, such a bound says too little (strays are frequent
    where two instructions block it) unless time says just that number, or all of several µops could be confined to it.
    And a set that nothing else has may only be what isolation has shown of a larger one.
    """
    space, known = probe.space, probe.blocking
    bounds = [ports for ports, answer in space.answers.items() if not answer.exact and (ports in known or answer.timed)]
    smaller = [
        moved(usage, able, ports, more)
        for ports in bounds
        for able, count in usage.uops.items()
        if ports < able
        for more in range(1, min(count, space.limit(ports) - confined(usage, ports)) + 1)
    ]
    smaller += [
        moved(usage, able, ports, count)
        for ports, answer in space.answers.items()
        for able, count in usage.uops.items()
        if not answer.exact and ports not in bounds and ports < able
        if 1 < count <= space.limit(ports) - confined(usage, ports)
    ]
    strange = [able for able, count in usage.uops.items() if count and able not in known]
    larger = [moved(usage, able, one, usage.uops[able]) for able in strange for one in known.sets() if able < one]
    fitting = [other for other in larger if not is_uneven(other, space.isolated, space.layout)]
    slower = consistent_with_time(usage, space) if usage.total > MOST_SMALLER else []
    rivals = [other for other in [*smaller, *fitting, *slower] if space.agrees(other)]
    return (yield from equalize_queues(probe, [usage, *rivals]))


def _explained(
    probe: PortProbe, usage: PortUsage, usages: Sequence[PortUsage], slower: Sequence[PortUsage]
) -> PortUsage | None:
    """Return the usage that explains best what the instruction did alone, None if that cannot be told.

    The one that was found stays unless it is odd. If nothing but ports can have limited the instruction and the usage
    is too fast for what was measured, another one with just that time is as good: they cannot be told apart.
    """
    space = probe.space
    odd = is_uneven(usage, space.isolated, space.layout)
    if odd and len(usages) == 1:
        other = rebalanced(usage, space.isolated, space.layout)
        usage, usages = (other, [other]) if space.agrees(other) else (usage, usages)
    if usage not in usages or odd:
        likely = likeliest(usages, tuple(probe.blocking.instructions), space.isolated, space.layout)
        if len(likely) != 1:
            return None
        usage = likely[0]
    if is_slower(usage, space):
        rivals = [other for other in slower if has_the_time(other, space)]
        probe.rivals = [usage, *rivals] if rivals else []
    return None if probe.rivals else usage


def _steady(probe: PortProbe) -> Procedure[PortUsage | None]:
    """Conclude from counts that do not change any more however many blocking instructions there are.

    Of long microcode with a long latency blocked ports run idle while it waits (the reorder buffer is full of blocking
    instructions that are done), but not when its µops are given their ports. What matters then is that the number of
    µops on the blocked ports stays the same, and that all answers together make a usage.
    """
    space = probe.space
    space.reconsider()
    used = space.isolated.used(space.layout)
    probe.reverse = True
    for ports in probe.blocking.sets():
        instruction = probe.blocking.instructions[ports]
        if not (ports & used and instruction.saturates):
            continue
        counts: list[Fraction] = []
        for count in STEADY:
            more = Blockers((instruction,), (count - count % len(ports),))
            measured = yield from probe.measure(more)
            if measured.ok and space.layout.separable(ports):
                load = probe.load(measured, more, ports)
                busy = load.own >= BUSY * measured.cycles * len(ports)
                queued = busy and len(ports) * 2 <= probe.blocking.width
                counts += [load.ran] if queued and abs(load.ran - round(load.ran)) <= CLEAR else []
                probe.conclude(measured, more, ports, Answer(min(space.limit(ports), load.most), exact=False))
        if sum(round(count) == space.limit(ports) for count in counts) > 1:
            space.answers[ports] = Answer(space.limit(ports))
            yield from probe.doubt(ports, more)
    fitting = space.by_subtractions([ports for ports in probe.blocking.sets() if ports <= used])
    return (yield from equalize_queues(probe, fitting if len(fitting) < MOST_RIVALS else []))


def _joined(probe: PortProbe) -> list[PortSet]:
    """Return the sets that can be blocked by two instructions."""
    layout = probe.space.layout
    used = probe.space.isolated.used(layout)
    both = ((one | other, one & other) for one, other in pairs_of(probe.blocking.sets()))
    return list(
        dict.fromkeys(ports for ports, twice in both if ports & used and (layout.separable(ports) or not twice))
    )


def _wider(probe: PortProbe) -> None:
    """Consider sets for which there is no blocking instruction, and block pairs of sets."""
    space = probe.space
    known = probe.blocking.sets()
    used = space.isolated.used(space.layout)
    if len(used) <= MOST_SUBSET_PORTS:
        more = [frozenset(part) for size in range(1, len(used) + 1) for part in combinations(sorted(used), size)]
    else:
        more = [made for one, other in pairs_of(known) for made in (one | other, one & other) if made and made & used]
    space.universe = tuple(dict.fromkeys([*(ports for ports in known if ports & used), *more]))
    probe.may_ask(_joined(probe))


def _failure(probe: PortProbe) -> str:
    """Say why no usage is stated."""
    space = probe.space
    left = probe.rivals or space.hypotheses()
    answers = space.explain()
    if left:
        likely = likeliest(left, tuple(probe.blocking.instructions), space.isolated, space.layout)
        named = sorted(map(str, left if len(left) <= MOST_NAMED else likely))[:MOST_NAMED]
        more = [f"{len(left) - len(named)} others"] if len(left) > len(named) else []
        return f"these port usages cannot be told apart: {' or '.join([*named, *more])} (answers: {answers})"
    if left is None:
        return f"so many port usages explain the answers that they cannot be listed: {answers or 'isolation alone'}"
    sets = describe(probe.blocking.sets())
    return f"no port usage made of {sets} explains the answers: {answers or 'isolation alone'}"
