"""Mixes of independent instructions: parts share no register, and loads and stores no place."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest

from generator.factory import InstructionFactory
from generator.operands.effects import effects_of
from generator.operands.reserved import harness_registers
from generator.sequences.blocking import is_chained
from generator.sequences.mixes import MixPart, mix, turns
from tests.inference.simulated import catalogue
from tests.nonempty import some
from xed_convert.encoding.decoder import Decoder
from xed_convert.model import Instance, MemoryAddress


def instances_of(counts: dict[str, int], subject: str = "") -> list[Instance]:
    """Return the instances of a mix, as its code is decoded."""
    parts = [MixPart(catalogue().by_string(name), count) for name, count in counts.items()]
    code = mix(InstructionFactory(catalogue()), parts, catalogue().by_string(subject) if subject else None)
    decoder = Decoder(catalogue())
    found = [decoder.decode(line.code) for line in code.body]
    return [Instance(one.variant, one.values) for one in found]


@pytest.mark.parametrize("fixed", ["CDQ", "MUL (R64)", "SHL (R64, CL)"])
def test_no_part_uses_registers_that_another_one_is_fixed_to(fixed: str) -> None:
    name = catalogue().by_string(fixed).iclass
    found = instances_of({"ANDN (R64, R64, R64)": 8, fixed: 6})
    parts = [some([one for one in found if (one.variant.iclass == name) == is_fixed]) for is_fixed in (True, False)]
    for writers, readers in some(list(permutations(parts))):
        written = set[str]().union(*(effects_of(one).writes for one in writers))
        read = set[str]().union(*(effects_of(one).inputs for one in readers))
        assert not {one for one in written & read if one.startswith("R")} - harness_registers()


OTHERS: list[dict[str, int]] = [{}, {"ANDN (R64, R64, R64)": 8}, {"ANDN (R64, R64, M64)": 6, "RORX (R64, R64, I8)": 9}]


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("name", ["CMOVZ (R64, R64)", "IMUL (R64, R64)", "BSF (R64, R64)"])
def test_turns_are_how_often_an_instance_that_waits_for_itself_stands(name: str, others: dict[str, int]) -> None:
    counts = {name: 30, **others}
    found = Counter((one.variant.string, next(iter(one.values.values()))) for one in instances_of(counts))
    parts = [MixPart(catalogue().by_string(string), count) for string, count in counts.items()]
    assert turns(parts)[0] == max(count for (each, _), count in found.items() if each == name)


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("ADD_01 (R64, R64)", True),
        ("CMOVZ (R64, R64)", True),
        ("BSF (R64, R64)", True),
        ("ANDN (R64, R64, R64)", False),
        ("MOV (R64, M64)", False),
        ("CMP_39 (R64, R64)", False),
    ],
)
def test_what_keeps_its_result_on_a_condition_waits_for_it(name: str, waits: bool) -> None:
    assert is_chained(catalogue().by_string(name)) == waits


def places(instances: list[Instance], iclass: str) -> list[int]:
    """Return the displacements of the memory operands of one class's instances."""
    return [
        value.displacement
        for one in instances
        if one.variant.iclass == iclass
        for value in one.values.values()
        if isinstance(value, MemoryAddress)
    ]


def test_loads_use_places_side_by_side_in_one_line() -> None:
    found = instances_of({"MOV (R64, M64)": 8, "IMUL (R64, R64)": 4}, "ADD (R64, M64)")
    used = sorted({*places(found, "MOV")})
    assert used == [8 * number for number in range(len(used))]
    assert 4 <= len(used) <= 8
    assert places(found, "ADD") == [0]


def test_loads_among_stores_have_another_line() -> None:
    found = instances_of({"VMOVAPS (XMM, M128)": 4, "MOV (M64, R64)": 8})
    loads, stores = places(found, "VMOVAPS"), places(found, "MOV")
    assert len({*loads}) == 4
    assert len({place // 64 for place in loads}) == 1
    assert not {place // 64 for place in loads} & {place // 64 for place in some(stores)}
