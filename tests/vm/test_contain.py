"""Code that goes wrong costs its own job: what happened is reported, the next job runs, the kernel is not disturbed."""

import os
import re
from pathlib import Path

import pytest

from tests.vm.conftest import kernel_or_skip
from tests.vm.machines import kernels
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import Machine, boot
from tests.vm.machines.programs import program

pytestmark = pytest.mark.vm

ROUNDS = int(os.environ.get("UOPSCOPE_VM_ROUNDS", "3"))
"""How often every kind runs in each machine; 20 for the long version."""
ENDLESS = 9
KINDS = 102
INTERRUPTS_OFF, MASK_LVT, UNGUARDED, CONTIGUOUS = 0, 2, 4, 1


def run(machine: Machine, module: Path, commands: str) -> list[str]:
    try:
        files = {"/uopscope.ko": module, "/bin/contain": program("contain", "blobs.S")}
        output = boot(machine, files, f"insmod /uopscope.ko\n{commands}\n")
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.ended, output.everything
    assert output.complaints == "", output.everything
    return output.lines


def check(lines: list[str], least_kinds: int, rounds: int) -> None:
    summaries = [
        match for line in lines if (match := re.match(r"contain: (\d+) kinds, (\d+) runs, (\d+) failures", line))
    ]
    bad = [line for line in lines if re.match(r"\w+ +\d+/\d+", line) and f" {rounds}/{rounds}" not in line]
    assert bad == []
    assert summaries
    for summary in summaries:
        assert int(summary[1]) >= least_kinds
        assert int(summary[2]) == int(summary[1]) * rounds
        assert int(summary[3]) == 0


PREEMPTIBLE = "preempt=full"
"""Debian's kernels decide at their start whether code of the kernel is preempted; else they do it at few places."""
PREEMPTED = "Dynamic Preempt: full"
MACHINES = {
    "one CPU": (1, "pti=on", "max"),
    "four CPUs, preemptible": (4, f"pti=on {PREEMPTIBLE}", "max"),
    "without mitigations": (2, "mitigations=off", "Haswell"),
    "with the default mitigations": (2, "", "Skylake-Client-v3,-hle,-rtm"),
    "without AVX": (2, "", "Nehalem"),
    "AMD": (2, "", "EPYC-Rome"),
}
"""Number of CPUs, parameters of the kernel, model of the CPU."""


@pytest.mark.parametrize("name", MACHINES)
def test_every_kind_of_bad_code_is_contained(kernel: KernelImage, module: Path, name: str) -> None:
    cpus, parameters, model = MACHINES[name]
    flags = UNGUARDED if cpus == 1 else INTERRUPTS_OFF
    kinds = KINDS - (ENDLESS if cpus == 1 else 0)
    script = f'dmesg | grep "Dynamic Preempt"; contain {cpus - 1} {ROUNDS} {flags}'
    lines = run(Machine(kernel, cpus, parameters, model=model), module, script)
    assert any(PREEMPTED in line for line in lines) == (PREEMPTIBLE in parameters)
    check(lines, kinds, ROUNDS)


def test_every_kind_of_bad_code_is_contained_on_the_usual_kernel(one_kernel: KernelImage) -> None:
    machine = Machine(one_kernel, 2, "pti=off")
    lines = run(machine, kernels.module(one_kernel), f"contain 1 {ROUNDS} {INTERRUPTS_OFF}")
    check(lines, KINDS, ROUNDS)


def test_every_kind_of_bad_code_is_contained_on_a_realtime_kernel() -> None:
    target = kernel_or_skip("newest-rt")
    lines = run(Machine(target, 2), kernels.module(target), f"uname -v; contain 1 {ROUNDS} {INTERRUPTS_OFF}")
    assert "PREEMPT_RT" in lines[0]
    check(lines, KINDS, ROUNDS)


def test_bad_code_is_contained_with_interrupts_on_and_without_nmis(kernel: KernelImage, module: Path) -> None:
    """With interrupts on: what does not destroy the stack. Without effect of NMIs: INT3 ends loops.

    Whichever exception the half-written code raises, it is a time-out, and the next job runs.
    """
    script = f"""
    contain 0 3 {MASK_LVT}; contain 1 3 {MASK_LVT | CONTIGUOUS}
    rmmod uopscope; insmod /uopscope.ko use_nmi=0
    contain 3 3 {INTERRUPTS_OFF} loop any
    """
    lines = run(Machine(kernel, 4), module, script)
    check(lines, 6, 3)
    *masked, loops = (int(match[1]) for line in lines if (match := re.match(r"contain: (\d+) kinds", line)))
    assert len(masked) == 2
    assert min(masked) >= 60
    assert loops < min(masked)


def test_without_a_local_apic_there_is_one_cpu_and_no_vector_table_to_mask(kernel: KernelImage, module: Path) -> None:
    """What needs an APIC is refused (the other policy, a second CPU that could end loops); the rest runs if forced."""
    script = f"""
    dmesg | grep -ci "local apic disabled"; grep -c ^processor /proc/cpuinfo
    contain 0 1 {UNGUARDED | MASK_LVT} good_stack 2>&1; contain 0 1 {INTERRUPTS_OFF} good_stack 2>&1
    contain 0 1 {UNGUARDED}
    """
    lines = run(Machine(kernel, 2, "nolapic"), module, script)
    assert lines[1] == "1", lines
    assert [line for line in lines if line.startswith("batch")] == ["batch: Operation not supported"] * 4
    kinds = KINDS - ENDLESS
    assert re.match(f"contain: {kinds} kinds, {kinds} runs, 0 failures", lines[-1] or lines[-2]), lines


STUFFING = "retbleed=stuff spectre_v2=retpoline"
"""Returns count the depth of calls in memory that GS points to; the kernel does so on Skylake only."""


@pytest.mark.parametrize("kernel_name", ["6.12", "newest"])
def test_every_kind_is_contained_where_returns_use_gs(kernel_name: str) -> None:
    """Linux 6.1 has no call-depth tracking; with it, Linux 7.3 starts no second CPU under QEMU 7.2."""
    target = kernel_or_skip(kernel_name)
    machine = Machine(target, 1, STUFFING, model="Skylake-Client-v3,-hle,-rtm")
    script = f"cat /sys/devices/system/cpu/vulnerabilities/retbleed; contain 0 {ROUNDS} {UNGUARDED}"
    lines = run(machine, kernels.module(target), script)
    assert any("Stuffing" in line for line in lines), lines
    check(lines, KINDS - ENDLESS, ROUNDS)
