"""The module's interface, a mirror of kmod/uopscope_uapi.h; a test compiles the header and compares every number.

Names are those of the header without the prefix UOPS_; structures are the header's.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum, IntFlag

ABI_VERSION = 5

CODE_BYTES = 0x100000
AREA_BYTES = 0x100000
AREA_CLEAN = 0x2000
R14_STEP = 0x10000
MAX_R14_BYTES = 0x40000000
MAX_JOBS = 65536
MAX_SETS = 4096
MAX_COUNTERS = 16
MAX_WRITES = 64
MAX_PAGES = 8192
MAX_WARM_UPS = 1000
MAX_REPETITIONS = 10000
MAX_ITERATIONS = 1000000000
MIN_TIME_NS = 1000000
MAX_TIME_NS = 2000000000
MIN_DELAY_NS = 1000
MAX_DELAY_NS = 1000000000

CTX_AREA_R14 = 0x040
CTX_AREA_RSI = 0x048
CTX_AREA_RDI = 0x050
CTX_AREA_RBP = 0x058
CTX_AREA_RSP = 0x060
CTX_ITERATIONS = 0x068
CTX_NUM_COUNTERS = 0x070
CTX_INDEX = 0x080
CTX_START = 0x100
CTX_END = 0x180
CTX_PAGE = 0x230
CTX_VALUE = 0x238
CTX_ONCE = 0x240

STAGE = 0x500000000000
FIRST_ADDRESS = 0x10000
END_ADDRESS = 0x800000000000

COUNTER_TSC = 0
COUNTER_PROG = 1
COUNTER_FIXED = 2
COUNTER_MSR = 3

MSR_MPERF = 0xE7
MSR_APERF = 0xE8
MSR_IRPERF = 0xC00000E9

PMU_NONE = 0
PMU_INTEL = 1
PMU_AMD = 2

NO_CPU = 0xFFFFFFFF
NO_OFFSET = 0xFFFFFFFFFFFFFFFF
BATCH_FLAGS = 15
JOB_FLAGS = 7
INTERRUPT_SAMPLES = 2


class Feature(IntFlag):
    """What the CPU and the module can do (`uops_info.features`)."""

    APERFMPERF = 0x1
    FRED = 0x2
    HYPERVISOR = 0x4
    FULL_WRITE = 0x8
    IRPERF = 0x10
    DEBUG = 0x20
    APIC = 0x40
    SMI_COUNT = 0x80
    XFD = 0x100
    SPEC_CTRL = 0x200
    TSX_ABORT = 0x400


class JobStatus(IntEnum):
    """What became of a job (`uops_result.status`)."""

    NOT_RUN = 0
    OK = 1
    FAULT = 2
    TIME_OUT = 3
    REFUSED = 4
    STATE = 5


class Changed(IntFlag):
    """What had to be put back after a blob (`uops_result.changed`)."""

    FLAGS = 0x1
    CONTROL = 0x2
    DEBUG = 0x4
    SEGMENTS = 0x8
    TABLES = 0x10
    MSRS = 0x20
    STACK = 0x40
    IF = 0x80


class BatchFlag(IntFlag):
    """Options of a batch (`uops_batch.flags`)."""

    CONTIGUOUS = 0x1
    MASK_LVT = 0x2
    UNGUARDED = 0x4
    PARK = 0x8


class JobFlag(IntFlag):
    """Options of a job (`uops_job.flags`)."""

    ON_DEMAND = 0x1
    KEEP_PAGES = 0x2
    INTERRUPT = 0x4


class uops_info(ctypes.Structure):  # noqa: N801 - named as in the header
    """What the module says of itself and of the CPU that it is asked on."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("abi_version", ctypes.c_uint32),
        ("features", ctypes.c_uint64),
        ("cpu", ctypes.c_uint32),
        ("online_cpus", ctypes.c_uint32),
        ("family", ctypes.c_uint32),
        ("model", ctypes.c_uint32),
        ("stepping", ctypes.c_uint32),
        ("microcode", ctypes.c_uint32),
        ("pmu_kind", ctypes.c_uint32),
        ("pmu_version", ctypes.c_uint32),
        ("prog_mask", ctypes.c_uint32),
        ("fixed_mask", ctypes.c_uint32),
        ("width_prog", ctypes.c_uint32),
        ("width_fixed", ctypes.c_uint32),
        ("tsc_khz", ctypes.c_uint32),
        ("core_type", ctypes.c_uint32),
        ("config_mask", ctypes.c_uint64),
        ("guard_cpu", ctypes.c_uint32),
        ("reserved0", ctypes.c_uint32),
        ("reserved", ctypes.c_uint64 * 3),
    )


class uops_counter(ctypes.Structure):  # noqa: N801 - named as in the header
    """One counter of a set: what to program."""

    _fields_ = (("kind", ctypes.c_uint32), ("index", ctypes.c_uint32), ("config", ctypes.c_uint64))


class uops_write(ctypes.Structure):  # noqa: N801 - named as in the header
    """One register that a set writes while it counts."""

    _fields_ = (("msr", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("value", ctypes.c_uint64))


class uops_counter_set(ctypes.Structure):  # noqa: N801 - named as in the header
    """The counters of a job."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("num_counters", ctypes.c_uint32),
        ("counters", uops_counter * MAX_COUNTERS),
        ("num_writes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("writes", uops_write * MAX_WRITES),
    )


class uops_job(ctypes.Structure):  # noqa: N801 - named as in the header
    """One blob, how often it is run, and where its samples go."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("set", ctypes.c_uint32),
        ("code_offset", ctypes.c_uint32),
        ("code_bytes", ctypes.c_uint32),
        ("warm_ups", ctypes.c_uint32),
        ("repetitions", ctypes.c_uint32),
        ("iterations", ctypes.c_uint64),
        ("time_limit_ns", ctypes.c_uint64),
        ("sample_offset", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("delay_ns", ctypes.c_uint64),
    )


class uops_result(ctypes.Structure):  # noqa: N801 - named as in the header
    """What became of a job."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("error", ctypes.c_int32),
        ("vector", ctypes.c_uint32),
        ("error_code", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("repetitions", ctypes.c_uint32),
        ("changed", ctypes.c_uint32),
        ("elapsed_ns", ctypes.c_uint64),
        ("blob_ns", ctypes.c_uint64),
        ("max_quiet_ns", ctypes.c_uint64),
        ("smis", ctypes.c_uint64),
        ("aperf", ctypes.c_uint64 * 2),
        ("mperf", ctypes.c_uint64 * 2),
        ("pages", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64),
    )


class uops_batch(ctypes.Structure):  # noqa: N801 - named as in the header
    """A batch; `code` and what follows it are addresses."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("code", ctypes.c_uint64),
        ("code_bytes", ctypes.c_uint64),
        ("sets", ctypes.c_uint64),
        ("jobs", ctypes.c_uint64),
        ("results", ctypes.c_uint64),
        ("samples", ctypes.c_uint64),
        ("num_samples", ctypes.c_uint64),
        ("num_sets", ctypes.c_uint32),
        ("num_jobs", ctypes.c_uint32),
        ("jobs_done", ctypes.c_uint32),
        ("reserved0", ctypes.c_uint32),
        ("r14_bytes", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 3),
    )


def _iowr(number: int, structure: type[ctypes.Structure]) -> int:
    """Return an ioctl's number: read and write, the structure's size, type 'u' (asm-generic/ioctl.h)."""
    return 3 << 30 | ctypes.sizeof(structure) << 16 | ord("u") << 8 | number


IOC_INFO = _iowr(0xC0, uops_info)
IOC_BATCH = _iowr(0xC1, uops_batch)

EXCEPTIONS = {
    0: "#DE divide error",
    1: "#DB debug exception",
    2: "NMI",
    3: "#BP breakpoint",
    4: "#OF overflow",
    5: "#BR bound range",
    6: "#UD invalid opcode",
    7: "#NM device not available",
    10: "#TS invalid TSS",
    11: "#NP segment not present",
    12: "#SS stack fault",
    13: "#GP general protection",
    14: "#PF page fault",
    16: "#MF x87 error",
    17: "#AC alignment check",
    19: "#XM SIMD error",
    21: "#CP control protection",
}
"""Intel SDM volume 3, table 6-1."""
