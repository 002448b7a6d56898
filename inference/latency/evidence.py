"""Measured chains and what each says of a latency."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.chains.chain import Chain
    from generator.chains.plan import Pair

HALF = Fraction(1, 2)
"""Cycles. Latencies are whole numbers of cycles, so smaller differences are noise, and larger ones are not."""

NEAR = Fraction(1, 20)
"""A latency within so many cycles of an integer, plus 1 % of the chain, needs no second look."""


DRIFT = Fraction(3, 100)
"""Share of its frequency by which a clock may drift between the measurements of a chain and of its links.

Chains wait for whole cycles, so a fraction that is no more than this share of the chain may be the clock's.
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A chain that is to be measured."""

    pair: Pair
    chain: Chain


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured chain and what it says."""

    pair: Pair
    chain: Chain
    cycles: Fraction
    latency: Fraction
    limited: bool
    exact: bool
    independent: bool
    spread: Fraction
    experiment: str

    @property
    def doubtful(self) -> bool:
        """Whether a longer chain should be asked: throughput interferes, or the latency is 0 or no integer."""
        return self.limited or self.latency < HALF or self.fractional

    @property
    def uncertainty(self) -> Fraction:
        """By how many cycles the latency may be off: its spread, and what a drifting clock may have made of it."""
        off = abs(self.latency - round(self.latency))
        drift = DRIFT * self.cycles
        return max(self.spread, drift) if NEAR < off <= drift + NEAR else self.spread

    @property
    def fractional(self) -> bool:
        """Whether the latency is not near an integer."""
        return abs(self.latency - round(self.latency)) > NEAR + self.cycles / 100


def best_of(found: Sequence[Evidence]) -> Evidence:
    """Return the least exact evidence, unless an upper bound is clearly below it, or there is none."""
    least = min(found, key=lambda evidence: evidence.latency)
    exact = min((one for one in found if one.exact), key=lambda evidence: evidence.latency, default=least)
    return exact if exact.latency - least.latency < HALF / 2 else least


def disagree(found: Sequence[Evidence]) -> bool:
    """Whether chains of different lengths say different things: then something besides the chain takes time."""
    latencies: dict[str, list[Fraction]] = {}
    for evidence in found:
        if not evidence.limited:
            latencies.setdefault(evidence.chain.route.name, []).append(evidence.latency)
    return any(max(several) - min(several) > HALF for several in latencies.values())
