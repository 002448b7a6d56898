"""The conclusion from all answers about an instruction: a usage, several that fit, or why none can be stated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations, combinations_with_replacement, product
from math import comb, prod
from typing import TYPE_CHECKING

from generator.operands.registers import family, register_class
from inference.ports.by_time.hypotheses import Hypothesis, PortComponent, UopBounds
from inference.ports.by_time.members import MEMORY, domains
from inference.ports.by_time.timed_probe import hypotheses_of
from inference.ports.infer import MOST_NAMED, PortConclusion
from results.findings import Confined, Delays, Indistinguishable, OnlyBounds, Unexplained, Unplaced
from results.model import PortUsage
from results.ports import confined, throughput_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from inference.ports.by_time.timed_probe import TimedProbe
    from results.model import Failure
    from results.ports import PortSet

UOPS_OF_PAIR = 2
"""µops that one slot holds at most, if each is no half of a wide vector (Intel optimization manual, micro-fusion)."""

UOPS_OF_STORE = 2
"""µops of a store: its address and its value. Haswell issues both in one slot, and nothing else has the ports of the
former."""

UNPIPELINED = Fraction(3, 2)
"""Factor: an instruction that takes this many times as long as its ports need is not pipelined. It may keep a port busy
for several cycles."""

SEVERAL = 3
"""µops on one set, from which on `NEARLY` counts instead of `UNPIPELINED`. Of so many, some may have a part of the set,
and take little longer. On random:hidden:2, five of six µops of XCHG have p3, not p13."""

NEARLY = Fraction(11, 10)
"""Factor by which `SEVERAL` µops may take longer than whole sets need: ports are not always chosen well."""

MOST_COMBINED = 4096
"""Combinations of the components' hypotheses that are looked at, to bound the work."""


def conclude(probe: TimedProbe) -> PortConclusion:
    """Return the conclusion from all answers about an instruction."""
    told = [part for part in probe.parts if probe.is_told(part)]
    halves = _of_halves(probe, told)
    possible = _possible(probe, told, halves or [hypotheses_of(probe, part) for part in told])
    failure = _failure(probe, possible, is_certain=halves is not None or _is_certain(probe, told))
    usage = possible[0] if possible and failure is None else None
    return PortConclusion(usage, failure, tuple(probe.steps), tuple(probe.experiments), stage="by time")


def usage_of(found: PortConclusion) -> PortUsage | None:
    """Return the usage that is stated, or its visible part; None where there is neither."""
    return found.failure.usage if isinstance(found.failure, Unplaced) else found.usage


def _failure(probe: TimedProbe, possible: list[PortUsage] | None, *, is_certain: bool) -> Failure | None:
    """Return why no usage can be stated (None: the only possible one can)."""
    answers = answers_of(probe)
    if possible is None or len(possible) > MOST_NAMED:
        return OnlyBounds(probe.most_slots, answers)
    if not possible:
        return Unexplained(_values(probe))
    delayed = tuple(probe.machine.public(top) for part in probe.parts if not probe.is_told(part) for top in part.tops)
    if len(possible) > 1 or not is_certain:
        return OnlyBounds(probe.most_slots, answers) if delayed else _named(probe, possible, answers)
    if delayed:
        return Delays(delayed, possible[0], probe.sure_slots)
    return doubt(probe, possible[0], answers)


def answers_of(probe: TimedProbe) -> tuple[Confined, ...]:
    """Return how many µops are confined to each set that was asked about."""
    return tuple(
        Confined(probe.machine.public(ports), bounds.most, exact=bounds.least == bounds.most)
        for ports, bounds in probe.bounds.items()
    )


def doubt(probe: TimedProbe, usage: PortUsage, answers: tuple[Confined, ...]) -> Failure | None:
    """Return why the only usage of known sets cannot be stated (None: it can)."""
    fewer = PortUsage({ports: min(count, probe.most_slots) for ports, count in usage.uops.items()})
    if probe.cycles > UNPIPELINED * throughput_of(usage):
        if fewer != usage:
            return _named(probe, [fewer, usage], answers)
        is_placed = usage.total == probe.slots and probe.agrees_on_slots
        if not is_placed and max(usage.uops.values(), default=0) > 1:
            # Several cycles of one µop look like several µops, unless each slot is accounted for
            bounds = (replace(one, exact=one.exact and one.uops <= 1) for one in answers)
            return OnlyBounds(probe.most_slots, tuple(bounds))
    alike = _of_parts(probe, usage)
    if alike is None or len(alike) > MOST_NAMED:
        return OnlyBounds(probe.most_slots, answers)
    if len(alike) > 1:
        return Indistinguishable(tuple(alike), 0, answers)
    is_whole = usage.total >= probe.most_slots and not _may_hide_uop(probe, usage)
    return None if is_whole else Unplaced(usage, probe.sure_slots)


def _named(probe: TimedProbe, possible: Iterable[PortUsage], answers: tuple[Confined, ...]) -> Failure:
    """Return the failure that names these usages, and those with parts of their sets; bounds if these are too many."""
    named: dict[str, PortUsage] = {}
    for usage in possible:
        alike = _of_parts(probe, usage, is_known=False)
        if alike is None:
            return OnlyBounds(probe.most_slots, answers)
        named |= {str(one): one for one in alike}
        if len(named) > MOST_NAMED:
            return OnlyBounds(probe.most_slots, answers)
    ordered = sorted(named.values(), key=lambda usage: (usage.total, str(usage)))
    return Indistinguishable(tuple(ordered), 0, answers)


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


def _of_parts(probe: TimedProbe, usage: PortUsage, *, is_known: bool = True) -> list[PortUsage] | None:
    """Return the usage, and those that have parts of its sets instead; None if there are too many.

    An instruction that is done once per port and cycle shows that a set is whole. Two kinds of others may still have a
    part of it:

    - instructions with registers of another file. In LLVM's model of Golden Cove, x87 instructions load from two of
      the three ports of other loads;
    - instructions that are not pipelined. A divider has one port, which no other instruction may have alone.

    If it is not certain how many µops are on the set (`is_known`), nothing else tells that they use all of it.
    """
    needed = throughput_of(usage)
    sets = [
        (ports, count)
        for ports, count in usage.uops.items()
        if len(ports) > 1 and not (is_known and probe.cycles <= _longest(count) * needed and _is_shown(probe, ports))
    ]
    parts = [(parts_of(ports), count) for ports, count in sets]
    # Counted before they are made: of ten µops on four ports there are two million
    if prod(comb(len(some) + count - 1, count) for some, count in parts) > MOST_COMBINED:
        return None
    choices = [combinations_with_replacement(some, count) for some, count in parts]
    same = {ports: count for ports, count in usage.uops.items() if ports not in dict(sets)}
    found = [PortUsage(dict(Counter(same) + Counter(chain(*chosen)))) for chosen in product(*choices)]
    return [one for one in found if one == usage or agrees(probe, one)]


def _longest(count: int) -> Fraction:
    """Return how many times as long as its ports need an instruction may take that shows so many µops on whole sets."""
    return UNPIPELINED if count < SEVERAL else NEARLY


def _is_shown(probe: TimedProbe, ports: PortSet) -> bool:
    """Whether an instruction with registers of the same file has a basic set with these ports.

    Nothing shows the sets of instructions with neither registers nor memory. On Haswell, conditional jumps are confined
    to p06, and those that are taken to p6. Nor does anything show those of control registers, which have nothing in
    common. FLDCW in LLVM's model of Golden Cove loads from two of three ports.
    """
    files = {
        register_class(name)
        for operand in probe.variant.operands
        for name in operand.registers[:1]
        if family(name) != "RIP"  # no µop computes in the instruction pointer
    }
    if not files:
        return any(operand.kind is OperandKind.MEMORY for operand in probe.variant.operands)
    files.discard("OTHER")
    return any(
        ports <= probe.machine.public(one.ports) and not files.isdisjoint(one.files) for one in probe.machine.sets
    )


def parts_of(ports: PortSet) -> list[PortSet]:
    """Return a set and all of its parts, larger ones first."""
    return [frozenset(part) for size in range(len(ports), 0, -1) for part in combinations(sorted(ports), size)]


def agrees(probe: TimedProbe, usage: PortUsage) -> bool:
    """Whether a usage agrees with all answers and with the throughput."""
    within = (
        bounds.least <= confined(usage, probe.machine.public(ports)) <= bounds.most
        for ports, bounds in probe.bounds.items()
    )
    return all(within) and throughput_of(usage) <= probe.slowest


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
    return [probe.machine.usage(usage) for usage in found if throughput_of(usage) <= probe.slowest]


def _of_halves(probe: TimedProbe, parts: Sequence[PortComponent]) -> list[list[Hypothesis] | None] | None:
    """Return the hypotheses with two equal halves, if each slot of a widest instruction has two; None if not.

    The number of slots has to be sure: µops in slots that were overlooked are no halves.

    Both halves do the same, so they have the same sets. Two µops may wait where one would not, so answers about smaller
    sets are upper bounds. Those about the largest sets are exact. Memory that is narrower is accessed once: it may be
    broadcast, or converted to twice its width.
    """
    if not probe.is_widest or not probe.agrees_on_slots:
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
        found.append(_in_halves(probe, part) if is_halved else hypotheses_of(probe, part))
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
