"""The harness around a microbenchmark: one blob of bytes that saves, sets up, counts, runs the copies and restores.

A blob is what every backend runs (`templates/harness.asm.j2`; only the macro that reads the counters differs). Offset 0
holds the address of the context as a u64, which the loader writes. Offset 8 is the entry, a function of the System V
ABI without arguments. A blob is position-independent. It is loaded at a multiple of `ALIGNMENT`.

Context, u64 fields at byte offsets:

    0x000  RSP at entry                          0x068  loop iterations, informative (the blob has them inside)
    0x008  RBX, RBP, R12, R13, R14, R15          0x070  number of counters, 0x080 RDPMC indices, informative
    0x040  area for R14                          0x100  counters at the start (16 of them)
    0x048  area for RSI                          0x180  counters at the end
    0x050  area for RDI                          0x200  scratch of the template
    0x058  area for RBP                          0x230  address of the page that serves all others (states but ZERO)
    0x060  end (top) of the area for RSP         0x238  the value of registers and that page (likewise)
                                                 0x240  0 until the one-time code has run; the loader makes it 0
                                                 0x248  iterations behind those that warm up (state AGAIN)
    0x300  and after: the loader's own

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
from generator.harness.style import LOOP_REGISTERS, PAUSE, PLAIN, RESUME, State, Style
from xed_convert.encoding.nops import long_nop, nops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.microbenchmark import Microbenchmark

ENTRY_OFFSET = 8
"""Where code begins in a blob, in bytes: after the address of the context."""

ALIGNMENT = 64
"""Bytes: a cache line, so that the setup does not move the body within one."""

MAX_COUNTERS = 16
"""Counters of one blob: the context has no room for more, and no x86 core has more to be programmed."""

JUMP_BYTES = 32
"""Bytes of code that the µop cache may leave out if a jump touches their boundary."""

PATCH_ITERATIONS = 0x7E570002
"""Marks the number of iterations of the loop, or of those that warm up."""

PATCH_REST = 0x7E570004
"""Marks the number of iterations behind those that warm up."""


@dataclass(frozen=True, slots=True)
class CounterReader:
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


RDTSC = CounterReader()


DRAIN = bytes.fromhex("6666666666662e0f1f84" + 5 * "00") * 128
"""128 NOPs of 15 bytes: as many as nanoBench takes to drain the front end's buffers."""


class BlobLayout(NamedTuple):
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
    context_at: int = -1
    iterations_at: int = -1
    rest_at: int = -1


def render(
    benchmark: Microbenchmark,
    copies: int,
    iterations: int = 0,
    reader: CounterReader = RDTSC,
    style: Style = PLAIN,
    inside: int = 0,
) -> bytes:
    """Return the blob that runs `copies` of the body, in a loop of `iterations` (0: no loop).

    With `inside` it is part of another blob, `inside` bytes behind its beginning (a multiple of `ALIGNMENT`), and takes
    the context from there.

    Raises:
        ValueError: a negative count, or one beyond 31 bits.
    """
    if not (0 <= copies < 1 << 31 and 0 <= iterations < 1 << 31):
        message = f"cannot render {copies} copies and {iterations} iterations"
        raise ValueError(message)
    arranged = _arranged(benchmark, copies, iterations, reader, style)
    blob = bytearray(b"".join(part.code for _, part in arranged))
    looped = max(iterations, style.state is State.AGAIN)
    first, rest = (style.warm_up, looped) if style.warm_up else (looped, 0)
    at = 0
    for _, part in arranged:
        if part.context_at >= 0:
            _patch_context(blob, part, at, inside)
        if part.iterations_at >= 0:
            struct.pack_into("<I", blob, at + part.iterations_at, first)
        if part.rest_at >= 0:
            struct.pack_into("<I", blob, at + part.rest_at, rest)
        at += len(part.code)
    return bytes(blob)


def layout(
    benchmark: Microbenchmark, copies: int, iterations: int = 0, reader: CounterReader = RDTSC, style: Style = PLAIN
) -> BlobLayout:
    """Return where the parts of the blob are that `render` makes of the same arguments.

    The body begins at a multiple of `ALIGNMENT` (and the style's offset), whatever the setup; `body_end` includes the
    end of the loop.
    """
    starts, at = {}, 0
    for name, part in _arranged(benchmark, copies, iterations, reader, style):
        starts[name] = at
        at += len(part.code)
    setup = starts["setup"]
    return BlobLayout(
        setup, setup + len(benchmark.setup_code), starts["body"], starts.get("rest", starts["finish"]), at
    )


def _arranged(
    benchmark: Microbenchmark, copies: int, iterations: int, reader: CounterReader, style: Style
) -> list[tuple[str, _Part]]:
    """Return the blob's parts with their names, in order; the markers of context and iterations are still in them."""
    parts = _parts(reader, style.clean_uppers, style.state, style.loop_register)
    is_again = style.state is State.AGAIN
    marked = ("marks",) if benchmark.has_marks else ()
    between = ("late", "drain")
    order = ("setup", "start", *marked, *between)
    if is_again:
        order = ("registers", "start", "count", "again", "setup", "ready", *between)
    own = {
        "setup": benchmark.setup_code,
        "late": benchmark.late_code,
        "drain": DRAIN if style.drained else b"",
    }
    found = {name: _Part(own[name]) if name in own else parts[name] for name in order}
    if style.fenced and not is_again and (found["late"].code or found["drain"].code or marked):
        found["fence"] = _Part(LFENCE)
    entry = parts["entry"]
    head = {"entry": _Part(bytes(ENTRY_OFFSET) + entry.code, ENTRY_OFFSET + entry.context_at)}
    head |= _once(benchmark.once_code, parts) | ({} if is_again else {"registers": parts["registers"]})
    before = _size(head) + _size(found)
    padding = {"padding": _Part(nops((style.offset_bytes - before) % ALIGNMENT))}
    body = _body(benchmark, copies, parts)
    found |= {"body": _Part(body)}
    if iterations and style.clear_end and not style.fenced and not is_again:
        found["clear"] = _clear(style.offset_bytes + len(body), parts["loop"])
    if iterations or is_again:
        first = list(found).index("again") if is_again else list(found).index("body")
        looped = sum(len(part.code) for part in list(found.values())[first:])
        found["loop"] = _jumping_back(parts["loop"], looped + (len(LFENCE) if style.fenced and not is_again else 0))
    if is_again:
        first = list(found).index("count")
        found["rest"] = _jumping_back(parts["rest"], sum(len(part.code) for part in list(found.values())[first:]))
    return [*(head | padding | found).items(), ("finish", parts["finish"])]


def _size(parts: Mapping[str, _Part]) -> int:
    return sum(len(part.code) for part in parts.values())


def _once(code: bytes, parts: Mapping[str, _Part]) -> dict[str, _Part]:
    """Return code that runs in the first repetition only, with the jump over it."""
    if not code:
        return {}
    begin, end = parts["once_begin"], parts["once_end"]
    check = parts["once"].code[:-4] + struct.pack("<i", len(begin.code) + len(code))
    return {"once": _Part(check), "once_begin": begin, "once_code": _Part(code), "once_end": end}


def _body(benchmark: Microbenchmark, copies: int, parts: Mapping[str, _Part]) -> bytes:
    body = benchmark.body_code
    if benchmark.has_marks:
        body = body.replace(PAUSE, parts["pause"].code).replace(RESUME, parts["resume"].code)
    return body * copies


def _clear(end: int, loop: _Part) -> _Part:
    """Return a NOP behind a body that ends there, such that the end of the loop touches no boundary of `JUMP_BYTES`.

    From Skylake to Cascade Lake, code with a jump across such a boundary, or up to it, never comes from the µop cache
    (Intel, "Mitigations for Jump Conditional Code Erratum"). Of two loops with 8 and 32 copies, it would be the one or
    the other. On a Cascade Lake, 8 loads and TESTs then take 6.0 cycles, and not 4.3. There always is a NOP, so that
    both loops have one.
    """
    length = next(n for n in range(1, JUMP_BYTES + 1) if (end + n) % JUMP_BYTES + len(loop.code) < JUMP_BYTES)
    return _Part(long_nop(length))


def _jumping_back(part: _Part, size: int) -> _Part:
    """Return the end of a loop with its jump (rel32, the last four bytes) going back `size` bytes."""
    code = part.code[:-4] + struct.pack("<i", -(size + len(part.code)))
    return _Part(code, part.context_at)


def listing(reader: CounterReader = RDTSC, style: Style = PLAIN) -> str:
    """Return the harness as assembly text, for people; `@start` follows the setup and the body follows it."""
    return "\n".join(instructions(_text(reader, style.clean_uppers, style.state, style.loop_register)))


LFENCE = bytes.fromhex("0faee8")
"""Ends the start fragment; a fenced loop begins with it."""


def _text(reader: CounterReader, clean_uppers: bool, state: State, loop_register: str) -> str:
    return (
        environment()
        .get_template("harness.asm.j2")
        .render(
            reader=reader,
            clean_uppers=clean_uppers,
            state=state,
            loop_register=loop_register,
            loop_register32=LOOP_REGISTERS[loop_register],
            hex=hex,
            PATCH_CONTEXT=hex(PATCH_CONTEXT),
            PATCH_ITERATIONS=hex(PATCH_ITERATIONS),
            PATCH_REST=hex(PATCH_REST),
            PATCH_LOOP=hex(PATCH_LOOP),
        )
    )


@functools.lru_cache(maxsize=256)
def _parts(reader: CounterReader, clean_uppers: bool, state: State, loop_register: str) -> dict[str, _Part]:
    found = {}
    for name, code in fragments(_text(reader, clean_uppers, state, loop_register)).items():
        markers = (code.find(struct.pack("<I", marker)) for marker in (PATCH_CONTEXT, PATCH_ITERATIONS, PATCH_REST))
        found[name] = _Part(code, *markers)
    return found


def _patch_context(blob: bytearray, part: _Part, part_offset: int, inside: int) -> None:
    """Make the part's RIP-relative load reach the literal: the displacement counts from the end of the instruction."""
    at = part_offset + part.context_at
    struct.pack_into("<i", blob, at, -(at + 4) - inside)
