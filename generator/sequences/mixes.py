"""Mixes of independent instructions for timing: one instance among many others, at equal distances.

    12 IMUL R8, RCX ...            blocking instructions, registers in turn
    1  ADD RAX, RBX                the instruction under test
    24 MOV RDX, RSI                filler, if slots are counted

Neighbouring instances of the same instruction would wait for the same port, and a block of filler would leave ports
idle. So the instances of each part have equal distances (`_merged`). Loads use one address, because loads of two lines
may use the same bank of the cache. Stores use adjacent addresses, because stores to two lines are not committed
together (`generator.sequences.addresses`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.errors import AllocationError
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.allocation import Allocator, fixed_registers
from generator.operands.values import ValueKind, Values, kinds_of, values_of
from generator.sequences.addresses import nearer, writes_memory
from generator.sequences.blocking import different, independent, is_chained, registers_of
from generator.sequences.filler import padded
from generator.sequences.throughput import SUBJECT_SLOT, setup_of
from generator.support.prologue import occupied, with_prologue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory
    from xed_convert.model import Instance, InstructionVariant

MOST_INSTANCES = (12, 8, 5, 3)
"""Independent instances of each part: as many as there are registers for. The first is more than the latency of what
blocks one port, so that instances with the same registers do not wait for each other."""

_READ_SLOT = SUBJECT_SLOT - 1
"""The memory place of loads that stand among stores."""


@dataclass(frozen=True, slots=True)
class MixPart:
    """So many of one instruction in a mix, each padded to a length (0: not padded)."""

    variant: InstructionVariant
    count: int
    length_bytes: int = 0


def mix(
    instructions: InstructionFactory, parts: Sequence[MixPart], subject: InstructionVariant | None = None
) -> Microbenchmark:
    """Return the parts, evenly distributed, and one instance of the subject behind them (None: there is no subject).

    They share no register that is written. `divisor` is 1: times are of the whole mix.

    Raises:
        AllocationError: there are not enough registers.
        EncodingError: an instance cannot be encoded.
    """
    own = _subject(subject, parts) if subject is not None else None
    taken = registers_of(own) | occupied(own.variant) if own is not None else set()
    parts = [one for one in parts if one.count]
    columns = _columns(parts, taken)
    lengths = [one.length_bytes for one in parts]
    lines = _merged(
        [
            [padded(assemble(column[place % len(column)]), length) for place in range(count)]
            for (column, count), length in zip(columns, lengths, strict=True)
        ]
    )
    values = Values()
    if own is not None:
        kinds = kinds_of(own.variant)
        values = values_of(own.variant, ValueKind.FAST if ValueKind.FAST in kinds else kinds[0])
        lines += with_prologue(instructions, own)
    instances = [one for column, _ in columns for one in column]
    setup = setup_of(instructions, [*([own] if own is not None else []), *instances], values)
    names = ", ".join(f"{one.count} of {one.variant.string}" for one in parts)
    what = f"time of {own.variant.string if own is not None else 'a mix'}: {names or 'nothing'}"
    privileged = own is not None and own.variant.cpl == 0
    return Microbenchmark(
        setup, tuple(lines), what if own is None or names else f"time of {own.variant.string}", 1, privileged
    )


def turns(parts: Sequence[MixPart]) -> list[int]:
    """Return how often at most an instance of each part stands in a mix of these, since registers are scarce.

    Of parts that are not chained, several instances may write the same registers.

    Raises:
        AllocationError: there are not enough registers.
    """
    return [-(-count // len(column)) for column, count in _columns([one for one in parts if one.count], set())]


def _subject(variant: InstructionVariant, parts: Sequence[MixPart]) -> Instance:
    """Return the instance under test; it reads where the other loads read, if nothing writes there."""
    writes = any(map(writes_memory, (variant, *(one.variant for one in parts))))
    return Allocator().instance(variant, slot=SUBJECT_SLOT if writes else 0)


def _columns(parts: Sequence[MixPart], taken: set[str]) -> list[tuple[list[Instance], int]]:
    """Divide the registers that are left among the parts; return the instances of each, and how often they stand."""
    *larger, least = MOST_INSTANCES
    for most in larger:
        try:
            columns = _allocate(parts, taken, most)
        except AllocationError:
            continue
        if all(len(column) >= min(least, count) for column, count in columns):
            return columns
    if any(is_chained(part.variant) for part in parts):
        return _allocate(parts, taken, least)
    # What only writes a register never waits for it, so that one instance may stand many times
    return _allocate(parts, taken, 1)


def _allocate(parts: Sequence[MixPart], taken: set[str], most: int) -> list[tuple[list[Instance], int]]:
    taken, columns = set(taken), []
    read_slot = _READ_SLOT if any(writes_memory(part.variant) for part in parts) else 0
    for part in parts:
        fixed = set[str]().union(*(fixed_registers(other.variant) for other in parts if other is not part))
        made = different(independent(part.variant, min(part.count, most), taken | fixed))
        taken |= {name for one in made for name in registers_of(one)}
        columns.append((nearer(made, read_slot), part.count))
    return columns


def _merged(columns: Sequence[Sequence[Line]]) -> list[Line]:
    """Merge columns so that the lines of each have equal distances."""
    places = [
        ((2 * place + 1) / (2 * len(column)), number, line)
        for number, column in enumerate(columns)
        for place, line in enumerate(column)
    ]
    return [line for _, _, line in sorted(places, key=lambda one: one[:2])]
