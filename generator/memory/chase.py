"""Pointer chasing: a ring of pointers, one in each cache line of a buffer.

The order of the lines is pseudo-random, so no prefetcher can guess the next one. A loop writes the ring in the first
repetition. Each run continues where the last one ended.

Steps of one length do not do: the Golden Cove of a Xeon (6-CF-2) guesses those through 128 KiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.memory.forwarding import LINE_BYTES, PAGE_BYTES
from generator.microbenchmark import Microbenchmark, code_bytes
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line

LOADS = 16
"""Loads in one copy, after which the place in the ring is stored."""
SAVED = MemoryAddress("R14", displacement=-2 * LINE_BYTES)
"""Where the place in the ring is kept."""


FACTOR = 0x5D588B65
"""Of the linear congruential generator: 5 modulo 8, so it comes to all numbers of any number of bits."""
INCREMENT = 0x1B873593
"""Of the generator: odd, for the same reason."""


@dataclass(frozen=True, slots=True)
class RingOrder:
    """The pseudo-random order of a ring's places, which starts and ends at place 0.

    A generator counts through a power of two. Its upper half is mixed into its lower one, whose bits repeat after a few
    numbers. What is no place is left out.
    """

    places: int

    @property
    def count(self) -> int:
        """How many numbers the generator counts through."""
        return 1 << self._bits

    @property
    def shift(self) -> int:
        """Bits by which the upper half is shifted; at least one, so that no place mixes with itself."""
        return max(1, (self._bits + 1) // 2)

    @property
    def _bits(self) -> int:
        return (self.places - 1).bit_length()


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


def _writing(instructions: InstructionFactory, places: int, stride: int) -> tuple[Line, ...]:
    """Return a loop that writes the ring: at RSI, the last place's address, that of the next one.

    RAX is the generator's number, RCX how many are left, RDX the next place and its address.
    """
    make, order = instructions.line, RingOrder(places)
    append = (
        make("IMUL_IMMZ (R64, R64, I32)", "RDX", "RDX", stride),
        make("LEA_B_I (R64)", "RDX", MemoryAddress("R14", "RDX", 1)),
        make("MOV (M64, R64)", MemoryAddress("RSI"), "RDX"),
        make("MOV_89 (R64, R64)", "RSI", "RDX"),
    )
    loop = (
        make("IMUL_IMMZ (R64, R64, I32)", "RAX", "RAX", FACTOR),
        make("ADD (R64, I32)", "RAX", INCREMENT),
        make("AND (R64, I32)", "RAX", order.count - 1),
        make("MOV_89 (R64, R64)", "RDX", "RAX"),
        make("SHR (R64, I8)", "RDX", order.shift),
        make("XOR_31 (R64, R64)", "RDX", "RAX"),
        make("CMP (R64, I32)", "RDX", places),
        make("JNB (Rel8)", code_bytes(append)),
        *append,
        make("DEC (R64)", "RCX"),
    )
    jump = make("JNZ (Rel8)", -(code_bytes(loop) + 2))
    first = (
        make("MOV (M64, R64)", SAVED, "R14"),
        make("MOV_89 (R64, R64)", "RSI", "R14"),
        make("MOV (R32, I32)", "ECX", order.count),
        make("MOV (R32, I32)", "EAX", 0),
    )
    return (*first, *loop, jump)
