"""Blocking instructions: for each set of ports one instruction whose µops keep exactly these ports busy.

They are found by measurement (Abel and Reineke, ASPLOS 2019, §5.1.1). Instructions of one µop are grouped by the ports
that they use in isolation. The one with the highest throughput represents its group. No instruction of one µop uses the
ports of store data or of store addresses, so a store is used for these. Each of the two sets of ports runs one µop per
store, which tells its µops apart.

In isolation a store may use only some of its address ports: with one store per cycle, one port is enough. So stores are
also measured in bursts: all wait for one address. When it is ready, all address ports are busy, whether the core
chooses ports at issue or at dispatch.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.errors import GenerationError
from generator.microbenchmark import code_bytes
from inference.calibration import LEAST_WIDTH
from inference.experiment import Procedure, Request, Want
from inference.ports.alone.accuracy import accuracy_of
from inference.ports.alone.isolation import (
    TOLERANCE_PER_UOP,
    UNUSED,
    Isolated,
    isolated_of,
    name_ports,
    tight_parts,
)
from inference.ports.blocking_instructions import SATURATED, BlockingInstruction, BlockingSet, Candidate
from inference.ports.scheduling import observe_scheduling
from inference.ports.shared_counters import SharedCounters
from results.model import PortUsage

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from inference.ports.alone.accuracy import Accuracy
    from inference.ports.alone.layout import PortLayout
    from inference.ports.scheduling import Controls
    from results.ports import PortSet

RELEASED = 12
"""Stores that get their address at once: three for each of four ports, more than any core has for addresses."""

LITTLE = Fraction(1, 10)
"""µops per store. A counter may differ by this much because the µops that compute the address took another port: half
of what each of five ports would get."""


def find_blocking(
    candidates: Sequence[Candidate],
    layout: PortLayout,
    code: Controls | None = None,
    issued: int = LEAST_WIDTH,
    elsewhere: Sequence[BlockingSet] = (),
) -> Procedure[BlockingSet]:
    """Measure the candidates in isolation and choose one for each port set that was found.

    Args:
        candidates: instructions that may block ports.
        layout: the counters.
        code: makes code of blocking instructions alone, to tell ports apart that share a counter, and to observe the
            core's choice among free ports (None: neither is done).
        issued: µops per cycle that the core is known to issue.
        elsewhere: blocking instructions of other kinds of code. Ports of the same instruction keep their names.
    """
    observed, accuracy = yield from _observe(candidates, layout)
    released = {} if code is None else (yield from _release(observed, layout, code))
    if released:  # other stores may have used a part of their ports only
        observed = [
            (candidate, replace(isolated, uops=released.get(candidate.variant.key, isolated.uops)))
            for candidate, isolated in observed
            if not candidate.is_store or candidate.variant.key in released
        ]
    instructions = _instructions(observed, layout, issued)
    blocking = BlockingSet(layout, _best(instructions), issued, accuracy=accuracy)
    if code is None:
        return blocking
    names = {one.variant.key: one.ports for other in elsewhere for one in other.named}
    shared = SharedCounters(layout, code.mix, blocking.width, names)
    best = yield from shared.run(instructions)
    blocking = replace(blocking, instructions=best, named=tuple(shared.named))
    blocking = replace(blocking, scheduling=(yield from observe_scheduling(blocking, code)))
    return blocking if blocking.scheduling.takes_turns else _with_shown_ports(blocking, released)


def _observe(
    candidates: Sequence[Candidate], layout: PortLayout
) -> Procedure[tuple[list[tuple[Candidate, Isolated]], Accuracy]]:
    """Return what each candidate that runs did alone, and how far counters and clock are off."""
    measured = yield [Request(candidate.benchmark, Want.ALL) for candidate in candidates]
    observed = [
        (candidate, isolated_of(answer, layout))
        for candidate, answer in zip(candidates, measured, strict=True)
        if answer.ok
    ]
    spreads = [answer.cycles_spread / answer.cycles for answer in measured if answer.ok]
    alone = [isolated for _, isolated in observed]
    return observed, accuracy_of(list(zip(alone, spreads, strict=True)), layout)


def _best(instructions: Sequence[BlockingInstruction]) -> dict[PortSet, BlockingInstruction]:
    """Return the best instruction for each set of ports, of equals the first."""
    best: dict[PortSet, BlockingInstruction] = {}
    for one in instructions:
        known = best.get(one.ports)
        if known is None or one.is_better_than(known):
            best[one.ports] = one
    return best


def _with_shown_ports(blocking: BlockingSet, released: Container[str]) -> BlockingSet:
    """Leave out instructions that did not keep their ports busy: they may have others, unused by chance.

    Stores that were `released` at once kept them busy.
    """
    best = blocking.instructions
    shown = {ports for ports, one in best.items() if one.usage.total == 1 and one.saturates}
    shown |= {ports for ports, one in best.items() if one.variant.key in released}
    unshown = {one.ports for one in best.values() if one.of_memory and one.ports not in shown}
    kept = {ports: one for ports, one in best.items() if ports in shown}
    return replace(blocking, instructions=kept, unshown=tuple(sorted(unshown, key=sorted)))


def _release(
    observed: Sequence[tuple[Candidate, Isolated]], layout: PortLayout, code: Controls
) -> Procedure[dict[str, Mapping[str, Fraction]]]:
    """Return the µops per counter of stores that are released at once, by the keys of their variants.

    Left out are stores whose data cannot wait for the address, and those that share counters with its computation.
    """
    requests = []
    for candidate, isolated in observed:
        try:
            if candidate.is_store:
                requests.append((candidate, isolated, Request(code.released(candidate.variant, RELEASED), Want.PORTS)))
        except GenerationError:
            continue
    if not requests:
        return {}
    delay, *answers = yield [Request(code.delay(), Want.PORTS), *(request for *_, request in requests)]
    if not delay.ok:
        return {}
    found: dict[str, Mapping[str, Fraction]] = {}
    for (candidate, isolated, _), measured in zip(requests, answers, strict=True):
        if not measured.ok:
            continue
        uops = {name: (measured.values[name] - delay.values[name]) / RELEASED for name in layout.counters}
        computing = [name for name in uops if delay.values[name] > UNUSED * RELEASED]
        if all(abs(uops[name] - isolated.uops[name]) <= LITTLE for name in computing):
            found[candidate.variant.key] = {**uops, **{name: isolated.uops[name] for name in computing}}
    return found


def _instructions(
    observed: Sequence[tuple[Candidate, Isolated]], layout: PortLayout, issued: int
) -> list[BlockingInstruction]:
    """Return the blocking instructions among the candidates, one for each set that a candidate blocks."""
    return [
        blocking for candidate, isolated in observed for blocking in _blocked_by(candidate, isolated, layout, issued)
    ]


def _blocked_by(candidate: Candidate, isolated: Isolated, layout: PortLayout, issued: int) -> list[BlockingInstruction]:
    """Return what a candidate blocks, if anything."""
    if abs(sum(isolated.uops.values(), Fraction(0)) - isolated.total) > TOLERANCE_PER_UOP:
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
    benchmark = candidate.benchmark
    size = Fraction(code_bytes(benchmark.body), benchmark.divisor)
    return [BlockingInstruction(ports, candidate.variant, usage, cycles, size) for ports in sets]


def _is_named(ports: PortSet, isolated: Isolated, layout: PortLayout, issued: int) -> bool:
    """Whether the number of ports is known by their counters, or by a throughput that they and not issue limit."""
    shared = layout.touching(ports)
    if all(len(layout.counters[name]) == 1 for name in shared):
        return True
    most = sum(len(layout.counters[name]) for name in shared)
    limited = len(ports) < issued or len(ports) == most
    return limited and 1 / (isolated.cycles * len(ports)) >= SATURATED
