"""The clock backend: native code of an ordinary user, timed by RDTSC, with the CPU's clock calibrated all the time.

Needs no PMU, no privileges, and works in virtual machines. Every repetition runs a calibration chain of known length
just before the code under test. So ticks become core cycles even while the frequency changes. It counts no µops and no
ports.
"""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

from generator.harness import native
from runner.backend import CLOCK_COUNTERS, BackendError, BackendInfo, Job, JobResult, Repeat
from runner.host import cpu as cpus
from runner.host.isa_sets import lacking
from runner.host.native.runner import NativeRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.backend import ExecutionEnvironment
    from xed_convert.model import InstructionVariant

PREFERENCE = 10
"""The last resort of `auto`: every backend with counters says more."""

CALIBRATION_ITERATIONS = 100
"""Of 30 IMULs each: 9,000 core cycles, so that a clock with steps of 26 ticks errs by less than 1%."""

PREFERRED_ITERATIONS = 100
"""Iterations of the loop around every benchmark, so that it rises above the clock's resolution and the reads' cost."""

CAVEAT = "a clock only: no µop counts, ports only by time; core cycles by a chain of IMULs beside each repetition"
VIRTUAL_CAVEAT = "inside a virtual machine: its host may take the core away or share it"


class TscBackend:
    """Runs batches in a pinned child process, which is started when it is first needed."""

    name = "tsc"

    def __init__(self, cpu: int | None = None, architecture: str | None = None) -> None:
        """Use that CPU, or the last one that this process may use.

        Raises:
            BackendError: not Linux on x86-64, no such CPU, or another architecture than the CPU's is asked for.
        """
        if not (sys.platform == "linux" and platform.machine() == "x86_64"):
            raise BackendError("the tsc backend needs Linux on x86-64", hint="--backend sim --arch SKL simulates one")
        self._cpu = cpus.read_cpu(cpus.choose(cpu))
        cpus.check_architecture(self._cpu, architecture)
        _check_clock(self._cpu)
        self._calibration = native.calibration(CALIBRATION_ITERATIONS)
        self._runner = NativeRunner(self._cpu, self._calibration)

    def info(self) -> BackendInfo:
        """Say what is counted: ticks and their calibration."""
        caveats = (CAVEAT, VIRTUAL_CAVEAT) if self._cpu.in_virtual_machine else (CAVEAT,)
        options = {"cpu": str(self._cpu.number), "calibration_core_cycles": str(self._calibration.core_cycles)}
        options |= self._runner.options
        return BackendInfo(
            name=self.name,
            provenance=cpus.provenance(self._cpu, self.name, options, caveats),
            counters=CLOCK_COUNTERS,
            ports=(),
            caveats=caveats,
            preferred_iterations=PREFERRED_ITERATIONS,
            calibration_core_cycles=self._calibration.core_cycles,
            area_bytes=self._runner.area_bytes,
        )

    def provide(self, asked: ExecutionEnvironment) -> None:
        """Run all code from here on with this memory and these siblings.

        Raises:
            BackendError: it cannot be had here.
        """
        self._runner.provide(asked)

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        """Run the jobs; all clocks are read each time, whichever are named in `counters`."""
        del counters
        return self._runner.run(batch, repeat, CLOCK_COUNTERS)

    def lacks(self, variant: InstructionVariant) -> str:
        """Return the reason why this CPU cannot run a variant ("": it can, or CPUID does not tell)."""
        return lacking(variant, self._cpu.number)

    def close(self) -> None:
        """End the child process."""
        self._runner.close()


def _check_clock(cpu: cpus.Cpu) -> None:
    if "tsc" not in cpu.flags:
        raise BackendError("this CPU has no time-stamp counter", hint="--backend sim --arch SKL simulates one")


def create(cpu: int | None = None, architecture: str | None = None) -> TscBackend:
    """Make the backend (see `runner.backends.registry`)."""
    return TscBackend(cpu, architecture)
