"""Short verdicts about conclusions on simulated machines, for comparing versions of inference."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from benchmarks.accuracy.random_machines import sample
from benchmarks.changes.kept import Kept
from benchmarks.changes.verdicts_apart import Apart
from generator.exclusions import excluded
from inference.characterizer import CandidateCache, Characterizer
from results.model import LEFT_OUT, Form
from results.ports import renamed
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import EndlessError, Limits, Session, Task
from runner.verification.indistinguishable import named
from runner.verification.judge import visible_ports
from runner.verification.run import chosen, port_names
from simulator.judging.latency import judge, missing
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.changes.verdicts_apart import Verdicts
    from results.model import Characterization, PortUsage
    from simulator.machines.machine import MachineModel
    from simulator.machines.truth import Truth
    from xed_convert.model import InstructionVariant

TOLERANCE = Fraction(1, 50)
"""Share by which a throughput may differ from the machine's."""

STOPPED = "stopped without an end"
"""The verdict about inference of a variant that asks for more measurements than a session's limits allow."""

CHOSEN = {"SPR": ("VDIVPH (XMM, XMM, M128)", "VDIVPH (ZMM, ZMM, M16_1to32)")}
"""Variants of machines on which these show what few others do: µops that execute in bursts."""

CLOCK = "clock "
"""How the name of a machine begins if it has only a clock, as a CPU without a PMU: all code runs in loops."""


class VerdictSource:
    """A catalogue and what is made of it, for machine after machine; measurements are kept in a folder."""

    def __init__(self, folder: Path) -> None:
        """Load the catalogue."""
        self._folder = folder
        self.catalogue = Catalogue.load()
        self._candidates = CandidateCache(self.catalogue)
        self._apart = Apart(self.catalogue, self._candidates)

    @cached_property
    def _measurable(self) -> list[InstructionVariant]:
        return [one for one in self.catalogue if one.cpl == 3 and not excluded(one, privileged=True)]

    def verdicts(self, name: str, count: int) -> tuple[dict[str, str], int]:
        """Ask about `count` variants of a machine; return the verdicts by variant and what they are about.

        The second value is the number of measurements.
        """
        kept = Kept(self._folder / f"{name.replace(':', ' ')}.pickle")
        ask = self._apart.verdicts if self._apart.knows(name) else self._characterized
        found = ask(name, count, kept)
        kept.write()
        return found, len(kept.asked)

    def _characterized(self, name: str, count: int, kept: Kept) -> dict[str, str]:
        """Characterize `count` variants of a machine."""
        machine = open_machine(name.removeprefix(CLOCK))
        variants = self.sample(machine, name, count)
        stopped: Verdicts = {}
        results = [(variant, result) for variant, result, _ in self.conclusions(machine, name, variants, kept, stopped)]
        names = port_names(machine, results)
        return stopped | {
            f"{variant.string} {about}": verdict
            for variant, result in results
            for about, verdict in verdicts_of(variant, machine.truth(variant), result, names).items()
        }

    def conclusions(
        self,
        machine: MachineModel,
        name: str,
        variants: Sequence[InstructionVariant],
        kept: Kept,
        stopped: Verdicts | None = None,
    ) -> Iterator[tuple[InstructionVariant, Characterization, tuple[str, ...]]]:
        """Yield variants with the conclusions about them on a machine, and the keys of their requests.

        A variant about which inference asks without end has no conclusions: `stopped` gets a verdict about it.

        Raises:
            RuntimeError: inference failed, or asks without end although nobody wants to know (`stopped` is None).
        """
        is_clock = name.startswith(CLOCK)
        backend = SimBackend(machine, self.catalogue, hide_counters=is_clock)
        capabilities = replace(backend.info().capabilities, loops_only=is_clock)
        characterizer = Characterizer(self.catalogue, capabilities, candidates=self._candidates)
        session = Session(Measurer(backend), kept, Limits(keep_raw=False))
        context = session.run_one(characterizer.prepare(variants))
        kept.shared = frozenset(kept.asked)
        by_key = {variant.key: variant for variant in variants}
        tasks = (Task(variant.key, characterizer.characterize(variant, context)) for variant in variants)
        for one in session.run(tasks):
            if stopped is not None and isinstance(one.error, EndlessError):
                stopped[f"{by_key[one.name].string} inference"] = STOPPED
                continue
            if one.result is None:
                raise RuntimeError(f"{name} {by_key[one.name].string}: {one.error}")
            yield by_key[one.name], one.result, one.requests

    def sample(self, machine: MachineModel, name: str, count: int) -> list[InstructionVariant]:
        """Return `count` variants of all extensions, other ones for each random machine; or those that are chosen."""
        if name in CHOSEN:
            return [self.catalogue.by_string(string) for string in CHOSEN[name]]
        seed = name.rpartition(":")[2]
        if seed.isdecimal():
            return sample(self._measurable, machine, int(seed), count)
        everything = chosen(self.catalogue, machine, ["all"], 1)
        return everything[:: max(1, len(everything) // count)][:count]


def verdicts_of(
    variant: InstructionVariant, truth: Truth, found: Characterization, names: Mapping[str, str]
) -> dict[str, str]:
    """Return what of the conclusions is right, wrong, or not stated in which way.

    `names` are the true names of ports by those that inference gives them, where they share counters.
    """
    true = visible_ports(truth)
    verdicts = {
        "ports": _ports(found.ports, true, [renamed(one, names) for one in named(found.failures, Form.PLAIN)], names),
        "uops": "none" if found.uops is None else "right" if found.uops == true.total else "wrong",
        "throughput": _throughput(found, truth),
    }
    same = found.of(Form.SAME_REGISTER).ports
    if truth.same_register is not None and same is not None:
        verdicts["ports same register"] = _ports(same, visible_ports(truth.same_register), [], names)
    for one in found.latencies:
        about = f"{one.source}{one.part}{one.source_flag}→{one.destination}{one.destination_flag}"
        form = ("same register " if one.same_register else "") + ("fast " if one.fast_values else "")
        verdicts[f"latency {form}{about}"] = judge(variant, truth, one)
    if not any(derivation.quantity == LEFT_OUT for derivation in found.derivations):
        verdicts |= {f"latency {source} → {end}": "missing" for source, end in missing(variant, truth, found.latencies)}
    return verdicts


def _ports(found: PortUsage | None, true: PortUsage, left: list[PortUsage], names: Mapping[str, str]) -> str:
    if found is not None:
        return "right" if _counted(renamed(found, names)) == _counted(true) else "wrong"
    return "named" if _counted(true) in map(_counted, left) else "none"


def _counted(usage: PortUsage) -> dict[frozenset[str], int]:
    return {ports: count for ports, count in usage.uops.items() if count}


def _throughput(found: Characterization, truth: Truth) -> str:
    measured = [one for one in (found.throughput.unrolled, found.throughput.loop) if one is not None]
    if not measured:
        return "none"
    if abs(min(measured) - truth.throughput) <= TOLERANCE * truth.throughput:
        return "right"
    return "slower" if min(measured) > truth.throughput else "wrong"
