"""The port usage of a variant by time alone: from mixes with blocking instructions of a machine's basic sets.

1. One instance alone shows how long it waits for itself. Among filler it shows its issue slots.
2. The largest sets are blocked, which shows the µops of each component; then the sets that tell hypotheses apart; then
   those of the usage that was found.
3. A usage is stated if one hypothesis is left and both strengths agree. Each slot has to be accounted for, the
   throughput has to allow it, and its sets have to be known for its kind of registers. Else several usages are named,
   or bounds, or what could not be explained.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.sequences.blocking import is_wide, kind_of
from generator.support.prologue import extra_code_of
from inference.ports.by_time.conclude import conclude, usage_of
from inference.ports.by_time.hypotheses import PortComponent, UopBounds, components
from inference.ports.by_time.mixes import MixFactory, ask
from inference.ports.by_time.parts.beside import told_of_parts
from inference.ports.by_time.parts.unions import told_of_unions
from inference.ports.by_time.slots import count_again, slots_of
from inference.ports.by_time.timed_probe import TimedProbe, hypotheses_of
from inference.ports.infer import MOST_NAMED, PortConclusion
from results.findings import (
    Indistinguishable,
    Note,
    NotGenerated,
    Remark,
    TooNoisy,
    Unplaced,
)
from results.model import PortUsage
from results.ports import throughput_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from inference.experiment import Procedure
    from inference.ports.by_time.machine import TimedMachine, TimedSet
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant

MOST_ROUNDS = 12
"""Rounds of questions, each about one set of every component that is not settled, to bound the work."""


def infer_by_time(
    machine: TimedMachine,
    mixes: MixFactory,
    variant: InstructionVariant,
    cycles: Fraction,
    slower: Fraction = Fraction(0),
) -> Procedure[PortConclusion]:
    """Infer the port usage of a variant.

    Args:
        machine: the sets of ports that can be kept busy, in any kind of code.
        mixes: what makes mixes.
        variant: the variant.
        cycles: its measured reciprocal throughput in core cycles, unrolled or in a loop, whichever is faster.
        slower: that of the other kind of code (0: it was not measured).
    """
    if machine.is_noisy:
        return PortConclusion(None, TooNoisy(machine.off))
    machine = machine.in_code(kind_of(variant))
    parts = components(one.ports for one in machine.sets)
    probe = TimedProbe(machine, variant, cycles, parts, slower)
    extra = extra_code_of(variant)
    if extra is not None and extra.repeated:
        return PortConclusion(
            None, NotGenerated("it runs only with other code beside it, and time does not tell their ports apart")
        )
    failure = yield from slots_of(probe, mixes)
    if failure is not None:
        return PortConclusion(None, failure, tuple(probe.steps), tuple(probe.experiments))
    askable = probe.askable()
    yield from _ask_largest(probe, mixes, askable)
    for _ in range(MOST_ROUNDS):
        told = [part for part in parts if probe.is_widest or probe.is_told(part)]
        wanted = [ports for part in told if (ports := _next(probe, part, askable)) is not None]
        if not wanted:
            break
        yield from _ask(probe, mixes, wanted)
    found = yield from _asked(probe, mixes)
    if isinstance(found.failure, Unplaced) and (yield from count_again(probe, mixes)):
        found = yield from _asked(probe, mixes)  # a slot without a µop may come from a disturbed time
    found = yield from told_of_unions(probe, mixes, found)
    return _with_slots(probe, (yield from told_of_parts(probe, mixes, found)))


def _with_slots(probe: TimedProbe, found: PortConclusion) -> PortConclusion:
    """Say how many slots there are where the usages that are named leave some of them without a µop."""
    why, slots = found.failure, probe.sure_slots
    if not isinstance(why, Indistinguishable) or slots is None or any(one.total >= slots for one in why.usages):
        return found
    return replace(found, failure=replace(why, slots=slots))


def _asked(probe: TimedProbe, mixes: MixFactory) -> Procedure[PortConclusion]:
    """Return the conclusion, once each set of its usage is asked about: answers may lead to another usage."""
    found = conclude(probe)
    while unasked := _unasked(probe, found):
        yield from _ask(probe, mixes, unasked)
        found = conclude(probe)
    return found


def _unasked(probe: TimedProbe, found: PortConclusion) -> list[PortSet]:
    """Return the sets of a usage that can be kept busy, but were only concluded from answers about larger ones.

    Those conclusions depend on the diagram: sets that have one port in common there may have more.
    """
    usage = usage_of(found)
    if usage is None:
        return []
    return [
        ports
        for ports in probe.askable()
        if ports not in probe.asked and usage.uops.get(probe.machine.public(ports), 0)
    ]


def _ask(probe: TimedProbe, mixes: MixFactory, sets: Iterable[PortSet]) -> Procedure[None]:
    askable = probe.askable()
    wanted = list(sets)
    answers = yield from ask(mixes, [probe.question(askable[ports]) for ports in wanted], probe.machine.noise)
    for ports, asked in zip(wanted, answers, strict=True):
        probe.take(ports, asked)


def _ask_largest(probe: TimedProbe, mixes: MixFactory, askable: Mapping[PortSet, TimedSet]) -> Procedure[None]:
    """Ask about the largest sets: first about those of its registers and memory, and others if slots are left.

    If the µop of each slot is on known sets, there is none elsewhere. About 512-bit instructions the largest sets of
    vectors are asked, too: these show whether narrower instructions run otherwise beside them (`Asked.slows`).
    """
    vectors = [ports for ports, one in askable.items() if one.takes_vectors] if is_wide(probe.variant) else []
    largest = [
        ports
        for ports in askable
        if not any(ports < other for other in askable)
        or (ports in vectors and not any(ports < other for other in vectors))
    ]
    likely = {ports for part in probe.parts if any(map(probe.is_likely, probe.sets_of(part))) for ports in part.basic}
    yield from _ask(probe, mixes, [ports for ports in largest if ports in likely])
    others = [ports for ports in largest if ports not in likely]
    least = [min(map(len, listed), default=0) for part in probe.parts if (listed := hypotheses_of(probe, part))]
    if sum(least) < probe.most_uops or probe.delayed:
        yield from _ask(probe, mixes, others)
    elif others:
        probe.bounds |= dict.fromkeys(others, UopBounds(0, 0))
        probe.steps.append(Remark(Note.NO_SLOTS_LEFT))


def _next(probe: TimedProbe, part: PortComponent, askable: Mapping[PortSet, TimedSet]) -> PortSet | None:
    """Return the set of a component to ask about next, None if no answer would tell more."""
    left = [ports for ports in part.basic if ports in askable and ports not in probe.asked]
    if not left:
        return None
    hypotheses = hypotheses_of(probe, part)
    if hypotheses is None:
        return max(left, key=lambda ports: (len(ports), sorted(ports)))
    fast = hypotheses
    if len(hypotheses) <= MOST_NAMED:
        fast = [one for one in hypotheses if throughput_of(PortUsage(dict(part.usage(one)))) <= probe.slowest]
    return part.tells_most(fast or hypotheses, left)
