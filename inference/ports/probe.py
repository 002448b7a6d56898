"""One question after the other about the ports of an instruction: block a set of ports, and count what runs on it.

The number of µops on a blocked set besides the blocking instructions' own is exact only if nothing that could have run
elsewhere ran there. So each measurement is judged: was the set never idle, does the time come from the whole set and
not from a part of it, and does the number stay the same where only time tells it. What fails bounds from above.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Protocol

from generator.errors import GenerationError
from inference.experiment import Procedure, Request, Want
from inference.ports.blocking_instructions import FEW_UOPS, Blockers, BlockingSet, Pace, blockers_for
from inference.ports.hypotheses import Answer, HypothesisSpace, Observation
from results.ports import PortSet, confined, describe, joined, pairs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from generator.microbenchmark import Microbenchmark
    from inference.experiment import Measured
    from inference.ports.blocking_instructions import BlockingInstruction
    from inference.ports.layout import PortLayout
    from results.model import PortUsage

CLEAR = Fraction(1, 5)
"""A count within this of an integer is exact; else it bounds from above."""

IDLE = Fraction(1, 2)
"""A blocked set was kept busy if its ports were idle for no more than so many cycles per instruction under test."""

MOST_DOUBLED = 3
"""How often the number of blocking instructions is doubled until an answer comes out twice."""

FEW_WAITING = 12
"""So few µops find free ports: even the smallest scheduler (36 entries on Nehalem) holds them and blocking ones."""

MOST_CHOICES = 2
"""So many pairs of blocking instructions are tried for a set that none blocks alone."""

MORE_WAITING = Fraction(3, 2)
"""In a control stand so many times as many µops as could stray, because microcode waits for itself, too."""

PAIR = 2
"""So few µops go elsewhere even if only one more µop is issued per cycle than the blocked ports can take."""


class Subject(Protocol):
    """An instruction under test that can be combined with blocking instructions."""

    @property
    def extra(self) -> PortUsage:
        """The µops of further instructions that stand beside the instance, such as dependency breakers."""

    def more(self) -> Microbenchmark:
        """Return the sequence of isolation with more instances, which wait the less for the copy before."""

    def combined(self, blockers: Blockers, *, reverse: bool = False) -> Microbenchmark:
        """Return one instance among blocking instructions with which it shares nothing (`reverse`: it comes first)."""

    def control(self, blockers: Blockers, other: BlockingInstruction, count: int) -> Microbenchmark:
        """Return the blocking instructions with so many copies of another one in the place of the instance."""


@dataclass(frozen=True, slots=True)
class _Load:
    """What a set of ports carried while it was blocked, per copy.

    `own` are the µops of blocking instructions and breakers that are confined to it, `ran` is what its counters counted
    besides (with the ports that share them), `time` what could have run on it besides in the cycles that it took, and
    `told` what could have if its ports with counters of their own ran what these counted.
    """

    own: int
    ran: Fraction
    time: Fraction
    told: Fraction
    separable: bool

    @property
    def count(self) -> Fraction:
        """The µops that ran on the set besides `own`: counted, or told by time where counters do not separate it."""
        return self.ran if self.separable else self.told

    @property
    def most(self) -> int:
        """How many µops at most are confined to it."""
        # A time is off where the window does not hold whole periods, so as a bound it is rounded up
        counted = floor(self.ran + CLEAR)
        return max(0, counted if self.separable else min(counted, ceil(self.told - CLEAR)))

    @property
    def busy(self) -> bool:
        """Whether its ports were hardly ever idle, as far as counters and time show."""
        return self.time - self.count <= IDLE and self.count <= self.ran + CLEAR


@dataclass
class PortProbe:
    """The state of one inference: what is known, and what was measured for it."""

    subject: Subject
    blocking: BlockingSet
    space: HypothesisSpace
    askable: list[PortSet]
    factor: int = 1
    reverse: bool = False
    chain: Fraction | None = None
    experiments: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rivals: list[PortUsage] = field(default_factory=list)
    strays: dict[PortSet, bool] = field(default_factory=dict)

    def may_ask(self, sets: Iterable[PortSet]) -> None:
        """Allow questions about further sets."""
        self.askable = list(dict.fromkeys([*self.askable, *sets]))

    def choices(self, ports: PortSet) -> list[Blockers]:
        """Return blocking instructions for a set, or pairs for two sets whose union it is, the best pair first.

        There is a second pair only where both are apart; else what they have in common is blocked by both.
        """
        known = self.blocking.instructions
        parts: Sequence[tuple[PortSet, ...]] = [(ports,)]
        if ports not in known:
            pairs = [pair for pair in pairs_of(self.blocking.sets()) if pair[0] | pair[1] == ports]
            best, *others = sorted(pairs, key=_preference)
            parts = [best, *(pair for pair in others if not pair[0] & pair[1])][:MOST_CHOICES]
        pace = Pace(self.chain or Fraction(0), self.blocking.width)
        instructions = [[known[part] for part in each] for each in parts]
        return [self._balanced(blockers_for(each, self.space.isolated, pace, self.factor)) for each in instructions]

    def _balanced(self, blockers: Blockers) -> Blockers:
        """Return blockers of which none is done before another one, what is known to be confined included."""
        return blockers.balanced([self._known(one.ports) for one in blockers.instructions])

    def _known(self, ports: PortSet) -> int:
        """Return how many µops are known to be confined to a set."""
        return self.space.known(ports) or 0

    def lengthen(self) -> Procedure[None]:
        """Measure more instances alone, so that none waits for the one of the copy before whose result it reads."""
        request = Request(self.subject.more(), Want.ALL)
        (measured,) = yield [request]
        if not measured.ok:
            return
        self.experiments.append(request.benchmark.id)
        isolated, cycles = self.space.isolated, measured.cycles / request.benchmark.divisor
        if cycles < isolated.cycles:
            self.space.isolated = replace(isolated, cycles=cycles)
            count = request.benchmark.divisor
            self.notes.append(f"{count} instances take {float(cycles):.2f} cycles each, less than fewer of them")

    def ask(self, ports: PortSet) -> Procedure[None]:
        """Block a set and learn how many µops are confined to it; again with more if they did not block it."""
        if self.chain is None:
            alone = yield from self.measure(Blockers((), ()))
            self.chain = alone.cycles if alone.ok else self.space.isolated.cycles
        for blockers in self.choices(ports):
            yield from self._ask_with(ports, blockers)
            if self.space.answers[ports].exact:
                return

    def _ask_with(self, ports: PortSet, blockers: Blockers) -> Procedure[None]:
        """Ask with these blocking instructions, and again with more if they did not block the set."""
        try:
            measured = yield from self.measure(blockers)
        except GenerationError:
            self.space.answers[ports] = Answer(self.space.limit(ports), exact=False)
            return
        self._learn(measured, blockers, ports)
        answer = self.space.answers[ports]
        if not measured.ok or answer == Answer(0) or not all(one.saturates for one in blockers.instructions):
            return
        if not answer.exact:
            blockers = yield from self._ask_for_longer(ports, blockers.filling(measured.cycles))
        if not self.space.layout.separable(ports) or self.space.isolated.total > FEW_UOPS:
            yield from self._confirm(ports, blockers)
        yield from self.doubt(ports, blockers.doubled())

    def doubt(self, ports: PortSet, blockers: Blockers) -> Procedure[None]:
        """Take an answer about long microcode for a bound if µops that are not confined to the set stray onto it.

        The schedulers hold so many µops: where microcode queues up on the ports that are left until these have as many
        waiting as the blocked ones, the rest goes to the blocked ones in every copy, however many blocking instructions
        there are. A control shows it: in the place of the microcode are µops of a known larger set.
        """
        answer = self.space.answers[ports]
        count = ceil((self.space.isolated.total - answer.count) * MORE_WAITING)
        if not answer.exact or not answer.count or count <= FEW_WAITING:
            return
        if ports not in self.strays:
            self.strays[ports] = yield from self._control(ports, blockers, count)
        if self.strays[ports]:
            self.space.answers[ports] = Answer(answer.count, exact=False)

    def _control(self, ports: PortSet, blockers: Blockers, count: int) -> Procedure[bool]:
        """Return whether any of so many µops of the smallest larger set run on a set that is blocked."""
        wider = [one for one in self.blocking.instructions.values() if ports < one.ports and one.usage.total == 1]
        if not wider:
            return False
        other = min(wider, key=lambda one: (len(one.ports), sorted(one.ports)))
        blockers = blockers.balanced([0] * len(blockers.instructions))
        try:
            request = Request(self.subject.control(blockers, other, count), Want.PORTS)
        except GenerationError:
            return False
        (measured,) = yield [request]
        if not measured.ok:
            return False
        self.experiments.append(request.benchmark.id)
        ran = _load(measured, blockers.usage, ports, self.space.layout).count
        what = f"{count} x {other.variant.string} in its place"
        self.notes.append(f"the same with {what}, none of which has to run on {describe([ports])}: {float(ran):.2g} do")
        return ran >= 1 - CLEAR

    def _ask_for_longer(self, ports: PortSet, blockers: Blockers) -> Procedure[Blockers]:
        """Ask with more blocking instructions, as many of each as what is confined to its own ports calls for."""
        for one in blockers.instructions if ports not in self.blocking else ():
            if one.ports not in self.space.answers:
                yield from self.ask(one.ports)
        more = self._balanced(blockers)
        self._learn((yield from self.measure(more)), more, ports)
        if not self.space.answers[ports].exact and not self.space.layout.separable(ports):
            more = self._balanced(more.doubled())  # the ends of a queue weigh the less in its time
            self._learn((yield from self.measure(more)), more, ports)
        return more

    def _confirm(self, ports: PortSet, blockers: Blockers) -> Procedure[None]:
        """Ask with twice as many blocking instructions until the same comes out twice; else it is a bound.

        Where time tells it may hold idle cycles that happen to be whole ones, and among the µops of long microcode may
        be one that strays in every copy, because the reorder buffer was full and blocking instructions came late.
        """
        answers = self.space.answers
        for number in range(MOST_DOUBLED):
            before, more = answers[ports], self._balanced(blockers.doubled())
            if more.counts == blockers.counts and number:
                break
            if more.counts == blockers.counts or not before.exact:
                return
            measured = yield from self.measure(more)
            if not measured.ok:
                return
            self._learn(measured, more, ports)
            if answers[ports] == before:
                return
            blockers = more
        answers[ports] = Answer(answers[ports].count, exact=False)

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
        limit = space.limit(ports)
        if not measured.ok:
            space.answers[ports] = Answer(limit, exact=False)
            return
        load = self.load(measured, blockers, ports)
        # As wide as the core issues nothing queues up, and the time counts what is issued, wherever it runs
        spare = self.blocking.width - len(ports)
        queued = load.separable or spare > 1 or (spare == 1 and space.isolated.total <= PAIR)
        nearest = max(0, round(load.count))
        clear = load.busy and abs(load.count - nearest) <= CLEAR and self._whole(measured, blockers, nearest, ports)
        if nearest > limit:
            answer = Answer(limit, exact=False)
        elif queued and clear:
            answer = Answer(nearest)
        else:
            answer = Answer(min(limit, load.most), exact=False, timed=clear and spare == 1)
        self.conclude(measured, blockers, ports, answer)

    def conclude(self, measured: Measured, blockers: Blockers, ports: PortSet, answer: Answer) -> None:
        """Keep what blocking a set has shown, and how."""
        usage = joined(blockers.usage, self.subject.extra)
        self.notes.append(_note(blockers, ports, self.load(measured, blockers, ports), answer))
        self.space.observe(Observation(ports, measured.values, usage), answer)

    def load(self, measured: Measured, blockers: Blockers, ports: PortSet) -> _Load:
        """Return what ran on a set of ports while it was blocked."""
        return _load(measured, joined(blockers.usage, self.subject.extra), ports, self.space.layout)

    def _whole(self, measured: Measured, blockers: Blockers, count: int, ports: PortSet) -> bool:
        """Whether all of the set was blocked, and not a part of it, the rest of which other µops could fill.

        Of two instructions that block a set together, one may be what everything waits for. Then the ports of the
        other one have time left, and are never idle only because of what strays onto them. Nothing did if no more
        ran there than is known to be confined to the parts.
        """
        if count == 0 or len(blockers.instructions) == 1:
            return True
        space, usage = self.space, joined(blockers.usage, self.subject.extra)
        parts = [one.ports for one in blockers.instructions]
        if count == sum(map(self._known, parts)) - space.limit(parts[0] & parts[1]):
            return True
        needed = max(Fraction(confined(usage, part) + space.limit(part), len(part)) for part in parts)
        return (measured.cycles - needed) * len(ports) > 1 - CLEAR


def _preference(pair: tuple[PortSet, PortSet]) -> tuple[int, int]:
    """Order pairs that block a set: apart before others, then those of which neither is much smaller than the other.

    What has a choice among the ports of a small part goes there more often than the balance of both allows for.
    """
    one, other = pair
    return len(one & other), abs(len(one) - len(other))


def _load(measured: Measured, usage: PortUsage, ports: PortSet, layout: PortLayout) -> _Load:
    """Return what ran on a set of ports besides the µops of a usage."""
    own, counted, shared = confined(usage, ports), Fraction(0), 0
    for name in layout.touching(ports):
        if layout.counters[name] <= ports:
            counted += measured.values[name]
        else:
            shared += len(layout.counters[name] & ports)
    # No port runs more than a µop per cycle: where it seems so the window begins and ends in other parts of a period
    loads = [measured.values[name] / len(sharing) for name, sharing in layout.counters.items()]
    cycles = max(measured.cycles, *loads)
    ran = layout.on(ports, measured.values) - own
    return _Load(own, ran, cycles * len(ports) - own, counted + cycles * shared - own, layout.separable(ports))


def _note(blockers: Blockers, ports: PortSet, load: _Load, answer: Answer) -> str:
    """Say for people what kept which ports busy, and the arithmetic that gives the answer."""
    name = describe([ports])
    pairs = zip(blockers.instructions, blockers.counts, strict=True)
    kept = (" and " if blockers.in_turns else ", then ").join(f"{count} x {one.variant.string}" for one, count in pairs)
    total = float(load.count + load.own)
    ran = f"{total:.4g} µops on {name}" if load.separable else f"time for {total:.4g} µops on {name}"
    blocking = confined(blockers.usage, ports)
    breakers = f" - {load.own - blocking} of dependency breakers" if load.own > blocking else ""
    count = float(load.count) or 0.0
    bound = "" if answer.exact else f", at most {answer.count}"
    return f"with {name} kept busy by {kept}: {ran} - {blocking}{breakers} = {count:.2g}{bound}"
