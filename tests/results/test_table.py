"""The table: every number that is known, unknowns explained once, failures and models called what they are."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from results.findings import FractionalUops, NoPorts, Unplaced
from results.model import (
    SPECIAL_FORMS,
    Bound,
    Characterization,
    Form,
    FormResult,
    LatencyPart,
    LatencyResult,
    PortUsage,
    Provenance,
    Throughput,
)
from results.table import Footing, ResultRow, footing_lines, table_lines, write_csv
from results.text import duration_text, latencies_text, taken_text
from tests.results import strategies
from tests.results.database.test_xml import ADC, MACHINE, SIMULATED


def shown(rows: list[ResultRow], footing: Footing) -> str:
    console = Console(file=io.StringIO(), width=200)
    for line in table_lines(rows, console.width):
        console.print(line)
    for line in footing_lines(rows, footing):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [200, 80, 60, 30])
def test_nothing_is_broken_within_a_port_usage_or_a_latency(width: int) -> None:
    long = PortUsage({frozenset("06"): 28, frozenset("0156"): 6, frozenset("23"): 8, frozenset("4"): 4})
    forms = {Form.PLAIN: FormResult(long, Throughput(Fraction(1), Fraction(1), Fraction(3, 4)))}
    rows = [ResultRow(MEASURED, ADC), ResultRow(dataclasses.replace(MEASURED, forms=forms), ADC)]
    lines = [line.plain for line in table_lines(rows, width)]
    text = "\n".join(lines)
    for whole in (str(long), "1*p0156+1*p06", "1→1 1", "CF→1 2"):
        assert whole in text
    words = [word for line in lines for word in line.split()]
    assert max(map(len, lines)) <= max(width, max(map(len, words)) + 10)
    assert (len(lines) == 1 + len(rows)) == (width == 200)


def test_all_rhythms_are_shown() -> None:
    throughput = Throughput(
        Fraction(56, 100), Fraction(2, 3), unrolled_rhythms=(Fraction(66, 100), Fraction(97, 100)), loop_rhythms=()
    )
    measured = dataclasses.replace(MEASURED, forms={Form.PLAIN: FormResult(None, throughput)})
    line = list(table_lines([ResultRow(measured, ADC)], 200))[1].plain
    assert "0.56/0.66/0.97" in line
    (row,) = csv.DictReader(io.StringIO(write_csv([(ResultRow(measured, ADC), MACHINE)])))
    assert (row["TP_unrolled"], row["TP_unrolled_rhythms"], row["TP_loop_rhythms"]) == ("0.56", "0.66 0.97", "")


def latency(source: int, destination: int, cycles: Fraction | int, **more: object) -> LatencyResult:
    plain = LatencyResult(source, destination, Fraction(cycles), Bound.EXACT, "")
    return dataclasses.replace(plain, **more)  # type: ignore[arg-type] # any field


MEASURED = Characterization(
    key=ADC.key,
    string=ADC.string,
    iform=ADC.iform,
    uops=2,
    forms={
        Form.PLAIN: FormResult(
            PortUsage({frozenset("06"): 1, frozenset("0156"): 1}), Throughput(Fraction(1), Fraction(1), Fraction(3, 4))
        )
    },
    latencies=(latency(1, 1, 1), latency(3, 1, 2, source_flag="CF"), latency(3, 3, 2, bound=Bound.UPPER)),
)


def test_a_row_holds_what_is_known() -> None:
    text = shown([ResultRow(MEASURED, ADC)], Footing(MACHINE, ("never shown",), 0.5))
    row = next(line for line in text.splitlines() if line.startswith("ADC_11 (R64, R64)"))
    assert row.split()[3:] == [
        *("2", "1*p0156+1*p06", "1.00", "1.00", "0.75"),
        *("1→1", "1;", "CF→1", "2;", "flags→flags", "≤2"),
    ]
    assert "SKL: a CPU (6-5E-3, microcode 0xf0), backend kmod" in text
    assert "1 variant in 0.50 s" in text
    assert "never shown" not in text


def test_what_is_unknown_is_explained_once() -> None:
    unknown = dataclasses.replace(MEASURED, uops=None, forms={Form.PLAIN: FormResult(None, Throughput(Fraction(1)))})
    text = shown([ResultRow(unknown, ADC)] * 3, Footing(MACHINE, ("µops and ports: the clock cannot count them",)))
    assert text.count("the clock cannot count them") == 1


def test_what_is_certain_of_ports_is_shown_where_there_may_be_more() -> None:
    why = NoPorts(Form.PLAIN, Unplaced(PortUsage.parse("1*r13"), slots=2))
    partly = dataclasses.replace(MEASURED, forms={Form.PLAIN: FormResult(None, Throughput())}, failures=(why,))
    text = shown([ResultRow(partly, ADC)], Footing(MACHINE))
    assert "1*r13+?" in text
    assert "+? behind ports: there may be further µops" in text
    (row,) = csv.DictReader(io.StringIO(write_csv([(ResultRow(partly, ADC), MACHINE)])))
    assert (row["ports"], row["some_ports"]) == ("", "1*r13")
    assert "+?" not in shown([ResultRow(MEASURED, ADC)], Footing(MACHINE))


@pytest.mark.parametrize(
    ("usage", "slots", "cycles", "cell"),
    [
        ("", 1, Fraction("0.17"), "none or ≥6"),
        ("", 1, Fraction("0.163"), "none or ≥6"),  # noise makes it no more
        ("", None, Fraction("0.084"), "none or ≥12"),
        ("", 2, Fraction("0.33"), "none or ≥3"),
        ("", 1, Fraction(1), "?"),
        ("", 1, None, "?"),
        ("1*r13", 2, Fraction("0.25"), "1*r13+?"),
    ],
)
def test_what_nothing_delays_has_no_port_or_many(
    usage: str, slots: int | None, cycles: Fraction | None, cell: str
) -> None:
    why = NoPorts(Form.PLAIN, Unplaced(PortUsage.parse(usage), slots=slots))
    forms = {Form.PLAIN: FormResult(None, Throughput(Fraction(1), cycles))}
    text = shown(
        [ResultRow(dataclasses.replace(MEASURED, uops=None, forms=forms, failures=(why,)), ADC)], Footing(MACHINE)
    )
    columns = re.split(r" {2,}", next(line for line in text.splitlines() if MEASURED.string in line).strip())
    assert columns[2] == cell
    assert ("no port is used, or any of N or more" in text) == (" or " in cell)


@pytest.mark.parametrize(("usage", "is_made_up"), [("1*r13", True), ("2*FP23", False), ("1*p05", False)])
def test_ports_by_time_are_marked_and_made_up_names_explained(usage: str, is_made_up: bool) -> None:
    forms = {Form.PLAIN: FormResult(PortUsage.parse(usage), Throughput(Fraction(1)))}
    by_time = dataclasses.replace(MEASURED, uops=None, forms=forms, attributes={"ports_by_time": 1})
    text = shown([ResultRow(by_time, ADC)], Footing(MACHINE))
    assert "counts are cycles that a port is occupied" in text
    assert ("published names are not known" in text) == is_made_up
    rows = [(ResultRow(one, ADC), MACHINE) for one in (by_time, MEASURED)]
    marked = [row["ports_by_time"] for row in csv.DictReader(io.StringIO(write_csv(rows)))]
    assert marked == ["True", "False"]


def test_failures_and_skipped_variants_are_named_with_their_reasons() -> None:
    failed = dataclasses.replace(MEASURED, failures=(FractionalUops(Fraction(3, 2)),))
    skipped = [
        dataclasses.replace(MEASURED, string=f"VADDPS {number}", skipped="not on this CPU (AVX)")
        for number in range(20)
    ]
    text = shown([ResultRow(failed, ADC), *(ResultRow(each, None) for each in skipped)], Footing(MACHINE))
    assert "✗ ADC_11 (R64, R64): the µops per port add up to 1.50, not to an integer" in text
    assert text.count("skipped, not on this CPU (AVX): VADDPS 0; VADDPS 1;") == 1
    assert "and 12 more" in text


def test_a_model_is_called_a_model() -> None:
    assert "(a model, not a CPU)" in shown([ResultRow(MEASURED, ADC)], Footing(SIMULATED))


@pytest.mark.parametrize("form", SPECIAL_FORMS)
def test_every_special_form_stands_beside_the_plain_one_where_it_differs(form: Form) -> None:
    special = FormResult(PortUsage({}), Throughput(Fraction(1, 4)))
    result = dataclasses.replace(MEASURED, forms={**MEASURED.forms, form: special})
    assert f"; {form.short}: ports -, TP 0.25" in shown([ResultRow(result, ADC)], Footing(MACHINE))
    alike = dataclasses.replace(MEASURED, forms={**MEASURED.forms, form: MEASURED.of(Form.PLAIN)})
    assert form.short not in shown([ResultRow(alike, ADC)], Footing(MACHINE))


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ([latency(1, 1, 26), latency(1, 1, 10, fast_values=True)], "1→1 26 (fast 10)"),
        ([latency(2, 1, 3), latency(2, 1, 0, same_register=True)], "2→1 3 (same reg 0)"),
        ([latency(2, 1, 3), latency(2, 1, 3, same_register=True)], "2→1 3"),
        ([latency(2, 1, 3, same_register=True)], "2→1 same reg 3"),
        ([latency(2, 1, Fraction(5, 4))], "2→1 [≤1;≤2]"),
        ([latency(2, 1, Fraction(1, 5))], "2→1 [0;1]"),
        ([latency(2, 1, Fraction(611, 100), spread=Fraction(1, 100))], "2→1 [≤6;≤7]"),
        ([latency(2, 1, Fraction(611, 100), spread=Fraction(21, 100))], "2→1 ≤6"),
        ([latency(2, 1, Fraction(144, 10), spread=Fraction(7, 10))], "2→1 ≤15"),
        ([latency(2, 1, Fraction(98, 100))], "2→1 1"),
        ([latency(2, 1, Fraction(901, 10), spread=Fraction(9, 10))], "2→1 90.10±0.90"),
        ([latency(2, 1, Fraction(611, 100), bound=Bound.UPPER)], "2→1 ≤6"),
        ([latency(2, 1, Fraction(978, 100), bound=Bound.UPPER)], "2→1 ≤9"),
        (
            [latency(2, 1, 5, part=LatencyPart.ADDRESS), latency(2, 1, 6, part=LatencyPart.MEMORY)],
            "2 addr→1 5; 2 mem→1 6",
        ),
        ([], ""),
    ],
)
def test_latencies_in_words(latencies: list[LatencyResult], expected: str) -> None:
    assert latencies_text(latencies, ADC) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.417, "0.42 s"), (12.2, "12 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations(seconds: float, expected: str) -> None:
    assert duration_text(seconds) == expected


def test_what_others_took_of_the_time_is_said_from_a_second_on() -> None:
    assert taken_text(75, 0.9) == "1 min 15 s"
    assert taken_text(75, 5) == "1 min 15 s, 5.00 s of it lost to other users of the core"
    busy = "; the machine was busy, throughputs may be too high"
    assert taken_text(75, 31) == "1 min 15 s, 31 s of it lost to other users of the core" + busy


@given(st.lists(strategies.characterizations, max_size=3), strategies.provenances)
def test_csv_has_a_row_for_every_variant(results: list[Characterization], provenance: Provenance) -> None:
    text = write_csv([(ResultRow(result, None), provenance) for result in results])
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["string"] for row in read] == [result.string for result in results]
    assert [row["uops"] for row in read] == ["" if each.uops is None else str(each.uops) for each in results]
