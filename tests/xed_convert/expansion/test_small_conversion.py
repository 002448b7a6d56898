"""Conversion of a small folder of datafiles: what comes out, and that whatever is wrong is named with file and line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.xed_convert.small_datafiles import FILES, write_datafiles
from xed_convert.cpus.chips import chip_isa_sets, read_chips, short_names
from xed_convert.datafiles.folder import Datafiles
from xed_convert.errors import ConversionError, UopscopeError
from xed_convert.expansion.convert import convert

if TYPE_CHECKING:
    from pathlib import Path


def test_an_add_in_all_its_parts(tmp_path: Path) -> None:
    conversion = convert(Datafiles.load(write_datafiles(tmp_path)))
    assert conversion.not_64_bit == 1
    assert [variant.string for variant in conversion.variants] == [
        "ADD (M16, I16)",
        "ADD (M32, I32)",
        "ADD (M64, I32)",
        *(f"ADD_{code} (R{width}, R{width})" for code in ("01", "03") for width in (16, 32, 64)),
    ]
    wide = next(variant for variant in conversion.variants if variant.string == "ADD_01 (R64, R64)")
    assert wide.asm == "{store} ADD"
    assert wide.operands[0].registers == ("RAX", "RCX")
    assert wide.operands[2].flags == {"CF": "w", "OF": "w"}
    assert wide.encoding


@pytest.mark.parametrize(
    ("name", "text", "place", "expected"),
    [
        ("isa.txt", None, "files.cfg:2", "does not exist"),
        ("state.txt", None, "files.cfg:4", "does not exist"),
        ("isa.txt", FILES["isa.txt"][:-3], "isa.txt:2", "expected `}`"),
        ("isa.txt", FILES["isa.txt"].replace("0x01", "0xZZ"), "isa.txt:9", "expected a literal"),
        ("isa.txt", FILES["isa.txt"].replace("REG0=GPRv_B():rw", "REG0=GPRv_B():rw:B"), "isa.txt:9", "lower case"),
        ("isa.txt", FILES["isa.txt"].replace("REG0=GPRv_B()", "REG7=GPRv_B()"), "isa.txt:9", "name of a field"),
        ("isa.txt", FILES["isa.txt"].replace("GPRv_B():rw", "GPRq_B():rw:v"), "isa.txt:9", "gives no register"),
        ("isa.txt", FILES["isa.txt"].replace("MEM0:rw:v", "MEM0:rw:vv"), "isa.txt:15", "width code"),
        ("isa.txt", FILES["isa.txt"].replace("cf-mod", "cf-what"), "isa.txt:9", "behind the flag"),
        ("isa.txt", FILES["isa.txt"].replace("CATEGORY", "KATEGORY"), "isa.txt:5", "keys of a record"),
        ("widths.txt", "v int 2 4\n", "widths.txt:1", "one size or three"),
        ("patterns.txt", "GPRv_R()::\nEOSZ=1 OUTREG=XED_REG_AX\n", "patterns.txt:2", "conditions | bindings"),
        ("patterns.txt", "EOSZ=1 | OUTREG=XED_REG_AX\n", "patterns.txt:1", "before the first rule"),
        ("state.txt", "a b\nb a\nmode64 a\nnot64 MODE!=2\n", "patterns.txt:12", "contains itself"),
        ("strings.txt", "X(Y)::\n1 -> 'a'\n1 -> 'b'\n", "strings.txt:3", "twice"),
        ("files.cfg", "nonsense\n", "files.cfg:1", "expected `type : file"),
        ("files.cfg", "state : state.txt\n", "files.cfg", "name no file of type"),
        ("fields.txt", "REG0 SCALAR\n", "fields.txt:1", "expected name"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, name: str, text: str | None, place: str, expected: str
) -> None:
    folder = write_datafiles(tmp_path, {name: text})
    with pytest.raises(ConversionError) as caught:
        convert(Datafiles.load(folder))
    assert f"{place}:" in str(caught.value)
    assert expected in str(caught.value)


def refusal(folder: Path) -> str | None:
    """Return what is said of datafiles that are refused."""
    try:
        convert(Datafiles.load(folder))
    except UopscopeError as error:
        return str(error)
    return None


@given(st.sampled_from(sorted(set(FILES) - {"layers.txt"})), st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_damaged_datafiles_are_converted_or_refused_with_a_place(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    text = FILES[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    middle = data.draw(st.text(alphabet="{}()[]=!:|\\#\n ABCDEFGHIJKLMNOPabcxyz0189_-'", max_size=12))
    folder = write_datafiles(tmp_path_factory.mktemp("xed"), {name: text[:start] + middle + text[end:]})
    said = refusal(folder)
    assert said is None or re.search(r":\d+: |^/.*files\.cfg: |variants share", said)


def test_chips_are_expanded(tmp_path: Path) -> None:
    assert read_chips(write_datafiles(tmp_path)) == {"OLD": frozenset({"I86"}), "NEW": frozenset({"I386"})}


@pytest.mark.parametrize("text", ["A: ALL_OF(B)\n", "A: ALL_OF(A)\n", "A I86\n", "A: I-86\n"])
def test_bad_chips_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConversionError, match=r"chips\.txt:1: "):
        read_chips(write_datafiles(tmp_path, {"chips.txt": text}))


def test_shipped_chips_know_what_came_when() -> None:
    assert "AVX2" in chip_isa_sets("HSW")
    assert "AVX2" not in chip_isa_sets("snb")
    assert "AVX512F_512" in chip_isa_sets("SKYLAKE_SERVER")
    assert chip_isa_sets("SPR") >= {"AMX_TILE", "AVX512_FP16_512"}
    assert len(short_names()) > 40
    assert "BMI1" in chip_isa_sets("ZEN2")
    assert "TBM" not in chip_isa_sets("ZEN3")
    assert not {"AVX512F_512", "GFNI"} & chip_isa_sets("ZEN3")
    assert chip_isa_sets("ZEN4") >= {"AVX512F_512", "AVX512_VBMI2_128", "GFNI", "VAES", "AVX2", "SSE4A"}
    assert "AVX512_FP16_512" not in chip_isa_sets("ZEN5")
    assert "AVX512_VP2INTERSECT_256" in chip_isa_sets("ZEN5")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Alder Lake", "ADL"),
        ("sapphire-rapids", "SPR"),
        ("Zen 4", "AMD_ZEN4"),
        ("adl p", "ADL-P"),
        ("Raptor Lake", "ADL"),
    ],
)
def test_chips_are_found_by_names_as_people_write_them(written: str, meant: str) -> None:
    assert chip_isa_sets(written) == chip_isa_sets(meant)


def test_an_unknown_chip_gets_the_nearest() -> None:
    with pytest.raises(UopscopeError, match=r"Nearest: .*SKYLAKE"):
        chip_isa_sets("SKYLAK")
