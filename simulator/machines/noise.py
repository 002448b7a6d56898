"""Errors of the counters of a simulated machine.

The first run of a job always gives the same samples. A repetition gives others, as on a real machine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHARE_UPWARDS = 0.1
"""The share of samples that are a few events too high where `upwards` is not 0."""

OUTLIER = (1.05, 2.0)
"""An outlier is a sample times a factor between these: an interrupt, or another thread on the core."""

DRIFTING = "core_cycles"
"""The counter that drifts: it is the clock. Events are counted, not timed."""


@dataclass(frozen=True, slots=True)
class CounterNoise:
    """Errors of samples. Percentages are of the exact count; all zero: exact counters.

    - `upwards`: a tenth of the samples are 1 to this many events too high.
    - `sample_percent`: every sample is off by its own factor, by at most this much to either side.
    - `job_percent`: likewise, but by one factor per counter for all samples of a job, which repeating does not show.
    - `outlier_percent`: the share of samples that are much too high (`OUTLIER`).
    - `offset`: every sample is this many events too high.
    - `drift_percent`: core cycles become this many percent more over `drift_jobs` jobs, then fewer again, and so on.
    """

    upwards: int = 0
    sample_percent: int = 0
    job_percent: int = 0
    outlier_percent: int = 0
    offset: int = 0
    drift_percent: int = 0
    drift_jobs: int = 500

    @property
    def hidden_share(self) -> Fraction:
        """The share by which a value per copy may be off although all its samples agree.

        A value is the difference of two jobs, of 110 and 10 copies, by 100. Each job is off by a factor of its own.
        """
        return Fraction(self.job_percent * (110 + 10), 100 * 100) + Fraction(self.drift_percent, 100)

    def samples(
        self, job: str, values: Mapping[str, int], repetitions: int, position: int, turn: int = 0
    ) -> dict[str, tuple[int, ...]]:
        """Return samples of each counter of a job, which is the `position`-th that the machine runs.

        `job` names the job, which has run `turn` times before. A factor of the whole job is the same each time.
        """
        if self == EXACT:
            return {name: (value,) * repetitions for name, value in values.items()}
        upwards = random.Random(f"{job} {turn}")
        return {
            name: tuple(
                self._samples(
                    upwards,
                    f"{job} {name}",
                    turn=turn,
                    value=value,
                    repetitions=repetitions,
                    drift=self._drift(name, position),
                )
            )
            for name, value in values.items()
        }

    def _drift(self, name: str, position: int) -> float:
        """Return the factor of a counter after a number of jobs: up and down in a straight line."""
        if name != DRIFTING or not self.drift_percent:
            return 1
        up_and_down = position % (2 * self.drift_jobs)
        return 1 + self.drift_percent / 100 * min(up_and_down, 2 * self.drift_jobs - up_and_down) / self.drift_jobs

    def _samples(
        self, upwards: random.Random, name: str, *, turn: int, value: int, repetitions: int, drift: float
    ) -> Iterator[int]:
        """Yield the samples of a counter of a job, by the name of both."""
        job = drift * (_near_one(random.Random(name), self.job_percent) if self.job_percent else 1)
        # Seeding takes as long as all samples, so there is no source if nothing is drawn from it
        source = random.Random(f"{name} {turn}") if self.sample_percent or self.outlier_percent else None
        for _ in range(repetitions):
            factor = job
            if source is not None:
                factor *= _near_one(source, self.sample_percent)
                if source.random() * 100 < self.outlier_percent:
                    factor *= source.uniform(*OUTLIER)
            sample = value if factor == 1 else round(value * factor)
            sample += self.offset
            if self.upwards and upwards.random() < SHARE_UPWARDS:
                sample += upwards.randint(1, self.upwards)
            yield sample


EXACT = CounterNoise()


def _near_one(source: random.Random, percent: int) -> float:
    return 1 + source.uniform(-percent, percent) / 100
