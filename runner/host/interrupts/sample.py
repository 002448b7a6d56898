"""Interrupts code in a loop many times, in several layouts, and counts where: histograms over its instructions."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.harness.harness import RDTSC, layout, render
from generator.harness.style import Style
from runner.backend import BackendError
from runner.host.interrupts import sampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.microbenchmark import Microbenchmark

PERIOD_NS = 20_000
OFFSETS = (0, 16, 32, 48)
"""Bytes behind a multiple of 64 at which the loop begins, in its layouts."""
ITERATIONS = 0x0BADBEE5
"""Stands in the blob where the sampler writes how many iterations it wants."""
MOST_SECONDS = 8.0
"""For the samples of one layout."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one layout gave: samples by instruction of the loop, and elsewhere; stale and lost ones; CPU seconds."""

    offset_bytes: int
    counts: tuple[int, ...]
    elsewhere: int
    stale: int
    lost: int
    seconds: float

    @property
    def total(self) -> int:
        """Samples in the loop."""
        return sum(self.counts)

    @property
    def shares(self) -> dict[int, Fraction]:
        """The share of each instruction that was caught at all, by its position."""
        return {number: Fraction(count, self.total) for number, count in enumerate(self.counts) if count}

    @property
    def per_second(self) -> float:
        """Samples per second of running, without stale ones."""
        return (self.total + self.elsewhere) / self.seconds if self.seconds else 0.0


def loop_of(benchmark: Microbenchmark) -> bytes:
    """Return the code of one iteration: the body, and what ends the loop."""
    shape = layout(benchmark, 1, 1, RDTSC, Style())
    blob = render(benchmark, 1, 1, RDTSC, Style())
    return blob[shape.body_offset : shape.body_end]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: so many samples in each layout, nanoseconds between interrupts, the CPU (None: the last).

    After so many `seconds` a layout has to do with fewer samples.
    """

    samples: int = 5000
    period_ns: int = PERIOD_NS
    cpu: int | None = None
    seconds: float = MOST_SECONDS


def sample(
    benchmark: Microbenchmark, starts: Sequence[int], cpu: int, sampling: Sampling, offset_bytes: int = 0
) -> Sampled:
    """Interrupt a loop of one copy until there are so many samples.

    Args:
        benchmark: the code; it must leave R15 alone.
        starts: where the instructions of `loop_of` begin, in bytes, and its size at the end.
        cpu: where to run.
        sampling: how often.
        offset_bytes: where the loop begins behind a multiple of 64.

    Raises:
        BackendError: the kernel refuses, or the code ended its process.
    """
    style = Style(offset_bytes=offset_bytes)
    blob = render(benchmark, 1, ITERATIONS, RDTSC, style)
    shape = layout(benchmark, 1, ITERATIONS, RDTSC, style)
    job = {
        "blob": blob.hex(),
        "patch_at": blob.index(ITERATIONS.to_bytes(4, "little")),
        "cpu": cpu,
        "period_ns": sampling.period_ns,
        "samples": sampling.samples,
        "seconds": sampling.seconds,
    }
    found = _run(job)
    counts = [0] * (len(starts) - 1)
    places = {shape.body_offset + start: number for number, start in enumerate(starts[:-1])}
    elsewhere = 0
    for offset, count in found["counts"].items():
        number = places.get(int(offset))
        if number is None:
            elsewhere += count
        else:
            counts[number] += count
    return Sampled(offset_bytes, tuple(counts), elsewhere, found["stale"], found["lost"], found["seconds"])


def _run(job: dict[str, object]) -> dict[str, Any]:
    """Run the sampler.

    Raises:
        BackendError: it could not do it.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(Path(sampler.__file__))],
            check=False,
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS + 30,
        )
    except subprocess.TimeoutExpired:
        raise BackendError("the code does not come to an end") from None
    if done.returncode < 0:
        raise BackendError(f"the code ended its process by signal {-done.returncode}")
    try:
        found = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:]
        raise BackendError("the code damaged the process that ran it" + (f": {last[0]}" if last else "")) from None
    if "refused" in found:
        hint = "sysctl kernel.perf_event_paranoid=2 allows it to ordinary users"
        raise BackendError(f"the kernel refuses the software clock: {found['refused']}", hint=hint)
    return dict(found)
