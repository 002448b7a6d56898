"""From raw samples to values per copy: pure functions, so that stored samples can be looked at again.

A series is condensed to its median, and its spread is half the distance between its quartiles: one preempted
repetition in a hundred changes neither. The value per copy is the difference of two sizes divided by the difference of
their copies, so that everything around the copies cancels.

On a clock, `runner.measuring.quiet` first leaves out disturbed repetitions. The ticks of each repetition are divided by
those of the calibration chain just before it (`runner.measuring.calibration`). Only repetitions of the fastest rhythm
count (see `rhythms`). Their center is the mean between their quartiles, since the median of a coarse clock is a
multiple of its step.

A disturbance of the shorter run alone would make the difference too small. So the shorter run is not subtracted in two
cases: others used the core more during it, or a loop's shorter run takes too long for the same time per copy. Then the
longer run's time per copy is an upper bound, and the spread says by how much it may be too high.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from statistics import median_high
from typing import TYPE_CHECKING, NamedTuple

from inference.experiment import Measured, Request
from results.model import Measurement, Series, Status
from runner.backend import CONTENTION_PROBE
from runner.measuring.calibration import steadied
from runner.measuring.quiet import CONTENTION_SLACK, Repetitions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RHYTHM_WIDTH = 1.03
"""Samples that differ by less are of one rhythm: the nearest ones that were seen on Zen 4 are 0.50 and 0.53 cycles."""

RHYTHM_SHARE = 0.2
"""The share of the samples that a rhythm has at least: fewer may be a fault of the clock."""

MOST_AROUND_A_RUN = 200
"""Core cycles that the harness may take for reading the clock and starting the code: on Ice Lake it takes 40 to 60."""

MOST_AROUND_A_LOOP = 2
"""Core cycles per iteration that a loop may take besides its copies. A taken branch takes one, on old cores two. An
example of more: VPCOMPRESSB on Zen 4 has rhythms of 0.66 and 0.97 cycles. If 16 of them run in the slower one and 64 in
the faster one, the difference is 48 times 0.56, which leaves 6.6 cycles for the loop."""

MOST_AROUND_A_PASS = 50
"""Core cycles per pass through unrolled code that more than half of a run may take besides its copies. Usually these
are 16 to 30: a setup, and a jump that was not foreseen. On Emerald Rapids, runs of vector code are sometimes half as
fast as others, although their contention probe is as fast. If only the shorter run is, the difference is too small."""

BESIDE = ("calibration", CONTENTION_PROBE)
"""Counters that are not about the code under test."""

THOUSANDTHS = 1000
"""Slower rhythms are rounded to this part of a cycle: they are only shown, nothing is concluded from them."""

CLOCK_DENOMINATOR = 10**6
"""Core cycles on a clock are integers in millionths: finer than a tick by four orders."""
NEGATIVE_TOLERANCE = Fraction(1, 20)
"""Counts per copy this far below zero are noise (differences of two sizes); further below, they are wrong."""
PORT_SUM_TOLERANCE = Fraction(1, 20)
"""Per µop, how far the sum over all ports may be from an integer."""


class SeriesSummary(NamedTuple):
    """A series in brief: its center and half the distance between the quartiles, in counts (or core cycles) per run.

    Kept as integers, since reducing fractions is slow: the center is `total / parts / scale`, and `distance / scale`
    is the one between the quartiles.
    """

    total: int
    parts: int
    distance: int
    scale: int = 1

    @property
    def center(self) -> Fraction:
        """The median, or the mean between the quartiles."""
        return Fraction(self.total, self.parts * self.scale)

    @property
    def rough_center(self) -> float:
        """The same, rounded."""
        return self.total / (self.parts * self.scale)

    @property
    def spread(self) -> Fraction:
        """Half the distance between the quartiles."""
        return Fraction(self.distance, 2 * self.scale)


def summarize(samples: Sequence[int]) -> SeriesSummary:
    """Return median and spread of at least one sample."""
    if samples.count(samples[0]) == len(samples):
        return SeriesSummary(samples[0], 1, 0)
    ordered = sorted(samples)
    count = len(ordered)
    return SeriesSummary(ordered[(count - 1) // 2] + ordered[count // 2], 2, _distance(ordered))


def _distance(ordered: Sequence[int]) -> int:
    """Return the distance between the quartiles of ordered samples."""
    count = len(ordered)
    return ordered[(3 * count) // 4 if count > 3 else count - 1] - ordered[count // 4]


def measured(request: Request, measurement: Measurement, calibration_core_cycles: int = 0) -> Measured:
    """Return the values per copy that a measurement shows; `calibration_core_cycles` is that of its backend.

    A measurement that is not OK, has fewer than two sizes or a size without samples, gives no values.
    """
    has_samples = all(values for each in measurement.series for values in each.samples.values())
    if measurement.status is not Status.OK or len(measurement.series) < 2 or not has_samples:
        status = Status.UNCLEAN if measurement.status is Status.OK else measurement.status
        return Measured(request, status, {}, {}, measurement, measurement.detail)
    series = measurement.series
    values, spread = {}, {}
    for counter in series[0].samples:
        if counter not in BESIDE:
            low, high = (summarize(each.samples[counter]) for each in series[-2:])
            values[counter], spread[counter] = _slope(series[-2], series[-1], low, high)
    if "core_cycles" in values:
        return Measured(request, Status.OK, values, spread, measurement, measurement.detail)
    cycles, spread["core_cycles"], over = _clock_cycles(series, calibration_core_cycles, loop=request.loop)
    values["core_cycles"] = cycles
    slower = _slower(series, calibration_core_cycles, cycles)
    return Measured(request, Status.OK, values, spread, measurement, measurement.detail, slower, over)


def core_cycles_of(series: Series, calibration_core_cycles: int) -> SeriesSummary:
    """Return what a series took in core cycles per run, whatever the clock."""
    if "core_cycles" in series.samples:
        return summarize(series.samples["core_cycles"])
    ratios = rhythms(_core_cycles(series, calibration_core_cycles))[0]
    inner = ratios[len(ratios) // 4 : len(ratios) - len(ratios) // 4]
    return SeriesSummary(sum(inner), len(inner), _distance(ratios), CLOCK_DENOMINATOR)


def rhythms(ordered: list[int]) -> list[list[int]]:
    """Return the groups of ordered samples that are alike and not too few, the fastest first; all if there is none.

    A core may run the same code in several rhythms, by what ran before: VPEXPANDD takes 0.67 or 1.00 cycles on Zen 4,
    after an even or an odd number of PADDDs. The driver runs another number of them before each repetition.
    """
    enough = max(2, round(RHYTHM_SHARE * len(ordered)))
    found: list[list[int]] = []
    first = 0
    while first + enough <= len(ordered):
        end = bisect_right(ordered, ordered[first] * RHYTHM_WIDTH, first)
        if end - first >= enough:
            found.append(ordered[first:end])
            first = end
        else:
            first += 1
    return found or [ordered]


def _slower(series: Sequence[Series], calibration_core_cycles: int, cycles: Fraction) -> tuple[Fraction, ...]:
    """Return what a copy takes in the slower rhythms of the longest run, from what it takes in the fastest one."""
    fastest, *others = rhythms(_core_cycles(series[-1], calibration_core_cycles))
    ratios = (Fraction(sum(one) * len(fastest), len(one) * max(1, sum(fastest))) for one in others)
    return tuple(Fraction(round(cycles * ratio * THOUSANDTHS), THOUSANDTHS) for ratio in ratios)


def _core_cycles(series: Series, calibration_core_cycles: int) -> list[int]:
    """Return what the repetitions took by the calibration beside each, in `CLOCK_DENOMINATOR`ths of a core cycle."""
    pairs = zip(series.samples["tsc"], steadied(series.samples["calibration"]), strict=True)
    scale = calibration_core_cycles * CLOCK_DENOMINATOR
    return sorted([ticks * scale // beside for ticks, beside in pairs if beside > 0] or [0])


def complaint(measured: Measured, ports: Sequence[str]) -> str:
    """Say why values cannot be right ("" if nothing speaks against them); `ports` are all port counters of the CPU.

    Nothing may be negative, and no port may carry more µops than there were cycles. If all ports were counted, their
    sum has to be near an integer (within 0.05 per µop).
    """
    if not measured.ok:
        return "no repetition counts"
    for counter, value in measured.values.items():
        if value.numerator < 0 and value < -NEGATIVE_TOLERANCE:
            return f"{counter} is negative: {float(value):.2f} per copy"
    counted = {name: measured.values[name] for name in ports if name in measured.values}
    for name, value in counted.items():
        most = (measured.cycles + NEGATIVE_TOLERANCE) * (len(name) - 1) * (1 + PORT_SUM_TOLERANCE)
        if value > most:
            return f"{name} carries {float(value):.2f} µops in {float(measured.cycles):.2f} cycles"
    return _port_sum_complaint(counted) if ports and len(counted) == len(ports) else ""


def _port_sum_complaint(counted: Mapping[str, Fraction]) -> str:
    total = sum(counted.values(), Fraction(0))
    away = abs(total - round(total))
    if away > PORT_SUM_TOLERANCE * max(1, round(total)):
        return f"the ports carry {float(total):.2f} µops in all, which is no integer"
    return ""


def _slope(first: Series, last: Series, low: SeriesSummary, high: SeriesSummary) -> tuple[Fraction, Fraction]:
    """Return what a copy takes, and its spread, from two series of different sizes; summaries have the same scale."""
    scale = (last.copies - first.copies) * max(1, last.iterations) * high.scale
    difference = high.total * low.parts - low.total * high.parts
    return Fraction(difference, high.parts * low.parts * scale), Fraction(high.distance + low.distance, 2 * scale)


def _clock_cycles(
    series: Sequence[Series], calibration_core_cycles: int, *, loop: bool
) -> tuple[Fraction, Fraction, Fraction]:
    """Return what a copy takes, its spread, and by how much a copy of the longer loop takes more.

    If only the longer run can be trusted, its time per copy is the value, a bound from above.
    """
    shorter, longer = series[-2:]
    low, high = (core_cycles_of(each, calibration_core_cycles) for each in series[-2:])
    cycles, spread = _slope(shorter, longer, low, high)
    iterations = max(1, shorter.iterations)
    around = low.center - cycles * shorter.copies * iterations
    over = high.center / (longer.copies * max(1, longer.iterations)) - cycles
    if loop:
        is_disturbed = around > MOST_AROUND_A_RUN + MOST_AROUND_A_LOOP * iterations
    else:
        most = max(Fraction(MOST_AROUND_A_RUN + MOST_AROUND_A_PASS * iterations), low.center / 2)
        is_disturbed = around > most or _is_noisier(shorter, longer)
    if is_disturbed:
        return cycles + max(Fraction(0), over), max(spread, over), Fraction(0)
    return cycles, spread, max(Fraction(0), over) if loop else Fraction(0)


def _is_noisier(shorter: Series, longer: Series) -> bool:
    """Whether others used the core clearly more while the shorter one ran, as the contention probe shows."""
    if CONTENTION_PROBE not in shorter.samples:
        return False
    return _contention(shorter) > CONTENTION_SLACK * _contention(longer)


def _contention(series: Series) -> float:
    """Return the usual time of the contention probe, in calibrations."""
    return median_high(Repetitions.of(series.samples).ratios)
