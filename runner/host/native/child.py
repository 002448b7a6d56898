"""The parent's side of the child process that runs machine code (`runner.host.native.server`)."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from generator.harness import native
from runner.backend import PLAIN_ENVIRONMENT, BackendError
from runner.host.native import server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.backend import ExecutionEnvironment

START_LIMIT_SECONDS = 120.0
"""How long the server may take to start: a Python without packages needs 0.1 s, in an emulated machine on a busy host
half a minute. One that ends is noticed at once."""
REPLY_LIMIT_SECONDS = 20.0
"""How long it may take to reply, beyond what jobs may take: what measured code stops is not waited for long."""
SYSCALL_BYTES = 2
"""SYSCALL and INT 80H: a refused call is reported behind the instruction."""
CLOCK_COLUMNS = 3
"""Columns of a clocked job: ticks, calibration, contention probe."""


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Memory that is mapped when code touches it: all pages are one, and this value fills it and the registers.

    `is_fresh`: the pages that jobs before it have touched are taken away first.
    """

    value: int
    is_fresh: bool = True


class NativeJob(NamedTuple):
    """A blob and how often it runs (warm-ups included). A `stepped` one sets its trap flag: its steps are noted.

    With `loads_beside`, its contention probe also loads.
    """

    blob: bytes
    repetitions: int
    memory: OnDemand | None = None
    stepped: bool = False
    loads_beside: bool = False


@dataclass(frozen=True, slots=True)
class _PlacedJob:
    """A job of a batch: where its blob is in the shared `code`, and where its samples begin and end in `control`."""

    index: int
    job: NativeJob
    blob_at: int
    samples_at: int
    samples_end: int


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """A perf event: the type of its PMU and the configuration, as in perf_event_open(2)."""

    kind: int
    config: int
    config1: int = 0


REGISTERS = (
    *(f"R{number}" for number in range(8, 16)),
    *("RDI", "RSI", "RBP", "RBX", "RDX", "RAX", "RCX", "RSP", "RIP", "RFLAGS"),
)
"""In the order of struct sigcontext_64 (Linux, arch/x86/include/uapi/asm/sigcontext.h)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What ended a job: signal (of `signal.Signals`), where in the blob (None: outside), and what the kernel said.

    `address` is what a page fault wanted, `cause` the si_code, `call` the number of a refused system call.
    """

    signal: int
    offset: int | None
    address: int
    cause: int
    call: int
    registers: Mapping[str, int]


class NativeResult(NamedTuple):
    """What became of a job: a state of `runner.host.native.server`, and one column per counter if the state is DONE.

    The columns are the clock's ticks, calibration and contention probe, or the events. In other states, `signal` (an
    exit code if EXITED) says how it ended, and `fault` (if FAULTED) where and why. In `missed` repetitions other
    users had the counters. `pages` were mapped on demand. `steps` are the registers (`REGISTERS`) after each
    instruction of a stepped job.
    """

    state: int
    columns: tuple[tuple[int, ...], ...] = ()
    signal: int = 0
    fault: Fault | None = None
    missed: int = 0
    pages: int = 0
    steps: tuple[tuple[int, ...], ...] = ()


class NativeChild:
    """A running server pinned to one CPU, with the memory that it shares with this process."""

    def __init__(
        self, cpu: int, calibration: native.Calibration, asked: ExecutionEnvironment = PLAIN_ENVIRONMENT
    ) -> None:
        """Start it.

        Raises:
            BackendError: there is no process, no shared memory, or no executable memory.
        """
        self._files = [os.memfd_create("uopscope-code"), os.memfd_create("uopscope-control")]
        for fd, size in zip(self._files, (server.CODE_SIZE, server.CONTROL_SIZE), strict=True):
            os.ftruncate(fd, size)
        self._code = mmap.mmap(self._files[0], server.CODE_SIZE)
        self._control = mmap.mmap(self._files[1], server.CONTROL_SIZE)
        self._words = memoryview(self._control).cast("Q")
        script = Path(server.__file__)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), *map(str, (*self._files, cpu, *_as_numbers(asked)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=self._files,
            start_new_session=True,
        )
        self._code_at, control_at = server.HELLO.unpack(self._read(server.HELLO.size, START_LIMIT_SECONDS))
        self._context_at = control_at + server.TEST_CONTEXT
        self._load_fixed(control_at, calibration)

    @property
    def process(self) -> int:
        """The number of the server's process."""
        return self._process.pid

    def run(
        self,
        jobs: Sequence[NativeJob],
        limit_seconds: float,
        events: Sequence[PerfEvent] = (),
        *,
        may_call: bool = False,
    ) -> list[NativeResult]:
        """Run jobs that `fitting` has found to fit, and read the clock or those events.

        System calls of the code are refused unless it `may_call`.

        Raises:
            BackendError: the child process is gone.
        """
        for index, event in enumerate(events):
            row = (event.kind, event.config, event.config1)
            server.EVENT.pack_into(self._control, server.EVENTS + index * server.EVENT.size, *row)
        placed = list(_placed(jobs, len(events)))
        for one in placed:
            self._load(one.blob_at, one.job.blob, self._context_at)
            server.JOB.pack_into(self._control, server.JOBS + one.index * server.JOB.size, *_row(one))
        self._write(server.COMMAND.pack(len(jobs), round(limit_seconds * 1e6), len(events), may_call))
        self._read(1, REPLY_LIMIT_SECONDS + sum(limit_seconds * 2 + 0.1 for _ in jobs))
        return [self._result(one, len(events)) for one in placed]

    def close(self) -> None:
        """End the child process and its worker, and give the memory back."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._words.release()
        self._code.close()
        self._control.close()
        for fd in self._files:
            os.close(fd)

    def _result(self, placed: _PlacedJob, events: int) -> NativeResult:
        *_, state, detail = server.JOB.unpack_from(self._control, server.JOBS + placed.index * server.JOB.size)
        if state != server.DONE:
            fault = self._fault(placed) if state == server.FAULTED else None
            return NativeResult(state, signal=detail & 0xFF, fault=fault)
        words = self._words[placed.samples_at // 8 : placed.samples_end // 8].tolist()
        result = _counted(state, words, events) if events else _clocked(state, words)
        return result._replace(pages=detail, steps=self._steps(placed))

    def _steps(self, placed: _PlacedJob) -> tuple[tuple[int, ...], ...]:
        """Return what was noted in front of the samples of a job, RIP from the beginning of its blob."""
        if not placed.job.stepped:
            return ()
        first, size = (placed.samples_at - server.STEPS_SIZE) // 8, server.STEP_SIZE // 8
        count = min(self._words[first], server.MOST_STEPS)
        starts = range(first + 1, first + 1 + count * size, size)
        base, rip = self._base(placed), REGISTERS.index("RIP")
        rows = (self._words[start : start + size].tolist() for start in starts)
        return tuple((*row[:rip], row[rip] - base, *row[rip + 1 :]) for row in rows)

    def _base(self, placed: _PlacedJob) -> int:
        """Return where a blob was when it ran."""
        at_stage = server.STAGE + placed.index * server.STAGE_STEP
        return at_stage if placed.job.memory else self._code_at + placed.blob_at

    def _fault(self, placed: _PlacedJob) -> Fault:
        at = server.RECORDS + placed.index * server.RECORD_SIZE
        number, rip, address, cause, call = server.RECORD.unpack_from(self._control, at)
        words = struct.unpack_from(f"<{len(REGISTERS)}Q", self._control, at + server.RECORD_REGISTERS)
        if number == signal.SIGSYS:
            rip -= SYSCALL_BYTES
        offset = rip - self._base(placed)
        inside = offset if 0 <= offset < len(placed.job.blob) else None
        return Fault(number, inside, address, cause, call, dict(zip(REGISTERS, words, strict=True)))

    def _load_fixed(self, control_at: int, calibration: native.Calibration) -> None:
        for offset, name in ((server.CLOCK_DRIVER, "clock"), (server.PERF_DRIVER, "perf")):
            self._code[offset : offset + len(native.driver(name))] = native.driver(name)
        self._load(server.FAULT_HANDLER, native.fault_handler(control_at + server.FAULT), control_at + server.FAULT)
        self._load(server.SHORT_CALIBRATION, calibration.short, control_at + server.CALIBRATION_CONTEXT)
        self._load(server.LONG_CALIBRATION, calibration.long, control_at + server.CALIBRATION_CONTEXT)
        self._load(server.CONTENTION_PROBE, calibration.contention_probe, control_at + server.CALIBRATION_CONTEXT)
        self._load(server.LOAD_PROBE, calibration.load_probe, control_at + server.CALIBRATION_CONTEXT)

    def _load(self, offset: int, blob: bytes, literal: int) -> None:
        """Put a blob into the shared memory, with the address at its beginning."""
        self._code[offset : offset + len(blob)] = blob
        struct.pack_into("<Q", self._code, offset, literal)

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except OSError as error:
            raise self._gone() from error

    def _read(self, size: int, limit_seconds: float) -> bytes:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], limit_seconds)
        data = os.read(self._process.stdout.fileno(), size) if readable else b""
        if len(data) != size:
            raise self._gone()
        return data

    def _gone(self) -> BackendError:
        self._process.kill()
        _, complaint = self._process.communicate()
        last = complaint.decode(errors="replace").strip().splitlines()[-1:]
        return BackendError(
            "the child process that runs machine code does not answer" + (f": {last[0]}" if last else ""),
            hint="it needs memory that is executable (SELinux: execmem) and a CPU that this process may use",
        )


def _as_numbers(asked: ExecutionEnvironment) -> tuple[int, int]:
    return asked.r14_bytes or server.R14_AREA_SIZE, int(asked.idle_siblings)


def _placed(jobs: Sequence[NativeJob], events: int) -> Iterator[_PlacedJob]:
    """Yield the jobs with their places, one after another; steps stand in front of a job's samples."""
    blob_at, free = server.FIRST_BLOB, server.SAMPLES
    for index, job in enumerate(jobs):
        samples_at = free + server.STEPS_SIZE * job.stepped
        free = samples_at + job.repetitions * _sample_size(events)
        yield _PlacedJob(index, job, blob_at, samples_at, free)
        blob_at += _room(job.blob)


def _row(placed: _PlacedJob) -> tuple[int, ...]:
    """Return the row of `server.JOB` for a job that is to run."""
    job = placed.job
    flags = (server.ON_DEMAND | server.FRESH * job.memory.is_fresh) if job.memory else 0
    flags |= server.LOADS_BESIDE * job.loads_beside | server.STEPPED * job.stepped
    value = job.memory.value if job.memory else 0
    code = (placed.blob_at + 8, len(job.blob))
    return (*code, job.repetitions, placed.samples_at, flags, value, server.PENDING, 0)


def fitting(jobs: Sequence[NativeJob], events: int = 0) -> int:
    """Return how many jobs, from the first on, fit into the shared memory at once (0: the first never will)."""
    for one in _placed(jobs[: server.MAX_JOBS], events):
        if one.blob_at + _room(one.job.blob) > server.CODE_SIZE or one.samples_end > server.CONTROL_SIZE:
            return one.index
    return min(len(jobs), server.MAX_JOBS)


def _sample_size(events: int) -> int:
    """Return the bytes of one repetition: three clock readings, or two reads of the events."""
    return 2 * server.read_size(events) if events else 8 * CLOCK_COLUMNS


def _clocked(state: int, words: list[int]) -> NativeResult:
    return NativeResult(state, tuple(tuple(words[column::CLOCK_COLUMNS]) for column in range(CLOCK_COLUMNS)))


def _counted(state: int, words: list[int], events: int) -> NativeResult:
    """Subtract the reads before from those after; a read that gave nothing has no number of events either."""
    stride = 2 * (1 + events)
    rows = [words[start : start + stride] for start in range(0, len(words), stride)]
    there = [row for row in rows if row[0] == events == row[1 + events]]
    columns = tuple(tuple(row[2 + events + event] - row[1 + event] for row in there) for event in range(events))
    return NativeResult(state, columns, missed=len(rows) - len(there))


def _room(blob: bytes) -> int:
    """Blobs begin on pages of their own, so that each lies in the same way to caches and decoders."""
    return -(-len(blob) // mmap.PAGESIZE) * mmap.PAGESIZE
