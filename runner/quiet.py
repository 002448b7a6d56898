"""Which repetitions on a clock count: those that nobody disturbed.

Beside each repetition run a calibration chain and a witness that keeps every ALU busy (`generator.native`). A
repetition does not count where its calibration took longer than that of the others (an interrupt hit it, and it would
make the code under test look fast), or where the witness took longer, in calibrated cycles, than it does on a quiet
core: then another thread uses the same core, and throughputs are not those of the instruction. Where that is so all
the time, the quietest repetitions count.
"""

from __future__ import annotations

import operator
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CALIBRATION_SLACK = 1.05
WITNESS_SLACK = 1.03
"""On a quiet core of Zen 5 the witness stays within 1%; with a busy sibling thread it takes 14% longer or more."""


class QuietFilter:
    """Knows the shortest time that the witness typically took so far, and filters by it."""

    def __init__(self) -> None:
        self.best_ratio = float("inf")

    @property
    def is_known(self) -> bool:
        """Whether anything was learned yet."""
        return self.best_ratio < float("inf")

    def learn(self, samples: Mapping[str, Sequence[int]]) -> None:
        """Look at the repetitions of one run; their median counts, so that no single odd one does."""
        ratios = _ratios(samples)
        if ratios:
            self.best_ratio = min(self.best_ratio, sorted(ratios)[len(ratios) // 2])

    def count(self, samples: Mapping[str, Sequence[int]]) -> int:
        """Return how many repetitions were undisturbed."""
        limit = WITNESS_SLACK * self.best_ratio
        return sum(ratio <= limit for ratio in compress(_ratios(samples), _steady(samples)))

    def undisturbed(self, samples: Mapping[str, Sequence[int]], at_least: int) -> dict[str, tuple[int, ...]]:
        """Return the repetitions that count, and if they are too few, as many of the quietest (at least one)."""
        ratios, steady = _ratios(samples), _steady(samples)
        quietest = sorted(compress(ratios, steady))[: max(1, at_least)]
        limit = max([WITNESS_SLACK * self.best_ratio, *quietest[-1:]])
        keep = [calm and ratio <= limit for calm, ratio in zip(steady, ratios, strict=True)]
        return {counter: tuple(compress(values, keep)) for counter, values in samples.items()}


def _steady(samples: Mapping[str, Sequence[int]]) -> list[bool]:
    """Say of each repetition whether its calibration was not interrupted; the shorter half of them never was."""
    calibration = samples["calibration"]
    most = CALIBRATION_SLACK * sorted(calibration)[len(calibration) // 2] if calibration else 0
    return [beside <= most for beside in calibration]


def _ratios(samples: Mapping[str, Sequence[int]]) -> list[float]:
    calibration = samples["calibration"]
    if calibration and min(calibration) <= 0:  # a clock that was set back
        calibration = [max(1, ticks) for ticks in calibration]
    return list(map(operator.truediv, samples["witness"], calibration))
