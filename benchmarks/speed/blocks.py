"""Basic blocks on the clock backend: `python -m benchmarks.speed.blocks TABLE [--count 10000] [--modes unrolled]`.

The table's first column is a block in hexadecimal (BHive's, or what `uopscope blocks` writes; .xz is unpacked). A
sample drawn with a fixed seed is measured twice, each time by a backend of its own. Shown are seconds and milliseconds
per block, the share of blocks with a number, why others have none, and how many blocks the two runs agree about. CPU
time is that of this process and of the one that runs the blocks, in user mode and in the kernel: where other work
shares the core, wall time is longer. `--plain` takes only blocks that touch no memory.
"""

from __future__ import annotations

import argparse
import lzma
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from iced_x86 import Decoder, InstructionInfoFactory

from benchmarks.speed.one_command import Seconds
from runner.backends.registry import open_backend
from runner.own_code.block_rounds import BlockProblem
from runner.own_code.block_shapes import read_blocks
from runner.own_code.blocks import BlockMeasurer, BlockMode, BlockOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.own_code.block_rounds import BlockTiming

TOLERANCES = (0.01, 0.02, 0.05)
MOST_REASONS = 8


def sample(path: Path, count: int, *, plain: bool, seed: int = 1) -> list[bytes]:
    """Return blocks of a table, drawn with a fixed seed."""
    opened = lzma.open if path.suffix == ".xz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        blocks = [block for block in read_blocks(file, str(path)) if not plain or not touches_memory(block)]
    random.Random(seed).shuffle(blocks)
    return blocks[:count]


def touches_memory(block: bytes) -> bool:
    """Whether an instruction of a block uses memory."""
    factory = InstructionInfoFactory()
    return any(factory.info(one).used_memory() for one in Decoder(64, block))


def run(blocks: Sequence[bytes], mode: BlockMode, cpu: int | None) -> tuple[Seconds, list[BlockTiming]]:
    """Measure all blocks; return the seconds, backend and all."""
    started, before = time.monotonic(), sum(os.times()[:4])
    backend = open_backend("tsc", cpu=cpu)
    try:
        found = [one.timings[mode] for one in BlockMeasurer(backend, BlockOptions(modes=(mode,))).measure(blocks)]
    finally:
        backend.close()
    return Seconds(time.monotonic() - started, sum(os.times()[:4]) - before), found


def summary(timing: BlockTiming) -> str:
    """Return why a block has no number, or what may be wrong with it."""
    if timing.ok:
        return f"{timing.problem}, with a number"
    return f"{timing.problem}: {timing.status}" if timing.problem is BlockProblem.NOT_RUN else timing.problem


def main() -> None:
    """Print what two runs took and how far they agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--mode", type=BlockMode, default=BlockMode.UNROLLED)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--cpu", type=int)
    arguments = parser.parse_args()
    blocks = sample(arguments.table, arguments.count, plain=arguments.plain)
    runs = []
    for _ in range(2):
        seconds, found = run(blocks, arguments.mode, arguments.cpu)
        runs.append(found)
        there = sum(one.ok for one in found)
        wall, used = (f"{one:.1f} s, {1000 * one / len(blocks):.2f} ms each" for one in seconds)
        print(f"{len(blocks)} blocks in {wall}; CPU {used}; {100 * there / len(blocks):.1f}% have a number")
        reasons = Counter(summary(one) for one in found if one.problem)
        for reason, number in reasons.most_common(MOST_REASONS):
            print(f"  {number:6} {reason}")
    pairs = [(one.cycles, two.cycles) for one, two in zip(*runs, strict=True) if one.cycles and two.cycles]
    for tolerance in TOLERANCES:
        agree = sum(abs(one - two) <= tolerance * min(one, two) for one, two in pairs)
        print(f"{100 * agree / max(1, len(pairs)):.2f}% of {len(pairs)} agree within {100 * tolerance:.0f}%")


if __name__ == "__main__":
    main()
