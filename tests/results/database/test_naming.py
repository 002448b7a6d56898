"""Files under the names that other tools know: XED's of 2024, and CPUs that they tell apart."""

from __future__ import annotations

import dataclasses
import io

import pytest
from lxml import etree

from results.database.merge import Merge, lookup_among, renamed_rows
from results.database.naming import XED_2024, NamingError, naming_of
from results.database.writer import write_database
from results.database.xml import ConcludedVariant
from results.model import Characterization, Provenance
from xed_convert.catalogue.catalogue import Catalogue

KABY_LAKE = Provenance("SKL", "a CPU", "6-9E-9", "", "", "perf", "1", "2026-01-01T00:00:00+00:00")


def test_every_renamed_variant_has_its_old_key() -> None:
    rows = renamed_rows()
    catalogue = {variant.key: variant for variant in Catalogue.load()}
    naming = naming_of(XED_2024)
    assert len(rows) == 92
    for row in rows:
        assert naming._variant(catalogue[row["new"]]).key == row["old"]
    assert naming_of("")._variant(catalogue[rows[0]["new"]]).key == rows[0]["new"]


@pytest.mark.parametrize(
    ("signature", "names"),
    [("6-9E-9", {"SKL", "KBL"}), ("6-9E-A", {"SKL", "CFL"}), ("6-5E-3", {"SKL"}), ("", {"SKL"})],
)
def test_a_cpu_that_readers_tell_apart_stands_under_both_names(signature: str, names: set[str]) -> None:
    machine = dataclasses.replace(KABY_LAKE, cpu_signature=signature)
    (variant,) = Catalogue.load().find("ADC_11 (R64, R64)")
    result = Characterization(variant.key, variant.string, variant.iform, uops=1)
    merged = Merge([variant], lookup_among([ConcludedVariant(result, machine)]))
    naming, file = naming_of(XED_2024), io.BytesIO()
    write_database(naming.entries(merged.entries(), [machine]), naming.provenances([machine]), file)
    root = etree.fromstring(file.getvalue())
    assert {one.get("name") for one in root.iter("architecture")} == names
    assert {one.get("architecture") for one in root.iter("provenance")} == names


def test_a_version_without_names_is_refused() -> None:
    with pytest.raises(NamingError, match="no names of '2023'"):
        naming_of("2023")
