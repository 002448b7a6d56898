"""Two runs of one machine: what counts as agreement, and what is said of the rest."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.database.agreement import Agreement, agreement
from results.database.reader import ArchitectureResult, Entry, LatencyRow
from results.database.writer import write_database
from runner.cli import db
from tests.results.database.strategies import variant
from tests.runner.cli.commands import called

if TYPE_CHECKING:
    from pathlib import Path


def entry(name: str = "ADC", *, latency: dict[str, str] | None = None, **measurement: str) -> Entry:
    rows = (LatencyRow(1, 2, latency),) if latency else ()
    return Entry(variant(name), {"ZEN4": ArchitectureResult("ZEN4", measurement, rows)})


def one(first: Entry, second: Entry) -> Agreement:
    return agreement([first], [second])


@pytest.mark.parametrize(
    ("first", "second", "agrees"),
    [
        ("1.00", "1.00", True),
        ("1.00", "1.05", True),
        ("1.00", "1.06", False),
        ("1.06", "1.00", False),
        ("0.03", "0.04", True),  # one hundredth may be rounding
        ("0.03", "0.05", False),
        ("1.00", "", False),
    ],
)
def test_throughputs_agree_within_five_percent(first: str, second: str, *, agrees: bool) -> None:
    runs = [entry(uops="1", TP_loop=text) if text else entry(uops="1") for text in (first, second)]
    found = agreement([runs[0]], [runs[1]])
    assert found.compared["throughput"] == 1
    assert found.share("throughput") == Fraction(agrees)
    assert bool(found.differences) is not agrees


@pytest.mark.parametrize(
    ("first", "second", "shares"),
    [
        ({"cycles": "20"}, {"cycles": "21"}, (1, 1)),
        ({"cycles": "3"}, {"cycles": "4"}, (0, 1)),
        ({"cycles": "20", "cycles_is_upper_bound": "1"}, {"cycles": "20"}, (1, 1)),
        ({"cycles": "21"}, {"min_cycles": "21", "max_cycles": "22"}, (2, 2)),
        ({"cycles": "21"}, {"min_cycles": "13", "max_cycles": "22"}, (1, 2)),
        ({"cycles": "4"}, {"cycles_addr": "4"}, (0, 2)),
        ({"cycles": "4", "spread": "0.50"}, {"cycles": "4"}, (1, 1)),
    ],
)
def test_latencies(first: dict[str, str], second: dict[str, str], shares: tuple[int, int]) -> None:
    found = one(entry(latency=first), entry(latency=second))
    assert (found.agreed["latency"], found.compared["latency"]) == shares


def test_ports_and_uops_are_equal_or_not() -> None:
    found = one(
        entry(uops="100", ports="100*p06", TP_ports="50.00"), entry(uops="101", ports="101*p06", TP_ports="9.00")
    )
    assert dict(found.compared) == {"uops": 1, "ports": 1}
    assert not found.agreed
    assert found.missed() == []


def test_what_only_one_run_has_is_counted_apart() -> None:
    found = agreement([entry("A", uops="1"), entry("B", uops="1")], [entry("B", uops="1"), entry("C", uops="1")])
    assert (found.variants, found.only) == (1, {"first": 1, "second": 1})


def test_differences_come_in_groups_with_the_largest_first() -> None:
    names = ("A", "B", "C")
    first = [entry(name, TP_loop="1.00") for name in names]
    second = [entry(name, TP_loop=text) for name, text in zip(names, ("1.20", "1.21", "9.00"), strict=True)]
    groups = agreement(first, second).groups()
    assert [(key, len(found)) for key, found in groups] == [
        (("throughput", "BASE", "by up to 25 %"), 2),
        (("throughput", "BASE", "by up to 100 %"), 1),
    ]


def written(path: Path, *found: Entry) -> str:
    with path.open("wb") as file:
        write_database(found, [], file)
    return str(path)


@pytest.mark.parametrize(("second", "code"), [("1.01", 0), ("1.50", 1)])
def test_the_command_says_shares_and_goals(
    tmp_path: Path, second: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [written(tmp_path / f"{text}.xml", entry(TP_loop=text)) for text in ("1.00", second)]
    assert called(["diff", *files, "--agreement"], db.app) == code
    printed = capfd.readouterr().out
    assert f"throughput: {1 - code} of 1 values within 5%: {1 - code:.2%} (goal 97%: " in printed
    assert ("1 throughput of BASE by up to 50 %, such as ADC (R64, R64) TP_loop: 1.00, 1.50" in printed) is bool(code)


@pytest.mark.parametrize("options", [["--agreement"], [], ["--json"]])
def test_runs_with_nothing_in_common_are_an_error(
    options: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [written(tmp_path / f"{name}.xml", entry(name, uops="1")) for name in ("A", "B")]
    assert called(["diff", *files, *options], db.app) == 2
    assert "no variant was measured in both" in capfd.readouterr().err


def by_time(name: str, ports: str) -> Entry:
    return entry(name, ports=ports, ports_by_time="1")


FIRST = {
    "POPCNT": "1*r0123",
    "SHLX": "1*r01",
    "SHRX": "1*r01",
    "SARX": "1*r01",
    "PDEP": "1*r0",
    "MOV": "1*r45",
    "ADD": "1*r0123+1*r45",
}


@given(st.permutations("0123456789"))
def test_ports_by_time_agree_whatever_they_are_called(letters: list[str]) -> None:
    called_now = str.maketrans("0123456789", "".join(letters))
    first = [by_time(name, ports) for name, ports in FIRST.items()]
    second = [
        by_time(name, "+".join(f"1*r{term[3:].translate(called_now)}" for term in ports.split("+")))
        for name, ports in FIRST.items()
    ]
    assert agreement(first, second).share("ports") == 1


def test_another_set_of_ports_by_time_is_no_other_name() -> None:
    first = [by_time(name, ports) for name, ports in FIRST.items()]
    second = [by_time(name, "1*r23" if name == "SHLX" else ports) for name, ports in FIRST.items()]
    found = agreement(first, second)
    assert [(one.string, one.first, one.second) for one in found.differences] == [
        (variant("SHLX").string, "1*r01", "1*r23")
    ]


LEFT_OVER = ({"SHLX": "1*r0", "MOV": "2*r0"}, {"SHLX": "1*r2", "MOV": "1*r2+1*r0"})
"""r2 of the second run is r0 of the first. Its r0 is another port, and must not be taken for that one."""


def test_a_port_by_time_that_only_one_run_has_is_not_taken_for_a_renamed_one() -> None:
    first, second = ([by_time(name, ports) for name, ports in run.items()] for run in LEFT_OVER)
    found = agreement(first, second)
    assert found.names == {"ZEN4": {"r2": "r0", "r0": "OTHER_0"}}
    assert [(one.first, one.second) for one in found.differences] == [("2*r0", "1*OTHER_0+1*r0")]


def test_a_port_by_time_that_only_equal_registers_have_gets_a_name_of_its_own() -> None:
    first = [by_time("SHLX", "1*r0"), by_time("MOV", "1*r1")]
    second = [by_time("SHLX", "1*r1"), entry("MOV", ports="1*r2", ports_same_reg="1*r0", ports_by_time="1")]
    found = agreement(first, second)
    assert found.names == {"ZEN4": {"r1": "r0", "r2": "r1", "r0": "OTHER_0"}}


def test_the_command_says_which_ports_by_time_only_the_second_run_has(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [
        written(tmp_path / f"{number}.xml", *(by_time(name, ports) for name, ports in run.items()))
        for number, run in enumerate(LEFT_OVER)
    ]
    assert called(["diff", *files, "--agreement"], db.app) == 0
    printed = capfd.readouterr().out
    assert "other names in 1.xml: r0 is OTHER_0, r2 is r0\n  OTHER_: a port of 1.xml that is none of 0.xml" in printed


def test_counted_ports_keep_their_names() -> None:
    found = agreement([entry("ADC", ports="1*p06")], [entry("ADC", ports="1*p01")])
    assert found.share("ports") == 0
    assert found.names == {}
