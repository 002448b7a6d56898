"""Whether an instruction takes longer after some producers of an operand through which every chain of it goes.

The chain goes through the producer (`generator.chains.carried`), so the producer's own time is subtracted. That is its
least time over several readers, since some of them may take longer after it, too:

    OR RBX, RBX; NEG RBX; NOT RBX; ADD RBX, 1                      4 cycles, 1 of them for OR: the producer takes 3
    POPCNT RAX, RBX; MOVSXD RBX, EAX                               4 cycles
    POPCNT RAX, RBX; MOVSXD RBX, EAX; NEG RBX; NOT RBX; ADD RBX, 1 7 cycles; else POPCNT takes longer after ADD

One microbenchmark has all producers. Where it takes another time than it should, each is measured alone.
"""

from __future__ import annotations

from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING

from generator.chains.carried import carried_chains, reader_chains
from inference.attributes.producers import confirmed, least_difference, note_slower
from inference.tolerances import WAITS
from results.findings import CarriedTime
from results.model import PRODUCERS, Derivation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.chains.carried import CarriedChain, Through
    from generator.chains.plan import LatencyPlan
    from inference.builder import ConclusionBuilder
    from inference.calibration import Calibrations
    from inference.experiment import Measured, Procedure


def measure_carried(
    found: ConclusionBuilder, plan: LatencyPlan, calibrations: Calibrations, produced: frozenset[int]
) -> Procedure[None]:
    """Note after which producers an instruction takes longer; operands that are `produced` elsewhere are left out."""
    for chain in carried_chains(plan, produced):
        own = yield from _own_times(chain.place, calibrations)
        if len(own) > 1:
            yield from _measure(found, chain, own, calibrations)


def _own_times(place: str, calibrations: Calibrations) -> Procedure[dict[str, Fraction]]:
    """Return the core cycles that each producer of a place takes by itself; the code is the same for all variants."""
    readers = reader_chains(calibrations.instructions, place)
    codes = [code for reader in readers for code in (reader.alone, *(one for _, one in reader.through))]
    answers = iter((yield [calibrations.request(code) for code in codes]))
    found: dict[str, Fraction] = {}
    for reader in readers:
        alone = next(answers)
        for name, _ in reader.through:
            measured = next(answers)
            if alone.ok and measured.ok:
                taken = measured.cycles - alone.cycles
                found[name] = min(taken, found.get(name, taken))
    return found


def _measure(
    found: ConclusionBuilder, chain: CarriedChain, own: dict[str, Fraction], calibrations: Calibrations
) -> Procedure[None]:
    """Measure the chain through all producers, and through each where that takes another time than it should."""
    through = [one for one in chain.through if one.name in own]
    if len(through) < 2:
        return
    names = [one.name for one in through]
    usual, grouped = yield [calibrations.request(one) for one in (chain.usual, chain.grouped(names))]
    if chain.cut is None or not usual.ok or _is_expected(usual, grouped, [own[name] for name in names]):
        return
    cut, *answers = yield [calibrations.request(one) for one in (chain.cut, *(one.benchmark for one in through))]
    if not cut.ok or cut.cycles > WAITS * usual.cycles:
        return  # it does not wait for its dependency, which would hide the cycles of a producer
    slower = _slower(through, answers, own, 1)
    if not slower:
        return
    again = yield [calibrations.request(one.twice) for one in through]
    noted = confirmed(slower, _slower(through, again, own, 2))
    note_slower(found, {name: round(more) for name, more in noted.items()})
    if noted:
        timed = [(one, measured) for one, measured in zip(through, answers, strict=True) if measured.ok]
        steps = tuple(
            CarriedTime(one.name, chain.operand, one.text, measured.cycles, own[one.name]) for one, measured in timed
        )
        found.derivations.append(Derivation(PRODUCERS, steps, tuple(one.benchmark.id for one, _ in timed)))


def _is_expected(usual: Measured, grouped: Measured, own: Sequence[Fraction]) -> bool:
    """Whether the chain through all producers takes the usual chain for each, and the producers' own cycles."""
    expected = usual.cycles * len(own) + sum(own)
    least = least_difference(expected, usual.cycles_spread * len(own))
    return grouped.ok and abs(grouped.cycles - expected) < least


def _slower(
    through: Sequence[Through], answers: Sequence[Measured], own: Mapping[str, Fraction], copies: int
) -> dict[str, Fraction]:
    """Return by how many cycles a copy takes longer through each producer than through the quickest one."""
    timed = {
        one.name: (measured.cycles / copies - own[one.name], measured.cycles_spread / copies)
        for one, measured in zip(through, answers, strict=True)
        if measured.ok
    }
    quickest, spread = min(timed.values(), key=itemgetter(0), default=(Fraction(0), Fraction(0)))
    return {
        name: cycles - quickest
        for name, (cycles, own_spread) in timed.items()
        if cycles - quickest >= least_difference(cycles, own_spread + spread)
    }
