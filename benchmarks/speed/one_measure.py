"""How long one `uopscope measure` takes beyond Python's own start.

    python -m benchmarks.speed.one_measure [--times 7]

The command runs as users run it, in processes of their own, beside `python -c pass`. Shown are the least wall time and
the least CPU time of each, in seconds: load makes them longer, nothing makes them shorter. CPU time is that of all
processes of the command, in user mode and in the kernel. The first run compiles Python's files and does not count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "measure --bytes": ["-m", "runner.cli.uopscope", "measure", "--bytes", "480fafc3", "--backend", "tsc"],
    "measure --asm": ["-m", "runner.cli.uopscope", "measure", "--asm", "imul rax, rbx", "--backend", "tsc"],
    "measure --asm, two instructions": [
        *("-m", "runner.cli.uopscope", "measure", "--asm", "add rax, rbx; imul rbx, rax", "--backend", "tsc"),
    ],
    "measure --asm --unroll": [
        *("-m", "runner.cli.uopscope", "measure", "--asm", "imul rax, rbx", "--backend", "tsc"),
        *("--unroll", "100", "--loop", "100"),
    ],
}


class Seconds(NamedTuple):
    """Time by the clock on the wall, and CPU time of all processes."""

    wall: float
    cpu: float


def seconds(arguments: Sequence[str]) -> Seconds:
    """Run Python once with these arguments; return its times."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, started = os.times(), time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    after, wall = os.times(), time.monotonic() - started
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return Seconds(wall, user + system)


def least(arguments: Sequence[str], times: int) -> Seconds:
    """Return the shortest of `times` runs, behind one that does not count."""
    seconds(arguments)
    runs = [seconds(arguments) for _ in range(times)]
    return Seconds(min(run.wall for run in runs), min(run.cpu for run in runs))


def main() -> None:
    """Print the least times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=7)
    times = parser.parse_args().times
    found = {name: least(arguments, times) for name, arguments in COMMANDS.items()}
    start = found["python -c pass"]
    print("beyond Python's start:")
    for name, one in found.items():
        print(f"{name:32} wall {one.wall - start.wall:5.2f} s, CPU {one.cpu - start.cpu:5.2f} s")


if __name__ == "__main__":
    main()
