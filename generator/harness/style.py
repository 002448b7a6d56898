"""Options of the harness around a microbenchmark; imports nothing, since every command needs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What registers and memory are when the body begins.

    ZERO: registers are zero, but R14, RSI, RDI, RBP and RSP point into areas of their own. GIVEN: all registers are
    the context's value, and so is the page that serves all addresses. AGAIN: registers are so before every iteration.
    """

    ZERO = "zero"
    GIVEN = "given"
    AGAIN = "again"


LOOP_REGISTERS = {
    **{f"r{number}": f"r{number}d" for number in range(15, 7, -1)},
    **{f"r{name}": f"e{name}" for name in ("bx", "bp", "si", "di", "dx", "cx", "ax", "sp")},
}
"""Registers that can count iterations, and their lower halves; the first that the code leaves alone is to be taken."""


@dataclass(frozen=True, slots=True)
class Style:
    """What else is fixed about a blob.

    `fenced` puts an LFENCE before every iteration of the loop, so that iterations do not overlap. A fenced loop around
    unrolled copies measures what unrolled copies do, many times over. `clean_uppers` adds VZEROUPPER at entry and exit
    (for CPUs with AVX enabled). The body begins `offset_bytes` behind a multiple of `harness.ALIGNMENT`. `drained`
    puts long NOPs before it, so that the front end's queues hold nothing else. `state` and `loop_register` (of
    `LOOP_REGISTERS`; not used in the state AGAIN) say which registers the body may use. In the state AGAIN, `warm_up`
    iterations go first, which are not counted. `clear_end` puts a NOP before the end of a loop that has no LFENCE, so
    that its jump touches no 32-byte boundary.
    """

    fenced: bool = False
    clean_uppers: bool = False
    offset_bytes: int = 0
    drained: bool = False
    state: State = State.ZERO
    loop_register: str = "r15"
    warm_up: int = 0
    clear_end: bool = False


PLAIN = Style()

PAUSE, RESUME = bytes.fromhex("043f81c2b113b5f0"), bytes.fromhex("043f81c2b113b5e0")
"""Marks in a body: what is between them is not counted. The bytes are nanoBench's (its README, "Pausing Performance
Counting"). A body with marks must not write R13, and flags are lost at each mark."""
