"""Random conclusions, provenance and raw samples."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from typing import get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from results.findings import KINDS, NoLatency, NoPorts, PrologueUnknown
from results.model import (
    PORT_LETTERS,
    SPECIAL_FORMS,
    Bound,
    Characterization,
    Derivation,
    Failure,
    Form,
    FormResult,
    LatencyKey,
    LatencyPart,
    LatencyResult,
    Measurement,
    PortUsage,
    Provenance,
    Series,
    Status,
    Step,
    Throughput,
)

text = st.text(st.characters(codec="utf-8"), max_size=12)
names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
cycles = st.fractions(min_value=0, max_value=1000, max_denominator=100)
maybe_cycles = st.none() | cycles
indices = st.integers(1, 5)
flags = st.sampled_from(["", "CF", "ZF"])
port_names = (
    st.frozensets(st.sampled_from(PORT_LETTERS), min_size=1)
    | st.frozensets(st.sampled_from([f"r{letter}" for letter in PORT_LETTERS]), min_size=1)
    | st.frozensets(st.sampled_from(["FP0", "FP1", "FP2", "FP3", "INT0", "ALU", "V", "LS_AGU"]), min_size=1)
)
"""Ports by number, ports found by time alone, and pipes and kinds of µops with names."""

port_usages = st.dictionaries(port_names, st.integers(1, 9), max_size=4).map(PortUsage)
rhythms = st.lists(cycles, max_size=2).map(tuple)
throughputs = st.builds(Throughput, *[maybe_cycles] * 5, unrolled_rhythms=rhythms, loop_rhythms=rhythms)
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
keys = st.builds(LatencyKey, indices, indices, st.sampled_from(LatencyPart), flags, flags, st.booleans(), st.booleans())
port_sets = st.frozensets(st.sampled_from(PORT_LETTERS), min_size=1)
FIELDS: dict[object, st.SearchStrategy[object]] = {
    str: text,
    int: st.integers(1, 50),
    bool: st.booleans(),
    Fraction: cycles,
    frozenset[str]: port_sets,
    PortUsage: port_usages,
    LatencyKey: keys,
}


def of_type(hint: object) -> st.SearchStrategy[object]:
    """Return values of a field's type."""
    if hint in FIELDS:
        return FIELDS[hint]
    inner = get_args(hint)
    if get_origin(hint) is types.UnionType:
        return st.none() | of_type(inner[0])
    if get_origin(hint) is tuple:
        return st.lists(of_type(inner[0]), max_size=3).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(of_type(inner[0]), of_type(inner[1]), max_size=3)
    assert isinstance(hint, type)
    return st.sampled_from(hint) if issubclass(hint, Enum) else record(hint)


def record(kind: type) -> st.SearchStrategy[object]:
    """Return records of a kind, all fields given."""
    return st.builds(kind, **{name: of_type(hint) for name, hint in get_type_hints(kind).items()})


def of_family(family: type) -> list[type]:
    """Return the kinds of steps or of failures."""
    return [kind for kind in KINDS.values() if issubclass(kind, family)]


steps = st.one_of([record(kind) for kind in of_family(Step)])
NESTED = {NoPorts, NoLatency, PrologueUnknown}
leaves = st.one_of([record(kind) for kind in of_family(Failure) if kind not in NESTED])
failures = leaves | st.one_of(
    st.builds(NoPorts, st.sampled_from(Form), leaves | st.builds(PrologueUnknown, leaves)),
    st.builds(NoLatency, keys, st.none() | leaves),
)
derivations = st.builds(
    Derivation, names, st.lists(steps, max_size=4).map(tuple), st.lists(names, max_size=3).map(tuple), st.none() | keys
)
form_results = st.builds(FormResult, st.none() | port_usages, throughputs)
characterizations = st.builds(
    Characterization,
    key=names,
    string=text,
    iform=names,
    uops=st.none() | st.integers(0, 50),
    forms=st.builds(
        lambda plain, special: {Form.PLAIN: plain, **special},
        form_results,
        st.dictionaries(st.sampled_from(SPECIAL_FORMS), form_results),
    ),
    macro_fusible=st.none() | st.lists(names, max_size=3).map(tuple),
    latencies=st.lists(latencies, max_size=5).map(tuple),
    attributes=st.dictionaries(names, st.integers(0, 100), max_size=3),
    failures=st.lists(failures, max_size=2).map(tuple),
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
measurements = st.builds(Measurement, st.sampled_from(Status), st.lists(series, max_size=3).map(tuple), detail=text)
