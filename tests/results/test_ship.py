"""The shipped database: what it is made of, and that the two files in the tree are true to each other."""

from __future__ import annotations

import dataclasses
import json
import lzma
import re
from collections import Counter
from fractions import Fraction
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results import ship, shipped
from results.campaign import codec, packed
from results.campaign.file import StoreError
from results.campaign.store import Store
from results.database import merge, rules
from results.database.entries import entries_of, provenances_of
from results.database.reader import ArchitectureResult, read_database, read_provenances
from results.database.xml import ConcludedVariant, database_entry, rounded
from results.findings import Text
from results.machine.constants import issue_width_of
from results.model import Bound, Characterization, Derivation, Form, FormResult, LatencyResult, Provenance, Throughput
from results.ports import is_issued_in
from runner.cli.process.guard import UsageError
from runner.cli.support import characterize
from runner.cli.support.options import CampaignOptions
from tests.shared import CHECKOUT
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.catalogue.schema import validate

if TYPE_CHECKING:
    from pathlib import Path

    from results.database.reader import Entry
    from xed_convert.model import InstructionVariant

ADC, SBB = "ADC_11 (R64, R64)", "SBB_19 (R64, R64)"
MACHINE = Provenance(
    "ZEN4", "a CPU", "19-11-1", "0x1", "6.1", "tsc", "1", "2026-01-01T00:00:00Z", caveats=("a clock only",)
)


def result(variant: InstructionVariant) -> Characterization:
    latency = LatencyResult(
        1, 2, Fraction(12345679, 4000000), Bound.UPPER, "itself", spread=Fraction(1, 3), experiments=("abc",)
    )
    return Characterization(
        variant.key,
        variant.string,
        variant.iform,
        forms={Form.PLAIN: FormResult(None, Throughput(Fraction(1234567, 2500000), None, None, Fraction(1, 90000)))},
        latencies=(latency,),
        failures=(Text("the chain varies"),),
        derivations=(Derivation("TP_unrolled", (Text("0.50 / 1"),), ("abc",)),),
    )


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


@pytest.fixture
def campaign(tmp_path: Path, catalogue: Catalogue) -> Path:
    path = tmp_path / "campaign.sqlite"
    with Store.open(path) as store:
        store.begin(MACHINE, {"name": "tsc"})
        store.conclude(result(catalogue.by_string(ADC)), [], "0.0", "2026-01-01T00:00:01+00:00")
        skipped = Characterization("key", "X (Y)", "X", skipped="this CPU does not have X")
        store.conclude(skipped, [], "0.0")
        store.begin(dataclasses.replace(MACHINE, microcode="0x2"), {"name": "tsc"})
        store.conclude(result(catalogue.by_string(SBB)), [], "0.1")
    return path


def test_a_condensed_campaign_gives_the_same_database(campaign: Path, catalogue: Catalogue, tmp_path: Path) -> None:
    ship.condense(campaign, tmp_path / "condensed.jsonl.xz", ("the machine was shared",))
    with Store.read(campaign) as store, Store.read(tmp_path / "condensed.jsonl.xz") as condensed:
        before = {one.result.string: one for one in store.conclusions()}
        after = {one.result.string: one for one in condensed.conclusions()}
        assert condensed.backend() == {"name": "tsc"}
        assert condensed.outcomes() == store.outcomes()
    assert before.keys() == after.keys()
    for name in (ADC, SBB):
        one, other = before[name], after[name]
        assert (one.inference, one.time) == (other.inference, other.time)
        assert other.provenance.caveats[:2] == ("a clock only", "the machine was shared")
        assert "raw samples of 0 measurements were left out" in other.provenance.caveats[2]
        assert dataclasses.replace(other.provenance, caveats=one.provenance.caveats) == one.provenance
        assert other.result.latencies[0].cycles == Fraction(3086, 1000)
        assert (other.result.latencies[0].experiments, other.result.derivations) == ((), ())
        variant = catalogue.by_string(name)
        entries = [database_entry(variant, [ConcludedVariant(each.result, MACHINE)]) for each in (one, other)]
        assert entries[0] == entries[1]


@given(st.fractions(0, 5000, max_denominator=10**9))
def test_a_shorter_number_is_written_as_the_exact_one(cycles: Fraction) -> None:
    short = ship.shorter(cycles)
    assert short is not None
    assert abs(short - cycles) <= Fraction(1, 2000)
    assert (rounded(short), f"{float(short):.2f}") == (rounded(cycles), f"{float(cycles):.2f}")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"is_model": True}, "simulated"), ({"architecture": "other"}, "nothing was measured")],
)
def test_what_is_not_shipped(
    tmp_path: Path, catalogue: Catalogue, change: dict[str, object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(tmp_path / "x.sqlite") as store:
        store.begin(dataclasses.replace(MACHINE, **change))  # type: ignore[arg-type] # any field
        found = result(catalogue.by_string(ADC))
        skip = "" if change.get("is_model") else "this CPU lacks it"
        store.conclude(dataclasses.replace(found, skipped=skip), [], "0")
    assert ship.main([str(tmp_path / "x.sqlite"), "-o", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["x.sqlite"]


def test_a_file_that_would_be_too_large_is_refused(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship, "MAXIMUM_BYTES", 10)
    with pytest.raises(ship.ShipError, match="more than 10"):
        ship.ship(campaign, (), tmp_path)


def test_provenances_of_packed_conclusions_are_read_without_these(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl.xz"
    ship.condense(campaign, path)
    with merge.Campaigns([path]) as campaigns:
        expected = campaigns.provenances()
    monkeypatch.setattr(codec, "decode_characterization", None)
    assert provenances_of(path) == expected
    assert {one.cpu for one in expected} == {MACHINE.cpu}


def test_packed_conclusions_are_read_and_never_written(campaign: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.xz"
    ship.condense(campaign, path)
    assert packed.is_campaign(path)
    assert [entry.variant.string for entry in entries_of(path)] == [ADC, SBB]
    with pytest.raises(StoreError, match="only read"):
        Store.open(path)
    ship.condense(path, tmp_path / "again.jsonl.xz")
    assert (tmp_path / "again.jsonl.xz").read_bytes() == path.read_bytes()


def test_a_packed_conclusion_is_decoded_once_and_never_encoded_again(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl.xz"
    ship.condense(campaign, path)
    with Store.read(path) as store:
        expected = list(store.conclusions())
    decode, decoded = codec.decode_characterization, Counter[str]()

    def counted(data: dict[str, Any]) -> Characterization:
        result = decode(data)
        decoded[result.string] += 1
        return result

    monkeypatch.setattr(codec, "decode_characterization", counted)
    monkeypatch.setattr(codec, "encode_characterization", None)
    with Store.read(path) as store:
        assert list(store.conclusions()) == expected
    assert decoded == Counter(one.result.string for one in expected)
    assert decoded.keys() >= {ADC, SBB}


def test_each_architecture_keeps_its_campaign_until_it_is_shipped_anew(
    campaign: Path, catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [catalogue.by_string(ADC), catalogue.by_string(SBB)]
    monkeypatch.setattr("results.ship.Catalogue.load", lambda: both)  # packing all of it takes seconds, three times
    other = tmp_path / "other.sqlite"
    with Store.open(other) as store:
        store.begin(dataclasses.replace(MACHINE, architecture="ZEN5"), {"name": "tsc"})
        store.conclude(result(both[0]), [], "0.2")
    target = tmp_path / "data"
    target.mkdir()
    for path, name in ((campaign, "measured.ZEN4.jsonl.xz"), (other, "measured.ZEN5.jsonl.xz")):
        assert [made.name for made in ship.ship(path, (), target)] == [name, shipped.NAME]
    first = (target / shipped.NAME).read_bytes()
    ship.ship(campaign, (), target)
    assert (target / shipped.NAME).read_bytes() == first
    found = {entry.variant.string: set(entry.results) for entry in read_database(target / shipped.NAME)}
    assert {string: names for string, names in found.items() if names} == {ADC: {"ZEN4", "ZEN5"}, SBB: {"ZEN4"}}


HEAD = json.dumps(packed.HEAD) + "\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged"),
        (lzma.compress(b""), "empty"),
        (b"not xz at all", "damaged"),
        (lzma.compress(HEAD.encode() * 100)[:-20], "damaged"),
        (lzma.compress(b'{"format":"other"}\n'), "not conclusions of uopscope"),
        (lzma.compress(b"[1]\n"), "not conclusions of uopscope"),
        (lzma.compress(HEAD.encode() + b"[" * 100_000 + b"\n"), "damaged"),
        (lzma.compress(HEAD.encode() + b'{"provenance":{"cpu":1},"backend":{}}\n'), "damaged"),
        (lzma.compress(HEAD.encode() + b'{"result":{}}\n'), "damaged"),
        (lzma.compress(HEAD.encode() + b'{"provenance": {}'), "2: damaged"),
        (lzma.compress(HEAD.encode() + b" " * (packed.MAXIMUM_LINE + 9)), "larger than"),
        (lzma.compress(HEAD.encode() + b"{}\n" * (packed.MAXIMUM_LINES + 9)), "damaged"),
    ],
)
def test_what_is_no_packed_campaign_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.jsonl.xz"
    path.write_bytes(data)
    with pytest.raises((packed.PackedError, StoreError), match=message):
        Store.read(path)


def test_there_is_nothing_to_draw_again_from_a_condensed_campaign(campaign: Path) -> None:
    options = CampaignOptions(patterns=(ADC,), reinfer=True, database=campaign)
    with pytest.raises(UsageError, match="no raw samples"):
        characterize.run(options)


# The files in the tree

DATABASE = shipped.data_folder() / shipped.NAME
CAMPAIGNS = shipped.shipped_campaigns()


@cache
def shipped_entries() -> list[Entry]:
    """Return the entries of the shipped database, which takes seconds to read."""
    return list(read_database(DATABASE))


def test_the_changelog_says_how_many_variants_are_shipped() -> None:
    (line,) = [
        one for one in (CHECKOUT / "CHANGELOG.md").read_text().splitlines() if one.startswith("- Shipped results")
    ]
    said = {f"ZEN{number}": int(count.replace(",", "")) for number, count in re.findall(r"Zen (\d) \(([\d,]*\d)", line)}
    shipped_of = Counter(name for entry in shipped_entries() for name in entry.results)
    assert said
    assert said == {name: shipped_of[name] for name in said}


def test_the_shipped_files_are_small() -> None:
    assert max(path.stat().st_size for path in (DATABASE, *CAMPAIGNS)) <= ship.MAXIMUM_BYTES


def test_the_shipped_database_was_measured_and_says_where() -> None:
    provenances = read_provenances(shipped.shipped_database())
    assert provenances
    for one in provenances:
        assert not one.is_model
        assert one.backend in merge.BACKENDS
        assert one.cpu
        assert one.cpu_signature
        assert any("raw samples" in caveat for caveat in one.caveats)


def test_the_shipped_database_is_that_of_the_shipped_campaign_and_keeps_the_rules() -> None:
    found = shipped_entries()
    assert list(rules.check_entries(found)) == []
    validate(DATABASE)
    with merge.Campaigns(CAMPAIGNS) as campaigns:
        assert campaigns.unknown(entry.variant.key for entry in found) == []
        merged = merge.Merge([entry.variant for entry in found], campaigns.lookup).entries()
        assert list(map(ship.with_possible_slots, merged)) == found
        by_time = attrgetter("time")
        assert sorted(campaigns.provenances(), key=by_time) == sorted(read_provenances(DATABASE), key=by_time)


def test_no_shipped_issue_slots_are_more_than_the_throughput_leaves_time_for() -> None:
    found = 0
    for entry in shipped_entries():
        for name, result in entry.results.items():
            values = result.measurement or {}
            if "issue_slots" in values:
                found += 1
                width = issue_width_of(name)
                assert width is not None
                times = [Fraction(values[each]) for each in ("TP_unrolled", "TP_loop") if each in values]
                assert is_issued_in(int(values["issue_slots"]), min(times), width), (name, entry.variant.string)
    assert found > 1000


def test_slots_that_older_versions_stated_are_left_out_where_they_are_impossible() -> None:
    values = {"TP_unrolled": "0.20", "issue_slots": "21"}
    entry = next(iter(read_database(shipped.shipped_database())))
    wrong = dataclasses.replace(entry, results={"EMR": ArchitectureResult("EMR", values)})
    right = dataclasses.replace(entry, results={"EMR": ArchitectureResult("EMR", {**values, "issue_slots": "1"})})
    assert ship.with_possible_slots(wrong).results["EMR"].measurement == {"TP_unrolled": "0.20"}
    assert ship.with_possible_slots(right) == right
