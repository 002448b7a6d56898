"""The device under misuse: who may open it, random calls, failing allocations; and that nothing is left behind."""

import errno
import os
import re
from pathlib import Path

import pytest

from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import Machine, MachineOutput, boot
from tests.vm.machines.programs import program

pytestmark = pytest.mark.vm

FUZZ_CALLS = int(os.environ.get("UOPSCOPE_FUZZ_CALLS", "30000"))
LOADS = int(os.environ.get("UOPSCOPE_LOADS", "70"))
SECONDS = 300 + FUZZ_CALLS / 500 + LOADS
CHECKED_MEMORY = "slub_debug=FZPU page_poison=1"

SCRIPT = f"""
mount -t debugfs debugfs /sys/kernel/debug
insmod /allocfail.ko
insmod /uopscope.ko
calls=$(cat /sys/module/allocfail/parameters/calls)
echo "CALLS $calls"
access user
access hold 'access open; rmmod uopscope 2>&1; grep -c ^uopscope /proc/modules'
fuzz {FUZZ_CALLS} 1
held_registers 2
rmmod uopscope
cycle /uopscope.ko {LOADS} $calls
echo "FAILED $(cat /sys/module/allocfail/parameters/failed)"
echo "LEFT $(grep -c uops /proc/vmallocinfo) $(cat /sys/kernel/debug/slab/*/alloc_traces | grep -c 'uops\\|uopscope')"
insmod /uopscope.ko
echo "LOADED $(grep -c uops /proc/vmallocinfo) $(cat /sys/kernel/debug/slab/*/alloc_traces | grep -c 'uops\\|uopscope')"
"""


def run(kernel: KernelImage, module: Path, fake: Path) -> MachineOutput:
    try:
        files = {
            "/uopscope.ko": module,
            "/allocfail.ko": fake / "allocfail.ko",
            "/bin/fuzz": program("fuzz"),
            "/bin/access": program("access"),
            "/bin/cycle": program("cycle"),
            "/bin/held_registers": program("held_registers", "blobs.S", flags=("-mgeneral-regs-only",)),
        }
        output = boot(Machine(kernel, 2, CHECKED_MEMORY), files, SCRIPT, SECONDS)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    return output


def test_misuse_is_refused_and_nothing_is_left_behind(kernel: KernelImage, module: Path, fake: Path) -> None:
    output = run(kernel, module, fake)
    check_access(output)
    check_fuzz(output)
    assert "held_registers: 2 rounds, 0 problems" in output.lines, output.text
    check_perf(output)
    check_loads(output)


def check_access(output: MachineOutput) -> None:
    """EACCES for a user, EPERM without the capability, EBUSY while it is open, and no unloading then."""
    assert "open user: EACCES" in output.lines
    assert "open without-capability: EPERM" in output.lines
    held = output.lines.index("open first: OK")
    assert output.lines[held + 1] == "open root: EBUSY"
    assert "Resource temporarily unavailable" in output.lines[held + 2]
    assert output.lines[held + 3] == "1"


def check_perf(output: MachineOutput) -> None:
    """Events of software count as before; TCG has no PMU, so perf has no hardware events, before and afterwards."""
    nothing = -errno.ENOENT
    expected = f"perf: page faults 100 before, 100 after; instructions {nothing} before, {nothing} after"
    assert expected in output.lines, output.text


def check_fuzz(output: MachineOutput) -> None:
    """Every errno is one of the interface's, and each of the usual ones was seen."""
    assert f"fuzz: {FUZZ_CALLS} calls, 0 bad" in output.lines, output.text
    seen = {int(match[1]) for match in re.finditer(r"^errno (\d+) ", output.text, re.MULTILINE)}
    assert {0, 7, 14, 18, 22, 25} <= seen


def check_loads(output: MachineOutput) -> None:
    """Each failing allocation makes the load fail, and gives everything back; the counters do see what there is."""
    calls = int(next(line for line in output.lines if line.startswith("CALLS ")).split()[1])
    assert calls >= 6
    loads = next(line for line in output.lines if line.startswith("cycle:"))
    assert loads.endswith(", 0 strange")
    failed = int(next(line for line in output.lines if line.startswith("FAILED ")).split()[1])
    assert failed == LOADS - len(range(0, LOADS, calls + 1))
    assert "LEFT 0 0" in output.lines
    loaded = next(line for line in output.lines if line.startswith("LOADED "))
    assert min(map(int, loaded.split()[1:])) > 0
