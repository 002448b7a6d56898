"""Machines that differ from a given one in the ports of one variant, nearest first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from results.machine.graph import with_index
from results.model import Form
from results.ports import moved
from simulator.machines.machine import MachineModel

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from results.machine.graph import Behaviour, Uop
    from results.model import PortUsage
    from results.ports import PortSet
    from xed_convert.model import InstructionVariant


def with_usage(
    machine: MachineModel, variant: InstructionVariant, usage: PortUsage, form: Form = Form.PLAIN
) -> MachineModel | None:
    """Return a machine on which the µops of a variant's form use these ports.

    None if it has another number of µops, or if the machine forms no address with an index on these ports.
    """
    behaviour = machine.behaviour(variant)
    if behaviour is None:
        return None
    changed = _with_form(behaviour, machine, variant, usage, form)
    if changed is None:
        return None
    return MachineModel(
        machine.name,
        machine.parameters,
        machine.origin,
        lambda each: changed if each.string == variant.string else machine.behaviour(each),
    )


def _with_form(
    behaviour: Behaviour, machine: MachineModel, variant: InstructionVariant, usage: PortUsage, form: Form
) -> Behaviour | None:
    """Return a behaviour with the µops of a form on these ports (None: see `with_usage`)."""
    if form is Form.SAME_REGISTER:
        same = _moved(behaviour.same_register or behaviour, usage)
        return None if same is None else replace(behaviour, same_register=same)
    if form is Form.INDEXED:
        indexed = _moved(behaviour.indexed or _indexed(behaviour, machine, variant), usage)
        possible = indexed is not None and _indexed(indexed, machine, variant) == indexed
        return replace(behaviour, indexed=indexed) if possible else None
    return _moved(behaviour, usage)


def _indexed(behaviour: Behaviour, machine: MachineModel, variant: InstructionVariant) -> Behaviour:
    """Return a behaviour with an index in every address."""
    explicit = [operand.index for operand in variant.operands if operand.explicit]
    uops = tuple(with_index(uop, explicit, machine.parameters.no_index) for uop in behaviour.uops)
    return replace(behaviour, uops=uops)


def _moved(behaviour: Behaviour, usage: PortUsage) -> Behaviour | None:
    """Return a behaviour with its µops on these ports, None if it has another number of µops."""
    if behaviour.port_usage.total != usage.total:
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
    return replace(behaviour, uops=tuple(uops))


def nearest(true: PortUsage, left: Sequence[PortUsage], sets: Collection[PortSet]) -> list[PortUsage]:
    """Return other usages: first those that are left, nearest first, then those with fewer ports for one µop."""
    counts = Counter(true.uops)
    others = [usage for usage in left if usage.total == true.total and Counter(usage.uops) != counts]
    others.sort(key=lambda usage: (Counter(usage.uops) - counts).total())
    commonest = max(true.uops, key=lambda ports: (true.uops[ports], sorted(ports)))
    parts = sorted((ports for ports in sets if ports < commonest), key=lambda ports: (-len(ports), sorted(ports)))
    return others + [usage for part in parts if (usage := moved(true, commonest, part, 1)) not in others]
