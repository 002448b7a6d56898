"""What the emulated PMU (fakepmu/fakepmu.c) is told: a CPU's PMU as CPUID describes it, its registers, and counts.

A record's last field is a register's step. Sources: Intel SDM volume 2, CPUID leaves 06H, 07H, 0AH and 23H; volume 4
for the MSRs; AMD APM volume 2, 13.2, and CPUID 8000_0001H (ECX bit 23), 8000_0022H.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.host.kmod import abi

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORD = struct.Struct("<4Q")
ACCESS = struct.Struct("<4Q")
CLEAR, VENDOR, CPUID, MSR, WIDTH, COUNT = range(6)

INTEL, AMD = 0, 2
"""X86_VENDOR_INTEL, X86_VENDOR_AMD (Linux, arch/x86/include/asm/processor.h)."""

FIXED_SELECTOR = 0xF1000000
FREE_SELECTOR = 0xF2000000
"""By which counts are found that no event selects; fakepmu.c has the same."""
FULL_WRITE = 1 << 13
SMI_COUNT = 0x34
CLOCKS = (abi.MSR_APERF, abi.MSR_MPERF)
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
    prog_mask: int = 0
    """The counters that leaf 23H has, where it has them; `programmable` is what leaf 0AH says then."""
    fixed_mask: int = 0
    tsx_abort: int | None = None
    """What TSX_FORCE_ABORT holds, where there is one."""
    smi_step: int = 0
    """By how much each read makes the count of system management interrupts larger."""
    clock_steps: tuple[int, int] | None = None
    """By how much each read makes APERF and MPERF larger, where they are shown."""

    @property
    def is_new(self) -> bool:
        """Whether its counters are at the addresses of version 6."""
        return self.vendor == INTEL and self.version >= 6

    @property
    def numbers(self) -> list[int]:
        """The numbers of the programmable counters."""
        mask = self.prog_mask or (1 << self.programmable) - 1
        return [number for number in range(32) if mask >> number & 1]

    @property
    def fixed_numbers(self) -> list[int]:
        """The numbers of the fixed counters."""
        mask = self.fixed_mask or (1 << self.fixed) - 1
        return [number for number in range(16) if mask >> number & 1]

    def selector(self, number: int) -> int:
        """Return the MSR that selects the event of a counter."""
        if self.vendor == AMD:
            return 0xC0010200 + 2 * number
        return 0x1901 + 4 * number if self.is_new else 0x186 + number

    def counter(self, number: int) -> int:
        """Return the MSR of a programmable counter."""
        if self.vendor == AMD:
            return 0xC0010201 + 2 * number
        return 0x1900 + 4 * number if self.is_new else 0xC1 + number

    def writable_counter(self, number: int) -> int:
        """Return the MSR through which a counter is written in full width."""
        return 0x4C1 + number if self.has_aliases else self.counter(number)

    def fixed_counter(self, number: int) -> int:
        """Return the MSR of a fixed counter."""
        return 0x1980 + 4 * number if self.is_new else 0x309 + number

    @property
    def has_aliases(self) -> bool:
        """Whether programmable counters are written by other MSRs than they are read."""
        return self.full_write and self.vendor == INTEL and not self.is_new

    @property
    def selectors(self) -> list[int]:
        """The MSRs that select events."""
        return [self.selector(number) for number in self.numbers]

    @property
    def counters(self) -> list[int]:
        """The MSRs of the programmable counters."""
        return [self.counter(number) for number in self.numbers]

    @property
    def writable_counters(self) -> list[int]:
        """The MSRs through which counters are written in full width."""
        return [self.writable_counter(number) for number in self.numbers]

    @property
    def fixed_counters(self) -> list[int]:
        """The MSRs of the fixed counters."""
        return [self.fixed_counter(number) for number in self.fixed_numbers]

    @property
    def global_control(self) -> int | None:
        """The MSR that starts and stops all counters."""
        return (0xC0000301 if self.vendor == AMD else 0x38F) if self.version >= 2 else None

    @property
    def cleared(self) -> dict[int, int]:
        """What the module clears while code runs: SPEC_CTRL with IBRS; on Intel's newer cores XFD with tiles."""
        return {0x48: 1, 0x1C4: 1 << 18} if self.version >= 5 else {0x48: 1}

    def initial(self) -> dict[int, int]:
        """Return what is in the registers before: a value of its own in each, to be found again afterwards."""
        enabled = 0 if self.is_new else 1 << 22
        registers = {msr: 0x1300C0 + enabled + i for i, msr in enumerate(self.selectors)}
        registers |= {msr: 0x123456789A00 + i for i, msr in enumerate(self.counters)}
        registers |= {msr: 0x23456789AB00 + i for i, msr in enumerate(self.fixed_counters)}
        if self.fixed:
            registers[0x38D] = 0 if self.is_new else 0x0B0
        if self.tsx_abort is not None:
            registers[0x10F] = self.tsx_abort
        registers |= self.cleared
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
            extended = (2 if self.prog_mask else 0) << 32 | (1 if self.extended_umask else 0)
            rows += [(CPUID, 0x23, extended, 0), (CPUID, 0x1A, 0, 0)]
            rows += [(CPUID, 1 << 32 | 0x23, self.prog_mask << 32 | self.fixed_mask, 0)]
            rows += [(CPUID, 0x7, 0, 0 if self.tsx_abort is None else 1 << 13)]
            rows += [(MSR, 0x345, FULL_WRITE if self.full_write else 0, 0), (MSR, SMI_COUNT, 7, self.smi_step)]
            if self.has_aliases:
                rows += [(MSR, msr, 0, 0) for msr in self.writable_counters]
        else:
            rows += [(CPUID, 0x80000000, 0x80000022 << 32, 0), (CPUID, 0x80000001, 0, 1 << 55)]
            rows += [(CPUID, 0x80000022, (self.version == 2) << 32 | self.programmable, 0)]
            rows += [(CPUID, 0x80000008, 0, 0), (CPUID, 0x0, 0x10 << 32, 0)]
        rows += [(CPUID, 0x6, 0, 0 if self.clock_steps is None else 1 << 32)]
        if self.clock_steps:
            rows += [(MSR, msr, 0, step) for msr, step in zip(CLOCKS, self.clock_steps, strict=True)]
        return b"".join(RECORD.pack(*row) for row in rows)


def register_records(values: Mapping[int, int]) -> bytes:
    """Return what /dev/fakepmu is written for registers beside a PMU's own."""
    return b"".join(RECORD.pack(MSR, msr, value, 0) for msr, value in values.items())


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
class RegisterAccess:
    """One access to a register that the module made; `unknown` ones failed."""

    msr: int
    value: int
    is_write: bool
    unknown: bool


def accesses(data: bytes) -> list[RegisterAccess]:
    """Return what /dev/fakepmu reads."""
    return [
        RegisterAccess(msr, value, bool(write), bool(unknown))
        for msr, value, write, unknown in ACCESS.iter_unpack(data)
    ]
