"""Files under the names that other tools know: XED's of 2024, and CPUs that they tell apart."""

from __future__ import annotations

import dataclasses
import io

import pytest
from lxml import etree

from results.database.merge import Merge, lookup_among, renamed_rows
from results.database.naming import XED_2024, NamingError, naming_of, port_letters
from results.database.reader import ArchitectureResult, Entry
from results.database.writer import write_database
from results.database.xml import ConcludedVariant
from results.model import PORT_LETTERS, Characterization, Provenance
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


def test_ports_found_by_time_have_numbers_for_readers() -> None:
    assert port_letters(["r7", "FP0", "r0", "FP2", "rA"]) == {"r0": "1", "r7": "3", "rA": "4"}
    assert port_letters(["0", "1", "6", "r6"]) == {"r6": "2"}
    naming = naming_of(XED_2024).with_ports({"ZEN4": ["r0", "r7", "rA", "FP0", "FP1"]})
    (variant,) = Catalogue.load().find("ADC_11 (R64, R64)")
    values = {"ports": "1*FP01+1*r7A", "some_ports": "2*r0", "ports_by_time": "1", "TP_ports": "1.00"}
    machine = dataclasses.replace(KABY_LAKE, architecture="ZEN4")
    (entry,) = naming.entries([Entry(variant, {"ZEN4": ArchitectureResult("ZEN4", values)})], [machine])
    assert entry.results["ZEN4"].measurement == {**values, "ports": "1*FP01+1*p34", "some_ports": "2*p2"}
    (provenance,) = naming.provenances([machine])
    assert provenance.caveats[-1].endswith("r0 is p2, r7 is p3, rA is p4")
    assert naming_of("").provenances([machine]) == [machine]


def test_usages_with_ports_without_a_number_are_left_out() -> None:
    ports = [f"r{letter}" for letter in PORT_LETTERS]
    naming = naming_of(XED_2024).with_ports({"ZEN4": [*ports, "FP0", "FP1"]})
    (variant,) = Catalogue.load().find("ADC_11 (R64, R64)")
    values = {"ports": "1*r01", "some_ports": "1*r0+1*rIJ", "uops": "2"}
    machine = dataclasses.replace(KABY_LAKE, architecture="ZEN4")
    (entry,) = naming.entries([Entry(variant, {"ZEN4": ArchitectureResult("ZEN4", values)})], [machine])
    assert entry.results["ZEN4"].measurement == {"ports": "1*p23", "uops": "2"}
    (provenance,) = naming.provenances([machine])
    (said,) = naming.left_out()
    assert said == ("ZEN4", "no number is left for rI, rJ: port usages with them are left out")
    assert provenance.caveats[-1] == said[1]
    assert not list(naming_of(XED_2024).with_ports({"ZEN4": ports}).left_out())
