"""The load of a set of ports while it was blocked, and the possible error of that number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from inference.ports.alone.accuracy import SETTLED, root
from results.ports import PortSet, confined, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Measured
    from inference.ports.alone.accuracy import Accuracy
    from inference.ports.blocking_instructions import Blockers, BlockingSet
    from inference.ports.probe import PortProbe
    from results.model import PortUsage

CLEAR = Fraction(1, 5)
"""µops per copy by which an exact count may be off an integer: a stray in every fifth copy is noticed."""

IDLE = Fraction(1, 2)
"""Cycles per copy, summed over its ports, that a blocked set may be idle. In more of them a µop could stray."""

MOST_BLURRED = Fraction(2)
"""µops by which a count may be off at most, if more measurements are to help. Together they leave about a third of the
error, which is taken to be half as large again as it seems (`MARGIN`)."""

MOST_BLURRED_BY_CHANCE = Fraction(3)
"""The same where errors are by chance: the mean of all measurements leaves a seventh."""

FEWEST_POINTS = 4
"""Measurements through which a line is drawn: two would fit any line, and a third shows little of the error."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a set of ports carried while it was blocked, per copy.

    - `own`: µops of blocking instructions and breakers that are confined to the set.
    - `ran`: other µops that its counters counted, including those on ports that share a counter with it.
    - `time`: other µops for which the set had time in the cycles of the copy.
    - `told`: the same, but ports with counters of their own had time only for the µops that these counted.
    - `error`: µops by which counters and clock may make `count` wrong.
    - `late`: µops by which the clock may make `time` wrong.
    - `miscounted`: µops by which counters may make `ran` wrong.
    - `mean_error`: µops by which counters and clock may make the mean of many counts wrong, if each has an error of its
      own (None: that is not so).
    - `chance`: whether the clock has an error of its own in each measurement.
    """

    own: int
    ran: Fraction
    time: Fraction
    told: Fraction
    separable: bool
    error: Fraction = Fraction(0)
    late: Fraction = Fraction(0)
    miscounted: Fraction = Fraction(0)
    mean_error: Fraction | None = None
    chance: bool = False

    @property
    def count(self) -> Fraction:
        """The µops that ran on the set besides `own`: counted, or told by time where counters do not separate it."""
        return self.ran if self.separable else self.told

    @property
    def most(self) -> int:
        """How many µops at most are confined to it."""
        # Time is off where the window holds no whole periods, so a bound by time is rounded up
        counted = floor(self.ran + CLEAR + self.miscounted)
        return max(0, counted if self.separable else min(counted, ceil(self.told + self.error - CLEAR)))

    @property
    def busy(self) -> bool:
        """Whether its ports were hardly ever idle, as far as counters and time show."""
        counted = self.whole or self.error <= IDLE
        idle = self.time - (round(self.count) if self.whole else self.count)
        return counted and self.count <= self.ran + CLEAR + max(self.error, self.miscounted) and idle <= IDLE

    @property
    def whole(self) -> bool:
        """Whether one integer is near the count, and no other one as far as counters are off."""
        off = abs(self.count - max(0, round(self.count)))
        return off <= CLEAR + self.error < 1 - off

    @property
    def blurred(self) -> bool:
        """Whether only the errors of counters and clock prevent an exact count."""
        off = abs(self.count - round(self.count))
        possible = off <= CLEAR + self.error and self.time - self.count <= IDLE + self.error + self.late
        off_by = self.error or self.late
        most = MOST_BLURRED if self.mean_error is None else MOST_BLURRED_BY_CHANCE
        return bool(off_by) and possible and self.error <= most and not (self.busy and self.whole)

    def focused(self, others: Sequence[Load]) -> Load:
        """Return the load that several measurements show together, with other numbers of blocking instructions.

        Each count lies within its own error, so the true one is in all of these ranges. If they have no value in
        common, this load is returned. If errors are by chance, the mean is nearer to the truth. If not, a line is
        fitted to their times. Its slope is the clock's error, the same share in all of them. The rest is time for other
        µops.
        """
        loads = [self, *others]
        least, most = max(one.count - one.error for one in loads), min(one.count + one.error for one in loads)
        if least > most:
            return self
        time, told = (_besides([(one.own, value(one)) for one in others]) for value in (_time, _told))
        count, error = (least + most) / 2, (most - least) / 2
        if not self.separable and told is not None and told[1] < error:
            count, error = told
        by_chance = _by_chance(loads)
        if by_chance is not None and by_chance[1] < error:
            count, error = by_chance
        if self.chance or time is None or time[1] > IDLE / 2:
            time = _mean([one.time for one in loads])
        return replace(
            self,
            ran=count if self.separable else min(one.ran + one.miscounted for one in loads) - error,
            time=time[0],
            told=count,
            error=error,
            miscounted=error,
            late=time[1],
        )


def _time(load: Load) -> Fraction:
    return load.time


def _told(load: Load) -> Fraction:
    return load.told


def _by_chance(loads: Sequence[Load]) -> tuple[Fraction, Fraction] | None:
    """Return the mean of counts with errors by chance, and how far it may be off (None: errors are not by chance).

    Counts with large errors weigh less. The largest error is about two and a half standard errors of one count, since
    it was multiplied by `MARGIN`. What all counts have in common is added as independent errors are.
    """
    weights: list[Fraction] = []
    mean = common = Fraction(0)
    for one in loads:
        if one.mean_error is None or not one.error:
            return None
        weights.append(1 / one.error**2)
        mean += weights[-1] * one.count
        common += weights[-1] * one.mean_error
    weight = sum(weights, Fraction(0))
    return mean / weight, root(1 / weight + (common / weight) ** 2)


def _mean(values: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
    """Return the mean of some values, and twice its standard error."""
    mean = sum(values, Fraction(0)) / len(values)
    off = sum(((value - mean) ** 2 for value in values), Fraction(0)) / max(1, len(values) - 1)
    return mean, 2 * root(off / len(values))


def _besides(points: Sequence[tuple[int, Fraction]]) -> tuple[Fraction, Fraction] | None:
    """Return how many µops a set had time for besides the blocking ones, and twice the standard error.

    Args:
        points: for each measurement the blocking µops, and the others that it had time for, by a clock that may be off.
    """
    if len(points) < FEWEST_POINTS or len({own for own, _ in points}) < FEWEST_POINTS:
        return None
    whole = [(own, own + besides) for own, besides in points]
    mean = Fraction(sum(own for own, _ in whole), len(whole))
    middle = sum((time for _, time in whole), Fraction(0)) / len(whole)
    spread = sum((own - mean) ** 2 for own, _ in whole)
    slope = sum(((own - mean) * (time - middle) for own, time in whole), Fraction(0)) / spread
    if slope <= 0:
        return None
    rest = middle - slope * mean
    off = sum(((time - rest - slope * own) ** 2 for own, time in whole), Fraction(0)) / (len(whole) - 2)
    error = off * (Fraction(1, len(whole)) + mean**2 / spread)
    return rest / slope, 2 * root(error) / slope


def load_of(probe: PortProbe, measured: Measured, blockers: Blockers, ports: PortSet) -> Load:
    """Return what ran on a set of ports while it was blocked."""
    return load_beside(measured, joined(blockers.usage, probe.subject.extra), ports, probe.blocking)


def load_beside(measured: Measured, usage: PortUsage, ports: PortSet, blocking: BlockingSet) -> Load:
    """Return what ran on a set of ports besides the µops of a usage."""
    layout, accuracy = blocking.layout, blocking.accuracy
    own, counted, shared = confined(usage, ports), Fraction(0), 0
    for name in layout.touching(ports):
        if layout.counters[name] <= ports:
            counted += measured.values[name]
        else:
            shared += len(layout.counters[name] & ports)
    loads = [measured.values[name] / len(sharing) for name, sharing in layout.counters.items()]
    cycles = _cycles(measured.cycles, max(loads), accuracy)
    ran = layout.on(ports, measured.values)
    miscounted = accuracy.counts * ran
    error = accuracy.counts * counted + accuracy.clock * cycles * shared if shared else miscounted
    late = accuracy.clock * cycles * len(ports)
    told = counted + cycles * shared
    mean_error = _mean_error(accuracy, counted if shared else ran, cycles * shared)
    besides = (ran - own, cycles * len(ports) - own, told - own)
    separable, chance = layout.separable(ports), accuracy.mean_clock is not None
    return Load(own, *besides, separable, error, late, miscounted, mean_error, chance)


def _cycles(measured: Fraction, load: Fraction, accuracy: Accuracy) -> Fraction:
    """Return the cycles of a copy, of which the busiest port has worked in a number.

    No port runs more than a µop per cycle. If it seems so, the window begins and ends in other parts of a period. Or
    both are off by chance: then the larger of them would be too large in the mean.
    """
    off = accuracy.counts * load + accuracy.clock * measured if accuracy.by_chance else 0
    return load if load > measured + off else measured


def _mean_error(accuracy: Accuracy, counted: Fraction, timed: Fraction) -> Fraction | None:
    """Return by how many µops the mean of many counts may be wrong (None: errors are not by chance).

    Args:
        accuracy: of counters and clock. Counters with a small error of any kind may be off by that.
        counted: µops that were counted.
        timed: those that time tells.
    """
    counts = accuracy.counts if accuracy.counts <= SETTLED else accuracy.mean_counts
    clock = accuracy.mean_clock if accuracy.clock else Fraction(0)
    if not accuracy.by_chance or counts is None or (clock is None and timed):
        return None
    return counts * counted + (clock or 0) * timed
