"""Checks of this machine: available backends, missing requirements, sources of noise.

Every check reads a file or two of Linux. It returns a finding, a grade, and advice if there is something to do. All
paths are below a root that tests replace. Sources: Documentation/admin-guide/sysctl/kernel.rst (nmi_watchdog,
perf_event_paranoid), Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/pm/cpufreq.rst and
intel_pstate.rst, lockdown in security/lockdown (Linux 6.12); the SecureBoot variable in UEFI 2.10, section 3.3.
"""

from __future__ import annotations

import os
import platform
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from runner.backend import BackendError
from runner.backends.registry import backends
from runner.host import cpu as cpus
from runner.host.conditions import vulnerabilities
from runner.host.kmod.device import lkrg_is_loaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.backend import BackendInfo

SMI_COUNT = 0x34
MANY_SMIS = 1000
"""More than what firmware needs for the start alone, a few dozen to some hundred."""
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


class Grade(StrEnum):
    """How good a finding is."""

    GOOD = "good"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; `advice` says what to do ("" if nothing)."""

    level: Grade
    subject: str
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class BackendState:
    """A backend, and what it can do here, or why not."""

    name: str
    summary: str
    info: BackendInfo | None
    problem: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class HostMachine:
    """A CPU and the root of the files that describe it."""

    cpu: cpus.Cpu
    root: Path = Path("/")

    def read(self, path: str) -> str | None:
        """Return a file's text without surrounding blanks, or None if it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def cpu_file(self, name: str) -> str | None:
        """Return the text of a file about this CPU."""
        return self.read(f"sys/devices/system/cpu/cpu{self.cpu.number}/{name}")


def backend_states(cpu: int | None = None, architecture: str = "SKL") -> list[BackendState]:
    """Ask every backend what it can do here; simulated ones are asked about that architecture."""
    found = []
    for entry in backends().values():
        simulated = entry.preference is None
        try:
            with closing(entry.create(None if simulated else cpu, architecture if simulated else None)) as backend:
                info = backend.info()
            found.append(BackendState(entry.name, entry.summary, info))
        except BackendError as error:
            found.append(BackendState(entry.name, entry.summary, None, error.message, error.hint))
    return found


def findings(machine: HostMachine) -> list[Finding]:
    """Run every check that needs no measurement."""
    return [finding for check in CHECKS if (finding := check(machine))]


def _microarchitecture(machine: HostMachine) -> Finding:
    cpu = machine.cpu
    name = f"{cpu.architecture}: {cpu.model_name} ({cpu.signature}), microcode {cpu.microcode}"
    if cpu.architecture == cpus.UNKNOWN:
        return Finding(Grade.BAD, "CPU", name, "no file in runner/uarch/ knows it: counters cannot be programmed")
    return Finding(Grade.GOOD, "CPU", name)


def _hypervisor(machine: HostMachine) -> Finding:
    if machine.cpu.in_virtual_machine:
        advice = "the host may share the core and hide the PMU: for ports and throughput, measure on bare metal"
        return Finding(Grade.BAD, "hypervisor", "this is a virtual machine", advice)
    return Finding(Grade.GOOD, "hypervisor", "none")


def _pmu(machine: HostMachine) -> Finding:
    devices = machine.root / "sys/bus/event_source/devices"
    names = [name for name in ("cpu", "cpu_core", "cpu_atom") if (devices / name).exists()]
    if names:
        return Finding(Grade.GOOD, "PMU", f"the kernel has one ({', '.join(names)})")
    return Finding(Grade.BAD, "PMU", "the kernel has none", "no µop or port counts here; only tsc and sim can be used")


def _perf_paranoid(machine: HostMachine) -> Finding | None:
    value = machine.read("proc/sys/kernel/perf_event_paranoid")
    if value is None:
        return Finding(Grade.NOTE, "perf events", "this kernel is built without them")
    if int(value) > 2:
        return Finding(Grade.BAD, "perf events", f"paranoid level {value}", "sudo sysctl kernel.perf_event_paranoid=2")
    return Finding(Grade.GOOD, "perf events", f"paranoid level {value}: user code can be counted")


def _nmi_watchdog(machine: HostMachine) -> Finding | None:
    if machine.read("proc/sys/kernel/nmi_watchdog") == "1":
        advice = "sudo sysctl kernel.nmi_watchdog=0 (the kernel module refuses to measure while it has a counter)"
        return Finding(Grade.BAD, "NMI watchdog", "on: it owns a counter", advice)
    return Finding(Grade.GOOD, "NMI watchdog", "off")


def _core_kind(machine: HostMachine) -> Finding | None:
    """Say which kind of core of a hybrid CPU this is."""
    kinds = {kind: machine.read(f"sys/bus/event_source/devices/cpu_{kind}/cpus") for kind in ("core", "atom")}
    if not all(kinds.values()):
        return None
    found = "; ".join(f"{name} {kinds[kind]}" for kind, name in (("core", "P-cores: CPU"), ("atom", "E-cores: CPU")))
    return Finding(Grade.GOOD, "hybrid", f"{found}; --cpu N measures one of the other kind")


def _mitigations(machine: HostMachine) -> Finding | None:
    """Say which mitigations are in force: some change what code costs in ring 0."""
    states = vulnerabilities(machine.root)
    if not states:
        return None
    active = [name for name, state in states.items() if state.startswith("Mitigation")]
    if not active:
        return Finding(Grade.GOOD, "mitigations", "none is in force")
    advice = (
        "the kernel module clears SPEC_CTRL around runs; gathers may still be slower (gather_data_sampling): "
        "boot with mitigations=off to compare"
    )
    return Finding(Grade.NOTE, "mitigations", f"in force: {', '.join(active)}", advice)


def _lkrg(machine: HostMachine) -> Finding | None:
    if lkrg_is_loaded(machine.root):
        advice = "sudo rmmod lkrg: it would treat the kernel module as an attack, so the module is not used"
        return Finding(Grade.BAD, "LKRG", "loaded", advice)
    return None


def _fred(machine: HostMachine) -> Finding | None:
    """With FRED exceptions do not go through the IDT, on which containment stands."""
    if "fred" not in machine.cpu.flags:
        return None
    advice = "boot with fred=off for the kernel module, which refuses otherwise"
    return Finding(Grade.BAD, "FRED", "the kernel uses it", advice)


def _firmware_interrupts(machine: HostMachine) -> Finding | None:
    """Read how many system management interrupts there were, which only root can (SDM volume 4, MSR_SMI_COUNT)."""
    try:
        with (machine.root / f"dev/cpu/{machine.cpu.number}/msr").open("rb") as file:
            file.seek(SMI_COUNT)
            count = int.from_bytes(file.read(8), "little")
    except OSError:
        return None
    if count > MANY_SMIS:
        advice = "look for legacy USB emulation and power monitoring in the firmware's settings; jobs hit are run again"
        return Finding(Grade.NOTE, "SMIs", f"{count} since the start", advice)
    return Finding(Grade.GOOD, "SMIs", f"{count} since the start")


def _smt(machine: HostMachine) -> Finding:
    siblings = machine.cpu_file("topology/thread_siblings_list")
    others = sorted(cpus.numbers_of(siblings or "") - {machine.cpu.number})
    if not others:
        hidden = machine.cpu.in_virtual_machine
        found = "no sibling is visible (a host may hide one)" if hidden else "CPU has its core for itself"
        return Finding(Grade.NOTE if hidden else Grade.GOOD, "SMT", found)
    off = "; ".join(f"echo 0 | sudo tee /sys/devices/system/cpu/cpu{number}/online" for number in others)
    names = ", ".join(map(str, others))
    return Finding(Grade.BAD, "SMT", f"CPU {machine.cpu.number} shares its core with CPU {names}", off)


def _governor(machine: HostMachine) -> Finding:
    governor = machine.cpu_file("cpufreq/scaling_governor")
    if governor is None:
        return Finding(Grade.NOTE, "frequency", "not controlled by this kernel")
    if governor != "performance":
        advice = "sudo cpupower frequency-set -g performance (matters to tsc only)"
        return Finding(Grade.BAD, "frequency", f"governor {governor}", advice)
    return Finding(Grade.GOOD, "frequency", "governor performance")


def _turbo(machine: HostMachine) -> Finding | None:
    if machine.read("sys/devices/system/cpu/intel_pstate/no_turbo") == "0":
        advice = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo (matters to tsc only)"
        return Finding(Grade.NOTE, "turbo", "on", advice)
    if machine.read("sys/devices/system/cpu/cpufreq/boost") == "1":
        advice = "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost (matters to tsc only)"
        return Finding(Grade.NOTE, "turbo", "on", advice)
    return None


def _tsc(machine: HostMachine) -> Finding:
    missing = sorted({"constant_tsc", "nonstop_tsc"} - machine.cpu.flags)
    if missing:
        advice = "ticks are no time on this CPU: do not use the tsc backend"
        return Finding(Grade.BAD, "TSC", f"without {', '.join(missing)}", advice)
    source = machine.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source not in (None, "tsc", "kvm-clock", "hyperv_clocksource_tsc_page"):
        return Finding(
            Grade.NOTE, "TSC", f"invariant, but the kernel keeps time by {source}", "see dmesg for the reason"
        )
    return Finding(Grade.GOOD, "TSC", "invariant")


def _load(machine: HostMachine) -> Finding | None:
    text = machine.read("proc/loadavg")
    if text is None:
        return None
    load = float(text.split()[0])
    count = max(1, len(cpus.numbers_of(machine.read("sys/devices/system/cpu/online") or "0")))
    if load > 0.2 * count:
        advice = "stop other programs: they disturb the measurements of ordinary users"
        return Finding(Grade.BAD, "load", f"{load:.2f} on {count} CPUs", advice)
    return Finding(Grade.GOOD, "load", f"{load:.2f} on {count} CPUs")


def _secure_boot(machine: HostMachine) -> Finding | None:
    try:
        enabled = (machine.root / SECURE_BOOT).read_bytes()[-1:] == b"\x01"
    except OSError:
        return None
    if enabled:
        advice = "sign the kernel module with a key that you enrol (docs/kmod.md says how), or switch Secure Boot off"
        return Finding(Grade.BAD, "Secure Boot", "on", advice)
    return Finding(Grade.GOOD, "Secure Boot", "off")


def _lockdown(machine: HostMachine) -> Finding | None:
    text = machine.read("sys/kernel/security/lockdown")
    if text is None or "[none]" in text:
        return None
    mode = text.partition("[")[2].partition("]")[0]
    advice = "boot without lockdown= and with Secure Boot off: it refuses unsigned modules and MSR access"
    return Finding(Grade.BAD, "lockdown", mode, advice)


def _module_build(machine: HostMachine) -> Finding:
    release = platform.release()
    if (machine.root / "lib/modules" / release / "build").exists():
        return Finding(Grade.GOOD, "kernel headers", f"for {release}")
    advice = f"install linux-headers-{release} (Debian, Ubuntu) or kernel-devel (Fedora) to build the module"
    return Finding(Grade.NOTE, "kernel headers", f"none for {release}", advice)


def _privileges(_: HostMachine) -> Finding:
    if os.geteuid() == 0:
        return Finding(Grade.GOOD, "privileges", "root")
    return Finding(Grade.NOTE, "privileges", "ordinary user", "the kernel module needs root: sudo uopscope ...")


def _cpu_count(machine: HostMachine) -> Finding | None:
    if len(cpus.numbers_of(machine.read("sys/devices/system/cpu/online") or "0-1")) > 1:
        return None
    return Finding(Grade.NOTE, "CPUs", "one", "the kernel module needs a second one to end endless loops")


CHECKS: tuple[Callable[[HostMachine], Finding | None], ...] = (
    _microarchitecture,
    _core_kind,
    _nmi_watchdog,
    _hypervisor,
    _pmu,
    _perf_paranoid,
    _lkrg,
    _fred,
    _mitigations,
    _firmware_interrupts,
    _smt,
    _governor,
    _turbo,
    _tsc,
    _load,
    _cpu_count,
    _privileges,
    _module_build,
    _secure_boot,
    _lockdown,
)
