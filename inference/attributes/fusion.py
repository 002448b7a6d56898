"""The conditional jumps with which an instruction macro-fuses: from µop counters, or from time where that is enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.sequences.fusion import JUMPS, Filler, pairs
from inference.experiment import Request, Want
from results.findings import FusionShare, FusionTime, FusionUnknown
from results.model import Derivation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory
    from inference.experiment import Measured, Procedure
    from results.model import Step
    from xed_convert.model import InstructionVariant

COUNTERS = ("uops_retire_slots", "uops_issued")
"""Either counts a fused pair once."""

CLEAR = Fraction(1, 10)
"""Share of pairs by which the share of fused ones may be off 0, 1/2 or 1. It is less than half the way to the next of
them, and ten times the noise of an exact counter."""

SENSITIVE = Fraction(1, 25)
"""Share of a sequence's cycles. One filler more must take this much longer, or time does not tell whether a pair is one
µop less. It is four times the 1 % that a stable measurement may spread by."""

FUSED, NOT_FUSED = (Fraction(3, 5), Fraction(3, 2)), (Fraction(-1, 4), Fraction(1, 4))
"""What a pair saves, in times of a filler: about one if it fuses, about none if not. Values between decide nothing.

Where a pair fuses, the saving may be half a filler off, because the address of taken jumps matters. Where it does not
fuse it may be a quarter off, because that conclusion is drawn for all jumps of a condition.
"""

LOOKS = 2
"""Attempts with both jumps of a condition: as they are, and with the code moved by a filler, since time depends on the
address of a taken jump."""


@dataclass(slots=True)
class Fusion:
    """The jumps that a variant fuses with (None: nothing could be told), and how that was found."""

    jumps: tuple[str, ...] | None
    derivation: Derivation


@dataclass(slots=True)
class _FusionProbe:
    """Measures pairs of one variant with jumps; keeps the steps of the derivation and the ids of the experiments."""

    instructions: InstructionFactory
    variant: InstructionVariant
    counts: bool
    steps: list[Step] = field(default_factory=list)
    experiments: list[str] = field(default_factory=list)

    def measure(self, forms: Sequence[tuple[Sequence[str], Filler, bool, int]]) -> Procedure[Sequence[Measured]]:
        """Measure pairs with these jumps and fillers, adjacent or not, with `more` fillers in addition."""
        requests = [
            Request(
                pairs(self.instructions, self.variant, jumps, filler, adjacent=adjacent, more=more),
                Want.ALL if self.counts else Want.CYCLES,
            )
            for jumps, filler, adjacent, more in forms
        ]
        self.experiments += [request.benchmark.id for request in requests]
        return (yield requests)


def infer_fusion(
    instructions: InstructionFactory, variant: InstructionVariant, counters: Sequence[str]
) -> Procedure[Fusion]:
    """Find out with which conditional jumps a variant fuses.

    Args:
        instructions: makes the code.
        variant: the variant.
        counters: what the backend counts.
    """
    counter = next((name for name in COUNTERS if name in counters), "")
    probe = _FusionProbe(instructions, variant, bool(counter))
    found = yield from (_by_counter(probe, counter) if counter else _by_time(probe))
    jumps = None if None in found.values() else tuple(jump for jump, fuses in found.items() if fuses)
    unknown = [jump for jump, fuses in found.items() if fuses is None]
    if unknown:
        probe.steps.append(FusionUnknown(tuple(unknown)))
    return Fusion(jumps, Derivation("macro_fusible", tuple(probe.steps), tuple(probe.experiments)))


def _by_counter(probe: _FusionProbe, counter: str) -> Procedure[dict[str, bool | None]]:
    """Count how many pairs are one µop; if only one jump of a condition fuses, ask for each of them."""
    shares = yield from _shares(probe, counter, JUMPS)
    halves = [pair for pair, share in zip(JUMPS, shares, strict=True) if share is not None and share.denominator == 2]
    mixed = [(jump,) for pair in halves for jump in pair]
    alone = yield from _shares(probe, counter, mixed)
    found: dict[str, bool | None] = {}
    for jumps, share in [*zip(JUMPS, shares, strict=True), *zip(mixed, alone, strict=True)]:
        found |= dict.fromkeys(jumps, None if share is None or share.denominator > 1 else share == 1)
    return found


def _shares(probe: _FusionProbe, counter: str, groups: Sequence[Sequence[str]]) -> Procedure[list[Fraction | None]]:
    """Return the share of fused pairs per group of jumps, in halves; None if it is near none of them."""
    if not groups:
        return []
    forms = [(group, Filler.MOVES, adjacent, 0) for group in groups for adjacent in (True, False)]
    measured = yield from probe.measure(forms)
    shares: list[Fraction | None] = []
    for group, together, apart in zip(groups, measured[::2], measured[1::2], strict=True):
        if not (together.ok and apart.ok):
            shares.append(None)
            continue
        saved = (apart.values[counter] - together.values[counter]) / together.request.benchmark.divisor
        probe.steps.append(FusionShare(tuple(group), counter, saved))
        nearest = Fraction(round(saved * 2), 2)
        shares.append(nearest if abs(saved - nearest) <= CLEAR and 0 <= nearest <= 1 else None)
    return shares


def _by_time(probe: _FusionProbe) -> Procedure[dict[str, bool | None]]:
    """Compare times; a jump and its inverse are taken to be alike."""
    found: dict[str, bool | None] = {}
    for position, pair in enumerate(JUMPS):
        fuses = yield from _condition_fuses(probe, pair)
        found |= dict.fromkeys(pair, fuses)
        if position == 0 and fuses is not True:
            return dict.fromkeys((jump for each in JUMPS for jump in each), fuses)
    return found


def _condition_fuses(probe: _FusionProbe, pair: Sequence[str]) -> Procedure[bool | None]:
    """Say whether pairs with a jump or with its inverse fuse, None if that cannot be told.

    One of the two is taken, which may hide what fusing saves. So both fuse if either saves time, and none if neither
    does.
    """
    slower: set[str] = set()
    for look in range(LOOKS):
        for jump in pair:
            fuses = None if jump in slower else (yield from _is_faster(probe, jump, look))
            if fuses:
                return True
            slower |= {jump} if fuses is False else set()
        if len(slower) == len(pair):
            return False
    return None


def _is_faster(probe: _FusionProbe, jump: str, more: int) -> Procedure[bool | None]:
    """Say whether a pair is faster, by the time of one filler, than the same code with the jump apart.

    `more` fillers move the code to other addresses.
    """
    shapes = ((True, more), (False, more), (False, more + 1))
    forms = [((jump,), filler, *shape) for filler in Filler for shape in shapes]
    measured = yield from probe.measure(forms)
    saved = []
    for start in range(0, len(measured), 3):
        together, apart, longer = measured[start : start + 3]
        if not (together.ok and apart.ok and longer.ok):
            continue
        filler = longer.cycles - apart.cycles
        if filler >= SENSITIVE * apart.cycles:
            saved.append((apart.cycles - together.cycles) / filler)
    probe.steps.append(FusionTime(jump, tuple(saved)))
    fused = [_within(one, FUSED) for one in saved]
    clear = all(fuses or _within(one, NOT_FUSED) for fuses, one in zip(fused, saved, strict=True))
    return any(fused) if saved and clear else None


def _within(value: Fraction, limits: tuple[Fraction, Fraction]) -> bool:
    return limits[0] <= value <= limits[1]
