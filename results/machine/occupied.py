"""For how many core cycles an instruction occupies what other instructions need, besides ports.

- **Throughput**: an instruction may take longer than explained by ports, issue slots, divider, what one instance passes
  on to the next, and length-changing prefixes. Then it occupies a unit of its own for the measured time.
- **Loads and stores** occupy data paths to the cache. Where their ports are not known, they share units.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from results.machine.graph import UopKind, read_flags, uses_vectors, written_flags
from results.ports import throughput_of
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.machine.constants import CoreConstants
    from results.machine.facts import FormFacts, VariantFacts
    from results.machine.graph import Behaviour, Uop
    from xed_convert.model import InstructionVariant, Operand

UNEXPLAINED = Fraction(3, 2)
"""Factor, for throughputs of a cycle and more. One that exceeds every explanation by this factor, or by a cycle, has
another cause.

Less than a cycle may come from dependency breakers that used the same ports, or from moves that are not always
eliminated.
"""

X87_PUSH = ("X87PUSH",)
"""Registers of an operand that stands for a push. Measured alone, pushes overflow the x87 stack: their throughput is
that of the overflow, which no program has."""


def occupied_cycles(
    variant: InstructionVariant,
    made: Behaviour,
    form: FormFacts,
    facts: VariantFacts,
    core: CoreConstants,
    *,
    known: bool,
) -> Fraction:
    """Return the core cycles for which an instance delays the next one, if nothing else explains them (else 0)."""
    measured = form.throughput
    if any(o.registers == X87_PUSH for o in variant.operands):
        return Fraction(0)
    if measured is None or _is_predecoding(measured, variant, core):
        return Fraction(0)
    if not known:
        return measured
    explained = max(
        throughput_of(made.port_usage),
        *data_paths(variant, made.uops, core).values(),
        Fraction(made.slots, core.back_end.issue_width),
        Fraction(facts.divider_cycles),
        _carried(variant, facts, measured),
    )
    return measured if is_beyond(measured, explained) else Fraction(0)


def is_beyond(measured: Fraction, explained: Fraction) -> bool:
    """Whether a throughput in core cycles has another cause than what explains so many."""
    return measured >= 1 and (measured >= explained * UNEXPLAINED or measured >= explained + 1)


def _carried(variant: InstructionVariant, facts: VariantFacts, measured: Fraction) -> Fraction:
    """Return how much of a measured throughput is latency from what all instances share to itself.

    That is a fixed register, or a flag that is both read and written: DF of CMPSB is read alone. What is known to take
    more than a cycle longer than the throughput was not in the measured code: dependency breakers cut it.
    """
    shared = {o.index for o in variant.operands if _is_shared(o)}
    found = [one for pair, one in facts.latencies.items() if pair.source == pair.target in shared]
    cycles = [Fraction(one.cycles) for one in found if one.bounded or one.fast <= measured + 1]
    return max(cycles, default=Fraction(0))


def has_length_changing_prefix(variant: InstructionVariant) -> bool:
    """Whether a prefix 66 makes an immediate of 32 bits one of 16.

    So it does in legacy encodings (Intel's Optimization Reference Manual, section on length-changing prefixes). RET and
    ENTER have one of 16 bits with any prefix; ENTER has a second one.
    """
    immediates = [o.width_bits for o in variant.operands if o.kind is OperandKind.IMMEDIATE]
    return immediates == [16] and variant.attributes.get("eosz") == "1" and "evex" not in variant.attributes


def _is_predecoding(measured: Fraction, variant: InstructionVariant, core: CoreConstants) -> bool:
    """Whether a throughput is the time that the predecoder takes for a length-changing prefix.

    A row of such instructions may be decoded each time, also in a loop. Other code has them from the µop cache.
    """
    if core.front_end is None or not has_length_changing_prefix(variant):
        return False
    cycles = Fraction(core.front_end.length_changing_cycles)
    return 0 < cycles <= measured and not is_beyond(measured, cycles)


def _is_shared(operand: Operand) -> bool:
    """Whether all instances read what they write in an operand: a fixed register, or one of the flags."""
    if operand.kind is OperandKind.FLAGS:
        return bool(set(read_flags(operand)) & set(written_flags(operand)))
    return operand.kind is OperandKind.REGISTER and len(operand.registers) == 1


def data_paths(variant: InstructionVariant, uops: Iterable[Uop], core: CoreConstants) -> dict[UopKind, Fraction]:
    """Return for how many core cycles the data paths of loads, and those of stores, are occupied.

    A load or store of more bits than a port moves in a cycle takes its path for as many cycles as are needed; the port
    is free for addresses meanwhile (Intel's Optimization Reference Manual, chapter 2, Sandy Bridge: two accesses of 16
    bytes for each of 256 bits). An access that already has a µop for each half (512 bits on a Zen 4) takes a cycle for
    each of them.
    """
    ports = {UopKind.LOAD: len(core.ports.load), UopKind.STORE_DATA: len(core.ports.store_data)}
    kinds = [uop.kind for uop in uops if uop.ports and ports.get(uop.kind)]
    least = 2 if is_wide(variant, core) else 1
    return {kind: Fraction(max(kinds.count(kind), least), ports[kind]) for kind in dict.fromkeys(kinds)}


def access_units(variant: InstructionVariant, core: CoreConstants) -> dict[str, Fraction]:
    """Return for how many core cycles an instruction occupies what all loads and stores share, by the name of the unit.

    Only if the core's rates of loads and stores are known, and their ports are not.
    """
    places = [o for o in variant.operands if o.kind is OperandKind.MEMORY]
    stores = sum(o.written or o.conditional_write for o in places)
    loads = sum(o.read for o in places)
    if not core.memory.rates or not places or "NOP" in variant.category:
        return {}
    every, storing, vectors, vectors_stored = core.memory.rates
    found = {"loads and stores": Fraction(loads + stores, every), "stores": Fraction(stores, storing)}
    if uses_vectors(variant):
        found["loads of vectors"] = Fraction(loads, vectors)
        found["stores of vectors"] = Fraction(stores, vectors_stored)
    return {name: cycles for name, cycles in found.items() if cycles}


def is_wide(variant: InstructionVariant, core: CoreConstants) -> bool:
    """Whether its operand in memory is twice as wide as what a port moves in a cycle."""
    return any(o.kind is OperandKind.MEMORY and o.width_bits == 2 * core.memory.path_bits for o in variant.operands)
