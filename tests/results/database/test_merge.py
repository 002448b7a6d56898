"""Campaigns put together: which conclusion counts, and what is said about the others."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from results.campaign.store import Store
from results.database import merge
from results.database.xml import ConcludedVariant, database_entry
from results.findings import Text
from results.model import Characterization, Form, FormResult, PortUsage, Provenance, Throughput
from tests.results.database.strategies import variant

if TYPE_CHECKING:
    from pathlib import Path

    from results.database.reader import Entry
    from xed_convert.model import InstructionVariant

VARIANT = variant("ADC")
MACHINE = Provenance("SKL", "a CPU", "6-5E-3", "0x1", "6.1", "tsc", "1", "2026-01-01T00:00:00Z")


def conclusion(
    ports: str = "1*p06", *, failures: tuple[str, ...] = (), tp: int = 1, **machine: object
) -> ConcludedVariant:
    result = Characterization(
        VARIANT.key,
        VARIANT.string,
        VARIANT.iform,
        uops=1,
        forms={Form.PLAIN: FormResult(PortUsage.parse(ports), Throughput(Fraction(tp), Fraction(tp), Fraction(tp)))},
        failures=tuple(map(Text, failures)),
    )
    return ConcludedVariant(result, dataclasses.replace(MACHINE, **machine))  # type: ignore[arg-type] # any field


def merged(one: InstructionVariant, *conclusions: ConcludedVariant) -> tuple[merge.Merge, list[Entry]]:
    found = merge.Merge([one], merge.lookup_among(conclusions))
    return found, list(found.entries())


@pytest.mark.parametrize(
    ("winner", "loser"),
    [
        (conclusion(), conclusion(backend="sim", is_model=True, time="2027")),
        (conclusion(), conclusion(backend="kmod", failures=("sums differ",), time="2027")),
        (conclusion(backend="kmod"), conclusion(backend="perf", time="2027")),
        (conclusion(backend="perf"), conclusion(backend="tsc", time="2027")),
        (conclusion(time="2027"), conclusion(time="2026")),
    ],
)
def test_which_of_two_conclusions_counts(winner: ConcludedVariant, loser: ConcludedVariant) -> None:
    for order in ([winner, loser], [loser, winner]):
        (entry,) = merged(VARIANT, *order)[1]
        assert entry == database_entry(VARIANT, [winner])


def test_disagreements_are_listed_and_agreements_are_not() -> None:
    kernel, clock = conclusion("1*p06", backend="kmod"), conclusion("2*p06")
    (one,) = merged(VARIANT, clock, kernel)[0].disagreements
    assert (one.change.attribute, one.change.old, one.change.new) == ("ports", "2*p06", "1*p06")
    assert (one.winner.split()[0], one.loser.split()[0]) == ("kmod", "tsc")
    assert merged(VARIANT, conclusion(), conclusion(backend="kmod"))[0].disagreements == []


def test_architectures_stand_side_by_side_and_a_software_model_beside_the_measurement() -> None:
    model = conclusion("1*p0", backend="llvm-mca", is_model=True)
    (entry,) = merged(VARIANT, conclusion(), model, conclusion(architecture="HSW"))[1]
    assert set(entry.results) == {"SKL", "HSW"}
    assert (entry.results["SKL"].measurement or {})["ports"] == "1*p06"
    assert [analysis.tag for analysis in entry.results["SKL"].analyses] == ["LLVM"]


def test_a_variant_that_the_catalogue_lacks_is_named(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.sqlite") as store:
        store.begin(MACHINE)
        store.conclude(conclusion().result, [], "1")
    with merge.Campaigns([tmp_path / "x.sqlite"]) as campaigns:
        assert campaigns.unknown([variant("SBB").key]) == [VARIANT.key]
        assert campaigns.unknown([VARIANT.key]) == []
        assert [one.result for one in campaigns.lookup(VARIANT.key)] == [conclusion().result]
        assert campaigns.provenances() == [MACHINE]


def test_a_renamed_variant_keeps_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "renamed_keys", lambda: {VARIANT.key: variant("SBB").key})
    (entry,) = merged(variant("SBB"), conclusion())[1]
    assert "SKL" in entry.results


def test_what_was_skipped_is_not_written() -> None:
    skipped = conclusion()
    skipped = dataclasses.replace(skipped, result=dataclasses.replace(skipped.result, skipped="not on this CPU"))
    assert merged(VARIANT, skipped)[1][0].results == {}
