"""Which repetitions on a clock count: those that nobody disturbed.

Two pieces of code run beside each repetition (`generator.harness.native`): a calibration chain, and a contention probe
that keeps every ALU busy. A repetition does not count

- where its calibration took longer than the others': an interrupt hit it, and the code under test would look fast;
- where its contention probe took longer, in calibrated cycles, than on a quiet core: another thread uses the core, and
  throughputs would be too high.

Where all repetitions are disturbed, the quietest ones count.
"""

from __future__ import annotations

import math
import operator
import time
from bisect import bisect_right
from collections import Counter
from itertools import accumulate, compress
from typing import TYPE_CHECKING, NamedTuple

from runner.backend import CONTENTION_PROBE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CALIBRATION_SLACK = 1.05
"""A calibration that takes this many times the median was interrupted. The clock's step makes undisturbed ones differ
by less than 1%, and an interrupt adds thousands of cycles to its 9,000."""

CONTENTION_SLACK = 1.03
"""A contention probe may take this many times its best. On a quiet core of Zen 5 it stays within 1%, and a busy sibling
thread makes it at least 14% longer."""

BIN_WIDTH = 0.002
"""Runs are counted by the logarithm of their ratio, in bins of this width (0.2%): a fifteenth of the slack."""

FEW_RUNS = 8
"""With fewer runs than this, the fastest one is taken for quiet."""

LEAST_RUNS, LEAST_SHARE = 3, 0.005
"""With more, this many runs and this share of all must be as fast: one run in 20,000 looks fast by mistake."""

WAIT_PAUSE_SECONDS = 0.02
"""Pause after a look at the contention probe that was not quiet: short beside disturbances, which last seconds."""

CALM_LOOKS = 3
"""This many looks in a row must be quiet before measuring goes on: disturbances have short gaps."""


class Repetitions(NamedTuple):
    """What the repetitions of a run say, whatever ratio counts as quiet; kept, since every round asks.

    `ratios` are the times of the contention probe in calibrations, `ordered` the same sorted. `steady` says for each
    repetition that no interrupt hit its calibration; `calm` are the sorted ratios of those repetitions.
    """

    ratios: list[float]
    ordered: list[float]
    steady: list[bool]
    calm: list[float]

    @classmethod
    def of(cls, samples: Mapping[str, Sequence[int]]) -> Repetitions:
        """Read the samples. The shorter half of the calibrations counts as never interrupted."""
        calibration = samples["calibration"]
        if not calibration:
            return cls([], [], [], [])
        in_order = sorted(calibration)
        # At least 1: a clock may have been set back
        divisors = calibration if in_order[0] > 0 else [max(1, ticks) for ticks in calibration]
        ratios = list(map(operator.truediv, samples[CONTENTION_PROBE], divisors))
        ordered = sorted(ratios)
        most = CALIBRATION_SLACK * in_order[len(in_order) // 2]
        if in_order[-1] <= most:
            return cls(ratios, ordered, [True] * len(ratios), ordered)
        steady = [beside <= most for beside in calibration]
        return cls(ratios, ordered, steady, sorted(compress(ratios, steady)))


class QuietFilter:
    """Learns how long the contention probe takes on a quiet core, and filters repetitions by it."""

    def __init__(self) -> None:
        self.best_ratio = float("inf")
        self._runs: Counter[int] = Counter()

    @property
    def is_known(self) -> bool:
        """Whether anything was learned yet."""
        return self.best_ratio < float("inf")

    def learn(self, *runs: Repetitions) -> None:
        """Look at some runs; the median of its repetitions stands for each, so that one odd repetition has no weight.

        The fastest run has no weight either. In one run of 20,000 a disturbed calibration makes the contention probe
        look fast; all later runs would then seem disturbed.
        """
        for run in runs:
            ratios = run.ordered[bisect_right(run.ordered, 0) :]
            if ratios:
                self._runs[round(math.log(ratios[len(ratios) // 2]) / BIN_WIDTH)] += 1
        if self._runs:
            self.best_ratio = math.exp(BIN_WIDTH * self._low_bin())

    def _low_bin(self) -> int:
        """Return the first bin up to which there are enough runs to believe in."""
        total = self._runs.total()
        enough = 1 if total < FEW_RUNS else max(LEAST_RUNS, LEAST_SHARE * total)
        ordered = sorted(self._runs)
        counts = accumulate(self._runs[each] for each in ordered)
        return next(each for each, count in zip(ordered, counts, strict=True) if count >= enough)

    def count(self, repetitions: Repetitions) -> int:
        """Return how many repetitions were undisturbed."""
        return bisect_right(repetitions.calm, CONTENTION_SLACK * self.best_ratio)

    def is_quiet(self, samples: Mapping[str, Sequence[int]]) -> bool:
        """Say whether nobody disturbed most repetitions of a run."""
        return 2 * self.count(Repetitions.of(samples)) > len(samples[CONTENTION_PROBE])

    def undisturbed(
        self, samples: Mapping[str, Sequence[int]], repetitions: Repetitions, enough: int
    ) -> dict[str, tuple[int, ...]]:
        """Return the undisturbed samples; if they are fewer than `enough`, the quietest quarter (at least `enough`)."""
        ratios, steady, calm = repetitions.ratios, repetitions.steady, repetitions.calm
        limit = CONTENTION_SLACK * self.best_ratio
        quiet = self.count(repetitions)
        if quiet == len(ratios):
            return {counter: tuple(values) for counter, values in samples.items()}
        if quiet < max(1, enough):
            limit = max([limit, *calm[: max(1, enough, len(ratios) // 4)][-1:]])
        keep = [steadily and ratio <= limit for steadily, ratio in zip(steady, ratios, strict=True)]
        return {counter: tuple(compress(values, keep)) for counter, values in samples.items()}


class Patience:
    """Waits for a quiet core, but not forever.

    Most disturbances last seconds: on one virtual machine, other guests slowed the contention probe for 1 to 30 seconds
    at a time. Meanwhile nearly all repetitions were slow; in between, 1 to 5% were. Some disturbances never end.
    """

    def __init__(self, seconds: float, ratio: float) -> None:
        """Allow waiting and measuring again these seconds, plus `ratio` times what undisturbed measuring took."""
        self._seconds = seconds
        self._ratio = ratio
        self._useful_seconds = 0.0
        self.lost_seconds = 0.0

    @property
    def is_left(self) -> bool:
        """Whether there may be more waiting."""
        return self.lost_seconds < self._seconds + self._ratio * self._useful_seconds

    def count(self, seconds: float, *, is_again: bool) -> None:
        """Take note of a round; `is_again` if all of it was for what was disturbed before."""
        if is_again:
            self.lost_seconds += seconds
        else:
            self._useful_seconds += seconds

    def wait(self, is_quiet: Callable[[], bool]) -> None:
        """Look again and again until it is quiet for a while, or patience ends."""
        calm = 0
        while self.is_left:
            started = time.monotonic()
            calm = calm + 1 if is_quiet() else 0
            if calm == CALM_LOOKS:
                return
            if not calm:
                time.sleep(WAIT_PAUSE_SECONDS)
            self.lost_seconds += time.monotonic() - started
