"""Filler has the lengths that are asked for, and padded lines are the same instructions."""

from __future__ import annotations

from functools import cache

import pytest

from generator.factory import InstructionFactory
from generator.sequences.filler import MOVE, NOP, SlotFiller, as_filler, padded
from generator.sequences.mixes import MixPart, mix
from tests.inference.simulated import catalogue
from xed_convert.encoding.decoder import Decoder


@cache
def decoder() -> Decoder:
    return Decoder(catalogue())


@pytest.mark.parametrize("length", range(3, 16))
def test_a_padded_line_is_the_same_instruction_and_as_long_as_asked(length: int) -> None:
    line = InstructionFactory(catalogue()).line(MOVE, "RDX", "RBX")
    found = decoder().decode(padded(line, length).code)
    plain = decoder().decode(line.code)
    assert (found.length_bytes, found.variant, found.values) == (length, plain.variant, plain.values)


@pytest.mark.parametrize(("string", "shortest"), [(MOVE, 2), (NOP, 1)])
def test_filler_takes_the_place_of_code_line_by_line(string: str, shortest: int) -> None:
    """Moves take the place of a single byte, too: on a Zen 4, a NOP takes no slot behind a move."""
    instructions = InstructionFactory(catalogue())
    parts = [("ADD_01 (R32, R32)", 2), ("IMUL (R64, R64)", 3), ("CLC", 2), ("TEST (R64, I32)", 2)]
    code = mix(instructions, [MixPart(catalogue().by_string(name), count) for name, count in parts])
    twin = as_filler(instructions, SlotFiller(string, 5), code)
    assert {len(line.code) for line in code.body} == {1, 2, 4, 7}
    assert [len(line.code) for line in twin.body] == [max(shortest, len(line.code)) for line in code.body]
    assert {decoder().decode(line.code).variant.iclass for line in twin.body} == {string[:3]}


def test_parts_of_a_mix_are_padded() -> None:
    instructions = InstructionFactory(catalogue())
    code = mix(instructions, [MixPart(catalogue().by_string(MOVE), 6, 5), MixPart(catalogue().by_string("CLC"), 2)])
    assert sorted(len(line.code) for line in code.body) == [1, 1, *[5] * 6]
