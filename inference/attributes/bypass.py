"""Bypass delays: whether vectors take longer from one domain, integers or floating-point numbers, to the other.

The same chain is measured with links of either domain (`generator.chains.domains`). Its time minus that of its links
is the latency of the instruction plus both bypass delays: to the domain of the links, and back. Only the sum of both
delays can be measured, since a chain is a cycle. If the instruction can be chained to itself without links, its latency
is known. Otherwise the faster domain is assumed to add no delay.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from generator.chains.domains import crossing_pair, domain_routes
from inference.latency.conclusions import SWAPPED, WITHOUT_LINKS, key_of
from inference.tolerances import AGREE
from results.findings import DomainTime
from results.model import BYPASS, Bound, Derivation
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.chains.links import Route
    from generator.chains.plan import LatencyPlan, OperandPair
    from inference.builder import ConclusionBuilder
    from inference.calibration import Calibrations
    from inference.experiment import Procedure
    from results.model import LatencyResult

LENGTHS = 2, 4
"""Links in a chain. In the longer one other µops of the instruction, and links on busy ports, have more time to wait:
what both chains show is a bypass delay, and no contention."""

LEAST_DELAY = Fraction(3, 4)
"""Cycles. A bypass delay is a whole number; a quarter of a cycle is more than the noise of two short chains."""


def measure_bypass(found: ConclusionBuilder, plan: LatencyPlan, calibrations: Calibrations) -> Procedure[None]:
    """Note for each domain the cycles that links there add, beyond their own, to the latency of a variant."""
    pair = crossing_pair(plan)
    if pair is None:
        return
    short, long = (domain_routes(pair, length) for length in LENGTHS)
    if len(short) < 2:
        return
    yield from calibrations.need({link.name for route in short.values() for link in route.links})
    alone = _alone(pair, found.latencies)
    times = yield from _times(pair, short, calibrations)
    if not any(delay >= LEAST_DELAY for delay in _delays(times, alone).values()):
        return
    longer = yield from _times(pair, long, calibrations)
    delays, again = _delays(times, alone), _delays(longer, alone)
    steady = {domain for domain in delays.keys() & again.keys() if abs(again[domain] - delays[domain]) <= AGREE}
    noted = {domain: round(delays[domain]) for domain in sorted(steady) if delays[domain] >= LEAST_DELAY}
    if noted:
        found.attributes.update({f"bypass_{domain}": cycles for domain, cycles in noted.items()})
        measured = [*times.values(), *longer.values()]
        steps = tuple(one for _, one in measured)
        found.derivations.append(Derivation(BYPASS, steps, tuple(name for name, _ in measured)))


def _alone(pair: OperandPair, latencies: Sequence[LatencyResult]) -> Fraction | None:
    """Return the latency of a pair if a chain without links showed it (None: none did)."""
    same = (one for one in latencies if one.key == key_of(pair) and one.bound is Bound.EXACT)
    return next((one.cycles for one in same if one.chain in (WITHOUT_LINKS, SWAPPED)), None)


def _times(
    pair: OperandPair, routes: Mapping[str, Route], calibrations: Calibrations
) -> Procedure[dict[str, tuple[str, DomainTime]]]:
    """Return the times of chains and of their links, by domain, with experiments; {} if not all of them are known."""
    if not all(calibrations.is_exact(link) for route in routes.values() for link in route.links):
        return {}
    try:
        chains = {domain: pair.chain(route) for domain, route in routes.items()}
    except (UopscopeError, LookupError):
        return {}
    answers = yield [calibrations.request(chain.benchmark) for chain in chains.values()]
    found = {}
    for (domain, chain), measured in zip(chains.items(), answers, strict=True):
        if not measured.ok or not chain.isolated:
            return {}
        links = calibrations.latency_of(chain.links)
        found[domain] = chain.benchmark.id, DomainTime(domain, measured.cycles, links)
    return found


def _delays(times: Mapping[str, tuple[str, DomainTime]], alone: Fraction | None) -> dict[str, Fraction]:
    """Return by how much each domain's chain takes longer than the instruction alone, else than the quickest chain."""
    beyond = {domain: one.cycles - one.links for domain, (_, one) in times.items()}
    least = min([*beyond.values(), *([] if alone is None else [alone])], default=Fraction(0))
    return {domain: cycles - least for domain, cycles in beyond.items()}
