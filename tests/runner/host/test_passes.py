"""Counters are packed into as few runs as the hardware allows, each on a counter that can count it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.host.kmod import abi
from runner.host.kmod.passes import Hardware, Slot, countable, derive, needed, plan, together
from runner.uarch import tables

ANY = (1 << 64) - 1
CORES = sorted(tables.all_microarchitectures())
FOUR = Hardware.of_counts(programmable=4, fixed=3, config_mask=ANY)
EIGHT = Hardware.of_counts(programmable=8, fixed=4, config_mask=ANY)


def counted(runs: list[tuple[Slot, ...]]) -> set[str]:
    return {slot.counter for run in runs for slot in run}


@pytest.mark.parametrize("core", CORES)
def test_everything_that_can_be_counted_is_counted_where_it_can_be(core: str) -> None:
    uarch = tables.by_name(core)
    runs = plan(uarch, FOUR, countable(uarch, FOUR))
    assert counted(runs) == set(needed(uarch, countable(uarch, FOUR)))
    for run in runs:
        assert len({(slot.kind, slot.index) for slot in run}) == len(run)
        assert len(run) <= abi.MAX_COUNTERS
        for slot in run:
            event = uarch.event(slot.counter)
            if slot.kind == abi.COUNTER_FIXED:
                assert event.fixed == slot.index
            else:
                assert slot.index in event.counters
                assert slot.config == event.selector


def test_haswell_ports_take_two_runs_on_four_counters_and_one_on_eight() -> None:
    uarch = tables.by_name("HSW")
    ports = ["core_cycles", *(f"p{port}" for port in range(8))]
    assert len(plan(uarch, FOUR, ports)) == 2
    wide = [tables.Event(e.counter, e.event, e.code, e.umask, e.source, tuple(range(8)), e.fixed) for e in uarch.events]
    widened = tables.Microarchitecture("X", "X", "X", uarch.ports, (), tuple(wide))
    assert len(plan(widened, EIGHT, ports)) == 1


def test_core_cycles_are_in_every_run_and_read_closest_to_the_code() -> None:
    runs = plan(tables.by_name("HSW"), FOUR, ["p0", "core_cycles", "p1", "p2", "p3", "p4", "instructions"])
    assert [run[0].counter for run in runs] == ["core_cycles"] * len(runs)
    assert runs[0][0].rdpmc == 0x40000001


def test_events_whose_bits_the_pmu_has_not_are_left_out() -> None:
    narrow = Hardware.of_counts(programmable=4, fixed=3, config_mask=0xFF)
    assert countable(tables.by_name("HSW"), narrow) == ("core_cycles", "instructions")


def test_derived_counters_are_sums_and_differences() -> None:
    uarch = tables.by_name("NHM")
    assert needed(uarch, ["p5"]) == ("p015", "p0", "p1")
    samples = {"p015": (30, 31), "p0": (10, 10), "p1": (5, 6)}
    assert derive(uarch, samples)["p5"] == (15, 15)


@given(places=st.lists(st.sets(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=8))
def test_one_run_if_and_only_if_all_events_fit_at_once(places: list[set[int]]) -> None:
    """Where a system of distinct counters exists for all events (Hall), one run is enough."""
    events = tuple(
        tables.Event(f"unit_{index}", "E", index, 0, "test", tuple(sorted(place))) for index, place in enumerate(places)
    )
    uarch = tables.Microarchitecture("X", "X", "X", (), (), events)
    runs = plan(uarch, FOUR, [event.counter for event in events])
    subsets = [[place for bit, place in enumerate(places) if mask >> bit & 1] for mask in range(1, 1 << len(places))]
    fits = all(len(set().union(*subset)) >= len(subset) for subset in subsets)
    assert (len(runs) == 1) == fits
    assert counted(runs) == {event.counter for event in events}


@given(places=st.lists(st.sets(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=8))
def test_as_few_runs_as_the_fullest_counters_need(places: list[set[int]]) -> None:
    """So many runs are enough if no set of events needs more seats than the counters open to it have (Hall)."""
    events = tuple(
        tables.Event(f"unit_{index}", "E", index, 0, "test", tuple(sorted(place))) for index, place in enumerate(places)
    )
    runs = plan(tables.Microarchitecture("X", "X", "X", (), (), events), FOUR, [event.counter for event in events])
    subsets = [[place for bit, place in enumerate(places) if mask >> bit & 1] for mask in range(1, 1 << len(places))]
    assert len(runs) == max(-(-len(subset) // len(set().union(*subset))) for subset in subsets)
    assert counted(runs) == {event.counter for event in events}
    for run in runs:
        assert len({slot.index for slot in run}) == len(run)


@pytest.mark.parametrize(("core", "hardware", "runs"), [("HSW", FOUR, 4), ("SKL", FOUR, 4), ("ADL-P", EIGHT, 2)])
def test_all_counters_of_a_core(core: str, hardware: Hardware, runs: int) -> None:
    uarch = tables.by_name(core)
    assert len(plan(uarch, hardware, countable(uarch, hardware))) == runs


def test_counters_that_need_different_values_in_a_register_are_read_apart() -> None:
    needs = {"a": ((0x1A6, 1),), "b": ((0x1A6, 2),), "c": ((0x1A7, 3),), "d": ((0x1A6, 1), (0x3F7, 4))}
    assert together(["x", "a", "b", "c", "y", "d"], needs, 16) == [
        (["x", "a", "c", "y", "d"], ((0x1A6, 1), (0x1A7, 3), (0x3F7, 4))),
        (["b"], ((0x1A6, 2),)),
    ]
    assert [names for names, _ in together(["x", "y", "a"], needs, 2)] == [["x", "y"], ["a"]]
    many = {f"c{number}": ((number, number),) for number in range(abi.MAX_WRITES + 1)}
    assert [len(writes) for _, writes in together(list(many), many, 100)] == [abi.MAX_WRITES, 1]
    assert together([], needs, 0) == []
