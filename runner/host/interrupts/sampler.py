"""A process that runs a loop while a timer interrupts it, and counts where it was interrupted.

It is a script that needs only the standard library. Standard input is a JSON document:

    blob, patch_at   machine code in hexadecimal (`generator.harness.harness`); where in it the iterations stand
    calibration      the same two, of the calibration
    probe            machine code of the contention probe
    quiet            its best time in other layouts, as in `probe` below (0: not known)
    source           "perf" or "timer"
    handler          machine code of a signal handler, whose first 8 bytes take the address of a buffer
    cpu              the logical CPU to run on
    period_ns        nanoseconds between two interrupts
    samples          how many are wanted
    seconds          how long it may take

Standard output is another one:

    counts           samples by offset in the blob; -1: elsewhere
    stale            interrupts that came before the code had gone on
    lost             samples that the kernel had no room for
    disturbed        samples of runs in which another thread shared the core
    seconds          seconds of the runs that count
    iterations       iterations of the calibration that take as long as one of the loop
    probe            ticks of the contention probe at its best, for a second of an iteration of the calibration
    refused          alone: why the kernel refuses the source

There are two sources. perf's software clock (perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK) needs no PMU. A POSIX timer
(timer_create(2), SIGEV_THREAD_ID) sends a signal, and its handler copies what the kernel saved. A sample has RIP and
R15, which counts the loop down. If both are as in the sample before, the sample is stale.

The loop is sampled in short runs. Before each run, loop and calibration run for a moment without interrupts. If the
loop is slower there than in its fastest run, another thread shares the core, and the samples of that run do not count.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import struct
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

PERF_EVENT_OPEN = 298
ATTRIBUTES_SIZE = 128
SOFTWARE, CPU_CLOCK = 1, 0
SAMPLE_IP, SAMPLE_REGS_USER = 1, 1 << 12
DISABLED, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1, 1 << 5, 1 << 6
REGS_OFFSET = 80
"""Of sample_regs_user in struct perf_event_attr (include/uapi/linux/perf_event.h)."""
IP, R15 = 8, 23
"""Numbers of registers (arch/x86/include/uapi/asm/perf_regs.h)."""
ENABLE, DISABLE = 0x2400, 0x2401
HEAD, TAIL = 1024, 1032
"""Offsets of data_head and data_tail in struct perf_event_mmap_page."""
LOST_RECORD, SAMPLE_RECORD = 2, 9
RING_PAGES = 64
"""A quarter of a megabyte: half of what an ordinary user may lock (perf_event_mlock_kb)."""
AREA = 1 << 20
CONTEXT_AREAS = 0x40
RUN_SECONDS = 0.02
"""Length of a run: with a sample every 5 microseconds the ring holds all of them."""
TRIAL_SECONDS = 0.0001
"""Of the loop, and of the calibration, without interrupts."""
TRIALS = 5
"""Trials, of which the fastest counts: an interrupt hits one in ten."""
PROBES = 5
"""Contention probes, of which the fastest counts. One takes a microsecond."""
COUNTED_FROM, COUNTED_TO = 0x100, 0x180
"""Where code leaves what the clock said before and behind it, in the context (`generator.harness.harness`)."""
FIRST_ITERATIONS = 20_000
UNDISTURBED = 1.04
"""Times the fastest trial. Trials of a core that is not shared are within 1%; a shared one loses a quarter and more."""
MOST_SIGNALS = 8192
"""Samples of one run that the buffer holds."""
TIMER_CREATE, TIMER_SETTIME = 222, 223
MONOTONIC = 1
SIGNAL = 10
"""SIGUSR1: the harness and the interpreter use no signal."""
THREAD_ID = 4
"""SIGEV_THREAD_ID (include/uapi/asm-generic/siginfo.h)."""
ON_STACK, RESTART, WITH_INFO = 0x08000000, 0x10000000, 4
SIGNAL_STACK = 1 << 16
"""Bytes: a frame with AVX-512 and AMX state takes 11 KiB. The code's own stack pointer may point anywhere."""


class LoadedCode:
    """The blob in executable memory, with its context and areas."""

    def __init__(self, blob: bytes, patch_at: int | None = None) -> None:
        """Load it; `patch_at` is where the iterations stand (None: nowhere)."""
        self.patch_at = patch_at
        libc = ctypes.CDLL(None, use_errno=True)
        self.keep = [mmap.mmap(-1, AREA) for _ in range(5)]
        self.context = mmap.mmap(-1, mmap.PAGESIZE)
        places = [address_of(one) + AREA // 2 for one in self.keep]
        struct.pack_into("<5Q", self.context, CONTEXT_AREAS, *places)
        self.size = -(-len(blob) // mmap.PAGESIZE) * mmap.PAGESIZE
        fd = os.memfd_create("uopscope-interrupts")
        os.ftruncate(fd, self.size)
        self.writable = mmap.mmap(fd, self.size)
        self.writable[: len(blob)] = blob
        struct.pack_into("<Q", self.writable, 0, address_of(self.context))
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self.at = libc.mmap(None, self.size, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_SHARED, fd, 0)
        if self.at in {None, ctypes.c_void_p(-1).value}:
            raise OSError(ctypes.get_errno(), "no executable memory")
        self.call = ctypes.CFUNCTYPE(None)(self.at + 8)

    def run(self, iterations: int) -> float:
        """Run the loop with this many iterations; return seconds."""
        if self.patch_at is not None:
            struct.pack_into("<I", self.writable, self.patch_at, min(iterations, (1 << 31) - 1))
        begin = time.perf_counter()
        self.call()
        return time.perf_counter() - begin

    def ticks(self) -> int:
        """Run it as it is; return ticks of the clock."""
        self.call()
        begin, end = (struct.unpack_from("<Q", self.context, offset)[0] for offset in (COUNTED_FROM, COUNTED_TO))
        return int(end - begin)

    def fastest(self, iterations: int) -> float:
        """Return seconds per iteration of the fastest of a few short runs."""
        return min(self.run(iterations) for _ in range(TRIALS)) / iterations


def address_of(memory: mmap.mmap) -> int:
    """Return where memory is."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class Clock:
    """perf's software clock for this process."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Open it.

        Raises:
            OSError: the kernel refuses.
        """
        attributes = bytearray(ATTRIBUTES_SIZE)
        flags = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
        what = SAMPLE_IP | SAMPLE_REGS_USER
        fields = (SOFTWARE, ATTRIBUTES_SIZE, CPU_CLOCK, job["period_ns"], what, 0, flags)
        struct.pack_into("<IIQQQQQ", attributes, 0, *fields)
        struct.pack_into("<Q", attributes, REGS_OFFSET, 1 << IP | 1 << R15)
        buffer = (ctypes.c_char * ATTRIBUTES_SIZE).from_buffer(attributes)
        self.fd = int(ctypes.CDLL(None, use_errno=True).syscall(PERF_EVENT_OPEN, buffer, 0, -1, -1, 0))
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.memory = mmap.mmap(self.fd, (1 + RING_PAGES) * mmap.PAGESIZE)
        self.size = RING_PAGES * mmap.PAGESIZE

    def start(self) -> None:
        """Let interrupts come."""
        fcntl.ioctl(self.fd, ENABLE, 0)

    def stop(self) -> None:
        """Let no more come."""
        fcntl.ioctl(self.fd, DISABLE, 0)

    def take(self) -> tuple[list[tuple[int, int]], int]:
        """Return (RIP, R15) of each new sample, and how many were lost."""
        (head,) = struct.unpack_from("<Q", self.memory, HEAD)
        (tail,) = struct.unpack_from("<Q", self.memory, TAIL)
        data = b"".join(self._piece(at) for at in range(tail, head, 8))
        struct.pack_into("<Q", self.memory, TAIL, head)
        found, lost, at = [], 0, 0
        while at + 8 <= len(data):
            kind, _, size = struct.unpack_from("<IHH", data, at)
            if kind == SAMPLE_RECORD and size >= 40:
                _, abi, rip, counter = struct.unpack_from("<4Q", data, at + 8)
                found += [(rip, counter)] if abi else []
            elif kind == LOST_RECORD:
                lost += struct.unpack_from("<Q", data, at + 16)[0]
            at += max(8, size)
        return found, lost

    def _piece(self, at: int) -> bytes:
        begin = mmap.PAGESIZE + at % self.size
        return self.memory[begin : begin + 8]


class Timer:
    """A timer of this thread, whose signals a handler in machine code counts: Python's own would come too late."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Make it.

        Raises:
            OSError: the kernel refuses.
        """
        self.period = job["period_ns"]
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.buffer = mmap.mmap(-1, 16 * (1 + MOST_SIGNALS))
        struct.pack_into("<QQ", self.buffer, 0, 0, MOST_SIGNALS)
        code = bytearray.fromhex(job["handler"])
        struct.pack_into("<Q", code, 0, address_of(self.buffer))
        self.code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.code[: len(code)] = bytes(code)
        self.stack = mmap.mmap(-1, SIGNAL_STACK)
        self._checked(self.libc.sigaltstack(struct.pack("<QiiQ", address_of(self.stack), 0, 0, SIGNAL_STACK), None))
        flags = ON_STACK | RESTART | WITH_INFO
        action = struct.pack("<Q128xiiQ", address_of(self.code) + 8, flags, 0, 0)
        self._checked(self.libc.sigaction(SIGNAL, action, None))
        event = struct.pack("<QiiI44x", 0, SIGNAL, THREAD_ID, threading.get_native_id())
        number = ctypes.c_int()
        self._checked(self.libc.syscall(TIMER_CREATE, MONOTONIC, event, ctypes.byref(number)))
        self.number = number.value

    def start(self) -> None:
        """Let signals come."""
        self._set(self.period)

    def stop(self) -> None:
        """Let no more come."""
        self._set(0)

    def take(self) -> tuple[list[tuple[int, int]], int]:
        """Return (RIP, R15) of each new sample; none is lost."""
        (count,) = struct.unpack_from("<Q", self.buffer, 0)
        values = struct.unpack_from(f"<{2 * count}Q", self.buffer, 16)
        struct.pack_into("<Q", self.buffer, 0, 0)
        return list(zip(values[::2], values[1::2], strict=True)), 0

    def _set(self, period_ns: int) -> None:
        seconds, rest = divmod(period_ns, 1_000_000_000)
        times = struct.pack("<4q", seconds, rest, seconds, rest)
        self._checked(self.libc.syscall(TIMER_SETTIME, self.number, 0, times, None))

    @staticmethod
    def _checked(result: int) -> None:
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


SOURCES: dict[str, type[Clock | Timer]] = {"perf": Clock, "timer": Timer}


@dataclass
class SampledRun:
    """A short run: iterations of the calibration that one of the loop took as long as, and its samples.

    `probe` are ticks of the contention probe for a second of an iteration of the calibration. `seconds` are of the CPU.
    """

    relative: float
    probe: float
    seconds: float
    samples: list[tuple[int, int]]
    lost: int


class Sampler:
    """Runs the loop until there are enough samples of runs that nobody disturbed."""

    def __init__(self, job: dict[str, Any], source: Clock | Timer) -> None:
        """Take what standard input says, and a timer."""
        self.source = source
        self.loop = LoadedCode(bytes.fromhex(job["blob"]), job["patch_at"])
        self.calibration = LoadedCode(bytes.fromhex(job["calibration"]), job["calibration_patch_at"])
        self.probe = LoadedCode(bytes.fromhex(job["probe"]))
        self.quiet = float(job["quiet"]) or float("inf")
        self.loop_seconds = max(self.loop.run(FIRST_ITERATIONS), 1e-6) / FIRST_ITERATIONS
        self.calibration_seconds = max(self.calibration.run(FIRST_ITERATIONS), 1e-6) / FIRST_ITERATIONS
        self.runs: list[SampledRun] = []

    def sample(self, wanted: int, seconds: float) -> None:
        """Sample until there are `wanted` samples, or the time is over."""
        deadline = time.monotonic() + seconds
        while sum(len(one.samples) for one in self.undisturbed()) < wanted and time.monotonic() < deadline:
            self.runs.append(self._run())

    def undisturbed(self) -> list[SampledRun]:
        """Return the runs in which the loop and the contention probe were as fast as they can be."""
        return self._as_fast_as(min(self.quiet, self._best_probe()))

    def kept(self) -> list[SampledRun]:
        """Return the same, or those of the fastest probes if somebody used the core all the time."""
        return self.undisturbed() or self._as_fast_as(self._best_probe())

    def _best_probe(self) -> float:
        return min((one.probe for one in self.runs), default=0.0)

    def _as_fast_as(self, probe: float) -> list[SampledRun]:
        quiet = [one for one in self.runs if one.probe <= UNDISTURBED * probe]
        best = min((one.relative for one in quiet), default=0.0)
        return [one for one in quiet if one.relative <= UNDISTURBED * best]

    def _run(self) -> SampledRun:
        trial = self.loop.fastest(max(1, round(TRIAL_SECONDS / self.loop_seconds)))
        calibration = self.calibration.fastest(max(1, round(TRIAL_SECONDS / self.calibration_seconds)))
        before = self._probed()
        self.source.start()
        begin = time.process_time()
        self.loop.run(max(1, round(RUN_SECONDS / self.loop_seconds)))
        seconds = time.process_time() - begin
        self.source.stop()
        probe = max(before, self._probed()) / calibration
        samples, lost = self.source.take()
        return SampledRun(trial / calibration, probe, seconds, samples, lost)

    def _probed(self) -> int:
        return min(self.probe.ticks() for _ in range(PROBES))

    def report(self) -> dict[str, object]:
        """Return what standard output gets."""
        kept = self.kept()
        counts: Counter[int] = Counter()
        stale, last = 0, (0, 0)
        for run in kept:
            for sample in run.samples:
                stale += sample == last
                if sample != last:
                    offset = sample[0] - self.loop.at
                    counts[offset if 0 <= offset < self.loop.size else -1] += 1
                last = sample
        every = sum(len(run.samples) for run in self.runs)
        return {
            "counts": dict(counts),
            "stale": stale,
            "lost": sum(run.lost for run in kept),
            "disturbed": every - sum(len(run.samples) for run in kept),
            "seconds": sum(run.seconds for run in kept),
            "iterations": min((run.relative for run in kept), default=0.0),
            "probe": self._best_probe(),
        }


def main() -> None:
    """Run what standard input says."""
    job = json.load(sys.stdin)
    os.sched_setaffinity(0, {job["cpu"]})
    try:
        source = SOURCES[job["source"]](job)
    except OSError as error:
        sys.stdout.write(json.dumps({"refused": error.strerror}))
        return
    sampler = Sampler(job, source)
    sampler.sample(job["samples"], job["seconds"])
    sys.stdout.write(json.dumps(sampler.report()))


if __name__ == "__main__":
    main()
