"""Linux' perf events: the PMU's counters for an ordinary user, without a kernel module.

Code runs as in the clock backend, in loops of the unrolled copies. System calls around each repetition read a group of
events, which count user mode only. Events are packed into groups as the PMU allows, and each group is pinned. If
something else has the counters, a repetition counts nothing and is left out. Sources: perf_event_open(2); the events
are those of `runner.uarch`.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from generator.harness.native import calibration
from results.model import Status
from runner.backend import BackendError, BackendInfo, Job, JobResult, Repeat
from runner.host import cpu as cpus
from runner.host.isa_sets import lacking
from runner.host.kmod.passes import Hardware, Slot, countable, derive, plan
from runner.host.native import server
from runner.host.native.child import PerfEvent
from runner.host.native.cpuid import cpuid
from runner.host.native.runner import NativeRunner
from runner.uarch import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.backend import ExecutionEnvironment
    from runner.own_code.counters import MsrCounter, OwnEvent
    from xed_convert.model import InstructionVariant

PREFERENCE = 50
"""`auto` takes it where there is no kernel module: it counts ports too, but in loops and with interrupts."""
SUMMARY = "perf events of Linux: the PMU's counters for an ordinary user, in loops"

PREFERRED_ITERATIONS = 100
"""Iterations of the loop around every benchmark, so that it rises above the clock's resolution and the reads' cost."""
DEVICES = Path("/sys/bus/event_source/devices")
GENERIC = {"core_cycles": PerfEvent(0, 0), "instructions": PerfEvent(0, 1)}
"""PERF_TYPE_HARDWARE: the kernel knows where these are counted (also on a fixed counter)."""

CORE_TYPES = {0x40: "cpu_core", 0x20: "cpu_atom"}
"""The PMU of each core type of a hybrid CPU (CPUID leaf 1AH; Linux arch/x86/events/intel/core.c)."""

AMD_COUNTERS = 6
"""PerfCtrCore: six counters from family 15h on (AMD APM volume 2, 13.2)."""

CAVEAT = "counters are read by system calls around loops: about 1% of the counts is noise"
REASONS = {
    errno.ENOENT: ("the kernel has no PMU for it", "a hypervisor hides it; on bare metal there is one"),
    errno.EACCES: ("the kernel does not allow it", "sudo sysctl kernel.perf_event_paranoid=2"),
    errno.EPERM: ("the kernel does not allow it", "sudo sysctl kernel.perf_event_paranoid=2"),
    errno.EBUSY: ("something else has the counters", "end other users of perf; sudo sysctl kernel.nmi_watchdog=0"),
    errno.ENOSYS: ("this kernel has no perf events", "try --backend tsc"),
}


class PerfBackend:
    """Runs batches in a pinned child process, once per group of events."""

    name = "perf"
    _config1: Mapping[str, int] = MappingProxyType({})
    """The value of the MSR that a user's event needs, by counter."""

    def __init__(self, cpu: int | None = None, architecture: str | None = None) -> None:
        """Use that CPU, or the last one that this process may use.

        Raises:
            BackendError: no PMU, no permission, an unknown CPU, or another architecture than the CPU's is asked for.
        """
        self._cpu = cpus.read_cpu(cpus.choose(cpu))
        self._uarch = _microarchitecture(self._cpu, architecture)
        self._kind = _pmu_type(self._cpu.identity.core_type)
        _check(GENERIC["core_cycles"], "core cycles")
        self._hardware = _hardware(self._cpu.identity.vendor)
        self._runner = NativeRunner(self._cpu, calibration(1))

    def define(self, events: Sequence[OwnEvent], msrs: Sequence[MsrCounter]) -> None:
        """Also count a user's events; the kernel takes the values of their MSRs as config1.

        Raises:
            BackendError: a counter is read by RDMSR, needs two MSRs, or is one that the kernel refuses.
        """
        if msrs:
            raise BackendError(f"{msrs[0].name}: perf reads no MSRs", hint="--backend kmod reads APERF and MPERF")
        for one in events:
            if len(one.msrs) > 1:
                raise BackendError(f"{one.name}: perf sets one MSR per event, not {len(one.msrs)}")
        self._config1 = {**self._config1, **{one.name: value for one in events for value in one.msrs.values()}}
        self._uarch = dataclasses.replace(self._uarch, events=(*self._uarch.events, *(one.event for one in events)))
        for one in events:
            if not self._accepted(one.name):
                raise BackendError(
                    f"{one.name} ({one.event.event}) cannot be counted here", hint="the kernel refuses it"
                )

    def info(self) -> BackendInfo:
        """Say which events the kernel accepts here."""
        counters = tuple(name for name in countable(self._uarch, self._hardware) if self._accepted(name))
        caveats = (CAVEAT, *self._uarch.errata(counters))
        options = {"cpu": str(self._cpu.number), **self._runner.options}
        return BackendInfo(
            name=self.name,
            provenance=cpus.provenance(self._cpu, self.name, options, caveats),
            counters=counters,
            ports=tuple(name for name in self._uarch.port_counters if name in counters),
            caveats=caveats,
            preferred_iterations=PREFERRED_ITERATIONS,
            area_bytes=self._runner.area_bytes,
            port_kind=self._uarch.port_kind,
        )

    def provide(self, asked: ExecutionEnvironment) -> None:
        """Run all code from here on with this memory and these siblings.

        Raises:
            BackendError: it cannot be had here.
        """
        self._runner.provide(asked)

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        """Run every job once per group of events."""
        groups = plan(self._uarch, self._hardware, counters)
        runs = [self._run_group(batch, slots, repeat) for slots in groups]
        return [self._merged([run[index] for run in runs], counters) for index in range(len(batch))]

    def lacks(self, variant: InstructionVariant) -> str:
        """Return the reason why this CPU cannot run a variant ("": it can, or CPUID does not tell)."""
        return lacking(variant, self._cpu.number)

    def close(self) -> None:
        """End the child process."""
        self._runner.close()

    def _run_group(self, batch: Sequence[Job], slots: Sequence[Slot], repeat: Repeat) -> list[JobResult]:
        events = [self._event(slot.counter, slot.config) for slot in slots]
        return self._runner.run(batch, repeat, [slot.counter for slot in slots], events)

    def _merged(self, results: Sequence[JobResult], counters: Sequence[str]) -> JobResult:
        """Put the counters of all groups together, with as many repetitions as the shortest group has."""
        samples: dict[str, tuple[int, ...]] = {}
        for result in results:
            if result.status is not Status.OK:
                return result
            for counter, values in result.samples.items():
                samples.setdefault(counter, values)
        shortest = min(map(len, samples.values()), default=0)
        complete = derive(self._uarch, {name: values[:shortest] for name, values in samples.items()})
        return JobResult(Status.OK, {name: complete[name] for name in counters if name in complete})

    def _event(self, counter: str, selector: int) -> PerfEvent:
        return GENERIC.get(counter) or PerfEvent(self._kind, selector, self._config1.get(counter, 0))

    def _accepted(self, name: str) -> bool:
        """Whether the kernel opens the event of a counter, or all that a derived one is made of."""
        for row in self._uarch.derived:
            if row.counter == name:
                return all(self._accepted(part) for part in row.plus + row.minus)
        return _open_error(self._event(name, self._uarch.event(name).selector)) == 0


def _microarchitecture(cpu: cpus.Cpu, wanted: str | None) -> tables.Microarchitecture:
    found = tables.for_cpu(cpu.identity)
    if found is None:
        message = f"no events are known for this CPU: {cpu.model_name} ({cpu.signature})"
        raise BackendError(message, hint="try --backend tsc")
    cpus.check_architecture(cpu, wanted)
    return found


def _pmu_type(core_type: int) -> int:
    """Return the number of the PMU that counts on this kind of core.

    Raises:
        BackendError: the kernel has none.
    """
    name = CORE_TYPES.get(core_type, "cpu")
    try:
        return int((DEVICES / name / "type").read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        message, hint = REASONS[errno.ENOENT]
        raise BackendError(f"no PMU named {name}: {message}", hint=f"{hint}; --backend tsc needs none") from error


def _hardware(vendor: str) -> Hardware:
    """Return how many counters there are: CPUID leaf 0AH on Intel (SDM volume 2A), one less for the NMI watchdog."""
    programmable, fixed = AMD_COUNTERS, 0
    if vendor == "GenuineIntel":
        eax, _, _, edx = cpuid(0xA)
        programmable, fixed = eax >> 8 & 0xFF, edx & 0x1F
    try:
        watchdog = Path("/proc/sys/kernel/nmi_watchdog").read_text(encoding="ascii").strip() == "1"
    except OSError:
        watchdog = False
    return Hardware.of_counts(max(1, programmable - watchdog), fixed, (1 << 64) - 1)


def _open_error(event: PerfEvent) -> int:
    """Try to open an event; return 0 or the error number."""
    try:
        os.close(server.open_event(event.kind, event.config, config1=event.config1))
    except OSError as error:
        return error.errno or errno.EINVAL
    return 0


def _check(event: PerfEvent, what: str, reasons: Mapping[int, tuple[str, str]] = REASONS) -> None:
    number = _open_error(event)
    if number:
        message, hint = reasons.get(number, (os.strerror(number), "try --backend tsc"))
        raise BackendError(f"{what} cannot be counted: {message}", hint=hint)


def create(cpu: int | None = None, architecture: str | None = None) -> PerfBackend:
    """Make the backend (see `runner.backends.registry`)."""
    return PerfBackend(cpu, architecture)
