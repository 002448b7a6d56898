"""How well mixes of instructions are predicted on the CPU at hand, from ports that were inferred by time alone.

    python -m benchmarks.real_mixes --campaign zen4.sqlite --mixes 2000 --seed 1

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
from results.model import PortUsage
from results.ports import joined, throughput_of
from runner.backends.registry import open_backend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Procedure, Request
    from xed_convert.model import InstructionVariant

NEAR, TOO_FAST, CONTENDS = 0.05, 0.03, 0.05
FEWEST = 12
BATCH = 200


@dataclass(frozen=True, slots=True)
class Known:
    """A variant with a stated usage and a throughput that its ports explain."""

    variant: InstructionVariant
    usage: PortUsage


@dataclass(frozen=True, slots=True)
class Timed:
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
            free = all(operand.explicit for operand in variant.operands if operand.registers)
            if free and fits(variant, CodeKind.WITHOUT_SSE) and time <= throughput_of(result.ports) * (1 + NEAR):
                found.append(Known(variant, result.ports))
    return found


def draw(known: Sequence[Known], count: int, seed: int) -> list[list[Known]]:
    """Return random mixes of 3 to 8 different variants."""
    source = random.Random(seed)
    return [source.sample(list(known), source.randint(3, 8)) for _ in range(count)]


def measure(mixes: Sequence[Sequence[Known]], factory: MixFactory, session: Session, width: int) -> list[Timed]:
    """Return the mixes that could be generated and timed."""
    found = []
    for start in range(0, len(mixes), BATCH):
        found += session.run_one(_times(mixes[start : start + BATCH], factory, width))
    return found


def _times(mixes: Sequence[Sequence[Known]], factory: MixFactory, width: int) -> Procedure[list[Timed]]:
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
        usage = PortUsage({})
        for one in mix:
            usage = joined(usage, one.usage)
        # Each takes one slot at least
        predicted = max(float(throughput_of(usage)), len(mix) / width)
        found.append(Timed(tuple(sorted(str(one.usage) for one in mix)), predicted, float(cycles) / REPEATED))
    return found


REPEATED = 3
"""Instances of each instruction in a mix."""


def contention(mixes: Sequence[Timed]) -> dict[tuple[str, str], float]:
    """Return by which share mixes with two usages take longer than predicted, in the median, where they clearly do."""
    longer: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in mixes:
        for pair in combinations(sorted(set(one.classes)), 2):
            longer[pair].append(one.measured / one.predicted - 1)
    middles = {pair: median(shares) for pair, shares in longer.items() if len(shares) >= FEWEST}
    return {pair: middle for pair, middle in middles.items() if middle > CONTENDS}


def with_contention(mix: Timed, table: dict[tuple[str, str], float]) -> float:
    """Return the predicted time with that of the pair that contends most."""
    pairs = combinations(sorted(set(mix.classes)), 2)
    return mix.predicted * (1 + max((table.get(pair, 0.0) for pair in pairs), default=0.0))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaign", type=Path, required=True, help="a campaign's file of this CPU")
    parser.add_argument("--mixes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=6, help="slots that are issued per cycle")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--arch", default=None)
    options = parser.parse_args()
    catalogue = Catalogue.load()
    known = stated(options.campaign, catalogue)
    if len(known) < 8:
        parser.error(f"{options.campaign}: {len(known)} usages are stated by time; 8 are the least")
    backend = open_backend(options.backend, architecture=options.arch)
    measurer = Measurer(backend)
    factory = MixFactory(InstructionFactory(catalogue), loop=measurer.info.capabilities.loops_only)
    session = Session(measurer, limits=Limits(keep_raw=False))
    timed = measure(draw(known, options.mixes, options.seed), factory, session, options.width)
    backend.close()
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
