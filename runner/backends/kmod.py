"""The kernel module: code runs in ring 0 with interrupts off, and the PMU counts cycles and µops per port.

Every job is run once per set of counters that the hardware can read together (`runner.kmod.passes`); the blobs differ
from those of other backends only in the instructions that read the counters.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from generator.harness import Layout, Reader, Style, layout, render
from results.model import Status
from runner import cpu as cpus
from runner.backends.base import BackendError, BackendInfo, Job, JobResult, Repeat
from runner.isa_sets import lacking
from runner.kmod import abi
from runner.kmod.device import BlobJob, BlobResult, Device
from runner.kmod.passes import Hardware, Slot, countable, derive, plan
from runner.uarch import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xed_convert.model import InstructionVariant

PREFERENCE = 100
SUMMARY = "the kernel module: ring 0, interrupts off, the PMU's counters (needs root)"

UNGUARDED = "UOPSCOPE_UNGUARDED"
MASK_LVT = "UOPSCOPE_MASK_LVT"
CONTIGUOUS = "UOPSCOPE_CONTIGUOUS"
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
            BackendError: no module, no permission, no PMU, an unknown CPU or another one than `architecture`.
        """
        self._cpu = cpus.read_cpu(cpus.choose(cpu))
        self._uarch = _microarchitecture(self._cpu, architecture)
        self._flags = _flags(os.environ)
        self._device: Device | None = Device(self._cpu.number, self._flags)
        self._hardware = _hardware(self._device.information)
        self._style = Style(clean_uppers="avx" in self._cpu.flags)

    def info(self) -> BackendInfo:
        """Say what this CPU's PMU counts.

        Raises:
            BackendError: it counts no core cycles.
        """
        counters = countable(self._uarch, self._hardware)
        if "core_cycles" not in counters:
            self.close()
            raise BackendError(
                f"CPU {self._cpu.number} shows no PMU that counts core cycles",
                hint="a hypervisor may hide it; try --backend tsc",
            )
        caveats = self._caveats()
        ports = tuple(name for name in self._uarch.port_counters if name in counters)
        return BackendInfo(
            name=self.name,
            provenance=cpus.provenance(self._cpu, self.name, self._options(), caveats),
            counters=counters,
            ports=ports,
            caveats=caveats,
            supports_privileged=True,
        )

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        """Run every job once per set of counters that can be read together."""
        runs = plan(self._uarch, self._hardware, counters)
        jobs = [blob_job(job, slots, repeat, self._style) for slots in runs for job in batch]
        too_long = [len(job.blob) > abi.CODE_BYTES for job in jobs]
        done = iter(self._opened().run([job for job, long in zip(jobs, too_long, strict=True) if not long]))
        results = [None if long else next(done) for long in too_long]
        return [self._merge(job, runs, results[index :: len(batch)], counters) for index, job in enumerate(batch)]

    def lacks(self, variant: InstructionVariant) -> str:
        """Return the reason why this CPU cannot run a variant ("": it can, or CPUID does not tell)."""
        return lacking(variant, self._cpu.number)

    def close(self) -> None:
        """Close the device."""
        if self._device:
            self._device.close()
            self._device = None

    def _opened(self) -> Device:
        if self._device is None:
            self._device = Device(self._cpu.number, self._flags)
        return self._device

    def _merge(
        self, job: Job, runs: Sequence[tuple[Slot, ...]], results: Sequence[BlobResult | None], counters: Sequence[str]
    ) -> JobResult:
        samples: dict[str, tuple[int, ...]] = {}
        for slots, result in zip(runs, results, strict=True):
            if result is None:
                return JobResult(Status.REFUSED, {}, f"more than {abi.CODE_BYTES} bytes of code")
            if result.status is not abi.JobStatus.OK:
                return JobResult(STATES[result.status], {}, self._detail(job, slots, result))
            for slot, values in zip(slots, result.samples, strict=True):
                samples.setdefault(slot.counter, values)
        complete = derive(self._uarch, samples)
        return JobResult(Status.OK, {name: complete[name] for name in counters if name in complete})

    def _detail(self, job: Job, slots: tuple[Slot, ...], result: BlobResult) -> str:
        if result.status is abi.JobStatus.REFUSED:
            return f"the module refused it: {os.strerror(-result.error)}"
        if result.status is abi.JobStatus.STATE:
            return f"it left the CPU in another state: {result.changed!s}"
        place = _place(
            job, result.offset, layout(job.benchmark, job.copies, job.iterations, reader(slots), self._style)
        )
        if result.status is abi.JobStatus.TIME_OUT:
            return f"stopped {place}: not done in time"
        name = abi.EXCEPTIONS.get(result.vector, f"interrupt {result.vector}")
        address = f", address {result.address:#x}" if result.address else ""
        return f"{name} {place}{address}"

    def _options(self) -> dict[str, str]:
        flags = self._flags
        return {
            "cpu": str(self._cpu.number),
            "interrupts": "LVT masked" if flags & abi.BatchFlag.MASK_LVT else "off",
            "memory": "contiguous" if flags & abi.BatchFlag.CONTIGUOUS else "paged",
        }

    def _caveats(self) -> tuple[str, ...]:
        info = self._opened().information
        caveats = []
        if info.features & abi.Feature.HYPERVISOR:
            caveats.append("inside a virtual machine: its hypervisor decides what the PMU counts")
        if info.features & abi.Feature.DEBUG:
            caveats.append("the module was loaded for a test (leave_rdpmc): the counters may be emulated")
        return tuple(caveats)


def reader(slots: Sequence[Slot]) -> Reader:
    """Return the counter reads of a run."""
    return Reader(tuple(slot.rdpmc for slot in slots))


def blob_job(job: Job, slots: tuple[Slot, ...], repeat: Repeat, style: Style) -> BlobJob:
    """Render one job for one set of counters."""
    if job.fenced:
        style = Style(fenced=True, clean_uppers=style.clean_uppers)
    return BlobJob(
        blob=render(job.benchmark, job.copies, job.iterations, reader(slots), style),
        slots=slots,
        warm_ups=repeat.warm_ups,
        repetitions=repeat.repetitions,
        time_limit_ns=min(max(round(repeat.time_limit_seconds * 1e9), abi.MIN_TIME_NS), abi.MAX_TIME_NS),
        iterations=job.iterations,
    )


def _place(job: Job, offset: int, shape: Layout) -> str:
    if offset == abi.NO_OFFSET:
        return "outside of the code"
    place = shape.place_of(offset)
    beginning = {"setup": shape.setup_offset, "body": shape.body_offset}.get(place, 0)
    where = offset - beginning
    size = len(job.benchmark.body_code)
    if place == "body" and size:
        return f"in the body at offset {where % size} (copy {where // size})"
    return f"in the {place} at offset {where}"


def _microarchitecture(cpu: cpus.Cpu, wanted: str | None) -> tables.Microarchitecture:
    found = tables.for_cpu(cpu.identity)
    if found is None:
        message = f"no events are known for this CPU: {cpu.model_name} ({cpu.signature})"
        raise BackendError(message, hint="try --backend tsc")
    if wanted and wanted.lower() != found.name.lower():
        message = f"CPU {cpu.number} is {found.name} ({cpu.model_name}), not {wanted}"
        raise BackendError(message, hint=f"use --arch-auto, or --backend sim --arch {wanted} for a simulated one")
    return found


def _hardware(info: abi.uops_info) -> Hardware:
    return Hardware(info.num_prog, info.num_fixed, info.config_mask)


def _flags(environment: Mapping[str, str]) -> abi.BatchFlag:
    names = {
        UNGUARDED: abi.BatchFlag.UNGUARDED,
        MASK_LVT: abi.BatchFlag.MASK_LVT,
        CONTIGUOUS: abi.BatchFlag.CONTIGUOUS,
    }
    flags = abi.BatchFlag(0)
    for name, flag in names.items():
        if environment.get(name, "0") not in ("", "0"):
            flags |= flag
    return flags


def create(cpu: int | None = None, architecture: str | None = None) -> KmodBackend:
    """Make the backend (see `runner.backends.registry`)."""
    return KmodBackend(cpu, architecture)
