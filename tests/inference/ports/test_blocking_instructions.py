"""Which of two blocking instructions is better."""

from __future__ import annotations

from fractions import Fraction

from inference.ports.blocking_instructions import BlockingInstruction
from results.model import PortUsage
from tests.inference.simulated import catalogue


def load(string: str, cycles: Fraction, code_bytes: int) -> BlockingInstruction:
    ports = frozenset("23")
    usage = PortUsage({ports: 1})
    return BlockingInstruction(ports, catalogue().by_string(string), usage, cycles, Fraction(code_bytes))


def test_the_faster_one_is_better_and_of_equals_the_one_with_less_to_decode() -> None:
    half = Fraction(1, 2)
    short, long = load("MOV (R64, M64)", half, 7), load("VMOVAPS (XMM, M128)", half * Fraction(1001, 1000), 9)
    slow = load("MOV (R32, M32)", Fraction(1), 6)
    assert short.is_better_than(long)
    assert not long.is_better_than(short)
    assert long.is_better_than(slow)
    assert not slow.is_better_than(long)
