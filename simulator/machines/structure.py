"""Makes a graph of µops out of what a scheduling model states: port sets, one latency per result, read advances.

LLVM's models say how many µops use which ports and when a result is ready, and nothing of what each µop does. The
graph is made up by fixed rules, so that everything stated holds:

- µops on load ports are loads where the variant reads memory, and stores have a data and an address µop; an address
  enters at loads and store addresses alone;
- a load takes what the read advance of the register source is, or else 5 cycles (6 for 128 bits, 7 for more);
- the other µops form a chain, the smallest port set first; all sources enter at its first µop, which takes what the
  others of one cycle leave of the latency; µops beyond the latency stand beside the chain;
- with two latencies stated, the first register written is ready after the first of them;
- a store's data is ready for a load after what remains of the stated latency, at least one cycle;
- registers that an implicit address updates (RSP of PUSH, RDI of STOS) come out of µops of their own if the model has
  enough for them, else out of the rename stage at no cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from results.model import LatencyPart
from simulator.machines.graph import (
    Behaviour,
    Endpoint,
    Uop,
    UopKind,
    address_inputs,
    tracked,
    value_inputs,
    value_outputs,
)
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xed_convert.model import InstructionVariant, Operand

STORE_DATA_PORTS = frozenset("49")
LOAD_PORTS = frozenset("23B")
STORE_ADDRESS_PORTS = frozenset("2378")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a scheduling model states of one variant: port sets (one per µop), latencies, fused µops, advances.

    `advance` is the largest read advance in cycles (0: none); `divider_cycles` for how long a divider is busy.
    """

    ports: tuple[frozenset[str], ...]
    latencies: tuple[int, ...]
    uops: int
    advance: int = 0
    divider_cycles: int = 0


@dataclass(slots=True)
class _Draft:
    """A graph in the making."""

    variant: InstructionVariant
    facts: Facts
    updates: tuple[Endpoint, ...]
    uops: list[Uop] = field(default_factory=list)
    loads: list[frozenset[str]] = field(default_factory=list)
    store_data: list[frozenset[str]] = field(default_factory=list)
    store_addresses: list[frozenset[str]] = field(default_factory=list)
    compute: list[frozenset[str]] = field(default_factory=list)
    updaters: list[frozenset[str]] = field(default_factory=list)

    @property
    def values(self) -> tuple[Endpoint, ...]:
        """What enters the chain: not the registers that only an address goes through."""
        return tuple(e for e in value_inputs(self.variant) if e not in self.updates)

    @property
    def read_memory(self) -> list[Operand]:
        return [o for o in self.variant.operands if o.kind is OperandKind.MEMORY and o.read]

    @property
    def written_memory(self) -> list[Operand]:
        return [o for o in self.variant.operands if o.kind is OperandKind.MEMORY and (o.written or o.conditional_write)]


def behaviour_of(variant: InstructionVariant, facts: Facts) -> Behaviour:
    """Make the graph of a variant out of what a scheduling model states, by the rules of the module's docstring."""
    draft = _Draft(variant, facts, address_updates(variant))
    _assign_roles(draft)
    latency = max(facts.latencies, default=1)
    loaded, load_latency = _add_loads(draft, latency)
    budget = latency - load_latency
    stores = bool(draft.store_data)
    values = tuple(e for e in value_outputs(variant) if e not in draft.updates)
    ending = _add_compute(draft, loaded, budget, values)
    if stores:
        _add_stores(draft, ending, max(1, budget - ending.cycles))
    elif draft.written_memory:
        _write_memory_directly(draft)
    _update_addresses(draft)
    if not draft.uops:
        draft.uops.append(Uop(frozenset(), 0, (*value_inputs(variant), *_agen(variant)), value_outputs(variant)))
    return Behaviour(tuple(draft.uops), max(1, facts.uops))


def _agen(variant: InstructionVariant) -> tuple[Endpoint, ...]:
    """Return the registers of an address that is computed but not used (LEA)."""
    return tuple(e for o in variant.operands if o.kind is OperandKind.AGEN for e in address_inputs(o))


def address_updates(variant: InstructionVariant) -> tuple[Endpoint, ...]:
    """Return the registers that are written because an implicit memory operand goes through them."""
    bases = {o.memory.base for o in variant.operands if o.memory is not None and o.memory.base}
    return tuple(
        Endpoint(o.index)
        for o in variant.operands
        if tracked(o) and o.suppressed and o.written and len(o.registers) == 1 and o.registers[0] in bases
    )


def _assign_roles(draft: _Draft) -> None:
    """Say which µops load and store; a variant without memory operands has neither."""
    rest = sorted(draft.facts.ports, key=lambda s: (len(s), sorted(s)))
    if draft.written_memory:
        draft.store_data = [s for s in rest if s <= STORE_DATA_PORTS]
        rest = [s for s in rest if not s <= STORE_DATA_PORTS]
        keep = 1 if draft.read_memory else 0
        for _ in draft.store_data:
            chosen = _store_address(rest, keep)
            if chosen is not None:
                rest.remove(chosen)
                draft.store_addresses.append(chosen)
    if draft.read_memory:
        draft.loads = [s for s in rest if s <= LOAD_PORTS]
        rest = [s for s in rest if not s <= LOAD_PORTS]
    if len(rest) >= len(draft.updates) > 0:
        draft.updaters = rest[-len(draft.updates) :]
        rest = rest[: -len(draft.updates)]
    draft.compute = rest


def _store_address(rest: Sequence[frozenset[str]], keep: int) -> frozenset[str] | None:
    """Choose a µop for a store's address: ports that only stores use first, and leave `keep` for loads."""
    pure = [s for s in rest if s <= STORE_ADDRESS_PORTS and s & frozenset("78")]
    shared = [s for s in rest if s <= LOAD_PORTS and s <= STORE_ADDRESS_PORTS]
    if pure:
        return pure[0]
    return shared[0] if len(shared) > keep else None


def _add_loads(draft: _Draft, latency: int) -> tuple[list[int], int]:
    """Add the loads; return their indices and the latency of a load."""
    if not draft.loads:
        return [], 0
    source = draft.read_memory[0]
    width = source.width_bits or 64
    natural = draft.facts.advance or (5 if width <= 64 else 6 if width == 128 else 7)
    remaining = 1 if draft.compute else 0
    load_latency = max(1, min(natural, latency - remaining))
    if not draft.compute and not draft.store_data:
        load_latency = max(1, latency)
    for number, ports in enumerate(draft.loads):
        operand = draft.read_memory[min(number, len(draft.read_memory) - 1)]
        inputs = (*address_inputs(operand), Endpoint(operand.index, LatencyPart.MEMORY), *_vsib_mask(draft, operand))
        draft.uops.append(Uop(ports, load_latency, inputs, kind=UopKind.LOAD))
    return list(range(len(draft.loads))), load_latency


def _vsib_mask(draft: _Draft, operand: Operand) -> tuple[Endpoint, ...]:
    """Return the mask of a gather: no element is loaded before it is known."""
    if operand.memory is None or not operand.memory.vsib:
        return ()
    return tuple(e for e in value_inputs(draft.variant) if draft.variant.operand(e.operand).opmask)


@dataclass(frozen=True, slots=True)
class _Ending:
    """Where the results of the loads and the chain come out, and how long the chain takes."""

    inputs: tuple[Endpoint | int, ...]
    cycles: int


def _add_compute(draft: _Draft, loaded: list[int], budget: int, outputs: tuple[Endpoint, ...]) -> _Ending:
    """Add the chain of computing µops and the µops beside it."""
    sources: tuple[Endpoint | int, ...] = (*draft.values, *_agen(draft.variant), *loaded)
    stores = bool(draft.store_data)
    reserved = 1 if stores and budget > 1 else 0
    if not draft.compute:
        _give_loads_the_outputs(draft, loaded, outputs)
        return _Ending(sources, 0)
    cycles = max(1, budget - reserved)
    if stores and not draft.facts.divider_cycles and draft.read_memory:
        cycles = min(cycles, len(draft.compute))
    length = min(len(draft.compute), cycles)
    early, late = _split_outputs(draft, outputs, length)
    first = len(draft.uops)
    for number, ports in enumerate(draft.compute):
        in_chain = number < length
        latency = cycles - (length - 1) if number == 0 else 1
        inputs: tuple[Endpoint | int, ...] = sources if number == 0 or not in_chain else (first + number - 1,)
        last, before_last = number == length - 1, number == length - 2
        results = late if last else early if before_last else ()
        divider = draft.facts.divider_cycles if number == 0 else 0
        draft.uops.append(Uop(ports, latency, inputs, results, divider_cycles=divider))
    return _Ending((first + length - 1,), cycles)


def _give_loads_the_outputs(draft: _Draft, loaded: list[int], outputs: tuple[Endpoint, ...]) -> None:
    """Let loads write the registers of a variant that does nothing but load."""
    if loaded and outputs:
        uop = draft.uops[loaded[-1]]
        inputs = (*uop.inputs, *draft.values, *loaded[:-1])
        draft.uops[loaded[-1]] = Uop(uop.ports, uop.latency, inputs, outputs, kind=UopKind.LOAD)
    elif outputs:
        draft.uops.append(Uop(frozenset(), 0, draft.values, outputs))


def _split_outputs(
    draft: _Draft, outputs: tuple[Endpoint, ...], length: int
) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
    """With two latencies one cycle apart, the first register comes out of the last µop but one."""
    latencies = draft.facts.latencies
    registers = [e for e in outputs if not e.flag]
    if length < 2 or len(latencies) != 2 or latencies[1] != latencies[0] + 1 or len(registers) < 2:
        return (), outputs
    return (registers[0],), tuple(e for e in outputs if e != registers[0])


def _add_stores(draft: _Draft, ending: _Ending, latency: int) -> None:
    """Add a data µop and an address µop per store; a load of the place waits for both."""
    operands = draft.written_memory
    for number, ports in enumerate(draft.store_data):
        operand = operands[min(number, len(operands) - 1)]
        memory = (Endpoint(operand.index, LatencyPart.MEMORY),)
        address = address_inputs(operand)
        data = ending.inputs
        if number < len(draft.store_addresses):
            draft.uops.append(
                Uop(draft.store_addresses[number], 1, address, memory, UopKind.STORE_ADDRESS),
            )
        else:
            data = (*data, *address)
        draft.uops.append(Uop(ports, latency, data, memory, UopKind.STORE_DATA))


def _write_memory_directly(draft: _Draft) -> None:
    """Without a store-data µop the last µop writes memory."""
    if draft.uops:
        memory = tuple(Endpoint(o.index, LatencyPart.MEMORY) for o in draft.written_memory)
        address = tuple(e for o in draft.written_memory for e in address_inputs(o))
        last = draft.uops[-1]
        inputs = tuple(dict.fromkeys((*last.inputs, *address)))
        outputs = (*last.outputs, *memory)
        draft.uops[-1] = Uop(last.ports, last.latency, inputs, outputs, last.kind, last.divider_cycles)


def _update_addresses(draft: _Draft) -> None:
    """Let each register that an implicit address goes through come out of a µop of its own."""
    for ports, endpoint in zip(draft.updaters, draft.updates, strict=False):
        draft.uops.append(Uop(ports, 1, (endpoint,), (endpoint,)))
