"""Code that shows whether operand values change the time: the same chain for each class of values.

    MULPS XMM0, XMM1; ANDPS XMM0, XMM14; ORPS XMM0, XMM13; ...     XMM1 and XMM13 hold 2.0, or a denormal

The chain leads from a result back to an operand whose value matters. AND and OR restore the value, so that each
instance has the same operands. Classes differ only in the setup, so a difference in time is that of the instruction.
If there is no such chain (a comparison, a source in memory), independent instances are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.chains.chain import ChainFactory
from generator.chains.links import GPR_NODES, VECTOR_NODES
from generator.chains.plan import pair_between
from generator.exclusions import excluded_latency
from generator.operands.allocation import Allocator
from generator.operands.places import destinations, sources
from generator.operands.value_classes import classes_of
from results.model import LatencyPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from generator.chains.plan import OperandPair
    from generator.factory import InstructionFactory
    from generator.microbenchmark import Microbenchmark
    from generator.operands.value_classes import ValueClass
    from xed_convert.model import Instance, InstructionVariant


def timed_classes(
    instructions: InstructionFactory, variant: InstructionVariant
) -> list[tuple[ValueClass, Microbenchmark]]:
    """Return the code for each class of values of a variant, the usual one first ([]: there are no classes).

    Raises:
        AllocationError: there are not enough registers.
        EncodingError: an operand cannot be encoded.
        LookupError: there is neither a chain nor a way to cut what instances depend on.
    """
    classes = classes_of(variant)
    if not classes:
        return []
    instance = Allocator().instance(variant)
    usual = ChainFactory(instructions, instance, classes[0].values(variant))
    chosen = None if excluded_latency(variant) else next(_pairs(usual, classes[0], instance), None)
    return [(one, _code(ChainFactory(instructions, instance, one.values(variant)), chosen)) for one in classes]


def _pairs(factory: ChainFactory, usual: ValueClass, instance: Instance) -> Iterator[OperandPair]:
    """Yield pairs of a result and an operand whose value matters, both registers of one file, the last operand first.

    Scalar square roots read the first one only for the lanes that pass.
    """
    for source in reversed(sources(instance)):
        if source.part is not LatencyPart.NONE or not {f"op{source.operand}", source.resource} & usual.places.keys():
            continue
        for destination in destinations(instance):
            file = next((nodes for nodes in (GPR_NODES, VECTOR_NODES) if source.node in nodes), frozenset())
            if destination.part is LatencyPart.NONE and destination.node in file:
                pair = pair_between(factory, source, destination)
                if not pair.reason and pair.routes and not pair.routes[0].cross_domain_links:
                    yield pair


def _code(factory: ChainFactory, pair: OperandPair | None) -> Microbenchmark:
    if pair is not None:
        return factory.chain(pair.source, pair.destination, pair.routes[0]).benchmark
    return factory.independent()
