"""Latency of every pair of operands, from measured chains (ASPLOS 2019, section 5.2).

The cycles of a chain are the latency plus the times of its links, unless throughput limits the chain. Its throughput
limit is at most the sum of all its parts, each at its throughput. A chain that takes clearly longer than that sum is
limited by latency. Other chains get further links (pads), which add more latency than throughput. If that does not
help, the result is an upper bound.

If a chain takes less time than its links, the output does not depend on the input, and there is no result. If the
latency seems to be 0 or a fraction, a longer chain checks that.

A link between register files cannot be calibrated alone. The least time over all such links, minus one cycle per link,
is an upper bound. Of several exact chains the least value counts: the others include a bypass delay.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from generator.chains.links import GPR_NODES, VECTOR_NODES, restoring
from generator.chains.links import pads as pad_links
from generator.operands.values import ValueKind
from inference.latency.conclusions import conclude, derivations, key_of, merge_flags, with_slower_passes
from inference.latency.evidence import HALF, Attempt, Evidence, PairEvidence, drift_seen, is_unsteady
from results.findings import Code, LinksMissing, NoLatency, NotGenerated, NotPlanned, NotRun
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from generator.chains.chain import Chain
    from generator.chains.links import Link, Route
    from generator.chains.plan import LatencyPlan, OperandPair
    from inference.calibration import Calibrations
    from inference.experiment import Measured, Procedure
    from results.model import Derivation, LatencyResult

RESTORABLE = GPR_NODES | VECTOR_NODES
"""Register files in which links can give a register its first value again."""

ROUNDS = 3
"""Batches of chains for a pair: first ones, longer ones, and those of other lengths. There is nothing else to try."""

MOST_PADS = 96
"""Links. A longer chain would leave the instruction cache of 32 KB even at the smallest number of copies."""

MORE_PADS = 12
"""Links. Other µops on the ports of a chain this long do not delay it: no instruction with a chain that short has more
of them on one port."""

WHOLE = Fraction(1, 50)
"""Cycles. A chain that is no further off an integer takes whole cycles. Else its µops used different ports by turns, or
noise disturbed it."""

QUEUES = 4
"""Factor: no reorder buffer of Intel's has more than this many times the entries of its scheduler (Intel's manuals)."""

OTHER_LENGTHS = (3, 8, 10)
"""Further links of still longer chains, odd and even numbers, where µops seem to delay each other on their ports."""

SURE = Fraction(3, 2)
"""Cycles, the middle between 1 and 2. A result that depends on an input takes one cycle at least, so a latency below
this is 1, and cannot be too high."""

MARGIN = Fraction(3, 100)
"""Share of a chain's cycles by which it must exceed the sum of its throughputs to count as limited by latency. Each of
three measurements (chain, instruction, links) may be off by 1 %."""


@dataclass(frozen=True, slots=True)
class LatencyOutcome:
    """All latencies of a variant, the pairs without one and why, and the derivations."""

    latencies: tuple[LatencyResult, ...] = ()
    failures: tuple[NoLatency, ...] = ()
    derivations: tuple[Derivation, ...] = ()
    left_out: tuple[NotPlanned, ...] = ()


def infer_latencies(
    plan: LatencyPlan, calibrations: Calibrations, uops: int | None = None
) -> Procedure[LatencyOutcome]:
    """Measure and conclude all pairs of a plan.

    Args:
        plan: what to measure.
        calibrations: the machine's link times; missing ones are measured first.
        uops: how many µops the variant executes (None: they are not counted).
    """
    if plan.reason:
        return LatencyOutcome(left_out=(NotPlanned(None, plan.reason),))
    pairs = [pair for pair in plan.pairs if not pair.reason]
    left_out = dict.fromkeys(NotPlanned(key_of(pair), pair.reason) for pair in plan.pairs if pair.reason)
    yield from calibrations.need(_links_of(pairs))
    limits, pace = yield from _throughput_limits(plan, calibrations)
    counted = uops is not None
    if uops is None:
        width = yield from calibrations.need_width()
        uops = max(1, floor(width * max(limits.values(), default=Fraction(0))))
    probe = _ChainProbe(calibrations, limits, pace, uops, counted=counted)
    evidence = yield from probe.run(pairs)
    failures = dict.fromkeys(NoLatency(key_of(one.pair), one.problem) for one in evidence if not one.found)
    measured = [one for one in evidence if one.found]
    yield from probe.compare(measured)
    drift = _drift(measured, calibrations)
    _judge_by_own_chains(measured, drift)
    off = max(drift, calibrations.off)
    chosen = with_slower_passes([conclude(one.pair, one.found, calibrations.times, drift, off) for one in measured])
    latencies = merge_flags([result for result, _ in chosen if result is not None])
    return LatencyOutcome(tuple(latencies), tuple(failures), tuple(derivations(latencies, chosen)), tuple(left_out))


def _drift(evidence: Iterable[PairEvidence], calibrations: Calibrations) -> Fraction:
    """Return the share by which the clock seems to be off, from all chains of a variant."""
    return drift_seen((one for each in evidence for one in each.found), calibrations.off)


def _links_of(pairs: Iterable[OperandPair]) -> list[str]:
    """Return the names of all links and pads that the pairs' chains may use."""
    names: dict[str, None] = {}
    for pair in pairs:
        if pair.factory.needs_restore(pair.source):
            nodes = {node for route in pair.routes for node in route.nodes}
            names.update(dict.fromkeys(restoring(node).name for node in sorted(nodes & RESTORABLE)))
        for route in pair.routes:
            names.update(dict.fromkeys(link.name for link in route.links if link.calibrations))
            for carrier in route.carriers:
                names.update(dict.fromkeys(pad.name for pad in pad_links(route.nodes[carrier])))
    return list(names)


def _throughput_limits(
    plan: LatencyPlan, calibrations: Calibrations
) -> Procedure[tuple[dict[ValueKind, Fraction], Fraction]]:
    """Return the cycles of the variant without dependencies, by kind of values, and the most cycles per line of code.

    The same benchmark stands for indexed addresses and equal registers: an estimate is enough here.
    """
    requests = {}
    for kind, factory in plan.factories.items():
        try:
            requests[kind] = calibrations.request(factory.independent())
        except (UopscopeError, LookupError):
            continue
    answers = yield list(requests.values())
    limits = {kind: measured.cycles for kind, measured in zip(requests, answers, strict=True) if measured.ok}
    pace = max((cycles / len(requests[kind].benchmark.body) for kind, cycles in limits.items()), default=Fraction(0))
    if limits:
        limits.setdefault(ValueKind.ANY, max(limits.values()))
    return limits, pace


class _ChainProbe:
    """Measures chains of pairs, longer ones where throughput interferes."""

    def __init__(
        self, calibrations: Calibrations, limits: dict[ValueKind, Fraction], pace: Fraction, uops: int, *, counted: bool
    ) -> None:
        """Take link times and throughputs.

        `pace`: cycles per line of code around the instruction. `uops`: µops of the instruction if `counted`, else an
        upper bound.
        """
        self.times, self.limits, self.pace = calibrations.times, limits, pace
        self.uops, self.counted = uops, counted
        self._calibrations, self._request = calibrations, calibrations.request

    def run(self, pairs: Sequence[OperandPair]) -> Procedure[list[PairEvidence]]:
        """Return the evidence for each pair, or why there is none."""
        evidence = {id(pair): PairEvidence(pair) for pair in pairs}
        attempts = [attempt for own in evidence.values() for attempt in self._first(own)]
        for _ in range(ROUNDS):
            if not attempts:
                break
            answers = yield [self._request(attempt.chain.benchmark) for attempt in attempts]
            again: dict[tuple[int, str, int], Attempt] = {}
            for attempt, measured in zip(attempts, answers, strict=True):
                own = evidence[id(attempt.pair)]
                if not measured.ok:
                    own.problem = NotRun(Code.CHAIN, measured.status, measured.detail)
                    continue
                found = self._evaluate(attempt, measured)
                own.found.append(found)
                for longer in self._longer(found):
                    again[id(longer.pair), longer.chain.route.name, longer.chain.pads] = longer
            attempts = list(again.values())
        return list(evidence.values())

    def _first(self, own: PairEvidence) -> list[Attempt]:
        """Return the first chains of a pair: its own if it closes one by itself, else those of all routes.

        Routes with inexact links only give upper bounds. They are left out if there are others.
        """
        pair = own.pair
        candidates: list[Route | None] = [None] if pair.direct else list(self._known(pair.routes) or pair.routes)
        attempts = []
        for route in candidates:
            if route and not self._available(route):
                own.problem = LinksMissing(route.name)
                continue
            try:
                attempts.append(Attempt(pair, pair.chain(route)))
            except (UopscopeError, LookupError) as error:
                own.problem = NotGenerated(str(error))
        exact = [attempt for attempt in attempts if attempt.chain.isolated]
        return exact or attempts

    def _known(self, routes: Iterable[Route]) -> list[Route]:
        """Return routes with exact links: all if one has vectors, which may have bypass delays, else the first."""
        exact = [route for route in routes if all(self._exact(link) for link in route.links)]
        return exact if any(VECTOR_NODES & set(route.nodes) for route in exact) else exact[:1]

    def _exact(self, link: Link) -> bool:
        """Whether the time of a link is known exactly."""
        return self._calibrations.is_exact(link)

    def _available(self, route: Route) -> bool:
        """Whether all links of a route that can be calibrated exist here."""
        return all(not link.calibrations or self.times[link.name].ok for link in route.links)

    def _evaluate(self, attempt: Attempt, measured: Measured) -> Evidence:
        """Conclude the latency from a measured chain, and whether it is exact."""
        pair, chain = attempt.pair, attempt.chain
        rest = (measured.cycles - self._latency_of(chain)) / chain.instances
        bound = self._throughput_bound(pair, chain)
        limited = bound is None or measured.cycles <= bound + MARGIN * measured.cycles
        latency = max(rest - chain.cross_domain_links, Fraction(0))
        spread = measured.cycles_spread
        exact = (
            not limited
            and not is_unsteady(measured.cycles, spread)
            and chain.isolated
            and not pair.shared
            and not chain.cross_domain_links
            and all(self.times[name].exact for name in chain.links)
            and all(self._exact(link) for link in chain.route.links if link.calibrations)
        )
        identity = measured.request.benchmark.id
        return Evidence(
            pair, chain, measured.cycles, latency, limited, exact, rest < -HALF, spread, identity, measured.over
        )

    def _throughput_bound(self, pair: OperandPair, chain: Chain) -> Fraction | None:
        """Return the cycles of all the chain's instructions at their throughputs (None: not known)."""
        own = self.limits.get(pair.kind)
        if own is None:
            return None
        links = sum(self.times[name].throughput * count for name, count in Counter(chain.links).items())
        return own * chain.instances + links + chain.cross_domain_links

    def _latency_of(self, chain: Chain) -> Fraction:
        """Return the cycles of a chain's links one after another."""
        return self._calibrations.latency_of(chain.links) - self._calibrations.excess(chain.route.links)

    def _longer(self, found: Evidence) -> list[Attempt]:
        """Return longer chains to try where throughput interfered."""
        pair, chain = found.pair, found.chain
        if not (found.doubtful or self._full(found)) or found.independent or chain.instances > 1:
            return []
        if chain.pads:
            return self._other_lengths(found)
        return (_swapped(pair) if found.fractional or found.limited else []) + self._with_pads(found)

    def _with_pads(self, found: Evidence) -> list[Attempt]:
        """Return the padded chains of the evidence's route; of every route if its chain had none."""
        pair, chain = found.pair, found.chain
        attempts: list[Attempt] = []
        for route in [chain.route] if chain.route.links else pair.routes:
            try:
                base = chain if chain.route is route else pair.chain(route)
                attempts += self._padded(pair, base, route) if self._available(route) else []
            except (UopscopeError, LookupError):
                continue
        return attempts

    def _padded(self, pair: OperandPair, base: Chain, route: Route) -> list[Attempt]:
        """Return a route's longer chain, with pads at the first place where they help ([]: they help nowhere)."""
        for carrier in route.carriers:
            count = self._pads_needed(pair, base, route.nodes[carrier])
            if count:
                return [Attempt(pair, pair.chain(replace(route, padded=carrier), count))]
        return []

    def _other_lengths(self, found: Evidence) -> list[Attempt]:
        """Return chains of other lengths if µops of the instruction seem to delay the chain on its ports."""
        pair, chain = found.pair, found.chain
        if found.limited or not found.fractional or chain.pads > MOST_PADS:
            return []
        return [Attempt(pair, pair.chain(chain.route, chain.pads + more)) for more in OTHER_LENGTHS]

    def _pads_needed(self, pair: OperandPair, chain: Chain, node: str) -> int:
        """Return how many pads make the chain slower than its throughputs, even at a latency of 0 (0: none do)."""
        bound = self._throughput_bound(pair, chain)
        if bound is None:
            return 0
        own = self._latency_of(chain) + chain.cross_domain_links
        pad = self.times[pad_links(node)[0].name]
        gain = (1 - MARGIN) * pad.latency - pad.throughput
        if not pad.ok or gain <= 0:
            return 0
        count = floor((2 * bound - own * (1 - MARGIN)) / gain) + 2
        return min(max(MORE_PADS, count), MOST_PADS)

    def compare(self, evidence: Sequence[PairEvidence]) -> Procedure[None]:
        """If it is not sure what limits a chain, measure a longer one, or the same code without a chain.

        Other µops may have kept the ports of the chain busy. In a longer chain they have time to wait. If there is no
        longer chain, or if a latency seems to be 0, the same code is measured with the chain cut. If that is not
        faster, the chain may not set the time: the latency is an upper bound, and longer chains are measured.
        """
        drift = _drift(evidence, self._calibrations)
        yield from self._ask_swapped(evidence, drift)
        yield from self._ask_longer(evidence, drift)
        unsure = [(own, best) for own in evidence if self._is_unsure(own, best := own.best(drift))]
        cut = [(own, best, chain) for own, best in unsure if (chain := _cut_chain(best)) is not None]
        answers = (yield [self._request(chain.benchmark) for *_, chain in cut]) if cut else []
        for (own, best, _), measured in zip(cut, answers, strict=True):
            if measured.ok and measured.cycles >= best.cycles * (1 - MARGIN):
                own.found = [replace(one, exact=False, limited=True) for one in own.found]
                yield from self._lengthen(own, replace(best, limited=True))
            elif best.latency >= SURE and self._contended(best) and not _came_out_longer(best, own.found):
                own.found = [replace(one, exact=False) for one in own.found]

    def _is_unsure(self, own: PairEvidence, best: Evidence) -> bool:
        """Whether it is not sure that the chain sets the time of the best evidence."""
        unsure = best.latency < HALF or (self._contended(best) and not _came_out_longer(best, own.found))
        return unsure and best.exact and not own.independent

    def _ask_swapped(self, evidence: Sequence[PairEvidence], drift: Fraction) -> Procedure[None]:
        """Look again at chains that take longer than the same register in all operands.

        Either the same register is quicker, or links add a bypass delay: on a Zen 5 VADDPD takes 3 cycles before VORPS,
        and 2 before another VADDPD. A chain of swapped operands has no links. Breakers may delay chains, too, by a
        cycle each, whatever their length, if a core binds µops to ports at dispatch. If that explains the difference,
        and there is no chain of swapped operands, the latency is an upper bound.
        """
        judged = [(own, own.best(drift)) for own in evidence]
        same_register = {
            own.pair.destination.operand: best.latency
            for own, best in judged
            if own.pair.same_register and not best.independent
        }
        slower = [
            own
            for own, best in judged
            if not own.pair.same_register
            and best.exact
            and best.chain.links
            and same_register.get(own.pair.destination.operand, best.latency) < best.latency - HALF
            and all(one.chain.instances == 1 for one in own.found)
        ]
        yield from self._add([(own, attempt) for own in slower for attempt in _swapped(own.pair)])
        for own in slower:
            quicker = same_register[own.pair.destination.operand]
            if all(one.chain.instances == 1 for one in own.found):
                own.found = [
                    replace(one, exact=one.exact and one.latency - one.chain.breakers > quicker + HALF)
                    for one in own.found
                ]

    def _add(self, asked: Sequence[tuple[PairEvidence, Attempt]]) -> Procedure[None]:
        """Measure chains, and add what follows to the evidence of their pairs."""
        answers = (yield [self._request(attempt.chain.benchmark) for _, attempt in asked]) if asked else []
        for (own, attempt), measured in zip(asked, answers, strict=True):
            if measured.ok:
                own.found.append(self._evaluate(attempt, measured))

    def _ask_longer(self, evidence: Sequence[PairEvidence], drift: Fraction) -> Procedure[None]:
        """Add the evidence of longer chains to each pair whose best chain other µops may have delayed."""
        asked: list[tuple[PairEvidence, Attempt]] = []
        for own in evidence:
            best = own.best(drift)
            delayed = self._contended(best) or self._delayed(best)
            if best.exact and not best.chain.pads and delayed and not own.independent:
                asked += [(own, attempt) for attempt in self._with_pads(best)]
        yield from self._add(asked)

    def _lengthen(self, own: PairEvidence, limited: Evidence) -> Procedure[None]:
        """Add the evidence of longer chains to one that turned out to be limited by throughput."""
        attempts = self._longer(limited) if limited.latency >= HALF else []
        answers = (yield [self._request(attempt.chain.benchmark) for attempt in attempts]) if attempts else []
        for attempt, measured in zip(attempts, answers, strict=True):
            if measured.ok:
                one = self._evaluate(attempt, measured)
                own.found.append(replace(one, exact=one.exact and not self._contended(one)))

    def _contended(self, found: Evidence) -> bool:
        """Whether port contention may set the time: all parts and breakers together would take as long on one port."""
        bound = self._throughput_bound(found.pair, found.chain)
        return bound is not None and found.chain.breakers > 0 and found.cycles <= bound + found.chain.breakers

    def _delayed(self, found: Evidence) -> bool:
        """Whether other µops may have delayed the links by as much as the latency seems to be.

        Each delays the links by a cycle at most. Cores that bind µops to ports at dispatch let older µops go first, so
        the links wait although no port is always busy. Without breakers only the instruction's own µops can delay them,
        and these must have been counted.
        """
        beside = self.uops - 1 + found.chain.breakers if self.counted or found.chain.breakers else 0
        return beside > 0 and bool(found.chain.links) and found.latency <= self.uops + found.chain.breakers

    def _full(self, found: Evidence) -> bool:
        """Whether the buffers of the core may have been full, so that they set the time and not the chain.

        An example: in a model of Broadwell CMPSB takes 100 cycles and waits for nothing. It fills the reorder buffer,
        and together with the links the scheduler. A longer chain shows it, which takes more time than its pads. That is
        measured if the time is no whole number of cycles, as the time of a chain is.
        """
        off = abs(found.cycles - round(found.cycles))
        most = QUEUES * self.pace * len(found.chain.benchmark.body)
        return found.exact and off > WHOLE and found.cycles <= most


def _came_out_longer(best: Evidence, found: Sequence[Evidence]) -> bool:
    """Whether a longer chain gives the same latency as the best one, and is exact."""
    return any(one.exact and one.chain.pads > 0 and abs(one.latency - best.latency) < HALF for one in found)


def _cut_chain(best: Evidence) -> Chain | None:
    """Return the chain of an evidence with its destination overwritten (None: nothing overwrites it)."""
    chain = best.chain
    try:
        return best.pair.chain(chain.route if chain.route.links else None, chain.pads, cut=True)
    except (UopscopeError, LookupError):
        return None


def _judge_by_own_chains(evidence: Sequence[PairEvidence], drift: Fraction) -> None:
    """Make chains of swapped operands exact where the destination's own chain is quicker.

    ADDSD XMM0, XMM1; ADDSD XMM1, XMM0 takes twice the latency 2 → 1, or once that of 1 → 1 if that is longer.
    """
    direct = [one for one in evidence if one.pair.direct and not one.pair.same_register]
    own = {one.pair.source.resource: best.latency for one in direct if (best := one.best(drift)).exact}
    for each in evidence:
        each.found = [replace(one, exact=True) if _shown_by_swapping(one, own) else one for one in each.found]


def _shown_by_swapping(one: Evidence, own: Mapping[str, Fraction]) -> bool:
    """Whether the chain of two instances with swapped operands cannot be that of the destination alone.

    A destination that is merged is left out: on a Zen 4 masked instructions wait longer if it has long been ready,
    which no chain of swapped operands shows.
    """
    destination, factory = one.pair.destination.resource, one.pair.factory
    masked = any(operand.opmask for operand in factory.instance.variant.operands)
    if one.chain.instances == 1 or destination not in own or masked or destination in factory.effects.merged:
        return False
    steady = not (one.limited or one.pair.shared or is_unsteady(one.cycles, one.spread))
    return steady and own[destination] < one.cycles * (1 - MARGIN)


def _swapped(pair: OperandPair) -> list[Attempt]:
    """Return the chain of an instance and another one with its operands swapped, if there can be one."""
    try:
        return [Attempt(pair, pair.factory.swapped(pair.source, pair.destination))]
    except (UopscopeError, LookupError):
        return []
