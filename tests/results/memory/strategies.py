"""Random reports about memory."""

from fractions import Fraction

from hypothesis import strategies as st

from results.memory.model import (
    AccessSize,
    Addressing,
    Chased,
    ForwardingMatrix,
    ForwardingOutcome,
    ForwardingRow,
    LineCrossing,
    MeasuredLevel,
    MemoryReport,
    Replacement,
    Time,
)
from results.model import Provenance
from tests.results.strategies import names

words = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12).map(str.strip)
hundredths = st.integers(0, 10_000).map(lambda number: Fraction(number, 100))
provenances = st.builds(
    Provenance,
    *[words.map(lambda text: text.replace(";", "").replace("=", ""))] * 8,
    options=st.dictionaries(names, names, max_size=2),
    caveats=st.lists(words, max_size=2).map(tuple),
    is_model=st.booleans(),
)


@st.composite
def forwardings(draw: st.DrawFn) -> ForwardingMatrix:
    found = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    sizes = [AccessSize(name, draw(st.integers(1, 64)), draw(st.sampled_from(["general", "vector"]))) for name in found]
    rows = []
    for store in sizes:
        for load in sizes:
            where = draw(st.sampled_from(LineCrossing)), draw(st.sampled_from(Addressing))
            cells = draw(
                st.lists(st.tuples(st.none() | hundredths, st.sampled_from(ForwardingOutcome)), min_size=1, max_size=5)
            )
            cycles, outcomes = (tuple(part) for part in zip(*cells, strict=True))
            rows.append(ForwardingRow(store, load, *where, draw(st.integers(-63, 0)), cycles, outcomes))
    return ForwardingMatrix(tuple(rows))


parameters = st.dictionaries(names, names, max_size=3).map(lambda found: tuple(found.items()))
sizes = st.integers(1, 1 << 30)
reports = st.builds(
    MemoryReport,
    provenances,
    st.none() | forwardings(),
    st.lists(words, max_size=2).map(tuple),
    st.lists(st.builds(Time, words, parameters, hundredths), max_size=2).map(tuple),
    st.lists(st.builds(Chased, sizes, hundredths, hundredths), max_size=2).map(tuple),
    st.lists(st.builds(MeasuredLevel, sizes, hundredths, st.booleans()), max_size=2).map(tuple),
    st.lists(
        st.builds(Replacement, names, st.none() | st.integers(1, 24), st.lists(names, max_size=2).map(tuple), words),
        max_size=2,
    ).map(tuple),
)
