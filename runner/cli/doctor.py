"""Show which backends work here, what the others lack, and what makes measurements noisy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from runner.doctor import BackendState, Finding

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

MARKS = {"good": "ok", "note": "--", "bad": "!!"}


@app.command()
def doctor(
    cpu: Annotated[int | None, typer.Option(metavar="N", min=0, help="The logical CPU to look at.")] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Do not run measurements.")] = False,
) -> None:
    """Show which backends work here, what the others lack, and what makes measurements noisy."""
    from runner import doctor as checks  # noqa: PLC0415
    from runner.host import cpu as cpus  # noqa: PLC0415 - `--help` needs none of these

    machine = checks.HostMachine(cpus.read_cpu(cpus.choose(cpu)))
    print("Backends")
    for state in checks.backend_states(machine.cpu.number):
        print("\n".join(_backend(state)))
    print(f"\nThis machine, CPU {machine.cpu.number}")
    for finding in checks.findings(machine):
        print("\n".join(_finding(finding)))
    if not quick:
        _measured(machine.cpu.number)


def _measured(cpu: int) -> None:
    from runner import selftest  # noqa: PLC0415
    from runner.backend import BackendError  # noqa: PLC0415
    from runner.backends.registry import open_backend  # noqa: PLC0415

    print("\nMeasured just now")
    try:
        backend = open_backend("tsc", cpu=cpu)
    except BackendError as error:
        print(f"  nothing: {error.message}")
        return
    try:
        for finding in selftest.findings(backend):
            print("\n".join(_finding(finding)))
    except BackendError as error:
        print(f"  {error}")
    finally:
        backend.close()


def _backend(state: BackendState) -> list[str]:
    if state.info is None:
        advice = [f"             {state.advice}"] if state.advice else []
        return [f"  {MARKS['bad']} {state.name:8} {state.problem}", *advice]
    return [
        f"  {MARKS['good']} {state.name:8} {state.summary}",
        *(f"             {text}" for text in state.info.caveats),
    ]


def _finding(finding: Finding) -> list[str]:
    advice = [f"{'':22}-> {finding.advice}"] if finding.advice else []
    return [f"  {MARKS[finding.level]} {finding.subject:16} {finding.found}", *advice]
