"""The slowest cycle of dependencies, against all cycles of small graphs."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.bounds.components import Component, Running
from analysis.bounds.dependencies import (
    Cycle,
    CycleSearch,
    Edge,
    Node,
    search_slowest,
    slowest_cycle,
    synchronizations,
)
from tests.analysis.machine import bounds

if TYPE_CHECKING:
    from collections.abc import Sequence


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(1, 5))
    nodes = [Node(number, (), []) for number in range(count)]
    for _ in range(draw(st.integers(0, 9))):
        source, target = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        least = 0 if source < target else 1
        nodes[target].edges.append(Edge(source, draw(st.integers(0, 9)), draw(st.integers(least, 2))))
    return nodes


def highest_ratio(nodes: list[Node]) -> Fraction:
    """Try every circle of different nodes."""
    best = Fraction(0)
    for length in range(1, len(nodes) + 1):
        for around in permutations(range(len(nodes)), length):
            best = max([best, *(Fraction(cycles, iterations) for cycles, iterations in sums_around(nodes, around))])
    return best


def sums_around(nodes: list[Node], around: Sequence[int]) -> set[tuple[int, int]]:
    """Return cycles and iterations of a circle through these nodes, by every choice among parallel edges."""
    sums = {(0, 0)}
    for source, target in zip(around, (*around[1:], around[0]), strict=True):
        edges = [edge for edge in nodes[target].edges if edge.source == source]
        sums = {(c + edge.cycles, i + edge.iterations) for c, i in sums for edge in edges}
    return sums


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_no_circle_is_slower(nodes: list[Node]) -> None:
    found = slowest_cycle(nodes)
    assert (found.ratio if found is not None else 0) == highest_ratio(nodes)
    assert found is None or (found.cycles, found.iterations) in sums_around(nodes, found.nodes)


@settings(max_examples=200, deadline=None)
@given(graphs(), st.integers(0, 60))
def test_a_search_that_is_given_up_says_so(nodes: list[Node], edges: int) -> None:
    found = search_slowest(nodes, edges)
    ratio = found.cycle.ratio if found.cycle is not None else 0
    assert ratio == highest_ratio(nodes) if found.complete else ratio <= highest_ratio(nodes)


def test_a_search_without_edges_to_look_at_finds_nothing_and_says_so() -> None:
    around = [Node(0, ("RAX",), [Edge(0, 3, 1)])]
    assert not search_slowest(around, 0).complete
    assert search_slowest(around, 100) == CycleSearch(Cycle((0,), 3, 1), complete=True)


@pytest.mark.parametrize(
    ("text", "cycles", "iterations"),
    [
        ("imul rax, rbx", 3, 1),
        ("imul rax, rbx; imul rax, rcx", 6, 1),
        ("xor eax, eax; imul rax, rbx", 0, 0),
        ("add rax, rbx; cmovz rbx, rcx", 3, 1),  # through a flag
        ("mov rax, [rax]", 4, 1),  # a pointer out of a load
        ("mov rax, [rax+rbx]", 5, 1),
        ("mov rax, [rax+0x1000]", 5, 1),
        ("mov [rdi], rax; mov rax, [rdi]", 5, 1),
        ("add [rdi], rax", 6, 1),
        ("mov rax, [rdi]; mov [rdi+16], rax; add rdi, 8", 5, 2),
        ("mov rax, rbx; mov rbx, rax", 0, 0),  # eliminated
        ("vfmadd213pd ymm0, ymm1, ymm2", 5, 1),
        ("push rax; pop rbx", 0, 0),
    ],
)
def test_dependencies_of_instructions(text: str, cycles: int, iterations: int) -> None:
    found = bounds(text, Running.UNROLLED)
    assert found.cycles_of[Component.DEPENDENCIES] == (Fraction(cycles, iterations) if iterations else 0)
    assert (found.cycle is None) == (cycles == 0)


def test_a_load_of_more_than_was_stored_waits_longer() -> None:
    whole, part = (
        bounds(f"mov [rdi], {name}; mov rax, [rdi]").cycles_of[Component.DEPENDENCIES] for name in ("rax", "eax")
    )
    assert part == whole + 11


def test_a_load_that_is_not_forwarded_waits_for_all_that_retires_before_the_store() -> None:
    text = "mov [rdi], ecx; mov rax, [rdi]"
    assert bounds(text).cycles_of[Component.DEPENDENCIES] == 5 + 11  # although nothing depends on what is loaded


@pytest.mark.parametrize(
    ("text", "positions", "cycles"),
    [
        ("push rax; pop rbx", set(), 0),
        ("push rax; mov rbx, [rsp+8]", {1}, 1),
        ("add rsp, rdx; pop rax", {0}, 2),
        ("add rsp, rdx; pop rax; mov rbx, [rsp]; mov rcx, [rsp]", {2}, 2),
        ("add rsp, rdx; mov rbx, [rsp]", set(), 1),
    ],
)
def test_the_stack_pointer_is_brought_up_to_date_where_it_is_used(text: str, positions: set[int], cycles: int) -> None:
    found = bounds(text)
    assert synchronizations(found.block, None) == positions
    assert found.cycles_of[Component.DEPENDENCIES] == cycles
