"""How fast machines are simulated: `python -m benchmarks.speed.simulation [MACHINE ...]`.

Each machine (default: SNB, HSW, SKX, SPR) runs the same microbenchmarks, with 10 and with 110 copies: one instruction
beside blocking instructions. They go through the whole backend `sim` (rendering, decoding, simulation). The table goes
to standard output as TSV, first with every microbenchmark simulated, then with equal streams simulated once
(`simulator.core.streams`). Simulated µops are those of all copies: a core without shortcuts would have to step through
them. Stepped µops are those that the core takes one by one, because there is no period to be found.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import Job, Repeat
from runner.backends.sim import SimBackend, open_machine
from simulator.core.compiler import compile_instruction
from simulator.core.core import Core
from simulator.core.pmu import Simulator
from simulator.core.steps import Numbering, steps_of
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.encoder import encode
from xed_convert.errors import EncodingError
from xed_convert.model import Instance, OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.machines.machine import MachineModel
    from xed_convert.model import Operand, OperandValue

MACHINES = ("SNB", "HSW", "SKX", "SPR")
ONCE = Repeat(warm_ups=0, repetitions=1)
BLOCKERS = 16
BENCHMARKS = 1000


def instances(catalogue: Catalogue, machine: MachineModel) -> Iterator[tuple[Instance, Line]]:
    """Yield one instance of each variant of the machine that has nothing but registers and immediates."""
    for variant in catalogue:
        operands = [operand for operand in variant.operands if operand.explicit]
        plain = all(operand.kind in (OperandKind.REGISTER, OperandKind.IMMEDIATE) for operand in operands)
        if plain and operands and variant.cpl == 3 and machine.behaviour(variant) is not None:
            instance = Instance(variant, {operand.index: _value(operand, n) for n, operand in enumerate(operands)})
            with suppress(EncodingError):
                yield instance, Line(encode(variant, instance.values), variant.string)


def _value(operand: Operand, number: int) -> OperandValue:
    if operand.registers:
        return operand.registers[min(number + 1, len(operand.registers) - 1)]
    return int(operand.value or "5", 0)


def microbenchmarks(lines: list[Line]) -> list[Microbenchmark]:
    """Return different microbenchmarks, each of one instruction beside others of the machine."""
    blockers = tuple(lines[:: max(1, len(lines) // BLOCKERS)][:BLOCKERS])
    every = max(1, len(lines) // BENCHMARKS)
    return [Microbenchmark((), (*blockers, line), "speed") for line in lines[::every][:BENCHMARKS]]


def stepped_per_second(known: list[Instance], machine: MachineModel) -> float:
    """Return how many µops per second the core takes one by one."""
    numbering = Numbering()
    steps = steps_of([compile_instruction(one.variant, one.values, machine) for one in known], numbering)
    core = Core(machine.parameters, len(numbering))
    started, rounds = time.process_time(), 100
    for _ in range(rounds):
        core.advance(steps)
    return rounds * len(steps) / (time.process_time() - started)


def measure(name: str, catalogue: Catalogue, remembered: int) -> str:
    """Return the row of one machine that remembers a number of streams."""
    Simulator.REMEMBERED_STREAMS = remembered
    backend = SimBackend(open_machine(name), catalogue)
    known = list(instances(catalogue, backend.machine))
    codes = microbenchmarks([line for _, line in known])
    counters = backend.info().counters
    backend.run([Job(codes[0], 10)], counters, ONCE)
    batch = [Job(code, copies) for code in codes for copies in (10, 110)]
    started = time.process_time()
    results = backend.run(batch, counters, ONCE)
    seconds = time.process_time() - started
    uops = sum(result.samples["uops_executed"][0] for result in results if result.status is Status.OK)
    done = sum(result.status is Status.OK for result in results) // 2
    stepped = stepped_per_second([instance for instance, _ in known[:200]], backend.machine)
    each = 1000 * seconds / len(codes)
    return f"{name}\t{remembered}\t{done}\t{seconds:.2f}\t{each:.2f}\t{uops / seconds:.0f}\t{stepped:.0f}"


def main() -> None:
    """Print the table."""
    catalogue = Catalogue.load()
    print("machine\tremembered\tmicrobenchmarks\tseconds\tms_each\tsimulated_uops_per_second\tstepped_uops_per_second")
    usual = Simulator.REMEMBERED_STREAMS
    for name in sys.argv[1:] or MACHINES:
        for remembered in (0, usual):
            print(measure(name, catalogue, remembered), flush=True)


if __name__ == "__main__":
    main()
