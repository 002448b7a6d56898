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
from typing import TYPE_CHECKING

from generator.chains.carried import carried_chains, reader_chains
from inference.attributes.producers import LEAST_CYCLES, LEAST_SHARE
from inference.attributes.value_classes import SPREADS
from inference.tolerances import AGREE, WAITS
from results.findings import CarriedTime
from results.model import PRODUCERS, Derivation

if TYPE_CHECKING:
    from generator.chains.carried import CarriedChain
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
    if not usual.ok:
        return
    expected = usual.cycles * len(names) + sum(own[name] for name in names)
    least = max(LEAST_CYCLES, LEAST_SHARE * expected, SPREADS * (usual.cycles_spread * len(names)))
    if chain.cut is None or (grouped.ok and abs(grouped.cycles - expected) < least):
        return
    cut, *answers = yield [calibrations.request(one) for one in (chain.cut, *(one.benchmark for one in through))]
    if not cut.ok or cut.cycles > WAITS * usual.cycles:
        return  # it does not wait for its dependency, which would hide the cycles of a producer
    times = {name: measured.cycles - own[name] for name, measured in zip(names, answers, strict=True) if measured.ok}
    slower = _slower(times, dict(zip(names, answers, strict=True)), 1)
    if not slower:
        return
    again = yield [calibrations.request(one.twice) for one in through]
    twice = {name: measured.cycles / 2 - own[name] for name, measured in zip(names, again, strict=True) if measured.ok}
    repeated = _slower(twice, dict(zip(names, again, strict=True)), 2)
    noted = {
        name: round(more)
        for name, more in slower.items()
        if max(abs(repeated.get(name, Fraction(0)) - more), abs(round(more) - more)) <= AGREE
    }
    for name, cycles in noted.items():
        attribute = f"slower_after_{name}"
        found.attributes[attribute] = max(cycles, found.attributes.get(attribute, 0))
    if noted:
        timed = [(one, measured) for one, measured in zip(through, answers, strict=True) if measured.ok]
        steps = tuple(
            CarriedTime(one.name, chain.operand, one.text, measured.cycles, own[one.name]) for one, measured in timed
        )
        found.derivations.append(Derivation(PRODUCERS, steps, tuple(one.benchmark.id for one, _ in timed)))


def _slower(times: dict[str, Fraction], answers: dict[str, Measured], copies: int) -> dict[str, Fraction]:
    """Return by how many cycles the chain takes longer through each producer than through the quickest one."""
    if not times:
        return {}
    quickest = min(times, key=lambda name: times[name])
    found = {}
    for name, cycles in times.items():
        more = cycles - times[quickest]
        spread = (answers[name].cycles_spread + answers[quickest].cycles_spread) / copies
        if more >= max(LEAST_CYCLES, LEAST_SHARE * cycles, SPREADS * spread):
            found[name] = more
    return found
