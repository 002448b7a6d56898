"""Settings of the machine that may change results, read from folders that a test makes up."""

from pathlib import Path

import pytest

from runner.host.conditions import conditions, memory, vulnerabilities

CPUS = "sys/devices/system/cpu"
FILES = {
    f"{CPUS}/vulnerabilities/spectre_v2": "Mitigation: IBRS; IBPB: conditional\n",
    f"{CPUS}/vulnerabilities/meltdown": "Not affected\n",
    f"{CPUS}/smt/control": "on\n",
    f"{CPUS}/cpu3/topology/thread_siblings_list": "3,7\n",
    f"{CPUS}/cpu3/cpufreq/scaling_governor": "powersave\n",
    f"{CPUS}/cpu3/cpufreq/scaling_min_freq": "800000\n",
    f"{CPUS}/cpu3/cpufreq/scaling_max_freq": "4200000\n",
    f"{CPUS}/cpu3/cpufreq/scaling_cur_freq": "3612345\n",
    f"{CPUS}/intel_pstate/no_turbo": "0\n",
    "sys/class/powercap/intel-rapl:0/constraint_0_name": "long_term\n",
    "sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw": "65000000\n",
}


def module(kind: int, size: int, speed: int) -> bytes:
    """Return a memory device as SMBIOS 2.3 has it (type 17, 0x1B bytes), with one string."""
    structure = bytearray(0x1B)
    structure[0:2] = 17, 0x1B
    structure[0x0C:0x0E] = size.to_bytes(2, "little")
    structure[0x12] = kind
    structure[0x15:0x17] = speed.to_bytes(2, "little")
    return bytes(structure) + b"DIMM_A1\0\0"


def machine(folder: Path, files: dict[str, str] = FILES) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return folder


def with_memory(folder: Path, tables: bytes) -> Path:
    path = folder / "sys/firmware/dmi/tables/DMI"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tables)
    return folder


def test_what_linux_says_is_taken_over(tmp_path: Path) -> None:
    other = b"\x00\x04\x00\x00BIOS\0\0"
    with_memory(tmp_path, other + module(0x1A, 16384, 3200) + module(0x1A, 0, 0) + module(0x1A, 16384, 3200))
    assert conditions(3, machine(tmp_path)) == {
        "mitigations": "meltdown: Not affected; spectre_v2: Mitigation: IBRS; IBPB: conditional",
        "SMT": "on",
        "siblings": "3,7",
        "governor": "powersave",
        "frequency limits": "800 MHz to 4200 MHz",
        "frequency": "3612 MHz",
        "turbo": "on",
        "power limits": "long_term 65 W",
        "memory modules": "2 x DDR4 3200 MT/s",
    }


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert conditions(0, tmp_path) == {}
    assert vulnerabilities(tmp_path) == {}


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        (b"", ""),
        (b"\x11\x1b", ""),
        (b"\x11\x02\0\0", ""),
        (module(0x22, 8, 0xFFFF), "1 x DDR5"),
        (module(0x02, 8, 5600), ""),
        (module(0x22, 8, 5600)[:20], ""),
        (module(0x22, 8, 5600) + module(0x1A, 8, 3200), "1 x DDR5 5600 MT/s, 1 x DDR4 3200 MT/s"),
    ],
)
def test_memory_modules_of_any_tables(tmp_path: Path, tables: bytes, text: str) -> None:
    assert memory(with_memory(tmp_path, tables)) == text


def test_amd_has_its_own_switch_for_turbo(tmp_path: Path) -> None:
    assert conditions(0, machine(tmp_path, {f"{CPUS}/cpufreq/boost": "0\n"}))["turbo"] == "off"
