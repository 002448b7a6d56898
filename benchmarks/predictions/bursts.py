"""Which vector pipe each of a few instructions takes on a Zen 4: times of bursts, each behind an LFENCE.

    python -m benchmarks.predictions.bursts [--cpu N] [--output FILE]

LFENCE waits until all earlier code is done, so that nothing waits in the schedulers. The time of the few instructions
behind it is that of the pipe that has most of their µops. All sequences of two to five of `INSTRUCTIONS` that end with
a vector instruction are measured, each three times, and the least time counts. It is compared with two predictions:

- the best choice of pipes;
- the rule: places 0, 2, 4 of the six instructions that are issued in a cycle go to one pair of pipes, the other places
  to the other pair. A µop that both pipes of its pair can do takes them in turns.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import product
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from generator.factory import InstructionFactory
from results.model import PortUsage
from results.ports import throughput_of
from runner.backends.registry import open_backend
from runner.own_code.blocks import BlockMeasurer, BlockMode, BlockOptions
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence


class BurstInstruction(NamedTuple):
    """An instruction of a cycle: its variant, the registers that it reads, and its vector pipes (empty: none)."""

    string: str
    sources: tuple[str, ...]
    pipes: frozenset[str]


INSTRUCTIONS = {
    "M": BurstInstruction("VPABSB (YMM, YMM)", ("YMM14",), frozenset("01")),
    "S": BurstInstruction("VPSHUFB (YMM, YMM, YMM)", ("YMM14", "YMM15"), frozenset("12")),
    "L": BurstInstruction("VPAND (YMM, YMM, YMM)", ("YMM14", "YMM15"), frozenset("0123")),
    "i": BurstInstruction("ANDN (R64, R64, R64)", ("R8", "R9"), frozenset()),
}
"""The instruction of each letter, with pipes as uops.info publishes them. No sequence writes what it reads."""

WIDTH = 6
"""Instructions that are issued per cycle."""

PAIRS = (frozenset("02"), frozenset("13"))
"""The pipes of each scheduler."""

ROUNDS = 3
"""Measurements of each burst."""

NEAR = 0.2
"""Cycles by which a time may differ from the prediction."""

LFENCE = bytes.fromhex("0faee8")


def bursts(longest: int) -> list[str]:
    """Return the sequences of two to `longest` letters that end with a vector instruction."""
    found = ("".join(letters) for length in range(2, longest + 1) for letters in product(INSTRUCTIONS, repeat=length))
    return [one for one in found if INSTRUCTIONS[one[-1]].pipes]


def code_of(burst: str, instructions: InstructionFactory) -> bytes:
    """Return an LFENCE and the burst. Each instruction writes a register of its own."""
    lines = []
    for place, one in enumerate(map(INSTRUCTIONS.__getitem__, burst)):
        written = f"YMM{place}" if one.pipes else f"R{10 + place}"
        lines.append(instructions.line(one.string, written, *one.sources))
    return LFENCE + b"".join(line.code for line in lines)


def best(burst: str) -> float:
    """Return the cycles of a burst with the best choice of pipes."""
    usage = Counter(INSTRUCTIONS[letter].pipes for letter in burst if INSTRUCTIONS[letter].pipes)
    return ceil(throughput_of(PortUsage(dict(usage))))


def by_rule(burst: str) -> float:
    """Return the mean cycles of a burst by the rule, over all states in which earlier code leaves the pairs."""
    return fmean(_by_rule(burst, turns) for turns in product((0, 1), repeat=len(PAIRS)))


def _by_rule(burst: str, before: Sequence[int]) -> int:
    """Return the cycles of a burst by the rule. `before` says which pipe of each pair has its turn first."""
    free = Counter[str]()
    turns = list(before)
    for place, letter in enumerate(burst):
        pair = place % WIDTH % 2
        possible = sorted(PAIRS[pair] & INSTRUCTIONS[letter].pipes)
        if not possible:
            continue
        pipe = possible[turns[pair] % len(possible)]
        turns[pair] += len(possible) > 1
        free[pipe] = max(free[pipe], place // WIDTH) + 1
    return max(free.values(), default=0)


def measured(sequences: list[str], cpu: int | None) -> list[float]:
    """Return the cycles of each burst, without those of the LFENCE: a single instruction takes one."""
    instructions = InstructionFactory(Catalogue.load())
    codes = [code_of(one, instructions) for one in ["S", *sequences]]
    backend = open_backend("tsc", cpu=cpu)
    try:
        mode = BlockMode.UNROLLED
        measurer = BlockMeasurer(backend, BlockOptions(modes=(mode,)))
        rounds = [[one.timings[mode].cycles for one in measurer.measure(codes)] for _ in range(ROUNDS)]
    finally:
        backend.close()
    single, *each = (min(float(cycles) for cycles in times if cycles) for times in zip(*rounds, strict=True))
    return [1 + cycles - single for cycles in each]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cpu", type=int)
    parser.add_argument(
        "--longest", type=int, choices=range(2, WIDTH + 1), default=5, help="instructions of the longest burst"
    )
    parser.add_argument("--output", type=Path, help="write burst, measured cycles, rule and best choice as TSV")
    options = parser.parse_args()
    sequences = bursts(options.longest)
    cycles = measured(sequences, options.cpu)
    rows = [(burst, time, by_rule(burst), best(burst)) for burst, time in zip(sequences, cycles, strict=True)]
    for name, column in (("the rule", 2), ("the best choice", 3)):
        near = sum(abs(row[1] - float(row[column])) <= NEAR for row in rows)
        print(f"{near} of {len(rows)} bursts take as long as {name} says, within {NEAR} cycles")
    if options.output:
        lines = [
            "burst\tcycles\trule\tbest",
            *(f"{burst}\t{time:.2f}\t{rule:.2f}\t{least}" for burst, time, rule, least in rows),
        ]
        with atomic_write(options.output) as file:
            file.write("\n".join([*lines, ""]).encode())


if __name__ == "__main__":
    main()
