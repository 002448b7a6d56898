"""instructions.xml with measurements: read(write(x)) == x, hostile files, rules, differences, queries."""

from __future__ import annotations

import io
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.database import rules
from results.database.diff import Change, ChangeKind, compare, group, only_in_one
from results.database.query import QueryError, compile_query
from results.database.reader import (
    Analysis,
    ArchitectureResult,
    DatabaseError,
    Entry,
    LatencyRow,
    Repair,
    read_database,
)
from results.database.writer import write_database
from tests.nonempty import faults
from tests.results.database.strategies import entries, variant
from xed_convert.catalogue.schema import validate
from xed_convert.errors import ConversionError
from xed_convert.model import Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from xed_convert.errors import UopscopeError

GOOD = ArchitectureResult(
    "SKL",
    {"TP_unrolled": "0.50", "TP_loop": "0.50", "TP_ports": "0.50", "ports": "1*p06", "uops": "1"},
    (LatencyRow(1, 1, {"cycles": "1"}), LatencyRow(2, 1, {"cycles": "5", "cycles_is_upper_bound": "1"})),
)


def entry(result: ArchitectureResult = GOOD, name: str = "ADC") -> Entry:
    return Entry(variant(name), {result.architecture: result})


def error_of(action: Callable[[], object], kind: type[UopscopeError]) -> UopscopeError | None:
    """Run an action; return its error if it is of that kind, None without an error. Other errors are raised."""
    try:
        action()
    except kind as error:
        return error
    return None


def written(found: list[Entry]) -> bytes:
    file = io.BytesIO()
    write_database(found, [], file)
    return file.getvalue()


def read(text: bytes, repairs: list[Repair] | None = None) -> list[Entry]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.xml"
        path.write_bytes(text)
        return list(read_database(path, repairs))


@given(entries())
@settings(max_examples=60, deadline=None)
def test_what_was_written_is_read_again(found: list[Entry]) -> None:
    text = written(found)
    assert read(text) == found
    assert written(read(text)) == text


@given(entries())
@settings(max_examples=30, deadline=None)
def test_what_is_written_is_valid(found: list[Entry]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.xml"
        path.write_bytes(written(found))
        validate(path)
        path.write_bytes(written([*found, entry(name="ZZ")]).replace(b'uops="1"', b'uops="one"'))
        with pytest.raises(ConversionError, match="uops"):
            validate(path)


@given(entries())
@settings(max_examples=60, deadline=None)
def test_a_database_differs_from_itself_in_nothing_and_from_an_empty_one_in_everything(found: list[Entry]) -> None:
    assert compare(found, found) == []
    results = sum(len(one.results) for one in found)
    assert [change.kind for change in compare(found, [])] == [ChangeKind.ONLY_OLD] * results
    assert [change.kind for change in compare([], found)] == [ChangeKind.ONLY_NEW] * results


@given(entries())
@settings(max_examples=60, deadline=None)
def test_random_entries_keep_the_rules(found: list[Entry]) -> None:
    assert faults(rules.check_entries(found)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'<!DOCTYPE l [<!ENTITY a "b"><!ENTITY c "&a;&a;&a;">]><root>&c;</root>', "document type"),
        (b'<!DOCTYPE root SYSTEM "file:///etc/hostname"><root/>', "document type"),
        (b"<root>" * 50_000, "nested more than"),
        (b"<root><extension>" + b"<operand/>" * 30_000, "without the end of an instruction"),
        (b"<root><extension><instruction/></extension></root>", "iform"),
        (b"<root><extension>", "not a readable instructions.xml: Premature end of data in tag extension line 1$"),
        (b"", "not a readable"),
        (b"<html/>", "expected the element <root>"),
        (b"\x00\xff\xfe" * 99, "not a readable"),
        (b"<root><extension>" + b"x" * 20_000_000, "not a readable"),
    ],
)
def test_a_hostile_file_is_refused_with_its_place(text: bytes, message: str) -> None:
    with pytest.raises(DatabaseError, match=message) as caught:
        read(text)
    assert "x.xml:" in caught.value.message


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_mutated_files_are_read_or_refused(data: st.DataObject) -> None:
    text = bytearray(written([entry(), entry(name="SBB")]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=6))
    error = error_of(lambda: read(bytes(text)), DatabaseError)
    assert error is None or "x.xml:" in error.message


def test_known_faults_of_published_files_are_repaired_and_reported() -> None:
    values = {"TP_loop": "9223372036854775808.00", "uops_MITE": "-1", "uops": "1", "ports": ""}
    repairs: list[Repair] = []
    (found,) = read(written([entry(replace(GOOD, measurement=values))]), repairs)
    assert found.results["SKL"].measurement == {"uops": "1"}
    assert {repair.attribute for repair in repairs} == {"TP_loop", "uops_MITE", "ports"}
    assert all(repair.line > 1 and repair.string == "ADC (R64, R64)" for repair in repairs)


@pytest.mark.parametrize(
    ("measurement", "latency", "rule"),
    [
        ({"ports": ""}, {}, "ports"),
        ({"ports": "1*p0156+p06"}, {}, "ports"),
        ({"ports": "1*p1011"}, {}, None),
        ({"ports": "1*p06"}, {}, "throughputs"),
        ({"TP_loop": "0.90", "TP_ports": "1.33"}, {}, "contradictions"),
        ({"TP_loop": "0.45"}, {}, None),
        ({"TP_unrolled_same_reg": "1.00", "TP_loop_same_reg": "0.24"}, {}, "contradictions"),
        ({"TP_unrolled_indexed": "0.50", "TP_loop_indexed": "0.40"}, {}, None),
        ({"TP_unrolled_indexed": "0.52", "TP_loop_indexed": "0.40"}, {}, "contradictions"),
        (
            {"TP_unrolled": "2.00", "TP_loop": "0.50", "TP_unrolled_indexed": "2.00", "TP_loop_indexed": "0.50"},
            {},
            None,
        ),
        ({"TP_loop": "1"}, {}, "throughputs"),
        ({"TP_loop": "9223372036854775808.00"}, {}, "sentinels"),
        ({"uops_MITE": "-1"}, {}, "sentinels"),
        ({"uops": "1.00"}, {}, "integers"),
        ({"div_cycles": "8"}, {}, "divider"),
        ({"div_cycles_indexed": "8", "TP_loop": "8.00"}, {}, "divider"),
        ({"div_cycles_indexed": "8", "TP_loop_indexed": "8.00"}, {}, None),
        ({}, {"cycles": "1.25"}, "latency-values"),
        ({}, {"cycle": "1"}, "latency-values"),
        ({}, {"min_cycles": "1"}, "latency-pairs"),
        ({}, {"cycles_is_upper_bound": "1"}, "latency-pairs"),
        ({}, {"cycles": "3", "cycles_is_upper_bound": "0"}, "latency-values"),
    ],
)
def test_each_rule_finds_what_breaks_it(measurement: dict[str, str], latency: dict[str, str], rule: str | None) -> None:
    rows = (LatencyRow(1, 2, latency),) if latency else ()
    values = measurement if rule != "ports" and rule is not None else {**(GOOD.measurement or {}), **measurement}
    found = {one.rule for one in rules.check_entries([entry(ArchitectureResult("SKL", values, rows))])}
    assert found >= {rule} if rule else not found


def test_rules_over_operands_and_the_whole_file() -> None:
    nameless = Entry(variant("ADC"), {"SKL": replace(GOOD, latencies=(LatencyRow(1, 9, {"cycles": "1"}),))})
    found = {one.rule for one in rules.check_entries([nameless, nameless])}
    assert found == {"latency-operands", "unique-string", "unique-key"}


def test_a_part_breaks_no_rule_and_is_called_a_part() -> None:
    extent = rules.Extent()
    assert faults(rules.check_entries([entry(), Entry(variant("DIV"), {})], extent)) == []
    assert (extent.variants, dict(extent.results), extent.without_anchor) == (2, {"SKL": 1}, ["SKL"])


def test_the_anchor_of_uica_has_ports_if_it_was_measured_and_others_have_them() -> None:
    anchor = replace(variant("AND"), iform=rules.ANCHOR_IFORM)
    without = replace(GOOD, measurement={"TP_unrolled": "0.50"})
    found = list(rules.check_entries([entry(), Entry(anchor, {"SKL": without})]))
    assert [(one.rule, one.architecture) for one in found] == [("anchor", "SKL")]
    by_time = replace(GOOD, measurement={**(GOOD.measurement or {}), "ports_by_time": "1"})
    extent = rules.Extent()
    timed = entry(by_time), Entry(anchor, {"SKL": without})
    assert [one.rule for one in rules.check_entries(timed, extent) if one.rule == "anchor"] == []
    assert extent.without_anchor == ["SKL"]
    extent = rules.Extent()
    assert list(rules.check_entries([entry(), Entry(anchor, {"SKL": GOOD})], extent)) == []
    assert extent.without_anchor == []


@pytest.mark.parametrize("attribute", ["TP_unrolled", "TP_loop", "TP_ports", "ports", "uops"])
def test_a_planted_change_of_each_attribute_is_found(attribute: str) -> None:
    planted = {"ports": "2*p06", "uops": "2"}.get(attribute, "0.75")
    changed = replace(GOOD, measurement={**(GOOD.measurement or {}), attribute: planted})
    (change,) = compare([entry()], [entry(changed)])
    assert (change.kind, change.attribute, change.new) == (ChangeKind.CHANGED, attribute, planted)


def test_a_planted_change_of_a_latency_and_of_an_analysis_is_found() -> None:
    longer = replace(GOOD, latencies=(LatencyRow(1, 1, {"cycles": "2"}), GOOD.latencies[1]))
    assert [change.attribute for change in compare([entry()], [entry(longer)])] == ["latency 1→1 cycles"]
    analysed = replace(GOOD, analyses=(Analysis("LLVM", {"TP": "1.00"}),))
    assert [change.kind for change in compare([entry()], [entry(analysed)])] == [ChangeKind.NEW]


def test_what_only_one_file_has_is_no_change_and_each_lost_value_is() -> None:
    groups = group(compare([entry(name="ADC"), entry(name="OLD")], [entry(name="ADC"), entry(name="NEW")]))
    assert not any(one.kind.is_change for one in groups)
    assert only_in_one(groups, ChangeKind.ONLY_OLD) == [variant("OLD").string]
    assert only_in_one(groups, ChangeKind.ONLY_NEW) == [variant("NEW").string]
    failed = entry(replace(GOOD, measurement={}, latencies=()))
    gone = compare([entry()], [failed])
    assert len(gone) >= len(GOOD.measurement or {})
    assert {change.kind for change in gone} == {ChangeKind.GONE}


def test_the_recorded_spread_separates_noise_from_change() -> None:
    values = {"TP_loop": "1.00", "TP_loop_spread": "0.05"}
    old, near, far = (entry(ArchitectureResult("SKL", {**values, "TP_loop": tp})) for tp in ("1.00", "1.28", "1.40"))
    assert [change.kind for change in compare([old], [near])] == [ChangeKind.NOISE]
    assert [change.kind for change in compare([old], [far])] == [ChangeKind.CHANGED]


def test_the_same_change_in_many_variants_is_one_group() -> None:
    changes = [Change(ChangeKind.CHANGED, f"V{n}", "AVX512F", "SKX", "uops", "1", "2") for n in range(200)]
    (one,) = group(changes)
    assert len(one.strings) == 200


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ports has p06", True),
        ("ports has p0", False),
        ("ports has p60", True),
        ("ports uses p0", True),
        ("ports uses p60", True),
        ("ports uses p07", False),
        ("latency(2,1) < 6 and latency(1,1) <= 1", True),
        ("latency(2,1) > 3", False),
        ("latency(2,1) = 5", False),
        ("latency(2,1) != 5", False),
        ("latency(3,1) > 0", False),
        ("not latency(3,1) > 0", True),
        ("TP < 1 and (uops = 1 or uops = 7)", True),
        ("iform like ADC_*", True),
        ("iclass != ADC", False),
        ("extension = base and arch = SKL", True),
        ("string has 'r64, r64'", True),
        ("max_latency >= 5", False),
        ("max_latency <= 5", True),
        ("div_cycles > 0 or nothing = 3", False),
    ],
)
def test_queries(query: str, expected: object) -> None:
    assert compile_query(query)(entry(), GOOD) is expected


@pytest.mark.parametrize(
    "query",
    ["", "ports", "ports has", "latency(1) > 3", "uops > many", "(uops = 1", "uops = 1 uops = 2", "§", "(" * 99],
)
def test_a_wrong_query_shows_where(query: str) -> None:
    with pytest.raises(QueryError, match=r"\^"):
        compile_query(query)


@given(st.text(max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_query_or_an_error(text: str) -> None:
    error = error_of(lambda: compile_query(text)(entry(), GOOD), QueryError)
    assert error is None or error.hint


def test_default_flags_are_an_immediate_for_others_and_themselves_for_us() -> None:
    flags = Operand(0, OperandKind.DEFAULT_FLAGS, "DFV", read=True, width_bits=4)
    compare_variant = replace(variant("CCMP"), operands=(flags, *variant("CCMP").operands))
    text = written([Entry(compare_variant, {})])
    assert b'name="DFV" r="1" type="imm"' in text
    assert b"dfv" not in text
    assert [one.variant for one in read(text)] == [compare_variant]


def test_a_range_of_which_the_beginning_is_a_bound_is_whole() -> None:
    latency = LatencyRow(1, 1, {"min_cycles": "1", "max_cycles": "2", "min_cycles_is_upper_bound": "1"})
    assert faults(rules.check_entries([entry(replace(GOOD, latencies=(latency,)))])) == []
