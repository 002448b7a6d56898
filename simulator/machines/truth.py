"""The right conclusions about a variant of a simulated machine, for tests and benchmarks: inference never sees them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from results.machine.graph import Endpoint, address_updates
from results.model import LatencyPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from results.machine.graph import Behaviour, Uop
    from results.model import PortUsage
    from xed_convert.model import InstructionVariant


@dataclass(frozen=True, slots=True)
class Truth:
    """The model's ports, µops, latencies and bounds for one variant.

    `uops` counts executed µops (those with a port). `latencies` maps (source, destination) to core cycles: the longest
    path; pairs without a path do not depend on each other. `fast_latencies` holds the same for operand values of the
    fast kind (empty where values do not matter). `throughput` is the least reciprocal throughput that ports, issue
    width and divider allow, in cycles per instruction; dependencies through fixed operands may make it larger.
    `eliminated_share` is the share of moves that are eliminated; if all are, there are no executed µops and no latency.
    """

    ports: PortUsage
    uops: int
    latencies: Mapping[tuple[Endpoint, Endpoint], Fraction]
    fast_latencies: Mapping[tuple[Endpoint, Endpoint], Fraction]
    throughput: Fraction
    eliminated_share: Fraction = Fraction(0)
    same_register: Truth | None = None
    slots: int = field(default=1)
    ports_indexed: PortUsage | None = None

    def latency(self, source: int, destination: int) -> Fraction | None:
        """Return the longest latency between two operands over all their parts and flags, None if there is no path."""
        found = [
            cycles
            for (start, end), cycles in self.latencies.items()
            if start.operand == source and end.operand == destination
        ]
        return max(found, default=None)


def truth_of(variant: InstructionVariant, behaviour: Behaviour, issue_width: int) -> Truth:
    """Return the truth about a behaviour."""
    same = behaviour.same_register
    eliminated, whole = behaviour.eliminated_share
    if eliminated == whole:
        gone = tuple(replace(uop, ports=frozenset(), latency=0) for uop in behaviour.uops)
        behaviour = replace(behaviour, uops=gone)
    usage = behaviour.port_usage
    has_fast = any(uop.fast is not None for uop in behaviour.uops)
    return Truth(
        usage,
        usage.total,
        _with_names(variant, longest_paths(behaviour.uops)),
        _with_names(variant, longest_paths(behaviour.uops, fast=True)) if has_fast else {},
        _throughput(behaviour, issue_width),
        Fraction(eliminated, whole),
        truth_of(variant, same, issue_width) if same is not None else None,
        behaviour.slots,
    )


def _with_names(
    variant: InstructionVariant, paths: dict[tuple[Endpoint, Endpoint], Fraction]
) -> dict[tuple[Endpoint, Endpoint], Fraction]:
    """Give a register that is an operand and an implicit address (RSP of PUSH) both its names as a source.

    Where no µop updates such a register, the rename stage does, at no cost.
    """
    bases = {o.memory.base: o.index for o in variant.operands if o.suppressed and o.memory is not None}
    same = {
        Endpoint(o.index): Endpoint(bases[o.registers[0]], LatencyPart.ADDRESS)
        for o in variant.operands
        if len(o.registers) == 1 and o.registers[0] in bases
    }
    same |= {address: register for register, address in same.items()}
    updated_for_free = set(address_updates(variant)) - {end for _, end in paths}
    paths = paths | {(register, register): Fraction(0) for register in updated_for_free}
    found = dict(paths)
    for (start, end), cycles in paths.items():
        if start in same:
            found[same[start], end] = max(cycles, found.get((same[start], end), cycles))
    return found


def longest_paths(uops: tuple[Uop, ...], *, fast: bool = False) -> dict[tuple[Endpoint, Endpoint], Fraction]:
    """Return the longest latency from each endpoint to each endpoint that depends on it."""
    return {ends: Fraction(cycles) for ends, cycles in longest_cycles(uops, fast=fast).items()}


def longest_cycles(uops: tuple[Uop, ...], *, fast: bool = False) -> dict[tuple[Endpoint, Endpoint], int]:
    """Return the same in whole cycles; `fast`: for operand values of the fast kind."""
    arrivals: list[dict[Endpoint, int]] = []
    pairs: dict[tuple[Endpoint, Endpoint], int] = {}
    for uop in uops:
        latency = uop.fast[0] if fast and uop.fast is not None else uop.latency
        arrival: dict[Endpoint, int] = {}
        for source in uop.inputs:
            starts = {source: 0} if isinstance(source, Endpoint) else arrivals[source]
            for start, cycles in starts.items():
                arrival[start] = max(arrival.get(start, 0), cycles + latency)
        arrivals.append(arrival)
        for end in uop.outputs:
            for start, cycles in arrival.items():
                pairs[start, end] = max(pairs.get((start, end), 0), cycles)
    return pairs


def _throughput(behaviour: Behaviour, issue_width: int) -> Fraction:
    """Return the least reciprocal throughput. A set of ports serves the µops that have no others (Hall's condition)."""
    needs = behaviour.port_usage.uops
    unions = {frozenset[str]()}
    for ports in needs:
        unions |= {union | ports for union in unions}
    port_bound = max(
        (Fraction(sum(n for ports, n in needs.items() if ports <= union), len(union)) for union in unions if union),
        default=Fraction(0),
    )
    eliminated, whole = behaviour.eliminated_share
    port_bound *= 1 - Fraction(eliminated, whole)
    divider = Fraction(sum(uop.divider_cycles for uop in behaviour.uops))
    return max(port_bound, divider, Fraction(behaviour.slots, issue_width))
