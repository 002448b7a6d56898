"""Simulated machines made from measurements: an instructions.xml, and the constants of the microarchitecture.

The machine executes instructions as the file describes them, so its characterization must give the file back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.machines.machine import MachineModel, Origin, Parameters

if TYPE_CHECKING:
    from results.machine.file import MachineFile


HARNESS = frozenset(
    {"FLDCW", "FNINIT", "FNSTCW", "LDMXCSR", "LFENCE", "RDPMC", "RDTSC", "RDTSCP", "STMXCSR", "SYSCALL"}
)
"""Instructions around the code under test; files of measurements may lack them."""


def machine_of(file: MachineFile) -> MachineModel:
    """Return the machine that a file describes.

    Ports that form no address with an index follow from the file (`Behaviour.indexed`), not from a parameter.
    """
    front = file.core if file.core.front_end is not None else None
    parameters = replace(Parameters.of(file.core), no_index="", front=front)
    made = MachineModel(file.architecture, parameters, Origin(_origin(file), "as the file's"), file.behaviour, HARNESS)
    made.shortest = lambda: machine_of(file.with_shortest_latencies())
    return made


def _origin(file: MachineFile) -> str:
    """Say what a file holds, of which CPU, and by which backend: measurements, or what a simulated machine did."""
    known = [", ".join(filter(None, (one.cpu, f"backend {one.backend}"))) for one in file.provenances if one.cpu]
    cpus = "; ".join(dict.fromkeys(known))
    models = [one.is_model for one in file.provenances]
    kinds = {False: "measurements", True: "simulations (a model, not a CPU)"}
    what = " and ".join(kinds[one] for one in sorted(set(models))) or kinds[False]
    return f"{what} of {file.architecture} in {file.source}{f' ({cpus})' if cpus else ''}"
