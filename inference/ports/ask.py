"""Port probes: block a set of ports, and count the µops of an instruction that still run on it.

The count, minus the µops of the blocking instructions, is exact only if every µop that could run elsewhere did. So each
measurement is checked:

- Was the set never idle?
- Is the whole set the bottleneck, and not a part of it?
- If the count follows from time alone: is it the same with more blocking instructions?
- Do µops of this core avoid busy ports at all?

If a check fails, the count is an upper bound.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from inference.experiment import Procedure, Request, Want
from inference.ports.blocking_instructions import FEW_UOPS, MOST_BLOCKERS, Blockers
from inference.ports.load import CLEAR, IDLE, Load, load_beside, load_of
from inference.ports.usages.bounds import Observation
from inference.ports.usages.hypotheses import Answer
from results.findings import Blocked, LongerSequence, PortAnswer, PortControl
from results.ports import PortSet, confined, joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from inference.experiment import Measured
    from inference.ports.blocking_instructions import BlockingInstruction
    from inference.ports.probe import PortProbe

MOST_DOUBLED = 3
"""Doublings of the blocking instructions, at most, until an answer repeats: 8 times as many fill any reorder buffer."""

MORE_WAITING = Fraction(3, 2)
"""Factor: a control has this many times the µops that could stray. An instruction also waits for its own results, and
a control does not. Half as many again fill the scheduler as much."""

MOST_FOCUSED = 6
"""Further measurements of a probe where counters or the clock are off: together they halve the error."""

MOST_ROUNDS = 4
"""Rounds of these measurements: four halve the error once more, and most counts are clear after one."""

FOCUSED_STEPS = Fraction(1, 8)
"""Share of the blocking instructions that each further measurement adds: the last one has less than twice as many."""

MOST_MISSING = Fraction(1, 2)
"""µops per copy by which the sum over all ports may be off: a count that is off by a µop shows in it."""


def lengthened(probe: PortProbe) -> Procedure[PortProbe]:
    """Measure more instances alone: then none waits for the result of an instance in the copy before."""
    request = Request(probe.subject.more(), Want.ALL)
    (measured,) = yield [request]
    if not measured.ok:
        return probe
    count = request.benchmark.divisor
    isolated, cycles = probe.space.isolated, measured.cycles_each
    if cycles >= isolated.cycles:
        return probe.noted(request.benchmark.id)
    probe = replace(probe, space=replace(probe.space, isolated=replace(isolated, cycles=cycles)))
    return probe.noted(request.benchmark.id, LongerSequence(count, cycles))


def ask(probe: PortProbe, ports: PortSet) -> Procedure[PortProbe]:
    """Block a set and learn how many µops are confined to it; again with more if they did not block it."""
    if probe.chain is None:
        probe, alone = yield from measure(probe, Blockers((), ()))
        probe = replace(probe, chain=alone.cycles if alone.ok else probe.space.isolated.cycles)
    for blockers in probe.choices(ports):
        probe = yield from _ask_with(probe, ports, blockers)
        if probe.space.answers[ports].exact:
            break
    return probe


def _ask_with(probe: PortProbe, ports: PortSet, blockers: Blockers) -> Procedure[PortProbe]:
    """Ask with these blocking instructions, and again with more if they did not block the set."""
    try:
        probe, measured = yield from _learn(probe, ports, blockers)
    except GenerationError:
        return probe.unanswered(ports)
    answer = probe.space.answers[ports]
    if not measured.ok or answer == Answer(0) or not all(one.saturates for one in blockers.instructions):
        return probe
    if not answer.exact:
        probe, blockers = yield from _ask_for_longer(probe, ports, blockers.filling(measured.cycles))
    few = min(FEW_UOPS, probe.blocking.scheduling.holds)
    if not probe.space.layout.separable(ports) or probe.space.isolated.total > few:
        probe = yield from _confirm(probe, ports, blockers)
    return (yield from doubt(probe, ports, blockers if probe.blocking.accuracy.by_chance else blockers.doubled()))


def doubt(probe: PortProbe, ports: PortSet, blockers: Blockers) -> Procedure[PortProbe]:
    """Turn an answer into a bound if µops that are not confined to the set may stray onto it.

    Long microcode queues up on the other ports, and so do a few µops in a small scheduler. Once as many µops wait there
    as on the blocked ones, the rest goes to the blocked ones, in every copy. More blocking instructions do not help,
    since a scheduler holds no more. A control shows it: µops of a known set that is only partly blocked take the place
    of the instruction.
    """
    answer = probe.space.answers[ports]
    waiting = probe.space.isolated.total - answer.count
    if not answer.exact or not answer.count or ceil(waiting * MORE_WAITING) <= probe.blocking.scheduling.holds:
        return probe
    if ports not in probe.strays:
        probe, stray = yield from _control(probe, ports, blockers, waiting)
        probe = replace(probe, strays={**probe.strays, ports: stray})
    return probe.answered(ports, Answer(answer.count, exact=False)) if probe.strays[ports] else probe


def _control(probe: PortProbe, ports: PortSet, blockers: Blockers, waiting: int) -> Procedure[tuple[PortProbe, bool]]:
    """Return whether µops of a set with ports elsewhere run on a set that is blocked.

    There are `MORE_WAITING` times as many as `waiting` ones of the instruction may have that set.
    """
    other, count = _likeliest_stray(probe, ports, waiting)
    if other is None:
        return probe, False
    blockers = blockers.balanced([0] * len(blockers.instructions))
    loads: list[Load] = []
    for cycles in ([0], *(more for more, turned in _turned() if not turned)):
        try:
            several = [blockers.longer(more) for more in cycles]
            requests = [Request(probe.subject.control(more, other, count), Want.PORTS) for more in several]
        except GenerationError:
            break
        for more, measured in zip(several, (yield requests), strict=True):
            if measured.ok:
                loads.append(load_beside(measured, more.usage, ports, probe.blocking))
                step = PortControl(Blocked(count, other.variant.string), ports, loads[-1].count)
                probe = probe.noted(measured.request.benchmark.id, step)
        if not loads:
            break
        load = loads[0].focused(loads[1:])
        if not _may_stray(load) or load.mean_error is None or load.error <= CLEAR:
            break
    return probe, bool(loads) and _may_stray(load)


def _may_stray(load: Load) -> bool:
    """Whether a control may have had a µop on the blocked set in every copy."""
    return load.count >= 1 - CLEAR - load.error


def _likeliest_stray(probe: PortProbe, ports: PortSet, waiting: int) -> tuple[BlockingInstruction | None, int]:
    """Return the instruction whose µops stray most if a set is blocked, and how many (None: no known set can stray).

    Its set has ports in the blocked one and outside. It makes the longest queues outside, by the number of µops that
    can have it. Of equals it has most ports in the blocked set: the shortest queue of more ports is shorter.
    """
    best: tuple[Fraction, int, list[str]] | None = None
    chosen: tuple[BlockingInstruction | None, int] = None, 0
    for one in probe.blocking.instructions.values():
        outside, inside = one.ports - ports, one.ports & ports
        possible = min(waiting, probe.space.limit(one.ports))
        if one.usage.total > 1 or not (outside and inside and possible):
            continue
        rank = Fraction(possible, len(outside)), len(inside), sorted(one.ports)
        if best is None or rank > best:
            best, chosen = rank, (one, ceil(possible * MORE_WAITING))
    return chosen


def _ask_for_longer(probe: PortProbe, ports: PortSet, blockers: Blockers) -> Procedure[tuple[PortProbe, Blockers]]:
    """Ask with more blocking instructions, balanced by the µops that are confined to the ports of each."""
    for one in blockers.instructions if ports not in probe.blocking else ():
        if one.ports not in probe.space.answers:
            probe = yield from ask(probe, one.ports)
    more = probe.balanced(blockers)
    probe, _ = yield from _learn(probe, ports, more)
    if not probe.space.answers[ports].exact and not probe.space.layout.separable(ports):
        more = probe.balanced(more.doubled())  # in a longer queue, its ends are a smaller share of the time
        probe, _ = yield from _learn(probe, ports, more)
    return probe, more


def _confirm(probe: PortProbe, ports: PortSet, blockers: Blockers) -> Procedure[PortProbe]:
    """Ask with twice as many blocking instructions until the same answer comes twice; else it is a bound.

    Two things can look like a count. The time may include idle cycles, by chance a whole number. And a µop of long
    microcode may stray in every copy, because the reorder buffer was full and blocking instructions came late. Counters
    whose errors are by chance count half as many more: of twice as many, they would be off by twice as much.
    """
    by_chance = probe.blocking.accuracy.by_chance and probe.space.layout.separable(ports)
    for number in range(MOST_DOUBLED):
        before = probe.space.answers[ports]
        longer = blockers.longer(ceil(_cycles(blockers) / 2))
        more = probe.balanced(longer if by_chance and max(longer.counts) <= MOST_BLOCKERS else blockers.doubled())
        if more.counts == blockers.counts and number:
            break
        if more.counts == blockers.counts or not before.exact:
            return probe
        probe, measured = yield from _learn(probe, ports, more)
        if not measured.ok:
            return probe
        if probe.space.answers[ports] == before:
            return probe
        blockers = more
    return probe.answered(ports, Answer(probe.space.answers[ports].count, exact=False))


def measure(probe: PortProbe, blockers: Blockers) -> Procedure[tuple[PortProbe, Measured]]:
    """Measure the instruction among blocking instructions."""
    request = Request(probe.subject.combined(blockers, reverse=probe.reverse), Want.PORTS)
    (measured,) = yield [request]
    return probe.noted(request.benchmark.id), measured


def _learn(probe: PortProbe, ports: PortSet, blockers: Blockers) -> Procedure[tuple[PortProbe, Measured]]:
    """Measure with these blocking instructions, and conclude from it.

    Raises:
        GenerationError: there are not enough registers.
    """
    probe, measured = yield from measure(probe, blockers)
    if not measured.ok or not _adds_up(probe, measured, blockers):
        return probe.unanswered(ports), measured
    load = load_of(probe, measured, blockers, ports)
    if (
        load.blurred
        and load.count + load.error >= -CLEAR
        and load.count - load.error <= probe.space.limit(ports) + CLEAR
    ):
        probe, load = yield from _focus(probe, ports, blockers, load)
    return _take_in(probe, measured, blockers, ports, load), measured


def _focus(probe: PortProbe, ports: PortSet, blockers: Blockers, load: Load) -> Procedure[tuple[PortProbe, Load]]:
    """Measure with other numbers of blocking instructions, where counters or the clock are off, until that decides."""
    others: list[Load] = []
    focused = load
    for cycles, turned in _turned() if load.mean_error is not None else _between(blockers):
        several = [blockers.longer(more) for more in cycles]
        several = [more for more in several if max(more.counts) <= MOST_BLOCKERS]
        reverse = probe.reverse is not turned
        requests = [Request(probe.subject.combined(more, reverse=reverse), Want.PORTS) for more in several]
        for more, measured in zip(several, (yield requests), strict=True):
            probe = probe.noted(measured.request.benchmark.id)
            if measured.ok and _adds_up(probe, measured, more):
                one = load_of(probe, measured, more, ports)
                others.append(one)
                probe = conclude_bound(probe, measured, more, ports, one)
        focused = load.focused(others)
        if not focused.blurred:
            break
    return probe, focused


def _between(blockers: Blockers) -> Iterator[tuple[list[int], bool]]:
    """Yield, for each round, by how many cycles the blocking instructions last longer, and whether in the other order.

    Numbers are far apart, so that they show a drift. Each round has numbers between those of the rounds before.
    """
    step = max(1, floor(_cycles(blockers) * FOCUSED_STEPS))
    for shift in range(min(step, MOST_ROUNDS)):
        yield [step * number - shift for number in range(1, MOST_FOCUSED + 1)], False


def _turned() -> Iterator[tuple[list[int], bool]]:
    """Yield the same where each microbenchmark has an error of its own: few further ones, and both orders of each."""
    for first in range(1, MOST_FOCUSED * MOST_ROUNDS, MOST_FOCUSED):
        for turned in (False, True):
            yield [*range(first, first + MOST_FOCUSED)], turned


def _cycles(blockers: Blockers) -> Fraction:
    """Return for how many cycles blocking instructions keep their ports busy, at least."""
    return min(Fraction(count, len(one.ports)) for one, count in blockers.each())


def _take_in(probe: PortProbe, measured: Measured, blockers: Blockers, ports: PortSet, load: Load) -> PortProbe:
    """Conclude from a combination how many µops ran on the set besides those of the blocking instructions.

    The number is exact if it is near an integer and the set was never idle. Else other µops may have strayed onto it.
    If ports outside share its counters, the time says how many µops the set has run. That needs many more µops issued
    per cycle than the set can take.
    """
    space = probe.space
    limit = space.limit(ports)
    if load.ran < -CLEAR - load.error:  # the blocking instructions ran elsewhere
        return probe.unanswered(ports)
    spare = probe.blocking.width - len(ports)
    queued = spare > 0 and (load.separable or _outlasts_issue(probe, measured, blockers))
    # Ports that two instructions have in common may be busy unevenly. Time counts only if there are none
    even = load.separable or sum(len(one.ports) for one in blockers.instructions) == len(ports)
    keeps_away = probe.blocking.scheduling.keeps_away and even
    nearest = max(0, round(load.count))
    cycles = (load.own + load.time) / len(ports) if load.chance else measured.cycles
    clear = load.busy and load.whole and _whole(probe, cycles, blockers, nearest, ports)
    if nearest > limit:
        answer = Answer(limit, exact=False)
    elif queued and clear and (nearest == 0 or keeps_away):
        answer = Answer(nearest)
    else:
        answer = Answer(min(limit, load.most), exact=False, timed=clear and spare == 1)
    return _conclude(probe, measured, blockers, ports, answer, load)


def _outlasts_issue(probe: PortProbe, measured: Measured, blockers: Blockers) -> bool:
    """Whether a copy takes longer than its issue, so that µops queue up. Else issue may have set the time.

    The issue width is a lower bound, so the time of issue that follows is an upper bound.
    """
    alone = max(probe.space.isolated.issued, Fraction(probe.space.isolated.total))
    issued = blockers.usage.total + probe.subject.extra.total + alone
    return measured.cycles - IDLE >= issued / probe.blocking.width


def look(probe: PortProbe, ports: PortSet) -> Procedure[PortProbe]:
    """Block a set once, to see what runs on other ports meanwhile; the answer about the set itself is a bound."""
    blockers = probe.choices(ports)[0]
    try:
        probe, measured = yield from measure(probe, blockers)
    except GenerationError:
        return probe
    load = load_of(probe, measured, blockers, ports) if measured.ok else None
    if load is None or load.ran < -CLEAR - load.error or not _adds_up(probe, measured, blockers):
        return probe
    return conclude_bound(probe, measured, blockers, ports, load)


def _adds_up(probe: PortProbe, measured: Measured, blockers: Blockers) -> bool:
    """Whether all ports together ran as many µops as they were given. If not, counters are off by whole µops."""
    layout = probe.space.layout
    given = blockers.usage.total + probe.subject.extra.total + probe.space.isolated.total
    off = given * probe.blocking.accuracy.counts
    return abs(layout.on(layout.ports, measured.values) - given) <= MOST_MISSING + off


def conclude_bound(probe: PortProbe, measured: Measured, blockers: Blockers, ports: PortSet, load: Load) -> PortProbe:
    """Add how many µops are confined to a set at most, from what ran there: others may have run there, too."""
    most = Answer(min(probe.space.limit(ports), load.most), exact=False)
    return _conclude(probe, measured, blockers, ports, most, load)


def _conclude(
    probe: PortProbe, measured: Measured, blockers: Blockers, ports: PortSet, answer: Answer, load: Load
) -> PortProbe:
    """Add the answer about a set, what all ports ran, and the step; several measurements may give the `load`."""
    usage = joined(blockers.usage, probe.subject.extra)
    step = _step(blockers, ports, load, answer)
    observation = Observation(ports, measured.values, usage, probe.blocking.accuracy.counts)
    space = probe.space.observe(observation, answer)
    return replace(probe, space=space, steps=(*probe.steps, step))


def _whole(probe: PortProbe, cycles: Fraction, blockers: Blockers, count: int, ports: PortSet) -> bool:
    """Whether all of the set was blocked. If only a part was, other µops could fill the rest.

    Of two instructions that block a set together, one may be the bottleneck. Then the ports of the other one have time
    left, and only strays keep them busy. There were no strays if no more µops ran there than are known to be confined
    to the parts.
    """
    if count == 0 or len(blockers.instructions) == 1:
        return True
    space, usage = probe.space, joined(blockers.usage, probe.subject.extra)
    parts = [one.ports for one in blockers.instructions]
    if count == sum(map(probe.known, parts)) - space.limit(parts[0] & parts[1]):
        return True
    needed = max(Fraction(confined(usage, part) + space.limit(part), len(part)) for part in parts)
    return (cycles - needed) * len(ports) > 1 - CLEAR


def _step(blockers: Blockers, ports: PortSet, load: Load, answer: Answer) -> PortAnswer:
    """Return which instructions kept the ports busy, and the numbers that give the answer."""
    blocking = confined(blockers.usage, ports)
    return PortAnswer(
        ports,
        tuple(Blocked(count, one.variant.string) for one, count in blockers.each()),
        load.count + load.own,
        blocking,
        max(0, load.own - blocking),
        timed=not load.separable,
        most=None if answer.exact else answer.count,
        in_turns=blockers.in_turns,
    )
