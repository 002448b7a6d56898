"""How far the model of retirement is off on loops that are drawn at random, which nobody looked at before.

    python -m benchmarks.predictions.interrupts sample FILE     # interrupts the loops on this CPU, stores the samples
    python -m benchmarks.predictions.interrupts judge FILE      # compares with the model (--arch, --data)

The model has to be fixed before the first run. FILE has a line of JSON per loop. Loops that it has are not sampled
again.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import asdict
from pathlib import Path
from statistics import median

from generator.microbenchmark import Microbenchmark
from runner.host.interrupts.sample import Sampled, Sampling, Source
from runner.interrupts.study import Interrupted, predicted_by, sampled
from runner.own_code.analyzing.analyzed import tools_for
from runner.own_code.code import lines_of
from runner.own_code.reading.text import assemble

SEED, LOOPS = 20190820, 40
SLOW = (
    "imul rax, rax",
    "imul rbx, rbx",
    "mov rcx, [r14+rcx]",
    "mulsd xmm0, xmm0",
    "addsd xmm1, xmm1",
    "sqrtsd xmm2, xmm2",
    "popcnt rdx, rdx",
    "pmulld xmm5, xmm5",
    "crc32 r11, r11",
)
FILLERS = (
    "nop",
    "mov r8d, 1",
    "add r9, 1",
    "lea r10, [r8+8]",
    "xor r12d, r12d",
    "paddd xmm3, xmm4",
    "mov [r14+64], r8",
    "mov r13, [r14+128]",
    "test r8, r8",
)
MOST_SLOW, MOST_FILLERS = 4, 16
SAMPLING = Sampling(1500, rounds=1, seconds=1.0)


def loops() -> list[str]:
    """Return the loops: up to four slow instructions in a row or apart, among up to sixteen others."""
    source = random.Random(SEED)
    found = []
    for _ in range(LOOPS):
        body = [source.choice(SLOW) for _ in range(source.randint(1, MOST_SLOW))]
        body += [source.choice(FILLERS) for _ in range(source.randint(0, MOST_FILLERS))]
        source.shuffle(body)
        found.append("; ".join(body))
    return found


def sample(file: Path) -> None:
    """Sample the loops that the file lacks."""
    done = {json.loads(line)["loop"] for line in file.read_text().splitlines()} if file.exists() else set()
    for loop in loops():
        if loop not in done:
            found = sampled(Microbenchmark((), lines_of(assemble(loop)), "a loop that is interrupted"), SAMPLING)
            with file.open("a") as target:
                print(json.dumps({"loop": loop, "sampled": [asdict(one) for one in found]}), file=target)


def judge(file: Path, architecture: str, data: Path | None = None) -> None:
    """Print a table of all loops, and the medians."""
    print("loop\tcycles\tmodel_cycles\tdistance\tlayouts\tsources\tslower")
    rows: list[Interrupted] = []
    tools = tools_for(architecture, data)
    for line in file.read_text().splitlines():
        read = json.loads(line)
        layouts = [Sampled(**{**one, "counts": tuple(one["counts"])}) for one in read["sampled"]]
        layouts = [Sampled(**{**asdict(one), "source": Source(one.source)}) for one in layouts]
        found = predicted_by(tools, assemble(read["loop"]), tuple(layouts))
        rows.append(found)
        assert found.prediction is not None
        assert found.distance is not None
        numbers = (found.cycles, float(found.prediction.cycles), float(found.distance), float(found.layout_distance))
        shown = "\t".join(f"{one:.3f}" for one in (*numbers, float(found.source_distance or 0)))
        print(f"{read['loop']}\t{shown}\t{'yes' if found.disturbed else ''}")
    alike = [one for one in rows if not one.disturbed]
    for name, some in (("all", rows), ("not slower than the model", alike)):
        distances = [float(one.distance or 0) for one in some]
        print(f"# {len(some)} loops ({name}): median distance {median(distances):.3f}")
    sources = [float(one.source_distance or 0) for one in rows]
    print(f"# distance of the sources: median {median(sources):.3f}, at most 0.05 in {sum(x <= 0.05 for x in sources)}")


def main() -> None:
    """Sample or judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("sample", "judge"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--arch", default="", help="the machine of the model")
    parser.add_argument("--data", type=Path, help="measurements of it, an instructions.xml (default: what is shipped)")
    options = parser.parse_args()
    if options.what == "sample":
        sample(options.file)
    else:
        judge(options.file, options.arch, options.data)


if __name__ == "__main__":
    main()
