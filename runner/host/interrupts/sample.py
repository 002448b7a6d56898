"""Interrupts code in a loop many times, in several layouts, and counts where: histograms over its instructions."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.harness.harness import RDTSC, layout, render
from generator.harness.native import PLACEHOLDER, chain, contention_probe, signal_sampler
from generator.harness.style import Style
from runner.backend import BackendError
from runner.host.interrupts import sampler
from runner.host.interrupts.by_module import ModuleSampler
from runner.host.native.faults import signal_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.microbenchmark import Microbenchmark

PERIOD_NS = 20_000
OFFSETS = (0, 16, 32, 48)
"""Bytes behind a multiple of 64 at which the loop begins, in its layouts."""
ROUNDS = 2
"""Times that each layout is sampled by each source."""
MOST_SECONDS = 8.0
"""For the samples of one layout."""
TRIES = 2
"""Times that a layout is sampled, if somebody uses the core all the time."""


class Source(StrEnum):
    """What makes the interrupts; values are those of the command line."""

    PERF = "perf"
    """perf's software clock: the kernel writes samples down."""
    TIMER = "timer"
    """A POSIX timer of the thread, whose signals a handler counts."""
    KMOD = "kmod"
    """The local APIC's timer: the kernel module takes its interrupts in ring 0."""


USUAL_SOURCES = (Source.PERF, Source.TIMER)
"""Those that an ordinary user may have."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one source gave in one layout: samples by instruction of the loop, and elsewhere.

    `stale`, `lost` and `disturbed` samples do not count. `seconds` are those of the runs that count; in them an
    iteration took `cycles` core cycles when nothing interrupted it. `probe` is what the contention probe took at its
    best, in the sampler's unit (0: not known).
    """

    offset_bytes: int
    counts: tuple[int, ...]
    elsewhere: int
    stale: int
    lost: int
    seconds: float
    disturbed: int = 0
    cycles: float = 0.0
    source: Source = Source.PERF
    probe: float = 0.0

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


class SourceRefusedError(BackendError):
    """The kernel does not let this user have a source of interrupts."""


def loop_of(benchmark: Microbenchmark) -> bytes:
    """Return the code of one iteration: the body, and what ends the loop."""
    shape = layout(benchmark, 1, 1, RDTSC, Style())
    blob = render(benchmark, 1, 1, RDTSC, Style())
    return blob[shape.body_offset : shape.body_end]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: the number of samples by each source in each layout and round, and nanoseconds between interrupts.

    `cpu` is where to run (None: the last one). After `seconds` a layout has to do with fewer samples.
    """

    samples: int = 5000
    period_ns: int = PERIOD_NS
    cpu: int | None = None
    seconds: float = MOST_SECONDS
    sources: tuple[Source, ...] = USUAL_SOURCES
    rounds: int = ROUNDS
    offsets: tuple[int, ...] = OFFSETS


@dataclass(frozen=True, slots=True)
class Visit:
    """Where the loop begins, in bytes behind a multiple of 64, and what interrupts it.

    `quiet` is the best time of the contention probe so far (0: not known).
    """

    offset_bytes: int = 0
    source: Source = Source.PERF
    quiet: float = 0.0


def sample_all(benchmark: Microbenchmark, starts: Sequence[int], cpu: int, sampling: Sampling) -> list[Sampled]:
    """Sample in all layouts by all sources, the rounds one after the other; see `sample`.

    What the kernel refuses is left out while another source is allowed. Layouts during which somebody used the core all
    the time are sampled again.

    Raises:
        BackendError: the kernel refuses all of them, or the code ended its process.
    """
    refused: dict[Source, SourceRefusedError] = {}
    found: list[Sampled] = []
    for _ in range(sampling.rounds):
        for offset in sampling.offsets:
            for source in sampling.sources:
                if source in refused:
                    continue
                try:
                    found.append(sample(benchmark, starts, cpu, sampling, Visit(offset, source, _quiet(found))))
                except SourceRefusedError as error:
                    refused[source] = error
                    if len(refused) == len(sampling.sources):
                        raise
    for _ in range(TRIES - 1):
        for number, one in enumerate(found):
            if one.probe > sampler.UNDISTURBED * _quiet(found):
                again = sample(benchmark, starts, cpu, sampling, Visit(one.offset_bytes, one.source, _quiet(found)))
                found[number] = min(one, again, key=lambda each: each.probe)
    return found


def _quiet(found: Sequence[Sampled]) -> float:
    """Return the best contention probe (0: none); the kernel module has none."""
    return min((one.probe for one in found if one.probe), default=0.0)


def sample(benchmark: Microbenchmark, starts: Sequence[int], cpu: int, sampling: Sampling, visit: Visit) -> Sampled:
    """Interrupt a loop of one copy until there are enough samples.

    Args:
        benchmark: the code; it must leave R15 alone.
        starts: where the instructions of `loop_of` begin, in bytes, and its size at the end.
        cpu: where to run.
        sampling: how often.
        visit: in which layout, and what interrupts it.

    Raises:
        SourceRefusedError: the kernel refuses the source.
        BackendError: the code ended its process.
    """
    style = Style(offset_bytes=visit.offset_bytes)
    shape = layout(benchmark, 1, PLACEHOLDER, RDTSC, style)
    if visit.source is Source.KMOD:
        found = _run_in_kernel(benchmark, style, cpu, sampling)
    else:
        found = _run(_job(benchmark, style, cpu, sampling, visit))
    places = {shape.body_offset + start: number for number, start in enumerate(starts[:-1])}
    counts, elsewhere = [0] * len(places), 0
    for offset, count in found["counts"].items():
        number = places.get(int(offset))
        if number is None:
            elsewhere += count
        else:
            counts[number] += count
    return Sampled(
        offset_bytes=visit.offset_bytes,
        counts=tuple(counts),
        elsewhere=elsewhere,
        stale=found["stale"],
        lost=found["lost"],
        seconds=found["seconds"],
        disturbed=found["disturbed"],
        cycles=chain()[1] * found["iterations"],
        source=visit.source,
        probe=found.get("probe", 0.0),
    )


def _job(benchmark: Microbenchmark, style: Style, cpu: int, sampling: Sampling, visit: Visit) -> dict[str, object]:
    blob, (calibration, _) = render(benchmark, 1, PLACEHOLDER, RDTSC, style), chain()
    patched = PLACEHOLDER.to_bytes(4, "little")
    return {
        "blob": blob.hex(),
        "patch_at": blob.index(patched),
        "calibration": calibration.hex(),
        "calibration_patch_at": calibration.index(patched),
        "probe": contention_probe().hex(),
        "quiet": visit.quiet,
        "source": visit.source.value,
        "handler": signal_sampler().hex(),
        "cpu": cpu,
        "period_ns": sampling.period_ns,
        "samples": sampling.samples,
        "seconds": sampling.seconds,
    }


def _run_in_kernel(benchmark: Microbenchmark, style: Style, cpu: int, sampling: Sampling) -> dict[str, Any]:
    """Let the module interrupt the loop.

    Raises:
        BackendError: no module, or the code faulted.
    """
    sampler = ModuleSampler(benchmark, style, sampling.period_ns, cpu)
    try:
        sampler.sample(sampling.samples, sampling.seconds)
        return sampler.report()
    finally:
        sampler.close()


def _run(job: dict[str, object]) -> dict[str, Any]:
    """Run the sampler.

    Raises:
        SourceRefusedError: the kernel refuses the source.
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
        raise BackendError(
            f"the code ended its process by {signal_name(-done.returncode)}",
            hint="`uopscope measure --asm CODE` says at which instruction",
        )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:]
        raise BackendError("the code damaged the process that ran it" + (f": {last[0]}" if last else "")) from None
    if "refused" in found:
        hint = "sysctl kernel.perf_event_paranoid=2 allows perf to ordinary users; --source timer needs no permission"
        raise SourceRefusedError(f"the kernel refuses the source {job['source']!r}: {found['refused']}", hint=hint)
    return dict(found)
