"""Which vector pipe each instruction takes on a Zen 3 or a Zen 4: times of bursts, each behind an LFENCE.

    python -m benchmarks.predictions.bursts [--cpu N] [--output FILE]

LFENCE waits until all earlier code is done, so that nothing waits in the schedulers. The time of the instructions
behind it is that of the pipe that has most of their µops. Two kinds of bursts are measured, each three times, and the
least time counts:

- short: all sequences of two to five of the core's letters that end with a vector instruction. Nothing falls behind.
- long: random sequences of six or twelve of its letters, again and again, up to `LONGEST` instructions.

They are compared with two predictions: what the best choice of pipes allows, and the rules of
`inference.ports.fitted.schedulers`.
"""

from __future__ import annotations

import argparse
import random
from contextlib import closing
from functools import reduce
from itertools import product
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from generator.factory import InstructionFactory
from inference.ports.fitted.grouped import IssuedInstruction
from inference.ports.fitted.schedulers import known_schedulers
from results.model import PortUsage
from results.ports import joined, throughput_of
from runner.backends.registry import open_backend
from runner.own_code.blocks import BlockMeasurer, BlockMode, BlockOptions
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.backend import Backend


class BurstInstruction(NamedTuple):
    """An instruction of a burst: its variant, the operands that it reads, and its vector pipes ("": none)."""

    string: str
    sources: tuple[str | int, ...]
    pipes: str


INSTRUCTIONS = {
    "M": BurstInstruction("VPABSB (YMM, YMM)", ("YMM14",), "FP01"),
    "S": BurstInstruction("VPSHUFB (YMM, YMM, YMM)", ("YMM14", "YMM15"), "FP12"),
    "A": BurstInstruction("VPSRAD (YMM, YMM, I8)", ("YMM14", 3), "FP23"),
    "D": BurstInstruction("VMOVDDUP (YMM, YMM)", ("YMM14",), "FP123"),
    "L": BurstInstruction("VPAND (YMM, YMM, YMM)", ("YMM14", "YMM15"), "FP0123"),
    "i": BurstInstruction("ANDN (R64, R64, R64)", ("R8", "R9"), ""),
    "v": BurstInstruction("MOV_89 (R64, R64)", ("R8",), ""),
}
"""The instruction of each letter, with pipes as uops.info publishes them for a Zen 4. No sequence writes what it reads.
A MOV needs no pipe at all, so that long bursts may have six per cycle."""


class BurstCore(NamedTuple):
    """A core: its row of `schedulers.tsv`, and what its bursts are predicted with.

    Args:
        schedulers: the row's name.
        fence_slots: slots of the first group that the LFENCE takes.
        short, long: letters of short bursts, and of long ones.
        pipes: the pipes of those letters that differ from `INSTRUCTIONS`.
    """

    schedulers: str
    fence_slots: int
    short: str
    long: str
    pipes: Mapping[str, str]

    def usage(self, letter: str) -> PortUsage:
        """Return the µop of a letter's instruction on vector pipes, if it has one."""
        pipes = self.pipes.get(letter, INSTRUCTIONS[letter].pipes)
        return PortUsage.parse(f"1*{pipes}" if pipes else "")


CORES = {
    "ZEN3": BurstCore("Zen 3", 1, "MSLi", "MSALv", {"A": "FP12"}),
    "ZEN4": BurstCore("Zen 4", 0, "MSLDi", "MSALDv", {}),
}
"""By microarchitecture. Pipes of a Zen 3 are those of its shipped measurements; there `D` would have those of `S`."""

LONGEST = 120
"""Instructions of a long burst."""

WRITTEN = (13, 5)
"""Vector and general registers that a burst writes in turns, from YMM0 and R10 on."""

WIDTH = 6
"""Instructions that are issued per cycle."""

ROUNDS = 3
"""Measurements of each burst."""

NEAR = 0.2
"""Cycles by which a time may differ from the prediction, or a share of `NEAR_SHARE` if that is more."""

NEAR_SHARE = 0.02

LFENCE = bytes.fromhex("0faee8")


def bursts(letters: str, longest: int) -> list[str]:
    """Return the sequences of two to `longest` letters that end with a vector instruction."""
    found = ("".join(each) for length in range(2, longest + 1) for each in product(letters, repeat=length))
    return [one for one in found if INSTRUCTIONS[one[-1]].pipes]


def long_bursts(letters: str, count: int) -> list[str]:
    """Return `count` random sequences of six or twelve letters, each repeated up to `LONGEST` in steps of a tenth.

    At least half of the letters are vector instructions.
    """
    source = random.Random(1)
    sequences: list[str] = []
    while len(sequences) < count:
        some = source.sample(letters[:-1], source.randint(2, 4)) + ["v"] * source.randint(1, 2)
        one = "".join(source.choice(some) for _ in range(source.choice((WIDTH, 2 * WIDTH))))
        if one.count("v") <= len(one) // 2 and one not in sequences:
            sequences.append(one)
    step = 2 * WIDTH
    return [one * (length // len(one)) for one in sequences for length in range(step, LONGEST + 1, step)]


def code_of(burst: str, instructions: InstructionFactory) -> bytes:
    """Return an LFENCE and the burst. Registers are written in turns."""
    vectors, general = WRITTEN
    lines = []
    for place, one in enumerate(map(INSTRUCTIONS.__getitem__, burst)):
        written = f"YMM{place % vectors}" if one.pipes else f"R{10 + place % general}"
        lines.append(instructions.line(one.string, written, *one.sources))
    return LFENCE + b"".join(line.code for line in lines)


def best(burst: str, core: BurstCore) -> float:
    """Return the cycles that ports and slots allow: no choice of pipes is faster."""
    usage = reduce(joined, map(core.usage, burst))
    return max(ceil(throughput_of(usage)), ceil(len(burst) / WIDTH))


def by_rule(burst: str, core: BurstCore) -> float:
    """Return the mean cycles of a burst by the rules, over all states in which earlier code leaves the schedulers."""
    schedulers = known_schedulers()[core.schedulers]
    fence = [IssuedInstruction(PortUsage.parse(""), 1)] * core.fence_slots
    code = fence + [IssuedInstruction(core.usage(letter), 1) for letter in burst]
    return fmean(schedulers.burst(code, WIDTH, turns)[-1] for turns in product((0, 1), repeat=2))


def measured(sequences: list[str], backend: Backend) -> list[float]:
    """Return the cycles of each burst, without those of the LFENCE: a single instruction takes one."""
    instructions = InstructionFactory(Catalogue.load())
    codes = [code_of(one, instructions) for one in ["S", *sequences]]
    mode = BlockMode.UNROLLED
    measurer = BlockMeasurer(backend, BlockOptions(modes=(mode,)))
    rounds = [[one.timings[mode].cycles for one in measurer.measure(codes)] for _ in range(ROUNDS)]
    single, *each = (min(float(cycles) for cycles in times if cycles) for times in zip(*rounds, strict=True))
    return [1 + cycles - single for cycles in each]


def core_at_hand(backend: Backend) -> BurstCore:
    """Return what the bursts of the measuring CPU are predicted with."""
    name = backend.info().provenance.architecture
    if name not in CORES:
        raise SystemExit(f"nothing is known of bursts on {name}; cores: {', '.join(CORES)}")
    return CORES[name]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cpu", type=int)
    parser.add_argument(
        "--longest", type=int, choices=range(2, WIDTH + 1), default=5, help="instructions of the longest short burst"
    )
    parser.add_argument("--repeated", type=int, default=60, help="sequences of long bursts")
    parser.add_argument("--output", type=Path, help="write burst, measured cycles, rule and best choice as TSV")
    options = parser.parse_args()
    rows = []
    with closing(open_backend("tsc", cpu=options.cpu)) as backend:
        core = core_at_hand(backend)
        for kind, sequences in (
            ("short", bursts(core.short, options.longest)),
            ("long", long_bursts(core.long, options.repeated)),
        ):
            times = zip(sequences, measured(sequences, backend), strict=True)
            found = [(burst, time, by_rule(burst, core), best(burst, core)) for burst, time in times]
            print(*report(kind, found), sep="\n")
            rows += found
    if options.output:
        lines = [
            "burst\tcycles\trule\tbest",
            *(f"{burst}\t{time:.2f}\t{rule:.2f}\t{least}" for burst, time, rule, least in rows),
        ]
        with atomic_write(options.output) as file:
            file.write("\n".join([*lines, ""]).encode())


def report(kind: str, rows: Sequence[tuple[str, float, float, float]]) -> Iterator[str]:
    """Yield how many bursts take as long as predicted, and by what share they are off on average."""
    for name, column in (("the rules say", 2), ("ports and slots allow", 3)):
        pairs = [(row[1], float(row[column])) for row in rows]
        near = sum(abs(time - wanted) <= max(NEAR, NEAR_SHARE * time) for time, wanted in pairs)
        off = fmean([abs(wanted / max(time, 1) - 1) for time, wanted in pairs] or [0.0])
        yield f"{near} of {len(rows)} {kind} bursts take as long as {name}; they are off by {off:.1%}"


if __name__ == "__main__":
    main()
