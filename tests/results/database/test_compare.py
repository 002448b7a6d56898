"""A campaign against published measurements: what agrees, what is said of the rest, and which input is refused."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.database.comparison.compare import Comparison, Difference, compare_published
from results.database.comparison.published import LatencyBounds, Published, Tolerance, parse_latency, range_of
from results.database.merge import renamed_rows
from results.database.reader import ArchitectureResult, Entry, LatencyRow
from results.database.writer import write_database
from results.model import Provenance
from runner.cli import db
from runner.cli.database.common import percent
from tests.results.database.strategies import variant
from tests.runner.cli.commands import called
from xed_convert.model import Operand, OperandKind

if TYPE_CHECKING:
    from pathlib import Path

    from xed_convert.model import InstructionVariant

HEADER = "string,extension,latency,throughput,uops,ports\n"


def entry(string: str = "ADC (R64, R64)", *, latency: dict[str, str] | None = None, **measurement: str) -> Entry:
    return entry_of(string, latency or {}, measurement)


def entry_of(string: str, latency: dict[str, str], measurement: dict[str, str]) -> Entry:
    rows = (LatencyRow(1, 2, latency),) if latency else ()
    plain = variant(string.partition(" ")[0])
    result = ArchitectureResult("ZEN4", measurement or {"uops": "1"}, rows)
    return Entry(replace(plain, string=string), {"ZEN4": result})


def published(latency: str = "", throughput: str = "", string: str = "ADC (R64, R64)") -> Published:
    ranges = {"": parse_latency(latency)} if latency else {}
    return Published(string, ranges, Fraction(throughput) if throughput else None)


def compared(row: Published, *entries: Entry) -> Comparison:
    return compare_published([row], entries, Tolerance())


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_share_never_looks_larger_than_it_is(agreed: int, others: int) -> None:
    share = Fraction(agreed, agreed + others)
    said = Fraction(percent(share).removesuffix("%")) / 100
    assert said <= share < said + Fraction(1, 10_000)
    assert percent(Fraction(1)) == "100.00%"


@pytest.mark.parametrize(
    ("theirs", "ours", "agrees"),
    [
        ("1.00", {"TP_unrolled": "1.10"}, True),
        ("1.00", {"TP_unrolled": "1.11"}, False),
        ("1.00", {"TP_loop": "0.90"}, True),
        ("1.00", {"TP_loop": "0.89"}, False),
        ("0.05", {"TP_loop": "0.07"}, True),  # two hundredths may be noise
        ("0.05", {"TP_loop": "0.08"}, False),
        ("1.00", {"TP_unrolled": "1.50", "TP_loop": "1.00"}, True),  # the least counts
        ("1.00", {"TP_unrolled": "1.00", "TP_loop": "0.50"}, False),
        ("1.00", {"TP_unrolled": "1.00", "TP_ports": "0.50"}, True),  # what was computed is not compared
    ],
)
def test_throughputs(theirs: str, ours: dict[str, str], *, agrees: bool) -> None:
    found = compared(published(throughput=theirs), entry_of("ADC (R64, R64)", {}, ours))
    assert found.compared == {"throughput": 1}
    assert found.share("throughput") == agrees
    assert len(found.differences) == (not agrees)


@pytest.mark.parametrize(
    ("theirs", "ours", "agrees", "equal"),
    [
        ("4", {"cycles": "4"}, True, True),
        ("4", {"cycles": "5"}, False, False),
        ("≤4", {"cycles": "3"}, True, False),
        ("≤4", {"cycles": "5"}, False, False),
        ("4", {"cycles": "6", "cycles_is_upper_bound": "1"}, True, False),
        ("4", {"cycles": "3", "cycles_is_upper_bound": "1"}, False, False),
        ("≤4", {"cycles": "9", "cycles_is_upper_bound": "1"}, True, False),
        ("[1;4]", {"min_cycles": "1", "max_cycles": "4"}, True, True),
        ("[1;4]", {"min_cycles": "2", "max_cycles": "4"}, False, False),
        ("[1;4]", {"min_cycles": "1", "max_cycles": "3"}, False, False),
        ("[1;≤9]", {"cycles_mem": "1", "cycles_addr": "9", "cycles_addr_is_upper_bound": "1"}, True, False),
        ("[≤1;≤9]", {"cycles_mem": "1", "cycles_addr": "9"}, True, False),
        ("[0;1]", {"cycles": "1", "cycles_same_reg": "0"}, True, True),
        ("1", {"cycles": "1", "cycles_same_reg": "0"}, True, True),
        ("2", {"cycles": "1", "cycles_same_reg": "0"}, False, False),
        ("100", {"cycles": "109"}, True, False),  # within a tenth
        ("100", {"cycles": "120"}, False, False),
    ],
)
def test_latencies(theirs: str, ours: dict[str, str], *, agrees: bool, equal: bool) -> None:
    found = compared(published(theirs), entry(latency=ours))
    assert (found.compared["latency"], found.agreed["latency"], found.equal["latency"]) == (1, agrees, equal)


bounds = st.builds(
    lambda cycles, upper: LatencyBounds(Fraction(0 if upper else cycles), Fraction(cycles)),
    st.integers(0, 50),
    st.booleans(),
)


@given(st.lists(bounds, min_size=1))
def test_a_range_contradicts_none_of_its_latencies(values: list[LatencyBounds]) -> None:
    """Whatever the latencies really are, the least and the greatest are within what the range says."""
    found = range_of(values)
    for truth in ([one.low for one in values], [one.high for one in values]):
        assert found.least.low <= min(truth) <= found.least.high
        assert found.greatest.low <= max(truth) <= found.greatest.high


@given(st.lists(bounds, min_size=1, max_size=2))
def test_what_is_written_is_read_again(values: list[LatencyBounds]) -> None:
    text = values[0].text if len(values) == 1 else f"[{values[0].text};{values[1].text}]"
    parsed = parse_latency(text)
    assert [parsed.least.text, parsed.greatest.text] == [values[0].text, values[-1].text]


def test_a_variant_that_another_one_took_the_name_from() -> None:
    ours = [entry("BLSI_MEMD (R32, M32)", TP_loop="0.33"), entry("BLSI_REGD (R32, R32)", TP_loop="0.25")]
    found = compared(published(throughput="0.33", string="BLSI (R32, M32)"), *ours)
    assert (found.variants, found.missing) == (1, [])
    assert found.share("throughput") == 1


def test_a_name_that_two_variants_could_have_is_missing() -> None:
    ours = [entry("BLSI_A (R32, M32)", TP_loop="0.33"), entry("BLSI_B (R32, M32)", TP_loop="0.33")]
    found = compared(published(throughput="0.33", string="BLSI (R32, M32)"), *ours)
    assert (found.variants, found.missing) == (0, ["BLSI (R32, M32)"])


def test_a_variant_that_was_published_is_not_taken_for_another() -> None:
    ours = entry("BT_A (R32)", TP_loop="0.33")
    rows = [published(throughput="0.33", string=name) for name in ("BT (R32)", "BT_A (R32)")]
    assert compare_published(rows, [ours], Tolerance()).missing == ["BT (R32)"]


def test_renamed_variants_are_found_by_their_old_keys(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    row = next(row for row in renamed_rows() if row["new"].endswith("|0" * 10))
    files = []
    for name in ("old", "new"):
        one = entry(f"{name} (R64)", TP_loop="1.00")
        one = Entry(replace(one.variant, iform=row[name].partition("|")[0], attributes={}), one.results)
        assert one.variant.key == row[name]
        files.append(xml(tmp_path / f"{name}.xml", one))
    assert run(*files) == 0
    assert "throughput: 1 of 1 agree" in capfd.readouterr().out


def test_differences_come_in_groups_with_the_largest_first() -> None:
    strings = ("A (R64, M64)", "B (R64, M8)", "C (R64, R64)")
    rows = [published(throughput="0.50", string=string) for string in strings]
    ours = [entry(s, TP_loop=text) for s, text in zip(strings, ("0.99", "0.97", "0.25"), strict=True)]
    found = compare_published(rows, ours, Tolerance())
    assert [
        (key, [one.string for one in group]) for key, group in found.groups(("direction", "ratio", "operands"))
    ] == [
        (("throughput", "more", "up to 2 times", "R64, M"), ["A (R64, M64)", "B (R64, M8)"]),
        (("throughput", "less", "up to 2 times", "R64, R64"), ["C (R64, R64)"]),
    ]
    assert [one.string for one in found.worst()] == ["C (R64, R64)", "A (R64, M64)", "B (R64, M8)"]


# The command


def table(path: Path, *rows: str) -> str:
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(path)


def xml(path: Path, *found: Entry) -> str:
    with path.open("wb") as file:
        write_database(found, [], file)
    return str(path)


def run(*arguments: str) -> int:
    return called(["compare", *arguments], db.app)


@pytest.mark.parametrize(("throughput", "code"), [("1.05", 0), ("1.50", 1)])
def test_the_command_says_shares_groups_and_the_worst(
    tmp_path: Path, throughput: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    theirs = table(tmp_path / "p.csv", '"ADC (R64, R64)",BASE,[1;≤7],0.33 / 1.00,1,', '"NONE (R64)",BASE,1,1.00,1,')
    ours = xml(tmp_path / "c.xml", entry(latency={"cycles": "1"}, TP_loop=throughput))
    assert run(theirs, ours) == code
    printed = capfd.readouterr().out
    assert "1 variants of p.csv are in c.xml, 1 are not" in printed
    assert "latency: 1 of 1 agree: 100.00% (goal 99.9%: met)" in printed
    assert ("      1 that no rule explains" in printed) == bool(code)
    assert f"throughput: {1 - code} of 1 agree: {1 - code:.2%} (goal 99.0%: " in printed
    assert ("throughput of ADC (R64, R64): published 1.00, ours 1.50" in printed) is bool(code)


def test_an_xml_is_compared_pair_by_pair(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    theirs = xml(tmp_path / "p.xml", entry(latency={"cycles_mem": "4", "cycles_addr": "6"}))
    ours = xml(tmp_path / "c.xml", entry(latency={"cycles_mem": "4", "cycles_addr": "5"}))
    assert run(theirs, ours) == 1
    printed = capfd.readouterr().out
    assert "latency: 1 of 2 agree" in printed
    assert "latency of ADC (R64, R64) 1→2 cycles_addr: published 6, ours 5" in printed


def test_tolerances_and_groups_are_options(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    theirs = table(tmp_path / "p.csv", '"ADC (R64, R64)",BASE,,1.00,1,')
    ours = xml(tmp_path / "c.xml", entry(TP_loop="1.30"))
    assert run(theirs, ours, "--percent", "30") == run(theirs, ours, "--cycles", "0.3") == 0
    assert run(theirs, ours, "--by", "extension") == 1
    assert "1 throughput: BASE: ADC (R64, R64)" in capfd.readouterr().out


def test_files_have_all_differences(tmp_path: Path) -> None:
    strings = [f"I{number} (R64)" for number in range(50)]
    theirs = table(tmp_path / "p.csv", *(f"{string},BASE,0,1.00,1," for string in strings))
    ours = xml(tmp_path / "c.xml", *(entry(string, latency={"cycles": "3"}, TP_loop="9.00") for string in strings))
    assert run(theirs, ours, "--csv", str(tmp_path / "d.csv"), "--json", str(tmp_path / "d.json")) == 1
    with (tmp_path / "d.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    document = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert len(rows) == len(document["differences"]) == 100
    assert {row["kind"] for row in rows} == {"latency", "throughput"}
    assert document["kinds"]["latency"]["agreed"] == 0
    assert sum(len(group["strings"]) for group in document["groups"]) == 100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("string,latency\nA,1\n", "1: no column throughput"),
        (HEADER + "A,BASE,[1,0.50,1,\n", "2: A: not a latency: '[1'"),
        (HEADER + "A,BASE,[1;2;3],0.50,1,\n", "2: A: not a latency: '[1;2;3]'"),
        (HEADER + "A,BASE,1,fast,1,\n", "2: A: not a number of cycles: 'fast'"),
        (HEADER + "A,BASE,1,-1,1,\n", "2: A: not a number of cycles: '-1'"),
        (HEADER + ",BASE,1,1,1,\n", "2: the row has no string"),
        (HEADER + "A\n", "has no result of ZEN4 for any variant"),
        (HEADER + '"A,1\n', "not a readable table"),
        ("", "1: no column string, latency, throughput"),
        (HEADER, "has no result of ZEN4 for any variant"),
    ],
)
def test_wrong_tables_are_said(tmp_path: Path, text: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text, encoding="utf-8")
    assert run(str(path), xml(tmp_path / "c.xml", entry(TP_loop="1.00"))) == 2
    assert said in capfd.readouterr().err


def test_wrong_arguments_are_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    theirs = table(tmp_path / "p.csv", '"ADC (R64, R64)",BASE,1,1.00,1,')
    ours = xml(tmp_path / "c.xml", entry(TP_loop="1.00"))
    for arguments, said in (
        ((theirs, ours, "--by", "weather"), "cannot be grouped by 'weather'"),
        ((theirs, ours, "--arch", "SKL"), "no result of the architecture 'SKL'"),
        ((str(tmp_path / "none.csv"), ours), "none.csv"),
        ((str(tmp_path), ours), "Is a directory"),
        ((theirs, str(tmp_path / "none.sqlite")), "none.sqlite: no such file"),
    ):
        assert run(*arguments) == 2, arguments
        assert said in capfd.readouterr().err


def varied(string: str, category: str = "AVX", **operand: Any) -> InstructionVariant:  # noqa: ANN401 - any field of an operand
    """Return a variant with that string and category: its first operand as said, its second a source."""
    described = {"kind": OperandKind.REGISTER, "name": "REG0", "read": False, "written": True, **operand}
    return replace(
        variant(string.partition(" ")[0]),
        string=string,
        category=category,
        operands=(Operand(1, **described), Operand(2, OperandKind.REGISTER, name="REG1", read=True)),
    )


LOAD = varied("VMOVUPS (XMM, M128)", "DATAXFER", kind=OperandKind.MEMORY, read=True, written=False)
BLEND = varied("VPBLENDD (XMM, XMM, M128, I8)", kind=OperandKind.MEMORY, read=True, written=False)


@pytest.mark.parametrize(
    ("theirs", "computed", "ours", "reason"),
    [
        ("0.35", "0.67", {"TP_unrolled": "0.67", "TP_loop": "0.67"}, "below ports"),
        ("0.65", "0.67", {"TP_unrolled": "0.90", "TP_loop": "0.90"}, ""),
        ("0.35", "0.67", {"TP_unrolled": "0.90", "TP_loop": "0.90"}, ""),  # theirs is impossible, ours may be, too
        ("0.42", "0.25", {"TP_unrolled": "0.50", "TP_loop": "0.50"}, "below load"),
        ("0.42", "0.25", {"TP_unrolled": "0.70", "TP_loop": "0.70"}, ""),
        ("1.00", "0.67", {"TP_unrolled": "0.66", "TP_loop": "0.90"}, "as ports"),
        ("1.00", "0.50", {"TP_unrolled": "0.66", "TP_loop": "0.68"}, "twice less"),
        ("1.00", "0.50", {"TP_unrolled": "0.66", "TP_loop": "0.75"}, ""),
        ("1.00", "0.50", {"TP_unrolled": "0.66", "TP_loop": "0.80", "rhythms_unrolled": "0.85 0.98"}, "rhythm"),
        ("1.00", "0.50", {"TP_unrolled": "2.00", "TP_loop": "2.00"}, ""),
        ("1.00", "0.25", {"TP_unrolled": "0.50", "TP_loop": "0.50"}, "twice less"),
        ("1.00", "0.25", {"TP_unrolled": "0.40", "TP_loop": "0.40"}, ""),  # too far apart for numbers to tell
        ("41865", "0.25", {"TP_unrolled": "985", "TP_loop": "992"}, ""),
        ("105", "1.00", {"TP_unrolled": "1.00", "TP_loop": "1.00"}, ""),
        ("1.00", "0.50", {"TP_unrolled": "0.28", "TP_loop": "0.28"}, ""),  # less than the ports allow: ours is wrong
        ("0.33", "0.33", {"TP_unrolled": "0.28", "TP_loop": "0.33"}, ""),
    ],
)
def test_rules_explain_throughputs_by_numbers(theirs: str, computed: str, ours: dict[str, str], reason: str) -> None:
    entries = [
        Entry(one, {"ZEN4": ArchitectureResult("ZEN4", values)})
        for one, values in ((LOAD, {"TP_unrolled": "0.50"}), (BLEND, ours))
    ]
    rows = [
        published("", "0.50", LOAD.string),
        replace(published("", theirs, BLEND.string), computed=Fraction(computed)),
    ]
    (found,) = compare_published(rows, entries, Tolerance()).differences
    assert found.reason == reason


FLAGS: dict[str, Any] = {"kind": OperandKind.FLAGS, "conditional_write": True}
PART: dict[str, Any] = {"width_bits": 16}
TWO: dict[str, Any] = {"read": True}  # two sources, so two pairs


@pytest.mark.parametrize(
    ("theirs", "ours", "operand", "reason"),
    [
        ("[0;3]", {"cycles": "3"}, TWO, "zero"),
        ("[0;3]", {"cycles": "5"}, TWO, ""),
        ("[0;3]", {"cycles": "3"}, {}, ""),  # one pair: it is its own latency that is published as 0
        ("[0;36]", {"cycles": "1"}, FLAGS, "condition"),
        ("[0;36]", {"cycles": "40"}, FLAGS, ""),  # no operand value was published to take that long
        ("[3;36]", {"cycles": "1"}, FLAGS, ""),
        ("[1;2]", {"cycles": "2"}, PART, "merged"),
        ("[1;2]", {"cycles": "2"}, {}, ""),
        ("6", {"cycles": "5"}, {}, "faster chain"),
        ("6", {"cycles": "3"}, {}, "faster chain"),
        ("7", {"cycles": "3"}, {}, ""),  # too far apart for numbers to tell
        ("2", {"cycles": "0"}, {}, ""),  # no chain is that fast
        ("[5;12]", {"cycles": "5", "cycles_addr": "10", "cycles_addr_is_upper_bound": "1"}, {}, "faster chain"),
        ("4", {"cycles": "6"}, {}, ""),
    ],
)
def test_rules_explain_latencies_by_numbers_and_operands(
    theirs: str, ours: dict[str, str], operand: dict[str, Any], reason: str
) -> None:
    one = varied("ADC (R64, R64)", "BINARY", **operand)
    result = ArchitectureResult("ZEN4", {"uops": "1"}, (LatencyRow(1, 2, ours),))
    (found,) = compare_published([published(theirs)], [Entry(one, {"ZEN4": result})], Tolerance()).differences
    assert found.reason == reason


@pytest.mark.parametrize(("theirs", "operand"), [("[0;3]", TWO), ("[1;3]", PART)])
def test_a_latency_of_one_pair_is_not_explained_by_another_pair(theirs: str, operand: dict[str, Any]) -> None:
    one = varied("ADC (R64, R64)", "BINARY", **operand)
    result = ArchitectureResult("ZEN4", {"uops": "1"}, (LatencyRow(1, 2, {"cycles": "3"}),))
    row = replace(published(), latencies={"1→2 cycles": parse_latency(theirs)})
    (found,) = compare_published([row], [Entry(one, {"ZEN4": result})], Tolerance()).differences
    assert found.reason == ""


@pytest.mark.parametrize(("simulated", "of_one_cpu"), [(True, True), (False, False), (False, True)])
def test_neither_a_model_nor_another_cpu_explains_a_difference(*, simulated: bool, of_one_cpu: bool) -> None:
    values = {"TP_unrolled": "0.66", "TP_loop": "0.66"} | ({"simulated": "1"} if simulated else {})
    ours = entry_of("ADC (R64, R64)", {"cycles": "5"}, values)
    row = published("6", "1.00")
    found = compare_published([row], [ours], Tolerance(), of_one_cpu=of_one_cpu).differences
    expected = ["", ""] if simulated or not of_one_cpu else ["faster chain", "twice less"]
    assert [one.reason for one in found] == expected


def test_what_is_explained_meets_no_goal() -> None:
    found = Comparison()
    found.compared["latency"], found.agreed["latency"] = 1000, 998
    found.differences.append(
        Difference("ADC", "latency", "less", "", "BASE", "", "BINARY", "", "6", "5", 1.2, "faster chain")
    )
    assert found.share_known("latency") == Fraction(999, 1000)
    assert found.missed() == ["latency"]


def of_cpu(path: Path, architecture: str, signature: str) -> str:
    found = entry(TP_loop="1.00")
    (result,) = found.results.values()
    moved = Entry(found.variant, {architecture: replace(result, architecture=architecture)})
    where = Provenance(architecture, f"CPU of {path.stem}", signature, "", "", "tsc", "1", "2026-01-01T00:00:00+00:00")
    with path.open("wb") as file:
        write_database([moved], [where], file)
    return str(path)


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (("ZEN4", "19-11-1"), ("ZEN4", "19-11-1"), ""),
        (("SKL", "6-5E-3"), ("ZEN4", "19-11-1"), "these are different CPUs (SKL, ZEN4)"),
        (("ZEN4", "19-61-2"), ("ZEN4", "19-11-1"), "these are different CPUs of one architecture"),
    ],
)
def test_different_cpus_are_said_before_all_figures(
    theirs: tuple[str, str],
    ours: tuple[str, str],
    said: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    files = of_cpu(tmp_path / "theirs.xml", *theirs), of_cpu(tmp_path / "ours.xml", *ours)
    assert run(*files) == 0
    heading = capfd.readouterr().out.partition("1 variants of")[0]
    assert f"theirs.xml: {theirs[0]}: CPU of theirs ({theirs[1]}), backend tsc" in heading
    assert said in heading
    assert ("different" in heading) is bool(said)
