"""Simulated cores, made from LLVM's models or an instructions.xml, and machines drawn at random: no CPU is measured."""

from __future__ import annotations

import datetime as dt
import functools
from collections import Counter
from typing import TYPE_CHECKING

from generator.harness.harness import MAX_COUNTERS, BlobLayout, CounterReader, layout, render
from generator.harness.style import State
from results.machine.file import read_machine
from results.machine.graph import ModelError
from results.model import Provenance, Status
from results.version import version
from runner.backend import HIDDEN, BackendError, BackendInfo, Job, JobResult, Repeat, UnknownNameError
from runner.uarch.tables import all_microarchitectures, is_port_counter
from simulator.core.pmu import Simulator
from simulator.core.runs import STATIC
from simulator.core.trace import Copies
from simulator.errors import SimulatedFaultError, SimulatedHangError
from simulator.machines.bypass import EACH_WAY
from simulator.machines.late_rules import late_rules
from simulator.machines.machine import Binding, MachineModel
from simulator.machines.measured import machine_of
from simulator.machines.noise import EXACT, CounterNoise
from simulator.machines.random_machine import RandomMachine
from simulator.machines.random_shape import KINDS
from simulator.machines.shipped import load_machine, names
from simulator.machines.units import unit_counters
from simulator.memory.parameters import TYPICAL
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder
from xed_convert.errors import UopscopeError
from xed_convert.numbers import MOST_DIGITS, decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runner.backend import Conditions
    from runner.uarch.tables import Microarchitecture
    from simulator.core.pmu import Readings
    from simulator.machines.machine import Parameters
    from xed_convert.model import InstructionVariant

CAVEAT = "a simulated core: every number is the model's, nothing is measured"
OPTIONS: dict[str, tuple[str, Callable[[], object]]] = {
    "separate": ("shared_counters", tuple),
    "memory": ("memory", lambda: TYPICAL),
    "bypass": ("bypass", lambda: EACH_WAY),
    "producer": ("late_rules", late_rules),
    "job1": ("noise", lambda: CounterNoise(job_percent=1)),
    "job2": ("noise", lambda: CounterNoise(job_percent=2)),
    **{
        rule.value: ("binding", functools.partial(Binding, rule.value))
        for rule in Binding
        if rule is not Binding.FEWEST_WAITING
    },
}
"""Words after the name of a model.

`SKX:separate`: every port has a counter of its own. `SKX:memory`: it has caches and a store buffer. `SKX:bypass`:
vectors take a cycle more from integers to floating-point numbers and back. `SKX:producer`: some instructions take
longer behind some producers. The others name a rule that binds µops to ports, or noise: all counts of a run are off
by up to 1% or 2%. Each has the parameter that it sets, and how to make the value."""

HIDDEN_CAVEAT = "its counters are hidden: only time is read"

MOST_KNOWN = 4096
"""Jobs whose counts are kept, because noisy ones are repeated: those of a few batches, 2 MB."""

_STATUS = {SimulatedFaultError: Status.FAULTED, SimulatedHangError: Status.TIMED_OUT, ModelError: Status.REFUSED}


class SimBackend:
    """Renders blobs and has them executed by a simulator."""

    name = "sim"

    def __init__(
        self,
        machine: MachineModel,
        catalogue: Catalogue,
        *,
        hide_counters: bool = False,
        table: Microarchitecture | None = None,
    ) -> None:
        """Simulate a machine.

        Args:
            machine: its model.
            catalogue: decodes the bytes of blobs.
            hide_counters: leave nothing to be read but core cycles, as on a CPU without a PMU.
            table: have the counters of this microarchitecture, as far as a simulated core can count them
                (None: one for each port, or for each group of ports).
        """
        self._machine = machine if table is None else machine.with_parameters(by_task=True)
        self._simulator = Simulator(self._machine, Decoder(catalogue))
        self._hidden, self._table = hide_counters, table
        self._kind = table.port_kind if table is not None else ""
        self._cells = _cells(self._machine.parameters, table)
        usual: tuple[str, ...] = (*STATIC, "uops_executed", "divider_active")
        if table is not None:
            usual = tuple(name for name in usual if name in table.counters)
        self._ports = () if hide_counters else tuple(name for name in self._cells if is_port_counter(name))
        units = tuple(name for name in self._cells if not is_port_counter(name))
        self._jobs = 0
        self._turns: Counter[str] = Counter()
        self._known: dict[tuple[str, bool, Conditions, tuple[str, ...]], dict[str, int]] = {}
        self._counters = ("core_cycles", *(() if hide_counters else (*usual, *self._ports, *units)))

    @property
    def machine(self) -> MachineModel:
        """The simulated machine, for tests that know the truth."""
        return self._machine

    def info(self) -> BackendInfo:
        """Say which counters the simulated machine has, and that it is a model."""
        origin = self._machine.origin
        hidden: tuple[str, ...] = (HIDDEN_CAVEAT,) if self._hidden else ()
        hidden += (f"its counters are those that {self._table.title} has",) if self._table is not None else ()
        caveats = (CAVEAT, f"{self._machine.name}: {origin.text} ({origin.licence})", *hidden)
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
            self.name,
            provenance,
            self._counters,
            self._ports,
            caveats,
            is_model=True,
            supports_privileged=True,
            has_memory=self._machine.parameters.memory is not None,
            port_kind=self._kind,
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
        return "" if has else f"the model of {self._machine.name} does not have it"

    def close(self) -> None:
        """Nothing is held."""

    def _run_one(self, job: Job, wanted: Sequence[str], repeat: Repeat) -> JobResult:
        if job.conditions.state is not State.ZERO:
            return JobResult(Status.REFUSED, {}, "a simulated machine does not map memory on demand")
        name = f"{job.benchmark.id} {job.copies} {job.iterations}"
        try:
            values = self._exactly(name, job, wanted)
        except (SimulatedFaultError, SimulatedHangError, ModelError) as error:
            return JobResult(_STATUS[type(error)], {}, error.message)
        self._jobs += 1
        noise, turn = self._machine.parameters.noise, self._turns[name]
        if noise != EXACT:
            self._turns[name] += 1
        return JobResult(Status.OK, noise.samples(name, values, repeat.repetitions, self._jobs, turn))

    def _exactly(self, name: str, job: Job, wanted: Sequence[str]) -> dict[str, int]:
        """Return what exact counters would say; what was simulated shortly before is not simulated again."""
        key = name, job.fenced, job.conditions, tuple(wanted)
        values = self._known.get(key)
        if values is None:
            values = {}
            for start in range(0, max(1, len(wanted)), MAX_COUNTERS):
                values |= self._measure(job, wanted[start : start + MAX_COUNTERS])
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = values
        return values

    def _measure(self, job: Job, wanted: Sequence[str]) -> dict[str, int]:
        """Run one blob that reads these counters; a counter's RDPMC index is its place among them."""
        reader = CounterReader(tuple(range(len(wanted))))
        style = job.style(clean_uppers=False)
        arguments = (job.benchmark, job.copies, job.iterations, reader, style)
        blob, shape = render(*arguments), layout(*arguments)
        readings = self._simulator.run(blob, _copies(job, shape))
        return {name: self._value(name, index, readings) for index, name in enumerate(wanted)}

    def _value(self, name: str, index: int, readings: Readings) -> int:
        if name in self._cells:
            return sum(readings.difference(index, cell) for cell in self._cells[name])
        return readings.difference(index, name)


def _cells(parameters: Parameters, table: Microarchitecture | None) -> dict[str, tuple[str, ...]]:
    """Return the counters of µops by port or unit, and the simulated events that each sums up."""
    if table is None:
        return {f"p{group}": tuple(f"p{port}" for port in group) for group in parameters.port_groups}
    return {
        one.name: tuple(f"{task.name} p{port}" for task in sorted(one.tasks) for port in one.ports(parameters))
        for one in unit_counters(table.name)
    }


def _copies(job: Job, shape: BlobLayout) -> Copies:
    """Say where the copies are; reads of counters at marks make their bodies longer, so those are none."""
    if job.benchmark.has_marks:
        return Copies(shape.body_end, 0, 0)
    return Copies(shape.body_offset, len(job.benchmark.body_code), job.copies)


def open_machine(architecture: str | None) -> MachineModel:
    """Return the machine of a name: `random:SEED`, `random:KIND:SEED`, or a shipped model, with `OPTIONS` if named.

    Raises:
        UnknownNameError: there is no machine of that name.
    """
    hint = f"--arch is one of {', '.join(names())}, or random:SEED"
    if not architecture:
        raise UnknownNameError("the sim backend simulates the machine that --arch names", hint=hint)
    base, *options = architecture.split(":")
    if base == "random":
        return _open_random(architecture, options, hint)
    known = {name.lower(): name for name in names()}
    if base.lower() not in known or not set(options) <= set(OPTIONS):
        offered = [*names(), *(f"{known.get(base.lower(), 'HSW')}:{option}" for option in OPTIONS), "random:SEED"]
        raise UnknownNameError.of("simulated machine", architecture, offered)
    _refuse_contradictions(architecture, options)
    return _with_options(load_machine(known[base.lower()]), options)


def _refuse_contradictions(architecture: str, options: Sequence[str]) -> None:
    """Raise `UnknownNameError` if two options set the same parameter of a machine."""
    by_parameter: dict[str, str] = {}
    for option in options:
        other = by_parameter.setdefault(OPTIONS[option][0], option)
        if other != option:
            raise UnknownNameError(
                f"{architecture!r}: {other} and {option} contradict each other", hint="name one of them"
            )


def _with_options(machine: MachineModel, options: Sequence[str]) -> MachineModel:
    """Return a machine with what some options say."""
    return machine.with_parameters(**{name: make() for name, make in (OPTIONS[option] for option in options)})


def _open_random(architecture: str, options: Sequence[str], hint: str) -> MachineModel:
    """Return a random machine: the options are its kind, if any, and its seed."""
    *kinds, text = options or [""]
    seed = decimal(text)
    if seed is None:
        raise UnknownNameError(
            f"{architecture!r}: the seed is not a whole number of {MOST_DIGITS} digits at most", hint=hint
        )
    kind = ":".join(kinds)
    if kinds and not set(kind.split("+")) <= set(KINDS):
        raise UnknownNameError.of("simulated machine", architecture, [f"random:{one}:{text}" for one in KINDS])
    return RandomMachine(seed, kind=kind).model()


def _without_table(architecture: str) -> tuple[str, Microarchitecture | None]:
    """Return the name of a machine without the name of a table of counters at its end (`SKX:LNL-P`), and the table."""
    base, _, last = architecture.rpartition(":")
    table = next((one for name, one in all_microarchitectures().items() if name.lower() == last.lower()), None)
    if not base or table is None or not unit_counters(table.name):
        return architecture, None
    return base, table


def _without_hiding(architecture: str | None) -> tuple[str, bool]:
    """Return the name of a machine without `HIDDEN`, and whether it ended with that."""
    name = architecture or ""
    return name.removesuffix(HIDDEN), name.endswith(HIDDEN)


def create_from(model: Path, architecture: str | None = None) -> SimBackend:
    """Make a backend that simulates the machine that an instructions.xml describes.

    Args:
        model: the file.
        architecture: which one of the file ("HSW", "HSW:intel"; None: the only one).

    Raises:
        WrongModelError: the file cannot be read, or has no such machine.
        UnknownNameError: the option is not known.
    """
    name, hidden = _without_hiding(architecture)
    name, table = _without_table(name)
    base, *options = name.split(":")
    try:
        machine = machine_of(read_machine(model, base))
        for option in options:
            if option not in OPTIONS:
                raise UnknownNameError.of("option", option, OPTIONS)
        _refuse_contradictions(name, options)
        machine = _with_options(machine, options)
        return SimBackend(machine, Catalogue.load(), hide_counters=hidden, table=table)
    except BackendError:
        raise
    except UopscopeError as error:
        raise WrongModelError(error.message, hint=error.hint) from error


class WrongModelError(BackendError):
    """A file that describes no machine, or not that one: the input is wrong, not this computer."""

    exit_code = 2


def create(cpu: int | None = None, architecture: str | None = None) -> SimBackend:
    """Make the backend (see `runner.backends.registry`); no CPU is used, whichever is named.

    Raises:
        BackendError: no such machine, or no catalogue to decode with.
    """
    del cpu
    try:
        catalogue = Catalogue.load()
        name, hidden = _without_hiding(architecture)
        name, table = _without_table(name)
        return SimBackend(open_machine(name), catalogue, hide_counters=hidden, table=table)
    except BackendError:
        raise
    except UopscopeError as error:
        raise BackendError(error.message, hint=error.hint or "`uopscope convert` makes a catalogue") from error
