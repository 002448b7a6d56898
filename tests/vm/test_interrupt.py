"""What comes in the way of a batch: signals, CPUs that go offline, a freezer; and which CPU watches over it."""

import errno
import re
from pathlib import Path

import pytest

from tests.vm.conftest import kernel_or_skip
from tests.vm.machines import kernels
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import Machine, boot
from tests.vm.machines.programs import program
from tests.vm.test_contain import PREEMPTED, PREEMPTIBLE

pytestmark = pytest.mark.vm

AT_MOST_MS = 100
"""The best of three: the host may be busy with something else."""
SCRIPT = """
dmesg | grep "Dynamic Preempt"
for round in 1 2 3; do interrupt 1 many 300; interrupt 1 endless; done
mkdir /tmp/groups; mount -t cgroup2 none /tmp/groups; mkdir /tmp/groups/cold
interrupt 1 slow 1000 &
sleep 0.3; echo $! > /tmp/groups/cold/cgroup.procs; echo 1 > /tmp/groups/cold/cgroup.freeze
sleep 0.5; grep frozen /tmp/groups/cold/cgroup.events; echo 0 > /tmp/groups/cold/cgroup.freeze; wait
interrupt 1 slow 1000 &
sleep 0.3; echo 0 > /sys/devices/system/cpu/cpu0/online || echo 0 > /sys/devices/system/cpu/cpu2/online
echo "ONLINE $(cat /sys/devices/system/cpu/online)"; wait
interrupt 1 slow 3000 &
sleep 0.3; echo 0 > /sys/devices/system/cpu/cpu1/online; echo "ONLINE $(cat /sys/devices/system/cpu/online)"; wait
"""
FORM = re.compile(
    r"interrupt: (\w+) errno (\d+) after (-?\d+) ms, (\d+) of (\d+) done, then errno (\d+), (\d+) bad, (\d+) calls"
)


def output_of(machine: Machine, module: Path, script: str) -> list[str]:
    files = {"/uopscope.ko": module, "/bin/interrupt": program("interrupt"), "/bin/guard": program("guard")}
    try:
        output = boot(machine, files, f"insmod /uopscope.ko\n{script}\n")
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    return output.lines


def test_what_wants_the_cpu_gets_it(kernel: KernelImage, module: Path) -> None:
    """A signal within 100 ms, and the same call goes on; frozen and thawed; other CPUs offline; its own one: EXDEV.

    Where the kernel preempts its own code, the batch too.
    """
    lines = output_of(Machine(kernel, 3, PREEMPTIBLE), module, SCRIPT)
    assert any(PREEMPTED in line for line in lines)
    found = [match.groups() for line in lines if (match := FORM.match(line))]
    signals = [(kind, tuple(map(int, numbers))) for kind, *numbers in found]
    assert [(kind, row[0], row[4], row[5]) for kind, row in signals[:6]] == [
        ("many", errno.EINTR, 0, 0),
        ("endless", errno.EINTR, 0, 0),
    ] * 3
    for kind in ("many", "endless"):
        rows = [row for name, row in signals[:6] if name == kind]
        assert min(row[1] for row in rows) <= AT_MOST_MS, rows
        assert all(row[2] < row[3] for row in rows)
    frozen, other, own = (numbers for _, numbers in signals[6:])
    assert "frozen 1" in lines
    assert (frozen[0], frozen[5], frozen[6]) == (0, 0, 2)
    assert (other[0], other[5], other[6]) == (0, 0, 1)
    assert next(line for line in lines if line.startswith("ONLINE")) in ("ONLINE 0-1", "ONLINE 1-2")
    assert own[0] == errno.EXDEV
    assert 0 < own[2] < own[3]


SLEEP = """
interrupt 1 slow 1500 &
sleep 0.5; echo +8 > /sys/class/rtc/rtc0/wakealarm; echo mem > /sys/power/state; echo "AWAKE $?"
wait; interrupt 1 many 300; dmesg | grep "PM: Waking up"
"""


def test_a_batch_goes_on_after_the_machine_has_slept() -> None:
    """Suspend to RAM in the midst of a batch; the clock's alarm wakes the machine, whose other CPUs come back."""
    target = kernel_or_skip("newest")
    lines = output_of(Machine(target, 3), kernels.module(target), SLEEP)
    assert "AWAKE 0" in lines
    assert any(line.endswith("Waking up from system sleep state S3") for line in lines), lines
    slow, many = ([int(number) for number in match.groups()[1:]] for line in lines if (match := FORM.match(line)))
    assert (slow[0], slow[2], slow[3], slow[5], slow[6]) == (0, 1500, 1500, 0, 2)
    assert (many[0], many[4], many[5]) == (errno.EINTR, 0, 0)


TOPOLOGY = ("-smp", "6,sockets=1,cores=3,threads=2")
ISOLATED = "mitigations=off nohz_full=2-3 isolcpus=nohz,domain,2-3"
GUARDS = """
guard; for cpu in 2 3 4 5; do echo 0 > /sys/devices/system/cpu/cpu$cpu/online; done
guard; echo 0 > /sys/devices/system/cpu/cpu1/online; guard
"""
NO_CPU = 0xFFFFFFFF


def test_the_guard_is_no_sibling_and_on_no_isolated_cpu_if_there_is_another(kernel: KernelImage, module: Path) -> None:
    """Three cores of two threads each, one core isolated; then one core is left, then one thread."""
    machine = Machine(kernel, 6, ISOLATED, model="Haswell", arguments=TOPOLOGY)
    lines = output_of(machine, module, GUARDS)
    found = [(int(words[1]), int(words[3])) for line in lines if (words := line.split())[:1] == ["guard"]]
    assert found == [(0, 4), (1, 4), (2, 0), (3, 0), (4, 0), (5, 0), (0, 1), (1, 0), (0, NO_CPU)]
