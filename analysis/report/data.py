"""A prediction as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.report.facts import latencies, port_usage, positions_on_cycle
from analysis.report.text import sentence
from analysis.whatif import what_ifs

if TYPE_CHECKING:
    from analysis.bounds import Bounds
    from simulator.machines.machine import MachineModel

SCHEMA = 1
"""The version of the JSON: it grows when a name changes its meaning or goes."""


def json_of(bounds: Bounds, machine: MachineModel) -> dict[str, Any]:
    """Return a prediction as JSON; cycles are numbers, ports as `1*p0156+1*p23`."""
    on_cycle = positions_on_cycle(bounds)
    return {
        "schema": SCHEMA,
        "architecture": machine.name,
        "machine": machine.origin.text,
        "running": bounds.running.value,
        "cycles_per_iteration": float(bounds.cycles),
        "limits": [one.value for one in bounds.limits],
        "explanation": sentence(bounds),
        "bounds": {one.value: float(cycles) for one, cycles in bounds.cycles_of.items()},
        "fullest_ports": "".join(sorted(bounds.full)),
        "what_if": [{"change": one.change, "cycles": float(one.cycles)} for one in what_ifs(bounds)],
        "unknown": [item.name for item in bounds.block.unknown],
        "instructions": [
            {
                "offset": offset,
                "code": item.data.hex(),
                "text": item.text,
                "variant": item.name,
                "known": item.known,
                "uops": item.effects.slots,
                "ports": str(port_usage(item, machine)),
                "latencies": latencies(item),
                "fused_with_next": bounds.block.fused[position],
                "on_cycle": position in on_cycle,
            }
            for position, (item, offset) in enumerate(zip(bounds.block.items, bounds.block.offsets, strict=True))
        ],
    }
