"""The numbers of copies and iterations of a microbenchmark.

Exact counters are read around 10 and 110 unrolled copies (uops.info, section 6.2; fewer if 110 exceed the L1
instruction cache). A coarse clock needs longer runs: a fenced loop repeats the unrolled copies until a run takes about
`TARGET_CYCLES`. In loop mode, both sizes are loops around few copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from inference.experiment import Request

FEW_COPIES, MANY_COPIES = 10, 110
"""Unrolled copies of the two sizes; 100 between them make a hundredth of a count visible (uops.info, section 6.2)."""

CODE_BUDGET_BYTES = 24 << 10
"""Three quarters of a 32 KiB L1 instruction cache: the rest is for harness, calibration and driver."""

LOOP_LINES = 16
"""Instructions in the smaller loop."""

STEADY_LOOP_LINES = 48
"""Instructions in the smaller loop on a clock, at least. On Zen 5 loops of 12 and 24 POPCNTs take 1.5 and 0.6 cycles
more than their ports need, from 36 on all take 0.5 more. So the difference of 12 and 48 made 6.8 per cycle out of
6."""

LOOP_GROWTH = 4
"""The larger loop has this many times the copies of the smaller one."""
LOOP_ITERATIONS = 100
"""Iterations of both; 16 and 64 instructions fit into every µop cache (uops.info, section 5.3.1)."""

TARGET_CYCLES = 30_000
"""Long enough for a tick of 26 TSC cycles to be 0.1%, short enough for an interrupt to hit few repetitions."""

MAX_CYCLES = 100_000
"""Core cycles: copies that take longer together run once, and fewer of them."""

MAX_ITERATIONS = 400
"""Of a fenced loop, also around the fastest code: beyond that, its ticks are far above the clock's step."""

FENCE_CYCLES = 20
"""About what the fence and the end of an iteration take, in core cycles (Zen 5, Skylake)."""

TRIAL_ITERATIONS = 10
"""Of a trial run: its ticks are above the clock's step, and code that hangs is found soon."""

SHORT_TICKS = 1000
"""Ticks. With the sizes for a clock even the fastest code takes several times as many. What takes fewer was slower in
its trial run."""

TOO_SMALL = 4
"""Sizes are chosen anew where the measured time calls for this many times as many copies, or more."""

STEADY_LINES = 100
"""On a clock the window begins after this many instructions: on Zen 5 it takes 60 until a scheduler is full. Until
then a copy looks fast: on Ice Lake 4.3 LEAs per cycle between 10 and 50 of them, and 4.0 from 100 to 200."""


WINDOW_LINES = 200
"""On a clock the window has at least this many instructions. On Zen 5 the end of a run is hidden better behind more of
them: 6.3 POPCNTs per cycle between 100 and 200, and 5.9 between 100 and 300, with six ports."""


class RunSize(NamedTuple):
    """One run: copies of the body, iterations of the loop around them (0: none), fenced or not."""

    copies: int
    iterations: int
    fenced: bool = False


def exact_sizes(request: Request) -> tuple[RunSize, ...]:
    """Return the sizes for a backend whose counters count every cycle."""
    few, many = _copies(request)
    iterations = LOOP_ITERATIONS if request.loop else 0
    return (RunSize(few, iterations), RunSize(many, iterations))


def trial_size(request: Request) -> RunSize:
    """Return the size of a trial run, which shows whether the code runs at all, and about how long a copy takes."""
    few, _ = _copies(request)
    return RunSize(few, TRIAL_ITERATIONS, fenced=True)


def trial_copy_cycles(request: Request, trial_cycles: float) -> float:
    """Return about how many core cycles a copy takes whose trial run took `trial_cycles` of them."""
    return max(0.1, (trial_cycles / TRIAL_ITERATIONS - FENCE_CYCLES) / trial_size(request).copies)


def clock_sizes(request: Request, trial_cycles: float) -> tuple[RunSize, ...]:
    """Return the sizes for a clock; `trial_cycles` is what the trial run took, in core cycles."""
    few, many = _copies(request, steady=True)
    copy_cycles = trial_copy_cycles(request, trial_cycles)
    if many * copy_cycles > MAX_CYCLES:
        many = max(4, int(MAX_CYCLES / copy_cycles))
        few = max(1, many // 11)
        return (RunSize(few, 1, fenced=True), RunSize(many, 1, fenced=True))
    iterations = max(1, min(MAX_ITERATIONS, round(TARGET_CYCLES / (FENCE_CYCLES + many * copy_cycles))))
    fenced = not request.loop
    return (RunSize(few, iterations, fenced), RunSize(many, iterations, fenced))


def larger_sizes(request: Request, size: RunSize, cycles: float) -> tuple[RunSize, ...] | None:
    """Return larger sizes if a run of that size took far too few core cycles (None: it did not).

    Stores retire before they are done, and seem fast until buffers are full. On Zen 5, a trial run of CLZERO took
    250 cycles each. Two iterations of a loop around 48 of them took only 100 cycles, as many as of a loop around 12.
    """
    copy_cycles = cycles / (size.copies * max(1, size.iterations))
    trial_cycles = TRIAL_ITERATIONS * (FENCE_CYCLES + copy_cycles * trial_size(request).copies)
    sizes = clock_sizes(request, trial_cycles)
    is_larger = sizes[-1].copies * sizes[-1].iterations > TOO_SMALL * size.copies * max(1, size.iterations)
    return sizes if is_larger else None


def _copies(request: Request, *, steady: bool = False) -> tuple[int, int]:
    size, lines = max(1, len(request.benchmark.body_code)), max(1, len(request.benchmark.body))
    if request.loop:
        few = max(1, -(-STEADY_LOOP_LINES // lines) if steady else LOOP_LINES // lines)
        many = few * LOOP_GROWTH
    else:
        few = max(FEW_COPIES, -(-STEADY_LINES // lines)) if steady else FEW_COPIES
        many = few + max(MANY_COPIES - FEW_COPIES, -(-WINDOW_LINES // lines) if steady else 0)
    most = max(2, CODE_BUDGET_BYTES // size)
    return (few, many) if many <= most else (max(1, most * few // many), most)
