"""One core of each PMU generation, with the PMU that its CPUID describes (4 counters: hyper-threading is on).

Sources: Intel SDM volume 3, 20.2 to 20.3 (architectural versions by generation, counters per thread); Intel
Architecture Instruction Set Extensions Reference, leaf 23H, for Lion Cove; AMD PPR for family 19h model 11h.
"""

from tests.vm.pmu.fakepmu import AMD, INTEL, Pmu

CORES = {
    "NHM": Pmu(INTEL, version=3, programmable=4, fixed=3, full_write=False),
    "HSW": Pmu(INTEL, version=3, programmable=4, fixed=3),
    "SKL": Pmu(INTEL, version=4, programmable=4, fixed=3, tsx_abort=2),
    "ICL": Pmu(INTEL, version=5, programmable=8, fixed=4, smi_step=1, clock_steps=(300_000, 200_000)),
    "ADL-P": Pmu(INTEL, version=5, programmable=8, fixed=4),
    "ADL-E": Pmu(INTEL, version=5, programmable=6, fixed=3),
    "LNL-P": Pmu(INTEL, version=6, programmable=8, fixed=4, extended_umask=True, prog_mask=0x3FF, fixed_mask=0xF),
    "LNL-E": Pmu(INTEL, version=6, programmable=8, fixed=3, extended_umask=True, prog_mask=0xFF, fixed_mask=0x77),
    "ZEN2": Pmu(AMD, version=1, programmable=6),
    "ZEN4": Pmu(AMD, version=2, programmable=6),
}

UNCORE_COUNTER = 0x706
REGISTERS = {0x1A6: 5, 0x700: 6, UNCORE_COUNTER: 7, 0xE01: 8}
"""Registers beside the PMU's own, with what is in them: off-core responses, a C-box's selector and counter, and the
uncore's global control on Skylake."""

REGISTER_SETS: tuple[tuple[tuple[tuple[int, int], ...], bool], ...] = (
    (((0x1A6, 0x10001),), False),
    ((), False),
    (((0xE01, 0x20000000), (0x700, 0x408F34)), True),
    (((0xE01, 0x20000000), (0x700, 0x408F34)), True),
    (((0x770, 1),), False),
    (((0x700, 9), (0x701, 9)), False),
    (((0x700, 10), (0x700, 11)), False),
)
"""What one job after another writes, and whether it reads the counter: 0x770 is nobody's to write, 0x701 is missing."""
