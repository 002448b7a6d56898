"""Critical paths, dependencies between iterations, and loads of ports, by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.bounds.components import Running
from analysis.loads import loads_of
from analysis.paths import critical_path, loop_carried
from results.ports import distribution, fullest
from tests.analysis.machine import bounds
from tests.nonempty import some


@pytest.mark.parametrize(
    ("text", "cycles", "lines"),
    [
        ("imul rax, rbx; imul rax, rcx", 6, [1, 2]),
        ("imul rax, rbx; imul rcx, rdx; imul rcx, rcx", 6, [2, 3]),
        ("mov rax, [rsi]; imul rax, rbx", 5 + 3, [1, 2]),
        ("nop", 0, []),
    ],
)
def test_the_critical_path_is_the_longest_in_one_iteration(text: str, cycles: int, lines: list[int]) -> None:
    found = bounds(text, Running.UNROLLED)
    path = critical_path(found)
    assert path.cycles == cycles
    assert [found.nodes[number].position + 1 for number in path.nodes] == lines


def test_all_dependencies_between_iterations_are_listed_the_slowest_first() -> None:
    found = bounds("imul rax, rbx; imul rcx, rax; add rsi, rdx; imul rcx, rcx; mov [rdi], rcx; mov rcx, [rdi]")
    carried = loop_carried(found)
    said = [(float(one.ratio), sorted({found.nodes[number].position + 1 for number in one.nodes})) for one in carried]
    assert said == [(11, [2, 4, 5, 6]), (3, [1]), (1, [3])]
    assert carried[0].ratio == found.cycle.ratio if found.cycle else False


def test_a_value_that_comes_back_in_a_later_iteration_counts_per_iteration() -> None:
    found = bounds("mov rax, [rdi]; mov [rdi+16], rax; add rdi, 8", Running.UNROLLED)
    ratios = {one.ratio for one in loop_carried(found)}
    assert Fraction(5, 2) in ratios


def test_osacas_even_distribution_beside_the_best_one() -> None:
    found = bounds("imul rax, rbx; vaddps xmm0, xmm1, xmm2; mov rcx, rdx; add r8, r9; add r10, r11", Running.UNROLLED)
    loads = loads_of(found)
    assert loads.best["1"] == 2
    assert loads.even["1"] == 1 + 1 + Fraction(2, 4)
    assert max(loads.even.values()) == Fraction(5, 2)
    assert sum(loads.best.values()) == sum(loads.even.values()) == 4
    assert loads.best_of[0] == {"1": 1}
    assert loads.even_of[3] == dict.fromkeys("0156", Fraction(1, 4))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.integers(1, 127), st.integers(1, 9), min_size=1, max_size=18))
def test_the_best_distribution_puts_every_uop_on_its_ports_and_overloads_none(uops: dict[int, int]) -> None:
    placed = distribution(uops)
    load: dict[int, Fraction] = {}
    for able, count in some(uops.items()):
        assert sum(placed[able].values()) == count
        assert all(bit & able for bit in placed[able])  # `placed[able]` has a port: its sum is positive
        for bit, part in placed[able].items():
            load[bit] = load.get(bit, Fraction(0)) + part
    highest, full = fullest(uops)
    assert max(load.values()) == highest
    assert {bit for bit, one in load.items() if one == highest} >= {bit for bit in load if bit & full}
