"""How an instruction is decoded: µops from the decoders, and which decoders take it.

**µops** are counted in code that no µop cache holds (`generator.sequences.decoding`), without the NOPs in it.

**Decoders** are found by time. Let each instance stand before n NOPs, and let D decoders work per cycle:

- Any decoder can decode it: D instructions are decoded per cycle. A further NOP takes 1/D cycle.
- Only the first decoder can decode it: it begins a group, and s other decoders work in that cycle. The last group
  before the next instance stays incomplete. So further NOPs take no time until a new group begins, which takes a whole
  cycle: 1 + ceil((n - s) / D) cycles.

So D/2 further NOPs take half a cycle in the first case, and zero or one in the second. The number of NOPs at which the
time steps up gives s. There are enough NOPs to make decoding the bottleneck.

A full reorder buffer looks the same. It stops issue until an instance retires, and then issue starts again, like a
decode group. So such an instruction is compared with a chain of instructions that any decoder can decode. The chain has
the latency of the instance between LFENCEs:

    MOV EAX, 1; IMUL RAX, RAX; IMUL RAX, RAX; NOP; NOP; ... NOP      no longer than its slots: the buffer holds it

A counter of decoded µops shows that the µops come from the decoders. Without that counter, the method is used only on
cores that are known to have such decoders (Intel's large cores), and the result is marked as found by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.operands.allocation import has_plain_address
from generator.sequences.decoding import (
    counted,
    fenced,
    fenced_chain,
    grouped,
    least_nops,
    moves_addresses,
    nops_alone,
    prologue_counted,
    slow_chains,
)
from generator.sequences.throughput import ThroughputFactory, same_register_operands
from inference.experiment import Procedure, Request, Want
from inference.throughput import rounded_count
from results.findings import BufferFull, DecodedCount, DecoderGroups, Decoders, DecodersFound, NopTime
from results.model import Derivation, Form, Step
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from inference.builder import ConclusionBuilder
    from inference.context import Context
    from inference.experiment import Measured

COMPLEX, SIMPLE = "complex_decoder", "available_simple_decoders"
BY_TIME = "decoders_by_time"
"""This attribute marks decoders that were found by time alone."""

MITE, MICROCODE, SLOTS, EXECUTED = "uops_MITE", "uops_MS", "uops_retire_slots", "uops_executed"

COUNTERS = (MITE, MICROCODE, SLOTS, EXECUTED)
"""Counters that are read in code with NOPs."""

NEAR = Fraction(1, 25)
"""Cycles per instance by which a time may be off. Six decoders that wait for predecoded NOPs differ from one that
begins a group by 0.06 cycles."""

SHARED = Fraction(1, 8)
"""Cycles by which the time of NOPs may be off: Haswell's last decoder takes nothing that could fuse."""

MOST_NOPS = 120
"""NOPs per instance, at most: with more of them a reorder buffer (Nehalem's has 128 entries) holds no second instance.
Then issue stops for each, and begins anew like a group of decoders."""

WAITS = 8
"""Core cycles that the microcode sequencer takes at most to begin and to end, beyond one per µop."""

CHAINS = 4, 12
"""Links of two chains between LFENCEs, whose times tell what a link takes."""

STALL = Fraction(1, 2)
"""Cycles by which a chain with NOPs may be longer than its slots need: the least stall is a cycle."""

JUMPS = ("COND_BR", "UNCOND_BR", "CALL", "RET")
"""Categories of instructions that end a group of decoders: times do not tell whether they also have to begin one."""

MORE = Fraction(3, 2)
"""Factor: decoding has to take this many times as long as everything else, so that nothing else limits the time."""

WIDEST = 8
"""Decoders that a core has at most."""

UNKNOWN = DecodersFound(Decoders.UNKNOWN)


@dataclass(frozen=True, slots=True)
class DecodedCounts:
    """The counts of a form, by counter: µops per instance (None: no whole number)."""

    counts: dict[str, int | None]
    derivation: Derivation


def measure_decoding(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude how many µops the decoders make of each form, and which decoders take it."""
    counts = MITE in context.counters
    if found.first is None or not (counts or context.first_decoder):
        return
    factory = ThroughputFactory(context.instructions, found.variant)
    if context.loops_only and moves_addresses(factory):
        return
    (nops,) = yield [Request(nops_alone(factory.instructions), Want.ALL)]
    if not nops.ok or not nops.cycles:
        return
    if not counts:
        yield from _decoders(found, factory, Form.PLAIN, nops, context.counters)
        if COMPLEX in found.attributes:
            found.attributes[BY_TIME] = 1
        return
    plain = yield from _counted(factory, Form.PLAIN, nops)
    if plain is None:
        return
    _note(found, plain, Form.PLAIN)
    yield from _decoders(found, factory, Form.PLAIN, nops, context.counters)
    for form in _others(found):
        other = yield from _counted(factory, form, nops)
        if other is not None and other.counts != plain.counts:
            _note(found, other, form)
        if other is not None and (form is Form.SAME_REGISTER or other.counts[MITE] != plain.counts[MITE]):
            yield from _decoders(found, factory, form, nops, context.counters)


def _others(found: ConclusionBuilder) -> list[Form]:
    """Return the other forms that a variant has."""
    forms = []
    if same_register_operands(found.variant):
        forms.append(Form.SAME_REGISTER)
    if has_plain_address(found.variant):
        forms.append(Form.INDEXED)
    return forms


def _counted(factory: ThroughputFactory, form: Form, alone: Measured) -> Procedure[DecodedCounts | None]:
    """Count the µops of a form among NOPs, without those of the NOPs and of an instance's prologue."""
    try:
        benchmark, nops = counted(factory, form)
        requests = [Request(benchmark, Want.ALL)]
        beside = 0
        if factory.has_prologue:
            prologue, beside = prologue_counted(factory)
            requests.append(Request(prologue, Want.ALL))
    except (GenerationError, EncodingError):
        return None
    measured = yield requests
    if not all(one.ok for one in measured):
        return None
    counts = {name: rounded_count(_without(name, measured, (nops, beside), alone)) for name in COUNTERS}
    step = DecodedCount(measured[0].values.get(MITE, Fraction(0)), nops, counts[MITE])
    return DecodedCounts(counts, Derivation(f"{MITE}{form.suffix}", (step,), (benchmark.id,)))


def _without(name: str, measured: Sequence[Measured], nops: tuple[int, int], alone: Measured) -> Fraction | None:
    """Return a counter's value per instance, without NOPs and prologue."""
    each = alone.each(name)
    if each is None or any(name not in one.values for one in measured):
        return None
    rest = [one.values[name] - each * count for one, count in zip(measured, nops, strict=False)]
    return rest[0] - sum(rest[1:])


def _note(found: ConclusionBuilder, decoded: DecodedCounts, form: Form) -> None:
    """Note the counts of a form. A count below that of the NOPs alone is no count: some µops came from elsewhere."""
    found.derivations.append(decoded.derivation)
    for name, count in decoded.counts.items():
        known = form is Form.PLAIN and (name == EXECUTED or (name == SLOTS and name in found.attributes))
        if count is None or count < 0 or known:
            continue
        found.attributes[f"{'uops' if name == EXECUTED else name}{form.suffix}"] = count


def _decoders(
    found: ConclusionBuilder, factory: ThroughputFactory, form: Form, alone: Measured, counters: Container[str]
) -> Procedure[None]:
    """Find out which decoders take a form, and note it."""
    assert found.first is not None
    width = ceil(1 / alone.cycles_each - NEAR)
    if found.variant.category in JUMPS or not 2 <= width <= WIDEST:
        return
    try:
        least = max(least_nops(factory, form), width * ceil(found.first.cycles + 1))
    except (GenerationError, EncodingError):
        return
    timing = DecodingTimes(factory, form, width, alone.cycles_each, base=width * -(-least // width))
    if timing.base > MOST_NOPS:
        return
    yield from timing.search()
    conclusion = timing.conclusion
    steps: list[Step] = [DecoderGroups(timing.steps(), width, counted=MITE in counters)]
    if conclusion.which is Decoders.FIRST and not timing.may_be_decoding(found.attributes.get(MICROCODE, 0)):
        conclusion = UNKNOWN
    if conclusion.which is Decoders.FIRST:
        stall = yield from _stall(factory, form, timing.base, alone.cycles_each)
        if stall is None or stall.cycles > stall.slots_cycles + STALL:
            conclusion = UNKNOWN
        steps += [stall] if stall is not None else []
    derivation = Derivation(f"{COMPLEX}{form.suffix}", (*steps, conclusion), timing.experiments())
    _note_decoders(found, form, conclusion, derivation)


def _note_decoders(found: ConclusionBuilder, form: Form, conclusion: DecodersFound, derivation: Derivation) -> None:
    """Note which decoders take a form; another form is noted only if they are not those of the plain one."""
    if conclusion.which is not Decoders.UNKNOWN:
        first = conclusion.which is Decoders.FIRST
        known = {COMPLEX: 1, SIMPLE: conclusion.simple} if first else {COMPLEX: 0}
        plain = {name: found.attributes[name] for name in (COMPLEX, SIMPLE) if name in found.attributes}
        if form is not Form.PLAIN and known == plain:
            return
        found.attributes.update({name + form.suffix: value for name, value in known.items()})
    found.derivations.append(derivation)


def _stall(factory: ThroughputFactory, form: Form, nops: int, each: Fraction) -> Procedure[BufferFull | None]:
    """Time a chain that lasts as long as an instance, with NOPs; None if that could not be measured.

    There are as many NOPs as beside an instance, and more where the links take longer on their port than the slots: a
    cycle each. Else the port would look like a full buffer.
    """
    short, long = CHAINS
    alone = [Request(fenced_chain(factory.instructions, links)) for links in CHAINS]
    one, *chains = yield [Request(fenced(factory, form)), *alone]
    if not (one.ok and all(chain.ok for chain in chains)) or chains[1].cycles <= chains[0].cycles:
        return None
    link = (chains[1].cycles - chains[0].cycles) / (long - short)
    links = max(1, short + ceil((one.cycles - chains[0].cycles) / link))
    nops = max(nops, ceil(links / each) - 1 - links)
    (measured,) = yield [Request(slow_chains(factory.instructions, links, nops))]
    if not measured.ok:
        return None
    return BufferFull(links, nops, measured.cycles_each, (1 + links + nops) * each)


@dataclass(slots=True)
class DecodingTimes:
    """Times of instances with NOPs, and the decoders that they show.

    - `width`: how many decoders there are.
    - `nop`: cycles that a NOP takes.
    - `base`: NOPs per instance at least, a multiple of the width.
    - `times`: what was measured, by the number of NOPs per instance.
    """

    factory: ThroughputFactory
    form: Form
    width: int
    nop: Fraction
    base: int
    times: dict[int, Measured] = field(default_factory=dict)
    conclusion: DecodersFound = UNKNOWN

    def search(self) -> Procedure[None]:
        """Time instances with more and more NOPs until the times show the decoders; keep those of the last attempt."""
        nops = self.base
        while nops <= MOST_NOPS and self.conclusion.which is Decoders.UNKNOWN:
            self.base, self.times = nops, {}
            self.conclusion = yield from self._find()
            nops = self.width * ceil(max(self.cycles(0) or 0, Fraction(nops, self.width)) * MORE)

    def may_be_decoding(self, microcoded: int) -> bool:
        """Whether an instance of so many µops of microcode can be what begins a group.

        Nothing is decoded beside microcode. And an instruction that takes longer than its NOPs waits for something.
        """
        most = Fraction(self.base, self.width) + 2 + (microcoded + WAITS if microcoded else 0)
        return not (microcoded and self.conclusion.simple) and (self.cycles(0) or 0) <= most

    def _find(self) -> Procedure[DecodersFound]:
        """Return which decoders take the instruction, as far as instances with about `base` NOPs show it.

        From `base` on the step is searched by bisection; it follows s more NOPs. If there is none among the next ones,
        all other decoders work beside the first, if a whole group more takes a cycle.
        """
        low, high = 0, self.width - 1
        yield from self._measure(low, high)
        begin, end = self.cycles(low), self.cycles(high)
        if begin is None or end is None:
            return UNKNOWN
        more = end - begin
        if abs(more) < NEAR:
            yield from self._measure(self.width)
            after = self.cycles(self.width)
            decoding = after is not None and abs(after - begin - 1) < NEAR
            return DecodersFound(Decoders.FIRST, high) if decoding else UNKNOWN
        if abs(more - 1) >= NEAR:
            return DecodersFound(Decoders.ANY) if abs(more - high * self.nop) < SHARED else UNKNOWN
        while high - low > 1:
            middle = (low + high) // 2
            yield from self._measure(middle)
            between = self.cycles(middle)
            if between is None or min(abs(between - begin), abs(between - end)) >= NEAR:
                return UNKNOWN
            if abs(between - begin) < NEAR:
                low = middle
            else:
                high = middle
        return DecodersFound(Decoders.FIRST, low)

    def steps(self) -> tuple[NopTime, ...]:
        """Return the times for a derivation."""
        return tuple(NopTime(nops, one.cycles_each) for nops, one in sorted(self.times.items()))

    def experiments(self) -> tuple[str, ...]:
        """Return the ids of what was measured."""
        return tuple(one.request.benchmark.id for _, one in sorted(self.times.items()))

    def _measure(self, *more: int) -> Procedure[None]:
        numbers = [self.base + one for one in more]
        requests = [Request(grouped(self.factory, self.form, nops), Want.CYCLES) for nops in numbers]
        answers = yield requests
        self.times.update((nops, one) for nops, one in zip(numbers, answers, strict=True) if one.ok)

    def cycles(self, more: int) -> Fraction | None:
        """Return the cycles per instance with `more` NOPs than `base`."""
        measured = self.times.get(self.base + more)
        return None if measured is None else measured.cycles_each
