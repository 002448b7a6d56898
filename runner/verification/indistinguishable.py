"""Proof that a port usage cannot be told: another machine on which every experiment gives the same result.

The other machine differs in one variant only: its µops can use the ports that were inferred instead of the true ones.
If all measurements that characterizing the variant needs are the same on both, nothing that uopscope does tells the
two machines apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inference.characterizer import Characterizer
from results.findings import Indistinguishable, NoPorts
from runner.backends.sim import SimBackend
from runner.measuring import aggregate
from runner.measuring.protocol import Measurer, Options
from runner.measuring.session import Limits, Session
from simulator.judging.ports import nearest, with_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

    from generator.sequences.blocking import CodeKind
    from inference.experiment import Request
    from inference.ports.blocking_instructions import BlockingSet
    from results.model import Failure, Form, Measurement, PortUsage
    from simulator.machines.machine import MachineModel
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant

    Blocking = Mapping[CodeKind, BlockingSet]

MOST_TRIED = 3
"""Machines that are tried: each takes as many measurements as the variant itself."""


def named(failures: Iterable[Failure], form: Form) -> list[PortUsage]:
    """Return the usages of a form between which failures say that they cannot tell."""
    reasons = [failure.why for failure in failures if isinstance(failure, NoPorts) and failure.form is form]
    return [usage for why in reasons if isinstance(why, Indistinguishable) for usage in why.usages]


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
    machine: MachineModel, other: MachineModel, catalogue: Catalogue, variant: InstructionVariant, blocking: Blocking
) -> bool:
    """Whether every measurement that characterizing the variant takes gives the same on both machines.

    Values per copy count as the same if they differ by less than what a stable measurement may spread by.
    """
    return _alike(_values(machine, catalogue, variant, blocking), _values(other, catalogue, variant, blocking))


def _alike(one: Mapping[str, Mapping[str, Fraction]], other: Mapping[str, Mapping[str, Fraction]]) -> bool:
    """Whether the same was asked for on two machines and gave the same."""
    return one.keys() == other.keys() and all(_agree(one[key], other[key]) for key in one)


def proved_by(
    machine: MachineModel, catalogue: Catalogue, variant: InstructionVariant, blocking: Blocking, left: list[PortUsage]
) -> PortUsage | None:
    """Return a usage that no measurement tells from the true one, None if no such usage is found.

    The nearest usages are tried: first those that are `left`, then those with one µop of the commonest set on a part of
    it.
    """
    behaviour = machine.behaviour(variant)
    if behaviour is None:
        return None
    true = behaviour.port_usage
    sets = {ports for known in blocking.values() for ports in known.sets()}
    own = _values(machine, catalogue, variant, blocking)
    for usage in nearest(true, left, sets)[:MOST_TRIED]:
        other = with_usage(machine, variant, usage)
        if other is not None and _alike(own, _values(other, catalogue, variant, blocking)):
            return usage
    return None


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
