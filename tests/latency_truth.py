"""Compares inferred latencies with the models of simulated machines: for tests and for tables in the documentation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.chains.plan import plan_latency
from generator.exclusions import excluded
from generator.factory import InstructionFactory
from inference.calibration import Calibrations
from inference.latency.infer import LatencyOutcome, infer_latencies
from results.model import Bound, LatencyResult
from runner.backends.sim import SimBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task
from simulator.machines.machine import MachineModel
from simulator.machines.random_machine import RandomMachine
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from simulator.machines.graph import Endpoint
    from simulator.machines.truth import Truth
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant


@dataclass
class Lab:
    """A simulated machine (a shipped model, or the seed of a random one) with all that inference needs."""

    catalogue: Catalogue
    name: str
    model: MachineModel = field(init=False)
    calibrations: Calibrations = field(init=False)
    isa_sets: frozenset[str] | None = field(init=False)

    def __post_init__(self) -> None:
        random = RandomMachine(int(self.name)) if self.name.isdigit() else None
        self.model = random.model() if random else MachineModel.load(self.name)
        self.isa_sets = random.shape.isa_sets if random else None
        self.instructions = InstructionFactory(self.catalogue)
        self.calibrations = Calibrations(self.instructions)
        self.session = Session(Measurer(SimBackend(self.model, self.catalogue)), limits=Limits(keep_raw=False))

    def infer(self, strings: Iterable[str]) -> dict[str, LatencyOutcome]:
        tasks = (
            Task(
                string,
                infer_latencies(plan_latency(self.instructions, self.catalogue.by_string(string)), self.calibrations),
            )
            for string in strings
        )
        found = {}
        for outcome in self.session.run(tasks):
            assert outcome.error is None, f"{outcome.name}: {outcome.error}"
            assert outcome.result is not None
            found[outcome.name] = outcome.result
        return found

    def variants(self, step: int, extensions: frozenset[str] = frozenset({"BASE", "LONGMODE"})) -> list[str]:
        wanted = [v for v in self.catalogue if v.extension in extensions and not excluded(v)]
        has = [v for v in wanted if self.model.behaviour(v) is not None]
        return [v.string for v in has if self.isa_sets is None or v.isa_set in self.isa_sets][::step]


def undefined_flags(variant: InstructionVariant) -> set[str]:
    """Return the flags that the variant leaves with any value: models write them, inference does not look."""
    return {flag for operand in variant.operands for flag, access in operand.flags.items() if access == "undef"}


def meant(
    variant: InstructionVariant, truth: Truth, result: LatencyResult
) -> Iterator[tuple[Endpoint, Endpoint, Fraction]]:
    """Yield the model's latencies that a result stands for: all flags where it names none.

    With the same register in all operands all of them are the source.
    """
    equal = {o.index for o in variant.operands if o.explicit and o.kind is OperandKind.REGISTER and not o.opmask}
    undefined = undefined_flags(variant)
    if result.same_register and truth.same_register:
        truth = truth.same_register
    table: Mapping[tuple[Endpoint, Endpoint], Fraction] = truth.latencies
    if result.fast_values and truth.fast_latencies:
        table = truth.fast_latencies
    for (start, end), cycles in table.items():
        if (
            (start.part, end.operand) == (result.part, result.destination)
            and (start.operand == result.source or (result.same_register and start.operand in equal))
            and result.source_flag in {"", start.flag}
            and result.destination_flag in {"", end.flag}
            and end.flag not in undefined
        ):
            yield start, end, cycles


def expected(variant: InstructionVariant, truth: Truth, result: LatencyResult) -> Fraction | None:
    """Return the model's latency for a result (None: no path), the longest over what the result stands for."""
    found = [cycles for _, _, cycles in meant(variant, truth, result)]
    return max(found) * (1 - truth.eliminated_share) if found else None


def judge(variant: InstructionVariant, truth: Truth, result: LatencyResult) -> str:
    """Say how a result compares to the model.

    Crowded is an exact result that is more than the model's longest path, by less than the instruction has other µops:
    when the input arrives they want the same ports, and a machine with that latency would behave the same.
    """
    wanted = expected(variant, truth, result)
    if wanted is None:
        idiom = result.same_register and result.cycles == 0
        return "right" if idiom else "not told" if result.bound is Bound.UPPER else "no dependency"
    if result.bound is Bound.UPPER:
        return "bound" if result.cycles >= wanted - Fraction(1, 20) else "bound too low"
    if abs(result.cycles - wanted) <= Fraction(1, 5):
        return "right"
    return "crowded" if truth.uops > 1 and wanted < result.cycles < wanted + truth.uops else "wrong"


def compare(lab: Lab, strings: Iterable[str]) -> tuple[Counter[str], list[str]]:
    """Return how many results compare how, and those that are not as they should be."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for string, outcome in lab.infer(strings).items():
        variant = lab.catalogue.by_string(string)
        truth = lab.model.truth(variant)
        wrong += [f"{string}: {failure}" for failure in outcome.failures]
        for result in outcome.latencies:
            verdict = judge(variant, truth, result)
            counts[verdict] += 1
            if verdict in {"wrong", "bound too low", "no dependency"}:
                wrong.append(f"{string} {verdict}: {result} instead of {expected(variant, truth, result)}")
        wrong += missing(variant, truth, outcome)
    return counts, wrong


def missing(variant: InstructionVariant, truth: Truth, outcome: LatencyOutcome) -> list[str]:
    """Name operands between which the model has a latency, and inference neither a result nor a reason."""
    undefined = undefined_flags(variant)
    pairs = {(start.operand, end.operand) for start, end in truth.latencies if end.flag not in undefined}
    found = {(result.source, result.destination) for result in outcome.latencies}
    if outcome.left_out:
        return []
    return [f"{variant.string}: nothing about {source} → {end}" for source, end in pairs - found]
