"""The catalogue in the package: complete, as made from the datafiles, found by what people type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nonempty import some
from tests.shared import XED_NEW, XED_OLD, xed_datafiles
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.catalogue.store import SHIPPED, CatalogueFile
from xed_convert.errors import ConversionError, UnknownInstructionError
from xed_convert.expansion.ship import main, ship


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def strings(catalogue: Catalogue, pattern: str) -> list[str]:
    return [variant.string for variant in catalogue.find(pattern)]


@pytest.mark.slow
def test_it_is_what_the_datafiles_give(tmp_path: Path) -> None:
    target = tmp_path / "catalogue.bin"
    assert ship(xed_datafiles(XED_NEW), target) == len(Catalogue.load())
    assert target.read_bytes() == Path(SHIPPED).read_bytes()


def test_other_datafiles_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(xed_datafiles(XED_OLD)), str(tmp_path / "x")]) == 2
    assert "not those of XED" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_stem_means_its_opcodes_in_all_widths(catalogue: Catalogue) -> None:
    assert strings(catalogue, "ADC_GPRv_GPRv") == [
        f"ADC_{code} (R{w}, R{w})" for code in (11, 13) for w in (16, 32, 64)
    ]


def test_iforms_strings_iclasses_and_globs(catalogue: Catalogue) -> None:
    assert strings(catalogue, "adc_gprv_gprv_13") == ["ADC_13 (R16, R16)", "ADC_13 (R32, R32)", "ADC_13 (R64, R64)"]
    assert strings(catalogue, "ADC_11 (R64, R64)") == ["ADC_11 (R64, R64)"]
    assert {variant.iclass for variant in catalogue.find("ADC")} == {"ADC"}
    assert strings(catalogue, "adc_11 (r??, r??)") == [f"ADC_11 (R{width}, R{width})" for width in (16, 32, 64)]


def test_keys_and_strings_find_their_variant(catalogue: Catalogue) -> None:
    for variant in some(catalogue)[::501]:
        assert catalogue.by_key(variant.key) == variant
        assert catalogue.by_string(variant.string) == variant


@pytest.mark.parametrize("pattern", ["ADC_GPRv_GPRw", "VADDPSX", "ad c", "", "\x00", "[", "a" * 1000])
def test_unknown_patterns_are_refused(catalogue: Catalogue, pattern: str) -> None:
    with pytest.raises(UnknownInstructionError, match="no instruction matches"):
        catalogue.find(pattern)


def test_the_nearest_name_is_shown(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownInstructionError, match=r"Nearest: .*ADC_GPRv_GPRv_1"):
        catalogue.find("ADC_GPRv_GPRx")


def test_names_that_begin_as_what_was_typed_are_the_nearest(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownInstructionError) as raised:
        catalogue.find("ADCX_GPR")
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("Nearest: ADCX_GPR32d_")


def test_a_strings_part_before_its_operands_means_all_with_it(catalogue: Catalogue) -> None:
    assert strings(catalogue, "lea_d32") == [f"LEA_D32 (R{width})" for width in (16, 32, 64)]
    assert strings(catalogue, "ADC_11") == strings(catalogue, "ADC_11 (*")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    data = Path(SHIPPED).read_bytes()
    for damaged in (b"", b"PK", data[:100], data[:5000], data.replace(b"strings", b"strinks", 1)):
        path = tmp_path / "catalogue.bin"
        path.write_bytes(damaged)
        with pytest.raises(ConversionError, match=r"catalogue\.bin:\d: "):
            CatalogueFile(path)


@pytest.mark.parametrize(("lines", "of_others"), [(b'"words"', b'"texts"'), (b'"opcodes"', b'"textxxx"')])
def test_a_damaged_index_is_named(tmp_path: Path, lines: bytes, of_others: bytes) -> None:
    path = tmp_path / "catalogue.bin"
    path.write_bytes(Path(SHIPPED).read_bytes().replace(lines, b'"xxxxx"', 1).replace(of_others, lines, 1))
    with pytest.raises(ConversionError, match=r"catalogue\.bin:1: the block '(word|opcodes)' is damaged"):
        list(Catalogue.load(path).spellings())
