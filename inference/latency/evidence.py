"""Measured chains, and the latency or the bound that follows from each."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from generator.chains.chain import Chain
    from generator.chains.plan import OperandPair
    from results.model import Failure

HALF = Fraction(1, 2)
"""Cycles. Latencies are whole numbers of cycles: smaller differences are noise, and larger ones are not."""

NEAR = Fraction(1, 20)
"""Cycles. Values that differ by no more count as the same, and so does a value that is no further from an integer. It
is half of the least fraction that rhythms of a core make of a latency (one cycle in ten)."""

NEAR_SHARE = Fraction(1, 100)
"""Share of a chain's cycles that is added to `NEAR`: a measurement is called stable if it spreads by no more."""

DRIFT = Fraction(3, 100)
"""Share of its frequency by which a clock may drift between the measurements of a chain and of its links. A turbo step
of 100 MHz is about as much.

Chains take whole cycles, so a fraction that is no more than this share of the chain may be the clock's.
"""

LONGER = Fraction(3, 2)
"""Factor between the cycles of two chains. In a chain this much longer, a clock that is off also makes a clearly longer
fraction: half of 3 % of seven cycles is 0.1."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A chain that is to be measured."""

    pair: OperandPair
    chain: Chain


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured chain, and the latency in core cycles that follows from it.

    `limited`: throughput may have set the time. `exact`: the latency is a value and not only a bound. `independent`:
    the chain takes less time than its links, so there is no dependency. `over` is that of `Measured`.
    """

    pair: OperandPair
    chain: Chain
    cycles: Fraction
    latency: Fraction
    limited: bool
    exact: bool
    independent: bool
    spread: Fraction
    experiment: str
    over: Fraction = Fraction(0)

    @property
    def doubtful(self) -> bool:
        """Whether a longer chain should be measured.

        It should if throughput interferes, if the latency is 0 or no integer, or if samples are too far apart. So it
        should if the chain leads through memory.
        """
        is_unclear = self.limited or self.latency < HALF or not self.whole or is_unsteady(self.cycles, self.spread)
        return is_unclear or self.through_memory

    @property
    def through_memory(self) -> bool:
        """Whether a link stores or loads: a stored value takes longer if it is loaded at the wrong time.

        On a Cascade Lake, VANDPS takes 6.9 cycles behind a store, and 6.0 in a chain with twelve more links.
        """
        return self.chain.cross_domain_links > 0

    @property
    def whole(self) -> bool:
        """Whether the latency is a whole number of cycles, as it is if each pass of the chain takes the same time."""
        return self.off_whole <= NEAR

    @property
    def off_whole(self) -> Fraction:
        """Cycles by which the latency is off the nearest whole number."""
        return abs(self.latency - round(self.latency))

    @property
    def margin(self) -> Fraction:
        """How many cycles are added to an upper bound, so that neither noise nor a slower rhythm makes it too low."""
        return max(self.spread, self.over)

    def most(self, off: Fraction) -> Fraction:
        """Return an upper bound of the latency, where the clock may be off by a share of the chain's cycles."""
        return self.latency + max(self.margin, off * self.cycles)

    def uncertainty(self, drift: Fraction) -> Fraction:
        """By how many cycles the latency may be off: its spread, or what a drifting clock may have added.

        A long chain may come out whole although the clock drifted: 34 cycles of a clock that is 3 % fast are 35.

        Args:
            drift: the share by which the clock seems to be off (`drift_seen`).
        """
        most = DRIFT * self.cycles
        return max(self.spread, most if NEAR < self.off_whole <= most + NEAR else drift * self.cycles)

    def error(self, drift: Fraction) -> Fraction:
        """By how many cycles two chains of this length may differ although the latency is the same."""
        return max(self.spread, 2 * drift * self.cycles)

    @property
    def fractional(self) -> bool:
        """Whether the latency is so far off an integer that a chain of this length cannot show it by noise alone."""
        return self.off_whole > NEAR + self.cycles * NEAR_SHARE


@dataclass(slots=True)
class PairEvidence:
    """The chains of a pair that were measured so far, and why another one was not (None: all were)."""

    pair: OperandPair
    found: list[Evidence] = field(default_factory=list)
    problem: Failure | None = None

    def best(self, drift: Fraction) -> Evidence:
        """Return the evidence that counts, of one at least; see `best_of`."""
        return best_of(self.found, drift)

    @property
    def independent(self) -> bool:
        """Whether a chain shows that there is no dependency."""
        return any(one.independent for one in self.found)


def is_unsteady(cycles: Fraction, spread: Fraction) -> bool:
    """Whether samples of a chain are so far apart that another whole number of cycles may be meant."""
    return spread > HALF + cycles * NEAR_SHARE


def best_of(found: Sequence[Evidence], drift: Fraction) -> Evidence:
    """Return the least exact evidence; the least bound if it is clearly lower, or if nothing is exact.

    The least value is also the most likely error, and longer chains have larger errors. So of values that differ by no
    more than their errors, that of the shortest chain counts.

    Args:
        found: the evidence, at least one.
        drift: the share by which the clock seems to be off (`drift_seen`).
    """
    least = _least(found, drift)
    exact = [one for one in found if one.exact]
    if not exact:
        return least
    best = _least(exact, drift)
    return best if best.latency - least.latency < max(HALF / 2, least.error(drift)) else least


def _least(found: Sequence[Evidence], drift: Fraction) -> Evidence:
    """Return the shortest chain among those with the least latency, as far as they can be told apart."""
    least = min(found, key=lambda one: one.latency)
    near = [one for one in found if one.latency - least.latency <= least.error(drift)]
    return min(near, key=lambda one: (one.cycles, one.latency))


def settled(best: Evidence, found: Sequence[Evidence], drift: Fraction) -> tuple[Fraction, Fraction]:
    """Return the cycles of an exact latency, and by how many it may be off.

    Passes take whole cycles, so a fraction is either a mean of passes with different times, or an error. A mean comes
    out again in a chain of another length. An error does not, since a drifting clock and noise add another fraction
    there: then the whole number counts, if another chain shows it.

    Args:
        best: the evidence that counts.
        found: all evidence.
        drift: the share by which the clock seems to be off (`drift_seen`).
    """
    others = [one for one in found if one.experiment != best.experiment]
    whole = Fraction(round(best.latency))
    if not best.whole:
        again = (one for one in others if abs(one.latency - best.latency) <= NEAR)
        if any(max(one.cycles, best.cycles) >= LONGER * min(one.cycles, best.cycles) for one in again):
            return best.latency, best.spread
        if any(abs(one.latency - whole) <= NEAR for one in others):
            return whole, max(best.spread, abs(best.latency - whole))
    return best.latency, best.uncertainty(drift)


def drift_seen(evidence: Iterable[Evidence], else_share: Fraction) -> Fraction:
    """Return the share by which the clock seems to be off, from short chains of a variant (none: `else_share`).

    A chain takes whole cycles. If it is short, there is no doubt how many: 2.04 cycles are 2 of a clock that is 2 %
    fast. A chain that is further off an integer shows no drift.
    """
    chains = [one.cycles for one in evidence if one.cycles > HALF and DRIFT * one.cycles <= HALF / 2]
    shares = [abs(cycles - round(cycles)) / cycles for cycles in chains]
    return max((share for share in shares if share <= DRIFT), default=else_share)


def disagree(found: Sequence[Evidence]) -> bool:
    """Whether chains of different lengths give different latencies: then something besides the chain takes time.

    Noise in long chains may do the same. The latency is called a bound then, too.
    """
    latencies: dict[str, list[Fraction]] = {}
    for evidence in found:
        if not evidence.limited:
            latencies.setdefault(evidence.chain.route.name, []).append(evidence.latency)
    return any(max(several) - min(several) > HALF for several in latencies.values())
