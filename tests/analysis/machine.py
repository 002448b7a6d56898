"""The machines that tests analyze code for: a Haswell, of a sample of uops.info's measurements, and shipped ones."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from analysis.block.reader import CodeReader
from analysis.bounds.components import Analyzer, Bounds, Running
from analysis.machines import open_machine
from results.machine.file import read_machine
from simulator.machines.measured import machine_of
from tests.shared import measured_haswell
from xed_convert.assembly.assembler import assemble, shipped_assembler
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from analysis.block.code import Block
    from simulator.machines.machine import MachineModel


@cache
def shipped_machine(architecture: str) -> MachineModel:
    """Return a machine that is shipped: one that was measured takes seconds to read."""
    return open_machine(architecture)


@cache
def haswell() -> MachineModel:
    return machine_of(read_machine(measured_haswell()))


@cache
def reader() -> CodeReader:
    try:
        return CodeReader(haswell(), shipped_assembler().decoder)
    except UopscopeError as error:
        pytest.skip(str(error))


def block(text: str) -> Block:
    return reader().block(assemble(text))


def bounds(text: str, running: Running = Running.AUTO) -> Bounds:
    return Analyzer(haswell()).bounds(block(text), running)
