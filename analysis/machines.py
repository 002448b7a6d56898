"""The machine that code is analyzed on: from a file of measurements, from shipped measurements, or a shipped model.

Without a file, shipped measurements of a CPU of that name come first. Next is its model (`simulator/models/`, LLVM's),
or that of a CPU with a like core. Where measurements by time alone lack ports of an instruction, the model stands in,
too (`with_model`).

LLVM's models lack the front end, micro-fusion, the stack engine and store forwarding. The constants of the core and
the usual rules of decoding stand in (`completed`). Their placeholders are left out.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.errors import AnalysisError
from results.machine.build import fused_uops
from results.machine.constants import core_names, core_of
from results.machine.file import read_machine, read_machines
from results.machine.graph import Endpoint, KnownShare, Uop, UopKind, uses_vectors
from results.machine.kept import kept_register
from results.machine.occupied import is_beyond
from results.model import LatencyPart, is_by_time
from results.ports import throughput_of
from results.shipped import shipped_campaigns, shipped_database
from simulator.machines import shipped
from simulator.machines.machine import MachineModel, Parameters
from simulator.machines.measured import machine_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from results.machine.constants import CoreConstants
    from results.machine.file import MachineFile
    from results.machine.graph import Behaviour
    from xed_convert.model import InstructionVariant


CLOCK = "tsc"
"""The backend that sees no port counters."""

UNTRACKED = frozenset({"ENDBR32", "ENDBR64"})
"""Mnemonics that do nothing where indirect branches are not tracked (Intel SDM volume 2A, ENDBR64)."""


def open_machine(architecture: str = "", data: Path | None = None) -> MachineModel:
    """Return the machine of a name to analyze code on, from a file if one is given ("": the only one in the file).

    Raises:
        DatabaseError: the file cannot be read.
        ModelError: the file has no measurements of that name, or its core is not known.
        AnalysisError: there is no file, and nothing of that name is shipped or no name is given.
    """
    return open_machines([architecture], data)[0]


def open_machines(names: Sequence[str], data: Path | None = None) -> list[MachineModel]:
    """Return machines as `open_machine` does; a campaign is read once for all of them."""
    if data is None:
        machines = [_shipped(name) for name in names]
    else:
        machines = [_measured(one) for one in read_machines(data, names)]
    return [one.with_stand_ins(UNTRACKED) for one in machines]


def model_of(name: str, measured: CoreConstants | None = None) -> MachineModel | None:
    """Return the shipped model for a CPU, completed, under the name of that CPU (None: there is none).

    `measured` is the core of a machine that was measured, which this one shall stand beside.
    """
    model = shipped.model_for(name)
    if model is None:
        return None
    machine = shipped.load_machine(model, placeholders=False)
    return completed(machine, measured or core_of(name), beside_measured=measured is not None).called(name)


def _measured(file: MachineFile) -> MachineModel:
    """Return the machine of a file; where it was measured by time alone, with ports of the CPU's model."""
    machine = machine_of(file)
    by_clock = any(one.backend == CLOCK for one in file.provenances)
    if not by_clock or any(map(is_by_time, file.core.ports.resources)):
        return machine
    model = model_of(file.architecture, file.core)
    return with_model(machine, model) if model is not None else machine


def with_model(measured: MachineModel, model: MachineModel) -> MachineModel:
    """Return a machine that takes a model's word for instructions of which measurements lack some ports.

    Its latencies and issue slots count then, too. Not where its ports do not explain a measured throughput of a cycle
    and more. The ports of both have the same names.
    """
    width = measured.parameters.issue_width

    def lookup(variant: InstructionVariant) -> Behaviour | None:
        own = measured.behaviour(variant)
        if own is None or own.knowledge.ports is KnownShare.ALL:
            return own
        other = model.behaviour(variant)
        if other is None or is_beyond(own.occupies, max(throughput_of(other.port_usage), Fraction(other.slots, width))):
            return own
        return replace(other, knowledge=replace(other.knowledge, modelled=model.origin.text))

    made = MachineModel(measured.name, measured.parameters, measured.origin, lookup, measured.stand_ins)
    return made.with_shortest_of(measured, lambda one: with_model(one, model))


def _shipped(architecture: str) -> MachineModel:
    measured = shipped_measurements()
    name = architecture.upper()
    if not name:
        raise AnalysisError("no CPU is named", hint=f"--arch NAME: {', '.join(known())}; or --data FILE")
    if name in measured:
        return _measured(read_machine(shipped_database(), name))
    model = model_of(name)
    if model is not None:
        return model
    raise AnalysisError(
        f"nothing is shipped about a CPU {architecture!r}",
        hint=f"--arch: {', '.join(known())}; with the model of a like core {', '.join(with_like_cores())}; "
        "or --data FILE, an instructions.xml or a campaign",
    )


def completed(machine: MachineModel, core: CoreConstants, *, beside_measured: bool = False) -> MachineModel:
    """Return a machine with the front end of a core, and with what models leave out.

    - Loads are micro-fused with the computations that use them, and store addresses with the data. Such a pair takes
      one slot in the front end, at issue and in the reorder buffer (Intel's Optimization Reference Manual, section on
      micro-fusion). No model says which indexed pairs are unlaminated, so none are.
    - PUSH, POP, CALL and RET move RSP at rename, without a port (the same manual, section on the stack pointer
      tracker).
    - Store forwarding takes as long as the core's constants say. The model's latency of a store does not count: LLVM
      uses it for nothing else, so it may be anything. Where the core renames loads, the time between store and load is
      apart from both (`memory_apart`). So it is where a load of a general-purpose register gets stored data sooner than
      those of the cache. With `beside_measured` the store has the way through memory but for a cycle, as in machines
      that were measured (`results/machine/latencies.py`).
    - A result in a part of a vector register waits for the rest of it (`kept_register`).
    """

    def changed(behaviour: Behaviour, moved: frozenset[int], stored: int, loaded: int | None) -> Behaviour:
        def changed_uop(uop: Uop) -> Uop:
            if uop.kind is UopKind.STORE_DATA:
                return replace(uop, latency=stored)
            return replace(uop, ports=frozenset(), latency=0) if _only_moves(uop, moved) else uop

        same = behaviour.same_register
        uops = tuple(map(changed_uop, behaviour.uops))
        uops = uops if loaded is None else memory_apart(uops, loaded)
        return replace(
            behaviour,
            uops=uops,
            slots=max(1, max(0, behaviour.slots - behaviour.port_usage.total) + fused_uops(uops)),
            same_register=changed(same, moved, stored, loaded) if same is not None else None,
        )

    def lookup(variant: InstructionVariant) -> Behaviour | None:
        behaviour = machine.behaviour(variant)
        if behaviour is None:
            return None
        moved = frozenset(o.index for o in variant.operands if o.suppressed and o.registers == ("RSP",))
        way = _way_through_memory(core, of_vectors=uses_vectors(variant), beside_measured=beside_measured)
        return with_kept_register(variant, changed(behaviour, moved, *way))

    parameters = replace(machine.parameters, front=core, elimination=Parameters.of(core).elimination)
    return MachineModel(machine.name, parameters, machine.origin, lookup, machine.stand_ins)


def _way_through_memory(core: CoreConstants, *, of_vectors: bool, beside_measured: bool) -> tuple[int, int | None]:
    """Return the cycles of a store's data, and those of a loaded value after it (None: loads stay whole)."""
    forwarding, loaded = core.memory.forwarding, core.memory.load_latency[0]
    if core.memory_renaming is not None:
        return 0, 0
    if beside_measured:
        return max(core.memory.stated[of_vectors], core.memory.waited[of_vectors]), 1
    if forwarding >= loaded:
        return forwarding - loaded, None
    return 0, None if of_vectors else forwarding


def with_kept_register(variant: InstructionVariant, behaviour: Behaviour) -> Behaviour:
    """Return what a variant does if the µop that writes a part of a register reads the register, too."""
    index = kept_register(variant)
    if index is None:
        return behaviour
    kept = Endpoint(index)
    uops = tuple(
        replace(uop, inputs=(kept, *uop.inputs)) if kept in uop.outputs and kept not in uop.inputs else uop
        for uop in behaviour.uops
    )
    return replace(behaviour, uops=uops)


def memory_apart(uops: Sequence[Uop], cycles: int = 0) -> tuple[Uop, ...]:
    """Return µops with each load in two: the access, which waits for the address, and the value, which does not.

    The value is there so many `cycles` after it was stored.
    """
    found: list[Uop] = []
    places: dict[int, tuple[int, ...]] = {}  # by position before: the µops that stand for it now
    for number, uop in enumerate(uops):
        results = tuple(new for one in uop.inputs if isinstance(one, int) for new in places[one])
        loaded = tuple(one for one in uop.inputs if isinstance(one, Endpoint) and one.part is LatencyPart.MEMORY)
        is_apart = uop.kind is UopKind.LOAD and bool(loaded)
        others = tuple(one for one in uop.inputs if isinstance(one, Endpoint) and not (is_apart and one in loaded))
        places[number] = (len(found),)
        found.append(replace(uop, inputs=(*others, *results)))
        if is_apart:
            places[number] = (len(found) - 1, len(found))
            found.append(Uop(frozenset(), cycles, loaded, uop.outputs))
    return tuple(found)


def _only_moves(uop: Uop, operands: frozenset[int]) -> bool:
    """Whether a µop does nothing but change some operands."""
    return uop.kind is UopKind.COMPUTE and bool(uop.outputs) and {one.operand for one in uop.outputs} <= operands


def known() -> list[str]:
    """Return the names of all CPUs of which measurements or a model are shipped."""
    return list(dict.fromkeys([*shipped_measurements(), *shipped.names()]))


def with_like_cores() -> list[str]:
    """Return the other names of CPUs that have the model of a like core."""
    there = known()
    names = (name for core in core_names() for name in (core, *core_of(core).also))
    return [name for name in names if name not in there and shipped.model_for(name) is not None]


def is_known(name: str) -> bool:
    """Whether something is shipped for a CPU: measurements, or a model of it or of its core."""
    return name in shipped_measurements() or shipped.model_for(name) is not None


def shipped_measurements() -> list[str]:
    """Return the names of the CPUs whose measurements are shipped."""
    return [path.name.split(".")[1] for path in shipped_campaigns()]
