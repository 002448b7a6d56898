"""The CPU at hand: identity, features, microcode, and the provenance of measurements.

Sources: /proc/cpuinfo (Linux), and CPUID itself for facts that Linux does not show (leaf 1AH: core type and native
model of hybrid CPUs; leaf 7 tells whether a CPU is hybrid; Intel SDM vol. 2A, CPUID).
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from results.model import Provenance
from results.version import version
from runner.backend import BackendError
from runner.host.native.cpuid import cpuid
from runner.uarch import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN = "unknown"
_HYBRID = 1 << 15
PERFORMANCE_CORES = Path("/sys/bus/event_source/devices/cpu_core/cpus")
"""Where Linux lists them (perf's PMU of that core type)."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU of this machine; `flags` are Linux' names of its features."""

    number: int
    identity: tables.CpuIdentity
    model_name: str
    microcode: str
    flags: frozenset[str]

    @property
    def signature(self) -> str:
        """Family-model-stepping in hex, as in perfmon's mapfile ("6-3C-3")."""
        return f"{self.identity.family:X}-{self.identity.model:02X}-{self.identity.stepping:X}"

    @property
    def in_virtual_machine(self) -> bool:
        """Whether a hypervisor says that it is there."""
        return "hypervisor" in self.flags

    @property
    def architecture(self) -> str:
        """The name of its microarchitecture, or "unknown"."""
        found = tables.for_cpu(self.identity)
        return found.name if found else UNKNOWN


def choose(wanted: int | None = None) -> int:
    """Return the number of the CPU to measure on: the wanted one, else the last one allowed.

    On hybrid CPUs that is the last of the performance cores.

    Raises:
        BackendError: this process may not use the wanted one.
    """
    allowed = os.sched_getaffinity(0)
    if wanted is None:
        return max(allowed & _performance_cores() or allowed)
    if wanted not in allowed:
        names = ", ".join(map(str, sorted(allowed)))
        raise BackendError(f"CPU {wanted} is not there or not allowed for this process", hint=f"allowed: {names}")
    return wanted


@functools.cache
def read_cpu(number: int) -> Cpu:
    """Return the identity and features of a logical CPU.

    Raises:
        BackendError: Linux does not list it.
    """
    fields = _cpuinfo(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"), number)
    core_type, native_model = _hybrid_kind(number)
    identity = tables.CpuIdentity(
        vendor=fields.get("vendor_id", UNKNOWN),
        family=int(fields.get("cpu family", 0)),
        model=int(fields.get("model", 0)),
        stepping=int(fields.get("stepping", 0)) if fields.get("stepping", "0").isdigit() else 0,
        core_type=core_type,
        native_model=native_model,
    )
    flags = frozenset(fields.get("flags", "").split())
    return Cpu(number, identity, fields.get("model name", UNKNOWN), fields.get("microcode", UNKNOWN), flags)


def check_architecture(cpu: Cpu, wanted: str | None) -> None:
    """Refuse a CPU of another microarchitecture than the wanted one (None: any will do).

    Raises:
        BackendError: it is another one.
    """
    if wanted and wanted.lower() != cpu.architecture.lower():
        message = f"CPU {cpu.number} is {cpu.architecture} ({cpu.model_name}), not {wanted}"
        from simulator.machines.shipped import names  # noqa: PLC0415 - only for the hint

        simulated = wanted.upper() in names()
        hint = f"; --backend sim --arch {wanted.upper()} simulates one" if simulated else ""
        raise BackendError(message, hint=f"without --arch it is the CPU at hand{hint}")


def provenance(cpu: Cpu, backend: str, options: Mapping[str, str], caveats: tuple[str, ...]) -> Provenance:
    """Return the provenance of what a backend measures on this CPU; its time is the present."""
    return Provenance(
        architecture=cpu.architecture,
        cpu=cpu.model_name,
        cpu_signature=cpu.signature,
        microcode=cpu.microcode,
        kernel=f"{platform.system()} {platform.release()}",
        backend=backend,
        version=version(),
        time=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        options=options,
        caveats=caveats,
    )


def _cpuinfo(text: str, number: int) -> dict[str, str]:
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        if fields.get("processor") == str(number):
            return fields
    raise BackendError(f"/proc/cpuinfo does not list CPU {number}", hint="choose another one with --cpu")


def _performance_cores() -> set[int]:
    """Return the performance cores of a hybrid CPU; empty for others."""
    try:
        return numbers_of(PERFORMANCE_CORES.read_text(encoding="ascii").strip())
    except OSError:
        return set()


def numbers_of(text: str) -> set[int]:
    """Read a list of CPUs as Linux writes it ("0-3,8")."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def siblings(number: int) -> list[int]:
    """Return the other logical CPUs of a CPU's core, as far as Linux knows them."""
    path = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
    try:
        return sorted(numbers_of(path.read_text(encoding="ascii").strip()) - {number})
    except (OSError, ValueError):
        return []


def _hybrid_kind(number: int) -> tuple[int, int]:
    """Return core type and native model of a hybrid CPU's core, (0, 0) for others or where CPUID cannot be run."""
    try:
        if not cpuid(7, 0, number)[3] & _HYBRID:
            return (0, 0)
        eax = cpuid(0x1A, 0, number)[0]
    except OSError:
        return (0, 0)
    return (eax >> 24, eax & 0xFFFFFF)
