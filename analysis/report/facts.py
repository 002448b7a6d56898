"""What every report says of an instruction: its ports, its latencies, whether it is on the slowest circle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.model import PortUsage

if TYPE_CHECKING:
    from analysis.bounds import Bounds
    from analysis.code import Item
    from simulator.machines.machine import MachineModel


def positions_on_cycle(bounds: Bounds) -> set[int]:
    """Return the instructions that are on the slowest circle of dependencies."""
    return {bounds.nodes[number].position for number in bounds.cycle.nodes} if bounds.cycle is not None else set()


def port_usage(item: Item, machine: MachineModel) -> PortUsage:
    """Return the µops of an instruction by their ports."""
    names = machine.parameters.ports
    return PortUsage(
        {
            frozenset(name for number, name in enumerate(names) if mask >> number & 1): count
            for mask, count in item.effects.port_masks
        }
    )


def latencies(item: Item) -> list[int]:
    """Return the cycles from each register or flag that is read to each that is written."""
    return [cycles for output in item.effects.outputs if output.names for _, cycles in output.waits]
