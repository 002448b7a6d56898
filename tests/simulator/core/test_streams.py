"""Streams that are equal but for the numbers of their locations take the same, and no other ones count as equal."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.machine.constants import core_of
from results.machine.graph import Behaviour, Decoding, Uop
from results.model import Status
from runner.backend import Job
from runner.backends.sim import SimBackend, open_machine
from simulator.core import pmu
from simulator.core.compiler import TICKS
from simulator.core.core import Core, RepeatedRun
from simulator.core.delivery import Fetched
from simulator.core.pmu import Simulator
from simulator.core.sharing import RegisterFile
from simulator.core.steps import COMMIT, FETCH, FILE_BITS, NO_PORT, PORT, SHARED, UNIT, CoreStep
from simulator.core.streams import StreamKeys
from simulator.machines.machine import Binding, MachineModel, Origin, Parameters
from tests.nonempty import some
from tests.simulator.core.random_steps import LOCATIONS, SMALL, steps
from tests.simulator.programs import ONCE, benchmark, catalogue, line
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.microbenchmark import Line

ORDER = (0, 1, 2, 3)
A_PLACE, ANOTHER = MemoryAddress("RSI", displacement=64), MemoryAddress("RSI", displacement=128)


def key(unit: Sequence[CoreStep], copies: int = 10, order: Sequence[int] = ORDER) -> bytes:
    return StreamKeys().key(((), unit, ()), (), copies, order)


def renumbered(unit: Sequence[CoreStep], numbers: Sequence[int]) -> list[CoreStep]:
    def of(places: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(numbers[place] for place in places)

    return [step._replace(sources=of(step.sources), targets=of(step.targets)) for step in unit]


@given(steps(), st.permutations(range(LOCATIONS)))
def test_the_numbers_of_locations_do_not_matter(unit: list[CoreStep], numbers: list[int]) -> None:
    assert key(renumbered(unit, numbers)) == key(unit)


def test_what_nothing_waits_for_does_not_matter() -> None:
    plain = [CoreStep(PORT, (0,), 1, (0,), (0,), slot=1, retiring=1)]
    reads_a_constant = [CoreStep(PORT, (0,), 1, (0, 1), (0,), slot=1, retiring=1)]
    writes_for_nobody = [CoreStep(PORT, (0,), 1, (0,), (0, 2), slot=1, retiring=1)]
    chained = [
        CoreStep(PORT, (0,), 1, (0, 1), (0, 1), slot=1, retiring=1),
        CoreStep(PORT, (1,), 1, (1,), slot=1, retiring=1),
    ]
    assert key(plain) == key(reads_a_constant) == key(writes_for_nobody)
    assert key(chained) != key([chained[0], chained[1]._replace(sources=(2,))])


def test_all_else_matters() -> None:
    unit = [
        CoreStep(PORT, (0, 1), 1, (0,), (0,), slot=1, retiring=1),
        CoreStep(PORT, (0, 1), 1, (0,), (1,), slot=1, retiring=1),
    ]
    others: list[CoreStep] = [
        CoreStep(NO_PORT, (0, 1), 1, (0,), (0,), slot=1, retiring=1),
        CoreStep(PORT, (0, 2), 1, (0,), (0,), slot=1, retiring=1),
        CoreStep(PORT, (0, 1), 2, (0,), (0,), slot=1, retiring=1),
        CoreStep(PORT, (0, 1), 1, (1,), (0,), slot=1, retiring=1),
        CoreStep(PORT, (0, 1), 1, (0,), (1,), slot=1, retiring=1),
        CoreStep(PORT, (0, 1), 1, (0,), (0,), extra=3, slot=1, retiring=1),
        CoreStep(PORT, (0, 1), 1, (0,), (0,), retiring=1),
        CoreStep(PORT, (0, 1), 1, (0,), (0,), slot=1, retiring=2),
    ]
    keys = [key(unit), key(unit, copies=11), key(unit, order=(1, 0, 2, 3)), *(key([one, unit[1]]) for one in others)]
    keys += [StreamKeys().key((unit[:1], unit[1:], ()), (), 10, ORDER), key(unit[:1])]
    assert len(set(keys)) == len(keys)


def test_what_the_front_end_sees_matters_and_not_its_number() -> None:
    items = [Fetched((size,), Decoding(1)) for size in (3, 4)]
    keys = StreamKeys()

    def of(number: int, fetched: Sequence[Fetched]) -> bytes:
        step = CoreStep(FETCH, extra=number)
        return keys.key(((), (step,), ()), fetched, 10, ORDER)

    assert of(0, items) != of(1, items)
    assert of(0, items) == of(1, items[::-1])


def short_stream(source: random.Random) -> list[CoreStep]:
    """A stream of one to three steps on few ports and locations, so that many are equal but for numbers."""
    found: list[CoreStep] = []
    for _ in range(source.randint(1, 3)):
        kind = source.choice((PORT, PORT, NO_PORT, SHARED, UNIT, COMMIT))
        read, written = (tuple(source.choices(range(4), k=source.randint(0, 1))) for _ in range(2))
        step = CoreStep(PORT, (source.choice((0, 1)),), 2, read, written, slot=1, retiring=1)
        if kind == NO_PORT:
            step = CoreStep(NO_PORT, sources=read, targets=written, slot=1, retiring=1)
        elif kind == SHARED:
            moved = (source.randrange(4),), (source.randrange(4),)
            step = CoreStep(SHARED, (0,), 1, *moved, RegisterFile.GENERAL << FILE_BITS | 1 << 8 | 1, 1, 1)
        elif kind == UNIT:
            step = CoreStep(UNIT, latency=3 * TICKS, targets=(4 + source.randrange(2),))
        elif kind == COMMIT:
            step = CoreStep(COMMIT, latency=4, targets=(source.randrange(4),))
        found.append(step)
    return found


@pytest.mark.parametrize("rule", [Binding.FEWEST_WAITING, Binding.INTEL], ids=str)
def test_streams_with_the_same_key_take_the_same(rule: Binding) -> None:
    parameters = replace(SMALL, binding=rule, elimination=(1, 1, 2), alternating="01")
    source, taken, equal = random.Random(0), dict[bytes, set[object]](), 0
    for _ in range(3000):
        unit = short_stream(source)
        core, skipped = RepeatedRun(Core(parameters, 6), unit).after(40)
        found = taken.setdefault(key(unit), set())
        equal += bool(found)
        found.add((core.totals().plus(skipped), core.order()))
        assert len(found) == 1, unit
    assert equal > 500
    assert len({next(iter(found)) for found in some(taken.values())}) > 100


PROGRAMS: dict[str, tuple[tuple[Line, ...], ...]] = {
    "chains and none": (
        (line("ADD_01 (R64, R64)", "RAX", "RBX"), line("ADD_01 (R64, R64)", "RCX", "RAX")),
        (line("SUB_29 (R32, R32)", "EDI", "ESI"), line("SUB_29 (R32, R32)", "EDX", "EDI")),
        (line("ADD_01 (R64, R64)", "RAX", "RBX"), line("ADD_01 (R64, R64)", "RCX", "RDX")),
    ),
    "several µops": ((line("XADD (R64, R64)", "RAX", "RBX"),), (line("XADD (R64, R64)", "RCX", "RDX"),)),
    "parts of registers": (
        (line("ADD_01 (R16, R16)", "AX", "BX"), line("MOV_88 (R8h, R8l)", "AH", "BL")),
        (line("ADD_01 (R16, R16)", "CX", "BX"), line("MOV_88 (R8h, R8l)", "CH", "DL")),
        (line("ADD_01 (R16, R16)", "CX", "BX"), line("MOV_88 (R8l, R8l)", "CL", "DL")),
    ),
    "eliminated moves": (
        (line("MOV_89 (R64, R64)", "RAX", "RBX"), line("MOV_89 (R64, R64)", "RCX", "RAX")),
        (line("MOV_89 (R64, R64)", "RAX", "RBX"), line("MOV_89 (R64, R64)", "RBX", "RAX")),
        (line("MOV_89 (R64, R64)", "RDX", "RSI"), line("MOV_89 (R64, R64)", "RSI", "RDX")),
    ),
    "dividers": ((line("DIV (R64)", "RBX"),), (line("DIV (R32)", "EBX"),), (line("DIV (R64)", "RCX"),)),
    "loads and stores": (
        (line("PUSH (R64)", "RAX"), line("POP (R64)", "RBX")),
        (line("PUSH (R64)", "RCX"), line("POP (R64)", "RCX")),
        (line("PUSH (R64)", "RSI"), line("POP (R64)", "RSI")),
        (line("MOV (M64, R64)", A_PLACE, "RAX"), line("ADD (R64, M64)", "RAX", A_PLACE)),
        (line("MOV (M64, R64)", A_PLACE, "RCX"), line("SUB (R64, M64)", "RCX", A_PLACE)),
        (line("MOV (M64, R64)", A_PLACE, "RCX"), line("SUB (R64, M64)", "RCX", ANOTHER)),
    ),
    "vectors": (
        (line("PADDD (XMM, XMM)", "XMM0", "XMM1"), line("PADDD (XMM, XMM)", "XMM1", "XMM0")),
        (line("PSUBD (XMM, XMM)", "XMM2", "XMM3"), line("PSUBD (XMM, XMM)", "XMM3", "XMM2")),
        (line("ADDPS (XMM, XMM)", "XMM2", "XMM3"), line("PSUBD (XMM, XMM)", "XMM3", "XMM2")),
    ),
    "the x87 stack": ((line("FCHS (ST0, ST(0))"),), (line("FXTRACT (ST0, ST(0))"),), (line("FXAM (ST0, ST(0))"),)),
}
MACHINES = ("SNB", "HSW", "SKX:intel", "ICX", "ADL-P", "SKX:memory", "SKX:bypass", "SKX:producer", "random:7")


def behind_a_front_end(name: str) -> SimBackend:
    """A machine with decoders and a µop cache, on which high bytes may be renamed separately."""
    core = core_of(name)
    one = Behaviour((Uop(frozenset("0"), 1, ()),), 1, decoding=Decoding(1))
    special = {"XADD": replace(one, slots=2, decoding=Decoding(2, complex=True, simple=2))}
    parameters = replace(Parameters.of(core), front=core)
    model = MachineModel(name, parameters, Origin("a test", "none"), lambda variant: special.get(variant.iclass, one))
    return SimBackend(model, catalogue())


def machine(name: str) -> SimBackend:
    return behind_a_front_end(name[6:]) if name.startswith("front:") else SimBackend(open_machine(name), catalogue())


def everything(machine: SimBackend) -> dict[str, dict[str, tuple[int, ...]]]:
    """All counters of all programs, as copies in a row and in a loop."""
    bodies = {f"{name} {n}": body for name, each in PROGRAMS.items() for n, body in enumerate(each)}
    sizes = ((7, 0), (60, 0), (3, 50))
    jobs = {f"{name}: {a} {b}": Job(benchmark(*body), a, b) for name, body in bodies.items() for a, b in sizes}
    results = machine.run(list(jobs.values()), machine.info().counters, ONCE)
    found = zip(jobs, results, strict=True)
    return {name: dict(one.samples) for name, one in found if one.status is Status.OK}


@pytest.mark.parametrize("name", [*MACHINES, "front:NHM", "front:HSW", "front:ICX"])
def test_remembering_streams_changes_no_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remembering = machine(name)
    found = everything(remembering)
    assert len(found) > 50
    assert 0 < len(remembering._simulator._streams) < len(found)
    monkeypatch.setattr(Simulator, "REMEMBERED_STREAMS", 0)
    forgetful = machine(name)
    assert everything(forgetful) == found
    assert not forgetful._simulator._streams
    monkeypatch.setattr(Simulator, "REMEMBERED_STREAMS", 5)
    small = machine(name)
    assert everything(small) == found
    assert len(small._simulator._streams) == 5


def test_instructions_of_one_class_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[int] = []

    class Counted(RepeatedRun):
        def __init__(self, core: Core, unit: Sequence[CoreStep]) -> None:
            super().__init__(core, unit)
            simulated.append(len(unit))

    monkeypatch.setattr(pmu, "RepeatedRun", Counted)
    haswell = machine("HSW")
    bodies = [
        (line("ADD_01 (R64, R64)", "RAX", "RBX"),),
        (line("XOR_31 (R32, R32)", "ECX", "ESI"),),
        (line("ADD_01 (R64, R64)", "RAX", "RAX"),),
        (line("IMUL (R64, R64)", "RAX", "RBX"),),
    ]
    done = []
    for body in bodies:
        (result,) = haswell.run([Job(benchmark(*body), 100)], ("core_cycles",), ONCE)
        done.append((result.status, len(simulated)))
    assert done == [(Status.OK, 1), (Status.OK, 1), (Status.OK, 1), (Status.OK, 2)]
