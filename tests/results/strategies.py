"""Random conclusions, provenance and raw samples."""

from __future__ import annotations

from hypothesis import strategies as st

from results.model import (
    PORT_LETTERS,
    Bound,
    Characterization,
    Derivation,
    LatencyPart,
    LatencyResult,
    Measurement,
    PortUsage,
    Provenance,
    Series,
    Status,
    Throughput,
)

text = st.text(st.characters(codec="utf-8"), max_size=12)
names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
cycles = st.fractions(min_value=0, max_value=1000, max_denominator=100)
maybe_cycles = st.none() | cycles
indices = st.integers(1, 5)
flags = st.sampled_from(["", "CF", "ZF"])
port_usages = st.dictionaries(
    st.frozensets(st.sampled_from(PORT_LETTERS), min_size=1), st.integers(1, 9), max_size=4
).map(PortUsage)
throughputs = st.builds(Throughput, *[maybe_cycles] * 5)
latencies = st.builds(
    LatencyResult,
    source=indices,
    destination=indices,
    cycles=cycles,
    bound=st.sampled_from(Bound),
    chain=text,
    part=st.sampled_from(LatencyPart),
    source_flag=flags,
    destination_flag=flags,
    same_register=st.booleans(),
    fast_values=st.booleans(),
    spread=maybe_cycles,
    experiments=st.lists(names, max_size=3).map(tuple),
)
derivations = st.builds(Derivation, names, text, st.lists(names, max_size=3).map(tuple))
characterizations = st.builds(
    Characterization,
    key=names,
    string=text,
    iform=names,
    uops=st.none() | st.integers(0, 50),
    ports=st.none() | port_usages,
    ports_same_register=st.none() | port_usages,
    macro_fusible=st.none() | st.lists(names, max_size=3).map(tuple),
    ports_indexed=st.none() | port_usages,
    throughput=throughputs,
    throughput_same_register=st.none() | throughputs,
    throughput_indexed=st.none() | throughputs,
    latencies=st.lists(latencies, max_size=5).map(tuple),
    attributes=st.dictionaries(names, st.integers(0, 100), max_size=3),
    failures=st.lists(text.filter(bool), max_size=2).map(tuple),
    skipped=text,
    derivations=st.lists(derivations, max_size=3).map(tuple),
)
provenances = st.builds(
    Provenance,
    architecture=names,
    cpu=text,
    cpu_signature=text,
    microcode=text,
    kernel=text,
    backend=names,
    version=text,
    time=text,
    options=st.dictionaries(names, text, max_size=3),
    caveats=st.lists(text, max_size=3).map(tuple),
    is_model=st.booleans(),
)
samples = st.dictionaries(names, st.lists(st.integers(-(2**63), 2**64), max_size=20).map(tuple), max_size=3)
series = st.builds(Series, st.integers(0, 1000), st.integers(0, 1000), samples)
measurements = st.builds(
    Measurement, names, st.sampled_from(Status), st.lists(series, max_size=3).map(tuple), detail=text
)
