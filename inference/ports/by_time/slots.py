"""The issue slots of an instruction: what one instance adds to the time of filler.

Alone, the instance shows how long it waits for itself, so that filler can be issued for longer.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, isqrt
from statistics import median
from typing import TYPE_CHECKING

from inference.ports.by_time.mixes import FARTHEST, ROUNDING, MixFactory, cycles_of, issue_rate, undisturbed
from results.findings import Blocked, SlotsFound, Unexplained, WaitsForItself
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from inference.experiment import Procedure
    from inference.ports.by_time.timed_probe import TimedProbe
    from results.model import Failure

FURTHER_MIXES, FURTHER_STEP = 6, 2
"""Further mixes with filler if two do not settle the number of slots, and lines that each has more than the one before.
Eight mixes are half as noisy as two."""

STARTS_FASTER = Fraction(1, 3)
"""Slots that a mix may seem to lack. On uops.info's Haswell, short loops get faster when the loop buffer takes over.
There an instruction of two slots seems to have 1.67."""

FIRST_FILLER_CYCLES, FILLER_CYCLES = 4, 2
"""Cycles that filler takes beyond the instruction's own chain, and that the second mix takes beyond the first. Loops of
fewer cycles are issued unevenly: on uops.info's Haswell, 13 lines take 3.5 cycles, and 17 take 4.25."""

LONGEST_CHAIN = 40
"""Cycles. An instruction with a longer chain leaves blocked ports too much time."""


def slots_of(probe: TimedProbe, mixes: MixFactory) -> Procedure[Failure | None]:
    """Find out how long an instance waits for itself, and how many slots it has."""
    try:
        (alone,) = yield [mixes.request([], probe.variant)]
        chain = cycles_of(alone)
        if chain is None:
            return Unexplained(())
        probe.chain = chain
        probe.experiments.append(alone.request.benchmark.id)
        if chain > LONGEST_CHAIN:
            return WaitsForItself(chain)
        first = _least_filler(probe)
        has_run = yield from _among_filler(probe, mixes, (first, first + probe.machine.width * FILLER_CYCLES))
        is_sure = probe.most_slots == probe.slots and probe.agrees_on_slots and _shows_slots(probe)
        if has_run and not is_sure:
            has_run = yield from count_again(probe, mixes)
    except UopscopeError:
        return Unexplained(())
    return None if has_run else Unexplained(())


def _shows_slots(probe: TimedProbe) -> bool:
    """Whether all times among filler show the same number of slots, but for noise."""
    width = probe.machine.width
    values = [cycles * width - count for count, cycles in probe.filled]
    noise = probe.machine.noise * width * max(cycles for _, cycles in probe.filled)
    return max(values) - min(values) <= FARTHEST + noise


def count_again(probe: TimedProbe, mixes: MixFactory) -> Procedure[bool]:
    """Count slots among further filler, once; return whether all of it ran."""
    first = _least_filler(probe) + 1
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


def _least_filler(probe: TimedProbe) -> int:
    """Return how much filler is issued for longer than the instruction waits for itself."""
    return probe.machine.width * (ceil(probe.chain) + FIRST_FILLER_CYCLES)


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
