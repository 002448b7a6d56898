"""Checks the clock backend by what is known; `uopscope doctor` runs it.

It measures instructions whose latency is known, and how coarse the clock is. It then runs the contention probe
(`runner.measuring.quiet`) with this machine's other CPUs idle and busy: that shows a shared core, even where a
hypervisor hides it.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Request
from results.model import Status
from runner.backend import CONTENTION_PROBE, Backend, BackendError, Job, Repeat
from runner.doctor import Finding, Grade
from runner.measuring.protocol import Measurer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from inference.experiment import Measured

IMUL = Microbenchmark((), (Line(bytes.fromhex("480fafc0"), "IMUL RAX, RAX"),), "self-test: IMUL")
ADD = Microbenchmark((), (Line(bytes.fromhex("4801c0"), "ADD RAX, RAX"),), "self-test: ADD")
EXPECTED = ((IMUL, 3), (ADD, 1))
"""Latency in cycles; Golden Cove and later eliminate ADD of small immediates at rename, but not of registers."""

SPIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: sum(range(10000))"
START_SECONDS = 0.2
"""Until spinning processes have started."""

TOLERANCE = 0.03
"""By how much known latencies may be off, of their value."""
SHARED_RATIO = 1.05
"""A contention probe that takes this many times its best shares its core: alone it stays within 1%, shared it takes
14% longer or more (`runner.measuring.quiet`)."""

LOOKS = 5
"""Looks with other CPUs idle and busy in turn: a host moves virtual CPUs, so two share a core only at times."""


@dataclass(frozen=True, slots=True)
class ClockState:
    """How the clock behaves: its smallest step, and the medians of calibration and contention probe, all in ticks."""

    step_ticks: int
    calibration_ticks: int
    probe_ticks: int

    @property
    def probe_ratio(self) -> float:
        """The contention probe in units of the calibration, whatever the frequency."""
        return self.probe_ticks / max(1, self.calibration_ticks)


def findings(backend: Backend) -> list[Finding]:
    """Measure, on a clock backend; takes about two seconds.

    Raises:
        BackendError: the backend broke down, or cannot run the simplest code.
    """
    idle = clock_state(backend)
    found = [_step(idle)]
    found += [_known(result, cycles) for result, cycles in _known_latencies(backend)]
    others = sorted(os.sched_getaffinity(0) - {int(backend.info().provenance.options["cpu"])})
    if others:
        found.append(_sharing(*_looks(backend, others), others))
    return found


def _looks(backend: Backend, others: list[int]) -> tuple[list[float], list[float]]:
    """Return the contention probe's times in calibrations while other CPUs are idle, and while they are busy."""
    idle, busy = [], []
    for _ in range(LOOKS):
        idle.append(clock_state(backend).probe_ratio)
        with _busy(others):
            busy.append(clock_state(backend).probe_ratio)
    return idle, busy


def clock_state(backend: Backend) -> ClockState:
    """Return how the clock behaves now.

    Raises:
        BackendError: the simplest code does not run.
    """
    (result,) = backend.run([Job(IMUL, 110, 100)], backend.info().counters, Repeat(repetitions=300))
    if result.status is not Status.OK:
        raise BackendError(f"the simplest code does not run: {result.detail}", hint="see `uopscope doctor`")
    samples = result.samples
    step = reduce(math.gcd, [*samples["tsc"], *samples[CONTENTION_PROBE]])
    middle = {name: sorted(values)[len(values) // 2] for name, values in samples.items()}
    return ClockState(step, middle["calibration"], middle[CONTENTION_PROBE])


def _known_latencies(backend: Backend) -> list[tuple[Measured, int]]:
    measured = Measurer(backend).measure([Request(benchmark) for benchmark, _ in EXPECTED])
    return [(result, cycles) for result, (_, cycles) in zip(measured, EXPECTED, strict=True)]


def _step(state: ClockState) -> Finding:
    found = f"moves {state.step_ticks} tick{'s' * (state.step_ticks > 1)} at a time"
    return Finding(Grade.GOOD if state.step_ticks < 100 else Grade.NOTE, "clock", found)


def _known(result: Measured, cycles: int) -> Finding:
    name = result.request.benchmark.body[0].text
    if not result.ok:
        return Finding(Grade.BAD, "self-test", f"{name}: {result.status} ({result.detail})", "report this")
    measured, spread = float(result.cycles), float(result.spread["core_cycles"])
    found = f"{name}: {measured:.3f} ± {spread:.3f} cycles (known: {cycles})"
    if abs(measured - cycles) > TOLERANCE * cycles:
        return Finding(Grade.BAD, "self-test", found, "measure when the machine is idle")
    return Finding(Grade.GOOD, "self-test", found)


def _sharing(idle: list[float], busy: list[float], others: list[int]) -> Finding:
    """Judge by how often the contention probe takes longer than at best, with the other CPUs busy and idle."""
    best, names = min(idle), ", ".join(map(str, others))
    slow, slow_anyway = (sum(ratio > SHARED_RATIO * best for ratio in looks) for looks in (busy, idle))
    found = (
        f"with CPU {names} busy, code that needs all ALUs takes up to {max(busy) / best:.2f} times "
        f"as long, more than {SHARED_RATIO - 1:.0%} longer in {slow} of {len(busy)} looks"
    )
    if slow > slow_anyway:
        often = "shares" if slow == len(busy) else "at times shares"
        advice = f"it {often} a core with this CPU, whatever the topology says: keep it idle while measuring"
        return Finding(Grade.BAD, "shared core", found, advice)
    if slow_anyway:
        advice = "also with it idle: others use this core, unseen; measurements wait for quiet moments"
        return Finding(Grade.NOTE, "shared core", found, advice)
    return Finding(Grade.GOOD, "shared core", found)


@contextmanager
def _busy(numbers: list[int]) -> Iterator[None]:
    """Keep these CPUs busy."""
    workers = [subprocess.Popen([sys.executable, "-I", "-S", "-c", SPIN, str(number)]) for number in numbers]
    try:
        time.sleep(START_SECONDS)
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
