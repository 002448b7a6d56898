"""The table of producers that carry a chain: each row can be used, and reads what it writes."""

from __future__ import annotations

import pytest

from generator.factory import InstructionFactory
from generator.operands.places import Place
from generator.support.carriers import ADDRESS, Carried, carried_place, carriers, fitting
from results.model import LatencyPart
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

REGISTERS = {"R": "RCX", ADDRESS: "R14", "K": "K3", "MMX": "MM3", "X87": "ST(0)"}


@pytest.fixture(scope="module")
def instructions() -> InstructionFactory:
    return InstructionFactory(Catalogue.load())


@pytest.mark.parametrize(("place", "register"), REGISTERS.items())
def test_every_row_has_code_for_a_register(place: str, register: str, instructions: InstructionFactory) -> None:
    carried = Carried(register, place, 1, "R12")
    for role in ("producer", "reader"):
        for row in some(carriers(place, role), 2):
            assert row.lines(instructions, carried)
            row.lines(instructions, carried, setup=True)


def test_code_of_carriers(instructions: InstructionFactory) -> None:
    carried = Carried("RCX", "R", 0x1FF, "R12")
    code = {row.name: [line.text for line in row.lines(instructions, carried)] for row in carriers("R", "producer")}
    assert code["add_imm"] == ["NEG RCX", "NOT RCX", "ADD RCX, 1"]
    assert code["load32"] == ["{store} AND RCX, R13", "MOV ECX, dword ptr [R14+RCX+0x480]"]
    assert code["mov_imm8"] == ["MOV CL, -1"]
    base = Carried("RSI", ADDRESS, 1, "R12")
    code = {row.name: [line.text for line in row.lines(instructions, base)] for row in carriers(ADDRESS, "producer")}
    assert code["load64"] == ["MOV RSI, qword ptr [RSI+0x480]"]


def test_an_index_points_nowhere() -> None:
    """A load by base and index may take longer than one by a base, which readers show."""
    source = place("ADDR", "R13", LatencyPart.ADDRESS_INDEX)
    names = {one.name for one in fitting(source, Carried("R13", ADDRESS, 0, "R12", index=True), restored=False)}
    assert names == {one.name for one in carriers(ADDRESS, "producer")} - {"load64"}


def place(node: str, register: str, part: LatencyPart = LatencyPart.NONE) -> Place:
    return Place(1, part, register, register, node)


def test_places_of_inputs() -> None:
    assert carried_place(place("R64", "RBX")) == "R"
    assert carried_place(place("R64", "RBX", LatencyPart.ADDRESS)) == "R"  # LEA: RBX holds any value
    assert carried_place(place("R64", "R14", LatencyPart.ADDRESS)) == ADDRESS
    assert carried_place(place("ADDR", "R14", LatencyPart.ADDRESS)) == ADDRESS
    assert carried_place(place("R64", "RSP")) == ""
    assert carried_place(place("V128", "XMM1")) == ""


def test_a_part_carries_nothing_where_only_that_part_is_read() -> None:
    carried = Carried("RCX", "R", 1 << 40, "R12")
    assert "mov_imm8" in {one.name for one in fitting(place("R32", "RCX"), carried, restored=False)}
    assert "mov_imm8" not in {one.name for one in fitting(place("R8", "RCX"), carried, restored=False)}


def test_a_value_that_has_to_stay_is_not_cut_to_32_bits() -> None:
    carried = Carried("RCX", "R", 1 << 40, "R12")
    names = {one.name for one in fitting(place("R64", "RCX"), carried, restored=True)}
    assert names >= {"alu64", "load64"}
    assert not names & {"alu32", "load32"}
