"""Upper bounds from one kind of register to another, and the parts of a round trip in their place."""

from __future__ import annotations

from functools import cache

import pytest

from results.database.reader import ArchitectureResult, LatencyRow
from results.machine.facts import Cycles, LatencyPair, VariantFacts
from results.machine.file import MachineFile, read_machine
from results.machine.round_trips import RegisterWay, corrections, with_round_trips
from results.model import LatencyPart
from results.shipped import shipped_database
from tests.inference.simulated import catalogue

TO_GENERAL = RegisterWay("vector", "general", is_legacy=False)
TO_VECTOR = TO_GENERAL.back


@cache
def zen_4() -> MachineFile:
    return read_machine(shipped_database(), "ZEN4")


def bound(source: int, target: int, cycles: int) -> ArchitectureResult:
    row = LatencyRow(source, target, {"cycles": str(cycles), "cycles_is_upper_bound": "1"})
    return ArchitectureResult("ZEN4", {}, (row,))


def corrected(*rows: tuple[str, int, int, int]) -> dict[RegisterWay, int]:
    return corrections((catalogue().by_string(string), bound(*pair)) for string, *pair in rows)


@pytest.mark.parametrize(("there", "back"), [(5, 5), (4, 4), (6, 6), (1, 1)])
def test_the_parts_of_the_quickest_round_trip_are_its_sum(there: int, back: int) -> None:
    longer = corrected(("VMOVQ (R64, XMM)", 2, 1, there), ("VMOVQ (XMM, R64)", 2, 1, back))
    assert there - longer[TO_GENERAL] + back - longer[TO_VECTOR] == there + 1


def test_only_instructions_that_come_back_without_memory_tell_the_quickest_one() -> None:
    out, home = ("VMOVQ (R64, XMM)", 2, 1, 5), ("VMOVQ (XMM, R64)", 2, 1, 5)
    assert corrected(out) == {}  # nothing is known of the way back
    assert corrected(out, home, ("VCOMISD (XMM, M64)", 1, 3, 2)) == corrected(out, home)
    assert corrected(("MOVQ (XMM, R64)", 2, 1, 6), out) == {}  # SSE's are measured with each other


def test_what_is_longer_than_the_quickest_stays_longer() -> None:
    variant = catalogue().by_string("VCVTTSD2SI (R64, XMM)")
    pair, address = LatencyPair(2, LatencyPart.NONE, 1), LatencyPair(2, LatencyPart.ADDRESS, 1)
    facts = VariantFacts({}, {pair: Cycles(8, 8, bounded=True), address: Cycles(8, 8, bounded=True)})
    found = with_round_trips(variant, facts, {TO_GENERAL: 2, TO_VECTOR: 2}).latencies
    assert found == {pair: Cycles(6, 6), address: Cycles(8, 8, bounded=True)}
    exact = VariantFacts({}, {pair: Cycles(8, 8)})
    assert with_round_trips(variant, exact, {TO_GENERAL: 2}) == exact


@pytest.mark.parametrize(
    ("there", "back", "cycles"),
    [
        ("VMOVQ (R64, XMM)", "VMOVQ (XMM, R64)", 6),
        ("VCVTTSD2SI (R64, XMM)", "VCVTSI2SD (XMM, XMM, R64)", 12),
        ("VPEXTRB (R32, XMM, I8)", "VPINSRB (XMM, XMM, R32, I8)", 10),
        ("KMOVD (R32, K)", "KMOVD (K, R32)", 9),
        ("VPMOVM2D (XMM, K)", "VPMOVD2M (K, XMM)", 4),
    ],
)
def test_round_trips_of_a_zen_4_take_as_long_as_measured(there: str, back: str, cycles: int) -> None:
    """Cycles of rows of both on an EPYC (19-11-1), by `uopscope measure --blocks`."""
    for machine in (zen_4(), zen_4().with_shortest_latencies()):
        facts = [machine.facts(catalogue().by_string(string)) for string in (there, back)]
        ways = [
            one.cycles
            for known in facts
            if known is not None
            for pair, one in known.latencies.items()
            if pair.source > 1 and pair.target == 1
        ]
        assert max(ways[:1]) + max(ways[1:]) == cycles
