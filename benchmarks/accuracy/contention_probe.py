"""Whether the contention probe sees what disturbs code: `python -m benchmarks.accuracy.contention_probe --neighbour 0`.

The neighbour's CPU runs one kind of code after another without an end (`NEIGHBOURS`), and meanwhile each of `CODES` is
timed on the CPU that `--cpu` names. A repetition that takes over 5% longer than on a quiet core is slow. The probe
missed it if it called the repetition quiet. A host may move virtual CPUs, so that a neighbour shares the core for some
of the time only. So each neighbour is tried several times.

Each kind of neighbour has a row of the table: repetitions, slow ones, missed ones, and the code that has most of these.
`--keep` writes `contention_probe.ARCHITECTURE.tsv`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from generator.microbenchmark import Microbenchmark
from results.model import Status
from runner.backend import Job, Repeat
from runner.backends.tsc import create
from runner.measuring.quiet import CONTENTION_SLACK, Repetitions
from runner.own_code.code import lines_of
from runner.own_code.reading.text import assemble
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.backend import Backend

SLOW = 1.05
"""A repetition is slow if it takes this many times as long as the same code on a quiet core."""

FASTEST = 0.1
"""Share of the repetitions beside a neighbour that are faster than the one that stands for them: few may be quiet."""

AGREEING = 2
"""Beside so many neighbours code has to be so fast: one time may be too fast by mistake."""

VISITS, RUNS, REPETITIONS, COPIES, ITERATIONS = 3, 10, 200, 10, 40
"""Visits to each neighbour, and what is run at each of them of each code: 100 to 500 ms."""

START_SECONDS = 0.3
"""Until a neighbour has started."""

SPIN = """
import ctypes, mmap, os, signal, struct, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.sched_setaffinity(0, {int(sys.argv[1])})
data = mmap.mmap(-1, 8192)
at = ctypes.addressof(ctypes.c_char.from_buffer(data))
struct.pack_into("<Q", data, 0, at)
begin = bytes.fromhex("49be") + struct.pack("<Q", at) + bytes.fromhex(sys.argv[2])
code = bytes.fromhex(sys.argv[3])
code = begin + code + b"\\xe9" + struct.pack("<i", -(len(code) + 5))
page = mmap.mmap(-1, 65536, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
"""Runs code for ever, until its parent ends. R14 points to memory that holds its own address."""

BEGIN = "mov eax, 0x3f800000; vmovd xmm0, eax; vshufps xmm0, xmm0, xmm0, 0; vmovaps xmm1, xmm0; vmovaps xmm8, xmm0"
"""Gives vectors ordinary numbers: 1.0 in each place of 32 bits, which is 0.0078 in those of 64."""

NEIGHBOURS = {
    "PAUSE": "pause",
    "chain of ADDs": "add rax, rax",
    "chain of IMULs": "imul rax, rax",
    "chain of loads": "mov r14, [r14]",
    "stores": "mov [r14+8], rax",
    "independent ADDs": "add rax, r14; add rbx, r14; add rcx, r14; add rdx, r14",
    "chain of VDIVSD": "vdivsd xmm0, xmm0, xmm0",
    "chain of VDIVPD (256 bits)": "vdivpd ymm0, ymm0, ymm0",
    "chain of VSQRTPS (256 bits)": "vsqrtps ymm0, ymm0",
    "chain of VMULPD (256 bits)": "vmulpd ymm0, ymm0, ymm0",
    "independent VMULPD (256 bits)": "vmulpd ymm0, ymm8, ymm8; vmulpd ymm1, ymm8, ymm8",
    "chain of VPSHUFB (256 bits)": "vpshufb ymm0, ymm0, ymm0",
    "chain of VPMULLD (256 bits)": "vpmulld ymm0, ymm0, ymm0",
    "chain of AESENC": "vaesenc xmm0, xmm0, xmm0",
    "chain of VMULPD (512 bits)": "vmulpd zmm0, zmm0, zmm0",
    "independent VMULPD (512 bits)": "vmulpd zmm0, zmm8, zmm8; vmulpd zmm1, zmm8, zmm8",
    "chain of VSQRTPD (512 bits)": "vsqrtpd zmm0, zmm0",
    "a VPADDD (512 bits) for ten IMULs": "vpaddd zmm0, zmm0, zmm0" + "; imul rax, rax" * 10,
}
"""Code that uses few units or few issue slots, many of them, and vectors of each width."""

UNROLLED = 64
"""Copies of a neighbour's code per jump, so that the jump takes few issue slots."""

REGISTERS = ("rax", "rbx", "rcx", "rdx", "rdi", "r8", "r9", "r10")

CODES = {
    "ADD": [f"add {one}, r11" for one in REGISTERS],
    "IMUL": [f"imul {one}, r11" for one in REGISTERS],
    "MOV, load": [f"mov {one}, [r14]" for one in REGISTERS],
    "MOV, store": [f"mov [r14+{place}], rax" for place in range(0, 64, 8)],
    "VADDPD": [f"vaddpd ymm{place}, ymm8, ymm9" for place in range(8)],
    "VPSHUFB": [f"vpshufb ymm{place}, ymm8, ymm9" for place in range(8)],
    "VPSLLD": [f"vpslld ymm{place}, ymm8, 3" for place in range(8)],
    "AESENC": [f"vaesenc xmm{place}, xmm8, xmm9" for place in range(8)],
    "VPMULLD": [f"vpmulld ymm{place}, ymm8, ymm9" for place in range(8)],
    "VDIVSS": [f"vdivss xmm{place}, xmm8, xmm9" for place in range(8)],
    "VDIVPD": [f"vdivpd ymm{place}, ymm8, ymm9" for place in range(8)],
    "VSQRTPS": [f"vsqrtps ymm{place}, ymm8" for place in range(8)],
    "VPADDD, 512 bits": [f"vpaddd zmm{place}, zmm8, zmm9" for place in range(8)],
    "VMULPD, 512 bits": [f"vmulpd zmm{place}, zmm8, zmm9" for place in range(8)],
}
"""Code whose times are known to suffer: it needs ports, the divider, loads or stores."""

Times = list[tuple[float, float]]
"""Of repetitions: the code and its contention probe, in calibrations."""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cpu", type=int, help="the CPU to measure on (default: the last one)")
    parser.add_argument("--neighbour", type=int, required=True, help="a CPU that shares its core")
    parser.add_argument("--keep", action="store_true", help="write the table")
    options = parser.parse_args()
    backend = create(options.cpu)
    if backend.info().provenance.options["cpu"] == str(options.neighbour):
        parser.error(f"--neighbour {options.neighbour} is the CPU that is measured on")
    try:
        lines = table(measured(backend, options.neighbour))
    finally:
        backend.close()
    print(*lines, sep="\n")
    if options.keep:
        architecture = backend.info().provenance.architecture
        with atomic_write(Path(__file__).with_name(f"contention_probe.{architecture}.tsv")) as file:
            file.write("\n".join([*lines, ""]).encode())


def measured(backend: Backend, cpu: int) -> dict[str, dict[str, Times]]:
    """Return the times of each code beside each neighbour, without those that this CPU cannot run."""
    jobs = {name: job(lines) for name, lines in CODES.items()}
    jobs = {name: one for name, one in jobs.items() if timed(backend, one)}
    left = {"none": "", **NEIGHBOURS}
    times: dict[str, dict[str, Times]] = {name: {code: [] for code in jobs} for name in left}
    for _ in range(VISITS):
        for name in list(left):
            with neighbour(cpu, left[name]) as is_alive:
                for code, one in jobs.items():
                    times[name][code] += timed(backend, one)
                if not is_alive():
                    del left[name], times[name]
    for name in [*(CODES.keys() - jobs.keys()), *(NEIGHBOURS.keys() - left.keys())]:
        print(f"# left out, since this CPU cannot run it: {name}", file=sys.stderr)
    return times


def job(lines: Sequence[str]) -> Job:
    """Return the run of code."""
    body = lines_of(assemble("; ".join(lines)))
    return Job(Microbenchmark((), body, "beside a neighbour"), COPIES, ITERATIONS, loads_beside=loads(lines))


def loads(lines: Sequence[str]) -> bool:
    """Whether code accesses memory, so that its probe loads, too."""
    return "[" in lines[0]


def timed(backend: Backend, one: Job) -> Times:
    """Return the times of all repetitions whose calibration was not disturbed; none if the code does not run."""
    found: Times = []
    for result in backend.run([one] * RUNS, backend.info().counters, Repeat(repetitions=REPETITIONS)):
        if result.status is Status.OK:
            seen = Repetitions.of(result.samples)
            times = zip(result.samples["tsc"], result.samples["calibration"], seen.ratios, seen.steady, strict=True)
            found += [(ticks / calibration, ratio) for ticks, calibration, ratio, steady in times if steady]
    return found


def table(times: Mapping[str, Mapping[str, Times]]) -> list[str]:
    """Return the lines of the table: repetitions beside each neighbour, slow and missed ones, and the code of most."""
    codes = next(iter(times.values()))
    quiet = {code: best([each[code] for each in times.values() if each[code]]) for code in codes}
    probes: dict[bool, float] = {}
    for code in codes:
        kind = loads(CODES[code])
        probes[kind] = min(quiet[code][1], probes.get(kind, quiet[code][1]))
    lines = ["neighbour\trepetitions\tslow\tmissed\tmost_missed"]
    for name, beside in times.items():
        slow, missed = 0, Counter[str]()
        for code, found in beside.items():
            late = [ratio for cycles, ratio in found if cycles > SLOW * quiet[code][0]]
            slow += len(late)
            missed[code] += sum(ratio <= CONTENTION_SLACK * probes[loads(CODES[code])] for ratio in late)
        (code, most), *_ = missed.most_common(1)
        total = sum(map(len, beside.values()))
        lines.append(f"{name}\t{total}\t{slow}\t{missed.total()}\t{f'{code} ({most})' if most else ''}")
    return lines


def best(beside: Sequence[Times]) -> tuple[float, float]:
    """Return the time of a code and of its probe on a quiet core, from the times beside each neighbour."""
    fastest = [[sorted(one)[int(FASTEST * len(one))] for one in zip(*each, strict=True)] for each in beside]
    first, second = (sorted(column)[min(AGREEING, len(column)) - 1] for column in zip(*fastest, strict=True))
    return first, second


@contextmanager
def neighbour(cpu: int, text: str) -> Iterator[Callable[[], bool]]:
    """Keep a CPU busy with code without an end ("": leave it idle), and tell whether it still runs."""
    begin, code = (assemble(one).hex() if text else "" for one in (BEGIN, "; ".join([text] * UNROLLED)))
    command = [sys.executable, "-I", "-S", "-c", SPIN, str(cpu), begin, code]
    process = subprocess.Popen(command) if text else None
    try:
        time.sleep(START_SECONDS)
        yield lambda: process is None or process.poll() is None
    finally:
        if process is not None:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
