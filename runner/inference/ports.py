"""Port usage: how many µops of an instruction may use exactly which set of ports.

Algorithm 1 of Abel and Reineke (ASPLOS 2019, §5.1.2), asked in the order that needs the fewest measurements: isolation
bounds how many µops can be confined to each set, the usages that agree with it are listed, and only those sets are
blocked whose answer tells some of them apart. A usage is stated only if it is the only one left and passes the checks;
answers that contradict each other lead to more evidence, and then to a failure with its reason, never to a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import ceil, floor
from typing import TYPE_CHECKING, Protocol

from generator.errors import GenerationError
from results.model import PortUsage
from runner.experiment import Procedure, Request, Want
from runner.inference.blocking import (
    FEW_UOPS,
    SATURATED,
    Blockers,
    BlockingSet,
    Pace,
    blockers_for,
    is_integral,
    name_ports,
)
from runner.inference.hypotheses import Answer, Isolated, Observation, Space
from runner.inference.naming import swapped
from runner.inference.portsets import PortSet, confined, describe, joined, pairs_of, throughput_of
from runner.inference.spread import evened, evenly_loaded, is_first, is_odd, likeliest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.microbenchmark import Microbenchmark
    from runner.experiment import Measured

CLEAR = Fraction(1, 5)
"""A count within this of an integer is exact; else it bounds from above."""

IDLE = Fraction(1, 2)
"""A blocked set was kept busy if its ports were idle for no more than so many cycles per instruction under test."""

STEADY = (150, 600, 720)
"""Blocking instructions for long microcode: about as many as wait, and more than any reorder buffer holds."""

MOST_STEADY = 40
"""µops up to which these help: a scheduler (60 entries on Haswell) has to hold them and blocking ones besides."""

PAIR = 2
"""So few µops go elsewhere even if only one more µop is issued per cycle than the blocked ports can take."""

TOO_FAST = Fraction(4, 5)
"""Ports do not explain why an instruction took so long if they need no more than this share of the time."""

MOST_RIVALS = 20
"""So many usages that cannot be told apart are still worth naming."""

BUSY = Fraction(3, 4)
"""Blocking instructions that take this share of the ports' time did block them, though not to the end of a wait."""

MOST_UOPS = 100
"""Instructions of more µops are not taken apart: no blocking count outweighs them."""

MOST_SMALLER = 4
"""Of instructions of up to so many µops it is asked whether their sets are smaller than any that is known."""

MOST_SUBSET_PORTS = 6
"""Up to so many used ports, all their subsets are considered where no known set explains the answers."""


class Subject(Protocol):
    """An instruction under test that can be combined with blocking instructions."""

    @property
    def extra(self) -> PortUsage:
        """The µops of further instructions that stand beside the instance, such as dependency breakers."""

    def combined(self, blockers: Blockers, *, reverse: bool = False) -> Microbenchmark:
        """Return one instance among blocking instructions with which it shares nothing (`reverse`: it comes first)."""


@dataclass(frozen=True, slots=True)
class PortConclusion:
    """The port usage, or why there is none; `answers` says for people what was asked and answered."""

    usage: PortUsage | None
    failure: str = ""
    answers: str = ""
    experiments: tuple[str, ...] = ()


@dataclass
class _Inquiry:
    """The state of one inference: what is known, and what was measured for it."""

    subject: Subject
    blocking: BlockingSet
    space: Space
    askable: list[PortSet]
    factor: int = 1
    reverse: bool = False
    chain: Fraction | None = None
    experiments: list[str] = field(default_factory=list)
    rivals: list[PortUsage] = field(default_factory=list)

    def blockers(self, ports: PortSet) -> Blockers:
        """Return blocking instructions for a set, or for two whose union it is."""
        known = self.blocking.instructions
        if ports in known:
            chosen = [known[ports]]
        else:
            pairs = (pair for pair in pairs_of(self.blocking.sets()) if pair[0] | pair[1] == ports)
            chosen = [known[part] for part in min(pairs, key=lambda pair: len(pair[0] & pair[1]))]
        pace = Pace(self.chain or Fraction(0), self.blocking.width)
        return blockers_for(chosen, self.space.isolated, pace, self.factor)

    def ask(self, ports: PortSet) -> Procedure[None]:
        """Block a set and learn how many µops are confined to it; again with more if they did not block it."""
        if self.chain is None:
            alone = yield from self.measure(Blockers((), ()))
            self.chain = alone.cycles if alone.ok else self.space.isolated.cycles
        blockers = self.blockers(ports)
        try:
            measured = yield from self.measure(blockers)
        except GenerationError:
            self.space.answers[ports] = Answer(self.space.limit(ports), exact=False)
            return
        self._learn(measured, blockers, ports)
        if measured.ok and not self.space.answers[ports].exact and all(one.saturates for one in blockers.instructions):
            more = blockers.filling(measured.cycles)
            if more.counts != blockers.counts:
                measured = yield from self.measure(more)
                self._learn(measured, more, ports)

    def measure(self, blockers: Blockers) -> Procedure[Measured]:
        """Measure the instruction among blocking instructions."""
        request = Request(self.subject.combined(blockers, reverse=self.reverse), Want.PORTS)
        (measured,) = yield [request]
        self.experiments.append(request.benchmark.id)
        return measured

    def _learn(self, measured: Measured, blockers: Blockers, ports: PortSet) -> None:
        """Take in what a combination has shown: how many µops ran on the set besides the blockers' own.

        The number is exact if it is near an integer and the set was never idle; else other µops may have strayed onto
        it. Where counters cannot tell the ports of the set from others, the time says how many µops it has run, if
        many more are issued per cycle than the set can take.
        """
        space = self.space
        if not measured.ok:
            space.answers[ports] = Answer(space.limit(ports), exact=False)
            return
        usage = joined(blockers.usage, self.subject.extra)
        own = confined(usage, ports)
        time = measured.cycles * len(ports) - own
        separable = space.layout.separable(ports)
        count = space.layout.on(ports, measured.values) - own if separable else time
        # As wide as the core issues nothing queues up, and the time counts what is issued, wherever it runs
        spare = self.blocking.width - len(ports)
        queued = separable or spare > 1 or (spare == 1 and space.isolated.total <= PAIR)
        nearest = max(0, round(count))
        if nearest > space.limit(ports):
            answer = Answer(space.limit(ports), exact=False)
        elif queued and abs(count - nearest) <= CLEAR and time - count <= IDLE:
            answer = Answer(nearest)
        else:
            # A time is off where the window does not hold whole periods, so as a bound it is rounded up
            most = floor(count + CLEAR) if separable else ceil(count - CLEAR)
            answer = Answer(max(0, min(space.limit(ports), most)), exact=False)
        space.observe(Observation(ports, measured.values, usage), answer)


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
    inquiry = _Inquiry(subject, blocking, Space(blocking.layout, isolated, universe), askable)
    usage = yield from _settle(inquiry)
    if usage is not None:
        usage = yield from _exclude_smaller(inquiry, usage)
    for more in (_closer, _again, _wider):
        if usage is not None or inquiry.rivals:
            break
        more(inquiry)
        usage = yield from _settle(inquiry)
        if usage is not None and not isolated.separable(blocking.layout):
            usage = yield from _exclude_smaller(inquiry, usage)
    if usage is None and FEW_UOPS < isolated.total <= MOST_STEADY:
        usage = yield from _steady(inquiry)
    failure = "" if usage is not None else _failure(inquiry)
    return PortConclusion(usage, failure, inquiry.space.explain(), tuple(inquiry.experiments))


def _shown(isolated: Isolated, blocking: BlockingSet) -> list[PortSet]:
    """Return the ports that an instruction of one µop was seen on, whether or not anything else can block them."""
    if isolated.total != 1:
        return []
    shown = name_ports(isolated, blocking.layout)
    pairs = [
        counted for counted in blocking.layout.counters.values() if len(counted) == 2 and len(counted & shown) == 1
    ]
    return [shown, *(swapped(shown, pair) for pair in pairs), *evenly_loaded(isolated, blocking.layout)]


def _settle(inquiry: _Inquiry) -> Procedure[PortUsage | None]:
    """Ask until one usage is left and nothing that was not yet asked could contradict it; None if none is left."""
    space = inquiry.space
    while True:
        usages = space.hypotheses()
        question: PortSet | None
        if usages is None:
            question = space.next_in_order(inquiry.askable)
            usage = space.by_subtraction() if question is None else None
            usages = [usage] if usage is not None and space.agrees(usage) else []
        else:
            question = space.best_question(usages, inquiry.askable)
        if question is None:
            usages = likeliest(usages, tuple(inquiry.blocking.instructions), space.isolated, space.layout)
            if len(usages) != 1:
                return None
            question = _unverified(inquiry, usages[0])
            if question is None:
                return usages[0]
            yield from inquiry.ask(question)
            if not space.answers[question].allows(confined(usages[0], question)):
                _admit_unused(inquiry)
            continue
        yield from inquiry.ask(question)


def _unverified(inquiry: _Inquiry, usage: PortUsage) -> PortSet | None:
    """Return a set of the usage whose µops could also use ports that isolation happened not to use; None if none.

    Nothing of the kind is possible where alone the instruction kept the set busy, or where its µops were spread over
    the set so that none of its ports took whole ones.
    """
    space = inquiry.space
    used = space.isolated.used(space.layout)
    sets = [ports for ports, count in usage.uops.items() if count]
    for ports in sorted(sets, key=lambda one: (len(one), sorted(one))):
        if ports in space.answers or ports not in inquiry.askable:
            continue
        if any(_overlapping(inquiry, ports, other) for other in sets if other != ports):
            return ports
        if not any(ports < other and not other <= used for other in inquiry.blocking.instructions):
            continue
        if not _spread(space, ports):
            return ports
    return None


def _overlapping(inquiry: _Inquiry, one: PortSet, other: PortSet) -> bool:
    """Whether some instruction can use ports of both sets, so that their µops could be of one larger set."""
    return any(ports & one and ports & other for ports in inquiry.blocking.instructions)


def _spread(space: Space, ports: PortSet) -> bool:
    """Whether isolation shows that µops on these ports went wherever they could."""
    isolated = space.isolated
    names = space.layout.touching(ports)
    loads = [isolated.uops[name] / len(space.layout.counters[name]) for name in names]
    if min(loads) >= SATURATED * isolated.cycles:
        return True
    return len(loads) > 1 and max(loads) < SATURATED and min(loads) * 2 >= max(loads)


def _admit_unused(inquiry: _Inquiry) -> None:
    """Consider sets with ports that were not used in isolation."""
    used = inquiry.space.isolated.used(inquiry.space.layout)
    more = (ports for ports in inquiry.blocking.sets() if ports & used)
    inquiry.space.universe = tuple(dict.fromkeys([*inquiry.space.universe, *more]))


def _closer(inquiry: _Inquiry) -> None:
    """Consider all sets of ports that were used, also those for which there is no blocking instruction."""
    space = inquiry.space
    used = space.isolated.used(space.layout)
    if len(used) <= MOST_SUBSET_PORTS and space.isolated.total <= MOST_SMALLER:
        parts = [frozenset(part) for size in range(1, len(used) + 1) for part in combinations(sorted(used), size)]
        space.universe = tuple(dict.fromkeys([*space.universe, *parts]))
        inquiry.askable = list(dict.fromkeys([*inquiry.askable, *_joined(inquiry)]))


def _again(inquiry: _Inquiry) -> None:
    """Ask everything again, with twice as many blocking instructions and in the other order."""
    inquiry.space.reconsider()
    inquiry.factor, inquiry.reverse = 2, True
    _admit_unused(inquiry)


def _exclude_smaller(inquiry: _Inquiry, usage: PortUsage) -> Procedure[PortUsage | None]:
    """Ask whether several µops of the same ports are really µops of different parts of these ports.

    2*p0156 and 1*p05+1*p16 look the same alone and need the same time; a set such as p05 that no instruction of one
    µop has is blocked by two instructions. Where no question tells them apart, the sets that are known to exist win.
    """
    space = inquiry.space
    sets = [ports for ports, count in usage.uops.items() if count]
    if not 2 <= usage.total <= MOST_SMALLER or max(map(len, sets)) > MOST_SUBSET_PORTS:
        return usage
    parts = [
        frozenset(part) for ports in sets for size in range(1, len(ports)) for part in combinations(sorted(ports), size)
    ]
    space.universe = tuple(dict.fromkeys([*space.universe, *(part for part in parts if space.limit(part))]))
    while True:
        found = space.hypotheses()
        needed = throughput_of(usage)
        usages = [other for other in found or [usage] if throughput_of(other) == needed]
        question = space.best_question(usages, [*inquiry.askable, *_joined(inquiry)])
        if question is None:
            return _explained(inquiry, usage, usages, found or [])
        yield from inquiry.ask(question)


def _explained(
    inquiry: _Inquiry, usage: PortUsage, usages: Sequence[PortUsage], slower: Sequence[PortUsage]
) -> PortUsage | None:
    """Return the usage that explains best what the instruction did alone, None if that cannot be told.

    The one that was found stays unless it is odd. If nothing but ports can have limited the instruction and the usage
    is too fast for what was measured, another one with just that time is as good: they cannot be told apart.
    """
    space = inquiry.space
    odd = not space.isolated.separable(space.layout) and is_odd(usage, space.isolated, space.layout)
    if odd and len(usages) == 1:
        other = evened(usage, space.isolated, space.layout)
        usage, usages = (other, [other]) if space.agrees(other) else (usage, usages)
    if usage not in usages or odd:
        likely = likeliest(usages, tuple(inquiry.blocking.instructions), space.isolated, space.layout)
        if len(likely) != 1:
            return None
        usage = likely[0]
    if space.isolated.free and throughput_of(usage) < space.isolated.cycles * TOO_FAST:
        rivals = [other for other in slower if _has_the_time(other, space)]
        inquiry.rivals = [usage, *rivals] if rivals else []
    return None if inquiry.rivals else usage


def _has_the_time(usage: PortUsage, space: Space) -> bool:
    """Whether a usage is spread as in isolation and needs just the time that was measured."""
    off = abs(throughput_of(usage) - space.isolated.cycles) > space.isolated.cycles / 50
    return not (off or is_odd(usage, space.isolated, space.layout) or not is_first(usage, space.layout))


def _steady(inquiry: _Inquiry) -> Procedure[PortUsage | None]:
    """Conclude from counts that do not change any more however many blocking instructions there are.

    Of long microcode with a long latency blocked ports run idle while it waits (the reorder buffer is full of blocking
    instructions that are done), but not when its µops are given their ports. What matters then is that the number of
    µops on the blocked ports stays the same, and that all answers together make a usage.
    """
    space = inquiry.space
    space.reconsider()
    used = space.isolated.used(space.layout)
    inquiry.reverse = True
    for ports in inquiry.blocking.sets():
        instruction = inquiry.blocking.instructions[ports]
        if not (ports & used and instruction.saturates):
            continue
        counts: list[Fraction] = []
        for count in STEADY:
            more = Blockers((instruction,), (count - count % len(ports),))
            measured = yield from inquiry.measure(more)
            if measured.ok and space.layout.separable(ports):
                usage = joined(more.usage, inquiry.subject.extra)
                ran = space.layout.on(ports, measured.values) - confined(usage, ports)
                busy = confined(usage, ports) >= BUSY * measured.cycles * len(ports)
                queued = busy and len(ports) * 2 <= inquiry.blocking.width
                counts += [ran] if queued and abs(ran - round(ran)) <= CLEAR else []
                most = max(0, min(space.limit(ports), floor(ran + CLEAR)))
                space.observe(Observation(ports, measured.values, usage), Answer(most, exact=False))
        if sum(round(count) == space.limit(ports) for count in counts) > 1:
            space.answers[ports] = Answer(space.limit(ports))
    fitting = space.by_subtractions([ports for ports in inquiry.blocking.sets() if ports <= used])
    inquiry.rivals = fitting if 1 < len(fitting) < MOST_RIVALS else []
    return fitting[0] if len(fitting) == 1 else None


def _joined(inquiry: _Inquiry) -> list[PortSet]:
    """Return the sets that can be blocked by two instructions."""
    layout = inquiry.space.layout
    used = inquiry.space.isolated.used(layout)
    both = ((one | other, one & other) for one, other in pairs_of(inquiry.blocking.sets()))
    return list(
        dict.fromkeys(ports for ports, twice in both if ports & used and (layout.separable(ports) or not twice))
    )


def _wider(inquiry: _Inquiry) -> None:
    """Consider sets for which there is no blocking instruction, and block pairs of sets."""
    space = inquiry.space
    known = inquiry.blocking.sets()
    used = space.isolated.used(space.layout)
    if len(used) <= MOST_SUBSET_PORTS:
        more = [frozenset(part) for size in range(1, len(used) + 1) for part in combinations(sorted(used), size)]
    else:
        more = [made for one, other in pairs_of(known) for made in (one | other, one & other) if made and made & used]
    space.universe = tuple(dict.fromkeys([*(ports for ports in known if ports & used), *more]))
    inquiry.askable = list(dict.fromkeys([*inquiry.askable, *_joined(inquiry)]))


def _failure(inquiry: _Inquiry) -> str:
    """Say why no usage is stated."""
    left = inquiry.rivals or inquiry.space.hypotheses()
    answers = inquiry.space.explain()
    if left:
        names = " or ".join(sorted(str(usage) for usage in left)[:4])
        return f"these port usages cannot be told apart: {names} (answers: {answers})"
    sets = describe(inquiry.blocking.sets())
    return f"no port usage made of {sets} explains the answers: {answers or 'isolation alone'}"
