"""The harness around a microbenchmark: one blob of bytes that saves, sets up, counts, runs the copies and restores.

A blob is what every backend runs (`templates/harness.asm.j2`; only the macro that reads the counters differs). Offset 0
holds the address of the context as a u64, written by whoever loads the blob; offset 8 is the entry, a function of the
System V ABI without arguments. A blob is position-independent and is to be loaded at a multiple of `ALIGNMENT`.

Context, u64 fields at byte offsets:

    0x000  RSP at entry                          0x060  end (top) of the area for RSP
    0x008  RBX, RBP, R12, R13, R14, R15          0x068  loop iterations, informative (the blob has them inside)
    0x040  area for R14                          0x070  number of counters, 0x080 RDPMC indices, informative
    0x048  area for RSI                          0x100  counters at the start (16 of them)
    0x050  area for RDI                          0x180  counters at the end
    0x058  area for RBP                          0x200  scratch of the template; from 0x300 on the loader's own

As in "uops.info" (Abel and Reineke, ASPLOS 2019, section 6.2) there are LFENCEs around the reads and nothing between
the reads but the code under test. Before the setup general-purpose registers are zero, MXCSR is 0x1f80 and the x87
control word is as after FNINIT.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from generator.harness.assembly import PATCH_CONTEXT, PATCH_LOOP, environment, fragments, instructions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.microbenchmark import Microbenchmark

ENTRY_OFFSET = 8
"""Where code begins in a blob, in bytes: after the address of the context."""

ALIGNMENT = 64
"""Bytes: a cache line, so that the body begins at the same place in one whatever the setup is."""

MAX_COUNTERS = 16
"""Counters of one blob: the context has room for so many, and no x86 core has more to be programmed."""

PATCH_ITERATIONS = 0x7E570002
"""Marks the number of iterations of the loop."""

_NOPS = ("", "90", "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000", "0f1f840000000000")
"""The recommended multi-byte NOPs by length (Intel SDM volume 2, NOP, table 4-12)."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How counters are read: RDPMC (or RDMSR) of these indices (ECX values), or RDTSC if there are none.

    Counter 0 should be the core cycles: it is read last at the start and first at the end.
    """

    counters: tuple[int, ...] = ()
    instruction: Literal["rdpmc", "rdmsr"] = "rdpmc"

    def __post_init__(self) -> None:
        """Check the number of counters, which the context's layout limits."""
        if len(self.counters) > MAX_COUNTERS:
            message = f"at most {MAX_COUNTERS} counters in one blob, not {len(self.counters)}"
            raise ValueError(message)

    @property
    def count(self) -> int:
        """How many counters a blob of this reader reports."""
        return max(1, len(self.counters))


RDTSC = Reader()


@dataclass(frozen=True, slots=True)
class Style:
    """What else is fixed about a blob.

    `fenced` puts an LFENCE before every iteration of the loop, so that iterations do not overlap. A fenced loop around
    unrolled copies measures what unrolled copies do, many times over. `clean_uppers` adds VZEROUPPER at entry and exit
    (for CPUs with AVX enabled).
    """

    fenced: bool = False
    clean_uppers: bool = False


PLAIN = Style()


class Layout(NamedTuple):
    """Where the parts of a blob are, as byte offsets from its beginning."""

    setup_offset: int
    setup_end: int
    body_offset: int
    body_end: int
    size: int

    def place_of(self, offset: int) -> str:
        """Say for people where in the blob an offset is ("setup", "body", "harness")."""
        if self.body_offset <= offset < self.body_end:
            return "body"
        return "setup" if self.setup_offset <= offset < self.setup_end else "harness"


@dataclass(frozen=True, slots=True)
class _Part:
    """A fragment of the template and where in it the markers are (-1: not in it)."""

    code: bytes
    context_at: int
    iterations_at: int


def render(
    benchmark: Microbenchmark,
    copies: int,
    iterations: int = 0,
    reader: Reader = RDTSC,
    style: Style = PLAIN,
    inside: int = 0,
) -> bytes:
    """Return the blob that runs so many copies of the body, in a loop of so many iterations (0: no loop).

    With `inside` it is part of another blob, so many bytes behind its beginning (a multiple of `ALIGNMENT`), and takes
    the context from there.

    Raises:
        ValueError: a negative count, or one beyond 31 bits.
    """
    if not (0 <= copies < 1 << 31 and 0 <= iterations < 1 << 31):
        message = f"cannot render {copies} copies and {iterations} iterations"
        raise ValueError(message)
    parts = _parts(reader, style.clean_uppers)
    shape = _layout(benchmark, copies, iterations, parts)
    body = benchmark.body_code * copies
    tail = _loop_tail(parts["loop"].code, len(body) + (_FENCE_SIZE if style.fenced else 0)) if iterations else b""
    head = bytes(ENTRY_OFFSET) + parts["entry"].code
    blob = b"".join(
        [
            head,
            _padding(shape.setup_offset - len(head)),
            benchmark.setup_code,
            parts["start"].code,
            body,
            tail,
            parts["finish"].code,
        ]
    )
    patched = bytearray(blob)
    _patch_context(patched, parts["entry"], ENTRY_OFFSET, inside)
    _patch_context(patched, parts["start"], shape.setup_end, inside)
    _patch_context(patched, parts["finish"], shape.body_end, inside)
    struct.pack_into("<I", patched, shape.setup_end + parts["start"].iterations_at, iterations)
    return bytes(patched)


def layout(
    benchmark: Microbenchmark, copies: int, iterations: int = 0, reader: Reader = RDTSC, style: Style = PLAIN
) -> Layout:
    """Return where the parts of the blob are that `render` makes of the same arguments.

    The body begins at a multiple of `ALIGNMENT`, whatever the setup; `body_end` includes the end of the loop.
    """
    return _layout(benchmark, copies, iterations, _parts(reader, style.clean_uppers))


def _layout(benchmark: Microbenchmark, copies: int, iterations: int, parts: Mapping[str, _Part]) -> Layout:
    head = ENTRY_OFFSET + len(parts["entry"].code)
    before_body = len(benchmark.setup_code) + len(parts["start"].code)
    body_offset = -(-(head + before_body) // ALIGNMENT) * ALIGNMENT
    tail = len(parts["loop"].code) if iterations else 0
    body_end = body_offset + len(benchmark.body_code) * copies + tail
    setup_offset = body_offset - before_body
    setup_end = setup_offset + len(benchmark.setup_code)
    return Layout(setup_offset, setup_end, body_offset, body_end, body_end + len(parts["finish"].code))


def listing(reader: Reader = RDTSC, style: Style = PLAIN) -> str:
    """Return the harness as assembly text, for people; `@start` follows the setup and the body follows it."""
    return "\n".join(instructions(_text(reader, style.clean_uppers)))


_FENCE_SIZE = 3
"""The LFENCE that ends the start fragment; a fenced loop begins with it."""


def _text(reader: Reader, clean_uppers: bool) -> str:
    return (
        environment()
        .get_template("harness.asm.j2")
        .render(
            reader=reader,
            clean_uppers=clean_uppers,
            hex=hex,
            PATCH_CONTEXT=hex(PATCH_CONTEXT),
            PATCH_ITERATIONS=hex(PATCH_ITERATIONS),
            PATCH_LOOP=hex(PATCH_LOOP),
        )
    )


@functools.lru_cache(maxsize=256)
def _parts(reader: Reader, clean_uppers: bool) -> dict[str, _Part]:
    found = {}
    for name, code in fragments(_text(reader, clean_uppers)).items():
        context_at = code.find(struct.pack("<I", PATCH_CONTEXT))
        found[name] = _Part(code, context_at, code.find(struct.pack("<I", PATCH_ITERATIONS)))
    return found


def _patch_context(blob: bytearray, part: _Part, part_offset: int, inside: int) -> None:
    """Make the part's RIP-relative load reach the literal: the displacement counts from the end of the instruction."""
    at = part_offset + part.context_at
    struct.pack_into("<i", blob, at, -(at + 4) - inside)


def _loop_tail(code: bytes, loop_size: int) -> bytes:
    """Return the end of the loop with its jump (rel32, the last four bytes) going back over the loop."""
    return code[:-4] + struct.pack("<i", -(loop_size + len(code)))


@functools.cache
def _padding(size: int) -> bytes:
    longest = len(_NOPS) - 1
    return bytes.fromhex(_NOPS[longest]) * (size // longest) + bytes.fromhex(_NOPS[size % longest])
