"""Machines out of an instructions.xml: what the core does with measured instructions, and the options that name one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from results.machine.build import behaviour_from
from results.machine.constants import core_of
from results.machine.facts import Cycles, FormFacts, LatencyPair, VariantFacts
from results.machine.file import read_machine
from results.machine.graph import Behaviour, Uop
from results.model import Form, LatencyPart, PortUsage, Status
from results.shipped import shipped_database
from runner.backend import BackendError, Job
from runner.backends.registry import open_backend
from runner.backends.sim import SimBackend, create_from
from simulator.machines.machine import MachineModel, Origin, Parameters
from simulator.machines.measured import machine_of
from tests.shared import measured_haswell
from tests.simulator.programs import ONCE, benchmark, catalogue, line
from xed_convert.model import MemoryAddress

if TYPE_CHECKING:
    from pathlib import Path

    from generator.microbenchmark import Line

WORD = MemoryAddress("R14", displacement=64)
INDEXED = MemoryAddress("R14", "R13", displacement=64)


@cache
def backend() -> SimBackend:
    return SimBackend(machine_of(read_machine(measured_haswell())), catalogue())


def per_copy(*body: Line) -> dict[str, float]:
    """What 100 more copies count more, per copy."""
    code = benchmark(*body)
    few, many = (backend().run([Job(code, n)], backend().info().counters, ONCE)[0] for n in (10, 110))
    assert few.status is many.status is Status.OK, many.detail
    return {name: (many.samples[name][0] - few.samples[name][0]) / 100 for name in few.samples}


def test_ports_and_latency_are_those_of_the_file() -> None:
    found = per_copy(line("MULX (R64, R64, R64)", "RAX", "RDX", "RDX"))
    assert found["core_cycles"] == 3  # RDX → operand 2
    assert found["p1"] == 1
    assert found["p0"] + found["p6"] == 1


def test_an_index_changes_the_ports_of_a_store() -> None:
    plain, indexed = (per_copy(line("ADD (M64, R64)", place, "RAX")) for place in (WORD, INDEXED))
    assert plain["p7"] > 0
    assert indexed["p7"] == 0
    assert indexed["p2"] + indexed["p3"] == 2


def test_the_way_through_memory_counts_once() -> None:
    there, back = line("MOV (M64, R64)", WORD, "RAX"), line("MOV (R64, M64)", "RAX", WORD)
    assert per_copy(there, back)["core_cycles"] == 5  # as the core's constants say
    assert per_copy(line("PUSH (R64)", "RAX"), line("POP (R64)", "RAX"))["core_cycles"] == 5
    assert per_copy(line("ADD (M64, R64)", WORD, "RAX"))["core_cycles"] == 6  # as measured


def test_no_instruction_waits_for_the_stack_engine() -> None:
    assert per_copy(line("POP (R64)", "RAX"))["core_cycles"] == 0.5  # by its ports


def test_a_move_to_itself_is_not_eliminated() -> None:
    eliminated, kept = (per_copy(line("MOV_89 (R64, R64)", "RAX", source)) for source in ("RBX", "RAX"))
    assert (eliminated["uops_executed"], kept["uops_executed"]) == (0, 1)
    assert kept["core_cycles"] == 1


def test_what_nothing_explains_takes_its_time_and_leaves_others_alone() -> None:
    slow, other = line("CLD"), line("ADD_01 (R64, R64)", "RAX", "RBX")
    assert per_copy(slow)["core_cycles"] == pytest.approx(4, abs=0.05)
    assert per_copy(slow, other, other)["core_cycles"] == pytest.approx(4, abs=0.05)


def test_jumps_fuse_with_what_the_file_names() -> None:
    compare, jump, other = line("CMP_39 (R64, R64)", "RAX", "RBX"), line("JZ (Rel8)", 0), line("JP (Rel8)", 0)
    assert per_copy(compare, jump)["uops_executed"] == 1
    assert per_copy(compare, other)["uops_executed"] == 2


def test_what_the_file_lacks_is_refused() -> None:
    variant = catalogue().by_string("VPADDD (ZMM, ZMM, ZMM)")
    assert "HSW" in backend().lacks(variant)
    (result,) = backend().run([Job(benchmark(line(variant.string, "ZMM0", "ZMM0", "ZMM0")), 10)], (), ONCE)
    assert result.status is Status.REFUSED


def test_the_file_is_named_where_the_numbers_come_from() -> None:
    info = create_from(measured_haswell(), "hsw").info()
    assert info.is_model
    assert info.provenance.architecture == "HSW"
    assert "HSW.sample.xml.xz" in info.caveats[1]


@pytest.mark.parametrize(
    ("name", "architecture", "message"),
    [
        ("sim", "SKL", "no measurements of SKL"),
        ("sim", "HSW:wide", "no option 'wide'"),
        ("sim", "HSW:memory:wide", "no option 'wide'"),
        ("tsc", None, "simulates no file"),
        ("auto", None, "--model"),
    ],
)
def test_wrong_options_are_clear_errors(name: str, architecture: str | None, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        open_backend(name, architecture=architecture, model=measured_haswell())


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"none\.xml"):
        open_backend("sim", model=tmp_path / "none.xml")


STRANGE: dict[str, VariantFacts] = {
    "many µops": VariantFacts({Form.PLAIN: FormFacts(PortUsage.parse("999999999*p0"), uops=999_999_999)}),
    "long": VariantFacts(
        {Form.PLAIN: FormFacts(PortUsage.parse("1*p0"))}, {LatencyPair(1, LatencyPart.NONE, 1): Cycles(10**9, 10**9)}
    ),
    "long division": VariantFacts({Form.PLAIN: FormFacts(PortUsage.parse("1*p0"))}, divider_cycles=999_999_999),
    "rare": VariantFacts({Form.PLAIN: FormFacts(PortUsage.parse("1*p0"), throughput=Fraction(123_456_789))}),
    "much decoded": VariantFacts(
        {Form.PLAIN: FormFacts(PortUsage.parse("1*p0"), decoded=999_999_999, microcoded=999_999_999)}
    ),
    "without anything": VariantFacts({Form.PLAIN: FormFacts()}),
    "pipes": VariantFacts({Form.PLAIN: FormFacts(PortUsage.parse("2*FP0123+1*FP45"))}),
}


@pytest.mark.parametrize("name", ["NHM", "HSW", "ADL-P", "ZEN5"])
@pytest.mark.parametrize("facts", STRANGE.values(), ids=STRANGE)
def test_unusual_numbers_of_a_file_are_simulated_in_no_time(name: str, facts: VariantFacts) -> None:
    variant, core = catalogue().by_string("IMUL (R64, R64)"), core_of(name)
    unusual = behaviour_from(variant, facts, core)
    one = Behaviour((Uop(frozenset(), 1, ()),), 1)
    parameters = replace(Parameters.of(core), front=core)
    lookup = lambda asked: unusual if asked.string == variant.string else one  # noqa: E731 - a table with a default
    machine = SimBackend(MachineModel(name, parameters, Origin("a test", "none"), lookup), catalogue())
    code = benchmark(line("IMUL (R64, R64)", "RAX", "RBX"), line("NOP"))
    for iterations in (0, 5):
        few, many = (machine.run([Job(code, n, iterations)], machine.info().counters, ONCE)[0] for n in (10, 30))
        assert few.status is many.status is Status.OK, many.detail
        assert many.samples["core_cycles"] >= few.samples["core_cycles"]


def test_ports_have_the_names_of_the_file() -> None:
    machine = machine_of(read_machine(shipped_database(), "ZEN4"))
    assert {"FP0", "r0", "r6"} <= set(machine.parameters.port_names)
    assert len(machine.parameters.port_names) == len(machine.parameters.ports)
    assert replace(machine.parameters, front=None).port_names == tuple(machine.parameters.ports)
