"""nanoBench's configuration files, and what is wrong in them."""

from pathlib import Path

import pytest

from runner.own_code.counters import CounterChoice, CounterError, MsrCounter, choose, read_config, read_event

CONFIG = """# Based on https://example.org/events.json
# Applies to processors with family-model in {6-C5, 6-C6}

3C.00 CORE_CYCLES
B1.01.CTR=3 UOPS_EXECUTED
0C0.00 ExRetInstr
A1.01.CMSK=0x2.EDG.INV.AnyT.CTR=0-3 WITH ALL
B7.01.MSR_RSP0=0x3F803C0001\tOFFCORE
CD.01.MSR_3F6H=0x80
msr_0xE01=0x20000000.msr_700=0x408F34 msr_706 LLC_LOOKUP_CBO_0
msr_611 MSR_PKG_ENERGY_STATUS
"""


def test_a_configuration_file_of_nanobench_is_read_as_it_is() -> None:
    events, msrs = read_config(CONFIG, "cfg.txt")
    by_name = {one.name: one for one in events}
    names = ["CORE_CYCLES", "UOPS_EXECUTED", "ExRetInstr", "WITH ALL", "OFFCORE", "CD.01.MSR_3F6H=0x80"]
    assert list(by_name) == names
    assert by_name["CORE_CYCLES"].event.selector == 0x3C
    assert by_name["UOPS_EXECUTED"].event.counters == (3,)
    # cmask 2 at bit 24, invert 23, any thread 21, edge 18 (Intel SDM volume 3B, 20.2.1.1)
    assert by_name["WITH ALL"].event.selector == 0x02A401A1
    assert by_name["WITH ALL"].event.counters == (0, 1, 2, 3)
    assert by_name["OFFCORE"].msrs == {0x1A6: 0x3F803C0001}
    assert by_name["CD.01.MSR_3F6H=0x80"].msrs == {0x3F6: 0x80}
    assert by_name["CORE_CYCLES"].event.source == "cfg.txt:4"
    assert msrs == [
        MsrCounter("LLC_LOOKUP_CBO_0", ((0xE01, 0x20000000), (0x700, 0x408F34)), 0x706),
        MsrCounter("MSR_PKG_ENERGY_STATUS", (), 0x611),
    ]


def test_event_codes_of_amd_have_twelve_bits() -> None:
    assert read_event("1CF.02 IBS", "x").event.selector == 0x1_0000_02CF


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("XYZ", "is no event"),
        ("C0 NAME", "is no event"),
        ("C0.00.FOO=3 NAME", "'FOO=3' is not known"),
        ("C0.00.CMSK=256 NAME", "not between 0 and 0xff"),
        ("C0.00.CTR=5-2 NAME", "ends before it begins"),
        ("C0.00.CTR=x NAME", "needs a number"),
        ("msr_xyz NAME", "no MSR to read"),
        ("msr_1=zz msr_2 NAME", "needs a number"),
        ("C0.00 A\nC1.00 A", "comes twice"),
        ("# nothing", "no event in it"),
    ],
)
def test_wrong_lines_are_named(line: str, said: str) -> None:
    with pytest.raises(CounterError, match=said) as caught:
        read_config(line, "cfg.txt")
    assert "cfg.txt" in caught.value.message


def test_choices(tmp_path: Path) -> None:
    assert choose(None) == choose("all") == CounterChoice()
    assert choose("default").usual
    assert choose("core_cycles,p0").names == ("core_cycles", "p0")
    mixed = choose("core_cycles, C0.00.INV RETIRED")
    assert mixed.names == ("core_cycles", "RETIRED")
    assert [one.event.invert for one in mixed.events] == [True]
    file = tmp_path / "mine.txt"
    file.write_text(CONFIG)
    assert len(choose(str(file)).msrs) == 2
    with pytest.raises(CounterError, match=r"missing\.txt"):
        choose(str(tmp_path / "missing.txt"))
