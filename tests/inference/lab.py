"""Simulated machines with all that latency inference needs, and a comparison with their models."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generator.chains.plan import plan_latency
from generator.exclusions import excluded
from generator.factory import InstructionFactory
from inference.calibration import Calibrations
from inference.latency.infer import LatencyOutcome, infer_latencies
from runner.backends.sim import SimBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task
from simulator.judging.latency import expected, judge, missing
from simulator.machines.random_machine import RandomMachine
from simulator.machines.shipped import load_machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simulator.machines.bypass import BypassDelays
    from simulator.machines.machine import MachineModel
    from xed_convert.catalogue.catalogue import Catalogue


@dataclass
class Lab:
    """A simulated machine (a shipped model, or `7` or `hidden:7`, a random one) with all that inference needs.

    `changes` are graphs that some variants have instead (see `MachineModel.changed`), `bypass` its bypass delays.
    """

    catalogue: Catalogue
    name: str
    changes: Mapping[str, str] = field(default_factory=dict)
    bypass: BypassDelays | None = None
    model: MachineModel = field(init=False)
    calibrations: Calibrations = field(init=False)
    isa_sets: frozenset[str] | None = field(init=False)

    def __post_init__(self) -> None:
        kind, _, seed = self.name.rpartition(":")
        random = RandomMachine(int(seed), kind=kind) if seed.isdigit() else None
        self.model = (random.model() if random else load_machine(self.name)).changed(self.changes)
        if self.bypass is not None:
            self.model = self.model.with_parameters(bypass=self.bypass)
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


def compare(lab: Lab, strings: Iterable[str]) -> tuple[Counter[str], list[str]]:
    """Infer latencies; return the number of results by verdict (see `judge`), and a line about each that is wrong."""
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
        gaps = [] if outcome.left_out else missing(variant, truth, outcome.latencies)
        wrong += [f"{string}: nothing about {source} → {destination}" for source, destination in gaps]
    return counts, wrong
