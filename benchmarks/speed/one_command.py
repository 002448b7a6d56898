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
from typing import TYPE_CHECKING, NamedTuple

from results.machine.cached import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

WITHOUT_KEPT = "analyze, no machine kept"

ANALYZE = ("-m", "runner.cli.uopscope", "analyze", "--asm", "add rax, [rdi]; add rdi, 8", "--arch", "ZEN4")

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
    "analyze": ANALYZE,
    WITHOUT_KEPT: ANALYZE,
}


class Seconds(NamedTuple):
    """Time by the clock on the wall, and CPU time of all processes."""

    wall: float
    cpu: float


def seconds(arguments: Sequence[str], *, keeps: bool) -> Seconds:
    """Run Python once with these arguments; return its times. `keeps`: machines that were read are kept."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if not keeps:
        environment[VARIABLE] = ""
    before, started = os.times(), time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    after, wall = os.times(), time.monotonic() - started
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return Seconds(wall, user + system)


def least(name: str, times: int) -> Seconds:
    """Return the shortest of `times` runs of a command, behind one that does not count."""
    _, *runs = (seconds(COMMANDS[name], keeps=name != WITHOUT_KEPT) for _ in range(times + 1))
    return Seconds(min(run.wall for run in runs), min(run.cpu for run in runs))


def main() -> None:
    """Print the least times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=7)
    times = parser.parse_args().times
    found = {name: least(name, times) for name in COMMANDS}
    start = found["python -c pass"]
    print("beyond Python's start:")
    for name, one in found.items():
        print(f"{name:32} wall {one.wall - start.wall:5.2f} s, CPU {one.cpu - start.cpu:5.2f} s")


if __name__ == "__main__":
    main()
