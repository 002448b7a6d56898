"""Parts of sets that no blocking instruction has: what many instances beside a smaller set tell of them.

    andn rax, rbp, rbp;   rorx r8, r15, 7     six of each take 3.00 cycles: r0123, and two of these ports
    andn rax, rbp, [r14]; rorx r8, r15, 7     six of each take 4.00 cycles: the two ports, and one more

On a Zen 4, what computes on a load has three of the four ALUs. So has ADCX, which cannot block: it waits for flags.
Many instances beside blocking instructions of a smaller set tell: the fewer ports both have together, the longer they
take. That is asked where the throughput allows a part. A part is stated if it alone explains two times beside each set,
and an instruction that has the whole set takes less.

Parts with equally many ports of each set are alike. The first instruction that shows one decides which of these ports
are meant (`KnownPart`), and others are timed beside it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING

from generator.operands.effects import fixed_effects
from generator.sequences.blocking import fits, is_chained
from inference.ports.by_time.conclude import UNPIPELINED, agrees, answers_of, parts_of, usage_of
from inference.ports.by_time.mixes import MANY, SHORT_CHAIN, cycles_of
from inference.ports.infer import MOST_NAMED
from results.findings import Blocked, Indistinguishable, OnlyBounds, PartsCompared, Unplaced, UsageTime
from results.model import PortUsage
from results.ports import joined, moved, scaled, throughput_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from inference.experiment import Procedure, Request
    from inference.ports.by_time.machine import KnownPart, TimedSet
    from inference.ports.by_time.mixes import MixFactory
    from inference.ports.by_time.timed_probe import TimedProbe
    from inference.ports.infer import PortConclusion
    from results.model import Step
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

TELLS = Fraction(11, 10)
"""Factor: a mix is asked if a part makes it take so many times as long as the whole set does."""

NEAR_ENOUGH = Fraction(5, 100)
"""Share of its time by which a mix may be off what a usage allows: half of what `TELLS` asks for."""

MORE = Fraction(7, 6)
"""Factor: the second mix has so many times the blocking instructions of the first. With many more, these alone would
decide how long it takes."""

ENOUGH_MIXES = 2
"""Mixes beside each set that a part has to explain."""

MOST_CANDIDATES = 512
"""Usages with parts that are looked at, to bound the work."""


_Kind = tuple[str, tuple[bool, ...]]
"""A kind of alike ports: the published name, if they have one, and whether they are in each set."""

_Kinds = frozenset[tuple[_Kind, int]]
"""Kinds of ports, and how many of each."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Usages with µops of the `whole` set confined to parts of it, all of which are alike."""

    whole: PortSet
    usages: tuple[PortUsage, ...]


@dataclass(frozen=True, slots=True)
class _Mix:
    """Instances beside `count` blocking instructions of an `inner` set of the whole one. All sets have public names.

    It takes `least` cycles, whatever ports the instances have.
    """

    whole: PortSet
    inner: PortSet
    blocker: InstructionVariant
    count: int
    least: Fraction

    def allows(self, instances: PortUsage) -> Fraction:
        """Return the least cycles that ports allow if all instances together have this usage."""
        return throughput_of(joined(instances, PortUsage({self.inner: self.count})))


@dataclass(frozen=True, slots=True)
class _Timed:
    """A mix, its cycles, and those with instructions of the whole set in the place of the instances."""

    mix: _Mix
    cycles: Fraction
    control: Fraction


def told_of_parts(probe: TimedProbe, mixes: MixFactory, found: PortConclusion) -> Procedure[PortConclusion]:
    """Ask whether µops of a usage are confined to parts of their sets; return the conclusion after that."""
    usage = usage_of(found)
    if usage is None or probe.chain > SHORT_CHAIN or probe.cycles > UNPIPELINED * throughput_of(usage):
        return found
    search = _PartSearch(probe, mixes, usage)
    planned = search.planned()
    for _ in range(ENOUGH_MIXES):
        if not (yield from search.is_slower(planned)):
            return search.concluded(found)
        planned = [search.with_more(one) for one in planned]
    if not search.fitting():
        yield from search.is_slower(planned)
    fitting = search.fitting()
    if len(fitting) == 1:
        return search.concluded(found, (yield from search.meant(fitting[0])))
    possible = fitting or [one for one in search.candidates if search.is_possible(one)]
    return search.concluded(found, [usage, *(each for one in possible for each in one.usages)])


@dataclass
class _PartSearch:
    """What is asked about one usage, and the mixes that were timed."""

    probe: TimedProbe
    mixes: MixFactory
    usage: PortUsage
    timed: list[_Timed] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    experiments: list[str] = field(default_factory=list)

    @cached_property
    def sets(self) -> dict[PortSet, TimedSet]:
        """The sets that can be blocked, by their public names."""
        return {self.probe.machine.public(ports): one for ports, one in self.probe.askable().items()}

    @cached_property
    def candidates(self) -> list[_Candidate]:
        """The usages with parts that all answers and the throughput allow."""
        found: dict[tuple[PortSet, int, _Kinds], list[PortUsage]] = defaultdict(list)
        for whole in (ports for ports in self.usage.uops if ports in self.sets):
            for part in parts_of(whole)[1:]:
                for count in self._counts(self.usage.uops[whole]):
                    usage = moved(self.usage, whole, part, count)
                    if agrees(self.probe, usage):
                        found[whole, count, self._kinds(part)].append(usage)
            if len(found) > MOST_CANDIDATES:
                return []
        return [_Candidate(whole, tuple(usages)) for (whole, _, _), usages in found.items()]

    def _counts(self, uops: int) -> range:
        """Return how many µops of a set may be confined to a part of it: both halves, or none."""
        step = 2 if self.probe.is_widest and uops % 2 == 0 else 1
        return range(step, uops + 1, step)

    def _kinds(self, part: PortSet) -> _Kinds:
        """Return how many ports a part has of each kind: of those in the same sets, and of each published name."""
        published = set(self.probe.machine.names.values())
        kinds = Counter[_Kind](
            (port if port in published else "", tuple(port in ports for ports in self.sets)) for port in part
        )
        return frozenset(kinds.items())

    def planned(self) -> list[_Mix]:
        """Return few mixes that tell as many candidates from the usage as can be told.

        Sets of one port count where there are no others: on a Zen 4 what has them takes three cycles, and results of
        several latencies may come out at once.
        """
        wholes = {one.whole for one in self.candidates}
        options = [self._first(whole, inner) for whole in wholes for inner in self._inner(whole)]
        options.sort(key=lambda mix: (len(mix.inner), sorted(mix.whole), sorted(mix.inner)))
        left, chosen = list(self.candidates), list[_Mix]()
        while told := self._tells_most(options, left):
            mix, known = told
            chosen.append(mix)
            left = [one for one in left if one not in known]
        return chosen

    def _inner(self, whole: PortSet) -> list[PortSet]:
        """Return the smaller sets that instances are put beside."""
        inner = [ports for ports in self.sets if ports < whole]
        return [ports for ports in inner if len(ports) > 1] or inner

    def _tells_most(self, options: Iterable[_Mix], left: Sequence[_Candidate]) -> tuple[_Mix, list[_Candidate]] | None:
        """Return the mix that tells most candidates, and these; None if none tells any."""
        told = [(mix, [one for one in left if self._tells(mix, one)]) for mix in options]
        some = [pair for pair in told if pair[1]]
        return max(some, key=lambda pair: len(pair[1]), default=None)

    def _first(self, whole: PortSet, inner: PortSet) -> _Mix:
        """Return the mix that a part makes slowest: as many blocking instructions as the whole set allows."""
        uops = MANY * self.usage.uops[whole]
        return self._mix(whole, inner, ceil(Fraction(uops * len(inner), len(whole) - len(inner))))

    def with_more(self, mix: _Mix) -> _Mix:
        """Return a mix with more blocking instructions."""
        return self._mix(mix.whole, mix.inner, ceil(mix.count * MORE))

    def _mix(self, whole: PortSet, inner: PortSet, count: int) -> _Mix:
        blocker = self.sets[inner].blockers[self.probe.kind]
        issue = Fraction(MANY * self.probe.most_slots + count, self.probe.machine.width)
        return _Mix(whole, inner, blocker, count, max(issue, self._chain(blocker, count), MANY * self.probe.cycles))

    def _tells(self, mix: _Mix, candidate: _Candidate) -> bool:
        times = [self._allowed(mix, usage) for usage in (self.usage, candidate.usages[0])]
        return candidate.whole == mix.whole and times[1] >= TELLS * times[0]

    def _allowed(self, mix: _Mix, usage: PortUsage) -> Fraction:
        """Return the least cycles that a usage, issue slots and the instances' own chains allow."""
        return max(mix.allows(scaled(usage, MANY)), mix.least)

    def _chain(self, blocker: InstructionVariant, count: int) -> Fraction:
        """Return the cycles for which lines of a mix wait for each other: by flags and registers that they share."""
        own, other = fixed_effects(self.probe.variant), fixed_effects(blocker)
        if not own.inputs & own.writes <= other.writes - other.inputs:
            return MANY * self.probe.chain
        turns = self.mixes.turns([(self.probe.variant, MANY), (blocker, count)])
        instances, blocking = turns or (MANY, count)
        return max(instances * self.probe.chain, Fraction(blocking if is_chained(blocker) else 0))

    def is_slower(self, wanted: Sequence[_Mix]) -> Procedure[bool]:
        """Time mixes; return whether one of them takes longer than the whole set allows and its instructions take.

        Mixes for which there are not enough registers are left out.
        """
        pairs = [(mix, pair) for mix in wanted if (pair := self._requests(mix))]
        requests = [one for _, pair in pairs for one in pair]
        times = [cycles_of(one) or Fraction(0) for one in ((yield requests) if requests else [])]
        self.experiments += [one.benchmark.id for one in requests]
        timed = [_Timed(mix, *both) for (mix, _), *both in zip(pairs, times[::2], times[1::2], strict=True)]
        self.steps += [self._compared(one) for one in timed if one.cycles]
        self.timed += timed
        return all(times) and any(map(self._is_slow, timed))

    def _requests(self, mix: _Mix) -> list[Request]:
        """Return the requests for a mix, and for one with instructions of the whole set in the place of the instances.

        The blocking instructions are last: the instances may have few registers (AH).
        """
        known = (self.sets[mix.whole].blockers[self.probe.kind], MANY * self.usage.uops[mix.whole])
        blocking = (mix.blocker, mix.count)
        return self.mixes.possible([([(self.probe.variant, MANY), blocking], None), ([known, blocking], None)])

    def _is_slow(self, one: _Timed) -> bool:
        return one.cycles > (1 + NEAR_ENOUGH) * max(self._allowed(one.mix, self.usage), one.control)

    def fitting(self) -> list[_Candidate]:
        """Return the candidates that explain enough mixes beside each set: a further time may have been disturbed."""
        return [one for one in self.candidates if self._explains(one)]

    def _explains(self, candidate: _Candidate) -> bool:
        near = Counter(
            (one.mix.whole, one.mix.inner)
            for one in self.timed
            if is_near(one.cycles, self._allowed(one.mix, candidate.usages[0]))
        )
        return all(near[one.mix.whole, one.mix.inner] >= ENOUGH_MIXES for one in self.timed)

    def is_possible(self, candidate: _Candidate) -> bool:
        """Whether no mix was faster than a candidate allows."""
        allowed = (self._allowed(one.mix, candidate.usages[0]) for one in self.timed)
        return all(one.cycles * (1 + NEAR_ENOUGH) >= cycles for one, cycles in zip(self.timed, allowed, strict=True))

    def meant(self, candidate: _Candidate) -> Procedure[list[PortUsage]]:
        """Return the usages of a candidate that are left beside an example of a known part; all if there is none."""
        usages = list(candidate.usages)
        known = next((one for one in self.probe.machine.parts if self._is_alike(one, candidate)), None)
        if len(usages) == 1 or known is None:
            return usages
        half = MANY // 2
        mix = next(one.mix for one in self.timed if self._is_slow(one))
        parts = [(self.probe.variant, half), (known.example, half), (mix.blocker, mix.count)]
        made = self.mixes.possible([(parts, None)])
        time = cycles_of((yield made)[0]) if made else None
        if time is None:
            return usages
        self.experiments += [one.benchmark.id for one in made]
        allowed = [(usage, mix.allows(scaled(joined(usage, known.usage), half))) for usage in usages]
        beside = (_blocked(mix), Blocked(half, known.example.string))
        self.steps.append(PartsCompared(beside, half, time, tuple(UsageTime(*one) for one in allowed)))
        return [usage for usage, cycles in allowed if is_near(time, cycles)] or usages

    def _is_alike(self, known: KnownPart, candidate: _Candidate) -> bool:
        """Whether an example shows one of these usages' parts, and may stand in the same code."""
        is_there = any(known.part in usage.uops for usage in candidate.usages)
        return known.whole == candidate.whole and is_there and fits(known.example, self.probe.kind)

    def _compared(self, timed: _Timed) -> PartsCompared:
        """Return the step that compares a time with what the whole set and the part that makes it slowest allow."""
        slowest = max(self.candidates, key=lambda one: self._allowed(timed.mix, one.usages[0]))
        usages = (self.usage, slowest.usages[0])
        allowed = tuple(UsageTime(usage, self._allowed(timed.mix, usage)) for usage in usages)
        return PartsCompared((_blocked(timed.mix),), MANY, timed.cycles, allowed)

    def concluded(self, found: PortConclusion, left: Iterable[PortUsage] | None = None) -> PortConclusion:
        """Return a conclusion with what was asked, and with the usages that are left (None: the one that it has)."""
        steps, experiments = (*found.steps, *self.steps), (*found.experiments, *self.experiments)
        found = replace(found, steps=steps, experiments=experiments)
        if left is None:
            return found
        usages = {str(one): one for one in left}
        if len(usages) > 1:
            is_few = len(usages) <= MOST_NAMED
            bounds = OnlyBounds(self.probe.most_slots, answers_of(self.probe))
            return replace(found, usage=None, failure=Indistinguishable(tuple(usages.values())) if is_few else bounds)
        (usage,) = usages.values()
        if isinstance(found.failure, Unplaced):
            return replace(found, failure=replace(found.failure, usage=usage))
        return replace(found, usage=usage)


def is_near(time: Fraction, allowed: Fraction) -> bool:
    """Whether a time is what a usage allows, but for noise."""
    return abs(time - allowed) <= NEAR_ENOUGH * allowed


def _blocked(mix: _Mix) -> Blocked:
    return Blocked(mix.count, mix.blocker.string)
