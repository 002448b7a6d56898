"""Proof that a port usage cannot be told: another machine on which every experiment gives the same result.

The rival differs from a machine in one variant only: its µops can use the ports that were inferred instead of the true
ones. If all measurements that characterizing the variant needs are the same on both, nothing that uopscope does tells
the two machines apart.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from inference.characterizer import Characterizer
from results.model import PortUsage
from results.ports import moved
from runner.backends.sim import SimBackend
from runner.measuring import aggregate
from runner.measuring.protocol import Measurer, Options
from runner.measuring.session import Limits, Session
from simulator.machines.machine import MachineModel

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from fractions import Fraction

    from generator.sequences.blocking import CodeKind
    from inference.experiment import Request
    from inference.ports.blocking_instructions import BlockingSet
    from results.model import Measurement
    from results.ports import PortSet
    from simulator.machines.graph import Uop
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant

    Blocking = Mapping[CodeKind, BlockingSet]

MOST_TRIED = 3
"""So many rivals are tried: each takes as many measurements as the variant itself."""

_USAGE = re.compile(r"\d+\*p[0-9A-F]+(?:\+\d+\*p[0-9A-F]+)*")


def named(failures: Sequence[str]) -> list[PortUsage]:
    """Return the usages between which a failure says that it cannot tell."""
    texts = [text for failure in failures if "cannot be told apart" in failure for text in _USAGE.findall(failure)]
    return [PortUsage({frozenset(s): int(n) for n, s in re.findall(r"(\d+)\*p([0-9A-F]+)", text)}) for text in texts]


def rival_of(machine: MachineModel, variant: InstructionVariant, usage: PortUsage) -> MachineModel | None:
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


@dataclass
class _Notes:
    """Keeps the values of all measurements."""

    values: dict[str, Mapping[str, Fraction]] = field(default_factory=dict)

    def lookup(self, _request: Request) -> Measurement | None:
        return None

    def save(self, measured: Sequence[tuple[Request, Measurement]]) -> None:
        self.values |= {
            request.key: aggregate.measured(request, measurement).values for request, measurement in measured
        }


def are_alike(
    machine: MachineModel, rival: MachineModel, catalogue: Catalogue, variant: InstructionVariant, blocking: Blocking
) -> bool:
    """Whether every measurement that characterizing the variant takes gives the same on both machines.

    Values per copy count as the same if they differ by less than what a stable measurement may spread by.
    """
    return _alike(_values(machine, catalogue, variant, blocking), _values(rival, catalogue, variant, blocking))


def _alike(one: Mapping[str, Mapping[str, Fraction]], other: Mapping[str, Mapping[str, Fraction]]) -> bool:
    """Whether the same was asked for on two machines and gave the same."""
    return one.keys() == other.keys() and all(_agree(one[key], other[key]) for key in one)


def proved_by(
    machine: MachineModel, catalogue: Catalogue, variant: InstructionVariant, blocking: Blocking, left: list[PortUsage]
) -> PortUsage | None:
    """Return a usage that no measurement tells from the true one, None if none of those that are tried is one.

    Tried are the nearest: of those that are `left`, then those where a µop of the commonest set is of a part of it.
    """
    behaviour = machine.behaviour(variant)
    if behaviour is None:
        return None
    true = behaviour.port_usage
    sets = {ports for known in blocking.values() for ports in known.sets()}
    own = _values(machine, catalogue, variant, blocking)
    for usage in nearest(true, left, sets)[:MOST_TRIED]:
        rival = rival_of(machine, variant, usage)
        if rival is not None and _alike(own, _values(rival, catalogue, variant, blocking)):
            return usage
    return None


def nearest(true: PortUsage, left: Sequence[PortUsage], sets: Collection[PortSet]) -> list[PortUsage]:
    """Return other usages, those that are left by how many µops differ, then those with one µop of fewer ports."""
    counts = Counter(true.uops)
    others = [usage for usage in left if usage.total == true.total and Counter(usage.uops) != counts]
    others.sort(key=lambda usage: (Counter(usage.uops) - counts).total())
    commonest = max(true.uops, key=lambda ports: (true.uops[ports], sorted(ports)))
    parts = sorted((ports for ports in sets if ports < commonest), key=lambda ports: (-len(ports), sorted(ports)))
    return others + [usage for part in parts if (usage := moved(true, commonest, part, 1)) not in others]


def _agree(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> bool:
    most = Options().stable_cycles
    return one.keys() == other.keys() and all(abs(one[name] - other[name]) < most for name in one)


def _values(
    machine: MachineModel, catalogue: Catalogue, variant: InstructionVariant, blocking: Blocking
) -> dict[str, Mapping[str, Fraction]]:
    """Return the values per copy of all measurements, by what was asked for."""
    backend = SimBackend(machine, catalogue)
    characterizer = Characterizer(catalogue, backend.info().capabilities)
    notes = _Notes()
    session = Session(Measurer(backend), notes, Limits(keep_raw=False))
    session.run_one(characterizer.characterize(variant, characterizer.prepared(blocking)))
    return notes.values
