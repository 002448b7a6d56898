"""The port usage of a variant by time alone: from mixes with blocking instructions of a machine's basic sets.

1. One instance alone shows how long it waits for itself. Among filler it shows its issue slots.
2. The largest sets are blocked, which shows the µops of each component; then the sets that tell hypotheses apart.
3. A usage is stated if one hypothesis is left and both strengths agree. Each slot has to be accounted for, the
   throughput has to allow it, and its sets have to be known for its kind of registers. Else several usages are named,
   or bounds, or what could not be explained.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, combinations, combinations_with_replacement, product
from math import ceil, floor, isqrt, prod
from statistics import median
from typing import TYPE_CHECKING

from generator.sequences.blocking import is_wide, kind_of, register_files
from generator.support.prologue import extra_code_of
from inference.ports.by_time.hypotheses import Hypothesis, PortComponent, UopBounds, components
from inference.ports.by_time.members import MEMORY, SHARES, domains
from inference.ports.by_time.mixes import (
    FARTHEST,
    MANY,
    ROUNDING,
    SHORT_CHAIN,
    WAITS,
    Asked,
    MixFactory,
    Question,
    ask,
    cycles_of,
    issue_rate,
    strengths,
    undisturbed,
)
from inference.ports.infer import MOST_NAMED, PortConclusion
from results.findings import (
    Blocked,
    Confined,
    Delays,
    Indistinguishable,
    ManyInstances,
    Note,
    NotGenerated,
    OnlyBounds,
    PortAnswer,
    Remark,
    SequenceTime,
    SlotsFound,
    TooNoisy,
    Unexplained,
    Unplaced,
)
from results.model import PortUsage
from results.ports import confined, throughput_of
from xed_convert.errors import UopscopeError
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from generator.sequences.blocking import CodeKind
    from inference.experiment import Procedure, Request
    from inference.ports.by_time.machine import TimedMachine, TimedSet
    from results.model import Failure, Step
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

FURTHER_MIXES, FURTHER_STEP = 6, 2
"""If two mixes with filler do not settle the number of slots, there are so many further ones. Each has so many lines
more than the one before. Eight mixes are half as noisy as two."""

STARTS_FASTER = Fraction(1, 3)
"""Slots that a mix may seem to lack. On uops.info's Haswell, short loops get faster when the loop buffer takes over.
There an instruction of two slots seems to have 1.67."""

FIRST_FILLER_CYCLES, FILLER_CYCLES = 4, 2
"""Cycles that filler takes beyond the instruction's own chain, and that the second mix takes beyond the first. Loops of
fewer cycles are issued unevenly: on uops.info's Haswell, 13 lines take 3.5 cycles, and 17 take 4.25."""

MOST_ROUNDS = 12
"""Rounds of questions, each about one set of every component that is not settled, to bound the work."""

SLOWER = Fraction(103, 100)
"""Factor: a usage is wrong if its ports need more than so many times the measured time. 3 % is the most that noise is
taken to be."""

UOPS_OF_SLOT = 4
"""µops that one slot may stand for if there is a memory operand or a wide vector: two halves, each loaded and
computed."""

UOPS_OF_PAIR = 2
"""µops that one slot holds at most, if each is no half of a wide vector (Intel optimization manual, micro-fusion)."""

UOPS_OF_STORE = 2
"""µops of a store: its address and its value. Haswell issues both in one slot, and nothing else has the ports of the
former."""

SPLIT_BITS = 256
"""Width of vectors that cores may execute in two halves: vector units are 128 bits wide at least."""

UNPIPELINED = Fraction(3, 2)
"""What takes so many times as long as its ports need is not pipelined: it may keep one port busy for cycles."""

MOST_COMBINED = 4096
"""Combinations of the components' hypotheses that are looked at, to bound the work."""

LONGEST_CHAIN = 40
"""Cycles. An instruction with a longer chain leaves blocked ports too much time."""


@dataclass
class TimedProbe:
    """What is known of one variant so far."""

    machine: TimedMachine
    variant: InstructionVariant
    cycles: Fraction
    parts: list[PortComponent]
    chain: Fraction = Fraction(0)
    slots: int | None = None
    most_slots: int = 1
    filled: list[tuple[int, Fraction]] = field(default_factory=list)
    asked: dict[PortSet, Asked] = field(default_factory=dict)
    bounds: dict[PortSet, UopBounds] = field(default_factory=dict)
    delayed: set[PortSet] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    experiments: list[str] = field(default_factory=list)

    @property
    def kind(self) -> CodeKind:
        """The kind of code that it may stand in."""
        return kind_of(self.variant)

    @property
    def least_filler(self) -> int:
        """How much filler is issued for longer than the instruction waits for itself."""
        return self.machine.width * (ceil(self.chain) + FIRST_FILLER_CYCLES)

    @property
    def has_halves(self) -> bool:
        """Whether it may have two µops where a narrower form has one: vectors may be wider than a port."""
        return any((operand.width_bits or 0) >= SPLIT_BITS for operand in self.variant.operands if operand.registers)

    @property
    def is_split(self) -> bool:
        """Whether a slot may hold several µops."""
        return self.has_halves or any(operand.memory is not None for operand in self.variant.operands)

    @property
    def most_uops(self) -> int:
        """How many µops it can have at most."""
        return self.most_slots * UOPS_OF_SLOT if self.is_split else self.most_slots

    def most_on(self, ports: PortSet) -> int:
        """Return how many µops it can have on ports that hang together: one of each slot, or two halves of a vector."""
        (part,) = (part for part in self.parts if ports in part.basic)
        return self.most_slots * (2 if self.has_halves and any(one.takes_vectors for one in self.sets_of(part)) else 1)

    def sets_of(self, part: PortComponent) -> list[TimedSet]:
        """Return the basic sets of a component."""
        return [one for one in self.machine.sets if one.ports in part.basic]

    def tightened(self) -> dict[PortSet, UopBounds]:
        """Return the bounds of all sets: µops of a set are in all that it lies in, too."""
        return {
            ports: UopBounds(
                max(other.least for inner, other in self.bounds.items() if inner <= ports),
                min(other.most for outer, other in self.bounds.items() if ports <= outer),
            )
            for ports in self.bounds
        }

    def is_told(self, part: PortComponent) -> bool:
        """Whether answers say how many µops are confined to the sets of a component.

        It may delay what has one of these for longer than by its µops. All is told nevertheless of a 512-bit one
        that has both halves of each slot confined to a smaller set.
        """
        if not self.delayed.intersection(part.basic):
            return True
        known = [(ports, self.bounds[ports]) for ports in part.basic if ports in self.bounds]
        return is_wide(self.variant) and any(one.least == one.most == self.most_on(ports) for ports, one in known)

    def is_likely(self, one: TimedSet) -> bool:
        """Whether instructions with this set have its registers, or memory as it does."""
        own = domains(self.variant)
        return MEMORY in own if one.is_of_memory else not own.isdisjoint(one.files)

    def askable(self) -> dict[PortSet, TimedSet]:
        """Return the basic sets that can be blocked in its kind of code."""
        return {one.ports: one for one in self.machine.sets if self.kind in one.blockers}

    def question(self, one: TimedSet) -> Question:
        """Return the question how many of its µops are confined to a set."""
        size = len(one.ports)
        counts = strengths(size, self.machine.width, self.most_slots, self.chain)
        return Question(self.variant, one.blockers[self.kind], size, counts, self.chain, self.cycles)

    def take(self, ports: PortSet, asked: Asked) -> None:
        """Take in the answer about a set."""
        self.asked[ports] = asked
        answer = asked.answer
        if answer is None:
            return
        self.experiments += asked.experiments
        blocker = asked.question.blocker.string
        self.steps += [
            PortAnswer(
                self.machine.public(ports),
                (Blocked(count, blocker),),
                cycles * len(ports),
                count,
                timed=True,
                most=None if answer.uops is not None else answer.most,
            )
            for count, cycles in asked.times
        ]
        self.steps += [
            ManyInstances(
                self.machine.public(ports), Blocked(many.blockers, blocker), many.instances, many.cycles * len(ports)
            )
            for many in asked.many
        ]
        most = min(answer.most, self.most_on(ports))
        if most < (answer.most if answer.uops is None else answer.uops):
            # Ports stand still for a cycle, as if each had a µop: on Zen 4 for a vector's way to a general register
            self.bounds[ports] = UopBounds(0, most)
            if answer.uops is not None:
                self.delayed.add(ports)
        elif answer.uops is not None and answer.is_exact(self.chain):
            self.bounds[ports] = UopBounds(answer.uops, answer.uops)
        elif self.chain <= SHORT_CHAIN and (answer.bound is None or SHARES < answer.bound <= most + WAITS):
            # What waits for much longer than its µops take waits for something else, and may have none there
            waits = min(answer.values) > SHARES and max(answer.values) <= most + WAITS
            self.bounds[ports] = UopBounds(min(most, int(waits)), most)
        else:
            self.bounds[ports] = UopBounds(0, most)


def infer_by_time(
    machine: TimedMachine, mixes: MixFactory, variant: InstructionVariant, cycles: Fraction
) -> Procedure[PortConclusion]:
    """Infer the port usage of a variant; `cycles` is its measured reciprocal throughput in core cycles."""
    if machine.is_noisy:
        return PortConclusion(None, TooNoisy(machine.off))
    parts = components(one.ports for one in machine.sets)
    probe = TimedProbe(machine, variant, cycles, parts)
    extra = extra_code_of(variant)
    if extra is not None and extra.repeated:
        return PortConclusion(
            None, NotGenerated("it runs only with other code beside it, and time does not tell their ports apart")
        )
    failure = yield from _alone(probe, mixes)
    if failure is not None:
        return PortConclusion(None, failure, tuple(probe.steps), tuple(probe.experiments))
    askable = probe.askable()
    yield from _ask_largest(probe, mixes, askable)
    for _ in range(MOST_ROUNDS):
        told = [part for part in parts if is_wide(variant) or probe.is_told(part)]
        wanted = [ports for part in told if (ports := _next(probe, part, askable)) is not None]
        if not wanted:
            break
        yield from _ask(probe, mixes, wanted)
    found = _conclude(probe)
    if isinstance(found.failure, Unplaced) and (yield from _among_more_filler(probe, mixes)):
        found = _conclude(probe)  # a slot without a µop may come from a disturbed time
    usage = found.failure.usage if isinstance(found.failure, Unplaced) else found.usage
    return found if usage is None else (yield from _part_of_set(probe, mixes, found, usage))


def _alone(probe: TimedProbe, mixes: MixFactory) -> Procedure[Failure | None]:
    """Find out how long an instance waits for itself, and how many slots it has."""
    try:
        (alone,) = yield [mixes.request([], probe.variant)]
        chain = cycles_of(alone)
        if chain is None:
            return Unexplained(())
        probe.chain = chain
        probe.experiments.append(alone.request.benchmark.id)
        if chain > LONGEST_CHAIN:
            return Unexplained((chain,))
        first = probe.least_filler
        has_run = yield from _among_filler(probe, mixes, (first, first + probe.machine.width * FILLER_CYCLES))
        if has_run and (probe.most_slots != probe.slots or not _shows_slots(probe)):
            has_run = yield from _among_more_filler(probe, mixes)
    except UopscopeError:
        return Unexplained(())
    return None if has_run else Unexplained(())


def _shows_slots(probe: TimedProbe) -> bool:
    """Whether all times among filler show the same number of slots, but for noise."""
    width = probe.machine.width
    values = [cycles * width - count for count, cycles in probe.filled]
    noise = probe.machine.noise * width * max(cycles for _, cycles in probe.filled)
    return max(values) - min(values) <= FARTHEST + noise


def _among_more_filler(probe: TimedProbe, mixes: MixFactory) -> Procedure[bool]:
    """Count slots among further filler, once; return whether all of it ran."""
    first = probe.least_filler + 1
    counts = range(first, first + FURTHER_MIXES * FURTHER_STEP, FURTHER_STEP)
    if {*counts} & {count for count, _ in probe.filled}:
        return True
    try:
        return (yield from _among_filler(probe, mixes, counts))
    except UopscopeError:
        return False


def _among_filler(probe: TimedProbe, mixes: MixFactory, counts: Iterable[int]) -> Procedure[bool]:
    """Count slots among so much filler; return whether all of it ran. Times are those of a front end of full width."""
    width, filler = probe.machine.width, probe.machine.filler
    pairs = [(count, mixes.among(filler, count, [], probe.variant)) for count in counts]
    answers = iter((yield [request for _, pair in pairs for request in pair]))
    measured = [(count, next(answers), undisturbed(issue_rate(next(answers), width), width)) for count, _ in pairs]
    times = [(count, c, rate) for count, one, rate in measured if (c := cycles_of(one)) is not None]
    if len(times) < len(pairs):
        return False
    probe.experiments += [request.benchmark.id for _, pair in pairs for request in pair]
    probe.steps += [SlotsFound(Blocked(count, filler.string), c, rate) for count, c, rate in times]
    probe.filled += [(count, c * rate / width) for count, c, rate in times]
    probe.slots, probe.most_slots = slots_among_filler(probe.filled, width, probe.machine.noise)
    return True


def slots_among_filler(times: Sequence[tuple[int, Fraction]], width: int, noise: Fraction) -> tuple[int | None, int]:
    """Return how many slots an instruction has among so much filler (None: that is not clear), and at most.

    But for noise and for what a loop's first copies take, no mix is issued faster than its slots allow. So the median
    of several is an upper bound, and one disturbed time among them decides nothing.
    """
    values = [cycles * width - count for count, cycles in times]
    center = median(values)
    slack = noise * width * max(cycles for _, cycles in times) * 100 / isqrt(10_000 * len(times))
    most = max(1, floor(center + slack + STARTS_FASTER))
    near = round(center)
    return (near if near >= 1 and abs(center - near) <= min(FARTHEST, ROUNDING + slack) else None), most


def _ask(probe: TimedProbe, mixes: MixFactory, sets: Iterable[PortSet]) -> Procedure[None]:
    askable = probe.askable()
    wanted = list(sets)
    answers = yield from ask(mixes, [probe.question(askable[ports]) for ports in wanted], probe.machine.noise)
    for ports, asked in zip(wanted, answers, strict=True):
        probe.take(ports, asked)


def _ask_largest(probe: TimedProbe, mixes: MixFactory, askable: Mapping[PortSet, TimedSet]) -> Procedure[None]:
    """Ask about the largest sets: first about those of its registers and memory, and others if slots are left.

    What has its µop of each slot on known sets has none elsewhere.
    """
    largest = [ports for ports in askable if not any(ports < other for other in askable)]
    likely = {ports for part in probe.parts if any(map(probe.is_likely, probe.sets_of(part))) for ports in part.basic}
    yield from _ask(probe, mixes, [ports for ports in largest if ports in likely])
    others = [ports for ports in largest if ports not in likely]
    least = [min(map(len, listed), default=0) for part in probe.parts if (listed := _hypotheses(probe, part))]
    if sum(least) < probe.most_uops or probe.delayed:
        yield from _ask(probe, mixes, others)
    elif others:
        probe.bounds |= dict.fromkeys(others, UopBounds(0, 0))
        probe.steps.append(Remark(Note.NO_SLOTS_LEFT))


def _hypotheses(probe: TimedProbe, part: PortComponent) -> list[Hypothesis] | None:
    total = sum(probe.bounds[top].most if top in probe.bounds else probe.most_uops for top in part.tops)
    return part.hypotheses(probe.bounds, min(total, probe.most_uops))


def _next(probe: TimedProbe, part: PortComponent, askable: Mapping[PortSet, TimedSet]) -> PortSet | None:
    """Return which set of a component to ask next, None if nothing more is to be learned."""
    left = [ports for ports in part.basic if ports in askable and ports not in probe.asked]
    if not left:
        return None
    hypotheses = _hypotheses(probe, part)
    if hypotheses is None:
        return max(left, key=lambda ports: (len(ports), sorted(ports)))
    fast = hypotheses
    if len(hypotheses) <= MOST_NAMED:
        slowest = probe.cycles * (SLOWER + probe.machine.noise)
        fast = [one for one in hypotheses if throughput_of(PortUsage(dict(part.usage(one)))) <= slowest]
    return part.tells_most(fast or hypotheses, left)


def _part_of_set(
    probe: TimedProbe, mixes: MixFactory, found: PortConclusion, usage: PortUsage
) -> Procedure[PortConclusion]:
    """Ask whether µops of a set are confined to two smaller ones together, which no other instruction may have.

    An example: on Skylake-X, 512-bit instructions use p05. Nothing else has that set, so they seem to have p015. If the
    throughput needs all ports of the larger set, there is nothing to ask. Else they have the smaller one if the mix
    takes longer than one with as many µops that are known to use the larger.
    """
    askable = probe.askable()
    planned: list[tuple[PortSet, PortSet, Request]] = []
    counts = {ports: usage.uops.get(probe.machine.public(ports), 0) for ports in askable}
    for whole in (ports for ports, count in counts.items() if count):
        inner = [ports for ports in askable if ports < whole]
        for one, other in combinations(inner, 2):
            if one & other or len(one | other) == len(whole) or probe.cycles * len(whole) <= counts[whole] * SLOWER:
                continue
            blockers = [(askable[each].blockers[probe.kind], MANY * len(each)) for each in (one, other)]
            known = (askable[whole].blockers[probe.kind], MANY * counts[whole])
            made = mixes.possible([([*blockers, (probe.variant, MANY)], None), ([*blockers, known], None)])
            planned += [(whole, one | other, request) for request in made]
    if not planned:
        return found
    measured = yield [one for *_, one in planned]
    times = [cycles_of(one) or Fraction(0) for one in measured]
    experiments = (*found.experiments, *(request.benchmark.id for *_, request in planned))
    steps = [
        *found.steps,
        *(SequenceTime(one[2].benchmark.purpose, time, MANY) for one, time in zip(planned, times, strict=True)),
    ]
    fitting = [
        (whole, part)
        for (whole, part, _), time, other in zip(planned[::2], times[::2], times[1::2], strict=True)
        if (time / MANY - 1) * len(part) > SHARES * counts[whole] and time > other * SLOWER
    ]
    if not fitting:
        return replace(found, steps=tuple(steps), experiments=experiments)
    usages = {str(usage): usage}
    for whole, part in fitting:
        uops = dict(usage.uops)
        count = uops.pop(probe.machine.public(whole))
        public = probe.machine.public(part)
        other_usage = PortUsage({**uops, public: uops.get(public, 0) + count})
        usages[str(other_usage)] = other_usage
    why = Indistinguishable(tuple(usages.values()))
    return replace(found, usage=None, failure=why, steps=tuple(steps), experiments=experiments)


def _conclude(probe: TimedProbe) -> PortConclusion:
    """Say what the answers amount to."""
    told = [part for part in probe.parts if probe.is_told(part)]
    halves = _of_halves(probe, told)
    possible = _possible(probe, told, halves or [_hypotheses(probe, part) for part in told])
    failure = _failure(probe, possible, is_certain=halves is not None or _is_certain(probe, told))
    usage = possible[0] if possible and failure is None else None
    return PortConclusion(usage, failure, tuple(probe.steps), tuple(probe.experiments), stage="by time")


def _failure(probe: TimedProbe, possible: list[PortUsage] | None, *, is_certain: bool) -> Failure | None:
    """Return why no usage can be stated (None: the only possible one can)."""
    answers = tuple(
        Confined(probe.machine.public(ports), bounds.most, exact=bounds.least == bounds.most)
        for ports, bounds in probe.bounds.items()
    )
    if possible is None or len(possible) > MOST_NAMED:
        return OnlyBounds(probe.most_slots, answers)
    if not possible:
        return Unexplained(_values(probe))
    delayed = tuple(probe.machine.public(top) for part in probe.parts if not probe.is_told(part) for top in part.tops)
    if len(possible) > 1 or not is_certain:
        named = sorted(possible, key=lambda usage: (usage.total, str(usage)))
        return OnlyBounds(probe.most_slots, answers) if delayed else Indistinguishable(tuple(named), 0, answers)
    if delayed:
        return Delays(delayed, possible[0])
    return doubt(probe, possible[0], answers)


def doubt(probe: TimedProbe, usage: PortUsage, answers: tuple[Confined, ...]) -> Failure | None:
    """Return why the only usage of known sets cannot be stated (None: it can)."""
    fewer = PortUsage({ports: min(count, probe.most_slots) for ports, count in usage.uops.items()})
    if probe.cycles > UNPIPELINED * throughput_of(usage):
        if fewer != usage:
            return Indistinguishable((fewer, usage), 0, answers)
        if usage.total != probe.slots and max(usage.uops.values(), default=0) > 1:
            # Several cycles of one µop look like several µops, unless each slot is accounted for
            bounds = (replace(one, exact=one.exact and one.uops <= 1) for one in answers)
            return OnlyBounds(probe.most_slots, tuple(bounds))
    alike = _of_parts(probe, usage)
    if alike is None or len(alike) > MOST_NAMED:
        return OnlyBounds(probe.most_slots, answers)
    if len(alike) > 1:
        return Indistinguishable(tuple(alike), 0, answers)
    is_whole = usage.total >= probe.most_slots and not _may_hide_uop(probe, usage)
    return None if is_whole else Unplaced(usage, probe.slots)


def _may_hide_uop(probe: TimedProbe, usage: PortUsage) -> bool:
    """Whether a slot may hold a µop that no mix shows, because nothing keeps its ports busy.

    A slot holds one µop that computes, or one of memory, or both; or a store's address and its value. So an address or
    value that no set shows may be in the slot of another µop. So may a µop that computes, if there are slots without
    one, and instructions of its register file are done more often than the file's sets allow. No mix of them is limited
    by such ports: issue limits it first.
    """
    of_memory = _uops_of_memory(probe, usage)
    if not of_memory and MEMORY not in domains(probe.variant):
        return False
    accessed = [one for one in probe.variant.operands if one.kind is OperandKind.MEMORY]
    if of_memory < sum(one.read + UOPS_OF_STORE * one.written for one in accessed):
        return True
    computing = usage.total - of_memory
    is_computing = computing == probe.most_slots
    is_full = usage.total == probe.most_slots * UOPS_OF_PAIR and computing < probe.most_slots
    files = domains(probe.variant) - {MEMORY}
    return not is_full and not is_computing and not (files and files <= probe.machine.blockable)


def _uops_of_memory(probe: TimedProbe, usage: PortUsage) -> int:
    """Return how many µops use ports that only instructions with memory have."""
    sets = [probe.machine.public(one.ports) for one in probe.machine.sets if one.is_of_memory]
    return sum(count for ports, count in usage.uops.items() if any(ports <= one for one in sets))


def _of_parts(probe: TimedProbe, usage: PortUsage) -> list[PortUsage] | None:
    """Return the usage, and those that have parts of its sets instead; None if there are too many.

    An instruction that is done once per port and cycle shows a set whole, but only for registers of its own file. In
    LLVM's model of Golden Cove x87 instructions load from two of the three ports that other loads have.
    """
    sets = [(ports, count) for ports, count in usage.uops.items() if len(ports) > 1 and not _is_shown(probe, ports)]
    choices = [list(combinations_with_replacement(_parts_of(ports), count)) for ports, count in sets]
    if prod(map(len, choices)) > MOST_COMBINED:
        return None
    same = {ports: count for ports, count in usage.uops.items() if ports not in dict(sets)}
    found = [PortUsage(dict(Counter(same) + Counter(chain(*chosen)))) for chosen in product(*choices)]
    return [one for one in found if one == usage or _agrees(probe, one)]


def _is_shown(probe: TimedProbe, ports: PortSet) -> bool:
    """Whether an instruction with registers of the same file has a basic set with these ports.

    Of what has neither registers nor memory nothing is known. On Haswell, conditional jumps are confined to p06, and
    those that are taken have p6 only.
    """
    files = register_files(probe.variant) - {"OTHER"}  # no µop computes in the instruction pointer
    if not files:
        return any(operand.kind is OperandKind.MEMORY for operand in probe.variant.operands)
    return any(
        ports <= probe.machine.public(one.ports) and not files.isdisjoint(one.files) for one in probe.machine.sets
    )


def _parts_of(ports: PortSet) -> list[PortSet]:
    """Return a set and all of its parts, larger ones first."""
    return [frozenset(part) for size in range(len(ports), 0, -1) for part in combinations(sorted(ports), size)]


def _agrees(probe: TimedProbe, usage: PortUsage) -> bool:
    """Whether a usage agrees with all answers and with the throughput."""
    within = (
        bounds.least <= confined(usage, probe.machine.public(ports)) <= bounds.most
        for ports, bounds in probe.bounds.items()
    )
    return all(within) and throughput_of(usage) <= probe.cycles * (SLOWER + probe.machine.noise)


def _possible(
    probe: TimedProbe, parts: Sequence[PortComponent], listed: Sequence[list[Hypothesis] | None]
) -> list[PortUsage] | None:
    """Return the usages that agree with all answers and with the throughput; None if there are too many."""
    usages = [Counter[frozenset[str]]()]
    for part, some in zip(parts, listed, strict=True):
        if some is None or len(usages) * len(some) > MOST_COMBINED:
            return None
        usages = [usage + part.usage(one) for usage in usages for one in some]
    found = [PortUsage(dict(usage)) for usage in usages if usage.total() <= probe.most_uops]
    slowest = probe.cycles * (SLOWER + probe.machine.noise)
    return [probe.machine.usage(usage) for usage in found if throughput_of(usage) <= slowest]


def _of_halves(probe: TimedProbe, parts: Sequence[PortComponent]) -> list[list[Hypothesis] | None] | None:
    """Return the hypotheses with two equal halves, if each slot of a 512-bit instruction has two; None if not.

    Both halves do the same, so they have the same sets. Two µops may wait where one would not, so answers about smaller
    sets are upper bounds. Those about the largest sets are exact. Memory that is narrower is accessed once: it may be
    broadcast, or converted to twice its width.
    """
    if not is_wide(probe.variant):
        return None
    tight = probe.tightened()
    if any(tight[top].least != tight[top].most for part in parts for top in part.tops if top in tight):
        return None
    found: list[list[Hypothesis] | None] = []
    slots = 0
    for part in parts:
        total = sum(probe.bounds[top].most for top in part.tops if top in probe.bounds)
        is_halved = all(probe.bounds[top].most % 2 == 0 for top in part.tops if top in probe.bounds)
        if not is_halved and not all(one.is_of_memory for one in probe.sets_of(part)):
            return None
        slots += total // 2 if is_halved else total
        found.append(_in_halves(probe, part) if is_halved else _hypotheses(probe, part))
    return found if slots >= probe.most_slots else None


def _in_halves(probe: TimedProbe, part: PortComponent) -> list[Hypothesis] | None:
    """Return the hypotheses of two equal halves."""
    halved = {
        ports: UopBounds(0, bounds.most // 2)
        if ports not in part.tops and bounds.least % 2
        else UopBounds(-(-bounds.least // 2), bounds.most // 2)
        for ports, bounds in probe.bounds.items()
    }
    half = part.hypotheses(halved, sum(halved[top].most for top in part.tops if top in halved))
    return None if half is None else [tuple(sorted(one * 2)) for one in half]


def _is_certain(probe: TimedProbe, parts: Sequence[PortComponent]) -> bool:
    """Whether every answer about these leaves one number of µops."""
    asked = [ports for part in parts for ports in part.basic if ports in probe.asked]
    tight = probe.tightened()
    return all(ports in tight and tight[ports].least == tight[ports].most for ports in asked)


def _values(probe: TimedProbe) -> tuple[Fraction, ...]:
    return tuple(value for asked in probe.asked.values() if asked.answer is not None for value in asked.answer.values)
