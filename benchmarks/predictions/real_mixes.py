"""How well mixes of instructions are predicted on the CPU at hand, from ports that were inferred by time alone.

    python -m benchmarks.predictions.real_mixes --campaign zen4.sqlite --mixes 2000 --seed 1

It takes the stated usages of a campaign (`characterize --all --db FILE`) and draws random mixes of 3 to 8 instructions,
which inference has not seen. Their times are compared with the linear program, which no mix should beat. They are also
compared with a contention table (`inference.ports.fitted.contention`): a half of the mixes makes it, and the other
half judges it.

Another user of the core makes mixes slower. So all are measured in several rounds, and the least time counts that came
again. A mix without one is left out.

`--output` writes the mixes. `--given` judges such a file again and measures nothing.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from generator.factory import InstructionFactory
from generator.sequences.blocking import CodeKind, fits, register_files
from inference.ports.by_time.mixes import MixFactory, cycles_of
from inference.ports.fitted import contention
from inference.ports.fitted.contention import PORTS_ALONE, TOO_FAST, Contention, TimedUsage
from inference.ports.fitted.grouped import IssuedInstruction
from results.campaign.store import Store
from results.findings import SlotsFound
from results.model import PortUsage, port_set_name
from results.ports import joined, throughput_of
from runner.backends.registry import open_backend
from runner.measuring.protocol import SHARED, Measurer, Options
from runner.measuring.session import Limits, Session
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError
from xed_convert.files import atomic_write
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from generator.microbenchmark import Line
    from inference.experiment import Measured, Procedure, Request
    from results.model import Characterization
    from xed_convert.model import InstructionVariant

NEAR = 0.05
AGAIN = 0.02
"""Two times of a mix agree if they differ by this share at most."""

BATCH = 200


@dataclass(frozen=True, slots=True)
class Known:
    """A variant with a stated usage and a throughput that its ports explain.

    `slots` are its issue slots. `chain` are the cycles for which an instance waits for the one before it.
    """

    variant: InstructionVariant
    usage: PortUsage
    slots: int
    chain: float


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
            if (
                free
                and "MMX" not in register_files(variant)
                and fits(variant, CodeKind.WITHOUT_SSE)
                and time <= throughput_of(result.ports) * (1 + NEAR)
            ):
                slots = [step for one in result.derivations for step in one.steps if isinstance(step, SlotsFound)]
                found.append(Known(variant, result.ports, _slots(slots), _chain(variant, result)))
    return found


def _slots(found: Sequence[SlotsFound]) -> int:
    """Return the slots that filler shows: no mix is issued faster than they allow."""
    values = [step.cycles * step.width - step.filler.count for step in found]
    return max(1, int(median(values) + ISSUE_NOISE)) if values else 1


def _chain(variant: InstructionVariant, result: Characterization) -> float:
    """Return for how long an instance waits at most for the one before that has the same registers."""
    own = {operand.index for operand in variant.operands if operand.read and operand.written}
    loops = [float(one.cycles) for one in result.latencies if {one.source, one.destination} <= own]
    return max([float(result.attributes.get("result_dependency", 0)), *loops])


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


def waits(mix: Sequence[Known], body: Sequence[Line], cycles: float) -> bool:
    """Whether instances wait for each other: where registers are scarce, several have the same ones.

    Their chains may take half of a copy's time.
    """
    lines = Counter(one.key for one in body)
    different = Counter(key for key, _ in {(one.key, one.code) for one in body})
    chains = (one.chain * lines[one.variant.key] / different[one.variant.key] for one in mix if one.chain)
    return 2 * max(chains, default=0.0) > cycles


def together(mix: Sequence[Known]) -> PortUsage:
    """Return the usage of all variants of a mix."""
    usage = PortUsage({})
    for one in mix:
        usage = joined(usage, one.usage)
    return usage


@dataclass(frozen=True, slots=True)
class PlannedMix:
    """A mix that can be generated: its request, its usage with no time yet, and its variants' strings."""

    request: Request
    untimed: TimedUsage
    variants: tuple[str, ...]


def planned(mixes: Iterable[Sequence[Known]], factory: MixFactory, width: int) -> Iterator[PlannedMix]:
    """Yield the mixes for which there are enough registers."""
    for mix in mixes:
        code = tuple(IssuedInstruction(one.usage, one.slots, one.variant.writes_masks) for one in mix)
        untimed = TimedUsage(together(mix), sum(one.slots for one in mix) / width, 0.0, code)
        try:
            request = factory.request([(one.variant, REPEATED) for one in mix], None)
        except UopscopeError:
            continue
        if not waits(mix, request.benchmark.body, REPEATED * PORTS_ALONE.cycles(untimed)):
            yield PlannedMix(request, untimed, tuple(one.variant.string for one in mix))


def measure(mixes: Sequence[PlannedMix], measurer: Measurer, rounds: int) -> list[list[float]]:
    """Return the times of each mix in cycles, one of each round in which it was not disturbed.

    Disturbances last seconds. So a round measures all mixes once before the next round begins.
    """
    times: list[list[float]] = [[] for _ in mixes]
    for _ in range(rounds):
        session = Session(measurer, limits=Limits(keep_raw=False))
        for start in range(0, len(mixes), BATCH):
            batch = mixes[start : start + BATCH]
            answers = session.run_one(_asked([one.request for one in batch]))
            for found, measured in zip(times[start : start + BATCH], answers, strict=True):
                cycles = cycles_of(measured)
                if cycles is not None and measured.detail != SHARED:
                    found.append(float(cycles) / REPEATED)
    return times


def _asked(requests: Sequence[Request]) -> Procedure[Sequence[Measured]]:
    return (yield requests)


def repeated_time(times: Sequence[float], rounds: int) -> float | None:
    """Return the least time that came again, None if none did.

    A neighbour on the same core only makes a mix slower, and the contention probe does not notice each neighbour. A
    single low time may be a mistake of the clock. A single round has to be believed.
    """
    ordered = sorted(times)
    if rounds == 1:
        return ordered[0] if ordered else None
    return next((low for low, high in pairwise(ordered) if high <= low * (1 + AGAIN)), None)


REPEATED = 3
"""Instances of each instruction in a mix, each with registers of its own."""

ISSUE_NOISE = 0.25
"""Slots by which filler may show too few."""

MASK = " mask"
"""Behind an instruction that writes mask registers."""

COLUMNS = ("usage", "issue_cycles", "cycles", "instructions", "variants")
"""Of a file of mixes."""

PATIENCE = 20.0
"""Waiting for a quiet core takes at most this many times what measuring takes."""


def within(mixes: Sequence[TimedUsage], table: Contention) -> int:
    """Return how many mixes took as long as predicted."""
    return sum(abs(one.cycles / table.cycles(one) - 1) <= NEAR for one in mixes)


def write(path: Path, mixes: Sequence[tuple[TimedUsage, tuple[str, ...]]]) -> None:
    """Write mixes and their variants as TSV: µops by ports, cycles in which they are issued, and so on (`COLUMNS`).

    An instruction of a mix is its slots and µops by ports, and whether it writes mask registers: `2 1*FP01+1*r89`,
    `1 1*FP01 mask`.
    """
    rows = (
        "\t".join(
            [
                str(mix.usage),
                f"{mix.issue_cycles:.4f}",
                f"{mix.cycles:.4f}",
                "; ".join(f"{one.slots} {one.usage}{MASK * one.masks}" for one in mix.code),
                "; ".join(variants),
            ]
        )
        for mix, variants in mixes
    )
    with atomic_write(path) as file:
        file.write("\n".join(["\t".join(COLUMNS), *rows, ""]).encode())


def read(path: Path) -> list[TimedUsage]:
    """Return the mixes of a file that `write` wrote; its last columns may be missing."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            TimedUsage(PortUsage.parse(row["usage"]), float(row["issue_cycles"]), float(row["cycles"]), _code(row))
            for row in csv.DictReader(file, delimiter="\t")
        ]


def _code(row: Mapping[str, str]) -> tuple[IssuedInstruction, ...]:
    instructions = (one.partition(" ") for one in filter(None, row.get("instructions", "").split("; ")))
    return tuple(
        IssuedInstruction(PortUsage.parse(usage.removesuffix(MASK)), int(slots), usage.endswith(MASK))
        for slots, _, usage in instructions
    )


def report(mixes: Sequence[TimedUsage]) -> Iterator[str]:
    """Yield how well ports alone and a contention table predict mixes, and that table."""
    table, judged = contention.fit(mixes[::2]), mixes[1::2]
    fast = sum(one.cycles < PORTS_ALONE.cycles(one) * (1 - TOO_FAST) for one in mixes)
    yield f"{len(mixes)} mixes; {fast} faster than the linear program by more than {TOO_FAST:.0%}"
    alone, both = within(judged, PORTS_ALONE), within(judged, table)
    yield f"of {len(judged)} mixes, within {NEAR:.0%}: {alone} by ports alone, {both} with contention:"
    if table.grouped:
        in_groups = within(judged, Contention({}, table.grouped))
        yield f"instructions are issued whole, on {port_set_name(table.grouped)} a µop per cycle: {in_groups} with that"
    if table.schedulers:
        chosen = within(judged, Contention({}, table.grouped, table.schedulers))
        yield f"schedulers choose {port_set_name(table.schedulers.ports)} at issue: {chosen} with that, nothing fitted"
    for (inner, outer), share in table.shares.items():
        yield f"{port_set_name(inner)} in {port_set_name(outer)}\t{share:.3f}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaign", type=Path, help="a campaign's file of this CPU")
    parser.add_argument("--mixes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rounds", type=int, default=5, help="times to measure each mix; the least that came again counts"
    )
    parser.add_argument("--width", type=int, default=6, help="slots that are issued per cycle")
    parser.add_argument("--output", type=Path, help="write the mixes there")
    parser.add_argument("--given", type=Path, help="judge the mixes of such a file instead")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--arch", default=None)
    options = parser.parse_args()
    if options.given:
        print(*report(read(options.given)), sep="\n")
        return
    if options.campaign is None:
        parser.error("--campaign FILE says which ports there are")
    catalogue = Catalogue.load()
    known = stated(options.campaign, catalogue)
    if len(known) < 8:
        parser.error(f"{options.campaign}: {len(known)} usages are stated by time; 8 are the least")
    backend = open_backend(options.backend, architecture=options.arch)
    measurer = Measurer(backend, Options(patience_ratio=PATIENCE))
    factory = MixFactory(InstructionFactory(catalogue))
    mixes = list(planned(draw(known, options.mixes, options.seed), factory, options.width))
    times = measure(mixes, measurer, options.rounds)
    backend.close()
    found = [(mix, repeated_time(each, options.rounds)) for mix, each in zip(mixes, times, strict=True)]
    timed = [(replace(mix.untimed, cycles=cycles), mix.variants) for mix, cycles in found if cycles is not None]
    if options.output:
        write(options.output, timed)
    print(f"{len(known)} variants; {len(mixes)} mixes generated, {len(timed)} with a time that came again")
    print(*report([mix for mix, _ in timed]), sep="\n")


if __name__ == "__main__":
    main()
