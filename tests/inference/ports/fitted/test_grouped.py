"""A core that gives each port one µop per cycle issues instructions whole and in order."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.ports.fitted.grouped import IssuedInstruction, issue_cycles
from results.model import PortUsage
from results.ports import PortSet, joined, throughput_of

ALUS = frozenset("0123")
INSTRUCTIONS = {
    "A": IssuedInstruction(PortUsage.parse("1*p0123"), 1),
    "T": IssuedInstruction(PortUsage.parse("2*p0123"), 2),
    "S": IssuedInstruction(PortUsage.parse("1*p01"), 1),
    "B": IssuedInstruction(PortUsage.parse("1*p01+1*p0"), 2),
    "P": IssuedInstruction(PortUsage.parse("1*p0"), 1),
    "V": IssuedInstruction(PortUsage.parse("1*p5"), 1),
    "M": IssuedInstruction(PortUsage.parse("9*p0123"), 9),
    "N": IssuedInstruction(PortUsage({}), 1),
}
CODE = st.lists(st.sampled_from("ATSBPVMN"), min_size=1, max_size=8).map("".join)


def cycles_of(text: str) -> Fraction:
    return issue_cycles([INSTRUCTIONS[one] for one in text], 6, ALUS)


@pytest.mark.parametrize(
    ("code", "cycles"),
    [
        # TZCNT (T) and ANDN (A), measured on a Zen 3: 1.00, 1.01, 1.33, 1.51, 1.49, 2.00, 2.03, 2.50
        ("TA", 1),
        ("TAA", 1),
        ("TAAA", Fraction(4, 3)),
        ("TAAAA", Fraction(3, 2)),
        ("TTA", Fraction(3, 2)),
        ("TTTA", 2),
        ("TTTAA", 2),
        ("TTTTA", Fraction(5, 2)),
        ("SB", 2),  # BTC and SHR: 2.00
        ("AAAAVV", 1),
        ("NNNNNNNNN", Fraction(3, 2)),
        ("M", 3),
    ],
)
def test_how_long_code_is_issued(code: str, cycles: Fraction) -> None:
    assert cycles_of(code) == cycles


@given(CODE)
def test_groups_are_those_of_a_walk_through_the_cycles(code: str) -> None:
    assert float(cycles_of(code)) == pytest.approx(walked(code), rel=0.02)


def walked(code: str) -> float:
    """Return the cycles of a copy, by looking for a port for each µop in each of many cycles."""
    copies, cycles, slots = 200, 0, 6
    taken: list[PortSet] = []
    for one in (INSTRUCTIONS[name] for name in code * copies):
        sets = [ports for ports, count in one.usage.uops.items() for _ in range(count) if ports <= ALUS]
        if slots + one.slots > 6 or not have_ports([*taken, *sets]):
            cycles, slots, taken = cycles + 1, 0, []
        slots, taken = slots + one.slots, [*taken, *sets]
        if len(sets) > len(ALUS):
            cycles, slots, taken = cycles + 2, 6, []
    return cycles / copies


def have_ports(sets: list[PortSet]) -> bool:
    """Whether each of these µops can have a port of its own."""
    orders = permutations(sorted(ALUS), len(sets))
    return any(all(port in one for port, one in zip(order, sets, strict=True)) for order in orders)


@given(CODE)
def test_it_is_never_issued_faster_than_its_slots_and_ports_allow(code: str) -> None:
    usage = PortUsage({})
    for one in code:
        usage = joined(usage, INSTRUCTIONS[one].usage)
    own = PortUsage({ports: count for ports, count in usage.uops.items() if ports <= ALUS})
    assert cycles_of(code) >= max(throughput_of(own), Fraction(sum(INSTRUCTIONS[one].slots for one in code), 6))


def test_without_such_ports_slots_alone_count() -> None:
    assert issue_cycles([INSTRUCTIONS[one] for one in "TA"], 6) == Fraction(1, 2)
