"""The records of a campaign's file: microbenchmarks with their samples, conclusions, and their evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.model import Characterization, Measurement, Provenance


class Outcome(StrEnum):
    """What became of a variant."""

    MEASURED = "measured"
    FAILED = "failed"
    SKIPPED = "skipped"

    @classmethod
    def of(cls, result: Characterization) -> Outcome:
        """Say which it is."""
        if result.skipped:
            return cls.SKIPPED
        return cls.FAILED if result.failures else cls.MEASURED


@dataclass(frozen=True, slots=True)
class StoredBenchmark:
    """A microbenchmark as it is kept for people: lines are pairs of bytes and text."""

    id: str
    purpose: str
    divisor: int
    setup: tuple[tuple[bytes, str], ...]
    body: tuple[tuple[bytes, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One stored measurement: what was asked for, of which microbenchmark, and what came back."""

    request: str
    benchmark: StoredBenchmark
    measurement: Measurement

    @property
    def asked(self) -> tuple[str, str, int]:
        """Which counters were wanted, `unrolled` or `loop`, and the number of the repetition (`Request.again`)."""
        _, want, mode, *again = self.request.split(":")
        return want, mode, int(again[0]) if again else 0


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A stored conclusion with the version of the inference that drew it and the machine it is about."""

    id: int
    result: Characterization
    inference: str
    provenance: Provenance
    time: str
