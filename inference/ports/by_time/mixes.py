"""Mixes of independent instructions, and what the time of one says.

A mix takes as long as its fullest set of ports, or as issuing it does (Ritter and Hack, PLDI 2020, section 3). With `k`
blocking instructions of a set S and one instance of an instruction, t cycles are t · |S| µops on S. So t · |S| - k of
the instance's µops were confined to S, as long as S is what limits the mix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations
from math import ceil, floor, isqrt
from statistics import median
from typing import TYPE_CHECKING

from generator.sequences.filler import as_filler
from generator.sequences.mixes import MixPart, mix, turns
from inference.experiment import Request
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory
    from generator.sequences.filler import SlotFiller
    from inference.experiment import Measured, Procedure
    from xed_convert.model import InstructionVariant

LEAST_CYCLES = 4
"""Cycles that blocking instructions last at least, so that a queue builds up in front of their ports."""

MARGIN = Fraction(13, 10)
"""Factor: there are this many times the blocking instructions that are needed, since the set has to limit the mix."""

STRONGER = Fraction(1, 3)
"""Share of the weaker strength by which the stronger one exceeds it at least: more than noise, and code stays short."""

SPARE_CYCLES = 2
"""Cycles that blocking instructions last beyond the instruction's own chain."""

ROUNDING = Fraction(3, 20)
"""µops by which an answer may be off beside noise: on Zen 4 blocked ports idle in some cycles."""

FARTHEST = Fraction(9, 20)
"""µops. An answer that is further from an integer says nothing: the next one is hardly less likely."""

BLURRED = Fraction(1, 2)
"""µops by which noise may change an answer that says a number. An answer that may be further off is a bound: the next
number is as likely."""

MOST_BLOCKERS = 240
"""Blocking instructions in one mix: with more, code leaves the µop cache even in a loop."""


NOISE_FACTOR = 2
"""Factor: the noise is taken to be this many times what explains most times, since the machine may be less quiet later.
"""

DISTURBED = Fraction(1, 10)
"""Share of the issue width. If filler takes the place of a few lines among others, and all of it is issued so much more
slowly, it was disturbed. A tenth, because such lines change it by less on Zen 5: 7.8 to 8.4 per cycle of 8."""

REPEATS = 4
"""Mixes of about the same strength, if one of each does not settle a number: the median of four is about half as noisy,
and one disturbed time among them does not matter."""

MANY = 6
"""Instances of the instruction in the mix that bounds its µops on a set from above: noise per instance is a sixth."""

CONFIRMS = Fraction(35, 100)
"""µops per instance. Many instances confirm a number if they had time for no more than this beyond it."""

WAITS = Fraction(1, 2)
"""µops. If blocked ports had time for more than this, many instances are asked about, too."""

SLOWED = Fraction(5, 4)
"""Factor: if each further blocking instruction takes this many times as long as its ports need, the instruction beside
them changes how they run. On Emerald Rapids a 512-bit instruction leaves two of three ports to all vector instructions.
Twelve VANDNPD take 6.5 cycles beside one, and 30 take 15.5, not 4 and 10."""

SHORT_CHAIN = 4
"""Cycles. An instruction that waits longer for itself may come after blocked ports ran dry, so that many instances have
to confirm."""


@dataclass(frozen=True, slots=True)
class MixAnswer:
    """What mixes say about a set: how many µops are confined to it, exactly (`uops`, None: not known) and at most.

    `values` are t · |S| - k for one instance, weakly and strongly blocked (medians of several mixes). `bound` is the
    same per instance of many (None: not asked), and may have `confirmed` the number, or made it `doubtful`. `fewer` is
    what some mixes say that had no time for so many (None: all agree): that counts unless many confirm the number.
    """

    uops: int | None
    most: int
    values: tuple[Fraction, ...] = ()
    bound: Fraction | None = None
    confirmed: bool = False
    doubtful: bool = False
    fewer: int | None = None

    def bounded(self, bound: Fraction, slack: Fraction) -> MixAnswer:
        """Return the answer with what many instances said.

        No mix is faster than its ports allow. So an instruction that had no time for one more µop does not have it. A
        single instance may seem to, if it waited for blocked ports: Zen 4 binds some µops to busy ports.

        If many had time for most of a µop that one instance seems to have at both strengths, the one time or the other
        two are mistakes. So the same mix of many is measured once more.
        """
        most = max(0, floor(bound + slack))
        if not self.doubtful and self.uops is not None and most < self.uops and bound > most + WAITS:
            return replace(self, doubtful=True)
        bound = bound if self.bound is None else min(bound, self.bound)
        if most >= self.most:
            confirmed = self.uops is not None and bound <= self.uops + CONFIRMS
            return MixAnswer(self.uops, self.most, self.values, bound, confirmed, fewer=self.fewer)
        return MixAnswer(0 if most == 0 else None, most, self.values, bound, fewer=self.fewer)

    def settled(self, last: Fraction, slack: Fraction) -> MixAnswer:
        """Return the answer after `last`, the µops per instance among so many blocking instructions that none run dry.

        If these took longer than the least of all mixes, something else than ports slows them down. If one instance
        took less time than so many µops need, it has fewer. If noise may change `last` by too much (by `slack` µops),
        one instance has to have taken that time at both strengths. No mix takes less time than its ports need, but for
        noise: if `last` falls short by more, the number is less and something else takes time. If one instance took
        time for one more at both strengths, many have to be as near to it as noise allows: a way from vectors to
        flags keeps all four ALUs of a Zen 4 for a cycle, and six in a row seem to have 3.3 µops there.
        """
        if self.uops is not None or self.bound is None:
            return self
        least = min if slack > BLURRED else max
        reached = least(self.values, default=last) >= self.most - CONFIRMS
        exceeded = min(self.values, default=last) >= self.most + 1 - ROUNDING
        short, over = min(CONFIRMS, (slack - ROUNDING) / NOISE_FACTOR), min(CONFIRMS, slack) if exceeded else CONFIRMS
        is_near = all(self.most - short <= value <= self.most + over for value in (last, self.bound))
        if reached and is_near:
            return MixAnswer(self.most, self.most, self.values, self.bound, confirmed=True)
        return self

    def closed(self) -> MixAnswer:
        """Return the answer when nothing more is asked."""
        if self.fewer is None or self.uops is not None or self.fewer >= self.most:
            return self
        return replace(self, uops=0 if self.fewer == 0 else None, most=self.fewer)

    def is_exact(self, chain: Fraction) -> bool:
        """Whether it says the number of µops of an instruction that waits `chain` cycles for itself."""
        is_known = self.uops is not None and not self.doubtful
        return is_known and (self.uops == 0 or self.confirmed or chain <= SHORT_CHAIN)


def strengths(size: int, width: int, slots: int, chain: Fraction) -> tuple[int, ...]:
    """Return how many blocking instructions keep a set busy for longer than all else takes, for each mix.

    There are two strengths, and several mixes of about each.

    Args:
        size: ports of the set, fewer than the issue width.
        width: slots that are issued per cycle.
        slots: of the instruction under test.
        chain: cycles for which an instance waits for the one in the copy before.
    """
    cycles = max(LEAST_CYCLES, ceil(chain) + SPARE_CYCLES)
    wanted = max(Fraction(cycles * size), MARGIN * slots * size, MARGIN * Fraction(slots * size, width - size))
    weak = min(ceil(wanted / size) * size, MOST_BLOCKERS)
    strong = weak + max(REPEATS * size, ceil(STRONGER * weak / size) * size)
    return tuple(first + place * size for first in (weak, strong) for place in range(REPEATS))


def is_settled(times: Sequence[tuple[int, Fraction]], size: int, noise: Fraction) -> bool:
    """Whether each of these times alone says the same number of µops, although it may be off by that share."""
    near = {round(cycles * size - count) for count, cycles in times}
    return len(near) == 1 and all(
        2 * (abs(cycles * size - count - min(near)) + noise * size * cycles) <= 1 for count, cycles in times
    )


def judge(times: Sequence[tuple[int, Fraction]], size: int, noise: Fraction) -> MixAnswer:
    """Return what `times`, pairs of blocking instructions and cycles, say about a set of that size.

    The weaker and the stronger half agree if both are near the same integer. But for noise, the share by which a time
    may be off, times are never less than the ports allow. They may be more: ports idle where results of different
    latency come out at once. Medians count, so that one disturbed time among several decides nothing.

    If two mixes had no time for a further µop, the number is open, and many instances decide: on Zen 3, ALUs idle in
    some mixes of ANDN and one VPMINUD (4.44 cycles for 16, 9.47 for 36), but not in others (6.01 for 24, 8.10 for 32).
    So they do if the halves disagree. That may be noise: three of eight mixes of VANDNPD and VADDPD from memory had
    time for 0.36 to 0.51 µops, and the others for 0.98 to 1.00.
    """
    middle = len(times) // 2
    kept = [_possible(half, size, noise) for half in (times[:middle], times[middle:])]
    halves = [[(cycles * size - count, cycles) for count, cycles in half] for half in kept]
    values = tuple(Fraction(median(value for value, _ in half)) for half in halves)
    slack = [ROUNDING + noise * size * max(cycles for _, cycles in half) / isqrt(len(half)) for half in halves]
    near = [max(0, floor(value + min(FARTHEST, each))) for value, each in zip(values, slack, strict=True)]
    agree = len(set(near)) == 1 and all(value - near[0] <= FARTHEST for value in values) and max(slack) <= BLURRED
    bounds = [floor(value + each) for value, each in zip(values, slack, strict=True)]
    most = max(0, min(bounds))
    answer = MixAnswer(near[0] if agree else None, max(near[0], most) if agree else most, values)
    if len(times) <= len(halves):
        return answer
    had_time = sorted((cycles * size - count, noise * size * cycles) for count, cycles in chain(*kept))
    value, off = had_time[min(1, len(had_time) - 1)]  # the fastest one may be the luckiest mistake
    bound = max(0, floor(value + ROUNDING + off))
    if bound < near[0] and value <= bound + WAITS:
        return replace(answer, uops=None, most=max(near), fewer=min(most, bound))
    if not agree and max(bounds) > most:
        return replace(answer, most=max(bounds), fewer=most)
    return answer


def _possible(times: Sequence[tuple[int, Fraction]], size: int, noise: Fraction) -> Sequence[tuple[int, Fraction]]:
    """Return the times in which the blocking instructions alone could run; all if there are none.

    A shorter one is a mistake: a neighbour used the core while the shorter one of two loops ran.
    """
    return [
        (count, cycles) for count, cycles in times if cycles * size - count >= -ROUNDING - noise * size * cycles
    ] or times


@dataclass(frozen=True, slots=True)
class MixFactory:
    """Makes requests to time mixes.

    Mixes stand in loops, so that they come from the µop cache. Unrolled code is decoded anew: cores with decoders for
    16 bytes per cycle then issue three instructions of five bytes, not four, and all sets seem to share ports.
    """

    instructions: InstructionFactory

    def request(self, parts: Sequence[tuple[InstructionVariant, int]], subject: InstructionVariant | None) -> Request:
        """Return the request to time these parts and one instance of the subject.

        Raises:
            AllocationError: there are not enough registers.
            EncodingError: an instance cannot be encoded.
        """
        made = [MixPart(variant, count) for variant, count in parts]
        return Request(mix(self.instructions, made, subject), loop=True)

    def among(
        self,
        filler: SlotFiller,
        count: int,
        parts: Sequence[tuple[InstructionVariant, int]],
        subject: InstructionVariant | None,
    ) -> tuple[Request, Request]:
        """Return the requests to time these among so much filler, and filler of the same lengths in place of all.

        Raises:
            AllocationError: there are not enough registers.
            EncodingError: an instance cannot be encoded.
        """
        made = [MixPart(variant, number) for variant, number in parts]
        made.append(MixPart(self.instructions.variant(filler.string), count, filler.length_bytes))
        code = mix(self.instructions, made, subject)
        return Request(code, loop=True), Request(as_filler(self.instructions, filler, code), loop=True)

    def turns(self, parts: Sequence[tuple[InstructionVariant, int]]) -> list[int]:
        """Return how often at most an instance of each part stands in a mix of these; [] if there is no such mix."""
        try:
            return turns([MixPart(variant, count) for variant, count in parts])
        except UopscopeError:
            return []

    def possible(
        self, wanted: Sequence[tuple[Sequence[tuple[InstructionVariant, int]], InstructionVariant | None]]
    ) -> list[Request]:
        """Return the requests for all of these parts and subjects; none if one of them cannot be generated."""
        try:
            return [self.request(parts, subject) for parts, subject in wanted]
        except UopscopeError:
            return []


def cycles_of(measured: Measured) -> Fraction | None:
    """Return the core cycles of a mix, None if it did not run."""
    return measured.cycles if measured.ok and measured.cycles > 0 else None


def issue_rate(filler: Measured, width: int) -> Fraction:
    """Return how many lines per cycle are issued of filler that has the lengths of some code.

    It is the issue width where that filler did not run.
    """
    cycles = cycles_of(filler)
    return Fraction(width) if cycles is None else len(filler.request.benchmark.body) / cycles


def undisturbed(rate: Fraction, width: int) -> Fraction:
    """Return the issue rate of code that is filler but for a few lines: the issue width if it was disturbed."""
    return rate if rate >= width * (1 - DISTURBED) else Fraction(width)


@dataclass(frozen=True, slots=True)
class Question:
    """Asks how many µops of the subject are confined to the set that these blocking instructions keep busy.

    `chain` are the cycles for which the subject waits for itself, `cycles` is its reciprocal throughput.
    """

    subject: InstructionVariant
    blocker: InstructionVariant
    size: int
    counts: tuple[int, ...]
    chain: Fraction = Fraction(1)
    cycles: Fraction = Fraction(0)

    @property
    def first(self) -> tuple[int, ...]:
        """The strengths that are asked first: the least of each half."""
        return self.counts[:: max(1, len(self.counts) // 2)]

    @property
    def further(self) -> tuple[int, ...]:
        """The other strengths."""
        return tuple(count for count in self.counts if count not in self.first)

    @property
    def many(self) -> tuple[int, int]:
        """How many instances stand among how many blocking instructions, if there are many."""
        return MANY, max(MANY * min(2, self.size), min(MOST_BLOCKERS, self.size * (ceil(self.chain) + 1)))

    @property
    def more(self) -> tuple[int, int]:
        """The same with so many more blocking instructions that these last longer than all else."""
        instances = MANY
        while instances > 1 and self._lasting(instances) > MOST_BLOCKERS:
            instances //= 2
        return instances, min(self._lasting(instances), MOST_BLOCKERS)

    def _lasting(self, instances: int) -> int:
        own = MARGIN * instances * max(self.cycles, Fraction(2, self.size)) + self.chain + LEAST_CYCLES
        return self.size * ceil(own)


@dataclass(frozen=True, slots=True)
class Many:
    """A mix of so many instances of the subject and blocking instructions, and its time in cycles."""

    instances: int
    blockers: int
    cycles: Fraction

    def uops(self, size: int) -> Fraction:
        """Return the µops per instance for which so many ports had time besides the blocking instructions."""
        return (self.cycles * size - self.blockers) / self.instances

    def slack(self, size: int, noise: Fraction) -> Fraction:
        """Return by how many µops per instance this may be off, if times may be off by that share."""
        return ROUNDING + noise * self.cycles * size / self.instances


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answer (None: it could not be asked), the times of its mixes, and their experiments.

    `times` are (blocking instructions, cycles) with one instance, `many` are the mixes with many.
    """

    question: Question
    answer: MixAnswer | None
    times: tuple[tuple[int, Fraction], ...] = ()
    many: tuple[Many, ...] = ()
    experiments: tuple[str, ...] = ()

    @property
    def uops(self) -> int | None:
        """How many µops of the subject are confined to the set, None if that is not known."""
        return None if self.answer is None else self.answer.uops

    @property
    def waits(self) -> bool:
        """Whether the subject may have µops on the set."""
        return self.answer is not None and (self.answer.uops is None or min(self.answer.values) > WAITS)

    @property
    def has_several_uops(self) -> bool:
        """Whether the subject seems to have more than one µop on the set."""
        return (self.uops or 0) > 1

    @property
    def slows(self) -> bool:
        """Whether the blocking instructions take longer beside the subject: each of them, not a µop's time in all."""
        if len(self.times) <= len(self.question.first):
            return False
        each = [(later - cycles) / (more - count) for (count, cycles), (more, later) in combinations(self.times, 2)]
        return median(each) * self.question.size > SLOWED

    @property
    def is_open(self) -> bool:
        """Whether many instances were asked about, and left the number of µops open."""
        return bool(self.many) and self.answer is not None and not self.answer.is_exact(self.question.chain)

    def settled(self, noise: Fraction) -> Asked:
        """Return it after its last mix of many instances, if these stood among more blocking instructions once more."""
        if self.answer is None or len(self.many) <= 1:
            return self
        last, size = self.many[-1], self.question.size
        return replace(self, answer=self.answer.settled(last.uops(size), last.slack(size, noise)))


def ask(mixes: MixFactory, questions: Sequence[Question], noise: Fraction) -> Procedure[list[Asked]]:
    """Time the mixes of all questions; return an answer to each.

    One mix of each strength comes first. If these leave a doubt, all others follow, and medians count. If one instance
    seems to have µops on the set, many instances are measured: first among a few blocking instructions, and there once
    more if these are doubtful. If that leaves the number open, they are measured among so many that these last longer
    than the instances.
    """
    found = yield from _with_one(
        mixes, [Asked(one, None) for one in questions], [one.first for one in questions], noise
    )
    doubtful = [
        one.answer is not None
        and (one.answer.uops is None or not is_settled(one.times, one.question.size, noise / NOISE_FACTOR))
        for one in found
    ]
    wanted_counts = [one.question.further if open_ else () for one, open_ in zip(found, doubtful, strict=True)]
    found = yield from _with_one(mixes, found, wanted_counts, noise)
    found = yield from _with_many(mixes, found, [one.question.many if one.waits else None for one in found], noise)
    same = [one.question.many if one.answer is not None and one.answer.doubtful else None for one in found]
    found = yield from _with_many(mixes, found, same, noise, again=1)
    wanted = [one.question.more if one.is_open else None for one in found]
    found = yield from _with_many(mixes, found, wanted, noise)
    settled = [one.settled(noise) if numbers else one for one, numbers in zip(found, wanted, strict=True)]
    return [replace(one, answer=one.answer.closed()) if one.answer is not None else one for one in settled]


def _with_one(
    mixes: MixFactory, asked: Sequence[Asked], wanted: Sequence[Sequence[int]], noise: Fraction
) -> Procedure[list[Asked]]:
    """Ask with one instance among so many blocking instructions of each, as a first answer or besides other times."""
    requests = [
        mixes.possible([([(one.question.blocker, count)], one.question.subject) for count in counts])
        for one, counts in zip(asked, wanted, strict=True)
    ]
    answers = iter((yield [request for some in requests for request in some]) if any(requests) else [])
    found = []
    for one, counts, some in zip(asked, wanted, requests, strict=True):
        measured = [next(answers) for _ in some]
        cycles = [each for each in map(cycles_of, measured) if each is not None]
        if not counts or len(cycles) < len(counts):
            found.append(one)
            continue
        times = tuple(sorted((*one.times, *zip(counts, cycles, strict=True))))
        ids = (*one.experiments, *(each.request.benchmark.id for each in measured))
        found.append(Asked(one.question, judge(times, one.question.size, noise), times, (), ids))
    return found


def _with_many(
    mixes: MixFactory, asked: Sequence[Asked], wanted: Sequence[tuple[int, int] | None], noise: Fraction, again: int = 0
) -> Procedure[list[Asked]]:
    """Ask with so many (instances, blocking instructions) of each; None: not about this one.

    What was measured for another number `again` does not count.
    """
    requests: list[list[Request]] = []
    for one, numbers in zip(asked, wanted, strict=True):
        parts = [] if numbers is None else [(one.question.blocker, numbers[1]), (one.question.subject, numbers[0])]
        requests.append([replace(each, again=again) for each in mixes.possible([(parts, None)])] if parts else [])
    answers = iter((yield [request for some in requests for request in some]) if any(requests) else [])
    found = []
    for one, numbers, some in zip(asked, wanted, requests, strict=True):
        measured = [next(answers) for _ in some]
        cycles = cycles_of(measured[0]) if measured else None
        if cycles is None or numbers is None or one.answer is None:
            found.append(one)
            continue
        last = Many(*numbers, cycles)
        size = one.question.size
        answer = one.answer.bounded(last.uops(size), last.slack(size, noise))
        ids = (*one.experiments, measured[0].request.benchmark.id)
        found.append(Asked(one.question, answer, one.times, (*one.many, last), ids))
    return found
