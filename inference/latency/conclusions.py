"""Latencies out of the evidence of their chains: numbers, bounds, sentences, and what is the same for several flags."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from generator.operands.values import ValueKind
from inference.latency.evidence import best_of, disagree
from results.model import Bound, Derivation, LatencyResult
from results.text import latency_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from generator.chains.plan import Pair
    from inference.calibration import LinkTime
    from inference.latency.evidence import Evidence
    from xed_convert.model import InstructionVariant


def conclude(
    pair: Pair, found: Sequence[Evidence], times: Mapping[str, LinkTime]
) -> tuple[LatencyResult | None, Derivation]:
    """Return the result of a pair (None: it has no dependency) and how it came about."""
    best = best_of(found)
    experiments = tuple(dict.fromkeys(evidence.experiment for evidence in found))
    name = _quantity(pair)
    if any(evidence.independent for evidence in found):
        text = f"{_explain(found, times)}\nless than the links take: the output does not depend on the input"
        return _idiom(pair, experiments), Derivation(name, text, experiments)
    source, destination = pair.source, pair.destination
    exact = best.exact and not disagree(found)
    result = LatencyResult(
        source.operand,
        destination.operand,
        best.latency,
        Bound.EXACT if exact else Bound.UPPER,
        best.chain.route.name or ("itself" if best.chain.instances == 1 else "itself swapped"),
        source.part,
        source.flag,
        destination.flag,
        pair.same_register,
        pair.kind is ValueKind.FAST,
        best.spread,
        experiments,
    )
    text = _explain(found, times)
    if best.exact and not exact:
        text += "\nchains of other lengths say otherwise, so something besides the chain takes time: an upper bound"
    return result, Derivation(name, text, experiments)


def _explain(found: Sequence[Evidence], times: Mapping[str, LinkTime]) -> str:
    """Write the arithmetic, one chain per line."""
    lines = []
    for evidence in found:
        terms = [f"{float(evidence.cycles):.2f} cycles of the chain"]
        for name, count in Counter(evidence.chain.links).items():
            factor = f"{count} * " if count > 1 else ""
            least = "" if times[name].exact else "at least "
            terms.append(f"{factor}{least}{float(times[name].latency):.2f} of {name}")
        terms += ["at least 1 for a link through memory"] * evidence.chain.crossings
        note = "" if evidence.exact else " (upper bound)"
        share = f" / {evidence.chain.instances}" if evidence.chain.instances > 1 else ""
        lines.append(" - ".join(terms) + f"{share} = {float(evidence.latency):.2f}{note}")
    return "\n".join(lines)


def _quantity(pair: Pair) -> str:
    """Name what is derived, for people."""
    kind = " with fast values" if pair.kind is ValueKind.FAST else ""
    same = " of the same register" if pair.same_register else ""
    return f"latency {pair.source}→{pair.destination}{kind}{same}"


def _idiom(pair: Pair, experiments: tuple[str, ...]) -> LatencyResult | None:
    """Return the result of a pair without dependency: for the same register in all operands it is 0 cycles."""
    if not pair.same_register:
        return None
    operands = (pair.source.operand, pair.destination.operand)
    return LatencyResult(*operands, Fraction(0), Bound.EXACT, "none", same_register=True, experiments=experiments)


def merge_flags(results: Sequence[LatencyResult]) -> list[LatencyResult]:
    """Say once what is the same for all groups of flags, as destination and as source."""
    merged: list[LatencyResult] = []
    for group in _groups(results, attrgetter(*_PAIR, "source_flag")):
        merged += _merged(group, "destination_flag")
    found: list[LatencyResult] = []
    for group in _groups(merged, attrgetter(*_PAIR, "destination_flag")):
        found += _merged(group, "source_flag")
    return found


def _merged(group: list[LatencyResult], flag: str) -> list[LatencyResult]:
    """Return one result for several that agree, without the flag that tells them apart, else these."""
    first = group[0]
    if len(group) == 1 and not getattr(first, flag):
        return group
    without: dict[str, Any] = {flag: "", "experiments": _all_of(group)}
    return [replace(first, **without)] if _agree(group) else group


_PAIR = ("source", "destination", "part", "same_register", "fast_values")
"""What tells results of one variant apart, besides the flags that they are about."""

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
    """Whether the cycles and bounds of some results are the same."""
    return len({(round(result.cycles), result.bound) for result in group}) == 1


def _all_of(group: Sequence[LatencyResult]) -> tuple[str, ...]:
    """Return the experiments of some results, each once."""
    return tuple(dict.fromkeys(name for result in group for name in result.experiments))


def derivations(
    latencies: Sequence[LatencyResult],
    chosen: Sequence[tuple[LatencyResult | None, Derivation]],
    variant: InstructionVariant,
) -> Iterator[Derivation]:
    """Yield how each result came about, named like the result, and why there is none for the other pairs."""
    for latency in latencies:
        own = [(result, how) for result, how in chosen if result is not None and _stands_for(latency, result)]
        headed = [(f"{how.quantity}:\n" if len(own) > 1 else "") + how.text for _, how in own]
        yield Derivation(f"latency {latency_name(latency, variant)}", "\n".join(headed), latency.experiments)
    yield from (how for result, how in chosen if result is None)


def _stands_for(latency: LatencyResult, result: LatencyResult) -> bool:
    """Whether `latency` is `result`, or what it was merged into."""
    return (
        _pair_of(latency) == _pair_of(result)
        and latency.source_flag in {"", result.source_flag}
        and latency.destination_flag in {"", result.destination_flag}
    )
