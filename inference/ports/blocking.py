"""Blocking instructions: for each set of ports one instruction whose µops keep exactly these ports busy.

They are found by measurement (Abel and Reineke, ASPLOS 2019, §5.1.1): instructions of one µop are grouped by the ports
that they use in isolation, and of each group the one with the highest throughput is taken. Store data and store
address ports have no instruction of one µop; a store is used, whose µops are told apart by their sum of one per set.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from inference.calibration import LEAST_WIDTH
from inference.experiment import Procedure, Request, Want
from inference.ports.blocking_instructions import SATURATED, BlockingInstruction, BlockingSet, Candidate
from inference.ports.isolation import NEAR, Isolated, isolated_of, name_ports, tight_parts
from inference.ports.scheduling import observe_scheduling
from inference.ports.shared_counters import SharedCounters
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Measured
    from inference.ports.layout import PortLayout
    from inference.ports.scheduling import Controls
    from results.ports import PortSet


def find_blocking(
    candidates: Sequence[Candidate],
    layout: PortLayout,
    code: Controls | None = None,
    issued: int = LEAST_WIDTH,
    elsewhere: Sequence[BlockingSet] = (),
) -> Procedure[BlockingSet]:
    """Measure the candidates in isolation and choose one for each set of ports that was found.

    `code` makes code of blocking instructions alone. It tells ports with a shared counter apart, and shows what the
    core does with µops that have a choice (None: nothing does). `issued` is how many µops the core is known to issue
    per cycle. `elsewhere` are those of other kinds of code: ports of the same instruction have the same names.
    """
    measured = yield [Request(candidate.benchmark, Want.ALL) for candidate in candidates]
    instructions = _instructions(list(zip(candidates, measured, strict=True)), layout, issued)
    best: dict[PortSet, BlockingInstruction] = {}
    for one in instructions:
        known = best.get(one.ports)
        if known is None or one.is_better_than(known):
            best[one.ports] = one
    blocking = BlockingSet(layout, best, issued)
    if code is None:
        return blocking
    names = {one.variant.key: one.ports for other in elsewhere for one in other.named}
    shared = SharedCounters(layout, code.mix, blocking.width, names)
    best = yield from shared.run(instructions)
    blocking = BlockingSet(layout, best, issued, tuple(shared.named))
    scheduling = yield from observe_scheduling(blocking, code)
    if not scheduling.spreads:  # what has not kept its ports busy may have others that it happened not to use
        best = {ports: one for ports, one in best.items() if one.usage.total == 1 and one.saturates}
    return replace(blocking, instructions=best, scheduling=scheduling)


def _instructions(
    observed: Sequence[tuple[Candidate, Measured]], layout: PortLayout, issued: int
) -> list[BlockingInstruction]:
    """Return everything that the candidates block."""
    return [
        blocking
        for candidate, measured in observed
        if measured.ok
        for blocking in _blocked_by(candidate, isolated_of(measured, layout), layout, issued)
    ]


def _blocked_by(candidate: Candidate, isolated: Isolated, layout: PortLayout, issued: int) -> list[BlockingInstruction]:
    """Return what a candidate blocks, if anything."""
    if abs(sum(isolated.uops.values(), Fraction(0)) - isolated.total) > NEAR:
        return []
    if isolated.total == 1 and not candidate.is_store:
        sets = [name_ports(isolated, layout)]
        if not _is_named(sets[0], isolated, layout, issued):
            return []
    elif isolated.total == 2 and candidate.is_store:
        sets = tight_parts(isolated, layout)
    else:
        return []
    usage = PortUsage(dict.fromkeys(sets, 1))
    cycles = isolated.cycles
    return [BlockingInstruction(ports, candidate.variant, usage, cycles) for ports in sets]


def _is_named(ports: PortSet, isolated: Isolated, layout: PortLayout, issued: int) -> bool:
    """Whether the number of ports is known by their counters, or by a throughput that they and not issue limit."""
    shared = layout.touching(ports)
    if all(len(layout.counters[name]) == 1 for name in shared):
        return True
    most = sum(len(layout.counters[name]) for name in shared)
    limited = len(ports) < issued or len(ports) == most
    return limited and 1 / (isolated.cycles * len(ports)) >= SATURATED
