"""Bounds of the front end: predecoder, decoders, µop cache, loop buffer, each as if nothing else took time.

Code is unrolled (copies in a row, which come from the decoders), or a loop. The rules are those of Abel and Reineke
(uiCA, ICS 2022, section 4) and of Abel et al. ("Facile", IISWC 2023, section 4). The constants of a core are in
`results/machine/cores/`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import gcd
from typing import TYPE_CHECKING

from simulator.core.delivery import CodeLayout, Fetched, usual_decoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.block.code import Block, Item
    from results.machine.constants import CoreConstants, FrontEnd, Microcode

MOST_COPIES = 64
"""Copies of a block after which blocks of the predecoder begin where the first did; blocks have up to 64 bytes."""


def fetched_of(block: Block) -> list[Fetched]:
    """Return what the front end sees: one item for an instruction with the jump that is fused with it."""
    found: list[Fetched] = []
    skip = False
    for item, fused, after in zip(block.items, block.fused, [*block.items[1:], None], strict=True):
        if skip:
            skip = False
            continue
        one = item.effects.fetched or unknown_fetched(item)
        jump = after.effects.fetched if fused and after is not None else None
        if jump is not None:
            one = one.fused_with(jump)
            skip = True
        found.append(one)
    return found


def unknown_fetched(item: Item) -> Fetched:
    """Return what the front end sees of an instruction of which only the length and the issue slots are known."""
    return Fetched((len(item.data),), usual_decoding(item.effects.slots), opcode_offsets=(item.effects.opcode_offset,))


def predecoder_bound(block: Block, front: FrontEnd, *, loop: bool, begin: int = 0) -> Fraction:
    """Return cycles per iteration: one per block of bytes, more for many instructions or length-changing prefixes.

    An instruction counts in the block of its last byte, and in the one before if its opcode is there.

    Args:
        block: the code.
        front: the constants of the core.
        loop: whether it runs as a loop, which begins at a block of the predecoder.
        begin: bytes between the beginning of such a block and the first copy, if it is no loop.
    """
    size = front.block_bytes
    copies = 1 if loop else min(MOST_COPIES, size // gcd(block.size_bytes, size))
    total = block.size_bytes * copies
    counted = [0] * (-(-total // size))
    count = len(counted)
    prefixes = [0] * len(counted)
    for copy in range(copies):
        start = copy * block.size_bytes + (0 if loop else begin)
        for item, offset in zip(block.items, block.offsets, strict=True):
            at = start + offset
            opcode, last = (at + item.effects.opcode_offset) // size % count, (at + len(item.data) - 1) // size % count
            counted[last] += 1
            if opcode != last:
                counted[opcode] += 1
            if item.effects.fetched is not None and item.effects.fetched.length_changing:
                prefixes[opcode] += 1
    found = [max(1, -(-count // front.predecoded)) for count in counted]
    cycles = sum(found)
    for number, count in enumerate(prefixes):
        hidden = found[number - 1] - 1
        cycles += max(0, front.length_changing_cycles * count - hidden)
    return Fraction(cycles, copies)


def decoders_bound(items: Sequence[Fetched], front: FrontEnd, microcode: Microcode | None) -> Fraction:
    """Return cycles per iteration: decoders take instructions in order, until an iteration begins as an earlier one."""
    begun: dict[tuple[int, int], tuple[int, int]] = {}
    cycle, decoder, end = 0, front.decoders, front.decoders  # the next decoder, and how many there are in this cycle
    for iteration in range((front.decoders + 2) ** 2):  # more than there are states
        for number, item in enumerate(items):
            decoding = item.decoding
            last = decoder == front.decoders - 1 and item.fusible and not front.fusible_last
            if decoder >= end or (decoding.complex and decoder) or last:
                cycle, decoder, end = cycle + 1, 0, front.decoders
            if number == 0:
                if (decoder, end) in begun:
                    then, before = begun[decoder, end]
                    return Fraction(cycle - before, iteration - then)
                begun[decoder, end] = (iteration, cycle)
            decoder += 1
            if decoding.complex and decoding.simple is not None:
                end = min(end, 1 + decoding.simple)
            if decoding.microcoded and microcode is not None:
                cycle += -(-decoding.microcoded // microcode.width) + 1
                decoder, end = 0, front.decoders
            if item.is_jump:
                end = 0
    raise AssertionError("an iteration begins on one of few decoders")


def cache_bound(block: Block, items: Sequence[Fetched], core: CoreConstants) -> Fraction:
    """Return cycles per iteration for the items of a loop that the µop cache holds; short loops take whole cycles.

    It delivers one instruction with wide constants per cycle.
    """
    if core.uop_cache is None:
        return Fraction(0)
    cycles = Fraction(sum(item.decoding.decoded for item in items), core.uop_cache.width)
    cycles = max(cycles, Fraction(sum(item.wide for item in items)))
    if core.microcode is not None:
        for item in items:
            if item.decoding.microcoded:
                cycles += -(-item.decoding.microcoded // core.microcode.width) + core.microcode.switch_cycles
    short = block.size_bytes < core.uop_cache.window_bytes
    return Fraction(-(-cycles.numerator // cycles.denominator)) if short else cycles


def loop_buffer_bound(uops: int, core: CoreConstants) -> Fraction:
    """Return cycles per iteration of a loop from the loop buffer, which repeats it: all copies take whole cycles."""
    assert core.loop_buffer is not None
    copies = core.loop_buffer.copies(uops)
    return Fraction(-(-uops * copies // core.back_end.issue_width), copies)


def is_buffered(items: Sequence[Fetched], core: CoreConstants) -> bool:
    """Whether the loop buffer holds a loop: it has one, the µops fit, and none is from the microcode sequencer."""
    if core.loop_buffer is None or core.front_end is None or not core.loop_buffer.enabled:
        return False
    uops = sum(item.uops for item in items)
    return uops <= core.front_end.uop_queue and not any(item.decoding.microcoded for item in items)


def cached_of(items: Sequence[Fetched], core: CoreConstants) -> list[Fetched]:
    """Return the items that come from the µop cache, of a loop that begins at a line of the instruction cache."""
    if core.uop_cache is None:
        return []
    layout = CodeLayout(items, core.uop_cache)
    if not layout.fits(1):
        return []
    starts = accumulate((item.size_bytes for item in items), initial=0)
    return [
        item
        for position, (item, start) in enumerate(zip(items, starts, strict=False))
        if layout.is_cached(position, start)
    ]
