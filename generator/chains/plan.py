"""Plans the latency of every pair of operands of a variant (ASPLOS 2019, section 5.2).

A plan has an `OperandPair` for every input and output of the variant. Those that cannot be measured carry the reason. A
pair has candidate routes back from the output to the input, or is a chain by itself. Inference asks
`OperandPair.chain` for microbenchmarks of the lengths that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from generator.assemble import assemble
from generator.chains.chain import Chain, ChainFactory
from generator.chains.links import Route, routes
from generator.errors import AllocationError
from generator.exclusions import excluded_latency, unreachable
from generator.operands.allocation import Allocator, plain_addresses
from generator.operands.places import Place, destinations, sources
from generator.operands.registers import name_among, register_class
from generator.operands.values import ValueKind, kinds_of, values_of
from results.model import LatencyPart
from xed_convert.errors import EncodingError
from xed_convert.model import Instance, InstructionVariant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from generator.factory import InstructionFactory


@dataclass(frozen=True, slots=True)
class OperandPair:
    """One input and one output of an instance, and the ways to make a chain of them.

    - `direct`: the output is the input, so the instance chains by itself (but for flags that the end of a loop
      overwrites).
    - `shared`: another input is the same register, so the chain cannot tell them apart.
    - `reason`: why the pair cannot be measured ("": it can).
    """

    source: Place
    destination: Place
    factory: ChainFactory
    routes: tuple[Route, ...]
    direct: bool = False
    shared: bool = False
    kind: ValueKind = ValueKind.ANY
    same_register: bool = False
    reason: str = ""

    def chain(self, route: Route | None, pads: int = 0, *, cut: bool = False) -> Chain:
        """Return the chain through a route (None: the instance's own chain); see `ChainFactory.chain`."""
        own = Route((), (self.destination.node,))
        return self.factory.chain(self.source, self.destination, route or own, pads, cut=cut)


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """All pairs of a variant, and its chains by kind of values; `reason` says why there are none ("")."""

    variant: InstructionVariant
    pairs: tuple[OperandPair, ...] = ()
    factories: Mapping[ValueKind, ChainFactory] = field(default_factory=dict)
    reason: str = ""


@dataclass(slots=True)
class _Collector:
    """Collects pairs and remembers what has been planned already."""

    pairs: list[OperandPair] = field(default_factory=list)
    factories: dict[ValueKind, ChainFactory] = field(default_factory=dict)


def plan_latency(instructions: InstructionFactory, variant: InstructionVariant) -> LatencyPlan:
    """Plan all latencies of a variant.

    Raises:
        UnknownInstructionError: the catalogue lacks a helper instruction.
    """
    reason = excluded_latency(variant)
    if reason:
        return LatencyPlan(variant, reason=reason)
    try:
        instance = Allocator().instance(variant)
    except AllocationError as error:
        return LatencyPlan(variant, reason=error.message)
    collector = _Collector()
    for kind in kinds_of(variant):
        factory = ChainFactory(instructions, instance, values_of(variant, kind))
        collector.factories[kind] = factory
        collector.pairs += _pairs(factory, kind)
        indexed = _indexed(instance)
        if indexed is not None:
            collector.pairs += _index_pairs(ChainFactory(instructions, indexed, values_of(variant, kind)), kind)
    collector.pairs += _same_register_pairs(instructions, instance)
    if not collector.pairs:
        return LatencyPlan(variant, reason="it has no input or no output that latency could be measured between")
    return LatencyPlan(variant, tuple(collector.pairs), collector.factories)


def _pairs(factory: ChainFactory, kind: ValueKind) -> Iterator[OperandPair]:
    """Yield all pairs of an instance."""
    inputs, outputs = sources(factory.instance), destinations(factory.instance)
    for source in inputs:
        shared = sum(place.resource == source.resource for place in inputs) > 1
        for destination in outputs:
            yield replace(pair_between(factory, source, destination), kind=kind, shared=shared)


def pair_between(factory: ChainFactory, source: Place, destination: Place) -> OperandPair:
    """Return a pair with its routes, or the reason why there is none."""
    reason = _unreachable(source) or _unreachable(destination)
    if reason:
        return OperandPair(source, destination, factory, (), reason=reason)
    begin, end = _vector_nodes(destination.node, factory.target_node(source))
    same = source.resource == destination.resource
    direct = same and not factory.needs_restore(source) and source.flag in {"", "CF"}
    found = routes(begin, end) if begin and end else ()
    if same and source.flags:
        found = routes(begin, end, direct=False)
    if direct:
        found = tuple(route for route in found if not route.cross_domain_links)
    missing = "" if found or direct else _no_route(source, destination)
    return OperandPair(source, destination, factory, found, direct=direct, reason=missing)


def _no_route(source: Place, destination: Place) -> str:
    """Say why there is no chain between two places."""
    for place in (source, destination):
        if place.node == "TMM":
            return unreachable(place.register)
    return f"no chain instruction leads from {_name(destination)} to {_name(source)}"


def _vector_nodes(begin: str, end: str) -> tuple[str, str]:
    """Let both ends of a chain between vectors be as wide as the wider one."""
    widths = {"V128", "V256", "V512"}
    if begin in widths and end in widths:
        wider = max(begin, end)
        return wider, wider
    return begin, end


def _unreachable(place: Place) -> str:
    """Return the reason why no chain begins or ends at a place ("")."""
    if place.flags:
        reasons = [unreachable(flag) for flag in place.flags]
        return reasons[0] if all(reasons) else ""
    if place.part is LatencyPart.MEMORY:
        return "" if place.node else "what is read or written is not one place in memory of a known width"
    if place.node:
        return ""
    return (
        unreachable(place.register) or unreachable(place.resource) or f"no chain instruction reaches {place.register}"
    )


def _name(place: Place) -> str:
    """Name a place for people."""
    return place.flag or place.register or f"memory (operand {place.operand})"


def _indexed(instance: Instance) -> Instance | None:
    """Return the instance with an index register in its address, if it has an address without one."""
    plain = plain_addresses(instance.variant)
    if not plain:
        return None
    others = {i: v for i, v in instance.values.items() if i not in {operand.index for operand in plain}}
    return Allocator().instance(instance.variant, others, indexed=True)


def _index_pairs(factory: ChainFactory, kind: ValueKind) -> Iterator[OperandPair]:
    """Yield the pairs whose source is an address's index register."""
    for pair in _pairs(factory, kind):
        if pair.source.part is LatencyPart.ADDRESS_INDEX:
            yield pair


def _same_register_pairs(instructions: InstructionFactory, instance: Instance) -> Iterator[OperandPair]:
    """Yield the pairs of the instance that has one register in all its explicit register operands."""
    operands = instance.variant.explicit_registers
    values = [str(instance.values[o.index]) for o in operands]
    if len(operands) < 2 or len({register_class(value) for value in values}) != 1:
        return
    common = next((name for name in operands[0].registers if all(name_among(o.registers, name) for o in operands)), "")
    chosen = values[0] if all(name_among(o.registers, values[0]) for o in operands) else common
    if not chosen:
        return
    same = {o.index: name_among(o.registers, chosen) for o in operands}
    factory = ChainFactory(instructions, Instance(instance.variant, {**instance.values, **same}))
    try:
        assemble(factory.instance)
    except EncodingError:
        return  # some instructions forbid it
    indices = {operand.index for operand in operands}
    inputs = [p for p in sources(factory.instance) if p.operand in indices]
    outputs = [p for p in destinations(factory.instance) if p.operand in indices]
    if inputs and outputs and not factory.needs_restore(inputs[-1]):
        pair = pair_between(factory, inputs[-1], outputs[0])
        yield replace(pair, same_register=True)
