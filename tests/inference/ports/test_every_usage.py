"""Usages that agree with everything are found: all of them, or another one than the given one if there is one."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.ports.alone.isolation import Isolated
from inference.ports.alone.layout import PortLayout
from inference.ports.usages.every_usage import another_usage, every_usage, subsets_of
from inference.ports.usages.hypotheses import Answer, HypothesisSpace
from results.model import PortUsage

PORTS = frozenset("012")
SETS = subsets_of(PORTS)

layouts = st.sampled_from([("p0", "p1", "p2"), ("p01", "p2"), ("p0", "p12"), ("p012",)]).map(PortLayout.of)
twelfths = st.integers(0, 36).map(lambda count: Fraction(count, 12))
answers = st.builds(Answer, st.integers(0, 4), st.booleans())


@st.composite
def spaces(draw: st.DrawFn) -> HypothesisSpace:
    """Draw what was measured, whether any usage agrees with it or not."""
    layout = draw(layouts)
    total = draw(st.integers(1, 4))
    uops = {name: draw(twelfths) for name in layout.counters}
    isolated = Isolated(uops, draw(twelfths), total)
    known = draw(st.dictionaries(st.sampled_from(SETS), answers, max_size=3))
    return HypothesisSpace(layout, isolated, tuple(SETS), known)


@settings(max_examples=300)
@given(spaces())
def test_what_is_listed_is_all_that_agrees(space: HypothesisSpace) -> None:
    tried = combinations_with_replacement(SETS, space.isolated.total)
    every = [PortUsage(dict(Counter(sets))) for sets in tried]
    found = every_usage(space, SETS)
    assert found.complete
    listed = sorted(map(str, found.usages))
    assert listed == sorted(str(usage) for usage in every if space.agrees(usage))


@settings(max_examples=300)
@given(spaces())
def test_another_usage_is_found_if_and_only_if_one_agrees(space: HypothesisSpace) -> None:
    listed = every_usage(space, SETS).usages
    found = [another_usage(space, usage, SETS) for usage in listed]
    assert [other in listed for other in found] == [len(listed) > 1] * len(listed)
    assert [other == usage for other, usage in zip(found, listed, strict=True)] == [False] * len(listed)
