"""The latencies of a variant by endpoint, as its graph of µops has to have them.

**The way through memory**, from a store to a load of the same place, is stated twice: with the store and with the load,
each time as the whole way less a cycle (Abel and Reineke, ASPLOS 2019, section 5.2.4). Here it counts once. The store
keeps its cycles. A load loses all but one of those that are stated of a plain load of that kind. A way of five cycles:

    MOV [R14], RAX      stated: 4      here: 4
    MOV RAX, [R14]      stated: 4      here: 1
    ADD RAX, [R14]      stated: 5      here: 2

- A variant that loads and stores loses nothing: its way is one round trip.
- A store of 8 or 16 bits loses a cycle: it is measured with a load that takes a cycle more, to merge what it reads.
- On some cores a load that comes late gets its data sooner. So the way that was measured may be too short for a load
  that waits. A plain store has at least the way of the core's constants.

**Where loads are renamed**, the time between store and load stands by itself, and neither contains it. A store passes
its data on when they are computed. A load brings its result as many cycles after a plain load as its latency from the
address is longer. What a file states about memory was measured renamed, and counts only where a variant loads and
stores at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.machine.graph import (
    ADDRESS_PARTS,
    Endpoint,
    address_inputs,
    address_updates,
    is_memory_result,
    read_flags,
    tracked,
    uses_vectors,
    value_inputs,
    value_outputs,
    written_flags,
)
from results.model import LatencyPart
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from results.machine.constants import CoreConstants
    from results.machine.facts import Cycles, LatencyPair
    from xed_convert.model import InstructionVariant, Operand

Latencies = dict[tuple[Endpoint, Endpoint], int]
"""Core cycles by source and result."""


def latencies_of(variant: InstructionVariant, facts: Mapping[LatencyPair, Cycles], core: CoreConstants) -> Latencies:
    """Return the latencies by endpoint, with the cycles of the way through memory counted once."""
    stored = [o.width_bits for o in variant.operands if is_memory_result(o)]
    merged = 1 if stored and set(stored) <= {8, 16} else 0
    overlap = overlap_cycles(variant, core)
    if core.memory_renaming is not None:
        return _without_memory(variant, facts, core)
    found = _endpoints(variant, facts)
    for (source, end), cycles in found.items():
        if source.part is LatencyPart.MEMORY:
            found[source, end] = shortened(cycles, overlap)
        elif end.part is LatencyPart.MEMORY:
            waited = _waited_cycles(variant, core) if source.part is LatencyPart.NONE and cycles else 0
            found[source, end] = max(shortened(cycles, merged), waited)
    return found


def dependencies(latencies: Latencies, core: CoreConstants) -> Latencies:
    """Return the latencies of one cycle and more: with 0 a result does not depend on the source.

    That does not hold through memory if the way between store and load stands by itself.
    """
    return {
        (source, end): cycles
        for (source, end), cycles in latencies.items()
        if cycles > 0 or (core.memory_renaming is not None and LatencyPart.MEMORY in (source.part, end.part))
    }


def overlap_cycles(variant: InstructionVariant, core: CoreConstants) -> int:
    """Return how many cycles a load's stated latency loses, because they count at the store (see the module).

    That is all but one of those that are stated of a plain load: of general registers, or of a vector of 128 bits.
    (A load of 256 bits takes longer, but its store does not, so that difference stays with the load.) A variant that
    loads and stores loses none.
    """
    if any(is_memory_result(o) for o in variant.operands):
        return 0
    is_wide = any(o.kind is OperandKind.MEMORY and (o.width_bits or 0) > 128 for o in variant.operands)
    general, vector = core.memory.stated
    return (vector if uses_vectors(variant) or is_wide else general) - 1


def shortened(cycles: int, less: int, least: int = 1) -> int:
    """Return a latency that is less by some cycles, but not 0 if it was not: 0 would be no dependency."""
    return min(cycles, max(least, cycles - less))


def _endpoints(variant: InstructionVariant, facts: Mapping[LatencyPair, Cycles]) -> Latencies:
    """Return the latencies by endpoint: flags each by itself, a memory operand as a result by its content."""
    operands = {o.index: o for o in variant.operands}
    found: Latencies = {}
    for pair, one in facts.items():
        if pair.source not in operands or pair.target not in operands:
            continue
        for source in _sources(operands[pair.source], pair.part):
            for target in _targets(operands[pair.target]):
                found[source, target] = one.cycles
    return found


def _sources(operand: Operand, part: LatencyPart) -> tuple[Endpoint, ...]:
    if operand.kind is OperandKind.FLAGS:
        return tuple(Endpoint(operand.index, flag=flag) for flag in read_flags(operand))
    if operand.kind is OperandKind.AGEN and part is LatencyPart.NONE:
        return address_inputs(operand)
    if operand.kind is OperandKind.MEMORY and part is LatencyPart.NONE:
        return (Endpoint(operand.index, LatencyPart.MEMORY),)
    known = part is not LatencyPart.NONE or tracked(operand)
    return (Endpoint(operand.index, part),) if known else ()


def _targets(operand: Operand) -> tuple[Endpoint, ...]:
    if operand.kind is OperandKind.FLAGS:
        return tuple(Endpoint(operand.index, flag=flag) for flag in written_flags(operand))
    if operand.kind is OperandKind.MEMORY:
        return (Endpoint(operand.index, LatencyPart.MEMORY),)
    return (Endpoint(operand.index),) if tracked(operand) else ()


def _without_memory(variant: InstructionVariant, facts: Mapping[LatencyPair, Cycles], core: CoreConstants) -> Latencies:
    """Return the latencies with those through memory as if nothing came between a store and a load."""
    stated = _endpoints(variant, facts)
    found = {pair: cycles for pair, cycles in stated.items() if LatencyPart.MEMORY not in _parts(pair)}
    for operand in variant.operands:
        if operand.kind is not OperandKind.MEMORY:
            continue
        place = Endpoint(operand.index, LatencyPart.MEMORY)
        computed = _computed_cycles(operand, stated, core)
        if is_memory_result(operand):
            moved = set(address_updates(variant))
            known = {source for source, _ in stated}
            sources = [source for source in value_inputs(variant) if source in known and source not in moved]
            found |= {(source, place): _until_flags(source, stated, computed) for source in sources}
        if operand.read and computed:
            found |= {(place, end): computed for end in [*value_outputs(variant), place]}
        elif operand.read:
            found |= {(place, end): cycles for end, cycles in _behind_load(variant, operand, facts, core)}
    return found


def _parts(pair: tuple[Endpoint, Endpoint]) -> tuple[LatencyPart, LatencyPart]:
    return (pair[0].part, pair[1].part)


def _until_flags(source: Endpoint, stated: Latencies, default: int) -> int:
    """Return the cycles from a source to the first flag, which is ready together with the stored value."""
    flags = (cycles for (start, end), cycles in stated.items() if start == source and end.flag)
    return min(flags, default=default)


def _computed_cycles(operand: Operand, stated: Latencies, core: CoreConstants) -> int:
    """Return the cycles from what is read to what is stored in an operand in memory; 0 if it is not both.

    A file states them if every such place is renamed. Else flags that come out of a register tell.
    """
    if not operand.read or not is_memory_result(operand):
        return 0
    assert core.memory_renaming is not None
    place = Endpoint(operand.index, LatencyPart.MEMORY)
    if (
        operand.width_bits in core.memory_renaming.widths
        and not core.memory_renaming.bases
        and (place, place) in stated
    ):
        return max(1, stated[place, place])
    flags = [cycles for (source, end), cycles in stated.items() if source.part is LatencyPart.NONE and end.flag]
    return min(flags, default=1)


def _behind_load(
    variant: InstructionVariant, operand: Operand, facts: Mapping[LatencyPair, Cycles], core: CoreConstants
) -> Iterator[tuple[Endpoint, int]]:
    """Yield the results of a load, and how many cycles after a plain load of that kind of register they are there.

    That is nothing where only an upper bound is known, and nothing else is read.
    """
    narrow, middle, _ = core.memory.load_latency
    load = middle if uses_vectors(variant) else narrow
    operands = {o.index: o for o in variant.operands}
    moved = set(address_updates(variant))
    alone = all(source in moved for source in value_inputs(variant))
    for pair, one in facts.items():
        if pair.source == operand.index and pair.part in ADDRESS_PARTS and pair.target in operands:
            for end in _targets(operands[pair.target]):
                if end not in moved:
                    yield end, 0 if alone and one.bounded and not uses_vectors(variant) else max(0, one.cycles - load)


def _waited_cycles(variant: InstructionVariant, core: CoreConstants) -> int:
    """Return the cycles from the data of a plain store to a load of them that waits, less one; 0 for other variants.

    Stores of 8 and 16 bits are measured with other loads.
    """
    places = [o for o in variant.operands if o.kind is OperandKind.MEMORY]
    if any(o.read or (o.width_bits or 0) < 32 for o in places) or not core.ports.load:
        return 0
    return core.memory.waited[uses_vectors(variant)]
