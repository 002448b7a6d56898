"""Measure everything every night, and report changes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from runner.campaigns.selection import Selection
from runner.cli.process.guard import UsageError
from runner.nightly import night as nights
from runner.nightly import systemd

app = typer.Typer(help=__doc__, add_completion=False)

STATE = Path("/var/lib/uopscope")


@app.command()
def nightly(
    *,
    install: Annotated[bool, typer.Option("--install", help="Install a systemd timer for every night.")] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove the timer.")] = False,
    purge: Annotated[bool, typer.Option("--purge", help="With --uninstall: delete all measurements, too.")] = False,
    at: Annotated[str, typer.Option(help="When, as a systemd calendar expression.")] = "*-*-* 02:30",
    state: Annotated[Path, typer.Option(help="Where campaigns, database and summaries are kept.")] = STATE,
    instr: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only these instructions (see characterize).")
    ] = None,
    extension: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this extension (see characterize).")
    ] = None,
    isa_set: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this ISA set (see characterize).")
    ] = None,
    backend: Annotated[str, typer.Option(help="How to measure (see characterize).")] = "auto",
    arch: Annotated[str, typer.Option(help="The architecture, for simulated machines.")] = "",
    cpu: Annotated[int | None, typer.Option(min=0, help="The logical CPU to measure on.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Run even if the last run was finished less than 20 hours ago.")
    ] = False,
    free_gb: Annotated[
        float, typer.Option(min=0, max=1e9, help="The gigabytes of disk space that have to be free.")
    ] = nights.FREE_BYTES / 1e9,
) -> None:
    """Do one nightly run now: campaign (or the rest of it), database, comparison, summary."""
    if install and uninstall:
        raise UsageError("--install and --uninstall contradict each other")
    if purge and not uninstall:
        raise UsageError("--purge removes what --uninstall would keep", hint="uopscope nightly --uninstall --purge")
    chosen = [word for pattern in instr or [] for word in ("--instr", pattern)]
    chosen += Selection(tuple(extension or ()), tuple(isa_set or ())).options()
    machine = ["--backend", backend, *(["--cpu", str(cpu)] if cpu is not None else [])]
    if uninstall:
        _uninstall(state, purge=purge)
    elif install:
        options = ["--state", str(state.absolute()), "--free-gb", str(free_gb), *chosen, *machine]
        options += ["--arch", arch] if arch else []
        for path in systemd.install([_program(), "nightly", *options], at):
            print(f"written: {path}")
        print("See it with: systemctl list-timers uopscope-nightly.timer; journalctl -u uopscope-nightly")
    else:
        selection = [*(chosen or ["--all"]), *(["--arch", arch] if arch else ["--arch-auto"]), *machine]
        text = nights.run(nights.Places(state), selection, free_bytes=int(free_gb * 1e9), again=again)
        print(
            text or "Nothing to do: the last run was finished less than 20 hours ago (--again).",
            end="" if text else "\n",
        )


def _program() -> str:
    """Return the path of this program, as systemd wants it: absolute."""
    found = shutil.which("uopscope") or sys.argv[0]
    return str(Path(found).absolute())


def _uninstall(state: Path, *, purge: bool) -> None:
    for path in systemd.uninstall():
        print(f"removed: {path}")
    if not state.exists():
        return
    kept = any((state / "campaigns").glob("*.sqlite")) or (state / "current.sqlite").exists()
    if purge or not kept:
        shutil.rmtree(state)
        print(f"removed: {state}")
    else:
        print(f"kept: {state}, which holds measurements (--purge removes them, too)")
