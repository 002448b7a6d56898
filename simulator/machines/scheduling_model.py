"""Makes a graph of µops from a scheduling model: port sets, one latency per result, read advances.

LLVM's models say how many µops use which ports, and when a result is ready. They do not say what each µop does. So
fixed rules make up a graph that agrees with everything that is stated:

- µops on load ports are loads if the variant reads memory; stores have a data and an address µop;
- address registers are inputs of loads and store addresses only;
- the latency of a load is the read advance of the register source, else 5 cycles (6 for 128 bits, 7 for more);
- the other µops form a chain, the smallest port set first, where all sources enter;
- the first µop of the chain takes the rest of the latency, and all others one cycle; µops beyond the latency stand
  beside the chain;
- if two latencies are stated, the first register written is ready after the first of them;
- a store's data is ready for a load after the rest of the stated latency, at least one cycle;
- registers that an implicit address updates (RSP of PUSH, RDI of STOS) are results of µops of their own. If the model
  has too few µops, the rename stage updates them at no cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from results.machine.graph import (
    Behaviour,
    Endpoint,
    Knowledge,
    Uop,
    UopKind,
    address_inputs,
    address_updates,
    value_inputs,
    value_outputs,
)
from results.model import LatencyPart
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xed_convert.model import InstructionVariant, Operand

STORE_DATA_PORTS = frozenset("49")
LOAD_PORTS = frozenset("23B")
STORE_ADDRESS_PORTS = frozenset("2378")


PLACEHOLDER_CYCLES = 100
"""The latency that LLVM's models of Intel's cores state where none is known: of the catch-all kinds `WriteSystem` and
`WriteMicrocoded`, and `MaxLatency` of Alder Lake (LLVM 19, `X86Sched*.td`). No known latency in them is the same."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a scheduling model states of one variant: port sets (one per µop), latencies, fused µops, advances.

    `advance` is the largest read advance in cycles (0: none); for `divider_cycles` a divider is busy.
    """

    ports: tuple[frozenset[str], ...]
    latencies: tuple[int, ...]
    uops: int
    advance: int = 0
    divider_cycles: int = 0

    @property
    def has_latency(self) -> bool:
        """Whether the latency is known, and no placeholder."""
        return PLACEHOLDER_CYCLES not in self.latencies

    @property
    def has_uops(self) -> bool:
        """Whether ports and µops are known: of the catch-all kinds they are not, and one µop stands for all."""
        return self.has_latency or self.uops > 1


@dataclass(slots=True)
class _UnfinishedGraph:
    """A graph in the making."""

    variant: InstructionVariant
    facts: ModelFacts
    updates: tuple[Endpoint, ...]
    uops: list[Uop] = field(default_factory=list)
    loads: list[frozenset[str]] = field(default_factory=list)
    store_data: list[frozenset[str]] = field(default_factory=list)
    store_addresses: list[frozenset[str]] = field(default_factory=list)
    compute: list[frozenset[str]] = field(default_factory=list)
    updaters: list[frozenset[str]] = field(default_factory=list)

    @property
    def values(self) -> tuple[Endpoint, ...]:
        """The inputs of the chain: all values but registers that only an implicit address updates."""
        return tuple(e for e in value_inputs(self.variant) if e not in self.updates)

    @property
    def written_memory(self) -> list[Operand]:
        return [o for o in self.variant.operands if o.kind is OperandKind.MEMORY and (o.written or o.conditional_write)]


def behaviour_of(variant: InstructionVariant, facts: ModelFacts) -> Behaviour:
    """Make the graph of a variant out of what a scheduling model states, by the rules of the module's docstring."""
    graph = _UnfinishedGraph(variant, facts, tuple(address_updates(variant)))
    _assign_roles(graph)
    latency = max(facts.latencies, default=1)
    loaded, load_latency = _add_loads(graph, latency)
    budget = latency - load_latency
    stores = bool(graph.store_data)
    values = tuple(e for e in value_outputs(variant) if e not in graph.updates)
    ending = _add_compute(graph, loaded, budget, values)
    if stores:
        _add_stores(graph, ending, max(1, budget - ending.cycles))
    elif graph.written_memory:
        _write_memory_directly(graph)
    _update_addresses(graph)
    if not graph.uops:
        graph.uops.append(Uop(frozenset(), 0, (*value_inputs(variant), *_agen(variant)), value_outputs(variant)))
    return Behaviour(tuple(graph.uops), max(1, facts.uops))


def known_behaviour(variant: InstructionVariant, facts: ModelFacts) -> Behaviour | None:
    """Make the graph without placeholders: a latency that is not known is the shortest; None if no µop is known."""
    if facts.has_latency:
        return behaviour_of(variant, facts)
    if not facts.has_uops:
        return None
    made = behaviour_of(variant, replace(facts, latencies=()))
    return replace(made, knowledge=Knowledge(latency=False))


def _agen(variant: InstructionVariant) -> tuple[Endpoint, ...]:
    """Return the registers of an address that is computed but not used (LEA)."""
    return tuple(e for o in variant.operands if o.kind is OperandKind.AGEN for e in address_inputs(o))


def _assign_roles(graph: _UnfinishedGraph) -> None:
    """Decide which µops load and store; a variant without memory operands has neither."""
    rest = sorted(graph.facts.ports, key=lambda s: (len(s), sorted(s)))
    if graph.written_memory:
        graph.store_data = [s for s in rest if s <= STORE_DATA_PORTS]
        rest = [s for s in rest if not s <= STORE_DATA_PORTS]
        keep = 1 if graph.variant.read_memory else 0
        for _ in graph.store_data:
            chosen = _store_address(rest, keep)
            if chosen is not None:
                rest.remove(chosen)
                graph.store_addresses.append(chosen)
    if graph.variant.read_memory:
        graph.loads = [s for s in rest if s <= LOAD_PORTS]
        rest = [s for s in rest if not s <= LOAD_PORTS]
    if len(rest) >= len(graph.updates) > 0:
        graph.updaters = rest[-len(graph.updates) :]
        rest = rest[: -len(graph.updates)]
    graph.compute = rest


def _store_address(rest: Sequence[frozenset[str]], keep: int) -> frozenset[str] | None:
    """Choose a µop for a store's address: ports that only stores use first, and leave `keep` for loads."""
    pure = [s for s in rest if s <= STORE_ADDRESS_PORTS and s & frozenset("78")]
    shared = [s for s in rest if s <= LOAD_PORTS and s <= STORE_ADDRESS_PORTS]
    if pure:
        return pure[0]
    return shared[0] if len(shared) > keep else None


def _add_loads(graph: _UnfinishedGraph, latency: int) -> tuple[list[int], int]:
    """Add the loads; return their indices and the latency of a load."""
    if not graph.loads:
        return [], 0
    source = graph.variant.read_memory[0]
    width = source.width_bits or 64
    natural = graph.facts.advance or (5 if width <= 64 else 6 if width == 128 else 7)
    remaining = 1 if graph.compute else 0
    load_latency = max(1, min(natural, latency - remaining))
    if not graph.compute and not graph.store_data:
        load_latency = max(1, latency)
    for number, ports in enumerate(graph.loads):
        operand = graph.variant.read_memory[min(number, len(graph.variant.read_memory) - 1)]
        inputs = (*address_inputs(operand), Endpoint(operand.index, LatencyPart.MEMORY), *_vsib_mask(graph, operand))
        graph.uops.append(Uop(ports, load_latency, inputs, kind=UopKind.LOAD))
    return list(range(len(graph.loads))), load_latency


def _vsib_mask(graph: _UnfinishedGraph, operand: Operand) -> tuple[Endpoint, ...]:
    """Return the mask of a gather: no element is loaded before it is known."""
    if operand.memory is None or not operand.memory.vsib:
        return ()
    return tuple(e for e in value_inputs(graph.variant) if graph.variant.operand(e.operand).opmask)


@dataclass(frozen=True, slots=True)
class _Ending:
    """The last µops of loads and chain, or the values that stand for them, and the cycles of the chain."""

    inputs: tuple[Endpoint | int, ...]
    cycles: int


def _add_compute(graph: _UnfinishedGraph, loaded: list[int], budget: int, outputs: tuple[Endpoint, ...]) -> _Ending:
    """Add the chain of computing µops and the µops beside it."""
    sources: tuple[Endpoint | int, ...] = (*graph.values, *_agen(graph.variant), *loaded)
    stores = bool(graph.store_data)
    reserved = 1 if stores and budget > 1 else 0
    if not graph.compute:
        _give_loads_the_outputs(graph, loaded, outputs)
        return _Ending(sources, 0)
    cycles = max(1, budget - reserved)
    if stores and not graph.facts.divider_cycles and graph.variant.read_memory:
        cycles = min(cycles, len(graph.compute))
    length = min(len(graph.compute), cycles)
    early, late = _split_outputs(graph, outputs, length)
    first = len(graph.uops)
    for number, ports in enumerate(graph.compute):
        in_chain = number < length
        latency = cycles - (length - 1) if number == 0 else 1
        inputs: tuple[Endpoint | int, ...] = sources if number == 0 or not in_chain else (first + number - 1,)
        last, before_last = number == length - 1, number == length - 2
        results = late if last else early if before_last else ()
        divider = graph.facts.divider_cycles if number == 0 else 0
        graph.uops.append(Uop(ports, latency, inputs, results, divider_cycles=divider))
    return _Ending((first + length - 1,), cycles)


def _give_loads_the_outputs(graph: _UnfinishedGraph, loaded: list[int], outputs: tuple[Endpoint, ...]) -> None:
    """Let loads write the registers of a variant that only loads."""
    if loaded and outputs:
        uop = graph.uops[loaded[-1]]
        inputs = (*uop.inputs, *graph.values, *loaded[:-1])
        graph.uops[loaded[-1]] = Uop(uop.ports, uop.latency, inputs, outputs, kind=UopKind.LOAD)
    elif outputs:
        graph.uops.append(Uop(frozenset(), 0, graph.values, outputs))


def _split_outputs(
    graph: _UnfinishedGraph, outputs: tuple[Endpoint, ...], length: int
) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
    """Return the results of the last µop but one, and of the last. With two latencies, the first register is early."""
    latencies = graph.facts.latencies
    registers = [e for e in outputs if not e.flag]
    if length < 2 or len(latencies) != 2 or latencies[1] != latencies[0] + 1 or len(registers) < 2:
        return (), outputs
    return (registers[0],), tuple(e for e in outputs if e != registers[0])


def _add_stores(graph: _UnfinishedGraph, ending: _Ending, latency: int) -> None:
    """Add a data µop and an address µop per store; a load from there waits for both."""
    operands = graph.written_memory
    for number, ports in enumerate(graph.store_data):
        operand = operands[min(number, len(operands) - 1)]
        memory = (Endpoint(operand.index, LatencyPart.MEMORY),)
        address = address_inputs(operand)
        data = ending.inputs
        if number < len(graph.store_addresses):
            graph.uops.append(
                Uop(graph.store_addresses[number], 1, address, memory, UopKind.STORE_ADDRESS),
            )
        else:
            data = (*data, *address)
        graph.uops.append(Uop(ports, latency, data, memory, UopKind.STORE_DATA))


def _write_memory_directly(graph: _UnfinishedGraph) -> None:
    """Without a store-data µop the last µop writes memory."""
    if graph.uops:
        memory = tuple(Endpoint(o.index, LatencyPart.MEMORY) for o in graph.written_memory)
        address = tuple(e for o in graph.written_memory for e in address_inputs(o))
        last = graph.uops[-1]
        inputs = tuple(dict.fromkeys((*last.inputs, *address)))
        outputs = (*last.outputs, *memory)
        graph.uops[-1] = Uop(last.ports, last.latency, inputs, outputs, last.kind, last.divider_cycles)


def _update_addresses(graph: _UnfinishedGraph) -> None:
    """Add a µop for each register that an implicit address updates."""
    for ports, endpoint in zip(graph.updaters, graph.updates, strict=False):
        graph.uops.append(Uop(ports, 1, (endpoint,), (endpoint,)))
