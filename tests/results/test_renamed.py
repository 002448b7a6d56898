"""The table of variants that a new XED release renamed."""

from __future__ import annotations

import pytest

from results.database.merge import renamed_keys, renamed_rows
from tests.shared import XED_OLD, xed_datafiles
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.catalogue.diff import diff_catalogues
from xed_convert.datafiles.folder import Datafiles
from xed_convert.expansion.convert import convert


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def test_old_names_are_gone_and_new_ones_are_there(catalogue: Catalogue) -> None:
    keys = {variant.key for variant in catalogue}
    rows = renamed_rows()
    assert len(rows) == len(renamed_keys()) == len(set(renamed_keys().values()))
    for row in rows:
        assert set(row) == {"old", "new", "reason"}
        assert row["old"] not in keys
        assert row["new"] in keys
        assert row["reason"]


def test_all_that_the_release_renamed_is_in_the_table(catalogue: Catalogue) -> None:
    old = convert(Datafiles.load(xed_datafiles(XED_OLD))).variants
    found = diff_catalogues(old, catalogue)
    assert {one.key: other.key for one, other in found.renamed}.items() <= renamed_keys().items()
    gone = {one.isa_set for one in found.removed if one.key not in renamed_keys()}
    assert {name for name in gone if not name.startswith("AMX_")} == set()
