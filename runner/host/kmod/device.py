"""The device /dev/uopscope: opened with errors that say what to do, and batches run on one CPU."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from runner.backend import BackendError
from runner.host.kmod import abi

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.host.kmod.passes import Slot

DEVICE = Path("/dev/uopscope")
INSTALL_HINT = "`sudo make install-kmod` builds and installs it for the running kernel"
LOAD_SECONDS = 30
"""Seconds for modprobe: it takes well under one unless the machine is stuck."""

SHORTEST_MPERF = 20_000
"""Reference ticks: in fewer, the time that it takes to read the two counters shows as a change of frequency."""

LKRG = ("sys/module/lkrg", "sys/module/p_lkrg", "proc/sys/lkrg")
"""What there is below / while the Linux Kernel Runtime Guard is loaded (its module by its two names, its sysctls)."""

NO_FLAGS = abi.BatchFlag(0)
NO_JOB_FLAGS = abi.JobFlag(0)
MAX_BATCH_CODE = 32 << 20
"""Bytes of code in one batch, so that a batch's memory stays small."""
MAX_BATCH_SAMPLES = 4 << 20
"""Samples (8 bytes each) in one batch, likewise."""


CounterSet: TypeAlias = "tuple[tuple[Slot, ...], tuple[tuple[int, int], ...]]"
"""Counters, and registers with their values that these need."""


@dataclass(frozen=True, slots=True)
class BlobJob:
    """A blob (its bytes), the counters that it reads in that order, and how often it runs.

    `writes` are registers and their values, which the counters need. `value` is what registers and memory begin with
    where pages are mapped on demand. `delay_ns` is the least time until the interrupt where one ends each run.
    """

    blob: bytes
    slots: tuple[Slot, ...]
    warm_ups: int
    repetitions: int
    time_limit_ns: int
    iterations: int = 0
    writes: tuple[tuple[int, int], ...] = ()
    flags: abi.JobFlag = NO_JOB_FLAGS
    value: int = 0
    delay_ns: int = 0

    @property
    def samples_each(self) -> int:
        """How many samples a repetition has: one per counter, or RIP's offset and R15 where an interrupt ended it."""
        return abi.INTERRUPT_SAMPLES if self.flags & abi.JobFlag.INTERRUPT else len(self.slots)

    @property
    def counter_set(self) -> CounterSet:
        """What has to be programmed for it."""
        return self.slots, self.writes


@dataclass(frozen=True, slots=True)
class BlobResult:
    """What the module reports of a job; `samples[i]` are the differences of its counter i, one per repetition.

    `pages` were mapped on demand. `smis` counts system management interrupts during the job. `aperf` and `mperf` are
    ticks of the core's clock and of the reference clock, in each half of its runs, where there are such counters.
    """

    status: abi.JobStatus
    error: int
    vector: int
    error_code: int
    offset: int
    address: int
    changed: abi.Changed
    elapsed_ns: int
    blob_ns: int
    max_quiet_ns: int
    smis: int
    aperf: tuple[int, ...]
    mperf: tuple[int, ...]
    samples: tuple[tuple[int, ...], ...]
    pages: int = 0

    @property
    def frequency_change(self) -> float:
        """By how much the core's frequency differed between the job's halves, of the lower one; 0 if not known."""
        if min(self.mperf) < SHORTEST_MPERF or not all(self.aperf):
            return 0.0
        low, high = sorted(ticks / reference for ticks, reference in zip(self.aperf, self.mperf, strict=True))
        return high / low - 1


class Device:
    """The module's device, open; only one process can have it. `r14_bytes`: of the first area (0: as usual)."""

    def __init__(self, cpu: int, flags: abi.BatchFlag = NO_FLAGS, path: Path = DEVICE) -> None:
        """Open the device, loading the module if it is installed and not loaded.

        Raises:
            BackendError: no module, no permission, somebody else has it, or another version of the interface.
        """
        self.cpu = cpu
        self.flags = flags
        self.r14_bytes = 0
        self._file = _open(path)
        try:
            self.information = self._read_info()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the device."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read_info(self) -> abi.uops_info:
        info = abi.uops_info(size=ctypes.sizeof(abi.uops_info))
        with pinned(self.cpu):
            try:
                fcntl.ioctl(self._file, abi.IOC_INFO, info)
            except OSError as error:
                raise BackendError(
                    f"the kernel module does not answer as this version expects ({error.strerror})",
                    hint=f"it is another version: unload it (rmmod uopscope); {INSTALL_HINT}",
                ) from error
        if info.abi_version != abi.ABI_VERSION:
            message = f"the kernel module speaks version {info.abi_version} of the interface, not {abi.ABI_VERSION}"
            raise BackendError(message, hint=f"unload it (rmmod uopscope); {INSTALL_HINT}")
        return info

    def run(self, jobs: Sequence[BlobJob]) -> list[BlobResult]:
        """Run the jobs, in as many batches as the limits ask for.

        Raises:
            BackendError: a batch was refused as a whole.
        """
        results: list[BlobResult] = []
        while len(results) < len(jobs):
            rest = jobs[len(results) :]
            results += self._run_batch(rest[: _fitting(rest)])
        return results

    def _run_batch(self, jobs: Sequence[BlobJob]) -> list[BlobResult]:
        batch = _Batch(jobs, self.cpu, self.flags, self.r14_bytes)
        with pinned(self.cpu):
            while not self._is_done(batch):
                batch.skip_what_is_done()
        return batch.results()

    def _is_done(self, batch: _Batch) -> bool:
        """Run a batch; False if a signal, whose handler has returned, has stopped it."""
        try:
            fcntl.ioctl(self._file, abi.IOC_BATCH, batch.header)
        except InterruptedError:
            return False
        except OSError as error:
            raise _batch_error(error, self.cpu) from error
        return True


class _Batch:
    """The memory of one batch; it has to live as long as the ioctl runs."""

    def __init__(self, jobs: Sequence[BlobJob], cpu: int, flags: abi.BatchFlag, r14_bytes: int) -> None:
        self._jobs = jobs
        sets: dict[CounterSet, int] = {}
        for job in jobs:
            sets.setdefault(job.counter_set, len(sets))
        self._code = b"".join(job.blob for job in jobs)
        self._sets = (abi.uops_counter_set * max(1, len(sets)))(*(_counter_set(*one) for one in sets))
        self._c_jobs = (abi.uops_job * len(jobs))()
        self._results = (abi.uops_result * len(jobs))()
        count = self._fill_jobs(sets)
        self._samples = (ctypes.c_uint64 * max(1, count))()
        self._c_code = ctypes.create_string_buffer(self._code, len(self._code))
        self.header = abi.uops_batch(
            size=ctypes.sizeof(abi.uops_batch),
            cpu=cpu,
            flags=flags,
            code=ctypes.addressof(self._c_code),
            code_bytes=len(self._code),
            sets=ctypes.addressof(self._sets),
            jobs=ctypes.addressof(self._c_jobs),
            results=ctypes.addressof(self._results),
            samples=ctypes.addressof(self._samples),
            num_samples=count,
            num_sets=len(sets),
            num_jobs=len(jobs),
            r14_bytes=r14_bytes,
        )

    def _fill_jobs(self, sets: dict[CounterSet, int]) -> int:
        code = samples = 0
        for job, row in zip(self._jobs, self._c_jobs, strict=True):
            row.size = ctypes.sizeof(abi.uops_job)
            row.set = sets[job.counter_set]
            row.flags, row.value, row.delay_ns = job.flags, job.value, job.delay_ns
            row.code_offset, row.code_bytes = code, len(job.blob)
            row.warm_ups, row.repetitions = job.warm_ups, job.repetitions
            row.iterations, row.time_limit_ns = job.iterations, job.time_limit_ns
            row.sample_offset = samples
            code += len(job.blob)
            samples += job.repetitions * job.samples_each
        return samples

    def skip_what_is_done(self) -> None:
        """Let the module continue behind the last job that has a result."""
        not_run = (index for index, row in enumerate(self._results) if row.status == abi.JobStatus.NOT_RUN)
        self.header.jobs_done = next(not_run, len(self._jobs))

    def results(self) -> list[BlobResult]:
        return [self._result(index) for index in range(len(self._jobs))]

    def _result(self, index: int) -> BlobResult:
        row, job, first = self._results[index], self._c_jobs[index], self._c_jobs[index].sample_offset
        width = self._jobs[index].samples_each
        taken = self._samples[first : first + row.repetitions * width] if job.repetitions else []
        return BlobResult(
            status=abi.JobStatus(row.status),
            error=row.error,
            vector=row.vector,
            error_code=row.error_code,
            offset=row.offset,
            address=row.address,
            changed=abi.Changed(row.changed),
            elapsed_ns=row.elapsed_ns,
            blob_ns=row.blob_ns,
            max_quiet_ns=row.max_quiet_ns,
            smis=row.smis,
            aperf=tuple(row.aperf),
            mperf=tuple(row.mperf),
            pages=row.pages,
            samples=tuple(tuple(taken[slot::width]) for slot in range(width)),
        )


def _counter_set(slots: tuple[Slot, ...], writes: tuple[tuple[int, int], ...]) -> abi.uops_counter_set:
    size = ctypes.sizeof(abi.uops_counter_set)
    row = abi.uops_counter_set(size=size, num_counters=len(slots), num_writes=len(writes))
    for index, (msr, value) in enumerate(writes):
        row.writes[index] = abi.uops_write(msr=msr, value=value)
    for index, slot in enumerate(slots):
        row.counters[index] = abi.uops_counter(slot.kind, slot.index, slot.config)
    return row


def _fitting(jobs: Sequence[BlobJob]) -> int:
    """Return how many of the jobs one batch can hold, at least one."""
    code = samples = 0
    for count, job in enumerate(jobs[: abi.MAX_JOBS]):
        code += len(job.blob)
        samples += job.repetitions * job.samples_each
        if count and (code > MAX_BATCH_CODE or samples > MAX_BATCH_SAMPLES):
            return count
    return min(len(jobs), abi.MAX_JOBS)


@contextlib.contextmanager
def pinned(cpu: int) -> Iterator[None]:
    """Run this thread on one CPU, and afterwards where it could run before.

    Raises:
        BackendError: it may not run there.
    """
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        raise BackendError(f"CPU {cpu} cannot be used: {error.strerror}", hint="choose another with --cpu") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def lkrg_is_loaded(root: Path = Path("/")) -> bool:
    """Whether the Linux Kernel Runtime Guard watches this kernel."""
    return any((root / name).exists() for name in LKRG)


def _open(path: Path) -> int:
    if lkrg_is_loaded():
        raise BackendError(
            "LKRG is loaded: it would treat the kernel module as an attack, and may stop the machine",
            hint="sudo rmmod lkrg for the time of the measurements, or boot without it",
        )
    if not path.exists():
        _load_module()
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise _open_error(error, path) from error


def _open_error(error: OSError, path: Path) -> BackendError:
    if error.errno == errno.EACCES:
        return BackendError(f"no permission to open {path}", hint="run it as root (sudo)")
    if error.errno == errno.EPERM:
        hint = "it needs the capability CAP_SYS_RAWIO, and a kernel that is not locked down (Secure Boot)"
        return BackendError(f"the kernel module refuses this process or this boot: {path}", hint=hint)
    if error.errno == errno.EBUSY:
        return BackendError("the kernel module is in use by another process", hint="wait for it, or end it")
    return BackendError(f"{path} cannot be opened: {error.strerror}", hint=INSTALL_HINT)


def _load_module() -> None:
    """Load the installed module.

    Raises:
        BackendError: not root, not installed, or the kernel refuses it.
    """
    if os.geteuid() != 0:
        raise BackendError("the kernel module is not loaded", hint=f"run it as root (sudo); {INSTALL_HINT}")
    program = shutil.which("modprobe") or "/sbin/modprobe"
    try:
        done = subprocess.run([program, "uopscope"], capture_output=True, text=True, timeout=LOAD_SECONDS, check=False)
    except FileNotFoundError as error:
        hint = f"Debian's package kmod has it; {INSTALL_HINT}"
        raise BackendError("the kernel module cannot be loaded: there is no modprobe", hint=hint) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not done after {LOAD_SECONDS} s"
        raise BackendError(f"the kernel module cannot be loaded: modprobe: {reason}", hint=INSTALL_HINT) from error
    if done.returncode:
        raise _load_error(done.stderr.strip())


def _load_error(output: str) -> BackendError:
    reason = output.splitlines()[-1] if output else "modprobe failed"
    if "Key was rejected" in output or "Required key" in output or "not permitted" in output:
        hint = "Secure Boot or lockdown: docs/kmod.md says how to sign the module, or turn Secure Boot off"
    elif "Exec format" in output or "Invalid module format" in output:
        hint = f"it was built for another kernel: {INSTALL_HINT}"
    else:
        hint = INSTALL_HINT
    return BackendError(f"the kernel module cannot be loaded: {reason}", hint=hint)


def _batch_error(error: OSError, cpu: int) -> BackendError:
    if error.errno == errno.EBUSY:
        return BackendError(
            "the counters are taken: by the NMI watchdog, as on nearly every distribution, or by perf",
            hint="echo 0 | sudo tee /proc/sys/kernel/nmi_watchdog; if that is not enough, end perf",
        )
    if error.errno == errno.EOPNOTSUPP:
        return BackendError(
            "the module does not run code here: only one CPU is online (nothing could end an endless loop), or the CPU "
            "delivers exceptions by FRED",
            hint="set UOPSCOPE_UNGUARDED=1 to run without that protection on one CPU; boot with fred=off for the other",
        )
    if error.errno == errno.EXDEV:
        hint = "do not take that CPU offline, and do not change the affinity of the process, while it measures"
        return BackendError(f"the thread was not on CPU {cpu}", hint=hint)
    if error.errno == errno.ENOMEM:
        hint = "ask for less; right after a boot there is most contiguous memory"
        return BackendError("the areas of the code need more (contiguous) memory than is free", hint=hint)
    if error.errno == errno.EIO:
        return BackendError("the counters' registers cannot be written", hint="a hypervisor may hide the PMU")
    return BackendError(f"the kernel module refused the batch: {error.strerror}", hint="`uopscope selftest` says more")
