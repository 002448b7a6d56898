"""Latencies from the evidence of their chains: numbers, bounds, derivations, and one result for several flags."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from generator.operands.values import ValueKind
from inference.latency.evidence import NEAR, NEAR_SHARE, best_of, disagree, settled
from results.findings import About, ChainTime, LinkShare, Note, Remark
from results.model import LATENCY, Bound, Derivation, LatencyKey, LatencyResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from generator.chains.plan import OperandPair
    from inference.calibration import LinkTime
    from inference.latency.evidence import Evidence
    from results.model import Step


WITHOUT_LINKS, SWAPPED = "itself", "itself swapped"
"""What chains without links are called: of one instance, and of two instances with swapped operands."""

Conclusion = tuple[LatencyResult | None, Derivation]
"""The result of a pair (None: it has no dependency) and its derivation."""

SHOWN = Fraction(1, 200)
"""Cycles. A smaller spread does not show in two decimals."""


def conclude(
    pair: OperandPair, found: Sequence[Evidence], times: Mapping[str, LinkTime], drift: Fraction, off: Fraction
) -> Conclusion:
    """Return the result of a pair (None: it has no dependency) and its derivation.

    Args:
        pair: the input and the output.
        found: its chains.
        times: the latencies of links.
        drift: the share by which the clock seems to be off.
        off: the share by which it may be off at most, which a bound has to allow for.
    """
    best = best_of(found, drift)
    experiments = tuple(dict.fromkeys(evidence.experiment for evidence in found))
    key = key_of(pair)
    steps = [_chain_time(evidence, times) for evidence in found]
    if any(evidence.independent for evidence in found):
        independent = Derivation(LATENCY, (*steps, Remark(Note.INDEPENDENT)), experiments, key)
        return _idiom(pair, experiments), independent
    # Only links could add time, and a chain without links has none
    exact = best.exact and not (best.chain.links and disagree(found))
    cycles, spread = settled(best, found, drift)
    tightest = best if exact else min(found, key=lambda one: (one.most(off), one.cycles))
    result = LatencyResult(
        key.source,
        key.destination,
        cycles if exact else tightest.most(off),
        Bound.EXACT if exact else Bound.UPPER,
        tightest.chain.route.name or (WITHOUT_LINKS if tightest.chain.instances == 1 else SWAPPED),
        key.part,
        key.source_flag,
        key.destination_flag,
        key.same_register,
        key.fast_values,
        spread if exact else tightest.uncertainty(drift),
        experiments,
    )
    remarks = [Remark(Note.LENGTHS_DISAGREE)] if best.exact and not exact else []
    if exact and not best.whole:
        remarks.append(Remark(Note.NOT_REPEATED if cycles.denominator == 1 else Note.PASSES_DIFFER))
    if not exact and tightest.most(off) - tightest.latency >= SHOWN:
        remarks.append(Remark(Note.SPREAD_ADDED))
    return result, Derivation(LATENCY, (*steps, *remarks), experiments, key)


def with_slower_passes(chosen: Sequence[Conclusion]) -> list[Conclusion]:
    """Let no latency be less than a cycle for sure where another one of the same output is a mean of passes of 0 and 1.

    Then the core does not eliminate each instance. It may eliminate just those that a chain consists of: on a simulated
    machine one move of three is not eliminated, and in some chains it is that of a breaker.
    """
    sometimes = {
        one.destination
        for one, _ in chosen
        if one is not None and one.bound is Bound.EXACT and NEAR < one.cycles < 1 - NEAR
    }
    return [
        (
            replace(one, cycles=Fraction(1), bound=Bound.UPPER),
            replace(how, steps=(*how.steps, Remark(Note.NOT_ALWAYS_ELIMINATED))),
        )
        if one is not None and one.destination in sometimes and _is_too_quick(one)
        else (one, how)
        for one, how in chosen
    ]


def _is_too_quick(one: LatencyResult) -> bool:
    """Whether it says that every instance takes less than a cycle."""
    return one.cycles < 1 if one.bound is Bound.UPPER else one.cycles <= NEAR


def key_of(pair: OperandPair) -> LatencyKey:
    """Return the key of a pair's latency."""
    return LatencyKey(
        pair.source.operand,
        pair.destination.operand,
        pair.source.part,
        pair.source.flag,
        pair.destination.flag,
        pair.same_register,
        pair.kind is ValueKind.FAST,
    )


def _chain_time(evidence: Evidence, times: Mapping[str, LinkTime]) -> ChainTime:
    """Return the arithmetic of one chain."""
    links = tuple(
        LinkShare(name, count, times[name].latency, times[name].exact, times[name].experiment)
        for name, count in Counter(evidence.chain.links).items()
    )
    chain = evidence.chain
    return ChainTime(
        evidence.cycles, links, evidence.latency, evidence.exact, chain.cross_domain_links, chain.instances
    )


def _idiom(pair: OperandPair, experiments: tuple[str, ...]) -> LatencyResult | None:
    """Return the result of a pair without dependency: 0 cycles if all operands are the same register, else None."""
    if not pair.same_register:
        return None
    operands = (pair.source.operand, pair.destination.operand)
    return LatencyResult(*operands, Fraction(0), Bound.EXACT, "none", same_register=True, experiments=experiments)


def merge_flags(results: Sequence[LatencyResult]) -> list[LatencyResult]:
    """Make one result of those that are the same for all groups of flags, first as destination, then as source."""
    merged: list[LatencyResult] = []
    for group in _groups(results, attrgetter(*_PAIR, "source_flag")):
        merged += _merged(group, "destination_flag", results)
    found: list[LatencyResult] = []
    for group in _groups(merged, attrgetter(*_PAIR, "destination_flag")):
        found += _merged(group, "source_flag", results)
    return found


def _merged(group: list[LatencyResult], flag: str, results: Sequence[LatencyResult]) -> list[LatencyResult]:
    """Return one result for all flags if the group has all of them and they agree, else the group."""
    first = group[0]
    flags = {getattr(each, flag) for each in results if _pair_of(each) == _pair_of(first)}
    if flags == {""} or {getattr(each, flag) for each in group} != flags or not _agree(group):
        return group
    without: dict[str, Any] = {flag: "", "experiments": _all_of(group)}
    return [replace(first, **without)]


_PAIR = ("source", "destination", "part", "same_register", "fast_values")
"""The fields that distinguish results of one variant, besides the flags."""

_pair_of = attrgetter(*_PAIR)


def _groups(
    results: Sequence[LatencyResult], key: Callable[[LatencyResult], tuple[object, ...]]
) -> Iterable[list[LatencyResult]]:
    """Return the results with equal keys together, in order."""
    groups: dict[tuple[object, ...], list[LatencyResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups.values()


def _agree(group: Sequence[LatencyResult]) -> bool:
    """Whether some results have the same cycles, as far as these can be told apart, and the same kind of bound."""
    cycles = [result.cycles for result in group]
    return max(cycles) - min(cycles) <= NEAR + max(cycles) * NEAR_SHARE and len({one.bound for one in group}) == 1


def _all_of(group: Sequence[LatencyResult]) -> tuple[str, ...]:
    """Return the experiments of some results, each once."""
    return tuple(dict.fromkeys(name for result in group for name in result.experiments))


def derivations(latencies: Sequence[LatencyResult], chosen: Sequence[Conclusion]) -> Iterator[Derivation]:
    """Yield the derivation of each result, and of the pairs that have no result."""
    for latency in latencies:
        own = [how for result, how in chosen if result is not None and _stands_for(latency, result)]
        steps: list[Step] = []
        for how in own:
            assert how.latency is not None
            steps += [About(how.latency), *how.steps] if len(own) > 1 else how.steps
        yield Derivation(LATENCY, tuple(steps), latency.experiments, latency.key)
    yield from (how for result, how in chosen if result is None)


def _stands_for(latency: LatencyResult, result: LatencyResult) -> bool:
    """Whether `latency` is `result`, or what it was merged into."""
    return (
        _pair_of(latency) == _pair_of(result)
        and latency.source_flag in {"", result.source_flag}
        and latency.destination_flag in {"", result.destination_flag}
    )
