"""Native code beside the code under test: calibration chain, driver, signal handlers, CPUID.

A chain of IMUL r64, r64 counts core cycles: it takes 3 of them on every x86-64 core from Nehalem and Zen on (Fog,
"Instruction tables"; uops.info). Unlike ADD it is nowhere done at rename.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from generator.facts import read_facts
from generator.harness.assembly import PATCH_CONTEXT, PROBE_COPIES, PROBE_ITERATIONS, fixed_fragments
from generator.harness.harness import ALIGNMENT, ENTRY_OFFSET, RDTSC, render
from generator.harness.style import PLAIN, Style
from generator.microbenchmark import Line, Microbenchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IMUL_CORE_CYCLES = 3
"""Latency of IMUL r64, r64, in core cycles."""

CHAIN_COPIES = 30
"""IMULs per iteration of the calibration chain: 90 cycles, so that the end of the loop is hidden behind them."""

SHORT_ITERATIONS = 1
"""Iterations of the short calibration; what it takes besides IMULs, the long one takes, too."""

PLACEHOLDER = 0x0BADBEE5
"""Stands in a blob where whoever runs it writes how many iterations it wants."""

_CHAIN = Microbenchmark(
    setup=(), body=(Line(bytes.fromhex("480fafc0"), "IMUL RAX, RAX"),), purpose="calibration of the clock"
)

PROBE_ADDS = 8 * PROBE_COPIES * PROBE_ITERATIONS
"""ADDs of a contention probe."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Two blobs of the same chain and two contention probes; the long chain takes `core_cycles` more core cycles.

    The contention probe keeps every ALU busy, so it takes longer where another thread uses the same core. The chain
    does not: it leaves most of the core free. The load probe also loads, and runs beside code that accesses memory.
    """

    short: bytes
    long: bytes
    core_cycles: int
    contention_probe: bytes
    load_probe: bytes


def calibration(iterations: int, copies: int = CHAIN_COPIES) -> Calibration:
    """Return the calibration blobs that differ by `iterations` of a loop of `copies` IMULs."""
    return Calibration(
        render(_CHAIN, copies, SHORT_ITERATIONS, RDTSC),
        render(_CHAIN, copies, SHORT_ITERATIONS + iterations, RDTSC),
        IMUL_CORE_CYCLES * copies * iterations,
        contention_probe(),
        contention_probe(loads=True),
    )


def contention_probe(inside: int = 0, *, loads: bool = False) -> bytes:
    """Return the blob of a contention probe; see templates/contention_probe.asm.j2, and load_probe.asm.j2 for `loads`.

    With `inside` it is part of another blob, `inside` bytes behind its beginning, and takes the context from there.
    """
    parts = fixed_fragments("load_probe" if loads else "contention_probe")
    starts = dict(zip(parts, accumulate(map(len, parts.values()), initial=ENTRY_OFFSET), strict=False))
    code = bytearray(_joined(parts, {"adds": starts["adds"], "read": starts["pass"]}))
    marker = code.index(struct.pack("<I", PATCH_CONTEXT))
    struct.pack_into("<i", code, marker, -(marker + 4) - inside)
    return bytes(code)


def least_probe_cycles(architecture: str) -> Fraction | None:
    """Return the least core cycles that the contention probe can take, None where the number of ALUs is not known.

    Source: `adds_per_cycle.tsv`, with the maker's manual beside each row.
    """
    rows = read_facts("adds_per_cycle.tsv", ("architecture", "adds", "source"), ("architecture",))
    return next((Fraction(PROBE_ADDS, int(row["adds"])) for row in rows if row["architecture"] == architecture), None)


@dataclass(frozen=True, slots=True)
class Clocked:
    """A blob that measures another by the clock alone, which begins at `test_offset`.

    Its counters are the ticks of the blob under test, of `core_cycles` core cycles of the calibration chain, and of the
    contention probe (see `Calibration`).
    """

    blob: bytes
    test_offset: int


def clocked(
    benchmark: Microbenchmark,
    copies: int,
    iterations: int,
    calibration_iterations: int,
    style: Style = PLAIN,
    *,
    loads: bool = False,
) -> Clocked:
    """Return a blob for the kernel module, which has no driver around blobs; see templates/kernel_clock.asm.j2.

    With `loads`, the contention probe is the one that loads.
    """
    parts = fixed_fragments("kernel_clock")
    inner: list[Callable[..., bytes]] = [
        partial(render, _CHAIN, CHAIN_COPIES, SHORT_ITERATIONS, RDTSC, PLAIN),
        partial(render, _CHAIN, CHAIN_COPIES, SHORT_ITERATIONS + calibration_iterations, RDTSC, PLAIN),
        partial(contention_probe, loads=loads),
        partial(render, benchmark, copies, iterations, RDTSC, style),
    ]
    blob = bytearray(ENTRY_OFFSET + sum(map(len, parts.values())))
    offsets = []
    for made in inner:
        blob += bytes(-len(blob) % ALIGNMENT)
        offsets.append(len(blob))
        blob += made(inside=len(blob))
    short, long, probe, test = (offset + ENTRY_OFFSET for offset in offsets)
    head = _joined(parts, {"context": 0, "short": short, "long": long, "test": test, "contention_probe": probe})
    blob[: len(head)] = head
    return Clocked(bytes(blob), offsets[-1])


def _joined(parts: Mapping[str, bytes], targets: Mapping[str, int]) -> bytes:
    """Return the fragments from the entry on, with the distances to their targets at their ends."""
    head = bytes(ENTRY_OFFSET)
    for name, code in parts.items():
        head += code
        if name in targets:
            head = head[:-4] + struct.pack("<i", targets[name] - len(head))
    return head


@functools.cache
def driver(name: str) -> bytes:
    """Return the code of a driver, a function of the System V ABI with one argument; see the templates *_driver."""
    parts = fixed_fragments(f"{name}_driver")
    loop = parts["repeat"]
    return parts["begin"] + loop[:-4] + struct.pack("<i", -len(loop)) + parts["end"]


def fault_handler(record_address: int) -> bytes:
    """Return the code of a signal handler that maps pages, notes steps, or fills the record and ends the process."""
    parts = fixed_fragments("fault_handler")
    places, at = {}, ENTRY_OFFSET
    for name, part in parts.items():
        places[name] = at
        at += len(part)
    to_fatal = ("not_a_page_fault", "general_protection", "serves_nothing", "too_many", "too_low", "not_mapped")
    targets = dict.fromkeys((*to_fatal, "notes_nothing"), places["fatal"])
    targets |= {"not_a_step": places["check_fault"], "no_room": places["end_of_steps"]}
    code = bytearray(_joined(parts, targets))
    struct.pack_into("<Q", code, 0, record_address)
    return bytes(code)


def signal_sampler() -> bytes:
    """Return a signal handler that notes RIP and R15 in a buffer, whose address goes into the first 8 bytes."""
    return bytes(ENTRY_OFFSET) + fixed_fragments("signal_sampler")["sampler"]


def chain() -> tuple[bytes, int]:
    """Return the calibration chain as a loop whose number of iterations is `PLACEHOLDER`, and its cycles each."""
    return render(_CHAIN, CHAIN_COPIES, PLACEHOLDER, RDTSC), IMUL_CORE_CYCLES * CHAIN_COPIES


def cpuid() -> bytes:
    """Return the code of CPUID as a function of leaf, subleaf and the address of four u32; see its template."""
    return fixed_fragments("cpuid")["cpuid"]
