"""Campaigns of the full ISA without measuring: what simulated machines' models say, stored as conclusions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

from results.campaign.records import Sample, StoredBenchmark
from results.campaign.store import Store
from results.findings import ChainTime, LinkShare
from results.model import (
    LATENCY,
    Bound,
    Characterization,
    Derivation,
    Form,
    FormResult,
    LatencyResult,
    Measurement,
    Provenance,
    Series,
    Status,
    Throughput,
)
from simulator.machines.shipped import load_machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from results.machine.graph import Endpoint
    from simulator.machines.truth import Truth
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant

EXPERIMENTS = 14
"""Measurements per variant: as many as a campaign on the clock backend has on average."""

SAMPLES = 30


def provenance(machine: str) -> Provenance:
    """Return the provenance of a machine's model, which says that nothing was measured."""
    return Provenance(
        machine,
        f"model of {machine}",
        "",
        "",
        "",
        "sim",
        "0",
        "2026-01-01T00:00:00+00:00",
        caveats=("a model's truth, nothing was measured",),
        is_model=True,
    )


def truths(machine: str, catalogue: Catalogue) -> Iterator[Characterization]:
    """Yield what is true of every variant of a simulated machine, as if inference had found all of it."""
    model = load_machine(machine)
    for variant in catalogue:
        if model.behaviour(variant) is not None:
            yield characterization(variant, model.truth(variant))


def characterization(variant: InstructionVariant, truth: Truth) -> Characterization:
    """Return what is true of a variant in the form of conclusions; every third latency is given as an upper bound."""
    throughput = Throughput(truth.throughput, truth.throughput, truth.throughput)
    special = {}
    if same := truth.same_register:
        special[Form.SAME_REGISTER] = FormResult(same.ports, Throughput(same.throughput, None, same.throughput))
    return Characterization(
        variant.key,
        variant.string,
        variant.iform,
        uops=truth.uops,
        forms={Form.PLAIN: FormResult(truth.ports, throughput)} | special,
        latencies=tuple(_latencies(truth)),
        attributes={"uops_retire_slots": truth.slots},
    )


def _latencies(truth: Truth) -> Iterator[LatencyResult]:
    for number, ((start, end), cycles) in enumerate(truth.latencies.items()):
        bound = Bound.UPPER if number % 3 == 2 else Bound.EXACT
        yield _latency(start, end, replace(_PLAIN, cycles=cycles, bound=bound))
    for (start, end), cycles in truth.fast_latencies.items():
        yield _latency(start, end, replace(_PLAIN, cycles=cycles, fast_values=True))
    for (start, end), cycles in (truth.same_register.latencies if truth.same_register else {}).items():
        yield _latency(start, end, replace(_PLAIN, cycles=cycles, same_register=True))


_PLAIN = LatencyResult(0, 0, cycles=0, bound=Bound.EXACT, chain="synthetic")  # type: ignore[arg-type] # replaced


def _latency(start: Endpoint, end: Endpoint, like: LatencyResult) -> LatencyResult:
    return replace(
        like,
        source=start.operand,
        destination=end.operand,
        part=start.part or end.part,
        source_flag=start.flag,
        destination_flag=end.flag,
    )


def write_campaign(path: Path, machine: str, catalogue: Catalogue, *, experiments: int = 0) -> int:
    """Write a campaign with `experiments` experiments per variant; return the number of variants."""
    random = Random(0)
    with Store.open(path) as store:
        store.begin(provenance(machine), {"name": "sim"})
        count = 0
        for result in truths(machine, catalogue):
            samples = [_sample(result, number, random) for number in range(experiments)]
            if samples:
                store.add(samples)
                chain = ChainTime(
                    Fraction(1), (LinkShare("movsxd", 1, Fraction(1), exact=True),), Fraction(0), exact=True
                )
                derivations = tuple(Derivation(LATENCY, (chain,), latency=one.key) for one in result.latencies)
                result = replace(result, derivations=derivations)  # noqa: PLW2901 - the same, explained
            store.conclude(result, [sample.request for sample in samples], "synthetic")
            count += 1
    return count


def _sample(result: Characterization, number: int, random: Random) -> Sample:
    """Return an experiment with samples that are as noisy as those of the clock backend."""
    name = f"{random.getrandbits(96):024x}"
    code = (random.randbytes(random.randint(3, 8)), f"{result.string.split()[0]} R{number}, R{number + 1}")
    body = (code,) * random.randint(1, 8)
    benchmark = StoredBenchmark(name, f"experiment {number} with {result.string}", len(body), (), body)
    series = tuple(
        Series(copies, 30, {name: _noisy(level, random) for name, level in _levels(copies).items()})
        for copies in (13, 113)
    )
    return Sample(f"{name}:time:unrolled", benchmark, Measurement(Status.OK, series))


def _levels(copies: int) -> dict[str, int]:
    return {"tsc": 173 * copies, "calibration": 6318, "contention_probe": 2366}


def _noisy(level: int, random: Random) -> tuple[int, ...]:
    """Return samples in steps of 26 ticks as an invariant TSC has them, most of them equal, some far off."""
    steps = random.choices((0, 1, 2, 3, 40), weights=(55, 30, 8, 5, 2), k=SAMPLES)
    return tuple(level + 26 * step for step in steps)
