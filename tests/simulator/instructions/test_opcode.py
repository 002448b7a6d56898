"""What the front end reads in the bytes of an instruction."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from results.machine.constants import core_of
from results.machine.graph import Behaviour, Decoding, Uop
from simulator.core.frontend import Frontend
from simulator.instructions.opcode import opcode_offset
from simulator.machines.machine import MachineModel, Origin, Parameters
from tests.simulator.programs import catalogue
from xed_convert.encoding.decoder import Decoder


@cache
def frontend() -> Frontend:
    """Of a machine on which every instruction is one µop."""
    core = core_of("HSW")
    one = Behaviour((Uop(frozenset(), 1, ()),), 1, decoding=Decoding(1))
    parameters = replace(Parameters.of(core), front=core)
    machine = MachineModel("HSW", parameters, Origin("a test", "none"), lambda _: one)
    return Frontend(machine, Decoder(catalogue()))


@pytest.mark.parametrize(
    ("code", "offset"),
    [
        ("01c0", 0),  # ADD EAX, EAX
        ("4801c0", 1),  # REX
        ("6601c0", 1),  # operand size
        ("f2480f2ac0", 3),  # CVTSI2SD: F2, REX, 0F
        ("660f3800c1", 3),  # PSHUFB: 66 0F 38
        ("c5f058c2", 2),  # VEX of two bytes
        ("67c5f05802", 3),  # address size before VEX
        ("c4e2f1b8c2", 3),  # VEX of three bytes
        ("62f17c4858c1", 4),  # EVEX
        ("90", 0),
        ("", 0),
    ],
)
def test_the_opcode_is_behind_prefixes_and_escape_bytes(code: str, offset: int) -> None:
    assert opcode_offset(bytes.fromhex(code)) == offset


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("6681c13412", True),  # ADD CX, 0x1234
        ("6683c112", False),  # ADD CX, 0x12: the immediate has 8 bits with and without the prefix
        ("81c134120000", False),  # ADD ECX, 0x1234
        ("6601c1", False),  # ADD CX, AX
        ("c20800", False),  # RET 8: 16 bits without the prefix
    ],
)
def test_a_prefix_66_before_an_immediate_of_16_bits_changes_the_length(code: str, expected: bool) -> None:
    one = frontend().at(bytes.fromhex(code), 0)
    assert one.fetched is not None
    assert one.fetched.length_changing == expected


def test_the_first_decoder_alone_takes_a_pop_of_the_stack_pointer_or_r12() -> None:
    pop, pop_r12 = (frontend().at(bytes.fromhex(code), 0).fetched for code in ("58", "415c"))
    assert pop is not None
    assert pop_r12 is not None
    assert not pop.decoding.complex
    assert (pop_r12.decoding.complex, pop_r12.decoding.simple) == (True, 0)
    assert (pop_r12.sizes_bytes, pop_r12.opcode_offsets) == ((2,), (1,))
