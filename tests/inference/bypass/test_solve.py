"""What rings tell of each direction: ranges hold the truth, and each end of a range is the truth of a like machine."""

from __future__ import annotations

from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.bypass.solve import ContradictionError, DelayRange, reference_of, solve
from tests.nonempty import some

Delays = dict[tuple[str, str], int]
MOST = 3
"""Cycles of a drawn delay."""


@st.composite
def delays(draw: st.DrawFn, least: int = 2, most: int = 6) -> Delays:
    labels = "ABCDEF"[: draw(st.integers(least, most))]
    return {pair: draw(st.integers(0, MOST)) for pair in permutations(labels, 2)}


def labels_of(truth: Delays) -> list[str]:
    return list(dict.fromkeys(producer for producer, _ in truth))


def rings(truth: Delays, reference: str) -> tuple[Delays, Delays]:
    """Return what rings of two and of three classes take."""
    labels = labels_of(truth)
    pairs = {(i, j): truth[i, j] + truth[j, i] for i, j in combinations(labels, 2)}
    others = [one for one in labels if one != reference]
    triples = {(i, j): truth[reference, i] + truth[i, j] + truth[j, reference] for i, j in combinations(others, 2)}
    return pairs, triples


def alike(truth: Delays) -> list[Delays]:
    """Return the delays of all machines whose rings take the same time, by trying."""
    first, *others = labels_of(truth)
    reach = range(-MOST, MOST + 1)
    found = []
    for values in product(reach, repeat=len(others)):
        phase = dict(zip([first, *others], (0, *values), strict=True))
        moved = {(i, j): cycles + phase[i] - phase[j] for (i, j), cycles in truth.items()}
        if min(moved.values()) >= 0:
            found.append(moved)
    return found


@given(delays(most=4), st.data())
def test_a_range_is_what_all_like_machines_have(truth: Delays, data: st.DataObject) -> None:
    labels = labels_of(truth)
    reference = data.draw(st.sampled_from(labels))
    found = solve(labels, *rings(truth, reference), reference)
    machines = alike(truth)
    for pair in some(truth):
        every = [machine[pair] for machine in machines]
        assert found[pair] == DelayRange(min(every), max(every))


@given(delays(), st.data())
def test_with_missing_rings_ranges_hold_the_truth(truth: Delays, data: st.DataObject) -> None:
    labels = labels_of(truth)
    reference = data.draw(st.sampled_from(labels))
    pairs, triples = rings(truth, reference)
    kept = [{pair: ring for pair, ring in some.items() if data.draw(st.booleans())} for some in (pairs, triples)]
    found = solve(labels, kept[0], kept[1], reference)
    assert {pair for pair in found if pair in kept[0]} == set(kept[0])
    wrong = {pair: one for pair, one in found.items() if not one.least <= truth[pair] <= one.most}
    assert wrong == {}


def test_a_delay_in_one_direction_is_told_by_a_third_class() -> None:
    truth = dict.fromkeys(permutations("ABC", 2), 0) | {("A", "B"): 2}
    for reference in "ABC":
        found = solve("ABC", *rings(truth, reference), reference)
        assert found == {pair: DelayRange(cycles, cycles) for pair, cycles in truth.items()}


def test_two_domains_are_not_told_apart_by_more_classes_of_them() -> None:
    truth = {
        (i, j): int((i.lower() in "ab" and j not in "ab") or (i not in "ab" and j in "ab"))
        for i, j in permutations("abxy", 2)
    }
    found = solve("abxy", *rings(truth, "a"), "a")
    assert found["a", "b"] == found["y", "x"] == DelayRange(0, 0)
    assert found["a", "x"] == found["y", "b"] == DelayRange(0, 2)


@pytest.mark.parametrize(
    ("pairs", "triples"),
    [
        ({("A", "B"): -1}, {}),
        # A to B and B to C and C to A take nothing, so all six are the ways back; their sum is another
        ({("A", "B"): 0, ("A", "C"): 0, ("B", "C"): 0}, {("B", "C"): 1}),
        ({("A", "B"): 0, ("A", "C"): 0, ("B", "C"): 1}, {("B", "C"): 2}),
    ],
)
def test_rings_that_no_delays_explain_are_refused(pairs: Delays, triples: Delays) -> None:
    with pytest.raises(ContradictionError):
        solve("ABC", pairs, triples, "A")


def test_the_reference_has_the_most_known_rings() -> None:
    assert reference_of("ABC", {("A", "B"): 1, ("B", "C"): 0}) == "B"
    assert reference_of("ABC", {}) == "A"
