"""Code of our own that runs natively beside the code under test: calibration chain, driver, fault handler, CPUID.

IMUL r64, r64 has had a latency of 3 core cycles on every x86-64 core from Nehalem and Zen on (Fog, "Instruction
tables"; uops.info), and unlike ADD it is nowhere done at rename, so a chain of it counts core cycles.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

from generator.assembly import fixed_fragments
from generator.harness import RDTSC, render
from generator.microbenchmark import Line, Microbenchmark

IMUL_CORE_CYCLES = 3
SHORT_ITERATIONS = 1
WITNESS_COPIES, WITNESS_ITERATIONS = 4, 400

_CHAIN = Microbenchmark(
    setup=(), body=(Line(bytes.fromhex("480fafc0"), "IMUL RAX, RAX"),), purpose="calibration of the clock"
)

_CROWD = Microbenchmark(
    setup=(),
    body=tuple(
        Line(bytes.fromhex(code), f"ADD {name}, {name}")
        for code, name in (
            ("4801c0", "RAX"),
            ("4801db", "RBX"),
            ("4801c9", "RCX"),
            ("4801d2", "RDX"),
            ("4d01c0", "R8"),
            ("4d01c9", "R9"),
            ("4d01d2", "R10"),
            ("4d01db", "R11"),
        )
    ),
    purpose="witness of contention",
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Two blobs of the same chain, of which the long one takes `core_cycles` more core cycles, and the witness.

    The witness keeps every ALU busy. It takes longer where another thread uses the same core, unlike the chain, which
    leaves most of the core free.
    """

    short: bytes
    long: bytes
    core_cycles: int
    witness: bytes


def calibration(iterations: int, copies: int = 30) -> Calibration:
    """Return the calibration blobs for a difference of that many loop iterations of so many IMULs each."""
    return Calibration(
        render(_CHAIN, copies, SHORT_ITERATIONS, RDTSC),
        render(_CHAIN, copies, SHORT_ITERATIONS + iterations, RDTSC),
        IMUL_CORE_CYCLES * copies * iterations,
        render(_CROWD, WITNESS_COPIES, WITNESS_ITERATIONS, RDTSC),
    )


@functools.cache
def driver(name: str) -> bytes:
    """Return the code of a driver, a function of the System V ABI with one argument; see the templates *_driver."""
    parts = fixed_fragments(f"{name}_driver")
    loop = parts["repeat"]
    return parts["begin"] + loop[:-4] + struct.pack("<i", -len(loop)) + parts["end"]


def fault_handler(record_address: int) -> bytes:
    """Return the code of a signal handler that fills the record (signal, RIP, address) and ends the process."""
    return struct.pack("<Q", record_address) + fixed_fragments("fault_handler")["handler"]


def cpuid() -> bytes:
    """Return the code of CPUID as a function of leaf, subleaf and the address of four u32; see its template."""
    return fixed_fragments("cpuid")["cpuid"]
