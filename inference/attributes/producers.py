"""Whether an instruction's time depends on which instruction wrote an operand that it only reads.

A register may hold more than a value. On Alder Lake, rename does not compute the sum of a register and an immediate at
once. SHLX takes 3 cycles instead of 1 if its count is such a sum. Another case are vectors with dirty upper halves,
which legacy SSE instructions have to preserve.

The chains are those of `generator.chains.producers`. For most instructions one microbenchmark with all producers shows
that none matters. Otherwise each producer is measured alone and compared with the fastest.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from generator.chains.producers import COPIES, produced_chains
from inference.attributes.value_classes import SPREADS
from inference.tolerances import AGREE
from results.findings import ProducerTime
from results.model import PRODUCERS, Derivation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.chains.plan import LatencyPlan
    from generator.chains.producers import ProducedChain
    from inference.builder import ConclusionBuilder
    from inference.calibration import Calibrations
    from inference.experiment import Measured, Procedure

LEAST_CYCLES = Fraction(3, 4)
"""Cycles. After a producer that matters a chain takes a whole cycle more. The producer's own µops may delay it by a
third of a cycle."""

LEAST_SHARE = Fraction(1, 100)
"""Share of the time. Each measurement may be off by this much."""

SHORTEST = Fraction(9, 10)
"""Cycles per instance. A chain takes a cycle at least. Faster code waits for nothing, so its time counts as 0."""


def measure_producers(
    found: ConclusionBuilder, plan: LatencyPlan, calibrations: Calibrations
) -> Procedure[frozenset[int]]:
    """Note after which producers an instruction takes longer, in cycles beyond those after the quickest one.

    Return the operands that were produced.
    """
    produced: set[int] = set()
    for chain in produced_chains(plan):
        produced.update(chain.operands)
        suspicious = yield from _is_suspicious(chain, calibrations)
        if suspicious:
            yield from _measure_alone(found, chain, calibrations)
    return frozenset(produced)


def _is_suspicious(chain: ProducedChain, calibrations: Calibrations) -> Procedure[bool]:
    """Whether all producers together take another time than as many usual chains."""
    if chain.grouped is None:
        return True
    usual, grouped = yield [calibrations.request(one) for one in (chain.usual, chain.grouped)]
    if not (usual.ok and grouped.ok):
        return bool(usual.ok)
    expected = usual.cycles * chain.groups
    spread = usual.cycles_spread * chain.groups + grouped.cycles_spread
    return grouped.cycles - expected >= least_difference(expected, spread)


def _measure_alone(found: ConclusionBuilder, chain: ProducedChain, calibrations: Calibrations) -> Procedure[None]:
    """Measure each producer alone, those that keep the value and those that write zero apart from each other."""
    answers = yield [calibrations.request(one.benchmark) for one in chain.alone]
    slower = _slower(chain, answers, COPIES)
    if not slower:
        return
    longer = yield [calibrations.request(one.longer) for one in chain.alone]
    noted = confirmed(slower, _slower(chain, longer, 2 * COPIES))
    note_slower(found, {name: round(more / chain.instances) for name, more in noted.items()})
    if not noted:
        return
    timed = [(one, measured) for one, measured in zip(chain.alone, answers, strict=True) if measured.ok]
    steps = tuple(
        ProducerTime(one.name, chain.operands, one.text, measured.cycles / COPIES / chain.instances)
        for one, measured in timed
    )
    found.derivations.append(Derivation(PRODUCERS, steps, tuple(one.benchmark.id for one, _ in timed)))


def _slower(chain: ProducedChain, answers: Sequence[Measured], copies: int) -> dict[str, Fraction]:
    """Return by how many cycles a copy takes longer after each producer than after the quickest one.

    Producers that keep the value, and those that write zero, are compared among themselves.
    """
    found: dict[str, Fraction] = {}
    timed = [(one, measured) for one, measured in zip(chain.alone, answers, strict=True) if measured.ok]
    for one, measured in timed:
        alike = (other for same, other in timed if same.keeps_value is one.keeps_value)
        quickest = min(alike, key=lambda other: other.cycles)
        fewest = quickest.cycles if quickest.cycles >= SHORTEST * copies * chain.instances else Fraction(0)
        more = (measured.cycles - fewest) / copies
        spread = (quickest.cycles_spread + measured.cycles_spread) / copies
        if measured is not quickest and more >= least_difference(measured.cycles / copies, spread):
            found[one.name] = more
    return found


def least_difference(cycles: Fraction, spread: Fraction) -> Fraction:
    """Return by how many cycles a chain that takes `cycles` must differ from another one: less is noise.

    Args:
        cycles: what the chain takes.
        spread: how far the samples of both chains are apart, together.
    """
    return max(LEAST_CYCLES, LEAST_SHARE * cycles, SPREADS * spread)


def confirmed(slower: Mapping[str, Fraction], again: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return the further cycles after each producer that are whole and came out again in a longer chain."""
    return {
        name: more
        for name, more in slower.items()
        if max(abs(again.get(name, Fraction(0)) - more), abs(round(more) - more)) <= AGREE
    }


def note_slower(found: ConclusionBuilder, cycles: Mapping[str, int]) -> None:
    """Note how many cycles longer an instruction takes after each producer: the most of all its operands."""
    for name, more in cycles.items():
        attribute = f"slower_after_{name}"
        found.attributes[attribute] = max(more, found.attributes.get(attribute, 0))
