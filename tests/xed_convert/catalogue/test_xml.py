"""Reading and writing the catalogue's XML."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from tests.shared import reference_xml
from xed_convert.catalogue import xml as catalogue_xml
from xed_convert.catalogue.catalogue import Catalogue, read_xml
from xed_convert.errors import ConversionError, UnknownInstructionError, UopscopeError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load(reference_xml())


def test_writing_and_reading_are_inverse(catalogue: Catalogue, tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    with atomic_write(path) as file:
        catalogue_xml.write_xml(catalogue, file)
    assert sorted(read_xml(path), key=lambda v: v.key) == sorted(catalogue, key=lambda v: v.key)


def test_what_is_written_is_as_in_the_reference(catalogue: Catalogue) -> None:
    file = io.BytesIO()
    catalogue_xml.write_xml(catalogue, file)
    with catalogue_xml.open_catalogue(reference_xml()) as reference:
        wanted = [
            line for line in reference.read().splitlines() if b"extension " not in line or b"<instruction" in line
        ]
    ours = [line for line in file.getvalue().splitlines() if b"<extension " not in line]
    strip = (b"  </extension>", b"<root>", b"</root>")
    assert sorted(line for line in ours if line.strip() not in strip) == sorted(
        line for line in wanted if line.strip() not in strip and not line.startswith(b"  <extension ")
    )


def test_truncated_xml_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text("<root>\n<extension name='A'>\n<instruction iform='A'/>\n")
    with pytest.raises(ConversionError, match=r"x\.xml:3: "):
        read_xml(path)


def test_missing_catalogue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="cannot be read"):
        read_xml(tmp_path / "absent.xml")


def test_an_unknown_name_gets_the_nearest(catalogue: Catalogue) -> None:
    known = next(iter(catalogue))
    with pytest.raises(UnknownInstructionError) as caught:
        catalogue.find(known.iform + "X")
    assert known.iform in str(caught.value)


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as file:
            file.write(b"new")
            message = "midway"
            raise ValueError(message)

    with pytest.raises(ValueError, match="midway"):
        fail()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_an_impossible_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(UopscopeError, match="cannot be written"), atomic_write(tmp_path / "none" / "x"):
        pass
