"""The core against one that walks through every cycle, and against what is known of simple chains."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.machine.constants import LoadQueue
from simulator.core.core import Core, Moment, RepeatedRun
from simulator.core.steps import COMMIT, LOAD, NO_PORT, PORT, REPLAY, RESULT, RESULT_BITS, SHARED, CoreStep
from simulator.instructions.transfers import Written
from simulator.machines.machine import Binding, Parameters, PortSchedulers
from tests.simulator.core.cycle_core import CycleCore
from tests.simulator.core.random_steps import LOCATIONS, SMALL, steps

if TYPE_CHECKING:
    from collections.abc import Iterable

HASWELL = Parameters(issue_width=4, retire_width=4, reorder_buffer=192, scheduler=60, ports="01234567")

RULES = [replace(SMALL, binding=rule, alternating="02") for rule in Binding]
DEEP_RULES = [replace(HASWELL, binding=rule, alternating="23") for rule in Binding]


@pytest.mark.parametrize("parameters", RULES, ids=lambda one: one.binding)
@given(unit=steps(), copies=st.integers(1, 12))
def test_walking_through_every_cycle_gives_the_same(parameters: Parameters, unit: list[CoreStep], copies: int) -> None:
    core = Core(parameters, LOCATIONS)
    for _ in range(copies):
        core.advance(unit)
    assert core.totals() == CycleCore(parameters).run(unit * copies)


@pytest.mark.parametrize("parameters", DEEP_RULES, ids=lambda one: one.binding)
@given(unit=steps(), sizes=st.lists(st.integers(1, 150), min_size=1, max_size=3).map(sorted))
def test_finding_the_period_gives_what_stepping_all_copies_gives(
    parameters: Parameters, unit: list[CoreStep], sizes: list[int]
) -> None:
    run = RepeatedRun(Core(parameters, LOCATIONS), unit)
    stepped = Core(parameters, LOCATIONS)
    done = compared = 0
    for size in sizes:
        while done < size:
            stepped.advance(unit)
            done += 1
        if size < run.copies:
            continue
        core, skipped = run.after(size)
        assert core.totals().plus(skipped) == stepped.totals()
        compared += 1
    assert compared


def test_rules_of_binding_differ_where_ports_are_idle() -> None:
    """Two µops a cycle that could go to four ports: by turns, to the lowest, or as Intel's cores do."""
    unit = [CoreStep(PORT, (0, 1, 5, 6), 1, slot=1, retiring=1), CoreStep(PORT, (0, 1, 5, 6), 1, slot=1, retiring=1)]
    unit += [CoreStep(NO_PORT, slot=1, retiring=1)] * 2
    found = {}
    for rule in Binding:
        core = Core(replace(HASWELL, binding=rule), 1)
        for _ in range(100):
            core.advance(unit)
        found[rule] = core.totals().ports
    assert found == {
        Binding.FEWEST_WAITING: (50, 50, 0, 0, 0, 50, 50, 0),
        Binding.LOWEST: (100, 100, 0, 0, 0, 0, 0, 0),
        Binding.DISPATCH: (100, 100, 0, 0, 0, 0, 0, 0),
        Binding.INTEL: (0, 0, 0, 0, 0, 100, 100, 0),
        Binding.INTEL_6: (100, 0, 0, 0, 0, 0, 100, 0),
        Binding.INTEL_10: (0, 0, 0, 0, 0, 100, 100, 0),
    }


def test_loads_take_turns_under_intels_rule_whatever_else_their_ports_do() -> None:
    core = Core(replace(HASWELL, binding=Binding.INTEL, alternating="23"), 1)
    for _ in range(100):
        core.advance([CoreStep(PORT, (2, 3), 5, slot=1, retiring=1), CoreStep(PORT, (2,), 1, slot=1, retiring=1)])
    assert core.totals().ports[2:4] == (150, 50)


@given(steps(), st.integers(1, 60))
def test_never_more_than_the_issue_width_per_cycle(unit: list[CoreStep], copies: int) -> None:
    core = Core(SMALL, LOCATIONS)
    for _ in range(copies):
        core.advance(unit)
    slots = sum(step.slot for step in unit) * copies
    assert core.totals().cycles * SMALL.issue_width >= slots - SMALL.issue_width
    assert sum(core.totals().ports) <= sum(step.kind != NO_PORT for step in unit) * copies


@pytest.mark.parametrize("latency", [1, 3, 7])
def test_a_chain_takes_its_latency_times_its_length(latency: int) -> None:
    unit = [CoreStep(PORT, (0, 1), latency, (0,), (0,), slot=1, retiring=1)]
    run = RepeatedRun(Core(HASWELL, 1), unit)
    cycles = {}
    for copies in (10, 110):
        core, skipped = run.after(copies)
        cycles[copies] = core.totals().plus(skipped).cycles
    assert cycles[110] - cycles[10] == 100 * latency


@pytest.mark.parametrize(("whole", "expected"), [(True, [31, 31, 31, 31]), (False, [2, 11, 21, 31])])
def test_a_group_is_issued_at_once_where_it_waits_for_all_of_its_entries(*, whole: bool, expected: list[int]) -> None:
    parameters = Parameters(4, 4, 64, 8, "01", whole_groups=whole)
    link = CoreStep(PORT, (0,), 10, (0,), (0,), slot=1, retiring=1)
    moments: list[Moment] = []
    Core(parameters, 1).advance([link] * 12, [], moments)
    assert [one.issued for one in moments[8:]] == expected


def test_independent_uops_fill_their_ports() -> None:
    core = Core(HASWELL, 1)
    unit = [CoreStep(PORT, (0, 1, 5, 6), 1, slot=1, retiring=1)]
    for _ in range(1000):
        core.advance(unit)
    assert core.totals().cycles == pytest.approx(250, abs=4)
    assert core.totals().ports == (250, 250, 0, 0, 0, 250, 250, 0)


def test_a_divider_is_not_pipelined() -> None:
    core = Core(HASWELL, 1)
    unit = [CoreStep(PORT, (0,), 20, extra=8, slot=1, retiring=1)]
    for _ in range(100):
        core.advance(unit)
    assert core.totals().cycles == pytest.approx(800, abs=25)
    assert core.totals().divider == 800


def test_two_of_three_moves_are_eliminated() -> None:
    core = Core(HASWELL, 1)
    unit = [CoreStep(SHARED, (0, 1, 5, 6), 1, (0,), (0,), extra=2 << 8 | 3, slot=1, retiring=1)]
    for _ in range(300):
        core.advance(unit)
    assert sum(core.totals().ports) == 100
    assert core.totals().cycles == pytest.approx(100, abs=3)


def test_what_a_store_wrote_is_in_the_cache_some_cycles_after_all_before_it_has_retired() -> None:
    core = Core(HASWELL, 2)
    core.advance(
        [
            CoreStep(PORT, (0,), 20, targets=(0,), slot=1, retiring=1),
            CoreStep(NO_PORT, slot=1, retiring=1),
            CoreStep(COMMIT, latency=11, targets=(1,)),
        ]
    )
    assert core.last_retired == 21  # dispatched in the cycle after issue
    assert core.locations[1] == 21 + 11


def test_moments_say_what_every_uop_went_through() -> None:
    trace: list[Moment] = []
    log: list[tuple[int, int]] = []
    chain = CoreStep(PORT, (0,), 3, (0,), (0,), slot=1, retiring=1)
    Core(HASWELL, 1).advance([chain, chain, CoreStep(NO_PORT, sources=(0,), slot=1, retiring=1)], log, trace)
    assert [one.issued for one in trace] == [0, 0, 0]
    assert [one.needed for one in trace] == [0, 4, 7]
    assert [one.done for one in trace] == [4, 7, 7]
    assert [one.logged for one in trace] == [1, 2, 2]
    assert log == [(1, 0), (4, 0)]


def test_the_data_of_a_load_that_waits_for_an_entry_are_later() -> None:
    core = Core(replace(HASWELL, load_queue=LoadQueue(entries=1, cycles=10, in_order=True, source="")), 1)
    issued = []
    for _ in range(4):
        core.advance([CoreStep(LOAD, latency=5), CoreStep(NO_PORT, targets=(0,), slot=1, retiring=1)])
        issued.append(core.locations[0])
    assert issued == [0, 15, 30, 45]


@pytest.mark.parametrize(("in_order", "cycles", "taken"), [(False, 30, 1), (True, 60, Fraction(1, 2))])
def test_a_load_waits_for_an_entry_of_the_load_queue(in_order: bool, cycles: int, taken: Fraction) -> None:
    """The first load keeps its entry for 60 cycles, the second one for 30; in order, both entries are free after 60."""
    core = Core(replace(HASWELL, load_queue=LoadQueue(entries=2, cycles=10, in_order=in_order, source="")), 2)
    core.locations[:] = [45, 15]
    loads = [CoreStep(LOAD, latency=5, sources=address) for address in ((0,), (1,), ())]
    core.advance([*loads, CoreStep(NO_PORT, targets=(1,), slot=1, retiring=1)])
    assert core.locations[1] == cycles
    assert core.queued_loads == taken


@pytest.mark.parametrize(
    ("stored", "data"),
    [
        (20, [20, 21]),  # both take the port when the data are there, the older one first
        (4, [4, 4]),  # the data are there before the loads would bring them
    ],
)
def test_loads_that_wait_for_data_take_their_port_once_more(stored: int, data: list[int]) -> None:
    core = Core(HASWELL, 3)
    core.locations[0] = stored
    load = CoreStep(PORT, (2,), 5, slot=1, retiring=1)
    log: list[tuple[int, int]] = []
    for target in (1, 2):
        core.advance([load, CoreStep(REPLAY, latency=4, sources=(0,), targets=(target,))], log)
    assert core.locations[1:] == data
    assert core.totals().ports[2] == len(log) == 2  # each load counts once


ALL_FOUR, FIRST_TWO, LOADS = (0, 1, 2, 3), (0, 1), (4, 5, 6)
EACH = ((0, 4), (1, 5), (2, 6), (3,))
SCHEDULERS = PortSchedulers(
    {port: ports for ports in EACH for port in ports}, computing=frozenset(ALL_FOUR), per_group=2, step=12, slots=6
)


def waiting_row(ports: Iterable[tuple[int, ...]]) -> list[CoreStep]:
    """Return µops that all wait for location 0."""
    return [CoreStep(PORT, one, 1, (0,), slot=1, retiring=1) for one in ports]


@pytest.mark.parametrize(
    ("ports", "taken"),
    [
        ([ALL_FOUR] * 8, [0, 1, 2, 3, 0, 1, 2, 3]),  # a port that computes takes one of a group
        ([LOADS] * 6, [4, 5, 6, 4, 5, 6]),
        ([LOADS, LOADS, FIRST_TWO] * 2, [4, 5, 0, 6, 5, 1]),  # 4 and 0 are one scheduler, which is full then
        ([(0,), FIRST_TWO, (0,), FIRST_TWO], [0, 1, 0, 1]),
        ([(4, 7)] * 4, [4, 7, 4, 7]),  # not all are of these schedulers: the one with fewer µops waiting
    ],
)
def test_schedulers_take_few_uops_of_a_group(ports: list[tuple[int, ...]], taken: list[int]) -> None:
    core = Core(replace(HASWELL, issue_width=6, schedulers=SCHEDULERS), 1)
    core.locations[0] = 50
    log: list[tuple[int, int]] = []
    core.advance(waiting_row(ports), log)
    assert [port for _, port in log] == taken


@pytest.mark.parametrize(("waiting", "taken"), [(11, 0), (12, 1)])
def test_a_scheduler_that_is_emptier_by_a_step_takes_the_uop(waiting: int, taken: int) -> None:
    core = Core(replace(HASWELL, issue_width=6, schedulers=SCHEDULERS), 1)
    core.locations[0] = 50
    log: list[tuple[int, int]] = []
    core.advance(waiting_row([(4,)] * waiting + [(3,), (3,)] + [FIRST_TWO]), log)  # the second for port 3: a new group
    assert log[-1][1] == taken


@pytest.mark.parametrize(
    ("what", "writes", "cycles"),
    [
        (Written.FLAGS, Written.FLAGS, 2),
        (Written.FLAGS, Written.REGISTER | Written.FLAGS, 2),
        (Written.FLAGS, Written.REGISTER, 1),
        (Written.REGISTER, Written.FLAGS, 1),
    ],
)
def test_a_transfer_keeps_a_port_from_writing_the_same(what: Written, writes: Written, cycles: int) -> None:
    core = Core(replace(HASWELL, results=frozenset({0})), 1)
    row = [
        CoreStep(RESULT, extra=what),
        CoreStep(PORT, (0,), 1, extra=writes << RESULT_BITS, slot=1, retiring=1),
    ]
    core.advance(row * 100)
    assert core.totals().cycles == pytest.approx(100 * cycles, abs=5)
