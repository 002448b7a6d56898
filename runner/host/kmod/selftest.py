"""The tests of `uopscope selftest` on a real machine: containment, time-outs, state, and known instructions.

Blobs are a few instructions each, with the same outcome on every CPU (Intel SDM volume 3, chapter 6). The known
instructions have had a latency of 1 and 3 cycles on every Intel core since Nehalem and on every Zen (Fog, "Instruction
tables").
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Request, Want
from runner.host.kmod import abi
from runner.host.kmod.device import BlobJob
from runner.measuring.protocol import Measurer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.backend import Backend
    from runner.host.kmod.device import BlobResult, Device

ENTRY = 8
ROUNDS = 20
"""How often each blob that faults or hangs runs, with a good one in between: damage may show only later."""
TIME_LIMIT_NS = 1_000_000_000
"""For blobs that end: far longer than any of them takes."""
LOOP_LIMIT_NS = 50_000_000
"""For endless blobs: long enough to be ended by a timer, short enough for 20 rounds of each."""
TOLERANCE = Fraction(3, 100)
"""By how much known latencies may be off, of their value."""
BATCH_JOBS = 2000
"""Jobs in the batch that is timed: about a second at the slowest."""
NOTHING = abi.Changed(0)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked; `passed` is None where it could not be, and `detail` says why."""

    name: str
    passed: bool | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Blob:
    """A few instructions from the entry on, and what must be reported: the offset counts from the blob's beginning."""

    name: str
    code: str
    status: abi.JobStatus
    vectors: tuple[int, ...] = (0,)
    offset: int | None = None
    changed: abi.Changed = NOTHING

    @property
    def data(self) -> bytes:
        """The whole blob."""
        return bytes(ENTRY) + bytes.fromhex(self.code)

    def matches(self, result: BlobResult) -> bool:
        """Whether that is what was reported."""
        if result.status is not self.status or result.vector not in self.vectors:
            return False
        if self.offset is not None and result.offset != self.offset:
            return False
        return self.status is abi.JobStatus.FAULT or self.changed in result.changed


_FAULT, _STATE, _OK, _TIME_OUT = abi.JobStatus.FAULT, abi.JobStatus.STATE, abi.JobStatus.OK, abi.JobStatus.TIME_OUT

GOOD = Blob("RET", "c3", _OK)
BLOBS = (
    GOOD,
    Blob("UD2", "0f0b", _FAULT, (6,), 8),
    Blob("division by zero", "31c9f7f1", _FAULT, (0,), 10),
    Blob("INT3", "cc", _FAULT, (3,), 9),
    Blob("load from address 0", "31c0488b00", _FAULT, (14,), 10),
    Blob("load from a non-canonical address", "48b8efcdab9078563412488b00", _FAULT, (13,), 18),
    Blob("store into its own text", "c605f9ffffff90", _FAULT, (14,), 8),
    Blob("PUSH with RSP = 0", "31e450", _FAULT, (14, 12), 10),
    Blob("jump to address 0", "31c0ffe0", _FAULT, (14,), abi.NO_OFFSET),
    Blob("INT 80H", "cd80", _FAULT, (0x80,), 10),
    Blob("single-step", "9c4881" + "0c2400010000" + "9d90c3", _FAULT, (1,)),
    Blob("WRMSR of a register that is not there", "b9785634120f30", _FAULT, (13,), 13),
    Blob("running off the end", "90", _FAULT, (3,), 10),
    Blob("STI left on", "fb90c3", _STATE, changed=abi.Changed.IF),
    Blob("a callee-saved register overwritten", "bb78563412c3", _STATE, changed=abi.Changed.STACK),
    Blob("STD left on", "fdc3", _OK, changed=abi.Changed.FLAGS),
)
ENDLESS = (
    Blob("an endless loop", "ebfe", _TIME_OUT, (2,), 8),
    Blob("CLI and HLT", "faf4ebfd", _TIME_OUT, (2,)),
)


def device_checks(device: Device) -> Iterator[Check]:
    """Check containment, time-outs and speed; takes a few seconds."""
    tests_under_emulation = bool(device.information.features & abi.Feature.DEBUG)
    for blob in BLOBS:
        yield _contained(device, blob, TIME_LIMIT_NS)
    for blob in ENDLESS:
        if device.information.online_cpus < 2:
            yield Check(f"stops {blob.name}", None, "one CPU is online: nothing could end it")
        else:
            yield _contained(device, blob, LOOP_LIMIT_NS)
    yield _speed(device)
    if tests_under_emulation:
        yield Check("the module is as shipped", False, "it was loaded for a test (leave_rdpmc, use_nmi=0)")


def _job(blob: Blob, time_limit_ns: int) -> BlobJob:
    return BlobJob(blob.data, (), 0, 1, time_limit_ns)


def _contained(device: Device, blob: Blob, time_limit_ns: int) -> Check:
    jobs = [_job(each, time_limit_ns) for _ in range(ROUNDS) for each in (blob, GOOD)]
    results = device.run(jobs)
    wrong = [result for result in results[::2] if not blob.matches(result)]
    after = [result for result in results[1::2] if result.status is not abi.JobStatus.OK]
    name = f"{blob.name}: {ROUNDS} times"
    if wrong:
        first = wrong[0]
        got = f"{first.status.name}, vector {first.vector}, offset {first.offset:#x}, changed {first.changed!r}"
        return Check(name, False, f"{len(wrong)} unexpected results, such as: {got}")
    if after:
        return Check(name, False, f"{len(after)} times the next job did not run: {after[0].status.name}")
    return Check(name, True, blob.status.name)


def _speed(device: Device) -> Check:
    started = time.monotonic()
    results = device.run([_job(GOOD, TIME_LIMIT_NS)] * BATCH_JOBS)
    seconds = time.monotonic() - started
    quiet_us = max(result.max_quiet_ns for result in results) / 1000
    detail = f"{BATCH_JOBS / seconds:.0f} jobs per second; interrupts away for at most {quiet_us:.0f} µs"
    return Check("a batch of empty jobs", all(result.status is abi.JobStatus.OK for result in results), detail)


def _line(code: str, text: str) -> Line:
    return Line(bytes.fromhex(code), text)


ADD = Microbenchmark((), (_line("4801c0", "ADD RAX, RAX"),), "self-test: a chain of ADD")
IMUL = Microbenchmark((), (_line("480fafc0", "IMUL RAX, RAX"),), "self-test: a chain of IMUL")
LOAD = Microbenchmark((), (_line("498b06", "MOV RAX, [R14]"),), "self-test: loads")


def counter_checks(backend: Backend) -> Iterator[Check]:
    """Measure instructions that are known, with the counters that there are.

    Raises:
        BackendError: the backend cannot be used.
    """
    measurer = Measurer(backend)
    requests = [Request(benchmark, Want.ALL) for benchmark in (ADD, IMUL, LOAD)]
    add, imul, load = measurer.measure(requests)
    for measured, cycles in ((add, 1), (imul, 3)):
        name = f"{measured.request.benchmark.body[0].text}: {cycles} cycles"
        if not measured.ok:
            yield Check(name, False, measured.detail or measured.status.value)
        else:
            yield Check(name, abs(measured.cycles - cycles) <= TOLERANCE, f"{float(measured.cycles):.3f}")
    for name in ("instructions", "uops_issued", "uops_retire_slots"):
        if name in add.values:
            value = add.values[name]
            yield Check(f"ADD: 1 of {name}", abs(value - 1) <= TOLERANCE, f"{float(value):.3f}")
    ports = backend.info().ports
    for measured in (add, load):
        if ports and measured.ok and all(port in measured.values for port in ports):
            total = sum((measured.values[port] for port in ports), Fraction(0))
            shares = ", ".join(f"{port} {float(measured.values[port]):.2f}" for port in ports if measured.values[port])
            name = f"{measured.request.benchmark.body[0].text}: 1 µop on all ports together"
            yield Check(name, abs(total - 1) <= TOLERANCE, shares)
