"""Loads and stores of a simulated machine with caches and a store buffer; what is concluded there is its truth."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from generator.memory.accesses import File, accesses_of
from generator.memory.forwarding import ForwardingCase, begin, cells
from inference.memory.forwarding import measure_forwarding
from results.memory.model import LineCrossing
from results.model import Status
from runner.backend import Job
from runner.backends.sim import SimBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session
from runner.memory import WantedMemory, measure_memory
from simulator.machines.shipped import load_machine
from simulator.memory.parameters import TYPICAL, CacheLevel, ForwardingParameters, MemoryParameters
from tests.nonempty import some
from tests.simulator.programs import ONCE, benchmark, catalogue, line
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from generator.microbenchmark import Line

FILES = [(store, load) for store in ("general", "vector") for load in ("general", "vector")]
MACHINES = {
    "typical": TYPICAL.forwarding,
    "renaming": ForwardingParameters(
        dict(zip(FILES, (6, 8, 7, 9), strict=True)), dict(zip(FILES, (19, 21, 20, 22), strict=True)), frozenset({4, 8})
    ),
    "slow": ForwardingParameters(dict.fromkeys(FILES, 11), dict.fromkeys(FILES, 40), across_pages=False),
}


def machine(memory: MemoryParameters, name: str = "SKX") -> SimBackend:
    return SimBackend(load_machine(name).with_parameters(memory=memory), catalogue())


def expected(rules: ForwardingParameters, cell: ForwardingCase, page_offset: int) -> tuple[int, str]:
    """Return cycles and outcome by the rules as they are documented."""
    files = (cell.store.file.value, cell.load.file.value)
    in_two_pages = page_offset + cell.store.size_bytes > 4096
    if not cell.contained or (in_two_pages and not rules.across_pages):
        return rules.failed[files], "failed"
    general = files == (File.GENERAL.value, File.GENERAL.value)
    same = cell.offset_bytes == 0 and cell.store.size_bytes == cell.load.size_bytes
    if same and general and cell.store.size_bytes in rules.renamed_bytes:
        return 0, "renamed"
    return rules.forwarded[files], "forwarded"


@pytest.mark.parametrize("name", MACHINES)
def test_the_matrix_of_a_simulated_machine_is_its_rules(name: str) -> None:
    rules = MACHINES[name]
    assert rules is not None
    backend = machine(MemoryParameters(rules))
    instructions = InstructionFactory(catalogue())
    # LLVM's model has a further µop in loads of 64 bytes, which comes on top of the machine's rules
    known = [one for one in accesses_of(instructions, backend.lacks) if one.size_bytes < 64]
    every = list(cells(known))
    numbers = range(len(every))
    sure = [number for number in numbers if not every[number].offset_bytes and every[number].place is LineCrossing.LINE]
    chosen = [every[number] for number in sorted({*numbers[7::199], *sure})]
    session = Session(Measurer(backend), limits=Limits(keep_raw=False))
    found, problems = session.run_one(measure_forwarding(instructions, chosen))
    assert problems == ()
    for cell in some(chosen, 200):
        row = found.row(cell.store.name, cell.load.name, cell.place, cell.addressing)
        assert row is not None
        cycles, outcome = expected(rules, cell, begin(cell) or 0)
        measured = row.at(cell.offset_bytes)
        assert measured is not None
        assert measured[1] == outcome, cell
        # Of a way between two files only the sum there and back is known: 3 cycles, of which each counts as half
        unsure = Fraction(0) if cell.store.file is cell.load.file else Fraction(1, 2)
        assert measured[0] is not None
        assert abs(measured[0] - cycles) == unsure, cell


def test_a_machine_without_memory_is_refused_and_one_with_it_is_a_model() -> None:
    report = measure_memory(
        machine(TYPICAL), catalogue(), WantedMemory(names=("r8", "r64"), places=(LineCrossing.LINE,))
    )
    assert report.provenance.is_model
    assert report.forwarding is not None
    assert report.forwarding.penalty() == 10
    assert not SimBackend(load_machine("SKX"), catalogue()).info().has_memory


def load(offset: int, index: str = "RAX") -> Line:
    return line("MOV (R64, M64)", "RAX", MemoryAddress("R14", index, 1, offset))


def cycles(backend: SimBackend, *body: Line, copies: int = 40, setup: tuple[Line, ...] = ()) -> float:
    """Return core cycles per copy, of so many further copies."""
    found = []
    for count in (copies, 2 * copies):
        (result,) = backend.run([Job(benchmark(*body, setup=setup), count)], ("core_cycles",), ONCE)
        assert result.status is Status.OK, result.detail
        found.append(result.samples["core_cycles"][0])
    return (found[1] - found[0]) / copies


ZERO = line("XOR_31 (R32, R32)", "EAX", "EAX")
LEVELS = (CacheLevel(1024, 4, 0), CacheLevel(8192, 8, 11))


def zeros(lines: int, step: int) -> tuple[Line, ...]:
    """Return stores of zero, so that loaded values can be parts of addresses."""
    return tuple(line("MOV (M64, R64)", MemoryAddress("R14", displacement=step * n), "RAX") for n in range(lines))


@pytest.mark.parametrize(
    ("lines", "step", "extra"),
    [
        (4, 256, 0),  # one set of the first level is just full
        (5, 256, 11),  # one more, and with LRU all of them miss
        (16, 64, 0),  # the first level is just full
        (32, 64, 11),  # the second level has all of them
        (9, 1024, 90),  # a set of the second level is too small, too
    ],
)
def test_a_chain_of_loads_takes_what_its_level_takes(lines: int, step: int, extra: int) -> None:
    backend = machine(MemoryParameters(caches=LEVELS, memory_cycles=90))
    body = [load(step * number) for number in range(lines)]
    setup = (ZERO, *zeros(lines, step))
    base = cycles(machine(MemoryParameters()), *body, setup=setup)
    assert base == 5 * lines  # LLVM 19's latency of a load with an index
    assert cycles(backend, *body, setup=setup) == (5 + extra) * lines


def test_a_flushed_line_comes_from_memory() -> None:
    backend = machine(MemoryParameters(caches=LEVELS, memory_cycles=90))
    flush = line("CLFLUSH (M512)", MemoryAddress("R14"))
    assert cycles(backend, load(0), setup=(ZERO, *zeros(1, 8))) == 5
    found = backend.run([Job(benchmark(load(0), flush, setup=(ZERO, *zeros(1, 8))), 8)], ("core_cycles",), ONCE)[0]
    assert found.status in {Status.OK, Status.REFUSED}


def test_crossing_a_line_or_a_page_takes_longer() -> None:
    memory = replace(TYPICAL, forwarding=None)
    backend = machine(memory)
    near = MemoryAddress("R14", "RAX", 1, 64 * 7 - 4), MemoryAddress("R14", "RAX", 1, 4096 - 4)
    setup = (ZERO, *[line("MOV (M64, R64)", replace(place, index=""), "RAX") for place in near])
    chains = [cycles(backend, line("MOV (R64, M64)", "RAX", place), setup=setup) for place in near]
    assert chains == [5 + memory.crossing_line_cycles, 5 + memory.crossing_page_cycles]


def test_stores_that_are_far_away_matter_only_as_long_as_the_buffer_holds_them() -> None:
    rules = replace(MACHINES["renaming"] or ForwardingParameters({}, {}), entries=2)
    backend = machine(MemoryParameters(rules))
    store = line("MOV (M64, R64)", MemoryAddress("R14", displacement=64), "RAX")
    others = [line("MOV (M64, R64)", MemoryAddress("R14", displacement=128 + 64 * n), "RBX") for n in range(2)]
    narrow = line("MOVZX (R32, M8)", "EAX", MemoryAddress("R14", displacement=65))
    assert cycles(backend, store, narrow) == 6
    assert cycles(backend, store, others[0], narrow) == 6
    assert cycles(backend, store, *others, narrow) < 6


def test_a_register_that_was_moved_or_computed_is_the_same_place() -> None:
    backend = machine(MemoryParameters(MACHINES["typical"]))
    setup = (
        line("MOV_89 (R64, R64)", "RSI", "R14"),
        line("ADD (R64, I8)", "RSI", 16),
        line("MOV (R64, I32)", "RBX", 2),
    )
    store = line("MOV (M64, R64)", MemoryAddress("R14", displacement=64), "RAX")
    through = line("MOV (R64, M64)", "RAX", MemoryAddress("RSI", "RBX", 8, 32))
    beside = line("MOV (R64, M64)", "RAX", MemoryAddress("RSI", "RBX", 8, 40))
    assert cycles(backend, store, through, setup=setup) == 5
    assert cycles(backend, store, beside, setup=setup) <= 1
