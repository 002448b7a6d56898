"""Blocking instructions: for each set of ports one instruction whose µops keep exactly these ports busy.

They are found by measurement (Abel and Reineke, ASPLOS 2019, §5.1.1): instructions of one µop are grouped by the ports
that they use in isolation, and of each group the one with the highest throughput is taken. Store data and store
address ports have no instruction of one µop; a store is used, whose µops are told apart by their sum of one per set.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from inference.calibration import LEAST_WIDTH
from inference.experiment import Procedure, Request, Want
from inference.ports.blocking_instructions import SATURATED, BlockingInstruction, BlockingSet, Candidate
from inference.ports.isolation import NEAR, Isolated, isolated_of, name_ports, tight_parts
from inference.ports.shared_counters import SharedCounters
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Measured
    from inference.ports.layout import PortLayout
    from inference.ports.shared_counters import Mix
    from results.ports import PortSet

NOTICEABLE = Fraction(99, 100)
"""An instruction is faster than another one if it takes less than this share of its time: 1% is noise."""


def find_blocking(
    candidates: Sequence[Candidate], layout: PortLayout, mix: Mix | None = None, issued: int = LEAST_WIDTH
) -> Procedure[BlockingSet]:
    """Measure the candidates in isolation and choose one for each set of ports that was found.

    `mix` makes mixtures of instructions, by which ports with a shared counter are told apart; `issued` is how many
    µops the core is known to issue per cycle.
    """
    measured = yield [Request(candidate.benchmark, Want.ALL) for candidate in candidates]
    instructions = _instructions(list(zip(candidates, measured, strict=True)), layout)
    chosen = BlockingSet(layout, _fastest(instructions), issued)
    if mix is None:
        return chosen
    named = yield from SharedCounters(layout, mix, chosen.width, dict(chosen.instructions)).run(instructions)
    return BlockingSet(layout, named, issued)


def _instructions(observed: Sequence[tuple[Candidate, Measured]], layout: PortLayout) -> list[BlockingInstruction]:
    """Return everything that the candidates block."""
    return [
        blocking
        for candidate, measured in observed
        if measured.ok
        for blocking in _blocked_by(candidate, isolated_of(measured, layout), layout)
    ]


def _fastest(instructions: Sequence[BlockingInstruction]) -> dict[PortSet, BlockingInstruction]:
    """Return the best instruction for each set of ports."""
    best: dict[PortSet, BlockingInstruction] = {}
    for blocking in instructions:
        known = best.get(blocking.ports)
        if known is None or _better(blocking, known):
            best[blocking.ports] = blocking
    return best


def _better(one: BlockingInstruction, known: BlockingInstruction) -> bool:
    """Whether an instruction blocks the same ports better than the one that is known."""
    if (one.usage.total == 1) != (known.usage.total == 1):
        return one.usage.total == 1
    return one.cycles < known.cycles * NOTICEABLE


def _blocked_by(candidate: Candidate, isolated: Isolated, layout: PortLayout) -> list[BlockingInstruction]:
    """Return what a candidate blocks, if anything."""
    if abs(sum(isolated.uops.values(), Fraction(0)) - isolated.total) > NEAR:
        return []
    if isolated.total == 1 and not candidate.is_store:
        sets = [name_ports(isolated, layout)]
        if not _is_named(sets[0], isolated, layout):
            return []
    elif isolated.total == 2 and candidate.is_store:
        sets = tight_parts(isolated, layout)
    else:
        return []
    usage = PortUsage(dict.fromkeys(sets, 1))
    cycles = isolated.cycles
    return [BlockingInstruction(ports, candidate.variant, usage, cycles) for ports in sets]


def _is_named(ports: PortSet, isolated: Isolated, layout: PortLayout) -> bool:
    """Whether the ports are known by their counters, or by a throughput that they limit."""
    shared = any(len(layout.counters[name]) > 1 for name in layout.touching(ports))
    return not shared or 1 / (isolated.cycles * len(ports)) >= SATURATED
