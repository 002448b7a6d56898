"""The table of producers: every row can be used, and two at least can be compared with each other."""

from __future__ import annotations

import pytest

from generator.factory import InstructionFactory
from generator.support.producers import UPPERS, Produced, fitting, producers
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

REGISTERS = {"R": "RCX", "XMM": "XMM3", "V128": "XMM3", "V256": "YMM3", "V512": "ZMM3", "K": "K3"}


@pytest.fixture(scope="module")
def instructions() -> InstructionFactory:
    return InstructionFactory(Catalogue.load())


@pytest.mark.parametrize(("place", "register"), REGISTERS.items())
def test_every_row_has_code_for_a_register(place: str, register: str, instructions: InstructionFactory) -> None:
    produced = Produced(2, register, place, 1, 1)
    rows = some(producers(place), 2)
    assert fitting(place, [produced]) == tuple(rows)
    for row in some(rows):
        assert row.lines(instructions, produced.tokens)
        row.lines(instructions, produced.tokens, setup=True)


def test_code_of_producers(instructions: InstructionFactory) -> None:
    produced = Produced(3, "RCX", "R", 2, 9)
    code = {row.name: [line.text for line in row.lines(instructions, produced.tokens)] for row in producers("R")}
    assert code["add_imm"] == ["MOV ECX, 8", "ADD RCX, 1"]
    assert code["lea"] == ["MOV ECX, 8", "LEA RCX, [RCX+1]"]
    assert code["load32"] == ["MOV ECX, dword ptr [R14+0x500]"]
    assert code["zero_idiom"] == ["{store} XOR ECX, ECX"]


def test_values_that_are_no_immediates_have_fewer_producers() -> None:
    names = {row.name for row in fitting("R", [Produced(3, "RCX", "R", 0, 1 << 40)])}
    assert names >= {"load64", "alu64"}
    assert not names & {"mov_imm32", "mov_imm64", "add_imm", "inc", "lea", "mov_imm8"}


def test_uppers_are_compared_with_clean_ones(instructions: InstructionFactory) -> None:
    code = {row.name: [line.text for line in row.lines(instructions, {"FREE256": "YMM9"})] for row in producers(UPPERS)}
    assert code == {"dirty_uppers": ["VORPS YMM9, YMM9, YMM9"], "clean_uppers": ["VZEROUPPER"]}
