"""The front end: predecoder, queues, decoders, µop cache, microcode, loop buffer.

Each stage depends only on older instructions, so instructions are taken in program order, and each gets the first cycle
that every stage allows:

- **Predecoder**: it takes blocks of `block_bytes` in order, a few instructions per cycle. An instruction leaves with
  the block of its last byte. It also takes a place in the block before if its opcode is there. A length-changing prefix
  costs cycles in the block of the opcode, in parallel with further cycles of the block before. The predecoder stops
  while the instruction queue is full.
- **Decoders**: the first one decodes any instruction, the others simple ones; how many work beside a complex one is
  measured. A jump ends the group. On some cores the last decoder does not decode instructions that could fuse with a
  jump.
- **µop cache**: windows of code that fit are delivered from it, a few µops per cycle from at most two windows.
- **Microcode**: the sequencer delivers after the decoders or the µop cache, and nothing else meanwhile. The switch from
  the µop cache and back costs cycles.
- **Loop buffer**: a loop that fits into the queue of µops is issued from there. The last µop of the loop (unrolled as
  often as the buffer holds it) and the first one are not issued in the same cycle.
- **Queue of µops**: it takes no more while it is full; the core frees its entries at issue.
- **Clusters**: there may be several, each with predecoder, queues and decoders. They take stretches of code by turns,
  and each begins a cycle after the one before. A stretch ends with a taken jump, or after a number of instructions.

Source: Abel and Reineke, "uiCA: Accurate Throughput Prediction of Basic Blocks on Recent Intel Microarchitectures",
ICS 2022, section 4; Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 2. Constants of a core
are in `results/machine/cores/`.

Code comes from the µop cache if all of it fits, since measured code was run before. Not modelled: branch prediction,
instruction caches, and the cycles that a switch from one path to another costs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

from results.machine.graph import Decoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.machine.constants import CoreConstants, FrontEnd, UopCache

LINE_BYTES = 64
"""Bytes of a cache line: an address counts modulo this. Blocks and windows divide it."""

WINDOWS_PER_CYCLE = 2
"""Windows of the µop cache from which µops are delivered in one cycle (uiCA, section 4.1.4)."""

ERRATUM_BYTES = 32
"""Size of an aligned block: jumps that cross or touch its end are not cached on cores with the JCC erratum (Intel,
2019)."""

MOST_DECODED = 4
"""µops that a decoder makes of one instruction; those with more come from the microcode sequencer."""

CLUSTER = (
    *("predecode_cycle", "predecoded", "block_cycles", "hidden"),
    *("cycle", "used", "windows", "wide", "decoder", "decoders_end", "queue", "uop_queue"),
)
"""The attributes of `Delivery` that each cluster has of its own."""


class DeliveryPath(IntEnum):
    """Where the µops of an instruction come from."""

    DECODERS = 0
    UOP_CACHE = 1
    LOOP_BUFFER = 2


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the front end sees of an instruction, or of one and the jump that is fused with it.

    `sizes_bytes` are those of the one or two instructions, `opcode_offsets` are where their opcodes begin.
    `jumps_bytes` is the distance of a taken jump from its end (None: no jump is taken). `fusible` says that it could
    fuse with a jump, `length_changing` that the first instruction has a length-changing prefix. `wide` says that its
    constants need an entry more of the µop cache.
    """

    sizes_bytes: tuple[int, ...]
    decoding: Decoding
    length_changing: bool = False
    fusible: bool = False
    is_jump: bool = False
    jumps_bytes: int | None = None
    opcode_offsets: tuple[int, ...] = (0,)
    wide: bool = False
    size_bytes: int = field(init=False)
    uops: int = field(init=False)

    def __post_init__(self) -> None:
        """Add up the sizes and the delivered µops, which are needed often."""
        object.__setattr__(self, "size_bytes", sum(self.sizes_bytes))
        object.__setattr__(self, "uops", self.decoding.decoded + self.decoding.microcoded)

    def fused_with(self, jump: Fetched) -> Fetched:
        """Return what the front end sees of an instruction and the jump that is fused with it."""
        return replace(
            self,
            sizes_bytes=(*self.sizes_bytes, *jump.sizes_bytes),
            opcode_offsets=(*self.opcode_offsets, *jump.opcode_offsets),
            fusible=False,
            is_jump=True,
            jumps_bytes=jump.jumps_bytes,
        )


def usual_decoding(slots: int, front: FrontEnd | None = None) -> Decoding:
    """Return how an instruction is decoded by a front end if only its number of fused-domain µops is known."""
    if slots > MOST_DECODED:
        return Decoding(0, slots, complex=True, simple=0)
    return Decoding(slots, complex=slots > (front.simple_uops if front is not None else 1))


class CodeLayout:
    """Code that is repeated, and which parts of it the µop cache holds at which addresses.

    Copies stand one after another, unless the code ends with a jump to its own beginning.
    """

    def __init__(self, items: Sequence[Fetched], cache: UopCache) -> None:
        """Take the instructions of one copy."""
        self.items, self.cache = tuple(items), cache
        self.size_bytes = sum(item.size_bytes for item in items)
        self._cached: dict[tuple[int, int], bool] = {}

    @cached_property
    def is_loop(self) -> bool:
        """Whether it ends with a jump backwards."""
        last = self.items[-1].jumps_bytes if self.items else None
        return last is not None and last < 0

    @cached_property
    def uops(self) -> int:
        """µops of the code in the queue of µops (fused domain)."""
        return sum(item.uops for item in self.items)

    @cached_property
    def microcoded(self) -> bool:
        """Whether the microcode sequencer is needed."""
        return any(item.decoding.microcoded for item in self.items)

    def fits(self, copies: int) -> bool:
        """Whether the µop cache holds `copies` copies; a loop, which jumps to its own beginning, has one."""
        if not self.size_bytes:
            return True
        copies = 1 if self.is_loop else copies
        period = self.cache.window_bytes // gcd(self.size_bytes, self.cache.window_bytes)
        counted = min(copies, period)
        windows: dict[int, list[Fetched]] = {}
        address = 0
        for _ in range(counted):
            for item in self.items:
                windows.setdefault(address // self.cache.window_bytes, []).append(item)
                address += item.size_bytes
        lines = sum(min(_lines(window, self.cache), self.cache.lines_per_window) for window in windows.values())
        return lines * copies <= self.cache.lines * counted

    def is_cached(self, position: int, address: int) -> bool:
        """Whether the instruction at a position is delivered from the µop cache if it stands at an address."""
        key = (position, address % LINE_BYTES)
        if key not in self._cached:
            self._look_at(position, address % LINE_BYTES)
        return self._cached[key]

    def _look_at(self, position: int, address: int) -> None:
        """Note whether the window of an address is cached; if pairs must fit as a whole, check both of the pair."""
        size = self.cache.window_bytes
        group = 2 * size if self.cache.whole_pairs else size
        first = address // group * group
        around = self._around(position, address, first, first + group)
        fits = all(self._fits(around, start) for start in range(first, first + group, size))
        for at, _, start in around:
            if start >= first:
                self._cached[at, start % LINE_BYTES] = fits

    def _fits(self, around: Sequence[tuple[int, Fetched, int]], first: int) -> bool:
        """Whether the window that begins at an address can be cached."""
        end = first + self.cache.window_bytes
        inside = [item for _, item, start in around if first <= start < end]
        if not self.cache.jump_at_end:
            for _, item, start in around:
                behind = start + item.size_bytes
                touches = start // ERRATUM_BYTES != behind // ERRATUM_BYTES
                if item.is_jump and touches and start < end and behind > first:
                    return False
        return _lines(inside, self.cache) <= self.cache.lines_per_window

    def _around(self, position: int, address: int, first: int, end: int) -> list[tuple[int, Fetched, int]]:
        """Return the instructions that have a byte in a stretch: position, instruction, address."""
        at, start = position, address
        for _ in range(LINE_BYTES):  # backwards, to the first that is not wholly before the stretch
            before = at - 1
            if start <= first or (before < 0 and self.is_loop):
                break
            at = before % len(self.items)
            start -= self.items[at].size_bytes
        found: list[tuple[int, Fetched, int]] = []
        for _ in range(2 * LINE_BYTES):
            if start >= end:
                break
            item = self.items[at]
            if start + item.size_bytes > first:
                found.append((at, item, start))
            start += item.size_bytes
            at += 1
            if at == len(self.items):
                if self.is_loop:
                    break
                at = 0
        return found


def _lines(window: Sequence[Fetched], cache: UopCache) -> int:
    """Return how many lines of the µop cache a window takes; an instruction with microcode takes a line to itself."""
    lines, used = 0, cache.line_uops
    for item in window:
        if item.decoding.microcoded:
            lines, used = lines + 1, cache.line_uops
        elif used + item.uops + item.wide > cache.line_uops:
            lines, used = lines + 1, item.uops + item.wide
        else:
            used += item.uops + item.wide
    return lines


def _relative(cluster: tuple[Any, ...], now: int) -> tuple[object, ...]:
    """Return the state of an idle cluster, relative to a cycle."""
    predecode, predecoded, block_cycles, hidden, cycle, *decoding, queue, uops = cluster
    return (
        (predecode - now, predecoded, block_cycles, hidden, cycle - now, *decoding),
        tuple([one - predecode if one > predecode else 0 for one in queue]),
        tuple([one - cycle if one > cycle else 0 for one in uops]),
    )


class Delivery:
    """The state of the front end between two instructions; a fresh one has empty queues at cycle 0.

    `fetch` is called once per instruction, in program order, with the cycle in which the core issued the last µop of
    the one before. Cycles are absolute; `address` counts from where the code begins.
    """

    __slots__ = (
        "address",
        "before",
        "begun",
        "block_cycles",
        "cache",
        "counts",
        "cycle",
        "decoder",
        "decoders_end",
        "front",
        "hidden",
        "iteration",
        "layout",
        "loop",
        "microcode",
        "others",
        "path",
        "pending",
        "position",
        "predecode_cycle",
        "predecoded",
        "queue",
        "stretched",
        "uop_queue",
        "used",
        "wide",
        "windows",
    )

    def __init__(self, core: CoreConstants) -> None:
        """Take a core whose front end is known."""
        assert core.front_end is not None
        assert core.uop_cache is not None
        assert core.microcode is not None
        assert core.loop_buffer is not None
        self.front, self.cache, self.microcode, self.loop = (
            core.front_end,
            core.uop_cache,
            core.microcode,
            core.loop_buffer,
        )
        self.layout: CodeLayout | None = None
        self.path = self._usual_path()
        self.position, self.iteration = 0, 0
        self.address, self.before = 0, 0  # and the size of the instruction before (0: a jump led here)
        self.predecode_cycle, self.predecoded = 0, 0
        self.block_cycles = 1  # of the predecoder's block, without those for prefixes
        self.hidden = 0  # cycles for prefixes that the block before still hides
        self.cycle, self.used, self.windows = 0, 0, 0  # of the stage that delivers
        self.wide = False  # whether it has delivered a wide instruction in this cycle
        self.decoder, self.decoders_end = 0, 0  # the next decoder, and the first that takes nothing in this cycle
        self.queue = deque([0] * self.front.instruction_queue, self.front.instruction_queue)
        self.uop_queue = deque([0] * self.front.uop_queue, self.front.uop_queue)
        self.pending = 0  # µops of the last instruction, which leave the queue with its issue
        self.counts = [0, 0]  # µops from the decoders, and from the microcode sequencer
        self.stretched, self.begun = 0, 0  # instructions of this stretch, and the cycle in which the next one may begin
        self.others = deque(self._cluster() for _ in range(self.front.clusters - 1))  # the next one first

    def _usual_path(self) -> DeliveryPath:
        """Return the path of code that was run before: the µop cache, or the decoders on cores without one."""
        return DeliveryPath.UOP_CACHE if self.cache.lines else DeliveryPath.DECODERS

    def copy(self) -> Delivery:
        """Return an independent front end in the same state."""
        other = Delivery.__new__(Delivery)
        for name in Delivery.__slots__:
            value = getattr(self, name)
            setattr(other, name, value.copy() if isinstance(value, (list, deque)) else value)
        if self.others:
            other.others = deque([(*one[:-2], one[-2].copy(), one[-1].copy()) for one in self.others])
        return other

    def _cluster(self) -> tuple[Any, ...]:
        """Return a copy of the own state of the working cluster."""
        return (*(getattr(self, name) for name in CLUSTER[:-2]), self.queue.copy(), self.uop_queue.copy())

    def _hand_over(self) -> None:
        """Switch to the next cluster: it begins a cycle after this stretch began, or when its last stretch is done."""
        self.others.append(tuple([getattr(self, name) for name in CLUSTER]))
        for name, value in zip(CLUSTER, self.others.popleft(), strict=True):
            setattr(self, name, value)
        self.predecode_cycle = max(self.predecode_cycle, self.begun)
        self.begun, self.stretched, self.before = self.predecode_cycle + 1, 0, 0

    def begin(self, layout: CodeLayout, copies: int, address: int = 0) -> None:
        """Begin code that is repeated in `copies`; `address` is its distance from the beginning of a line in bytes."""
        self.layout, self.position, self.iteration, self.address, self.before = layout, 0, 0, address, 0
        buffered = self.loop.enabled and layout.is_loop and not layout.microcoded
        if buffered and layout.uops <= self.front.uop_queue:
            self.path = DeliveryPath.LOOP_BUFFER
        else:
            self.path = self._usual_path() if layout.fits(copies) else DeliveryPath.DECODERS

    def end(self) -> None:
        """Begin code that is not repeated: its layout is not considered."""
        self.layout, self.path = None, self._usual_path()

    def state(self, now: int) -> tuple[object, ...]:
        """Return everything that the future depends on, relative to the current cycle."""
        cycle, predecode = self.cycle, self.predecode_cycle
        around = self.front.block_bytes if self.path is DeliveryPath.DECODERS else LINE_BYTES
        return (
            (self.address % around, self.before, self.position, self.iteration),
            (cycle - now, predecode - cycle, self.predecoded, self.block_cycles, self.hidden),
            (self.used, self.decoder, self.decoders_end, self.windows, self.wide),
            self.pending,
            tuple([one - predecode if one > predecode else 0 for one in self.queue]),
            tuple([one - cycle if one > cycle else 0 for one in self.uop_queue]),
            *((self.begun - now, self.stretched, *(_relative(one, now) for one in self.others)) if self.others else ()),
        )

    def fetch(self, item: Fetched, now: int) -> int:
        """Deliver an instruction; return the first cycle in which its µops can be issued.

        Args:
            item: the instruction.
            now: the cycle in which the last µop of the instruction before was issued.
        """
        self.uop_queue.extend([now] * min(self.pending, self.front.uop_queue))
        self.pending = item.uops
        if self.others and self.stretched == self.front.stretch:
            self._hand_over()
        arrives = self._looped(now) if self.path is DeliveryPath.LOOP_BUFFER else self._delivered(item)
        self._move_on(item)
        return arrives

    def _looped(self, now: int) -> int:
        """Return the first cycle for an instruction from the loop buffer: any, or the next one if the loop restarts."""
        layout = self.layout
        assert layout is not None
        self.cycle = self.predecode_cycle = now
        if self.position == 0:
            self.iteration = (self.iteration + 1) % self.loop.copies(layout.uops)
            if self.iteration == 1 % self.loop.copies(layout.uops):
                return now + 1
        return 0

    def _delivered(self, item: Fetched) -> int:
        """Deliver from the µop cache or the decoders, and from the microcode sequencer after them."""
        room = self.uop_queue[min(max(1, item.uops), self.front.uop_queue) - 1]
        if room > self.cycle:
            self._next_cycle(room)
        layout = self.layout
        cached = self.path is DeliveryPath.UOP_CACHE
        if cached and layout is not None:
            cached = layout.is_cached(self.position, self.address % LINE_BYTES)
        if cached:
            arrives = self._from_cache(item)
        else:
            arrives = self._from_decoders(item)
            self.counts[0] += item.decoding.decoded
        if item.decoding.microcoded:
            self.counts[1] += item.decoding.microcoded
            cycles = -(-item.decoding.microcoded // self.microcode.width)
            self._next_cycle(self.cycle + cycles + (self.microcode.switch_cycles - 1 if cached else 1))
        return arrives

    def _next_cycle(self, cycle: int) -> None:
        """Let the delivering stage begin a cycle."""
        self.cycle, self.used, self.windows, self.wide = cycle, 0, 0, False
        self.decoder, self.decoders_end = 0, self.front.decoders

    def _from_cache(self, item: Fetched) -> int:
        """Deliver from the µop cache; predecoder and decoders begin anew after it. Return the cycle."""
        window, address = self.cache.window_bytes, self.address % LINE_BYTES
        if not self.before or (address - self.before) // window != address // window:
            self.windows += 1
        if self.windows > WINDOWS_PER_CYCLE or (item.wide and self.wide):
            self._next_cycle(self.cycle + 1)
            self.windows = 1
        self.used += item.decoding.decoded
        while self.used > self.cache.width:
            left = self.used - self.cache.width
            self._next_cycle(self.cycle + 1)
            self.used, self.windows = left, 1
        self.wide |= item.wide
        self.decoders_end, self.predecode_cycle, self.predecoded = 0, self.cycle, 0
        self.block_cycles, self.hidden = 1, 0
        return self.cycle

    def _from_decoders(self, item: Fetched) -> int:
        """Predecode, wait in the instruction queue, and decode; return the cycle of decoding."""
        address, sizes, opcodes = self.address, item.sizes_bytes, item.opcode_offsets
        ready = self._predecode(address, self.before, sizes[0], opcodes[0], length_changing=item.length_changing)
        for number in range(1, len(sizes)):
            address += sizes[number - 1]
            ready = self._predecode(address, sizes[number - 1], sizes[number], opcodes[number], length_changing=False)
        ready += self.front.decode_delay
        if ready > self.cycle:
            self._next_cycle(ready)
        decoding = item.decoding
        decoder = self.decoder
        if (
            decoder >= self.decoders_end
            or (decoder and decoding.complex)
            or (item.fusible and not self.front.fusible_last and decoder == self.front.decoders - 1)
        ):
            self._next_cycle(self.cycle + 1)
        self.decoder += 1
        if decoding.complex and decoding.simple is not None:
            self.decoders_end = min(self.decoders_end, 1 + decoding.simple)
        self.queue.extend([self.cycle] * len(item.sizes_bytes))
        if item.is_jump:
            self.decoders_end = 0
        return self.cycle

    def _predecode(self, address: int, before: int, size: int, opcode: int, *, length_changing: bool) -> int:
        """Return the cycle in which an instruction at an address enters the instruction queue.

        Args:
            address: of its first byte.
            before: the size of the instruction before, in bytes (0: a jump led here, so a block begins).
            size: in bytes.
            opcode: the offset of its opcode, in bytes.
            length_changing: whether a prefix changes its length.
        """
        block = self.front.block_bytes
        reached = (address - 1) // block if before else address // block - 1
        named, last = (address + opcode) // block, (address + size - 1) // block
        self._begin_block(named - reached)
        if length_changing:
            cost = self.front.length_changing_cycles
            self.predecode_cycle += max(0, cost - self.hidden)
            self.hidden = max(0, self.hidden - cost)
        if last > named:
            self.predecoded += 1
            self._begin_block(last - named)
        if self.queue[0] > self.predecode_cycle:
            self.predecode_cycle, self.predecoded = self.queue[0], 0
        self.predecoded += 1
        return self.predecode_cycle

    def _begin_block(self, blocks: int) -> None:
        """Advance the predecoder by some blocks; in a block it needs a new cycle after some instructions."""
        if blocks:
            self.hidden = self.block_cycles - 1 if blocks == 1 else 0
            self.predecode_cycle += blocks
            self.block_cycles, self.predecoded = 1, 0
        elif self.predecoded == self.front.predecoded:
            self.predecode_cycle += 1
            self.block_cycles, self.predecoded = self.block_cycles + 1, 0

    def _move_on(self, item: Fetched) -> None:
        """Advance address and position past an instruction."""
        self.address += item.size_bytes
        self.before = item.size_bytes
        if item.jumps_bytes is not None:
            self.address += item.jumps_bytes
            self.before = 0
            self.stretched = self.front.stretch
        elif self.front.stretch > 0:
            self.stretched += 1
        if self.layout is not None:
            self.position = (self.position + 1) % len(self.layout.items)
