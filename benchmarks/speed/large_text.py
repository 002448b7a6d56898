"""CPU time and memory of analyzing a text with many different statements, part by part.

Run: `python -m benchmarks.speed.large_text [STATEMENTS] [SYNTAX]`, where SYNTAX is `intel` or `att`. Statements are
loads, stores and computations with numbers drawn at random, so hardly any comes twice. Each twentieth is a jump back.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from analysis.bounds.components import Running
from analysis.prediction import PredictionMode
from analysis.report.text import lines_of
from runner.own_code.analyzing.analyzed import of_text, tools_for

if TYPE_CHECKING:
    from collections.abc import Iterator

REGISTERS = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12")
BETWEEN_JUMPS = 20
INTEL = (
    "add {a}, {n}",
    "mov {a}, qword ptr [{b}+{n}]",
    "mov qword ptr [{b}+{n}], {a}",
    "lea {a}, [{b}+{c}*4+{n}]",
    "vfmadd231pd ymm{x}, ymm{y}, ymmword ptr [{b}+{n}]",
    "imul {a}, {b}, {n}",
    "xor {a}, {b}",
    "vaddps xmm{x}, xmm{y}, xmm{z}",
)
ATT = (
    "addq ${n}, %{a}",
    "movq {n}(%{b}), %{a}",
    "movq %{a}, {n}(%{b})",
    "leaq {n}(%{b},%{c},4), %{a}",
    "vfmadd231pd {n}(%{b}), %ymm{y}, %ymm{x}",
    "imulq ${n}, %{b}, %{a}",
    "xorq %{b}, %{a}",
    "vaddps %xmm{x}, %xmm{y}, %xmm{z}",
)


def lines(count: int, forms: tuple[str, ...]) -> Iterator[str]:
    """Yield `count` lines of code."""
    chooser = random.Random(1)
    for number in range(count):
        if number % BETWEEN_JUMPS == BETWEEN_JUMPS - 1:
            yield f"\tjne .L{number - BETWEEN_JUMPS + 1}"
            continue
        a, b, c = (chooser.choice(REGISTERS) for _ in range(3))
        x, y, z = (chooser.randrange(16) for _ in range(3))
        text = chooser.choice(forms).format(a=a, b=b, c=c, x=x, y=y, z=z, n=chooser.randrange(100_000))
        yield f".L{number}:\n\t{text}" if number % BETWEEN_JUMPS == 0 else f"\t{text}"


class Laps:
    """Prints what happened since the last time."""

    def __init__(self) -> None:
        """Begin now."""
        self.last = time.process_time()

    def __call__(self, what: str) -> None:
        """Print CPU seconds, and the memory that the process has used at most."""
        now, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{what:22} {now - self.last:7.2f} s {peak:6,} MB", flush=True)
        self.last = now


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    text = "\n".join(lines(count, ATT if "att" in sys.argv[2:] else INTEL))
    tools = tools_for("SKL", None)
    lap = Laps()
    given = of_text(text, "large.s")
    lap("assembling")
    found = given.predict(tools, Running.LOOP, PredictionMode.SIMULATION)
    lap("bounds")
    print(f"{found.cycles:,.0f} cycles")
    lap("simulation")
    print(f"{len(list(lines_of(found.facts))):,} lines of report")
    lap("report")


if __name__ == "__main__":
    main()
