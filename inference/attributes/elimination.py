"""How many moves rename can eliminate: at a time, per cycle, and in a chain.

After an eliminated move two registers share a physical one. That occupies an elimination slot until one of them is
overwritten. The number of slots is found by time: a chain contains moves, while other pairs of registers share physical
registers:

    no other pair: a move of the chain takes 0.00 cycles
    3 pairs: 0.00
    4 pairs: 1.00      four slots: none is left for the chain

Without other pairs, the chain also shows the share of moves that are eliminated: on an Ice Lake a move takes 0.2 cycles
on average. Moves of one register to many others need only one slot. If executed µops are counted, they show how many
moves are eliminated per cycle.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.operands.registers import register_class
from generator.sequences.elimination import MoveFactory
from generator.sequences.renaming import is_move
from inference.experiment import Procedure, Request, Want
from results.findings import HeldMoves, MovesCounted, MoveTime
from results.model import Derivation
from xed_convert.errors import EncodingError

if TYPE_CHECKING:
    from inference.builder import ConclusionBuilder
    from inference.context import Context

EXECUTED = "uops_executed"

SLOTS, AT_LEAST = "elimination_slots", "elimination_slots_at_least"
"""Attributes: how many physical registers can be shared. The second is for cores where no limit was seen."""

PER_CYCLE, IN_CHAIN = "eliminated_per_cycle", "eliminated_percent_chain"
"""Attributes: how many moves of one register are eliminated in a cycle, where not all are; and the share of moves that
are eliminated in a chain of slow instructions."""

FILES = ("GPR", "VEC")
"""Register files that have moves which may be eliminated."""

WIDE = 32
"""Bits: moves of fewer keep the rest of their register, so none is eliminated."""

CLEAR = Fraction(1, 4)
"""Cycles per move. With slots to spare a move takes as long as without any pair beside, up to these cycles more.
Without a slot it takes a cycle, up to these cycles less."""

FEW = Fraction(1, 50)
"""Share of moves that are executed although others are eliminated: fewer are due to interrupts and ends of code."""


def measure_elimination(found: ConclusionBuilder, context: Context) -> Procedure[None]:
    """Conclude how many moves of a variant are eliminated, if any are."""
    variant = found.variant
    if not is_move(variant):
        return
    result = next(o for o in variant.operands if o.explicit)
    wide = (result.width_bits or 0) >= WIDE and register_class(result.registers[0]) in FILES
    counts = EXECUTED in context.counters
    if not wide or (counts and not found.is_eliminated) or variant.cpl == 0:
        return
    factory = MoveFactory(context.instructions, variant)
    if not factory.has_pair:
        return  # it moves between register files
    try:
        some = yield from _measure_slots(found, factory)
        if some and counts:
            yield from _count_moves(found, factory)
    except (GenerationError, EncodingError):
        return


def _measure_slots(found: ConclusionBuilder, factory: MoveFactory) -> Procedure[bool]:
    """Find the slots by time; return whether any move is eliminated."""
    first = [Request(factory.slow_alone(), Want.CYCLES), Request(factory.held(0), Want.CYCLES)]
    alone, none = yield first
    if not alone.ok or not none.ok:
        return False
    usual = _each(none.cycles, alone.cycles, first[1])
    if usual > 1 - 2 * CLEAR:
        return False
    found.attributes[IN_CHAIN] = round((1 - usual) * 100)
    requests = [Request(factory.held(pairs), Want.CYCLES) for pairs in range(1, factory.most_held + 1)]
    measured = [none, *(yield requests)]
    times = []
    for pairs, (request, one) in enumerate(zip([first[1], *requests], measured, strict=True)):
        if not one.ok:
            break
        times.append(MoveTime(pairs, _each(one.cycles, alone.cycles, request)))
    slots = next((one.held for one in times if one.cycles > usual + CLEAR), None)
    late = [one.cycles for one in times if slots is not None and one.held >= slots]
    clear = all(cycles > 1 - CLEAR for cycles in late)
    if clear:
        found.attributes[AT_LEAST if slots is None else SLOTS] = len(times) if slots is None else slots
    step = HeldMoves(tuple(times), slots if clear else None)
    found.derivations.append(Derivation(SLOTS, (step,), tuple(one.benchmark.id for one in (*first, *requests))))
    return True


def _each(cycles: Fraction, alone: Fraction, request: Request) -> Fraction:
    return max(Fraction(0), cycles - alone) / request.benchmark.divisor


def _count_moves(found: ConclusionBuilder, factory: MoveFactory) -> Procedure[None]:
    """Count how many moves of one register are eliminated in a cycle, if not all are."""
    request = Request(factory.beside(), Want.ALL)
    (measured,) = yield [request]
    if not measured.ok or EXECUTED not in measured.values:
        return
    moves = request.benchmark.divisor
    executed, cycles = measured.values[EXECUTED] / moves, measured.cycles / moves
    if executed > FEW:
        found.attributes[PER_CYCLE] = round(max(Fraction(0), 1 - executed) / cycles)
    step = MovesCounted(moves, executed, cycles)
    found.derivations.append(Derivation(PER_CYCLE, (step,), (request.benchmark.id,)))
