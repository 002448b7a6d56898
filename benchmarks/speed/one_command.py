"""How long one `uopscope measure` or `uopscope analyze` takes beyond Python's own start.

    python -m benchmarks.speed.one_command [--times 7]

The command runs as users run it, in processes of their own, beside `python -c pass`. Shown are the least wall time and
the least CPU time of each, in seconds: load makes them longer, nothing makes them shorter. CPU time is that of all
processes of the command, in user mode and in the kernel. The first run compiles Python's files and does not count. It
also keeps the machine that `analyze` uses (`results/machine/cached.py`), but where the row says that none is kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import NamedTuple

from results.machine.cached import VARIABLE


class Command(NamedTuple):
    """Python's arguments, and whether machines that are read are kept for the next run."""

    arguments: tuple[str, ...]
    keeps: bool = True


TOOL = ("-m", "runner.cli.uopscope")
MEASURE = (*TOOL, "measure", "--backend", "tsc")
ANALYZE = (*TOOL, "analyze", "--asm", "add rax, [rdi]; add rdi, 8", "--arch", "ZEN4")

PYTHON = "python -c pass"
COMMANDS = {
    PYTHON: Command(("-c", "pass")),
    "measure --bytes": Command((*MEASURE, "--bytes", "480fafc3")),
    "measure --asm": Command((*MEASURE, "--asm", "imul rax, rbx")),
    "measure --asm, two instructions": Command((*MEASURE, "--asm", "add rax, rbx; imul rbx, rax")),
    "measure --asm --unroll": Command((*MEASURE, "--asm", "imul rax, rbx", "--unroll", "100", "--loop", "100")),
    "analyze": Command(ANALYZE),
    "analyze, no machine kept": Command(ANALYZE, keeps=False),
}


class Seconds(NamedTuple):
    """Time by the clock on the wall, and CPU time of all processes."""

    wall: float
    cpu: float


def seconds(command: Command) -> Seconds:
    """Run a command once; return its times."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if not command.keeps:
        environment[VARIABLE] = ""
    before, started = os.times(), time.monotonic()
    subprocess.run([sys.executable, *command.arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    after, wall = os.times(), time.monotonic() - started
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return Seconds(wall, user + system)


def least(command: Command, times: int) -> Seconds:
    """Return the shortest of `times` runs of a command, behind one that does not count."""
    _, *runs = (seconds(command) for _ in range(times + 1))
    return Seconds(min(run.wall for run in runs), min(run.cpu for run in runs))


def main() -> None:
    """Print the least times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=7)
    times = parser.parse_args().times
    found = {name: least(command, times) for name, command in COMMANDS.items()}
    start = found[PYTHON]
    print("beyond Python's start:")
    for name, one in found.items():
        print(f"{name:32} wall {one.wall - start.wall:5.2f} s, CPU {one.cpu - start.cpu:5.2f} s")


if __name__ == "__main__":
    main()
