"""Settings of a machine that affect measurements, for the provenance of results.

Everything is read from files of Linux, below a root that tests replace; unreadable files are left out. Sources:
Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst,
Documentation/power/powercap/powercap.rst (Linux 6.12); DMTF DSP0134 (SMBIOS 3.7), 6.1.2 and 7.18.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CPUS = "sys/devices/system/cpu"
DMI = "sys/firmware/dmi/tables/DMI"
RAPL = "sys/class/powercap/intel-rapl:0"
MEMORY_DEVICE = 17
"""The type of a structure of SMBIOS that describes a memory module."""
MEMORY_TYPES = {
    0x0F: "SDRAM",
    0x12: "DDR",
    0x13: "DDR2",
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1B: "LPDDR",
    0x1C: "LPDDR2",
    0x1D: "LPDDR3",
    0x1E: "LPDDR4",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}
"""Table 76 of the SMBIOS specification, 7.18.2."""
UNKNOWN_SPEED = (0, 0xFFFF)


def conditions(cpu: int, root: Path = Path("/")) -> dict[str, str]:
    """Return the settings of the machine that concern a CPU, by their names in the provenance."""
    found = {
        "mitigations": "; ".join(f"{name}: {state}" for name, state in vulnerabilities(root).items()),
        "SMT": _read(root, f"{CPUS}/smt/control"),
        "siblings": _read(root, f"{CPUS}/cpu{cpu}/topology/thread_siblings_list"),
        "governor": _read(root, f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor"),
        "frequency limits": _frequencies(root, cpu),
        "frequency": _mhz(_read(root, f"{CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq")),
        "turbo": _turbo(root),
        "power limits": ", ".join(_power_limits(root)),
        "memory modules": memory(root),
    }
    return {name: text for name, text in found.items() if text}


def vulnerabilities(root: Path = Path("/")) -> dict[str, str]:
    """Return what Linux says of each vulnerability of CPUs, and of what it does about it."""
    folder = root / CPUS / "vulnerabilities"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return {name: text for name in names if (text := _read(root, f"{CPUS}/vulnerabilities/{name}"))}


def _read(root: Path, path: str) -> str:
    try:
        return (root / path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _mhz(khz: str) -> str:
    return f"{int(khz) // 1000} MHz" if khz.isdigit() else ""


def _frequencies(root: Path, cpu: int) -> str:
    limits = [_mhz(_read(root, f"{CPUS}/cpu{cpu}/cpufreq/scaling_{which}_freq")) for which in ("min", "max")]
    return " to ".join(limits) if all(limits) else ""


def _turbo(root: Path) -> str:
    no_turbo, boost = _read(root, f"{CPUS}/intel_pstate/no_turbo"), _read(root, f"{CPUS}/cpufreq/boost")
    return {"0": "on", "1": "off"}.get(no_turbo) or {"0": "off", "1": "on"}.get(boost, "")


def _power_limits(root: Path) -> Iterator[str]:
    for number in range(3):
        microwatts = _read(root, f"{RAPL}/constraint_{number}_power_limit_uw")
        if microwatts.isdigit():
            yield f"{_read(root, f'{RAPL}/constraint_{number}_name')} {int(microwatts) // 1_000_000} W"


def memory(root: Path = Path("/")) -> str:
    """Return kinds and speeds of the memory modules, such as "2 x DDR4 3200 MT/s"; only root may read them."""
    try:
        tables = (root / DMI).read_bytes()
    except OSError:
        return ""
    modules = [text for structure in _structures(tables) if (text := _module(structure))]
    return ", ".join(f"{modules.count(text)} x {text}" for text in dict.fromkeys(modules))


def _structures(tables: bytes) -> Iterator[bytes]:
    """Cut SMBIOS' tables: each structure is as long as it says, and strings follow it up to two zero bytes."""
    offset = 0
    while offset + 4 <= len(tables) and (length := tables[offset + 1]) >= 4:
        yield tables[offset : offset + length]
        end = tables.find(b"\0\0", offset + length)
        if end < 0:
            return
        offset = end + 2


def _module(structure: bytes) -> str:
    """Return what a memory device is, "" for other structures and for empty sockets."""
    if structure[0] != MEMORY_DEVICE or len(structure) < 0x17:
        return ""
    kind = MEMORY_TYPES.get(structure[0x12], "")
    speed = int.from_bytes(structure[0x15:0x17], "little")
    if int.from_bytes(structure[0x0C:0x0E], "little") == 0 or not kind:
        return ""
    return kind if speed in UNKNOWN_SPEED else f"{kind} {speed} MT/s"
