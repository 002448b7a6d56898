"""The process that runs code in a loop while a timer interrupts it, and says where it was. Standard library only.

It is a script. A JSON document on standard input says what to run: `blob` in hexadecimal (see
`generator.harness.harness`), `patch_at` (where in it the number of iterations stands), `cpu`, `period_ns`, `samples`,
`seconds` (at most). Standard output gets JSON: `counts` (samples by offset in the blob; -1: elsewhere), `stale`,
`lost`, `seconds`.

The timer is perf's software clock (perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK), which needs no PMU. A sample has RIP
and R15, which counts the loop down. Two samples in a row with the same values of both are one: with short periods the
second interrupt comes before the code has gone on.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import struct
import sys
import time
from collections import Counter

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
RUN_SECONDS = 0.05
"""Of one run: with a sample every 10 microseconds the ring holds all of them."""
FIRST_ITERATIONS = 20_000


class Code:
    """The blob in executable memory, with its context and areas."""

    def __init__(self, blob: bytes, patch_at: int) -> None:
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
        """Run the loop so often; return seconds of the CPU."""
        struct.pack_into("<I", self.writable, self.patch_at, iterations)
        begin = time.process_time()
        self.call()
        return time.process_time() - begin


def address_of(memory: mmap.mmap) -> int:
    """Return where memory is."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def open_clock(period_ns: int) -> int:
    """Open the software clock for this process; return its file descriptor.

    Raises:
        OSError: the kernel refuses.
    """
    attributes = bytearray(ATTRIBUTES_SIZE)
    flags = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
    what = SAMPLE_IP | SAMPLE_REGS_USER
    struct.pack_into("<IIQQQQQ", attributes, 0, SOFTWARE, ATTRIBUTES_SIZE, CPU_CLOCK, period_ns, what, 0, flags)
    struct.pack_into("<Q", attributes, REGS_OFFSET, 1 << IP | 1 << R15)
    buffer = (ctypes.c_char * ATTRIBUTES_SIZE).from_buffer(attributes)
    fd = int(ctypes.CDLL(None, use_errno=True).syscall(PERF_EVENT_OPEN, buffer, 0, -1, -1, 0))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


class Ring:
    """The samples that the kernel writes."""

    def __init__(self, fd: int) -> None:
        self.memory = mmap.mmap(fd, (1 + RING_PAGES) * mmap.PAGESIZE)
        self.size = RING_PAGES * mmap.PAGESIZE

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


def main() -> None:
    """Run what standard input says."""
    job = json.load(sys.stdin)
    os.sched_setaffinity(0, {job["cpu"]})
    code = Code(bytes.fromhex(job["blob"]), job["patch_at"])
    try:
        fd = open_clock(job["period_ns"])
    except OSError as error:
        sys.stdout.write(json.dumps({"refused": error.strerror}))
        return
    ring = Ring(fd)
    each = max(code.run(FIRST_ITERATIONS), 1e-6) / FIRST_ITERATIONS
    iterations = max(1, min((1 << 31) - 1, round(RUN_SECONDS / each)))
    counts: Counter[int] = Counter()
    stale = lost = 0
    took, deadline, last = 0.0, time.monotonic() + job["seconds"], (0, 0)
    while sum(counts.values()) < job["samples"] and time.monotonic() < deadline:
        fcntl.ioctl(fd, ENABLE, 0)
        took += code.run(iterations)
        fcntl.ioctl(fd, DISABLE, 0)
        samples, missed = ring.take()
        lost += missed
        for sample in samples:
            stale += sample == last
            if sample != last:
                offset = sample[0] - code.at
                counts[offset if 0 <= offset < code.size else -1] += 1
            last = sample
    sys.stdout.write(json.dumps({"counts": dict(counts), "stale": stale, "lost": lost, "seconds": took}))


if __name__ == "__main__":
    main()
