"""How well the clock backend measures here: three runs of simple hand-written code, and how many measurements a second.

Run `python -m benchmarks.speed.clock` on an idle machine. Every row is code with its number of instructions per copy.
Values are core cycles per instruction. `range` is the greatest less the least of the runs, `error` the distance from
the nearest integer.
"""

from __future__ import annotations

import time

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Request
from runner.backends.tsc import TscBackend
from runner.measuring.protocol import Measurer

RUNS = 3
POINTER = "4d8936"  # MOV [R14], R14: a load from there gives the same address again
VZEROALL = "c5fc77"
CHAINS = (
    ("ADD RAX, RBX", "", "4801d8"),
    ("ADC RAX, RBX", "", "4811d8"),
    ("SUB RAX, RBX", "", "4829d8"),
    ("LEA RAX, [RAX+1]", "", "488d4001"),
    ("LEA RAX, [RAX+RBX*8+64]", "", "488d44d840"),
    ("MOVSX RAX, AL", "", "480fbec0"),
    ("IMUL RAX, RBX", "", "480fafc3"),
    ("BSWAP RAX", "", "480fc8"),
    ("SHL RAX, 1", "", "48d1e0"),
    ("ROL RAX, 5", "", "48c1c005"),
    ("POPCNT RAX, RAX", "", "f3480fb8c0"),
    ("LZCNT RAX, RAX", "", "f3480fbdc0"),
    ("TZCNT RAX, RAX", "", "f3480fbcc0"),
    ("CMOVO RAX, RBX", "", "480f40c3"),
    ("XADD RAX, RBX", "", "480fc1d8"),
    ("MUL RBX", "", "48f7e3"),
    ("PADDD XMM0, XMM1", VZEROALL, "660ffec1"),
    ("ADDPD XMM0, XMM1", VZEROALL, "660f58c1"),
    ("MULPD XMM0, XMM1", VZEROALL, "660f59c1"),
    ("MOV R14, [R14] (load)", POINTER, "4d8b36"),
    ("MOV [R14], RAX; MOV RAX, [R14] (store, load)", "", "498906498b06"),
)
THROUGHPUTS = (
    ("4 x ADD r, r", "", "4801d84801d94801da4901d8", 4),
    ("8 x ADD r, r", "", "4801d84801d94801da4901d84901d94901da4901db4901dc", 8),
    ("4 x IMUL r, r", "", "480fafc3480fafcb480fafd34c0fafc3", 4),
    ("4 x LEA r, [r+1]", "", "488d4301488d4b01488d53014c8d4301", 4),
    ("4 x MOV r, [R14]", "", "498b06498b0e498b164d8b06", 4),
    ("1 x MOV [R14], r", "", "498906", 1),
)


def request(name: str, setup: str, body: str, loop: bool = False) -> Request:
    """Make a request out of the bytes of a row."""
    lines = (Line(bytes.fromhex(setup), "setup"),) if setup else ()
    return Request(Microbenchmark(lines, (Line(bytes.fromhex(body), name),), name), loop=loop)


def main() -> None:
    """Print the table."""
    backend = TscBackend()
    measurer = Measurer(backend)
    latencies = [request(*row) for row in CHAINS]
    throughputs = [request(name, setup, body, loop) for name, setup, body, _ in THROUGHPUTS for loop in (False, True)]
    divisors = [1] * len(latencies) + [row[3] for row in THROUGHPUTS for _ in (False, True)]
    started = time.monotonic()
    runs = [measurer.measure(latencies + throughputs) for _ in range(RUNS)]
    seconds = time.monotonic() - started
    print(
        f"{backend.info().provenance.cpu}, {RUNS} runs, {seconds / RUNS / len(divisors) * 1e3:.1f} ms per measurement"
    )
    for index, divisor in enumerate(divisors):
        values = [float(run[index].cycles) / divisor for run in runs]
        asked, notes = runs[0][index].request, {run[index].detail for run in runs} - {""}
        mode = "" if index < len(latencies) else " (loop)" if asked.loop else " (unrolled)"
        middle = sorted(values)[RUNS // 2]
        error = f"{100 * (middle / max(1, round(middle)) - 1):+6.1f}%" if index < len(latencies) else " " * 7
        shown = " ".join(f"{value:7.3f}" for value in values)
        apart = f"{max(values) - min(values):.3f}"
        print(f"{asked.benchmark.purpose + mode:46} {shown}  range {apart} {error} {'; '.join(notes)}")
    backend.close()


if __name__ == "__main__":
    main()
