"""Machines that differ from a given one in the ports of one variant, nearest first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from results.ports import moved
from simulator.machines.machine import MachineModel

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from results.machine.graph import Uop
    from results.model import PortUsage
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant


def with_usage(machine: MachineModel, variant: InstructionVariant, usage: PortUsage) -> MachineModel | None:
    """Return a machine on which the variant's µops use these ports, None if it has another number of µops."""
    behaviour = machine.behaviour(variant)
    if behaviour is None or behaviour.port_usage.total != usage.total:
        return None
    true, found = Counter(behaviour.port_usage.uops), Counter(usage.uops)
    lost, gained = true - found, list((found - true).elements())
    uops: list[Uop] = []
    for uop in behaviour.uops:
        if lost[uop.ports] > 0:
            lost[uop.ports] -= 1
            chosen = max(gained, key=lambda ports, uop=uop: (len(ports & uop.ports), sorted(ports)))  # type: ignore[misc]
            gained.remove(chosen)
            uops.append(replace(uop, ports=chosen))
        else:
            uops.append(uop)
    changed = replace(behaviour, uops=tuple(uops))
    return MachineModel(
        machine.name,
        machine.parameters,
        machine.origin,
        lambda other: changed if other.string == variant.string else machine.behaviour(other),
    )


def nearest(true: PortUsage, left: Sequence[PortUsage], sets: Collection[PortSet]) -> list[PortUsage]:
    """Return other usages: first those that are left, nearest first, then those with fewer ports for one µop."""
    counts = Counter(true.uops)
    others = [usage for usage in left if usage.total == true.total and Counter(usage.uops) != counts]
    others.sort(key=lambda usage: (Counter(usage.uops) - counts).total())
    commonest = max(true.uops, key=lambda ports: (true.uops[ports], sorted(ports)))
    parts = sorted((ports for ports in sets if ports < commonest), key=lambda ports: (-len(ports), sorted(ports)))
    return others + [usage for part in parts if (usage := moved(true, commonest, part, 1)) not in others]
