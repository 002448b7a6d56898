"""The time of code with one change, from the bounds: an unlimited component, one more port, or a latency of 0.

The changed component gets a new bound, the others stay, and the largest counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analysis.bounds.components import Component
from analysis.bounds.dependencies import Node, slowest_cycle
from results.ports import fullest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from analysis.bounds.components import Bounds


MOST_TRIED = 64
"""Instructions that are tried one by one: the first ones on the slowest dependency cycle."""
MOST_STEPS = 200_000
"""Results that are visited for that; in longer blocks fewer instructions are tried."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A change in words, and the core cycles per iteration with it."""

    change: str
    cycles: Fraction


def what_ifs(bounds: Bounds) -> list[WhatIf]:
    """Return the changes that make the code faster, those that gain most first."""
    tried = [*_components(bounds), *_ports(bounds), *_instructions(bounds)]
    return sorted((one for one in tried if one.cycles < bounds.cycles), key=lambda one: (one.cycles, one.change))


def _with(bounds: Bounds, component: Component, cycles: Fraction) -> Fraction:
    """Return the prediction with another bound of a component."""
    return max(bounds.without({component}), cycles)


def _components(bounds: Bounds) -> Iterator[WhatIf]:
    for component in bounds.limits:
        yield WhatIf(f"without a limit by {component.value}", _with(bounds, component, 0 * bounds.cycles))


def _ports(bounds: Bounds) -> Iterator[WhatIf]:
    """Try each of the busiest ports twice: µops that can use it may use its copy, too."""
    copy = 1 << len(bounds.port_names)
    for number, name in enumerate(bounds.port_names):
        if name not in bounds.full:
            continue
        counts: dict[int, int] = {}
        for mask, count in bounds.port_masks.items():
            able = mask | copy if mask >> number & 1 else mask
            counts[able] = counts.get(able, 0) + count
        yield WhatIf(f"with a second port {name}", _with(bounds, Component.PORTS, fullest(counts)[0]))


def _instructions(bounds: Bounds) -> Iterator[WhatIf]:
    """Try each instruction on the slowest dependency cycle without its latency."""
    if bounds.cycle is None or Component.DEPENDENCIES not in bounds.limits:
        return
    tried = sorted({bounds.nodes[number].position for number in bounds.cycle.nodes})
    for position in tried[: max(1, MOST_STEPS // max(1, len(bounds.nodes)))][:MOST_TRIED]:
        cycle = slowest_cycle([_at_once(node) if node.position == position else node for node in bounds.nodes])
        cycles = cycle.ratio if cycle is not None else 0 * bounds.cycles
        name = bounds.block.items[position].text
        yield WhatIf(f"line {position + 1} without latency ({name})", _with(bounds, Component.DEPENDENCIES, cycles))


def _at_once(node: Node) -> Node:
    return replace(node, edges=[replace(edge, cycles=0) for edge in node.edges])
