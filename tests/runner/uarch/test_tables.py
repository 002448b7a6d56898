"""The microarchitecture tables: every row against Intel's events, every CPU known once, and a strict reader."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from runner.uarch import from_perfmon, tables
from runner.uarch.tables import CpuIdentity, MicroarchitectureError
from tests.nonempty import some
from tests.shared import perfmon_events

INTEL = [uarch for uarch in tables.all_microarchitectures().values() if uarch.vendor == "GenuineIntel"]
MINIMAL = """
name = "X"
title = "x"
vendor = "GenuineIntel"
ports = ["0"]
[[cpuid]]
family = 6
model = 1
source = "s"
[[event]]
counter = "p0"
event = "E"
code = 1
umask = 1
source = "s"
"""


@pytest.fixture(scope="module")
def events() -> list[dict[str, str]]:
    return list(csv.DictReader(perfmon_events().splitlines()))


def test_every_event_is_in_its_source_with_the_same_encoding(events: list[dict[str, str]]) -> None:
    rows = {(f"perfmon {r['file']} {r['version']}", r["event_name"]): r for r in reversed(events)}
    for uarch in some(INTEL):
        for event in some(uarch.events):
            row = rows[event.source, event.event]
            assert event.code == int(row["event_code"], 16), (uarch.name, event)
            assert event.umask == int(row["umask"], 16), (uarch.name, event)
            assert event.cmask == int(row["cmask"] or 0), (uarch.name, event)
            assert event.umask_ext == int(row["umask_ext"] or "0", 16), (uarch.name, event)
            flags = tuple(row[name] == "1" for name in ("invert", "edge", "any_thread"))
            assert (event.invert, event.edge, event.per_core) == flags, (uarch.name, event)
            assert (event.fixed is not None) == row["counter"].startswith("Fixed"), (uarch.name, event)
            if event.fixed is None:
                assert ",".join(map(str, event.counters)) == row["counter"], (uarch.name, event)


def test_the_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(perfmon_events(), encoding="utf-8")
    for written in some(from_perfmon.write_all(path, tmp_path)):
        shipped = Path(str(tables.__file__)).parent / written.name
        assert written.read_text(encoding="utf-8") == shipped.read_text(encoding="utf-8"), written.name


def test_every_cpu_of_the_events_is_known_exactly_once(events: list[dict[str, str]]) -> None:
    wanted = set()
    for row in events:
        for item in row["family_models"].split(";"):
            family, model, *steppings = re.split("-", item)
            digits = steppings[0].strip("[]") if steppings else "0"
            wanted |= {(int(family), int(model, 16), int(digit, 16), row["core_role"]) for digit in digits}
    types = {"": (0, 0), "Core": (0x40, 0), "Atom": (0x20, 0), "LowPower_Atom": (0x20, 2)}
    for family, model, stepping, role in some(wanted):
        cpu = CpuIdentity("GenuineIntel", family, model, stepping, *types[role])
        found = tables.for_cpu(cpu)
        assert found is not None, cpu
        exact = [
            uarch.name
            for uarch in INTEL
            for entry in uarch.cpuids
            if entry.matches(cpu) and entry.native_model == cpu.native_model
        ]
        assert exact == [found.name], (cpu, exact)


def test_a_cpu_is_what_the_whole_files_say() -> None:
    everything = tables.all_microarchitectures()
    entries = [(uarch, entry) for uarch in everything.values() for entry in uarch.cpuids]
    for uarch, entry in some(entries):
        cpu = CpuIdentity(uarch.vendor, entry.family, entry.model, 0, entry.core_type, entry.native_model)
        cpu = replace(cpu, stepping=entry.steppings[0] if entry.steppings else 0)
        assert tables.for_cpu(cpu) == uarch, entry
    assert tables.for_cpu(CpuIdentity("GenuineIntel", 0x19, 0x10, 0)) is None


def test_cpuid_rows_stand_before_events() -> None:
    name, text = "zen4.toml", (Path(str(tables.__file__)).parent / "zen4.toml").read_text(encoding="utf-8")
    late = text + '\n[[cpuid]]\nfamily = 1\nmodel = 1\nsource = "a test"\n'
    with pytest.raises(MicroarchitectureError, match=r"zen4\.toml: a \[\[cpuid\]\] row stands behind"):
        tables.parse(late, name)


def test_every_intel_big_core_counts_cycles_instructions_and_ports() -> None:
    for uarch in some(tables.all_microarchitectures().values()):
        assert {"core_cycles", "instructions", "uops_retire_slots"} <= set(uarch.counters) or uarch.name == "BNL", uarch
        covered = {letter for name in uarch.port_counters for letter in name[1:]}
        assert covered == set(uarch.ports), uarch.name


def test_amd_models_belong_to_one_generation_each() -> None:
    for family, count in ((0x17, 2), (0x19, 2), (0x1A, 1)):
        names = set()
        for model in range(256):
            cpu = CpuIdentity("AuthenticAMD", family, model, 0)
            matching = {
                uarch.name
                for uarch in tables.all_microarchitectures().values()
                for entry in uarch.cpuids
                if uarch.vendor == cpu.vendor and entry.matches(cpu)
            }
            assert len(matching) == 1, (family, model, matching)
            names |= matching
        assert len(names) == count


@pytest.mark.parametrize(
    ("name", "counter", "selector"),
    [
        ("HSW", "p0", 0x01A1),
        ("SKL", "p6", 0x40A1),
        ("ICL", "p23", 0x04A1),
        ("ADL-P", "p5B", 0x20B2),
        ("NHM", "p4", 0x2010B1),
        ("ZEN4", "uops_MS", 0x1_0000_00C2),
        ("ZEN4", "uops_issued", 0x07AA),
    ],
)
def test_event_select_values(name: str, counter: str, selector: int) -> None:
    assert tables.by_name(name).event(counter).selector == selector


def test_counters_that_others_split_are_left_out() -> None:
    assert tables.by_name("NHM").port_counters == ("p0", "p1", "p2", "p3", "p4", "p5")
    assert tables.by_name("ICL").port_counters == ("p0", "p1", "p5", "p6", "p23", "p49", "p78")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('source = "s"\n[[event]]', "[[event]]"), "without a source"),
        (("umask = 1", "umask = 1\nmask = 2"), "unknown keys"),
        (('counter = "p0"', 'counter = "p7"'), "of no port"),
        (("title", "tilte"), "unknown keys"),
        (("code = 1\n", ""), "code"),
        (("umask = 1", "umask = "), "x.toml"),
    ],
)
def test_a_wrong_file_is_refused(change: tuple[str, str], message: str) -> None:
    assert tables.parse(MINIMAL, "x.toml").name == "X"
    with pytest.raises(MicroarchitectureError, match=message) as caught:
        tables.parse(MINIMAL.replace(*change), "x.toml")
    assert caught.value.message.startswith("x.toml")


def test_an_unknown_name_says_which_are_known() -> None:
    with pytest.raises(MicroarchitectureError, match="HSW"):
        tables.by_name("P5")


def test_errata_of_what_is_counted_are_told_and_no_others() -> None:
    haswell = tables.by_name("HSW")
    told = haswell.errata(("core_cycles", "uops_executed"))
    assert told == ("uops_executed may be off: UOPS_EXECUTED.CORE has the errata HSD30, HSM31",)
    assert haswell.errata(("core_cycles",)) == ()
