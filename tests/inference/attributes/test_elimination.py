"""How many moves rename eliminates, and parts of registers that are renamed separately: on machines of both kinds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import pytest

from generator.operands.values import kinds_of
from generator.sequences.throughput import LENGTHS, ThroughputFactory
from inference.attributes.elimination import measure_elimination
from inference.attributes.renaming import measure_result
from inference.builder import ConclusionBuilder
from inference.characterizer import Characterizer
from inference.experiment import Want
from inference.throughput import Search
from results.machine.constants import NO_LIMIT
from results.machine.file import read_machine
from results.sentences import lines
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from simulator.machines.measured import machine_of
from tests.inference.simulated import candidates, catalogue
from tests.shared import measured_haswell

if TYPE_CHECKING:
    from collections.abc import Callable

    from inference.context import Context
    from inference.experiment import Procedure
    from results.model import Characterization

GENERAL, VECTOR = "MOV_89 (R64, R64)", "VMOVAPS_28 (YMM, YMM)"
ATTRIBUTES = {"elimination_slots", "elimination_slots_at_least", "eliminated_per_cycle", "eliminated_percent_chain"}
PARTS = {"renamed_apart", "merge_cycles", "merge_uops"}

Limits = tuple[int, int, int]
Measure: TypeAlias = "Callable[[ConclusionBuilder, Context], Procedure[None]]"


def measured(backend: SimBackend, string: str, measure: Measure) -> ConclusionBuilder:
    """Measure one sequence of a variant, and then what is asked for."""
    method = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    variant, context = catalogue().by_string(string), method.prepared({})

    def procedure() -> Procedure[ConclusionBuilder]:
        found = ConclusionBuilder(variant, attributes={"eliminated_percent": 100})
        search = Search(ThroughputFactory(context.instructions, variant), kinds_of(variant)[-1])
        yield from search.measure([search.shape(LENGTHS[0])], Want.ALL)
        found.fastest = search.unrolled[0]
        found.note_uops(search)
        yield from measure(found, context)
        return found

    return Session(Measurer(backend)).run_one(procedure())


@cache
def eliminated(limits: Limits, string: str) -> ConclusionBuilder:
    backend = SimBackend(open_machine("HSW").with_parameters(elimination=limits), catalogue())
    return measured(backend, string, measure_elimination)


@cache
def written(merge_ports: str, string: str, machine: str = "HSW", *, hide_counters: bool = False) -> ConclusionBuilder:
    model = open_machine(machine).with_parameters(merge_ports=merge_ports)
    return measured(SimBackend(model, catalogue(), hide_counters=hide_counters), string, measure_result)


@pytest.mark.parametrize(
    ("limits", "string", "expected"),
    [
        ((4, 4, NO_LIMIT), GENERAL, {"elimination_slots": 4, "eliminated_percent_chain": 100}),
        ((2, 3, 1), GENERAL, {"elimination_slots": 2, "eliminated_per_cycle": 1, "eliminated_percent_chain": 100}),
        ((2, 3, 1), VECTOR, {"elimination_slots": 3, "eliminated_per_cycle": 1, "eliminated_percent_chain": 100}),
        (
            (1, NO_LIMIT, 3),
            GENERAL,
            {"elimination_slots": 1, "eliminated_per_cycle": 3, "eliminated_percent_chain": 100},
        ),
        (
            (1, NO_LIMIT, 3),
            VECTOR,
            {"elimination_slots_at_least": 8, "eliminated_per_cycle": 3, "eliminated_percent_chain": 100},
        ),
        ((0, 5, NO_LIMIT), GENERAL, {}),
        ((0, 5, NO_LIMIT), VECTOR, {"elimination_slots": 5, "eliminated_percent_chain": 100}),
    ],
)
def test_slots_and_moves_per_cycle_are_the_machines(limits: Limits, string: str, expected: dict[str, int]) -> None:
    found = eliminated(limits, string).attributes
    assert {name: value for name, value in found.items() if name in ATTRIBUTES} == expected


def test_the_share_in_a_chain_is_that_of_moves_which_are_eliminated_now_and_then() -> None:
    machine = open_machine("HSW").with_parameters(elimination=(NO_LIMIT,) * 3).changed({GENERAL: "eliminate 3/4"})
    found = measured(SimBackend(machine, catalogue()), GENERAL, measure_elimination).attributes
    assert (found["eliminated_percent_chain"], found["elimination_slots_at_least"]) == (75, 6)


def test_the_derivation_says_with_how_many_pairs_moves_took_time() -> None:
    found = eliminated((2, 3, 1), GENERAL)
    (derivation,) = (one for one in found.derivations if one.quantity == "elimination_slots")
    (line,) = lines(derivation)
    assert line == (
        "cycles per move, by the number of other register pairs that share a physical register: 0.00 with 0, "
        "0.00 with 1, 1.00 with 2, 1.00 with 3, 1.00 with 4, 1.00 with 5; 2 physical registers can be shared"
    )


def test_slots_are_found_where_only_time_is_read() -> None:
    backend = SimBackend(open_machine("HSW").with_parameters(elimination=(3, 4, 2)), catalogue(), hide_counters=True)
    found = measured(backend, GENERAL, measure_elimination).attributes
    known = {name: value for name, value in found.items() if name in ATTRIBUTES}
    assert known == {"elimination_slots": 3, "eliminated_percent_chain": 100}


def test_a_move_between_register_files_has_no_slots() -> None:
    backend = SimBackend(open_machine("HSW"), catalogue(), hide_counters=True)
    assert not ATTRIBUTES & measured(backend, "MOVQ (R64, XMM)", measure_elimination).attributes.keys()


def test_a_machine_out_of_measurements_has_the_slots_of_its_core() -> None:
    backend = SimBackend(machine_of(read_machine(measured_haswell())), catalogue())
    attributes = characterized(backend, GENERAL).attributes
    assert (attributes["elimination_slots"], attributes["eliminated_percent_chain"]) == (4, 100)
    assert attributes["uops_same_reg"] == 1


def characterized(backend: SimBackend, string: str) -> Characterization:
    method = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    session, variant = Session(Measurer(backend)), catalogue().by_string(string)
    context = session.run_one(method.prepare([variant]))
    return session.run_one(method.characterize(variant, context))


@pytest.mark.parametrize(
    ("merge_ports", "string", "expected"),
    [
        ("15", "MOV_88 (R8h, R8l)", {"renamed_apart": 1, "merge_cycles": 1, "merge_uops": 1}),
        ("15", "SETB (R8h)", {"renamed_apart": 1, "merge_cycles": 1, "merge_uops": 1}),
        ("15", "MOV_88 (R8l, R8l)", {"renamed_apart": 0, "merge_cycles": 1, "merge_uops": 0}),
        ("15", "MOV_89 (R16, R16)", {"renamed_apart": 0, "merge_cycles": 1, "merge_uops": 0}),
        ("15", "MOV_89 (R32, R32)", {}),
        ("", "MOV_88 (R8h, R8l)", {"renamed_apart": 0, "merge_cycles": 1, "merge_uops": 0}),
        ("", "SETB (R8h)", {"renamed_apart": 0, "merge_cycles": 1, "merge_uops": 0}),
    ],
)
def test_parts_of_registers_are_renamed_as_on_the_machine(
    merge_ports: str, string: str, expected: dict[str, int]
) -> None:
    found = written(merge_ports, string).attributes
    assert {name: value for name, value in found.items() if name in PARTS} == expected
    waits = found.get("result_dependency")
    assert waits == (1 if expected.get("renamed_apart") == 0 else None)


@pytest.mark.parametrize(
    ("merge_ports", "string", "expected"),
    [
        ("15", "SETBE (R8h)", {"renamed_apart": 1, "merge_cycles": 1, "merge_uops": 1}),
        ("15", "SETBE (R8l)", {"merge_cycles": 1, "merge_uops": 0}),
        ("", "SETBE (R8h)", {"merge_cycles": 1, "merge_uops": 0}),
    ],
)
def test_where_ports_take_as_long_as_a_wait_the_merging_uop_tells(
    merge_ports: str, string: str, expected: dict[str, int]
) -> None:
    """SETBE has two µops for two ports on Sandy Bridge: a cycle each, whatever it waits for."""
    found = written(merge_ports, string, "SNB").attributes
    assert {name: value for name, value in found.items() if name in PARTS} == expected


def test_without_counters_nothing_tells_what_ports_take_as_long_for() -> None:
    found = written("15", "SETBE (R8h)", "SNB", hide_counters=True)
    assert {name: value for name, value in found.attributes.items() if name in PARTS} == {"merge_cycles": 1}
    (derivation,) = (one for one in found.derivations if one.quantity == "merge_cycles")
    assert lines(derivation)[0].endswith(": nothing tells whether the part is renamed separately")


def test_the_derivation_says_what_a_read_of_the_whole_register_took() -> None:
    found = written("15", "MOV_88 (R8h, R8l)")
    (derivation,) = (one for one in found.derivations if one.quantity == "renamed_apart")
    (line,) = lines(derivation)
    assert line == (
        "writing a part of a register takes 0.25 cycles, 2.00 with a read of the whole register and 1.00 µops more, "
        "which takes 1.00 alone: the part is renamed separately"
    )
