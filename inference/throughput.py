"""Throughput and µop counts of an instruction, from sequences of independent instances.

The fastest sequence counts (Abel and Reineke, ASPLOS 2019, §5.3). Sequences are tried until one is as fast as the ports
allow (§5.3.2). If the ports are not known, they are tried until longer ones are no faster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.operands.places import STATUS_FLAGS
from generator.sequences.throughput import LENGTHS, MANY, SequenceShape, ThroughputFactory
from inference.experiment import Procedure, Request, Want
from results.findings import Chosen, Code, Floor, NotGenerated, NotRun, SequenceTime
from results.model import Derivation, Form
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    import collections.abc as collections_abc

    from generator.operands.values import ValueKind
    from inference.experiment import Measured
    from results.model import Failure, Step

REACHED = Fraction(101, 100)
"""Share of the cycles that the ports allow. A sequence that takes no more is as fast as any: 1 % is what a stable
measurement may spread by."""

FASTER = Fraction(99, 100)
"""Share of another time in cycles: that of a sequence, of an instruction, or what the ports allow. Only what takes less
is faster: 1 % is what a stable measurement may spread by."""

SLOWER = Fraction(102, 100)
"""Share of another sequence's cycles. A sequence that takes more is slower: both may spread by 1 %."""

APART = Fraction(105, 100)
"""Share of a sequence's cycles. Another rhythm takes more: two runs of one rhythm may differ by 5 %."""

FEWER_BREAKERS = (4, 8, 16)
"""Instances between breakers, where these take time. Schedulers of 36 to 160 entries hold several such groups, and each
step halves the time of breakers. Two instances would save less than half of it."""

OTHER_COUNTS = (16, 12)
"""Instances of further sequences, if one of another form, or a loop, is slower than the plain one. With more than 8
nothing waits for a register. 12 is no multiple of 8, so its rhythm is another one."""

LONG = MANY
"""Instances of the sequence that replaces one that seems too fast: the ends of the window weigh less in it."""

WINDOW = 16
"""Instances of the sequence that confirms another one, at least: as many as the longest of `LENGTHS`."""

AGAIN = Fraction(106, 100)
"""Factor: a time came out again if another one is at most this times as long. Two runs may differ by 5 %, and
one of them spreads by 1 %."""

MOST_MISTAKES = 3
"""Sequences of a search that may be measured again. On Zen 4 one in a thousand is too fast by luck, so three in a row
are no luck."""

WHOLE_COUNT = Fraction(1, 10)
"""µops per instruction by which a count may be off an integer: less than the 1/8 that one µop too many adds to each of
eight instances."""

COUNTED = ("uops_issued", "uops_executed", "uops_retire_slots", "uops_MS")
"""Counters that are reported per instruction."""

UNIT = "unit_"
"""How the names of counters begin that count by execution unit; they are reported as well, where they count."""


def counted_names(there: collections_abc.Iterable[str]) -> tuple[str, ...]:
    """Return the names of the counters that are reported, of those that are there: those of units last."""
    return (*COUNTED, *sorted(name for name in there if name.startswith(UNIT)))


def counts_uops(counters: collections_abc.Collection[str]) -> bool:
    """Whether any of the counters is reported per instruction."""
    return any(name in counters for name in counted_names(counters))


@dataclass(frozen=True)
class Sequence:
    """A sequence that was measured, and its cycles per instruction."""

    shape: SequenceShape
    measured: Measured

    @cached_property
    def cycles(self) -> Fraction:
        """Core cycles per instruction."""
        return self.measured.cycles_each

    @property
    def lines(self) -> Fraction:
        """Lines of code per instruction."""
        benchmark = self.measured.request.benchmark
        return Fraction(len(benchmark.body), benchmark.divisor)

    @property
    def spread(self) -> Fraction:
        """Half the distance between the quartiles of the cycles, per instruction."""
        return self.measured.spread["core_cycles"] / self.measured.request.benchmark.divisor

    @property
    def rhythms(self) -> tuple[Fraction, ...]:
        """Core cycles per instruction in slower rhythms, which the core fell into in other repetitions."""
        divisor = self.measured.request.benchmark.divisor
        slower = (cycles for cycles in self.measured.slower if cycles > self.measured.cycles * APART)
        return tuple(cycles / divisor for cycles in slower)

    def per_instruction(self, counter: str) -> Fraction | None:
        """Return a counter's value per instruction, None if it was not counted."""
        return self.measured.each(counter)


@dataclass
class Search:
    """Looks for the fastest sequence of a variant: what was measured so far, unrolled and in a loop.

    - `balanced`: unrolled sequences leave the stack as it was, since a clock runs them in a loop, too.
    - `floor`: the least cycles per instruction that `limit` allows (0: nothing is known).
    - `mistakes`: sequences that were slower when measured again, with the cycles per instruction of the second time.
    """

    factory: ThroughputFactory
    kind: ValueKind
    form: Form = Form.PLAIN
    balanced: bool = False
    unrolled: list[Sequence] = field(default_factory=list)
    looped: list[Sequence] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    floor: Fraction = Fraction(0)
    limit: Floor = Floor.PORTS
    mistakes: list[tuple[Sequence, Fraction]] = field(default_factory=list)

    def shape(self, count: int, *, breakers: bool = False, balanced: bool = False) -> SequenceShape:
        """Return a shape of this search."""
        balanced = balanced or self.balanced
        return SequenceShape(count, breakers, self.form, balanced, self.kind)

    def best(self) -> Sequence | None:
        """Return the fastest unrolled sequence (of equals the first), None if there is none."""
        return self.least(self.unrolled)

    def least(self, sequences: collections_abc.Sequence[Sequence]) -> Sequence | None:
        """Return the fastest of some sequences that are possible; if none is, the longest was measured best."""
        possible = [one for one in sequences if not self.is_too_fast(one) and self.again(one) is None]
        longest = [one for one in sequences if one.shape.count == LONG]
        among = possible or longest or sequences
        least = min((one.cycles for one in among), default=Fraction(0))
        # Of equally fast sequences, always the same one goes into a loop
        return next((one for one in among if one.cycles * FASTER <= least), None)

    def again(self, sequence: Sequence) -> Fraction | None:
        """Return what an instruction took when the sequence was measured again (None: it came out again)."""
        return next((cycles for one, cycles in self.mistakes if one is sequence), None)

    def is_too_fast(self, sequence: Sequence) -> bool:
        """Whether a sequence seems to be faster than is possible."""
        return bool(self.floor) and sequence.cycles < self.floor * FASTER

    def measure(
        self, shapes: collections_abc.Sequence[SequenceShape], want: Want, *, loop: bool = False
    ) -> Procedure[None]:
        """Measure sequences; what cannot be generated or does not run is noted as a failure."""
        requests: list[tuple[SequenceShape, Request]] = []
        for shape in shapes:
            try:
                requests.append((shape, Request(self.factory.sequence(shape), want, loop)))
            except (GenerationError, EncodingError) as error:
                self.failures.append(NotGenerated(error.message))
        if not requests:
            return
        answers = yield [request for _, request in requests]
        for (shape, _), measured in zip(requests, answers, strict=True):
            if measured.ok and measured.cycles > 0:
                (self.looped if loop else self.unrolled).append(Sequence(shape, measured))
            else:
                self.failures.append(NotRun(Code.SEQUENCE, measured.status, measured.detail))


def search_unrolled(search: Search, bound: Fraction | None, want: Want) -> Procedure[None]:
    """Measure unrolled sequences until one reaches `bound` (None: unknown) or more bring nothing."""
    yield from _search_lengths(search, bound, want)
    if search.unrolled and not _reached(search, bound):
        for others in (search.factory.waiting_less, search.factory.elsewhere):
            best = search.best()
            assert best is not None
            yield from _try(search, others(best.shape))
    best = search.best()
    if best is not None and search.is_too_fast(best):
        yield from _try(search, [replace(best.shape, count=LONG)])


def _search_lengths(search: Search, bound: Fraction | None, want: Want) -> Procedure[None]:
    if not search.unrolled:
        yield from search.measure([search.shape(LENGTHS[0])], want)
    if _reached(search, bound) or not search.unrolled:
        return
    if search.factory.carried():
        yield from search.measure([search.shape(LENGTHS[0], breakers=True)], Want.CYCLES)
        if not _reached(search, bound) and search.factory.carried() & STATUS_FLAGS:
            yield from _try(search, [replace(search.shape(LENGTHS[0], breakers=True), idiom=True)])
        if _reached(search, bound) or (yield from _thin(search, bound)):
            return
    longest = search.factory.even(LENGTHS[4])
    for counts in ((LENGTHS[1], longest), LENGTHS[2:4]):
        best = search.best()
        assert best is not None
        before = best.cycles
        yield from search.measure([replace(best.shape, count=count) for count in counts], Want.CYCLES)
        after = search.best()
        if _reached(search, bound) or after is None or after.cycles >= before * FASTER:
            return
        if after.shape.count == longest and search.factory.own(search.factory.instances(after.shape)[0]):
            yield from _renew(search, after)
            return


def _try(search: Search, shapes: collections_abc.Sequence[SequenceShape], *, loop: bool = False) -> Procedure[None]:
    """Measure sequences that may be impossible: what cannot be generated or does not run is no failure."""
    failures = list(search.failures)
    yield from search.measure(shapes, Want.CYCLES, loop=loop)
    search.failures[:] = failures


def _thin(search: Search, bound: Fraction | None) -> Procedure[bool]:
    """Measure with fewer breakers where these take time; return whether that is faster.

    Instances between two breakers wait for each other. But other groups run beside them: if the scheduler holds enough
    groups, the ports are always busy, and breakers take little of their time. ADC on Haswell takes 0.75 cycles with
    TEST after each, and 0.53 after every eighth; its ports allow 0.50.
    """
    begin = search.best()
    if begin is None or not begin.shape.breakers:
        return False
    best = begin
    for every in FEWER_BREAKERS:
        yield from search.measure([replace(begin.shape, count=max(LENGTHS[0], every), every=every)], Want.CYCLES)
        faster = search.best()
        assert faster is not None
        if _reached(search, bound) or faster.cycles >= best.cycles * FASTER:
            break
        best = faster
    return search.best() is not begin


def _renew(search: Search, longest: Sequence) -> Procedure[None]:
    """Measure a sequence that renews its registers, where the longest sequence is the fastest.

    The longest may still wait for registers: merge-masked VDIVPH, with a latency of 32 cycles, has too few of them.
    Breakers renew registers, so that these can be used again at once and a few suffice.
    """
    yield from _try(search, [replace(longest.shape, count=LENGTHS[0], renewed=True)])


def search_loop(search: Search) -> Procedure[None]:
    """Measure the fastest unrolled sequence in a loop."""
    best = search.best()
    if best is not None:
        shape = replace(best.shape, balanced=True)
        yield from search.measure([shape], Want.CYCLES, loop=True)
        yield from search_others(search, best, loop=True)
        if search.looped and all(map(search.is_too_fast, search.looped)):
            yield from _try(search, [replace(shape, count=LONG)], loop=True)


def confirm(search: Search, bound: Fraction | None) -> Procedure[None]:
    """Measure the fastest unrolled sequence in a longer window if it is slower in a loop and not what ports allow.

    Code that executes in bursts makes time a staircase over the number of copies. An example: on a model of Golden Cove
    the µops of VDIVPH take turns on port 0, and each step is 40 cycles high. So the difference of 10 and 110 copies is
    wrong by up to a step, and the least of all sequences has the luckiest error. A loop goes through thousands of
    instances. If the longer window agrees with the loop, no faster sequence counts.

    On a clock the ends of short windows look fast. On Zen 4 PSHUFW alone takes 0.28 cycles, and 0.33 in any loop, as
    its three pipes allow. A longer window that leaves the µop cache is slower than the loop, so it says nothing.
    """
    best, looped = search.best(), search.least(search.looped)
    if best is None or looped is None or looped.cycles <= best.cycles * SLOWER or _reached(search, bound):
        return
    repeats = max(2, WINDOW // best.shape.count)
    yield from search.measure([replace(best.shape, repeats=repeats)], Want.CYCLES)
    times = [looped.cycles, *(one.cycles for one in search.unrolled if one.shape.repeats > 1)]
    if len(times) > 1 and max(times) <= min(times) * SLOWER:
        search.floor, search.limit = max(search.floor, min(times)), Floor.LONG_RUNS


def settle(search: Search, beside: collections_abc.Iterable[Sequence | None] = ()) -> Procedure[None]:
    """Measure the fastest sequence again if no other one comes near it; it does not count if it is slower then.

    The least of many times is a clock's luckiest mistake. On Zen 4 CMOVS from memory took 0.19 cycles in a sequence
    that was disturbed, and 0.50 in all others. Counters make no such mistakes.

    Args:
        search: what was measured.
        beside: sequences of the plain form: another form may be as fast as they are.
    """
    if not search.balanced:
        return
    for sequences, loop in ((search.unrolled, False), (search.looped, True)):
        for _ in range(MOST_MISTAKES):
            best = search.least(sequences)
            others = [*search.unrolled, *search.looped, *filter(None, beside)]
            if best is None or _comes_again(search, best, others):
                break
            count = len(sequences)
            yield from _try(search, [replace(best.shape, repeats=2 * best.shape.repeats)], loop=loop)
            if len(sequences) == count or sequences[-1].cycles <= best.cycles * AGAIN:
                break
            search.mistakes.append((best, sequences[-1].cycles))


def _comes_again(search: Search, best: Sequence, others: collections_abc.Iterable[Sequence]) -> bool:
    """Whether another sequence took about as long as the best one."""
    near = (one for one in others if max(one.cycles, best.cycles) <= AGAIN * min(one.cycles, best.cycles))
    return any(one is not best and search.again(one) is None for one in near)


def search_others(search: Search, plain: Sequence | None, *, loop: bool = False) -> Procedure[None]:
    """Measure sequences of other lengths if another form is slower than the plain one.

    A length that just fills the ports settles in one of several rhythms. On Zen 5 eight instances of a multiplication,
    with a latency of 4 on two ports, take 0.50 to 0.57 cycles each, another number in each run.
    """
    least = search.least(search.looped if loop else search.unrolled)
    if plain is not None and least is not None and least.cycles > plain.cycles * SLOWER:
        counts = OTHER_COUNTS if search.form is Form.SAME_REGISTER else map(search.factory.even, OTHER_COUNTS)
        others = [count for count in dict.fromkeys(counts) if count != least.shape.count]
        yield from search.measure([replace(least.shape, count=count) for count in others], Want.CYCLES, loop=loop)


def search_as_plain(search: Search, plain: Sequence | None) -> Procedure[None]:
    """Measure another form in the unrolled sequence that was fastest for the plain one, breakers and all.

    Instances of both forms may wait for the same things, flags for example.
    """
    if plain is None:
        return
    shape = replace(plain.shape, form=search.form, kind=search.kind)
    if all(one.shape != shape for one in search.unrolled):
        yield from search.measure([shape], Want.CYCLES)


def search_form_in_loop(search: Search, plain: Sequence | None, plain_loop: Sequence | None) -> Procedure[None]:
    """Measure another form in the loop that was fastest for the plain one, and confirm that it is faster."""
    best = search.best()
    if best is None or plain is None or plain_loop is None:
        return
    shape = replace(plain_loop.shape, form=search.form, kind=search.kind)
    yield from search.measure([shape], Want.CYCLES, loop=True)
    yield from search_others(search, plain_loop, loop=True)
    if search.form is Form.INDEXED and plain.cycles > best.cycles * SLOWER:
        yield from confirm(search, None)


def differ(one: Sequence | None, other: Sequence | None) -> bool:
    """Whether two sequences take clearly different times."""
    if one is None or other is None:
        return False
    return max(one.cycles, other.cycles) > SLOWER * min(one.cycles, other.cycles)


def _reached(search: Search, bound: Fraction | None) -> bool:
    best = search.best()
    return best is not None and bound is not None and best.cycles <= bound * REACHED


def derivation_of(quantity: str, sequences: collections_abc.Sequence[Sequence], search: Search) -> Derivation:
    """Say which sequences there were and which was the fastest."""
    steps: list[Step] = [
        SequenceTime(
            one.measured.request.benchmark.purpose,
            one.measured.cycles,
            one.measured.request.benchmark.divisor,
            search.again(one) or (search.floor if search.is_too_fast(one) else None),
            search.limit if search.again(one) is None else Floor.AGAIN,
            tuple(cycles * one.measured.request.benchmark.divisor for cycles in one.rhythms),
        )
        for one in sequences
    ]
    counts = search.least(sequences)
    if len(steps) > 1 and counts is not None:
        steps.append(Chosen(counts.cycles, least=counts.cycles == min(one.cycles for one in sequences)))
    return Derivation(quantity, tuple(steps), tuple(one.measured.request.benchmark.id for one in sequences))


def rounded_count(value: Fraction | None) -> int | None:
    """Return a µop count as an integer, None if there is none or if it is not near an integer."""
    if value is None or abs(value - round(value)) > WHOLE_COUNT:
        return None
    return round(value)
