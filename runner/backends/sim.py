"""Simulated Intel cores out of LLVM's scheduling models, and machines drawn at random: no CPU is measured."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING

from generator.harness.harness import MAX_COUNTERS, Layout, Reader, Style, layout, render
from results.model import Provenance, Status
from results.version import version
from runner.backend import BackendError, BackendInfo, Job, JobResult, Repeat, UnknownNameError
from simulator.core.pmu import Simulator
from simulator.core.runs import STATIC
from simulator.core.trace import Copies
from simulator.errors import SimulatedFaultError, SimulatedHangError
from simulator.machines.graph import ModelError
from simulator.machines.machine import MachineModel, names
from simulator.machines.random_machine import RandomMachine
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simulator.core.pmu import Readings
    from xed_convert.model import InstructionVariant

CAVEAT = "a simulated core: every number is the model's, nothing is measured"
SEPARATE = ":separate"
"""After the name of a model: every port has a counter of its own, whatever the real cores have."""

_STATUS = {SimulatedFaultError: Status.FAULTED, SimulatedHangError: Status.TIMED_OUT, ModelError: Status.REFUSED}


class SimBackend:
    """Renders blobs and has them executed by a simulator."""

    name = "sim"

    def __init__(self, machine: MachineModel, catalogue: Catalogue) -> None:
        """Simulate that machine; the catalogue is what bytes are decoded with."""
        self._machine = machine
        self._simulator = Simulator(machine, Decoder(catalogue))
        groups = machine.parameters.port_groups
        self._ports = tuple(f"p{group}" for group in groups)
        self._counters = ("core_cycles", *STATIC, "uops_executed", "divider_active", *self._ports)

    @property
    def machine(self) -> MachineModel:
        """The simulated machine, for tests that know the truth."""
        return self._machine

    def info(self) -> BackendInfo:
        """Say which counters the simulated machine has, and that it is a model."""
        origin = self._machine.origin
        caveats = (CAVEAT, f"{self._machine.name}: {origin.text} ({origin.licence})")
        provenance = Provenance(
            architecture=self._machine.name,
            cpu=f"simulated {self._machine.name}",
            cpu_signature="",
            microcode="",
            kernel="",
            backend=self.name,
            version=version(),
            time=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            options={"model": origin.text},
            caveats=caveats,
            is_model=True,
        )
        return BackendInfo(
            self.name, provenance, self._counters, self._ports, caveats, is_model=True, supports_privileged=True
        )

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        """Run the jobs; a machine without noise gives the same number in every repetition."""
        wanted = [name for name in self._counters if name in counters]
        order = sorted(range(len(batch)), key=lambda n: (batch[n].benchmark.id, batch[n].iterations, batch[n].copies))
        results: dict[int, JobResult] = {}
        for number in order:
            results[number] = self._run_one(batch[number], wanted, repeat)
        return [results[number] for number in range(len(batch))]

    def lacks(self, variant: InstructionVariant) -> str:
        """Return the reason why the machine cannot run a variant ("": it can)."""
        has = self._machine.behaviour(variant) is not None
        return "" if has else f"the simulated {self._machine.name} does not have it"

    def close(self) -> None:
        """Nothing is held."""

    def _run_one(self, job: Job, wanted: Sequence[str], repeat: Repeat) -> JobResult:
        values: dict[str, int] = {}
        for start in range(0, max(1, len(wanted)), MAX_COUNTERS):
            try:
                values |= self._measure(job, wanted[start : start + MAX_COUNTERS])
            except (SimulatedFaultError, SimulatedHangError, ModelError) as error:
                return JobResult(_STATUS[type(error)], {}, error.message)
        return JobResult(Status.OK, self._noisy(job, values, repeat.repetitions))

    def _measure(self, job: Job, wanted: Sequence[str]) -> dict[str, int]:
        """Run one blob that reads these counters; a counter's RDPMC index is its place among them."""
        reader = Reader(tuple(range(len(wanted))))
        style = Style(fenced=job.fenced)
        arguments = (job.benchmark, job.copies, job.iterations, reader, style)
        blob, shape = render(*arguments), layout(*arguments)
        readings = self._simulator.run(blob, _copies(job, shape))
        return {name: self._value(name, index, readings) for index, name in enumerate(wanted)}

    def _value(self, name: str, index: int, readings: Readings) -> int:
        if name in self._ports:
            return sum(readings.difference(index, f"p{port}") for port in name[1:])
        return readings.difference(index, name)

    def _noisy(self, job: Job, values: Mapping[str, int], repetitions: int) -> dict[str, tuple[int, ...]]:
        noise = self._machine.parameters.counter_noise
        if not noise:
            return {name: (value,) * repetitions for name, value in values.items()}
        source = random.Random(f"{job.benchmark.id} {job.copies} {job.iterations}")
        return {
            name: tuple(value + (source.randint(1, noise) if source.random() < 0.1 else 0) for _ in range(repetitions))
            for name, value in values.items()
        }


def _copies(job: Job, shape: Layout) -> Copies:
    """Say where the copies are."""
    return Copies(shape.body_offset, len(job.benchmark.body_code), job.copies)


def open_machine(architecture: str | None) -> MachineModel:
    """Return the machine of a name: a shipped model, with `:separate` counters if so named, or `random:SEED`.

    Raises:
        UnknownNameError: there is no machine of that name.
    """
    hint = f"--arch is one of {', '.join(names())}, or random:SEED"
    if not architecture:
        raise UnknownNameError("the sim backend simulates the machine that --arch names", hint=hint)
    kind, _, seed = architecture.partition(":")
    if kind == "random":
        if not seed.isdecimal():
            raise UnknownNameError(f"{architecture!r}: the seed is not a number", hint=hint)
        return RandomMachine(int(seed)).model()
    base = architecture.removesuffix(SEPARATE)
    known = {name.lower(): name for name in names()}
    if base.lower() not in known:
        raise UnknownNameError.of("simulated machine", architecture, [*names(), "random:SEED"])
    return MachineModel.load(known[base.lower()], shared_counters=base == architecture)


def create(cpu: int | None = None, architecture: str | None = None) -> SimBackend:
    """Make the backend (see `runner.backends.registry`); no CPU is used, whichever is named.

    Raises:
        BackendError: no such machine, or no catalogue to decode with.
    """
    del cpu
    try:
        catalogue = Catalogue.load()
        return SimBackend(open_machine(architecture), catalogue)
    except BackendError:
        raise
    except UopscopeError as error:
        raise BackendError(error.message, hint=error.hint or "`uopscope convert` makes a catalogue") from error
