"""Selects undisturbed repetitions on a clock.

Two pieces of code run beside each repetition (`generator.harness.native`): a calibration chain, and a contention probe
that keeps every ALU busy. A repetition does not count if

- its calibration took longer than those around it: it was interrupted, and the code under test would look too fast
  (`runner.measuring.calibration`);
- its contention probe took longer, in calibrated cycles, than on a quiet core: another thread uses the core, and
  throughputs would be too high.

If fewer than `LEAST_QUIET` are undisturbed, the quietest ones count.

Code with many accesses to memory has a probe of its own, which also loads. A neighbour that mostly waits for its own
loads leaves the ALUs free, but delays other loads. On a Zen 3 with such neighbours, two campaigns agreed in 80% of the
throughputs with the probe of ADDs alone, and in 94% with this one.

The time of a probe on a quiet core has to be learned, perhaps beside another thread that never rests. A quiet core
gives the same time again. On an Ice Lake, the four fastest of twenty probes agreed within 0.5% in 99% of the runs with
a quiet moment, and in 2% of the others. So only runs that agree define a quiet core. Until there are some, everything
counts as disturbed. A neighbour that never rests may also give the same time again. So if the number of ALUs is known,
a probe that takes far longer than they explain is never quiet.
"""

from __future__ import annotations

import math
import operator
import time
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, Self

from generator.harness.native import least_probe_cycles
from runner.backend import CONTENTION_PROBE
from runner.measuring.calibration import steadied

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runner.backend import BackendInfo

CONTENTION_SLACK = 1.03
"""A contention probe may take this many times its best. On a quiet core of Zen 5 it stays within 1%, and a busy sibling
thread makes it at least 14% longer."""

NEVER_QUIET = 1.3
"""A contention probe that takes this many times what its ALUs need shares its core. It takes 1.03 times that on a quiet
Ice Lake and 1.23 times on a quiet Zen 5; a busy sibling thread makes it 1.4 to 2."""

BIN_WIDTH = 0.002
"""Runs are counted by the logarithm of their ratio, in bins of this width (0.2%): a fifteenth of the slack."""

LEAST_RUNS, LEAST_SHARE = 3, 0.005
"""This many runs and this share of all must agree on what is quiet: one run in 20,000 looks fast by mistake. If there
are fewer runs, the fastest is taken for quiet."""

ENOUGH_RUNS, SHARE_OF_FEW = 10, 1 / 3
"""Runs, or the share of all, that must agree at first: disturbed runs differ, but some of many are alike."""

AGREEING_BINS = 3
"""Runs in this many neighbouring bins (0.6%) agree."""

FAST_SHARE = 0.1
"""How many of a run's repetitions are faster than the one that stands for the run. Where the core is quiet for moments
only, the median is disturbed in nearly all runs."""

LEAST_QUIET = 3
"""Undisturbed repetitions that count alone, however many are wanted. Beside a neighbour that was busy nine tenths of
the time, 99% of the repetitions with a quiet contention probe were as fast as the fastest ones (Ice Lake)."""

SOMETIMES_QUIET = 0.1
"""From this share of quiet repetitions on, more repetitions are taken; below it, the program waits. Where a neighbour
leaves the core for 10 to 150 µs at a time, no wait finds it quiet for long."""

WAIT_PAUSE_SECONDS = 0.02
"""Pause after a look at the contention probe that was not quiet: short beside disturbances, which last seconds."""

CALM_LOOKS = 3
"""This many looks in a row must be quiet before measuring goes on: disturbances have short gaps."""


class Repetitions(NamedTuple):
    """What the repetitions of a run say, whatever ratio counts as quiet.

    `ratios` are the times of the contention probe in usual calibrations (`runner.measuring.calibration`). `steady` says
    for each repetition that nothing disturbed its own calibration; `calm` are the sorted ratios of those repetitions.
    What is usual is found for each round alone: others are measured between two rounds, for seconds at times.
    """

    ratios: list[float]
    steady: list[bool]
    calm: list[float]

    @classmethod
    def of(cls, samples: Mapping[str, Sequence[int]]) -> Repetitions:
        """Read the samples."""
        calibration = samples["calibration"]
        if not calibration:
            return cls([], [], [])
        usual = steadied(calibration)
        # At least 1: a clock may have been set back
        divisors = usual if min(usual) > 0 else [max(1, ticks) for ticks in usual]
        ratios = list(map(operator.truediv, samples[CONTENTION_PROBE], divisors))
        if usual is calibration:
            return cls(ratios, [True] * len(ratios), sorted(ratios))
        steady = list(map(operator.eq, calibration, usual))
        return cls(ratios, steady, sorted(compress(ratios, steady)))

    def joined(self, later: Repetitions) -> Repetitions:
        """Return these repetitions and those of a later round of the same code."""
        calm = sorted(self.calm + later.calm)  # of two sorted lists: takes linear time
        return Repetitions(self.ratios + later.ratios, self.steady + later.steady, calm)


class QuietFilter:
    """Learns how long the contention probe takes on a quiet core, and filters repetitions by it."""

    def __init__(self, most_ratio: float = float("inf")) -> None:
        """Never take for quiet what is above that ratio."""
        self.best_ratio = float("inf")
        self._most_ratio = most_ratio
        self._runs: Counter[int] = Counter()
        self._is_settled = False

    @classmethod
    def of(cls, info: BackendInfo, *, loads_beside: bool) -> Self | None:
        """Make the filter of one of a backend's contention probes (None: it has none).

        ADDs with loads also wait for decoders and issue, whose width is not known everywhere. So only of ADDs alone it
        is known which time is never quiet.
        """
        if CONTENTION_PROBE not in info.counters:
            return None
        least = None if loads_beside else least_probe_cycles(info.provenance.architecture)
        return cls(float(NEVER_QUIET * least / info.calibration_core_cycles) if least else float("inf"))

    @property
    def is_known(self) -> bool:
        """Whether anything was learned yet."""
        return self.best_ratio < float("inf")

    def learn(self, *runs: Repetitions) -> None:
        """Look at some runs; for each stands a fast repetition, but not the fastest: an odd one has no weight.

        The fastest run has no weight either. In one run of 20,000 a disturbed calibration makes the contention probe
        look fast; all later runs would then seem disturbed.
        """
        for run in runs:
            ratios = run.calm[bisect_right(run.calm, 0) :]
            if ratios:
                place = min(len(ratios) - 1, max(1, round(len(ratios) * FAST_SHARE)))
                if ratios[place] <= self._most_ratio:
                    self._runs[round(math.log(ratios[place]) / BIN_WIDTH)] += 1
        low = self._low_bin()
        self.best_ratio = float("inf") if low is None else math.exp(BIN_WIDTH * low)

    def _low_bin(self) -> int | None:
        """Return the lowest bin where enough runs agree; None: no runs do."""
        total = self._runs.total()
        if total < LEAST_RUNS:
            return min(self._runs, default=None)
        of_few = 0.0 if self._is_settled else min(ENOUGH_RUNS, SHARE_OF_FEW * total)
        enough = max(LEAST_RUNS, of_few, LEAST_SHARE * total)
        agreeing = ((low, sum(self._runs[low + n] for n in range(AGREEING_BINS))) for low in sorted(self._runs))
        found = next((low for low, count in agreeing if count >= enough), None)
        self._is_settled = found is not None
        return found

    def count(self, repetitions: Repetitions) -> int:
        """Return how many repetitions were undisturbed: none before anything was learned."""
        if not self.is_known:
            return 0
        return bisect_right(repetitions.calm, CONTENTION_SLACK * self.best_ratio)

    def suffices(self, runs: Sequence[Repetitions], enough: int = LEAST_QUIET) -> bool:
        """Say whether each run has enough undisturbed repetitions for them to count alone (see `undisturbed`)."""
        return all(self.count(run) >= min(enough, LEAST_QUIET) for run in runs)

    def is_quiet(self, samples: Mapping[str, Sequence[int]]) -> bool:
        """Say whether a run has enough undisturbed repetitions for measuring to go on."""
        return self.count(Repetitions.of(samples)) > SOMETIMES_QUIET * len(samples[CONTENTION_PROBE])

    def looks_quiet(self, samples: Mapping[str, Sequence[int]]) -> bool:
        """Say whether a look at the contention probe is quiet; before anything is known, learn from it."""
        if not self.is_known:
            self.learn(Repetitions.of(samples))
        return self.is_quiet(samples)

    def undisturbed(
        self, samples: Mapping[str, Sequence[int]], repetitions: Repetitions, enough: int
    ) -> dict[str, tuple[int, ...]]:
        """Return the undisturbed samples; of fewer than `LEAST_QUIET` and `enough`, the `enough` quietest ones."""
        ratios, steady, calm = repetitions.ratios, repetitions.steady, repetitions.calm
        limit = CONTENTION_SLACK * self.best_ratio
        quiet = self.count(repetitions)
        if quiet == len(ratios):
            return {counter: tuple(values) for counter, values in samples.items()}
        if quiet < max(1, min(enough, LEAST_QUIET)):
            limit = max([limit if self.is_known else 0.0, *calm[: max(1, enough)][-1:]])
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


@dataclass(slots=True)
class Watch:
    """What is known of neighbours by one of the two contention probes, and the patience with them.

    Each probe has its own patience: a neighbour that only delays loads costs other code nothing.
    """

    loads_beside: bool
    """Whether the contention probe also loads."""
    quiet: QuietFilter | None
    """None: the backend has no contention probe."""
    patience: Patience
    disturbed_in_a_row: int = 0
    """Requests."""

    @classmethod
    def of(cls, info: BackendInfo, patience: Patience, *, loads_beside: bool) -> Self:
        """Begin to watch a backend's neighbours by one of the contention probes."""
        return cls(loads_beside, QuietFilter.of(info, loads_beside=loads_beside), patience)
