"""Which repetitions on a clock count: those that nobody disturbed.

Beside each repetition run a calibration chain and a witness that keeps every ALU busy (`generator.harness.native`). A
repetition does not count where its calibration took longer than that of the others (an interrupt hit it, and it would
make the code under test look fast), or where the witness took longer, in calibrated cycles, than it does on a quiet
core: then another thread uses the same core, and throughputs are not those of the instruction. Where that is so all
the time, the quietest repetitions count.
"""

from __future__ import annotations

import math
import operator
import time
from bisect import bisect_right
from collections import Counter
from itertools import accumulate, compress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CALIBRATION_SLACK = 1.05
WITNESS_SLACK = 1.03
"""On a quiet core of Zen 5 the witness stays within 1%; with a busy sibling thread it takes 14% longer or more."""

BIN_WIDTH = 0.002
"""Runs are counted by how long the witness took, in bins of 0.2%."""

FEW_RUNS, LEAST_RUNS, LEAST_SHARE = 8, 3, 0.005
"""From a few runs on, so many of them, and that share, have to be as fast as what is taken for quiet."""

WAIT_PAUSE_SECONDS = 0.02
"""After a look at the witness that was not quiet."""

CALM_LOOKS = 3
"""So many in a row have to be quiet: who disturbs leaves gaps."""


class Repetitions(NamedTuple):
    """What there is to know of the repetitions of a run, whatever is taken for quiet: it is asked for in every round.

    `ratios` say how long the witness took, in calibrations, and are in order in `ordered`; `steady` whether the
    calibration was not interrupted; `calm` are the ratios of those that were not, in order.
    """

    ratios: list[float]
    ordered: list[float]
    steady: list[bool]
    calm: list[float]

    @classmethod
    def of(cls, samples: Mapping[str, Sequence[int]]) -> Repetitions:
        """Look at samples; the shorter half of the calibrations was never interrupted."""
        calibration = samples["calibration"]
        if not calibration:
            return cls([], [], [], [])
        in_order = sorted(calibration)
        # At least 1: a clock may have been set back
        divisors = calibration if in_order[0] > 0 else [max(1, ticks) for ticks in calibration]
        ratios = list(map(operator.truediv, samples["witness"], divisors))
        ordered = sorted(ratios)
        most = CALIBRATION_SLACK * in_order[len(in_order) // 2]
        if in_order[-1] <= most:
            return cls(ratios, ordered, [True] * len(ratios), ordered)
        steady = [beside <= most for beside in calibration]
        return cls(ratios, ordered, steady, sorted(compress(ratios, steady)))


class QuietFilter:
    """Knows how short a time the witness typically takes when it is quiet, and filters by it."""

    def __init__(self) -> None:
        self.best_ratio = float("inf")
        self._runs: Counter[int] = Counter()

    @property
    def is_known(self) -> bool:
        """Whether anything was learned yet."""
        return self.best_ratio < float("inf")

    def learn(self, *runs: Repetitions) -> None:
        """Look at some runs; of each the median of its repetitions counts, so that no single odd one does.

        Nor does an odd run: a disturbed calibration makes the witness look fast. Where the least of all runs counted,
        one in 20,000 made all later ones seem disturbed.
        """
        for run in runs:
            ratios = run.ordered[bisect_right(run.ordered, 0) :]
            if ratios:
                self._runs[round(math.log(ratios[len(ratios) // 2]) / BIN_WIDTH)] += 1
        if self._runs:
            self.best_ratio = math.exp(BIN_WIDTH * self._low_bin())

    def _low_bin(self) -> int:
        """Return the first bin up to which there are runs enough to believe in."""
        total = self._runs.total()
        enough = 1 if total < FEW_RUNS else max(LEAST_RUNS, LEAST_SHARE * total)
        ordered = sorted(self._runs)
        counts = accumulate(self._runs[each] for each in ordered)
        return next(each for each, count in zip(ordered, counts, strict=True) if count >= enough)

    def count(self, repetitions: Repetitions) -> int:
        """Return how many repetitions were undisturbed."""
        return bisect_right(repetitions.calm, WITNESS_SLACK * self.best_ratio)

    def is_quiet(self, samples: Mapping[str, Sequence[int]]) -> bool:
        """Say whether nobody disturbed most repetitions of a run."""
        return 2 * self.count(Repetitions.of(samples)) > len(samples["witness"])

    def undisturbed(
        self, samples: Mapping[str, Sequence[int]], repetitions: Repetitions, enough: int
    ) -> dict[str, tuple[int, ...]]:
        """Return the samples that count; where they are not enough, the quietest quarter of all, or that many."""
        ratios, steady, calm = repetitions.ratios, repetitions.steady, repetitions.calm
        limit = WITNESS_SLACK * self.best_ratio
        quiet = self.count(repetitions)
        if quiet == len(ratios):
            return {counter: tuple(values) for counter, values in samples.items()}
        if quiet < max(1, enough):
            limit = max([limit, *calm[: max(1, enough, len(ratios) // 4)][-1:]])
        keep = [steadily and ratio <= limit for steadily, ratio in zip(steady, ratios, strict=True)]
        return {counter: tuple(compress(values, keep)) for counter, values in samples.items()}


class Patience:
    """Waits for a quiet core, for who disturbs does so for seconds; not forever, for some do so all the time.

    On one virtual machine the witness was slowed for 1 to 30 seconds at a time, nearly all of its repetitions meanwhile
    and 1 to 5% of them in between, by other guests of the same host.
    """

    def __init__(self, seconds: float, ratio: float) -> None:
        """Let waiting and measuring again take those seconds and, besides, that many times what all the rest took."""
        self._seconds = seconds
        self._ratio = ratio
        self._useful_seconds = 0.0
        self.lost_seconds = 0.0

    @property
    def is_left(self) -> bool:
        """Whether there may be more waiting."""
        return self.lost_seconds < self._seconds + self._ratio * self._useful_seconds

    def count(self, seconds: float, *, is_again: bool) -> None:
        """Take note of a round, which may have been only for what was disturbed before."""
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
