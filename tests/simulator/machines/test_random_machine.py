"""Machines drawn at random: that they are machines, always the same for a seed, and can be measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import generator
from generator.exclusions import excluded
from generator.operands.allocation import independent_instances
from generator.operands.places import sources
from results.machine.graph import ADDRESS_PARTS, Endpoint, UopKind
from results.model import Status
from runner.backend import Job, Repeat
from runner.backends.sim import SimBackend, open_machine
from simulator.machines.machine import Binding
from simulator.machines.noise import EXACT
from simulator.machines.random_machine import RandomMachine, is_tame
from simulator.machines.random_shape import KINDS, draw_shape
from simulator.machines.truth import longest_paths
from tests.nonempty import some
from tests.simulator.programs import benchmark, catalogue, line, per_copy
from xed_convert.model import OperandKind

SEEDS = st.integers(0, 100_000)


@given(SEEDS)
def test_a_seed_gives_a_machine(seed: int) -> None:
    shape = draw_shape(seed)
    ports = set(shape.parameters.ports)
    assert 4 <= len(ports) <= 12
    special = (shape.load_ports, shape.store_address_ports, shape.store_data_ports, shape.divider_port)
    assert all(unit and unit <= ports for unit in (*shape.units, *special))
    assert all(len(unit) <= shape.parameters.issue_width for unit in shape.units)
    assert sorted("".join(shape.parameters.port_groups)) == sorted(ports)
    assert draw_shape(seed) == shape


@settings(max_examples=20)
@given(SEEDS, st.data())
def test_behaviours_are_drawn_alike_each_time_and_are_graphs(seed: int, data: st.DataObject) -> None:
    variants = list(catalogue())[::37]
    first, second = RandomMachine(seed, variants), RandomMachine(seed, reversed(variants))
    for variant in some(data.draw(st.lists(st.sampled_from(variants), min_size=5, max_size=20))):
        behaviour = first.behaviour(variant)
        assert behaviour is not None
        assert behaviour == second.behaviour(variant)
        for number, uop in enumerate(some(behaviour.uops)):
            assert uop.ports <= set(first.shape.parameters.ports)
            assert all(i < number for i in uop.inputs if isinstance(i, int))


@given(SEEDS)
def test_every_register_source_reaches_every_result(seed: int) -> None:
    variant = catalogue().by_string("ADC_11 (R64, R64)")
    behaviour = RandomMachine(seed, [variant]).behaviour(variant)
    assert behaviour
    pairs = longest_paths(behaviour.uops)
    for source in (Endpoint(1), Endpoint(2), Endpoint(3, flag="CF")):
        for destination in (Endpoint(1), Endpoint(3, flag="ZF")):
            assert pairs[source, destination] >= 1


EXACT_KINDS = [kind for kind in KINDS if draw_shape(6, kind).parameters.noise == EXACT]


@pytest.mark.parametrize(
    "name", [*(f"random:{seed}" for seed in range(6)), *(f"random:{one}:6" for one in EXACT_KINDS)]
)
def test_a_chain_on_a_random_machine_takes_what_its_truth_says(name: str) -> None:
    truth = open_machine(name).truth(catalogue().by_string("IMUL (R64, R64)"))
    measured = per_copy(name, line("IMUL (R64, R64)", "RAX", "RBX"))
    latency = truth.latency(1, 1)
    assert latency is not None
    assert measured["core_cycles"] == pytest.approx(float(max(latency, truth.throughput)), rel=0.15)
    assert measured["uops_executed"] == pytest.approx(truth.uops, abs=0.1)


def test_noise_is_the_same_in_every_run_and_goes_upwards() -> None:
    seed = next(n for n in range(100) if draw_shape(n).parameters.noise.upwards)
    job = Job(benchmark(line("IMUL (R64, R64)", "RAX", "RBX")), 10)
    machines = [SimBackend(open_machine(f"random:{seed}"), catalogue()) for _ in range(2)]
    first, second = (machine.run([job], ("core_cycles",), Repeat(0, 50))[0] for machine in machines)
    assert first == second
    assert machines[0].run([job], ("core_cycles",), Repeat(0, 50))[0] != first
    assert first.status is Status.OK
    samples = first.samples["core_cycles"]
    assert min(samples) < max(samples) <= min(samples) + draw_shape(seed).parameters.noise.upwards


def test_what_chains_and_dependency_breakers_are_made_of_is_tame() -> None:
    folder = Path(generator.__file__).parent / "tables"
    checked = 0
    for table, column in (("chain_links.tsv", "lines"), ("dependency_breakers.tsv", "line")):
        rows = [row for row in (folder / table).read_text(encoding="utf-8").splitlines() if row[:1] not in ("", "#")]
        place = rows[0].split("\t").index(column)
        for row in rows[1:]:
            for text in row.split("\t")[place].split(";"):
                string = text.partition(" :")[0].strip()
                assert is_tame(catalogue().by_string(string)), string
                checked += 1
    assert checked > 50


@given(SEEDS)
def test_a_nop_of_any_length_needs_no_port(seed: int) -> None:
    """Before the jump of a measured loop there is one, whose length depends on the loop."""
    nops = [variant for variant in catalogue() if variant.iclass == "NOP"]
    machine = RandomMachine(seed, nops)
    for variant in some(nops, 7):
        behaviour = machine.behaviour(variant)
        assert behaviour is not None
        assert (behaviour.slots, [uop.ports for uop in behaviour.uops]) == (1, [frozenset()])


def test_no_uop_waits_for_a_register_of_an_address_that_has_none() -> None:
    measurable = [v for v in catalogue() if not excluded(v, privileged=True)]
    holding = [v for v in measurable if any(o.memory is not None and o.memory.moffs for o in v.operands)]
    assert holding
    variants = holding + measurable[::29]
    machine = RandomMachine(167, variants)
    for variant in variants:
        behaviour = machine.behaviour(variant)
        inputs = {one for uop in behaviour.uops for one in uop.inputs} if behaviour else set()
        waited = {one.operand for one in inputs if isinstance(one, Endpoint) and one.part in ADDRESS_PARTS}
        (instance,) = independent_instances(variant, 1)
        there = {place.operand for place in sources(instance) if place.part in ADDRESS_PARTS}
        memory = {operand.index for operand in variant.operands if operand.kind is OperandKind.MEMORY}
        assert waited & memory <= there, variant.string


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(seed=SEEDS)
def test_a_kind_changes_one_thing_about_a_machine(kind: str, seed: int) -> None:
    plain, hard = draw_shape(seed), draw_shape(seed, kind)
    assert draw_shape(seed, kind) == hard
    assert hard.parameters.ports == plain.parameters.ports
    assert sorted("".join(hard.parameters.port_groups)) == sorted(hard.parameters.ports)
    assert set(hard.units) | set(hard.hidden_units) == set(plain.units)
    assert set(hard.units)
    assert not set(hard.units) & set(hard.hidden_units)
    if kind not in ("hidden", "loads", "width", "small"):  # where a machine may be drawn that already is like that
        assert hard != plain


def test_kinds_can_be_combined() -> None:
    machine = open_machine("random:hidden+intel+sample1+offset:5")
    assert machine.name == "random:hidden+intel+sample1+offset:5"
    assert machine.parameters.binding is Binding.INTEL
    assert machine.parameters.noise.sample_percent == 1
    assert machine.parameters.noise.offset == 7


def test_what_computes_on_a_load_lacks_one_port() -> None:
    variants = list(catalogue())[::11]
    narrowed = 0
    for seed in range(1, 9):
        machine = RandomMachine(seed, variants, kind="loads")
        left = machine.shape.beside_loads
        (closed,) = {port for unit, rest in left.items() for port in unit - rest}
        for variant in variants:
            behaviour = machine.behaviour(variant)
            assert behaviour
            computing = [uop.ports for uop in behaviour.uops if uop.kind is UopKind.COMPUTE]
            if any(uop.kind is UopKind.LOAD for uop in behaviour.uops):
                assert all(closed not in ports or len(ports) == 1 for ports in computing), variant.string
                narrowed += sum(ports in left.values() for ports in computing)
    assert narrowed > 1000


def test_hidden_sets_occur_only_beside_other_uops() -> None:
    variants = list(catalogue())[::11]
    hidden = 0
    for seed in range(1, 9):
        machine = RandomMachine(seed, variants, kind="hidden")
        secret = set(machine.shape.hidden_units)
        assert secret
        for variant in variants:
            behaviour = machine.behaviour(variant)
            assert behaviour
            for uops in (behaviour.uops, behaviour.same_register.uops if behaviour.same_register else ()):
                there = sum(uop.ports in secret for uop in uops)
                assert not there or len(uops) > 1, variant.string
                hidden += there
    assert hidden > 1000


def test_shared_counters_come_in_all_forms() -> None:
    """Ports that load, store and compute share one, which a plain machine never has."""
    shapes = [draw_shape(seed, "counters") for seed in range(50)]
    groups = [(shape, set(group)) for shape in shapes for group in shape.parameters.shared_counters]
    assert all(shape.parameters.shared_counters for shape in shapes)
    assert any(group & shape.load_ports and group - shape.load_ports for shape, group in groups)
    assert {len(group) for _, group in groups} == {2, 3}


def test_issue_widths_and_buffers_come_in_all_sizes() -> None:
    assert {draw_shape(seed, "width").parameters.issue_width for seed in range(200)} == set(range(2, 13))
    assert max(draw_shape(seed, "small").parameters.reorder_buffer for seed in range(50)) == 64
