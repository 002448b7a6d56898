"""How well mixes of instructions are predicted on the CPU at hand, from ports that were inferred by time alone.

    python -m benchmarks.predictions.real_mixes --campaign zen4.sqlite --mixes 2000 --seed 1

It takes the stated usages of a campaign (`characterize --all --db FILE`) and draws random mixes of 3 to 8 instructions,
which inference has not seen. Their times are compared with the linear program, which no mix should beat. They are also
compared with a contention table: a half of the mixes makes it, and the other half judges it.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from generator.factory import InstructionFactory
from generator.sequences.blocking import CodeKind, fits
from inference.ports.by_time.mixes import MixFactory, cycles_of
from results.campaign.store import Store
from results.findings import SlotsFound
from results.model import PortUsage
from results.ports import joined, throughput_of
from runner.backends.registry import open_backend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError
from xed_convert.files import atomic_write
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Procedure, Request
    from results.model import Characterization
    from xed_convert.model import InstructionVariant

NEAR, TOO_FAST, CONTENDS = 0.05, 0.03, 0.05
FEWEST = 8
BATCH = 200


@dataclass(frozen=True, slots=True)
class Known:
    """A variant with a stated usage and a throughput that its ports explain.

    `slots` are those that it is issued in, `chain` is the latency in cycles from what it writes to where it reads that.
    """

    variant: InstructionVariant
    usage: PortUsage
    slots: int
    chain: float


@dataclass(frozen=True, slots=True)
class MeasuredMix:
    """A mix: the usage of each instruction, the time that the linear program predicts, and the measured one."""

    classes: tuple[str, ...]
    predicted: float
    measured: float


def stated(path: Path, catalogue: Catalogue) -> list[Known]:
    """Return the variants that may stand in mixes: stated by time, no chain through fixed registers or flags."""
    found = []
    with Store.read(path) as store:
        for conclusion in store.conclusions():
            result = conclusion.result
            time = result.throughput.unrolled
            if result.ports is None or time is None or not result.attributes.get("ports_by_time"):
                continue
            variant = catalogue.by_key(result.key)
            free = all(operand.explicit for operand in variant.operands if operand.registers) and not any(
                operand.read for operand in variant.operands if operand.kind is OperandKind.FLAGS
            )
            if free and fits(variant, CodeKind.WITHOUT_SSE) and time <= throughput_of(result.ports) * (1 + NEAR):
                slots = [step for one in result.derivations for step in one.steps if isinstance(step, SlotsFound)]
                found.append(Known(variant, result.ports, _slots(slots), _chain(variant, result)))
    return found


def _slots(found: Sequence[SlotsFound]) -> int:
    """Return the slots that filler shows: no mix is issued faster than they allow."""
    values = [step.cycles * step.width - step.filler.count for step in found]
    return max(1, int(sum(values) / len(values) + ISSUE_NOISE)) if values else 1


def _chain(variant: InstructionVariant, result: Characterization) -> float:
    """Return the longest latency from an operand to itself: instances in the same registers wait so long."""
    own = {operand.index for operand in variant.operands if operand.read and operand.written}
    loops = [float(one.cycles) for one in result.latencies if one.source == one.destination and one.source in own]
    return max(loops, default=0.0)


def draw(known: Sequence[Known], count: int, seed: int) -> list[list[Known]]:
    """Return random mixes of 3 to 8 different variants that do not wait for each other."""
    source = random.Random(seed)
    found: list[list[Known]] = []
    while len(found) < count:
        mix = source.sample(list(known), source.randint(3, 8))
        if independent(mix):
            found.append(mix)
    return found


def independent(mix: Sequence[Known]) -> bool:
    """Whether nothing in a mix waits for something else than ports.

    What reads memory would wait for a store to the same place. An instance that waits for the one of the copy before
    must have twice that time.
    """
    memory = [one for known in mix for one in known.variant.operands if one.kind is OperandKind.MEMORY]
    if any(one.written for one in memory) and any(one.read for one in memory):
        return False
    return 2 * max(one.chain for one in mix) <= REPEATED * float(throughput_of(together(mix)))


def together(mix: Sequence[Known]) -> PortUsage:
    """Return the usage of all variants of a mix."""
    usage = PortUsage({})
    for one in mix:
        usage = joined(usage, one.usage)
    return usage


def measure(mixes: Sequence[Sequence[Known]], factory: MixFactory, session: Session, width: int) -> list[MeasuredMix]:
    """Return the mixes that could be generated and timed."""
    found = []
    for start in range(0, len(mixes), BATCH):
        found += session.run_one(_times(mixes[start : start + BATCH], factory, width))
    return found


def _times(mixes: Sequence[Sequence[Known]], factory: MixFactory, width: int) -> Procedure[list[MeasuredMix]]:
    requests: list[Request] = []
    planned = []
    for mix in mixes:
        try:
            requests.append(factory.request([(one.variant, REPEATED) for one in mix], None))
        except UopscopeError:
            continue
        planned.append(mix)
    found = []
    for mix, measured in zip(planned, (yield requests), strict=True):
        cycles = cycles_of(measured)
        if cycles is None:
            continue
        predicted = max(float(throughput_of(together(mix))), sum(one.slots for one in mix) / width)
        found.append(MeasuredMix(tuple(sorted(str(one.usage) for one in mix)), predicted, float(cycles) / REPEATED))
    return found


REPEATED = 3
"""Instances of each instruction in a mix, each with registers of its own."""

ISSUE_NOISE = 0.25
"""Slots by which filler may show too few."""


def contention(mixes: Sequence[MeasuredMix]) -> dict[tuple[str, str], float]:
    """Return, by pair of usages, the median share by which mixes take longer than predicted, where most of them do."""
    longer: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in mixes:
        for pair in combinations(sorted(set(one.classes)), 2):
            longer[pair].append(one.measured / one.predicted - 1)
    known = {pair: sorted(shares) for pair, shares in longer.items() if len(shares) >= FEWEST}
    return {pair: median(shares) for pair, shares in known.items() if shares[len(shares) // 4] > CONTENDS}


def with_contention(mix: MeasuredMix, table: dict[tuple[str, str], float]) -> float:
    """Return the predicted time, longer by the share of the pair that contends most."""
    pairs = combinations(sorted(set(mix.classes)), 2)
    return mix.predicted * (1 + max((table.get(pair, 0.0) for pair in pairs), default=0.0))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaign", type=Path, required=True, help="a campaign's file of this CPU")
    parser.add_argument("--mixes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=6, help="slots that are issued per cycle")
    parser.add_argument("--output", type=Path, help="write each mix there: predicted and measured cycles, usages")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--arch", default=None)
    options = parser.parse_args()
    catalogue = Catalogue.load()
    known = stated(options.campaign, catalogue)
    if len(known) < 8:
        parser.error(f"{options.campaign}: {len(known)} usages are stated by time; 8 are the least")
    backend = open_backend(options.backend, architecture=options.arch)
    measurer = Measurer(backend)
    factory = MixFactory(InstructionFactory(catalogue))
    session = Session(measurer, limits=Limits(keep_raw=False))
    timed = measure(draw(known, options.mixes, options.seed), factory, session, options.width)
    backend.close()
    if options.output:
        rows = ("\t".join((f"{one.predicted:.3f}", f"{one.measured:.3f}", " ".join(one.classes))) for one in timed)
        with atomic_write(options.output) as file:
            file.write("\n".join(["predicted\tmeasured\tusages", *rows, ""]).encode())
    table = contention(timed[::2])
    judged = timed[1::2]
    fast = sum(one.measured < one.predicted * (1 - TOO_FAST) for one in timed)
    alone = sum(abs(one.measured / one.predicted - 1) <= NEAR for one in judged)
    both = sum(abs(one.measured / with_contention(one, table) - 1) <= NEAR for one in judged)
    print(
        f"{len(known)} variants, {len(timed)} mixes; {fast} faster than the linear program by more than {TOO_FAST:.0%}"
    )
    within = f"of {len(judged)} mixes, within {NEAR:.0%}"
    print(f"{within}: {alone} by ports alone, {both} with {len(table)} pairs that contend")


if __name__ == "__main__":
    main()
