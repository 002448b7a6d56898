"""The child process that runs machine code: a small server, started as a script, that needs only the standard library.

It has two ways to count: the clock with its calibration, or a group of perf events that are read by system calls.

The parent and this process share two pieces of memory. In `code` the parent writes and this process only executes (no
mapping is both writable and executable). In `control` are contexts, the table of jobs, records of faults, samples. For
every batch the server forks a worker. If code kills the worker, the server notes the signal or the time-out in the
job's row, and forks another worker for the rest. So bad code costs one job.

Where a job asks for it, pages that the code touches are mapped when it faults, all to one physical page. Such a job
runs at STAGE, a place of its own with nothing near, so that addresses relative to RIP are served as well.

System calls of the code under test are refused (seccomp) unless the batch allows them.

The places in `control`, in their order:

- CALIBRATION_CONTEXT, TEST_CONTEXT (see `generator.harness.harness`);
- ARGUMENTS of the driver;
- FAULT: the record of `fault_handler.asm.j2`;
- CURRENT: u64 index of the running job;
- JOBS: rows of JOB;
- RECORDS: what FAULT was when a job ended its process;
- PAGES: addresses of pages mapped on faults;
- SAMPLES.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import select
import signal
import struct
import sys
import time
from typing import NoReturn

CALIBRATION_CONTEXT = 0x0000
TEST_CONTEXT = 0x1000
CONTEXT_PAGE, CONTEXT_ONCE = 0x230, 0x240
"""Offsets in a context: address and value of the serving page, and whether one-time code has run."""
ARGUMENTS = 0x2000
EVENTS = 0x2200
EVENT = struct.Struct("<3Q")
"""PMU type, config and config1 of a perf event; the first one leads the group."""
FAULT = 0x2400
RECORD_SIZE = 0x110
RECORD = struct.Struct("<5Q")
"""The record's beginning: signal, RIP, address, si_code, number of the system call."""
RECORD_SERVES = 0x28
SERVES = struct.Struct("<q3Q")
"""From there on: file descriptor of the serving page (-1: none), pages mapped, most pages, address of their list."""
RECORD_STEPS = 0x48
STEPS = struct.Struct("<3Q")
"""From there on: address of the list of steps (0: none are noted), steps noted, most steps."""
RECORD_REGISTERS = 0x80
STEP_SIZE = 0x90
"""Bytes of the registers after a step, in the order of `runner.host.native.child.REGISTERS`."""
CURRENT = 0x2600
JOBS = 0x3000
MAX_JOBS = 512
JOB = struct.Struct("<8Q")
"""A row of the table of jobs, u64 each:

- where its blob is in `code`, and how many bytes that has;
- repetitions;
- where its samples go in `control`;
- flags (see below);
- the value of registers and memory;
- the state (see below);
- the detail. If the job is DONE, that is the number of pages that were mapped for it. Else it is the number of the
  signal or the exit code, with RIP in the upper 56 bits.
"""
JOB_STATE = 48
ON_DEMAND, FRESH, STEPPED, LOADS_BESIDE = 1, 2, 4, 8
"""Flags of a job.

- ON_DEMAND: pages are mapped on faults.
- FRESH: pages of the jobs before it are unmapped first.
- STEPPED: the code sets its trap flag. The STEPS_SIZE bytes before its samples get the number of steps, then the
  registers after each instruction.
- LOADS_BESIDE: the load probe runs beside it instead of the contention probe without loads.
"""
MOST_STEPS = 128
STEPS_SIZE = 8 + MOST_STEPS * STEP_SIZE
RECORDS = JOBS + MAX_JOBS * JOB.size
PAGES = RECORDS + MAX_JOBS * RECORD_SIZE
MOST_PAGES = 8192
"""BHive's harness has 1024; a pointer that moves by a page per copy needs more in a loop."""
SAMPLES = PAGES + 8 * MOST_PAGES
CONTROL_SIZE = 8 << 20

CODE_SIZE = 16 << 20
CLOCK_DRIVER = 0x0000
PERF_DRIVER = 0x0200
FAULT_HANDLER = 0x0400
SHORT_CALIBRATION = 0x1000
LONG_CALIBRATION = 0x2000
CONTENTION_PROBE = 0x3000
LOAD_PROBE = 0x4000
FIRST_BLOB = 0x5000

PENDING, DONE, FAULTED, TIMED_OUT, EXITED = range(5)
"""States of a job; EXITED: it ended its process by itself."""
NO_COUNTERS, BROKEN, NO_REFUSAL, NO_PLACE = 250, 251, 252, 253
"""Exit codes of workers.

- NO_COUNTERS: the kernel refuses the events.
- BROKEN: the worker's own code went wrong.
- NO_REFUSAL: the kernel cannot refuse system calls.
- NO_PLACE: something is where the code should be.
"""

COMMAND = struct.Struct("<QQQQ")
"""Number of jobs, time limit per job in microseconds, number of perf events (0: the clock is read), whether system
calls of the code under test are allowed."""
HELLO = struct.Struct("<QQ")
"""Addresses of `code` and of `control` in this process."""

AREA_SIZE = 1 << 20
R14_AREA_SIZE = 128 << 20
"""Size of the first area: more than caches hold, to each side. Pages that are not touched take no memory."""
HUGE_BEGIN, HUGE_SIZE = 32 << 20, 32 << 20
"""Bytes from where R14 points that have pages of 2 MiB, if the kernel gives any. Caches beyond the first level choose
sets by bits of the physical address. Within pages of 4 KiB, these bits are not those of the virtual address."""
GUARD_SIZE = 2 << 20
"""Bytes beside an area that nothing may access: so many that moves past its end are noticed for a while."""
_MADV_HUGEPAGE = 14
AREA_CLEAN = 8 << 10
AREA_ADDRESSES = (0x28000000, 0x21000000, 0x22000000, 0x23000000, 0x24000000)
"""Where the areas for R14, RSI, RDI, RBP and RSP are if the addresses are free: below 2 GiB for 32-bit addressing.

The registers point to the middle of their areas, and what is around that is zero when a job begins.
"""
ABSOLUTE_ADDRESS = 0x20000000
"""Where MOV with a 64-bit absolute address reads and writes (`ABSOLUTE_AREA` in `generator/operands/allocation.py`)."""
STAGE = 0x5000_0000_0000
"""Where jobs run whose pages are mapped on demand."""
STAGE_STEP = (1 << 20) + 5 * 4096
"""Bytes from one job's place to the next: branch and store predictors know code by its address."""
SERVING_PAGE = 0x6000_0000_0000
"""Where the harness fills the page that serves all addresses."""
PAGE = 4096

CLOSED_PAUSE_SECONDS = 0.0005
"""Between looks at a worker whose pipe is closed: it ends next."""

SIGNALS = (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS)
_PROT_NONE = 0
_MAP_FIXED_NOREPLACE = 0x100000
_MAP_32BIT = 0x40
_MAP_NORESERVE = 0x4000
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000
_ALTERNATE_STACK_SIZE = 1 << 16


PERF_EVENT_OPEN = 298
"""The system call (Linux, arch/x86/entry/syscalls/syscall_64.tbl)."""
_ATTRIBUTES = struct.Struct("<IIQQQQQ")
_ATTRIBUTES_SIZE = 128
_CONFIG1 = 56
"""Offset of config1 in struct perf_event_attr (include/uapi/linux/perf_event.h)."""
_FORMAT_GROUP = 8
_PINNED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 2, 1 << 5, 1 << 6


def open_event(kind: int, config: int, leader: int = -1, config1: int = 0) -> int:
    """Open a perf event that counts this process in user mode, in the group of `leader`; return a file descriptor.

    The leader is pinned: if its group cannot be on the PMU as a whole, reading it gives nothing.

    Raises:
        OSError: the kernel refuses, as perf_event_open(2) says.
    """
    flags = _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR | (_PINNED if leader < 0 else 0)
    attributes = bytearray(_ATTRIBUTES_SIZE)
    _ATTRIBUTES.pack_into(attributes, 0, kind, _ATTRIBUTES_SIZE, config, 0, 0, _FORMAT_GROUP, flags)
    struct.pack_into("<Q", attributes, _CONFIG1, config1)
    buffer = (ctypes.c_char * _ATTRIBUTES_SIZE).from_buffer(attributes)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(PERF_EVENT_OPEN, buffer, 0, -1, leader, 0))
    if fd < 0:
        raise _refusal()
    return fd


def read_size(events: int) -> int:
    """Return the bytes of one read of a group: their number, then their values, u64 each."""
    return 8 * (1 + events)


_AUDIT_ARCH_X86_64 = 0xC000003E
_SECCOMP, _SET_MODE_FILTER, _SPEC_ALLOW = 317, 1, 4
"""seccomp(2). SPEC_ALLOW: kernels before 5.16 would else switch off speculation past stores, and make code slower."""
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_PR_SCHED_CORE, _SHARE_WITH_NOBODY = 62, 1
"""Core scheduling (Linux, Documentation/admin-guide/hw-vuln/core-scheduling.rst): PR_SCHED_CORE_CREATE."""
_ALLOWED = (0, 9, 10, 11, 12, 15, 25, 28, 131, 202, 231)
"""System calls of the worker itself: read (of perf events), mmap, mprotect, munmap, brk, rt_sigreturn, mremap, madvise,
sigaltstack, futex, exit_group (Linux, arch/x86/entry/syscalls/syscall_64.tbl)."""


def refusal(code_at: int) -> bytes:
    """Return the BPF program that refuses system calls from where code under test is, and all but `_ALLOWED` ones.

    A refused call gives SIGSYS. Source: seccomp(2), struct seccomp_data: number at 0, architecture at 4, address of the
    instruction at 8 (low) and 12 (high).
    """
    load, equal, at_least, ret = 0x20, 0x15, 0x35, 0x06
    trap, allow = 0x00030000, 0x7FFF0000
    low, high = code_at & 0xFFFFFFFF, code_at >> 32
    rows = [(load, 0, 0, 4), (equal, 1, 0, _AUDIT_ARCH_X86_64), (ret, 0, 0, trap)]
    rows += [(load, 0, 0, 12), (equal, 0, 1, STAGE >> 32), (ret, 0, 0, trap)]
    rows += [(equal, 0, 4, high), (load, 0, 0, 8), (at_least, 0, 2, low + FIRST_BLOB)]
    rows += [(at_least, 1, 0, low + CODE_SIZE), (ret, 0, 0, trap), (load, 0, 0, 0)]
    for number in _ALLOWED:
        rows += [(equal, 0, 1, number), (ret, 0, 0, allow)]
    return b"".join(struct.pack("<HBBI", *row) for row in (*rows, (ret, 0, 0, trap)))


class _StackT(ctypes.Structure):
    _fields_ = (("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


class _SigAction(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def _refusal() -> OSError:
    """Return why the C library's last call failed."""
    error = ctypes.get_errno()
    return OSError(error, os.strerror(error))


class MappedMemory:
    """Memory mapped by the C library, so that its address and protection are ours to choose."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self.libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._guards: list[int] = []

    def map(self, size: int, protection: int, flags: int, fd: int = -1, wanted: int = 0) -> int:
        """Map memory at the wanted address; if that is taken, below 2 GiB, else anywhere. Return the address.

        Raises:
            OSError: there is none.
        """
        for address, extra in ((wanted, _MAP_FIXED_NOREPLACE), (0, _MAP_32BIT), (0, 0)):
            found = self.libc.mmap(address or None, size, protection, flags | (extra if wanted else 0), fd, 0)
            if found is not None and found != ctypes.c_void_p(-1).value:
                return int(found)
        raise _refusal()

    def map_area(self, size: int, wanted: int) -> int:
        """Map zeroed memory, at the wanted address if that is free, and return its address.

        Accesses beside it fault, since guards keep other mappings away.

        Raises:
            OSError: there is no memory.
        """
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        address = self.map(GUARD_SIZE + size + GUARD_SIZE, _PROT_NONE, flags, wanted=wanted - GUARD_SIZE) + GUARD_SIZE
        if self.libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_WRITE):
            raise _refusal()
        self._guards += [address - GUARD_SIZE, address + size]
        return address

    def unmap_guards(self) -> None:
        """Give all guards back."""
        while self._guards:
            self.unmap(self._guards.pop(), GUARD_SIZE)

    def map_fixed(self, address: int, size: int, protection: int, flags: int, fd: int, offset: int) -> None:
        """Map part of a file at an address where nothing is.

        Raises:
            UnusableError: there is something.
        """
        if self.libc.mmap(address, size, protection, flags | _MAP_FIXED_NOREPLACE, fd, offset) != address:
            raise UnusableError(NO_PLACE)

    def unmap(self, address: int, size: int) -> None:
        """Give memory back."""
        self.libc.munmap(address, size)


class UnusableError(Exception):
    """The worker cannot continue; it ends with that exit code."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class Server:
    """The mappings, and the loop over commands."""

    def __init__(self, code_fd: int, control_fd: int, r14_bytes: int) -> None:
        memory = MappedMemory()
        shared = mmap.MAP_SHARED | mmap.MAP_POPULATE
        read_write = mmap.PROT_READ | mmap.PROT_WRITE
        self.control = mmap.mmap(control_fd, CONTROL_SIZE)
        self.control_at = ctypes.addressof(ctypes.c_char.from_buffer(self.control))
        self.code_fd = code_fd
        self.code_at = memory.map(CODE_SIZE, mmap.PROT_READ | mmap.PROT_EXEC, shared, code_fd, 0x40000000)
        self.page_fd = os.memfd_create("uopscope-page")
        os.ftruncate(self.page_fd, PAGE)
        self.page_at = memory.map(PAGE, read_write, shared, self.page_fd, SERVING_PAGE)
        self.memory = memory
        self.staged: tuple[int, int] | None = None
        sizes = (r14_bytes, *[AREA_SIZE] * (len(AREA_ADDRESSES) - 1))
        self.areas = [memory.map_area(size, at) + size // 2 for at, size in zip(AREA_ADDRESSES, sizes, strict=True)]
        self.absolute_at = memory.map_area(AREA_SIZE, ABSOLUTE_ADDRESS)
        self.libc = memory.libc
        if r14_bytes // 2 >= HUGE_BEGIN + HUGE_SIZE:
            begin = ctypes.c_void_p(self.areas[0] + HUGE_BEGIN)
            self.libc.madvise(begin, ctypes.c_size_t(HUGE_SIZE), _MADV_HUGEPAGE)
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.clock_driver, self.perf_driver = (
            function(self.code_at + CLOCK_DRIVER),
            function(self.code_at + PERF_DRIVER),
        )
        self.events = self.may_call = 0
        self.stack = ctypes.create_string_buffer(_ALTERNATE_STACK_SIZE)

    def serve(self) -> None:
        """Run batches until the parent closes the pipe."""
        hello = HELLO.pack(self.code_at, self.control_at)
        os.write(1, hello)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # nobody reads it from here on
        while len(command := os.read(0, COMMAND.size)) == COMMAND.size:
            count, limit_microseconds, self.events, self.may_call = COMMAND.unpack(command)
            self.run_batch(count, limit_microseconds / 1e6)
            os.write(1, b"\x01")

    def run_batch(self, count: int, limit_seconds: float) -> None:
        """Run the jobs in workers, a new one after each that died, and note in the table what became of each."""
        first = 0
        while first < count:
            state, detail = self.run_worker(first, count, limit_seconds)
            if state == DONE:
                return
            died = self.u64(CURRENT)
            if died == count:
                return
            died = min(max(first, died), count - 1)  # code under test may have written there
            row = (state, detail | (self.u64(FAULT + 8) << 8 & (1 << 64) - 1))
            struct.pack_into("<2Q", self.control, JOBS + died * JOB.size + JOB_STATE, *row)
            record = RECORDS + died * RECORD_SIZE
            self.control[record : record + RECORD_SIZE] = self.control[FAULT : FAULT + RECORD_SIZE]
            first = died + 1

    def run_worker(self, first: int, count: int, limit_seconds: float) -> tuple[int, int]:
        """Run jobs from `first` on in one worker; return DONE, or how job CURRENT ended it, with the signal or code."""
        self.control[FAULT : FAULT + RECORD_SIZE] = bytes(RECORD_SIZE)
        struct.pack_into("<Q", self.control, CURRENT, first)
        alive, worker_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(alive)
            self.be_worker(first, count)
        os.close(worker_end)
        timed_out = not self.wait(alive, pid, limit_seconds)
        if timed_out:
            os.kill(pid, signal.SIGKILL)
        os.close(alive)
        _, status = os.waitpid(pid, 0)
        if self.may_call:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # what it started
        if timed_out:
            return TIMED_OUT, 0
        code = os.waitstatus_to_exitcode(status)
        if code == 0 and self.u64(CURRENT) == count:
            return DONE, 0
        # The handler of faults exits with the signal's number, after writing it down.
        return FAULTED if code < 0 or 0 < code == self.u64(FAULT) else EXITED, abs(code)

    def be_worker(self, first: int, count: int) -> NoReturn:
        """Run jobs from `first` on in this process, and end it."""
        try:
            if self.may_call:
                self.libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                os.setpgid(0, 0)
            self.work(first, count)
        except UnusableError as error:
            os._exit(error.exit_code)
        except OSError:
            os._exit(NO_COUNTERS)
        finally:
            os._exit(0 if self.u64(CURRENT) == count else BROKEN)

    def wait(self, alive: int, pid: int, limit_seconds: float) -> bool:
        """Wait until the worker ends (true), or one job has taken longer than the limit (false).

        As a rule the pipe ends with the worker. Code that may call the system can close it, or hand it to children.
        """
        seen, since = -1, time.monotonic()
        while True:
            readable, _, _ = select.select([alive], [], [], limit_seconds / 4)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
            if readable:
                time.sleep(CLOSED_PAUSE_SECONDS)
            now, current = time.monotonic(), self.u64(CURRENT)
            if current != seen:
                seen, since = current, now
            elif now - since > limit_seconds:
                return False

    def work(self, first: int, count: int) -> None:
        """Be the worker: run the jobs in this process."""
        self.catch_signals()
        pointers = struct.pack("<5Q", *self.areas)
        self.control[CALIBRATION_CONTEXT + 0x40 : CALIBRATION_CONTEXT + 0x68] = pointers
        leader = self.open_group() if self.events else -1
        if not self.may_call:
            self.refuse_calls()
        for index in range(first, count):
            struct.pack_into("<Q", self.control, CURRENT, index)
            blob, size, repetitions, samples, flags, fill, _, _ = JOB.unpack_from(self.control, JOBS + index * JOB.size)
            struct.pack_into("<Q", self.control, TEST_CONTEXT + CONTEXT_ONCE, 0)
            self.control[TEST_CONTEXT + 0x40 : TEST_CONTEXT + 0x68] = pointers
            if flags & ON_DEMAND:
                entry = self.stage(index, blob, size, fill, is_fresh=bool(flags & FRESH))
            else:
                entry = self.code_at + blob
                struct.pack_into("<q", self.control, FAULT + RECORD_SERVES, -1)
                for area in self.areas:
                    ctypes.memset(area - AREA_CLEAN, 0, 2 * AREA_CLEAN)
                ctypes.memset(self.absolute_at, 0, AREA_CLEAN)
            noted = samples - STEPS_SIZE if flags & STEPPED else 0
            row = (self.control_at + noted + 8, 0, MOST_STEPS) if noted else (0, 0, 0)
            STEPS.pack_into(self.control, FAULT + RECORD_STEPS, *row)
            if self.events:
                self.run_counted(leader, entry, repetitions, samples)
            else:
                probe = LOAD_PROBE if flags & LOADS_BESIDE else CONTENTION_PROBE
                self.run_clocked(entry, repetitions, samples, probe)
            if noted:
                struct.pack_into("<Q", self.control, noted, self.u64(FAULT + RECORD_STEPS + 8))
            pages = self.u64(FAULT + RECORD_SERVES + 8)
            struct.pack_into("<2Q", self.control, JOBS + index * JOB.size + JOB_STATE, DONE, pages)
        struct.pack_into("<Q", self.control, CURRENT, count)

    def stage(self, index: int, blob: int, size: int, fill: int, *, is_fresh: bool) -> int:
        """Put a blob at STAGE, alone, and let pages be mapped on faults; return where it begins.

        Raises:
            UnusableError: there is something at STAGE.
        """
        at, room = STAGE + index * STAGE_STEP, -(-size // PAGE) * PAGE
        if self.staged:
            self.memory.unmap(*self.staged)
        self.memory.unmap_guards()  # such code may access any address
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        begin = blob // PAGE * PAGE
        self.staged = at, room
        self.memory.map_fixed(at, room, mmap.PROT_READ | mmap.PROT_EXEC, flags, self.code_fd, begin)
        if is_fresh:
            for number in range(self.u64(FAULT + RECORD_SERVES + 8)):
                self.memory.unmap(self.u64(PAGES + 8 * number), PAGE)
            row = (self.page_fd, 0, MOST_PAGES, self.control_at + PAGES)
            SERVES.pack_into(self.control, FAULT + RECORD_SERVES, *row)
        struct.pack_into("<2Q", self.control, TEST_CONTEXT + CONTEXT_PAGE, self.page_at, fill)
        return at + blob - begin

    def refuse_calls(self) -> None:
        """Have system calls of the code under test refused from here on.

        Raises:
            UnusableError: the kernel cannot do that.
        """
        program = refusal(self.code_at)
        buffer = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
        self.libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        for flags in (_SPEC_ALLOW, 0):
            if self.libc.syscall(_SECCOMP, _SET_MODE_FILTER, flags, header) == 0:
                return
        raise UnusableError(NO_REFUSAL)

    def run_clocked(self, entry: int, repetitions: int, samples: int, probe: int) -> None:
        """Run one job between calibration and that contention probe."""
        calibration = (self.code_at + SHORT_CALIBRATION + 8, self.code_at + LONG_CALIBRATION + 8)
        contexts = (self.control_at + CALIBRATION_CONTEXT, self.control_at + TEST_CONTEXT)
        rest = (repetitions, self.control_at + samples, self.code_at + probe + 8)
        struct.pack_into("<8Q", self.control, ARGUMENTS, *calibration, entry, *contexts, *rest)
        self.clock_driver(self.control_at + ARGUMENTS)

    def run_counted(self, leader: int, entry: int, repetitions: int, samples: int) -> None:
        """Run one job between reads of the events; where a read gives nothing, the samples stay zero."""
        size = read_size(self.events)
        self.control[samples : samples + 2 * size * repetitions] = bytes(2 * size * repetitions)
        rest = (leader, size, repetitions, self.control_at + samples)
        struct.pack_into("<5Q", self.control, ARGUMENTS, entry, *rest)
        self.perf_driver(self.control_at + ARGUMENTS)

    def open_group(self) -> int:
        """Open the events of the batch for this process; return the leader.

        Raises:
            OSError: the kernel refuses one of them.
        """
        leader = -1
        for index in range(self.events):
            kind, config, config1 = EVENT.unpack_from(self.control, EVENTS + index * EVENT.size)
            fd = open_event(kind, config, leader, config1)
            leader = fd if leader < 0 else leader
        return leader

    def catch_signals(self) -> None:
        """Let faults be written down by the native handler, on a stack of its own since RSP may be anything."""
        stack = _StackT(ctypes.addressof(self.stack), 0, _ALTERNATE_STACK_SIZE)
        self.libc.sigaltstack(ctypes.byref(stack), None)
        action = _SigAction(handler=self.code_at + FAULT_HANDLER + 8, flags=_SA_SIGINFO | _SA_ONSTACK)
        for number in SIGNALS:
            self.libc.sigaction(int(number), ctypes.byref(action), None)

    def u64(self, offset: int) -> int:
        """Return a field of `control`."""
        return int(struct.unpack_from("<Q", self.control, offset)[0])


def keep_siblings_idle() -> None:
    """Let nothing but this process and its workers run on the core that they are on.

    Raises:
        OSError: the kernel has no core scheduling, or the CPU no other threads.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SCHED_CORE, _SHARE_WITH_NOBODY, 0, 0, ctypes.c_void_p(None)):
        error = ctypes.get_errno()
        raise OSError(error, f"core scheduling: {os.strerror(error)}")


def main(code_fd: int, control_fd: int, cpu: int, r14_bytes: int, idle_siblings: int) -> None:
    """Pin this process to the CPU and serve; Ctrl-C is the parent's business."""
    os.sched_setaffinity(0, {cpu})
    if idle_siblings:
        keep_siblings_idle()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(-10)
    Server(code_fd, control_fd, r14_bytes).serve()


if __name__ == "__main__":
    main(*[int(argument) for argument in sys.argv[1:6]])
