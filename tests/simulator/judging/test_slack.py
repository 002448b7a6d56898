"""Machines that nothing tells apart: what is taken for granted about them, and what is said."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.chains.links import VECTOR_NODES, links
from generator.errors import AllocationError
from generator.operands.allocation import Allocator
from results.machine.graph import Endpoint, Uop
from results.model import Bound, LatencyResult
from runner.backends.sim import SimBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session
from simulator.core.compiler import compile_instruction
from simulator.judging.slack import Slack, Standing, file_of, file_of_location, standing
from simulator.machines.machine import MachineModel
from simulator.machines.shipped import load_machine
from tests.inference.lab import Lab
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from results.machine.graph import Behaviour
    from xed_convert.model import InstructionVariant

MOVED = (
    "VMOVQ (XMM, R64)",
    "VMOVQ (R64, XMM)",
    "VMOVMSKPS (R32, XMM)",
    "VPINSRQ (XMM, XMM, R64, I8)",
    "VPEXTRQ (R64, XMM, I8)",
    "VCVTSI2SD (XMM, XMM, R64)",
    "VCVTSD2SI (R64, XMM)",
    "VPTEST (XMM, XMM)",
)
"""Instructions between vectors and other files, of 1 to 6 cycles."""

LINKS = tuple(
    string
    for link in links()
    if "R64" in {link.source, link.target} and {link.source, link.target} & VECTOR_NODES
    for string, _ in link.lines
)
"""What their chains are closed by."""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def files(variant: InstructionVariant, uop: Uop) -> tuple[set[str], set[str]]:
    read = {file_of(variant, one) for one in uop.inputs if isinstance(one, Endpoint)}
    return read, {file_of(variant, one) for one in uop.outputs}


def later_in_vectors(variant: InstructionVariant, behaviour: Behaviour) -> Behaviour:
    """Return what a variant does where vectors come out a cycle later, and are needed a cycle after the dispatch.

    Its first µop reads all that it reads, as everywhere in the models but for memory.
    """
    first, *others = behaviour.uops
    read = files(variant, first)[0]
    written = {file for uop in behaviour.uops for file in files(variant, uop)[1]}
    if "ZMM" not in written:
        return replace(behaviour, uops=(replace(first, latency=first.latency - 1), *others))
    if "ZMM" not in read:
        return replace(behaviour, uops=(replace(first, latency=first.latency + 1), *others))
    late = tuple(one for one in first.inputs if isinstance(one, Endpoint) and file_of(variant, one) != "ZMM")
    rest = tuple(one for one in first.inputs if one not in late)
    delayed = (Uop(frozenset(), 1, late), replace(first, inputs=(0, *rest)), *map(renumbered, others))
    return replace(behaviour, uops=delayed)


def renumbered(uop: Uop) -> Uop:
    return replace(uop, inputs=tuple(one + 1 if isinstance(one, int) else one for one in uop.inputs))


def delayed(machine: MachineModel) -> MachineModel:
    """Return a machine on which vectors come out a cycle later, as far as the instructions above are concerned."""

    def lookup(variant: InstructionVariant) -> Behaviour | None:
        behaviour = machine.behaviour(variant)
        return later_in_vectors(variant, behaviour) if behaviour and variant.string in cross_domain else behaviour

    cross_domain = {*MOVED, *LINKS}
    return MachineModel("delayed", machine.parameters, machine.origin, lookup)


def test_inference_finds_the_same_on_an_indistinguishable_machine(catalogue: Catalogue) -> None:
    """All latencies into vectors are a cycle more there and those out of them one less; that is a machine, too."""
    lab, other = Lab(catalogue, "SKX"), Lab(catalogue, "SKX")
    shifted = delayed(lab.model)
    other.session = Session(Measurer(SimBackend(shifted, catalogue)), limits=Limits(keep_raw=False))
    found, found_on_other = lab.infer(MOVED), other.infer(MOVED)
    slack = Slack(lab.model, catalogue)
    for string in MOVED:
        variant = catalogue.by_string(string)
        truth = lab.model.truth(variant)
        assert truth.latencies != shifted.truth(variant).latencies, string
        assert found[string].latencies == found_on_other[string].latencies, string
        for one in found[string].latencies:
            free = standing(slack, variant, truth, one) is not Standing.TELLABLE
            assert free == (one.bound is Bound.UPPER), string
        assert any(one.bound is Bound.UPPER for one in found[string].latencies), string


@pytest.mark.parametrize("name", ["HSW", "SPR"])
def test_every_place_is_read_and_written_as_part_of_one_file(catalogue: Catalogue, name: str) -> None:
    """Were it not so a delayed machine would be none: a value would come out later than it is needed."""
    machine = load_machine(name)
    seen = 0
    for variant in list(catalogue)[::7]:
        behaviour = machine.behaviour(variant)
        try:
            values = Allocator().instance(variant).values
        except AllocationError:
            continue
        if behaviour is None:
            continue
        compiled = compile_instruction(variant, values, machine)
        assert compiled.uops is not None
        for uop, placed in zip(behaviour.uops, compiled.uops, strict=True):
            read, written = files(variant, uop)
            found = {file_of_location(place) for place in (*placed.reads, *placed.writes)}
            assert found <= read | written, variant.string
            seen += bool(found)
    assert seen > 500


def result(source: int, destination: int, cycles: int) -> LatencyResult:
    return LatencyResult(source, destination, Fraction(cycles), Bound.UPPER, "")


@pytest.mark.parametrize(
    ("name", "string", "found", "wanted"),
    [
        # 1 there, 2 back on Skylake: a machine with 2 and 1 is the same; 1 and 1 on Haswell leave nothing
        ("SKX", "VMOVQ (XMM, R64)", result(2, 1, 2), Standing.LEAST),
        ("SKX", "VMOVQ (XMM, R64)", result(2, 1, 3), Standing.FREE),
        ("SKX", "VMOVQ (R64, XMM)", result(2, 1, 2), Standing.LEAST),
        ("HSW", "VMOVQ (XMM, R64)", result(2, 1, 1), Standing.TELLABLE),
        ("HSW", "ADC_11 (R64, R64)", result(2, 1, 2), Standing.TELLABLE),
        ("HSW", "POP (R64)", result(2, 1, 5), Standing.LEAST),
    ],
)
def test_what_an_upper_bound_is_worth(
    catalogue: Catalogue, name: str, string: str, found: LatencyResult, wanted: Standing
) -> None:
    machine = load_machine(name)
    variant = catalogue.by_string(string)
    assert standing(Slack(machine, catalogue), variant, machine.truth(variant), found) is wanted


def test_a_quicker_way_back_leaves_less_slack(catalogue: Catalogue) -> None:
    machine = load_machine("SKX")
    back = catalogue.by_string("VMOVQ (R64, XMM)")

    def quicker(variant: InstructionVariant) -> Behaviour | None:
        behaviour = machine.behaviour(variant)
        if variant is not back or behaviour is None:
            return behaviour
        return replace(behaviour, uops=tuple(replace(uop, latency=1) for uop in behaviour.uops))

    other = MachineModel("other", machine.parameters, machine.origin, quicker)
    assert Slack(machine, catalogue).more("R", "ZMM") == 1
    assert Slack(other, catalogue).more("R", "ZMM") == 0
    assert Slack(machine, catalogue).less("R", "ZMM") == Slack(machine, catalogue).more("ZMM", "R") == 0
