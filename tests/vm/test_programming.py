"""What the module writes to each register of the PMU, bit by bit, for one core of every generation."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from runner.host.kmod import abi
from runner.uarch import tables
from tests.nonempty import some
from tests.vm.machines import images
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import Machine, boot
from tests.vm.pmu.cores import CORES
from tests.vm.pmu.fakepmu import AMD, CLOCKS, INTEL, SMI_COUNT, Pmu, RegisterAccess

pytestmark = pytest.mark.vm

PERF_CAPABILITIES, TSX_FORCE_ABORT, XFD = 0x345, 0x10F, 0x1C4
SCRIPT = """
insmod /uopscope.ko leave_rdpmc=1 && insmod /fakepmu.ko && python -m tests.vm.inside.programming
"""


def reports_of(kernel: KernelImage, module: Path, fake: Path) -> dict[str, Any]:
    files = {"/uopscope.ko": module, "/fakepmu.ko": fake / "fakepmu.ko"}
    try:
        machine = Machine(kernel, 2, memory_mib=1024, arguments=images.drives())
        output = boot(machine, files, images.mount_script() + SCRIPT)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.complaints == "", output.everything
    lines = [line.removeprefix("REPORT ") for line in output.lines if line.startswith("REPORT ")]
    assert len(lines) == len(CORES), output.everything
    assert any(line.startswith("HELD the counters are taken") for line in output.lines), output.text
    assert any(line.startswith("FRED the module does not run code here") for line in output.lines), output.text
    assert "AGAIN nothing" in output.lines
    check_other_registers(output.lines)
    return {report["core"]: report for report in map(json.loads, lines)}


def check_other_registers(lines: list[str]) -> None:
    """Written in order where a set says so, put back in the opposite order when another set is programmed."""
    found = json.loads(next(line for line in lines if line.startswith("REGISTERS ")).removeprefix("REGISTERS "))
    ok, not_permitted, missing = ["OK", 0], ["REFUSED", -errno.EPERM], ["REFUSED", -errno.ENODEV]
    assert found["results"] == [ok, ok, ok, ok, not_permitted, missing, ok]
    assert [tuple(each) for each in found["written"]] == [
        *((0x1A6, 0x10001), (0x1A6, 5)),
        *((0xE01, 0x20000000), (0x700, 0x408F34), (0x700, 6), (0xE01, 8)),
        *((0x700, 9), (0x700, 6)),
        *((0x700, 10), (0x700, 11), (0x700, 10), (0x700, 6)),
    ]


def selector(event: tables.Event) -> int:
    """The event select register by the fields of the table's row, for ring 0, enabled (Intel SDM vol. 3, 20.2.1.1)."""
    value = (event.code & 0xFF) + event.umask * 0x100 + (event.code >> 8) * 0x100000000
    value += event.edge * 0x40000 + event.per_core * 0x200000 + event.invert * 0x800000 + event.cmask * 0x1000000
    return value + event.umask_ext * 0x10000000000 + 0x20000 + 0x400000


def accesses(report: dict[str, Any]) -> list[RegisterAccess]:
    return [RegisterAccess(*access) for access in report["accesses"]]


def expected_program(
    pmu: Pmu, uarch: tables.Microarchitecture, run: list[tuple[str, int, int]]
) -> list[tuple[int, int]]:
    """The writes for one run, after everything was stopped."""
    writes, enabled, fixed = [], 0, 0
    for counter, kind, index in run:
        if kind == abi.COUNTER_FIXED:
            assert uarch.event(counter).fixed == index
            writes.append((pmu.fixed_counter(index), 0))
            enabled |= 1 << 32 + index
            fixed |= 1 << 4 * index
        else:
            writes.append((pmu.writable_counter(index), 0))
            writes.append((pmu.selector(index), selector(uarch.event(counter))))
            enabled |= 1 << index
    if fixed:
        writes.append((0x38D, fixed))
    return writes + ([(pmu.global_control, enabled)] if pmu.global_control else [])


def stops(pmu: Pmu) -> list[tuple[int, int]]:
    writes = [(pmu.global_control, 0)] if pmu.global_control else []
    writes += [(msr, 0) for msr in pmu.selectors]
    return writes + ([(0x38D, 0)] if pmu.fixed else [])


def test_what_is_programmed_for_each_generation(kernel: KernelImage, module: Path, fake: Path) -> None:
    reports = reports_of(kernel, module, fake)
    for core in CORES:
        check_that_everything_runs(core, reports)
        check_every_write(core, reports)
        check_what_is_cleared(core, reports)
        check_what_is_told_of_each_job(core, reports)
        check_the_registers_afterwards(core, reports)
        check_that_nothing_else_is_touched(core, reports)


def check_that_everything_runs(core: str, reports: dict[str, Any]) -> None:
    report, pmu = reports[core], CORES[core]
    kind = abi.PMU_AMD if pmu.vendor == AMD else abi.PMU_INTEL
    assert report["info"] == {
        "pmu_kind": kind,
        "pmu_version": pmu.version,
        "prog_mask": sum(1 << number for number in pmu.numbers),
        "fixed_mask": sum(1 << number for number in pmu.fixed_numbers),
    }
    assert set(report["statuses"]) == {"OK"}
    uarch = tables.by_name(core)
    impossible = {e.counter for e in uarch.events if e.per_core and pmu.version >= 3 and not pmu.fixed}
    assert set(report["counters"]) >= set(uarch.counters) - impossible


def check_every_write(core: str, reports: dict[str, Any]) -> None:
    report, pmu, uarch = reports[core], CORES[core], tables.by_name(core)
    writes = [each for each in writes_of(report) if each[0] not in pmu.cleared]
    expected = [] if pmu.tsx_abort is None else [(TSX_FORCE_ABORT, pmu.tsx_abort | 1)]
    for run in report["runs"]:
        expected += stops(pmu) + expected_program(pmu, uarch, run)
    assert writes[: len(expected)] == expected


def writes_of(report: dict[str, Any]) -> list[tuple[int, int]]:
    return [(each.msr, each.value) for each in accesses(report) if each.is_write]


def check_what_is_cleared(core: str, reports: dict[str, Any]) -> None:
    """Before each run the kernel's setting goes, and after it comes back."""
    report, pmu = reports[core], CORES[core]
    for msr, value in some(pmu.cleared.items()):
        found = [written for address, written in writes_of(report) if address == msr]
        assert found == [0, value] * len(report["runs"])


def check_what_is_told_of_each_job(core: str, reports: dict[str, Any]) -> None:
    """System management interrupts: one between the two reads; the clocks: a step in each half."""
    report, pmu = reports[core], CORES[core]
    assert report["smis"] == [pmu.smi_step] * len(report["runs"])
    aperf, mperf = pmu.clock_steps or (0, 0)
    assert report["clocks"] == [[[aperf] * 2, [mperf] * 2]] * len(report["runs"])


def check_the_registers_afterwards(core: str, reports: dict[str, Any]) -> None:
    pmu = CORES[core]
    aliases = dict(zip(pmu.writable_counters, pmu.counters, strict=True))
    last = {aliases.get(each.msr, each.msr): each.value for each in accesses(reports[core]) if each.is_write}
    assert last == pmu.initial()


def check_that_nothing_else_is_touched(core: str, reports: dict[str, Any]) -> None:
    pmu = CORES[core]
    known = {*pmu.initial(), *pmu.writable_counters, PERF_CAPABILITIES, *((SMI_COUNT,) if pmu.vendor == INTEL else ())}
    known |= set(CLOCKS) if pmu.clock_steps else set()
    found = accesses(reports[core])
    assert {each.msr for each in found if not each.unknown} <= known
    assert {(each.msr, each.is_write) for each in found if each.unknown} <= {(XFD, False)}
