"""The schema of instructions.xml, and what changes between catalogues."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.catalogue.describe import describe
from xed_convert.catalogue.diff import diff_catalogues
from xed_convert.catalogue.schema import validate
from xed_convert.catalogue.xml import write_xml
from xed_convert.errors import ConversionError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

    from xed_convert.model import InstructionVariant


@pytest.fixture(scope="module")
def some() -> list[InstructionVariant]:
    return list(Catalogue.load())[::97]


def write(path: Path, variants: list[InstructionVariant]) -> Path:
    with atomic_write(path) as file:
        write_xml(variants, file, empty_extensions=["NONE"])
    return path


def test_what_is_written_is_valid(some: list[InstructionVariant], tmp_path: Path) -> None:
    path = write(tmp_path / "x.xml", some)
    validate(path)
    assert path.read_text().count("<instruction ") == len(some) > 200


@pytest.mark.parametrize(
    ("old", "new"), [('cpl="3"', 'cpl="4"'), (' asm="', ' masm="'), ('type="reg"', 'type="register"'), ("</root>", "")]
)
def test_what_is_not_valid_is_refused(some: list[InstructionVariant], tmp_path: Path, old: str, new: str) -> None:
    path = write(tmp_path / "x.xml", some)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ConversionError, match=r"x\.xml:"):
        validate(path)


def test_a_string_that_comes_twice_is_refused(some: list[InstructionVariant], tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="strings-are-unique"):
        validate(write(tmp_path / "x.xml", [some[0], replace(some[1], string=some[0].string)]))


def test_a_catalogue_does_not_differ_from_itself(some: list[InstructionVariant]) -> None:
    found = diff_catalogues(some, some)
    assert [found.added, found.removed, found.renamed, found.changed] == [[], [], [], []]


def test_added_removed_renamed_changed(some: list[InstructionVariant]) -> None:
    first, second, third, *rest = some
    renamed = replace(second, iform=second.iform + "_NEW", string="NEW NAME")
    changed = replace(third, cpl=third.cpl ^ 3)
    found = diff_catalogues([*some], [renamed, changed, *rest, replace(first, iform="OTHER", encoding="leg.0.90")])
    assert [variant.iform for variant in found.added] == ["OTHER"]
    assert found.removed == [first]
    assert found.renamed == [(second, renamed)]
    assert found.changed == [(changed, [f"cpl: {third.cpl} -> {changed.cpl}"])]


def test_everything_of_a_variant_is_shown() -> None:
    text = "\n".join(describe(Catalogue.load().by_string("ADC_11 (R64, R64)")))
    for part in ("ADC_GPRv_GPRv_11", "{store} ADC", "CF:r/w", "RAX", "leg.0.11", "64 bits", "eosz=3*"):
        assert part in text
