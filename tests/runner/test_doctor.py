"""`uopscope doctor`: each trouble of a made-up machine is found, with advice."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runner import doctor, selftest
from runner.backend import BackendError, BackendInfo, Job, JobResult, Repeat
from runner.backends.registry import BackendEntry, backends, open_backend
from runner.cli.doctor import app
from runner.doctor import Finding, Grade, HostMachine, findings
from runner.host.cpu import Cpu
from runner.uarch.tables import CpuIdentity

SKYLAKE = Cpu(
    2, CpuIdentity("GenuineIntel", 6, 0x5E, 3), "a Skylake", "0xf0", frozenset({"tsc", "constant_tsc", "nonstop_tsc"})
)
QUIET = {
    "sys/bus/event_source/devices/cpu/type": "4",
    "proc/sys/kernel/perf_event_paranoid": "2",
    "proc/sys/kernel/nmi_watchdog": "0",
    "sys/devices/system/cpu/cpu2/topology/thread_siblings_list": "2",
    "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/devices/system/cpu/online": "0-7",
    "proc/loadavg": "0.05 0.1 0.2 1/100 4711",
    "sys/kernel/security/lockdown": "[none] integrity confidentiality",
    "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected",
    "dev/cpu/2/msr": "\0" * 0x34 + "\x40\0\0\0\0\0\0\0",
    doctor.SECURE_BOOT: "\x06\x00\x00\x00\x00",
}
TROUBLE: dict[str, dict[str, str | None]] = {
    "PMU": {"sys/bus/event_source/devices/cpu/type": None},
    "perf events": {"proc/sys/kernel/perf_event_paranoid": "3"},
    "NMI watchdog": {"proc/sys/kernel/nmi_watchdog": "1"},
    "SMT": {"sys/devices/system/cpu/cpu2/topology/thread_siblings_list": "2,6"},
    "frequency": {"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "powersave"},
    "turbo": {"sys/devices/system/cpu/intel_pstate/no_turbo": "0"},
    "TSC": {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
    "load": {"proc/loadavg": "7.50 0.1 0.2 1/100 4711"},
    "mitigations": {"sys/devices/system/cpu/vulnerabilities/retbleed": "Mitigation: IBRS"},
    "LKRG": {"sys/module/lkrg/refcnt": "1"},
    "SMIs": {"dev/cpu/2/msr": "\0" * 0x34 + "\0\x40\0\0\0\0\0\0"},
    "CPUs": {"sys/devices/system/cpu/online": "2"},
    "lockdown": {"sys/kernel/security/lockdown": "none [integrity] confidentiality"},
    "Secure Boot": {doctor.SECURE_BOOT: "\x06\x00\x00\x00\x01"},
}
DEPENDS_ON_THIS_MACHINE = {"kernel headers", "privileges"}


def machine(folder: Path, changes: Mapping[str, str | None], cpu: Cpu = SKYLAKE) -> HostMachine:
    for name, text in {**QUIET, **changes}.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return HostMachine(cpu, folder)


def by_subject(found: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in found if finding.subject not in DEPENDS_ON_THIS_MACHINE}


def test_nothing_is_wrong_with_a_quiet_machine(tmp_path: Path) -> None:
    found = by_subject(findings(machine(tmp_path, {})))
    assert {finding.level for finding in found.values()} == {Grade.GOOD}
    assert all(not finding.advice for finding in found.values())


@pytest.mark.parametrize("subject", TROUBLE)
def test_each_trouble_is_found_with_advice_and_nothing_else(tmp_path: Path, subject: str) -> None:
    found = by_subject(findings(machine(tmp_path, TROUBLE[subject])))
    wrong = [finding for finding in found.values() if finding.level is not Grade.GOOD]
    assert [finding.subject for finding in wrong] == [subject]
    assert wrong[0].advice


def test_a_machine_without_any_of_the_files_is_no_error(tmp_path: Path) -> None:
    found = by_subject(findings(HostMachine(SKYLAKE, tmp_path)))
    assert found["PMU"].level is Grade.BAD
    assert found["frequency"].level is Grade.NOTE


def test_unknown_and_virtual_cpus_are_said_to_be(tmp_path: Path) -> None:
    cpu = dataclasses.replace(SKYLAKE, identity=CpuIdentity("Nobody", 1, 1, 1), flags=frozenset({"hypervisor"}))
    found = by_subject(findings(machine(tmp_path, {}, cpu)))
    assert found["CPU"].level is found["hypervisor"].level is found["TSC"].level is Grade.BAD
    assert found["SMT"].level is Grade.NOTE


def test_the_nmi_watchdog_is_the_first_thing_to_do(tmp_path: Path) -> None:
    """It owns a counter on nearly every distribution, so it is what stops the kernel module first."""
    changes = {name: text for trouble in TROUBLE.values() for name, text in trouble.items()}
    to_do = [finding.subject for finding in findings(machine(tmp_path, changes)) if finding.advice]
    assert to_do[0] == "NMI watchdog"


def test_the_kinds_of_cores_of_a_hybrid_cpu_are_named(tmp_path: Path) -> None:
    devices = "sys/bus/event_source/devices"
    changes: dict[str, str | None] = {f"{devices}/cpu_core/cpus": "0-7", f"{devices}/cpu_atom/cpus": "8-15"}
    hybrid = by_subject(findings(machine(tmp_path, changes)))["hybrid"]
    assert "P-cores: CPU 0-7; E-cores: CPU 8-15" in hybrid.found


def test_fred_is_found_by_the_flag_that_linux_shows_while_it_uses_it(tmp_path: Path) -> None:
    with_fred = dataclasses.replace(SKYLAKE, flags=SKYLAKE.flags | {"fred"})
    finding = by_subject(findings(machine(tmp_path, {}, with_fred)))["FRED"]
    assert finding.level is Grade.BAD
    assert "fred=off" in finding.advice


def test_every_backend_has_a_state_here() -> None:
    states = doctor.backend_states()
    assert [state.name for state in states] == list(backends())
    assert all(state.info or (state.problem and state.advice) for state in states)


class _SilentBackend:
    """A backend that cannot say what it counts."""

    name = "silent"

    def __init__(self) -> None:
        self.is_closed = False

    def info(self) -> BackendInfo:
        raise BackendError("no counters")

    def run(self, _batch: Sequence[Job], _counters: Sequence[str], _repeat: Repeat) -> list[JobResult]:
        return []

    def close(self) -> None:
        self.is_closed = True


def test_a_backend_that_cannot_say_what_it_counts_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = _SilentBackend()
    entry = BackendEntry("silent", "says nothing", 1, lambda _cpu, _architecture: silent)
    monkeypatch.setattr(doctor, "backends", lambda: {"silent": entry})
    (state,) = doctor.backend_states()
    assert (state.info, state.problem, silent.is_closed) == (None, "no counters", True)


def test_the_self_test_measures_what_is_known() -> None:
    try:
        backend = open_backend("tsc")
    except BackendError as error:
        pytest.skip(str(error))
    state = selftest.clock_state(backend)
    assert state.calibration_ticks > 1000 > state.step_ticks > 0
    subjects = [finding.subject for finding in selftest.findings(backend)]
    backend.close()
    assert subjects[:3] == ["clock", "self-test", "self-test"]


def test_the_command_shows_backends_and_advice() -> None:
    result = CliRunner().invoke(app, ["--quick"])
    assert result.exit_code == 0
    assert "Backends" in result.output
    assert "tsc" in result.output
    assert "TSC" in result.output
    assert "Measured just now" not in result.output


def test_a_cpu_that_is_not_there() -> None:
    result = CliRunner().invoke(app, ["--cpu", "4711"])
    assert isinstance(result.exception, BackendError)


def test_self_test_results_are_judged() -> None:
    assert selftest._step(selftest.ClockState(26, 6000, 1700)).level is Grade.GOOD


@pytest.mark.parametrize(
    ("idle", "busy", "level", "says"),
    [
        ([0.29, 0.291], [0.29, 0.292], Grade.GOOD, "in 0 of 2 looks"),
        ([0.29, 0.291], [0.38, 0.4], Grade.BAD, "it shares a core"),
        ([0.29, 0.291], [0.29, 0.4], Grade.BAD, "it at times shares a core"),
        ([0.29, 0.4], [0.39, 0.29], Grade.NOTE, "others use this core"),
    ],
)
def test_a_shared_core_is_told_by_what_others_slow_down(
    idle: list[float], busy: list[float], level: Grade, says: str
) -> None:
    finding = selftest._sharing(idle, busy, [0])
    assert finding.level is level
    assert says in f"{finding.found} {finding.advice}"
