"""Pointer chasing: a ring of pointers, one in each cache line of a buffer.

The ring goes through the lines in steps of about the golden section of its length. So successive lines are far apart,
and no prefetcher can guess the next one. A loop writes it in the first repetition. Each run continues where the last
one ended.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from generator.memory.forwarding import LINE_BYTES, PAGE_BYTES
from generator.microbenchmark import Microbenchmark
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line

GOLDEN = 0.618
LOADS = 16
"""Loads in one copy, after which the place in the ring is stored."""
SAVED = MemoryAddress("R14", displacement=-2 * LINE_BYTES)
"""Where the place in the ring is kept."""


def step_of(places: int) -> int:
    """Return the length of a step in places; steps of this length visit every place."""
    step = max(1, round(places * GOLDEN))
    while gcd(step, places) != 1:
        step += 1
    return step


PAGE_STRIDE = PAGE_BYTES + LINE_BYTES
"""Bytes from one pointer to the next where each is in a page of its own, and all sets of a cache are used."""


def chase(instructions: InstructionFactory, size_bytes: int, stride: int = LINE_BYTES) -> Microbenchmark:
    """Return the code that follows a ring through `size_bytes` from R14 on, with a pointer every `stride` bytes."""
    make, places = instructions.line, max(2, size_bytes // stride)
    once = _writing(instructions, places, stride)
    setup = (make("MOV (R64, M64)", "RAX", SAVED),)
    body = (
        *LOADS * (make("MOV (R64, M64)", "RAX", MemoryAddress("RAX")),),
        make("MOV (M64, R64)", SAVED, "RAX"),
    )
    return Microbenchmark(setup, body, f"pointers through {size_bytes} bytes, {stride} bytes apart", LOADS, once=once)


def _at(base: str, displacement: int) -> MemoryAddress:
    return MemoryAddress(base, displacement=displacement, displacement_bits=32)


def _writing(instructions: InstructionFactory, places: int, stride: int) -> tuple[Line, ...]:
    """Return a loop that writes the ring. RAX is the place in bytes, RDX the next one, RCX how many are left."""
    make, total = instructions.line, places * stride
    loop = (
        make("LEA_B_D32 (R64)", "RDX", _at("RAX", step_of(places) * stride)),
        make("LEA_B_D32 (R64)", "RBX", _at("RDX", -total)),
        make("CMP (R64, I32)", "RDX", total),
        make("CMOVNB (R64, R64)", "RDX", "RBX"),
        make("LEA_B_I (R64)", "RBX", MemoryAddress("R14", "RDX", 1)),
        make("MOV (M64, R64)", MemoryAddress("R14", "RAX", 1), "RBX"),
        make("ADD (R64, I32)", "RAX", stride),
        make("DEC (R64)", "RCX"),
    )
    size = sum(len(line.code) for line in loop)
    jump = make("JNZ (Rel8)", -(size + 2))
    first = (
        make("MOV (M64, R64)", SAVED, "R14"),
        make("MOV (R32, I32)", "ECX", places),
        make("MOV (R32, I32)", "EAX", 0),
    )
    return (*first, *loop, jump)
