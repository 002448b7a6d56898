"""The kernel module: code runs in ring 0 with interrupts off, and the PMU counts cycles and µops per port.

Every job runs once per set of counters that the hardware can read together (`runner.host.kmod.passes`). The blobs
differ from those of other backends only in the instructions that read the counters.

If no PMU counts core cycles (a hypervisor hides it, or this CPU's events are not known), APERF and MPERF count them. If
these are missing, too, the clock is calibrated as by the backend `tsc`, but in ring 0 and without interrupts.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from typing import TYPE_CHECKING

from generator.harness import native
from generator.harness.harness import RDTSC, BlobLayout, CounterReader, layout, render
from generator.harness.style import State, Style
from results.model import Status
from runner.backend import BackendError, BackendInfo, Job, JobResult, Repeat
from runner.host import cpu as cpus
from runner.host.conditions import conditions
from runner.host.isa_sets import lacking
from runner.host.kmod import abi
from runner.host.kmod.device import BlobJob, BlobResult, Device
from runner.host.kmod.passes import (
    FREE_RUNNING,
    CounterPass,
    Hardware,
    Slot,
    countable,
    derive,
    plan,
    together,
    without_events,
)
from runner.host.kmod.preflight import Preflight
from runner.host.kmod.settings import flags_of
from runner.uarch import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.backend import ExecutionEnvironment
    from runner.own_code.counters import MsrCounter, OwnEvent
    from xed_convert.model import InstructionVariant

PREFERENCE = 100
"""The first choice of `auto`: exact counters, interrupts off, privileged code."""
SUMMARY = "the kernel module: ring 0, interrupts off, the PMU's counters (needs root)"

CALIBRATION_ITERATIONS = 100
"""Of 30 IMULs each, as in the backend `tsc`."""

NO_PMU = "no PMU counts core cycles here, so there are no µop counts and no ports: "
MASKED_AT_MOST = 50
"""Variants in a campaign with the vector table masked: few enough that a person can check them first."""
MASKED = (
    "interrupts are on, with the vector table masked: code that destroys RSP or GS base stops the machine, so a "
    f"campaign has at most {MASKED_AT_MOST} variants"
)
GUARD_ON_SIBLING = "no CPU but the sibling could watch over the measured one: its timer ticks on the same core"
SMI_ATTEMPTS = 3
"""How often a job is run if system management interrupts fall into it; usual are none, or a few per second."""
FREQUENCY_CHANGE = 0.01
"""From here on a job's halves are said to have run at different frequencies: a step of the multiplier is 2 to 4%."""

BY_MSRS = NO_PMU + "core cycles by APERF, which is read by RDMSR"
BY_CLOCK = NO_PMU + "core cycles by the clock and a calibration chain of IMULs beside each repetition"

SMI = "{count} system management interrupts during the job, {attempts} times: the firmware takes the CPU away"
FREQUENCY = "the core's frequency changed by {change:.0%} during the job: that changes ticks, but not core cycles"

STATES = {
    abi.JobStatus.OK: Status.OK,
    abi.JobStatus.FAULT: Status.FAULTED,
    abi.JobStatus.TIME_OUT: Status.TIMED_OUT,
    abi.JobStatus.REFUSED: Status.REFUSED,
    abi.JobStatus.STATE: Status.FAULTED,
    abi.JobStatus.NOT_RUN: Status.REFUSED,
}


class KmodBackend:
    """Runs batches in the kernel, on one CPU."""

    name = "kmod"

    def __init__(self, cpu: int | None = None, architecture: str | None = None) -> None:
        """Open the module's device for that CPU, or for the last that this process may use.

        Raises:
            BackendError: no module, no permission, or another CPU than `architecture`.
        """
        self._cpu = cpus.read_cpu(cpus.choose(cpu))
        cpus.check_architecture(self._cpu, architecture)
        self._flags = flags_of(os.environ)
        self._r14_bytes = 0
        self._device: Device | None = Device(self._cpu.number, self._flags)
        information = self._device.information
        self._hardware = _hardware(information)
        self._uarch = _with_cycles(tables.for_cpu(self._cpu.identity), self._hardware)
        self._free = without_events(information.features)
        self._clean_uppers = "avx" in self._cpu.flags
        self._msrs: tuple[Slot, ...] = ()
        self._needs: dict[str, tuple[tuple[int, int], ...]] = {}
        self._preflight = Preflight(self._cpu)

    def info(self) -> BackendInfo:
        """Say what this CPU's PMU counts, or what counts instead of one."""
        counters = self._counters()
        caveats = (*self._caveats(), *(self._uarch.errata(counters) if self._uarch else ()))
        ports = tuple(name for name in self._uarch.port_counters if name in counters) if self._uarch else ()
        return BackendInfo(
            name=self.name,
            provenance=cpus.provenance(self._cpu, self.name, self._options(), caveats),
            counters=counters,
            ports=ports,
            caveats=caveats,
            preferred_iterations=CALIBRATION_ITERATIONS if self._is_clock else 0,
            calibration_core_cycles=native.calibration(CALIBRATION_ITERATIONS).core_cycles if self._is_clock else 0,
            supports_privileged=True,
            most_variants=MASKED_AT_MOST if self._flags & abi.BatchFlag.MASK_LVT else 0,
            area_bytes=self._r14_bytes or abi.AREA_BYTES,
            port_kind=self._uarch.port_kind if self._uarch else "",
        )

    def define(self, events: Sequence[OwnEvent], msrs: Sequence[MsrCounter]) -> None:
        """Also count a user's events, and counters that RDMSR reads, with the registers that they need.

        Whether the CPU has these registers, and the module writes them, is known only when they are counted.

        Raises:
            BackendError: no counter here can count one of the events, or it needs too many registers.
        """
        for one in events:
            if self._uarch is None or not self._hardware.can_count(one.event):
                raise BackendError(f"{one.name} ({one.event.event}) cannot be counted by the PMU of this CPU")
            self._needs[one.name] = tuple(one.msrs.items())
        for row in msrs:
            if len(row.writes) > abi.MAX_WRITES or row.msr >> 32:
                raise BackendError(
                    f"{row.name}: more than {abi.MAX_WRITES} registers, or a number of more than 32 bits"
                )
            self._needs[row.name] = row.writes
        if self._uarch:
            added = tuple(one.event for one in events)
            self._uarch = dataclasses.replace(self._uarch, events=(*self._uarch.events, *added))
        self._msrs = (*self._msrs, *(Slot(row.name, abi.COUNTER_MSR, row.msr, 0) for row in msrs))

    def provide(self, asked: ExecutionEnvironment) -> None:
        """Run all code from here on with this memory and these siblings.

        Raises:
            BackendError: the module has no such area.
        """
        if asked.r14_bytes % abi.R14_STEP or asked.r14_bytes > abi.MAX_R14_BYTES:
            raise BackendError(f"{asked.r14_bytes} bytes for R14 are not a multiple of 64 KiB, or more than 1 GiB")
        wishes = {abi.BatchFlag.CONTIGUOUS: asked.contiguous, abi.BatchFlag.PARK: asked.idle_siblings}
        self._flags = flags_of(os.environ)
        for flag in (flag for flag, wanted in wishes.items() if wanted):
            self._flags |= flag
        self._r14_bytes = asked.r14_bytes

    @property
    def _is_clock(self) -> bool:
        return self._uarch is None and self._free is not FREE_RUNNING

    def _counters(self) -> tuple[str, ...]:
        known = countable(self._uarch, self._hardware) if self._uarch else [slot.counter for slot in self._free]
        return (*known, *(slot.counter for slot in self._msrs))

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        """Run every job once per set of counters that can be read together."""
        runs = self._runs(counters)
        verdicts = self._preflight.check(batch, repeat.time_limit_seconds)
        jobs = [
            blob_job(job, run.slots, repeat, job.style(clean_uppers=self._clean_uppers), run.writes)
            for run in runs
            for job in batch
        ]
        refused = [verdict or _refusal(job.blob) for verdict, job in zip(verdicts * len(runs), jobs, strict=True)]
        done = iter(self._undisturbed([job for job, reason in zip(jobs, refused, strict=True) if not reason]))
        results = [reason or next(done) for reason in refused]
        return [self._merge(job, runs, results[index :: len(batch)], counters) for index, job in enumerate(batch)]

    def _runs(self, counters: Sequence[str]) -> list[CounterPass]:
        """Return what is programmed and read together, run by run."""
        slots = {slot.counter: slot for slot in self._msrs if slot.counter in counters}
        rest = [name for name in counters if name not in slots]
        runs = []
        if self._uarch:
            for names, writes in together(rest, self._needs, len(rest)):
                runs += [CounterPass(each, writes) for each in plan(self._uarch, self._hardware, names)]
        else:
            runs.append(CounterPass(self._free))
        for names, writes in together([*slots], self._needs, abi.MAX_COUNTERS):
            runs.append(CounterPass(tuple(slots[name] for name in names), writes))
        return runs

    def _undisturbed(self, jobs: Sequence[BlobJob]) -> list[BlobResult]:
        """Run jobs, and those again that a system management interrupt fell into."""
        device = self._opened()
        results = device.run(jobs)
        for _ in range(SMI_ATTEMPTS - 1):
            again = [index for index, result in enumerate(results) if is_disturbed(result)]
            if not again:
                break
            for index, result in zip(again, device.run([jobs[index] for index in again]), strict=True):
                results[index] = result
        return results

    def lacks(self, variant: InstructionVariant) -> str:
        """Return the reason why this CPU cannot run a variant ("": it can, or CPUID does not tell)."""
        return lacking(variant, self._cpu.number)

    def close(self) -> None:
        """Close the device."""
        if self._device:
            self._device.close()
            self._device = None
        self._preflight.close()

    def _opened(self) -> Device:
        if self._device is None:
            self._device = Device(self._cpu.number, self._flags)
        self._device.flags, self._device.r14_bytes = self._flags, self._r14_bytes
        return self._device

    def _merge(
        self, job: Job, runs: Sequence[CounterPass], results: Sequence[BlobResult | JobResult], counters: Sequence[str]
    ) -> JobResult:
        samples: dict[str, tuple[int, ...]] = {}
        for run, result in zip(runs, results, strict=True):
            if isinstance(result, JobResult):
                return result
            if result.status is not abi.JobStatus.OK:
                return JobResult(STATES[result.status], {}, self._detail(job, run, result))
            if is_disturbed(result):
                return JobResult(Status.UNCLEAN, {}, SMI.format(count=result.smis, attempts=SMI_ATTEMPTS))
            for slot, values in zip(run.slots, result.samples, strict=True):
                samples.setdefault(slot.counter, values)
        complete = derive(self._uarch, samples) if self._uarch else samples
        change = max((result.frequency_change for result in results if isinstance(result, BlobResult)), default=0.0)
        note = FREQUENCY.format(change=change) if change > FREQUENCY_CHANGE else ""
        return JobResult(Status.OK, {name: complete[name] for name in counters if name in complete}, note)

    def _detail(self, job: Job, run: CounterPass, result: BlobResult) -> str:
        if result.status is abi.JobStatus.REFUSED:
            return _refused(run, -result.error)
        if result.status is abi.JobStatus.STATE:
            return f"it changed the CPU's state and did not restore it: {result.changed!s}"
        place = _place(job, run.slots, result.offset, job.style(clean_uppers=self._clean_uppers))
        if result.status is abi.JobStatus.TIME_OUT:
            return f"stopped {place}: not done in time"
        name = abi.EXCEPTIONS.get(result.vector, f"interrupt {result.vector}")
        address = f", address {result.address:#x}" if result.address else ""
        return f"{name} {place}{address}"

    def _options(self) -> dict[str, str]:
        flags, info = self._flags, self._opened().information
        return {
            **conditions(self._cpu.number),
            "TSC": f"{info.tsc_khz} kHz",
            "guard": "none" if info.guard_cpu == abi.NO_CPU else f"CPU {info.guard_cpu}",
            "cleared during runs": cleared(info.features),
            "cpu": str(self._cpu.number),
            "interrupts": "LVT masked" if flags & abi.BatchFlag.MASK_LVT else "off",
            "memory": "contiguous" if flags & abi.BatchFlag.CONTIGUOUS else "paged",
            **({"R14's area": f"{self._r14_bytes} bytes"} if self._r14_bytes else {}),
            **({"siblings kept idle": "by idle injection"} if flags & abi.BatchFlag.PARK else {}),
        }

    def _caveats(self) -> tuple[str, ...]:
        info = self._opened().information
        caveats = [] if self._uarch else [BY_CLOCK if self._is_clock else BY_MSRS]
        if self._flags & abi.BatchFlag.MASK_LVT:
            caveats.append(MASKED)
        if info.guard_cpu in cpus.siblings(self._cpu.number):
            caveats.append(GUARD_ON_SIBLING)
        if info.features & abi.Feature.HYPERVISOR:
            caveats.append("inside a virtual machine: its hypervisor decides what the PMU counts")
        if info.features & abi.Feature.DEBUG:
            caveats.append("the module was loaded for a test (leave_rdpmc): the counters may be emulated")
        return tuple(caveats)


def is_disturbed(result: BlobResult) -> bool:
    """Whether a system management interrupt fell into a job: its handler's cycles and µops are counted, too."""
    return result.status is abi.JobStatus.OK and result.smis > 0


def cleared(features: int) -> str:
    """Return which of the kernel's settings do not hold while code runs."""
    names = {abi.Feature.SPEC_CTRL: "SPEC_CTRL", abi.Feature.XFD: "XFD", abi.Feature.TSX_ABORT: "TSX"}
    return ", ".join(name for bit, name in names.items() if features & bit) or "none"


def reader(slots: Sequence[Slot]) -> CounterReader:
    """Return the counter reads of a run: of one kind, all by the same instruction."""
    if not slots or slots[0].kind == abi.COUNTER_TSC:
        return RDTSC
    by_msr = slots[0].kind == abi.COUNTER_MSR
    return CounterReader(tuple(slot.rdpmc for slot in slots), "rdmsr" if by_msr else "rdpmc")


def blob_job(
    job: Job, slots: tuple[Slot, ...], repeat: Repeat, style: Style, writes: tuple[tuple[int, int], ...] = ()
) -> BlobJob:
    """Render one job for one set of counters, and the registers that these need."""
    asked = job.conditions
    flags = abi.JobFlag(0)
    if asked.state is not State.ZERO:
        flags = abi.JobFlag.ON_DEMAND | (abi.JobFlag.KEEP_PAGES if asked.keeps_pages else abi.JobFlag(0))
    return BlobJob(
        blob=_render(job, slots, style)[0],
        slots=slots,
        warm_ups=repeat.warm_ups,
        repetitions=repeat.repetitions,
        time_limit_ns=min(max(round(repeat.time_limit_seconds * 1e9), abi.MIN_TIME_NS), abi.MAX_TIME_NS),
        iterations=job.iterations,
        writes=writes,
        flags=flags,
        value=asked.value if flags else 0,
    )


def _refusal(blob: bytes) -> JobResult | None:
    """Return why the module cannot run a blob (None: it can)."""
    if len(blob) <= abi.CODE_BYTES:
        return None
    return JobResult(Status.REFUSED, {}, f"more than {abi.CODE_BYTES} bytes of code")


def _refused(run: CounterPass, error: int) -> str:
    """Say why the module refused a job."""
    registers = ", ".join(f"{msr:#x}" for msr, _ in run.writes)
    if run.writes and error == errno.EPERM:
        return f"the module writes none of, or not all of, the registers {registers}: see kmod/registers.c"
    names = ", ".join(slot.counter for slot in run.slots if slot.kind == abi.COUNTER_MSR)
    if (run.writes or names) and error == errno.ENODEV:
        return f"this CPU lacks one of the registers of {names or registers}"
    return f"the module refused it: {os.strerror(error)}"


def _render(job: Job, slots: tuple[Slot, ...], style: Style) -> tuple[bytes, int]:
    """Return the blob, and where in it the harness around the code under test begins."""
    if slots and slots[0].kind == abi.COUNTER_TSC:
        clocked = native.clocked(
            job.benchmark, job.copies, job.iterations, CALIBRATION_ITERATIONS, style, loads=job.loads_beside
        )
        return clocked.blob, clocked.test_offset
    return render(job.benchmark, job.copies, job.iterations, reader(slots), style), 0


def _place(job: Job, slots: tuple[Slot, ...], offset: int, style: Style) -> str:
    if offset == abi.NO_OFFSET:
        return "outside of the code"
    _, test_offset = _render(job, slots, style)
    if offset < test_offset:
        return "in the calibration"
    shape = layout(job.benchmark, job.copies, job.iterations, reader(slots), style)
    return _place_inside(job, offset - test_offset, shape)


def _place_inside(job: Job, offset: int, shape: BlobLayout) -> str:
    place = shape.place_of(offset)
    beginning = {"setup": shape.setup_offset, "body": shape.body_offset}.get(place, 0)
    where = offset - beginning
    size = len(job.benchmark.body_code)
    if place == "body" and size:
        return f"in the body at offset {where % size} (copy {where // size})"
    return f"in the {place} at offset {where}"


def _with_cycles(uarch: tables.Microarchitecture | None, hardware: Hardware) -> tables.Microarchitecture | None:
    """Return the microarchitecture if its core cycles can be counted here, else None."""
    return uarch if uarch and "core_cycles" in countable(uarch, hardware) else None


def _hardware(info: abi.uops_info) -> Hardware:
    return Hardware.of_masks(info.prog_mask, info.fixed_mask, info.config_mask)


def create(cpu: int | None = None, architecture: str | None = None) -> KmodBackend:
    """Make the backend (see `runner.backends.registry`)."""
    return KmodBackend(cpu, architecture)
