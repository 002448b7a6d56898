"""How long one `uopscope measure` takes beyond Python's own start: `python -m benchmarks.one_measure [--times 7]`.

The command runs as users run it, in processes of their own, beside `python -c pass`. Shown is the least of the times of
each, in seconds: load makes them longer, nothing makes them shorter.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "measure --bytes": ["-m", "runner.cli.uopscope", "measure", "--bytes", "480fafc3", "--backend", "tsc"],
    "measure --asm": ["-m", "runner.cli.uopscope", "measure", "--asm", "imul rax, rbx", "--backend", "tsc"],
    "measure --asm --unroll": [
        *("-m", "runner.cli.uopscope", "measure", "--asm", "imul rax, rbx", "--backend", "tsc"),
        *("--unroll", "100", "--loop", "100"),
    ],
}


def seconds(arguments: Sequence[str]) -> float:
    """Run Python once with these arguments; return the wall time."""
    started = time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def main() -> None:
    """Print the least times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=7)
    times = parser.parse_args().times
    least = {name: min(seconds(arguments) for _ in range(times)) for name, arguments in COMMANDS.items()}
    start = least["python -c pass"]
    for name, found in least.items():
        print(f"{name:24} {found:6.2f} s, {found - start:6.2f} s beyond Python's start")


if __name__ == "__main__":
    main()
