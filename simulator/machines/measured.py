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
    cpus = ", ".join(dict.fromkeys(one.cpu for one in file.provenances if one.cpu))
    text = f"measurements of {file.architecture} in {file.source}{f' ({cpus})' if cpus else ''}"
    made = MachineModel(file.architecture, parameters, Origin(text, "as the file's"), file.behaviour, HARNESS)
    made.shortest = lambda: machine_of(file.with_shortest_latencies())
    return made
