"""Check the kernel module on this machine: it contains faults, ends loops, and measures known instructions."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.host.cpu import Cpu
    from runner.host.kmod import abi
    from runner.host.kmod.selftest import Check

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

MARKS = {True: "ok", False: "!!", None: "--"}
PMU_KINDS = ("no PMU", "Intel architectural PMU", "AMD core PMU")


@app.command()
def selftest(
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="The logical CPU to test on.")] = None,
) -> None:
    """Check the kernel module on this machine: faults contained, loops ended, known instructions measured.

    Needs root. The output is a report to attach to a bug. The exit code is 0 if nothing failed.
    """
    from runner.host import cpu as cpus  # noqa: PLC0415 - `--help` needs none of these
    from runner.host.kmod import selftest as checks  # noqa: PLC0415
    from runner.host.kmod.device import Device  # noqa: PLC0415

    chosen = cpus.read_cpu(cpus.choose(cpu))
    device = Device(chosen.number)
    try:
        for line in _about(chosen, device.information):
            print(line)
        failed = _show(checks.device_checks(device))
    finally:
        device.close()
    failed += _show(_counters(chosen))
    print(f"\n{failed} checks failed" if failed else "\nall checks passed")
    raise typer.Exit(1 if failed else 0)


def _about(cpu: Cpu, info: abi.uops_info) -> Iterator[str]:
    from results.version import version  # noqa: PLC0415
    from runner.host.kmod.abi import Feature  # noqa: PLC0415

    yield f"uopscope {version()}, {platform.system()} {platform.release()}"
    yield f"CPU {cpu.number}: {cpu.model_name} ({cpu.signature}, microcode {cpu.microcode}), {cpu.architecture}"
    yield (
        f"{PMU_KINDS[info.pmu_kind]} version {info.pmu_version}: {info.prog_mask.bit_count()} programmable counters"
        f" of {info.width_prog} bits, {info.fixed_mask.bit_count()} fixed"
    )
    yield f"features: {Feature(info.features)!r}; {info.online_cpus} CPUs online\n"


def _counters(cpu: Cpu) -> Iterator[Check]:
    """Measure with the backend, if there is a PMU."""
    from runner.backend import BackendError  # noqa: PLC0415
    from runner.backends.kmod import create  # noqa: PLC0415
    from runner.host.kmod.selftest import Check, counter_checks  # noqa: PLC0415

    try:
        backend = create(cpu.number)
        try:
            backend.info()
        except BackendError as error:
            backend.close()
            yield Check("known instructions", None, error.message)
            return
    except BackendError as error:
        yield Check("known instructions", None, error.message)
        return
    try:
        yield from counter_checks(backend)
    finally:
        backend.close()


def _show(checks: Iterable[Check]) -> int:
    """Print each check as it is done; return how many failed."""
    failed = 0
    for check in checks:
        detail = f" ({check.detail})" if check.detail else ""
        print(f"{MARKS[check.passed]}  {check.name}{detail}", flush=True)
        failed += check.passed is False
    return failed
