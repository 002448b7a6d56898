"""Bad code on a CPU with IBT and PCID, whose exceptions and MSRs are more like a real one's than those of QEMU."""

import os
import re
from pathlib import Path

import pytest

from runner.host.kmod import abi
from tests.vm.conftest import kernel_or_skip
from tests.vm.machines import bochs, kernels
from tests.vm.machines.bochs import BochsMachine
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.programs import program
from tests.vm.on_demand import BLOBS, ENTRY
from tests.vm.test_contain import KINDS, check
from tests.vm.test_on_demand import check_faults, check_pages

pytestmark = pytest.mark.vm

MODELS = os.environ.get("UOPSCOPE_BOCHS_MODELS", "tigerlake").split(",")
"""sapphire_rapids has AMX, but Linux 7.3 does not start there: XSETBV refuses the bits that it sets."""
FEATURES = {"ibt", "pcid", "x2apic", "tsc_deadline_timer", "fsgsbase", "ibrs"}
SCRIPT = """
insmod /uopscope.ko; grep -m1 ^flags /proc/cpuinfo; demand /mnt/*
contain 1 1 0 -breakpoint; contain 1 1 0 only_cr4_reserved
"""
"""Two kinds are left out, which stop Bochs 3.0 for good: `breakpoint` and `only_apic_off` (docs/kmod.md)."""


@pytest.mark.parametrize("model", MODELS)
def test_every_kind_of_bad_code_is_contained(model: str, tmp_path: Path) -> None:
    newest = kernel_or_skip("newest")
    files = {"/uopscope.ko": kernels.module(newest), "/bin/contain": program("contain", "blobs.S")}
    files |= {"/bin/demand": program("demand"), **on_demand_files(tmp_path)}
    try:
        output = bochs.boot(BochsMachine(newest, model), files, SCRIPT)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    flags = re.search(r"^flags\s*: (.*)$", output.text, re.MULTILINE)
    assert flags
    assert set(flags[1].split()) >= FEATURES
    whole, reserved = (match for line in output.lines if (match := re.match(r"contain: (\d+) kinds", line)))
    assert (int(whole[1]), int(reserved[1])) == (KINDS - 1, 1)
    check(output.lines, 1, 1)
    check_on_demand(output.lines)


def on_demand_files(folder: Path) -> dict[str, Path]:
    """Return the blobs of `tests.vm.on_demand` as files, by their places in the guest."""
    files = {}
    for number, (name, code) in enumerate(BLOBS.items()):
        path = folder / f"{number:02}-{name.rpartition(' ')[2]}"
        path.write_bytes(bytes(ENTRY) + bytes.fromhex(code) + b"\xcc")
        files[f"/mnt/{path.name}"] = path
    return files


def check_on_demand(lines: list[str]) -> None:
    """With PCIDs, and exceptions as in the manuals: as under QEMU."""
    names = ("status", "vector", "error_code", "offset", "pages", "changed")
    rows = [line.split()[2:] for line in lines if line.startswith("DEMAND ")]
    assert len(rows) == 3 * len(BLOBS)
    results = [dict(zip(names, map(int, row), strict=True)) for row in rows]
    told = [one | {"status": abi.JobStatus(one["status"]).name, "offset": one["offset"] % 2**64} for one in results]
    blobs = dict(zip(BLOBS, zip(*[iter(told)] * 3, strict=True), strict=True))
    check_pages(blobs)
    check_faults(blobs)
