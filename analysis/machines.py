"""The machine that code is analyzed on: from a file of measurements, from shipped ones, or a shipped model.

Without a file, what was measured of a CPU of that name and is shipped comes first. Else there may be a model of LLVM's
(`simulator/models/`): it says nothing of the front end, so the constants of the core and the usual rules of decoding
stand in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.errors import AnalysisError
from results.machine.constants import core_of
from results.machine.file import read_machine
from results.shipped import shipped_campaigns, shipped_database
from simulator.machines import shipped
from simulator.machines.measured import machine_of

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.machines.machine import MachineModel


def open_machine(architecture: str = "", data: Path | None = None) -> MachineModel:
    """Return a machine by name, out of a file if there is one ("": the only one of the file).

    Raises:
        DatabaseError: the file cannot be read.
        ModelError: the file has no measurements of that name, or its core is not known.
        AnalysisError: without a file: nothing of that name is shipped, or no name is given.
    """
    if data is not None:
        return machine_of(read_machine(data, architecture))
    measured = shipped_measurements()
    name = architecture.upper()
    if not name:
        raise AnalysisError("no CPU is named", hint=f"--arch NAME: {', '.join(known())}; or --data FILE")
    if name in measured:
        return machine_of(read_machine(shipped_database(), name))
    if name in shipped.names():
        machine = shipped.load_machine(name)
        return machine.with_parameters(front=core_of(name))
    raise AnalysisError(
        f"nothing is shipped about a CPU {architecture!r}",
        hint=f"--arch: {', '.join(known())}; or --data FILE, an instructions.xml",
    )


def known() -> list[str]:
    """Return the names of which something is shipped."""
    return list(dict.fromkeys([*shipped_measurements(), *shipped.names()]))


def shipped_measurements() -> list[str]:
    """Return the names of the CPUs whose measurements are shipped."""
    return [path.name.split(".")[1] for path in shipped_campaigns()]
