"""What the emulated PMU (fakepmu/fakepmu.c) is told: a CPU's PMU as CPUID describes it, its registers, and counts.

Sources: Intel SDM volume 2, CPUID leaves 0AH and 23H; volume 4 for the MSRs; AMD APM volume 2, 13.2, and CPUID
8000_0001H (ECX bit 23), 8000_0022H.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from runner.host.kmod import abi

RECORD = struct.Struct("<4Q")
ACCESS = struct.Struct("<4Q")
CLEAR, VENDOR, CPUID, MSR, WIDTH, COUNT = range(6)

INTEL, AMD = 0, 2
"""X86_VENDOR_INTEL, X86_VENDOR_AMD (Linux, arch/x86/include/asm/processor.h)."""

FIXED_SELECTOR = 0xF1000000
FREE_SELECTOR = 0xF2000000
"""By which counts are found that no event selects; fakepmu.c has the same."""
FULL_WRITE = 1 << 13
OS_EN = 1 << 17 | 1 << 22


@dataclass(frozen=True)
class Pmu:
    """A PMU: Intel's of an architectural version, or AMD's (version 1, or 2 with global control)."""

    vendor: int
    version: int
    programmable: int
    fixed: int = 0
    width: int = 48
    full_write: bool = True
    extended_umask: bool = False

    @property
    def selectors(self) -> list[int]:
        """The MSRs that select events."""
        return [0xC0010200 + 2 * i if self.vendor == AMD else 0x186 + i for i in range(self.programmable)]

    @property
    def counters(self) -> list[int]:
        """The MSRs of the programmable counters."""
        return [0xC0010201 + 2 * i if self.vendor == AMD else 0xC1 + i for i in range(self.programmable)]

    @property
    def writable_counters(self) -> list[int]:
        """The MSRs through which counters are written in full width."""
        return (
            [0x4C1 + i for i in range(self.programmable)] if self.full_write and self.vendor == INTEL else self.counters
        )

    @property
    def fixed_counters(self) -> list[int]:
        """The MSRs of the fixed counters."""
        return [0x309 + i for i in range(self.fixed)]

    @property
    def global_control(self) -> int | None:
        """The MSR that starts and stops all counters."""
        return (0xC0000301 if self.vendor == AMD else 0x38F) if self.version >= 2 else None

    def initial(self) -> dict[int, int]:
        """Return what is in the registers before: a value of its own in each, to be found again afterwards."""
        registers = {msr: 0x5300C0 + i for i, msr in enumerate(self.selectors)}
        registers |= {msr: 0x123456789A00 + i for i, msr in enumerate(self.counters)}
        registers |= {msr: 0x23456789AB00 + i for i, msr in enumerate(self.fixed_counters)}
        if self.fixed:
            registers[0x38D] = 0x0B0
        if self.global_control:
            registers[self.global_control] = 0x3
        return registers

    def records(self) -> bytes:
        """Return what /dev/fakepmu is written so that the module sees this PMU."""
        rows = [(CLEAR, 0, 0, 0), (VENDOR, self.vendor, 0, 0), (WIDTH, self.width, self.width, 0)]
        rows += [(MSR, msr, value, 0) for msr, value in self.initial().items()]
        if self.vendor == INTEL:
            eax = self.version | self.programmable << 8 | self.width << 16
            rows += [(CPUID, 0x0, 0x23 << 32, 0), (CPUID, 0xA, eax << 32, self.fixed | self.width << 5)]
            rows += [(CPUID, 0x23, 1 if self.extended_umask else 0, 0), (CPUID, 0x1A, 0, 0)]
            rows += [(MSR, 0x345, FULL_WRITE if self.full_write else 0, 0)]
            if self.full_write:
                rows += [(MSR, msr, 0, 0) for msr in self.writable_counters]
        else:
            rows += [(CPUID, 0x80000000, 0x80000022 << 32, 0), (CPUID, 0x80000001, 0, 1 << 55)]
            rows += [(CPUID, 0x80000022, (self.version == 2) << 32 | self.programmable, 0)]
            rows += [(CPUID, 0x80000008, 0, 0), (CPUID, 0x0, 0x10 << 32, 0)]
        return b"".join(RECORD.pack(*row) for row in rows)


def free_running_records() -> bytes:
    """Return what /dev/fakepmu is written for a CPU that has APERF and MPERF (CPUID leaf 6, ECX bit 0) and no PMU."""
    rows = [(CLEAR, 0, 0, 0), (CPUID, 0x6, 0, 1 << 32), (WIDTH, 64, 64, 0)]
    rows += [(MSR, msr, 0, 0) for msr in (abi.MSR_MPERF, abi.MSR_APERF)]
    return b"".join(RECORD.pack(*row) for row in rows)


def blob_key(blob: bytes) -> int:
    """Return the hash by which the emulated PMU knows a blob: FNV-1a, 64 bits, without the literal."""
    value = 0xCBF29CE484222325
    for byte in blob[8:]:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


@dataclass(frozen=True)
class Access:
    """One access to a register that the module made; `unknown` ones failed."""

    msr: int
    value: int
    is_write: bool
    unknown: bool


def accesses(data: bytes) -> list[Access]:
    """Return what /dev/fakepmu reads."""
    return [Access(msr, value, bool(write), bool(unknown)) for msr, value, write, unknown in ACCESS.iter_unpack(data)]
