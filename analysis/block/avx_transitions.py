"""Which instructions wait because AVX and legacy SSE instructions are mixed, on cores that save the upper halves.

Such a core keeps a state of the upper halves of all YMM registers:

    clean --256 bits--> dirty --legacy SSE--> saved --VEX--> dirty        the last two transitions wait
    dirty or saved --VZEROUPPER--> clean

Source: Intel's Optimization Reference Manual, chapter on AVX, section on mixing AVX with SSE code: the figure of the
transitions before Skylake.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from analysis.block.repeated import in_repeated
from simulator.core.late_forms import CLEANING
from simulator.instructions.locations import is_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.block.code import Item
    from xed_convert.model import InstructionVariant

UPPER_BITS = 256
"""The least width of a register that has an upper half."""


class _Uppers(Enum):
    """What is in the upper halves: zeros, something, or something that is saved elsewhere."""

    CLEAN = auto()
    DIRTY = auto()
    SAVED = auto()


def transitions(items: Sequence[Item]) -> tuple[int, ...]:
    """Return the positions of the instructions that change the state at a cost, in code that is repeated."""
    state = _Uppers.CLEAN

    def changes(item: Item) -> bool:
        nonlocal state
        before, state = state, state if item.compiled is None else _after(state, item.compiled.variant)
        return (before, state) in ((_Uppers.DIRTY, _Uppers.SAVED), (_Uppers.SAVED, _Uppers.DIRTY))

    return tuple(position for position, found in enumerate(in_repeated(items, changes)) if found)


def _after(state: _Uppers, variant: InstructionVariant) -> _Uppers:
    """Return the state after an instruction."""
    vectors = [operand for operand in variant.operands if is_vector(operand)]
    if variant.iclass in CLEANING:
        return _Uppers.CLEAN
    if not vectors:
        return state
    if variant.attributes.keys().isdisjoint(("vex", "evex")):
        return _Uppers.SAVED if state is _Uppers.DIRTY else state
    dirties = any(operand.written and (operand.width_bits or 0) >= UPPER_BITS for operand in vectors)
    return _Uppers.DIRTY if dirties or state is _Uppers.SAVED else state
