"""Explanations: every number appears with what it rests on, and the arithmetic shown gives the number."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from results.campaign.records import Sample, StoredBenchmark
from results.findings import ChainTime, LinkShare, LoadAlone, ProducerTime, SequenceTime, Text
from results.model import (
    LATENCY,
    PRODUCERS,
    Bound,
    Characterization,
    Derivation,
    Form,
    FormResult,
    LatencyKey,
    LatencyResult,
    Measurement,
    PortUsage,
    Series,
    Status,
    Throughput,
)
from runner.explain import ExplainedVariant, explanation, quantities, samples_text
from tests.results.database.test_xml import ADC, SIMULATED

BENCHMARK = StoredBenchmark("t1", "throughput of ADC", 2, ((b"\x90", "NOP"),), ((b"\x48\x11\xd3", "ADC RBX, RDX"),))
CHAIN = StoredBenchmark("l1", "latency 1 → 1 of ADC", 1, (), ((b"\x48\x11\xd8", "ADC RAX, RBX"),))


def measured(benchmark: StoredBenchmark, few: int, many: int, status: Status = Status.OK) -> Sample:
    series = tuple(
        Series(copies, 0, {"core_cycles": (value,) * 20, "p0": (value // 2,) * 20, "p4": (7,) * 20})
        for copies, value in ((10, few), (110, many))
    )
    return Sample(f"{benchmark.id}:all:unrolled", benchmark, Measurement(status, series, "detail"))


ALONE = ChainTime(Fraction(2), (), Fraction(2), exact=True)

RESULT = Characterization(
    key=ADC.key,
    string=ADC.string,
    iform=ADC.iform,
    uops=2,
    forms={
        Form.PLAIN: FormResult(
            PortUsage({frozenset("06"): 1, frozenset("0156"): 1}), Throughput(Fraction(1), None, Fraction(1, 2))
        )
    },
    latencies=(
        LatencyResult(1, 1, Fraction(2), Bound.UPPER, "itself", experiments=("l1",)),
        LatencyResult(2, 1, Fraction(0), Bound.EXACT, "", same_register=True),
    ),
    derivations=(
        Derivation("ports", (LoadAlone({"p0": Fraction(1, 2)}),), ("t1",)),
        Derivation("TP_unrolled", (SequenceTime("throughput of ADC", Fraction(2), 2),), ("t1",)),
        Derivation(LATENCY, (ALONE,), ("l1",), LatencyKey(1, 1)),
        Derivation(LATENCY, (Text("no chain could be built"),), (), LatencyKey(2, 3)),
    ),
)


def explained(result: Characterization, *evidence: Sample) -> list[str]:
    return [line.plain for line in explanation(ExplainedVariant(result, ADC, evidence, SIMULATED))]


def test_every_number_is_named_with_its_value_and_its_steps() -> None:
    found = {each.name: each for each in quantities(RESULT, ADC)}
    assert {name: each.value for name, each in found.items()} == {
        "uops": "2",
        "ports": "1*p0156+1*p06",
        "TP_unrolled": "1.00",
        "TP_ports": "0.50",
        "latency 1→1": "≤2 cycles",
        "latency 2→1 (same register)": "0 cycles",
        "latency 2→flags": "not concluded",
    }
    assert found["uops"].experiments == ("t1",)
    assert found["latency 1→1"].steps == ("2.00 cycles of the chain = 2.00",)


def test_a_derivation_of_several_attributes_says_what_they_are() -> None:
    derivation = Derivation(PRODUCERS, (ProducerTime("inc", (3,), "INC RCX", Fraction(3)),), ("p1",))
    noted = {**RESULT.attributes, "slower_after_inc": 2, "slower_after_add_imm": 1, "bypass_float": 2}
    result = dataclasses.replace(RESULT, attributes=noted, derivations=(derivation,))
    (found,) = (one for one in quantities(result, ADC) if one.name == "producers")
    assert found.value == "slower_after_inc 2, slower_after_add_imm 1"
    assert found.steps == ("operand 3 after inc (INC RCX): 3.00 cycles",)


def test_an_experiment_is_shown_once_and_named_after_that() -> None:
    lines = explained(RESULT, measured(BENCHMARK, 25, 225), measured(CHAIN, 30, 230))
    assert sum(line.startswith("  [1] throughput of ADC") for line in lines) == 1
    assert lines.count("  see [1] above") == 2
    assert any(line.startswith("  [2] latency 1 → 1 of ADC") for line in lines)


def test_code_samples_and_arithmetic_stand_side_by_side() -> None:
    lines = explained(RESULT, measured(BENCHMARK, 25, 225))
    assert any(line.split() == ["copied", "48", "11", "d3", "ADC", "RBX,", "RDX"] for line in lines)
    assert ["core_cycles", "25", "225", "2", "1"] in [line.split() for line in lines]
    assert ["p0", "12", "112", "1", "0.50"] in [line.split() for line in lines]
    assert any("per copy = (110 copies - 10 copies) / 100; a copy holds 2 instances" in line for line in lines)
    assert any(line.endswith("copies (harness): p4 7") for line in lines)
    assert any(line.endswith("raw: the same in each of 20 repetitions") for line in lines)


def test_what_was_measured_besides_is_shown_too() -> None:
    lines = explained(dataclasses.replace(RESULT, derivations=()), measured(BENCHMARK, 25, 225))
    assert "Other measurements" in lines


def test_what_is_subtracted_is_shown_where_it_is_subtracted() -> None:
    link = StoredBenchmark("c1", "a chain of movsx8", 1, (), ((b"\x90", "MOVSX RBX, BL"),))
    other = StoredBenchmark("c2", "a chain of setb and movsx8", 1, (), ((b"\x90", "SETB BL"),))
    share = LinkShare("movsx8", 1, Fraction(1), exact=True, experiment="c1")
    chain = ChainTime(Fraction(3), (share,), Fraction(2), exact=True)
    result = dataclasses.replace(RESULT, derivations=(Derivation(LATENCY, (chain,), ("l1",), LatencyKey(1, 1)),))
    lines = explained(result, measured(CHAIN, 30, 330), measured(link, 20, 120), measured(other, 20, 220))
    at = lines.index("  times of the other links of the chain:")
    assert lines[at + 1] == "  [2] a chain of movsx8"
    assert at < lines.index("Other measurements") < lines.index("  [3] a chain of setb and movsx8")


def test_columns_of_loops_stand_apart() -> None:
    series = tuple(Series(copies, 255, {"core_cycles": (9 * copies,) * 3}) for copies in (100, 400))
    looped = Sample("t1:all:loop", BENCHMARK, Measurement(Status.OK, series, ""))
    assert any("100 copies x 255  400 copies x 255" in line for line in explained(RESULT, looped))


def test_what_did_not_run_says_so() -> None:
    lines = explained(RESULT, measured(BENCHMARK, 25, 225, Status.TIMED_OUT))
    assert "      timed out: detail" in lines


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_few_runs_of_samples_can_be_read_back(samples: list[int]) -> None:
    text = samples_text(samples)
    if "..." not in text:
        read: list[int] = []
        for part in text.split(", "):
            value, _, times = part.partition(" (")
            read += [int(value)] * int(times.removesuffix(" times)") or 1)
        assert read == samples
    else:
        assert f"{len(samples)} in all: least {min(samples)}" in text
