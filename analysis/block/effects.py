"""What an instruction reads and writes, the cycles between, and its µops: worked out once for the same bytes.

A machine gives each pair of operands its latency as the longest path through a graph of µops. The paths are followed
here once, so that a block's dependencies need one edge per pair. Results with the same latencies are one result: the
flags of an addition are.

PUSH, POP, CALL and RET change RSP in the stack engine, before µops are made (Intel's Optimization Reference Manual,
section on the stack pointer tracker): no µop waits for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from results.machine.graph import FLAGS
from simulator.core.compiler import TICKS
from simulator.core.delivery import Fetched, usual_decoding
from simulator.instructions.locations import is_vector
from simulator.instructions.opcode import opcode_offset
from simulator.instructions.stack_pointer import STACK_POINTER, reads_stack_pointer
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.core.compiler import Compiled, LocatedUop, Location


@dataclass(frozen=True, slots=True)
class Output:
    """A result: the locations that hold it, and what it waits for, in core cycles."""

    names: tuple[str, ...]
    waits: tuple[tuple[str, int], ...]
    loads_wait: int | None
    """Cycles from a value in memory to the result (None: it does not depend on one)."""
    stored: bool
    """Whether the result is in memory."""
    is_load: bool
    """Whether it comes directly from a load that may make the base of a fast load (`POINTER_LOADS`)."""
    copied: str = ""
    """The register that an eliminated move of 64 bits copies ("": it is no such move)."""


@dataclass(frozen=True, slots=True)
class LoadAddress:
    """The registers of a load's address that µops make, and whether its instruction has vector registers."""

    registers: tuple[str, ...]
    of_vectors: bool


POINTER_LOADS = ("MOV", "MOVSXD", "POP")
"""Loads of 32 bits or more after which a load by their result may be fast (uiCA, ICS 2022, and its artifact)."""

POINTER_BITS, LEAST_LOADED_BITS = 64, 32


@dataclass(frozen=True, slots=True)
class InstructionEffects:
    """What is known of an instruction without the code around it.

    `port_masks` are (bits of port numbers, µops); `fused_masks` without the µop that becomes one with a jump. `slots`
    are issue slots, in the fused domain; `occupies` are cycles for which an instance keeps the next one of the same
    variant from starting, or of all that share the `unit` ("": no others do).
    """

    slots: int
    fetched: Fetched | None
    opcode_offset: int
    outputs: tuple[Output, ...] = ()
    port_masks: tuple[tuple[int, int], ...] = ()
    fused_masks: tuple[tuple[int, int], ...] = ()
    divider_cycles: int = 0
    occupies: Fraction = Fraction(0)
    pointer: str = ""
    """The base register of a load that may be fast if a load made the base ("": it is none)."""
    moves_stack: bool = False
    """Whether the stack engine changes RSP."""
    uses_stack_pointer: bool = False
    """Whether a µop reads or writes RSP."""
    reads_stack_pointer: bool = False
    """Whether it reads RSP as a value, and not only to move it or as a part of an address."""
    flags_read: tuple[str, ...] = ()
    unit: str = ""
    loads: tuple[LoadAddress, ...] = ()
    merged: tuple[str, ...] = ()
    """The registers that µops merge with their high bytes before it; `port_masks` contain these µops."""

    @property
    def stores(self) -> bool:
        """Whether it stores."""
        return any(output.stored for output in self.outputs)


def merging(effects: InstructionEffects, registers: tuple[str, ...], ports: int) -> InstructionEffects:
    """Return the effects of an instruction before which registers are merged with their high bytes on some ports."""
    masks, fused = (Counter(dict(found)) for found in (effects.port_masks, effects.fused_masks))
    for found in (masks, fused):
        found[ports] += len(registers)
    return replace(effects, port_masks=tuple(masks.items()), fused_masks=tuple(fused.items()), merged=registers)


def effects_of(one: Compiled | None, data: bytes) -> InstructionEffects:
    """Work out the effects of an instruction (None: one that is not in the catalogue)."""
    opcode = opcode_offset(data)
    if one is None or one.uops is None:
        fetched = one.fetched if one is not None else None
        unknown = fetched or Fetched((len(data),), usual_decoding(1), opcode_offsets=(opcode,))
        return InstructionEffects(slots=1, fetched=unknown, opcode_offset=opcode)
    if one.eliminated_share[0]:  # bounds take every move that can be eliminated as eliminated
        one = replace(one, uops=tuple(replace(uop, ports=(), latency=0) for uop in one.uops))
    uops = one.uops or ()
    masks = [sum(1 << port for port in uop.ports) for uop in uops if uop.ports]
    read = [place for uop in uops for place in uop.reads if isinstance(place, str)]
    return InstructionEffects(
        slots=one.slots,
        fetched=one.fetched,
        opcode_offset=opcode,
        outputs=_outputs(one),
        port_masks=tuple(Counter(masks).items()),
        fused_masks=tuple(Counter(masks[:-1]).items()),
        divider_cycles=sum(uop.divider_cycles for uop in uops),
        occupies=Fraction(one.unit_ticks, TICKS),
        pointer=_pointer(one),
        moves_stack=_moves_stack(one),
        uses_stack_pointer=not one.stack_change and any(STACK_POINTER in (*uop.reads, *uop.writes) for uop in uops),
        reads_stack_pointer=reads_stack_pointer(one.variant, one.values),
        flags_read=tuple(dict.fromkeys(place for place in read if place in FLAGS)),
        unit=one.unit,
        loads=_loads(one),
    )


def _moves_stack(one: Compiled) -> bool:
    """Whether the stack engine changes RSP, so that no µop makes its new value."""
    return bool(one.stack_change) and not one.resets_stack


def _places_read(one: Compiled) -> list[tuple[str, str, int, int]]:
    """Return the places in memory that an instruction reads: base, index, scale, displacement."""
    return list(dict.fromkeys(place for uop in one.uops or () for place in uop.reads if isinstance(place, tuple)))


def _loads(one: Compiled) -> tuple[LoadAddress, ...]:
    """Return the loads of an instruction, one for each place that it reads: a gather counts as one."""
    of_vectors = any(is_vector(operand) for operand in one.variant.operands if operand.registers)
    left_out = {"", STACK_POINTER} if _moves_stack(one) else {""}
    return tuple(
        LoadAddress(tuple(sorted({base, index} - left_out)), of_vectors) for base, index, *_ in _places_read(one)
    )


def _pointer(one: Compiled) -> str:
    """Return the base of a plain 64-bit load with a small displacement and no index.

    Such a load takes a cycle less if its base comes out of a load (Intel's Optimization Reference Manual, chapter 2,
    section on the data cache: displacements below 2048, base register only).
    """
    places = _places_read(one)
    if len(places) != 1 or one.stack_change:
        return ""
    ((base, index, _, displacement),) = places
    return base if base and not index and 0 <= displacement < 2048 else ""


def _outputs(one: Compiled) -> tuple[Output, ...]:
    """Follow the paths from all that is read to all that is written."""
    uops = one.uops or ()
    arrivals = _arrivals(uops)
    rows: dict[Location, dict[Location, int]] = {}
    for uop, waits in zip(uops, arrivals, strict=True):
        for target in uop.writes:
            row = rows.setdefault(target, {})
            for source, cycles in waits.items():
                row[source] = max(cycles, row.get(source, cycles))
    if _moves_stack(one):
        rows.pop(STACK_POINTER, None)
    written = max(
        [o.width_bits or 0 for o in one.variant.operands if o.kind is OperandKind.REGISTER and o.written], default=0
    )
    is_load = one.variant.iclass in POINTER_LOADS and written >= LEAST_LOADED_BITS
    is_eliminated = bool(one.uneliminated) and written == POINTER_BITS
    return tuple(_grouped(rows, is_load=is_load, is_eliminated=is_eliminated))


def _arrivals(uops: Iterable[LocatedUop]) -> list[dict[Location, int]]:
    """Return for each µop the cycles from each location that it waits for to its end."""
    found: list[dict[Location, int]] = []
    for uop in uops:
        waits: dict[Location, int] = dict.fromkeys(uop.reads, uop.latency)
        for earlier in uop.results:
            for source, cycles in found[earlier].items():
                waits[source] = max(waits.get(source, 0), cycles + uop.latency)
        found.append(waits)
    return found


def _grouped(rows: dict[Location, dict[Location, int]], *, is_load: bool, is_eliminated: bool) -> Iterable[Output]:
    """Make one result of all that have the same latencies."""
    groups: dict[tuple[bool, tuple[tuple[Location, int], ...]], list[str]] = {}
    for target, waits in rows.items():
        names = groups.setdefault((isinstance(target, tuple), tuple(waits.items())), [])
        if isinstance(target, str):
            names.append(target)
    for (stored, row), names in groups.items():
        loaded = [cycles for source, cycles in row if isinstance(source, tuple)]
        wait = max(loaded) if loaded else None
        values = tuple((source, cycles) for source, cycles in row if isinstance(source, str))
        copied = values[0][0] if is_eliminated and len(values) == 1 else ""
        straight = is_load and loaded != [] and not stored
        yield Output(tuple(names), values, wait, stored=stored, is_load=straight, copied=copied)
