"""Conversion of both versions of the datafiles: parity with the reference sample, counts, uniqueness."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.nonempty import some
from tests.shared import DATA, XED_NEW, XED_OLD, reference_xml, xed_datafiles
from xed_convert.catalogue.catalogue import read_xml
from xed_convert.catalogue.xml import instruction_attributes
from xed_convert.datafiles.folder import Datafiles
from xed_convert.expansion.convert import Conversion, convert
from xed_convert.expansion.exclusions import Exclusions

if TYPE_CHECKING:
    from xed_convert.model import InstructionVariant

pytestmark = pytest.mark.slow


@functools.cache
def conversion(version: str) -> Conversion:
    return convert(Datafiles.load(xed_datafiles(version)))


def without_direction(asm: str) -> str:
    return asm.removeprefix("{load} ").removeprefix("{store} ")


def comparable(variant: InstructionVariant) -> tuple[object, ...]:
    attributes = instruction_attributes(variant)
    attributes["asm"] = without_direction(attributes["asm"])
    return attributes, variant.operands


def test_the_reference_sample_is_reproduced() -> None:
    ours = {variant.key: variant for variant in conversion(XED_OLD).variants}
    reference = read_xml(reference_xml())
    for variant in some(reference, 600):
        assert comparable(ours[variant.key]) == comparable(variant)


def test_nothing_that_the_reference_would_have_is_added() -> None:
    """The reference has all iforms whose SHA-256 begins with a byte divisible by 3, its sample by 24."""
    divisor = 24 if reference_xml().is_relative_to(DATA) else 3
    expected = {
        variant.iform
        for variant in conversion(XED_OLD).variants
        if hashlib.sha256(variant.iform.encode()).digest()[0] % divisor == 0
    }
    assert expected == {variant.iform for variant in read_xml(reference_xml())}


def test_the_old_version_gives_as_much_as_the_reference() -> None:
    variants = conversion(XED_OLD).variants
    assert len(variants) == 16_950
    assert len({variant.iform for variant in variants}) == 6_825
    assert len(conversion(XED_OLD).extensions) == 102


def test_integer_forms_name_their_direction_rightly() -> None:
    """{load} is the opcode whose first operand is ModRM.reg; the reference has 126 of them the other way round."""
    reference = {variant.key: variant.asm for variant in read_xml(reference_xml())}
    ours = conversion(XED_OLD).variants
    by_string = {variant.string: variant.asm for variant in ours}
    assert by_string["ADC_11 (R64, R64)"] == "{store} ADC"
    assert by_string["ADC_13 (R64, R64)"] == "{load} ADC"
    assert by_string["VMOVAPS_28 (XMM, XMM)"] == "{load} VMOVAPS"
    directed = [v for v in ours if v.extension == "BASE" and v.asm.startswith(("{load}", "{store}"))]
    assert len(directed) == 126
    both = some((v for v in directed if v.key in reference), 2)
    assert [v.string for v in both if reference[v.key] == v.asm] == []


def test_a_lock_that_changes_nothing_is_another_encoding() -> None:
    variants = {variant.string: variant for variant in conversion(XED_OLD).variants}
    exchange, addition = variants["XCHG (M64, R64)"], variants["ADD_LOCK (M64, R64)"]
    assert (exchange.asm, exchange.attributes.get("locked")) == ("XCHG", "1")
    assert [form.split()[3] for form in exchange.encoding.split(" | ")] == ["lock=0", "lock=1"]
    assert (addition.asm, addition.attributes.get("locked")) == ("LOCK ADD", "1")


@pytest.mark.parametrize("version", [XED_OLD, XED_NEW])
def test_keys_and_strings_are_unique_and_every_variant_has_an_encoding(version: str) -> None:
    variants = conversion(version).variants
    assert len({variant.key for variant in variants}) == len(variants)
    assert len({variant.string for variant in variants}) == len(variants)
    assert all(variant.encoding for variant in variants)


def test_every_record_for_64_bit_mode_gives_variants_or_a_reason() -> None:
    converted = conversion(XED_NEW)
    records = len(Datafiles.load(xed_datafiles(XED_NEW)).records)
    assert converted.records_used + sum(converted.excluded.values()) + converted.not_64_bit == records
    assert sum(converted.excluded.values()) == 104


def test_the_new_version_has_what_is_new() -> None:
    variants = conversion(XED_NEW).variants
    counts = Counter(variant.isa_set.split("_")[0] for variant in variants)
    assert counts["APX"] > 2000
    extensions = {variant.extension for variant in variants}
    assert extensions >= {"ACE", "FRED", "MSR_IMM", "MOVRS", "USER_MSR", "SM4", "X87", "AMX_TILE", "APXEVEX"}
    assert len(variants) == 22_766


def test_apx_forms_are_told_apart() -> None:
    variants = {variant.string: variant for variant in conversion(XED_NEW).variants}
    plain, silent = variants["ADD_01 (R64, R64, R64)"], variants["ADD_NF_03 (R64, R64, R64)"]
    assert (plain.attributes["ndd"], plain.attributes["nf"], plain.attributes["opcode"]) == ("1", "0", "01")
    assert (silent.attributes["ndd"], silent.attributes["nf"], silent.attributes["opcode"]) == ("1", "1", "03")
    assert plain.iform == silent.iform
    assert plain.operands[-1].flags["CF"] == "w"
    assert not any(operand.flags for operand in silent.operands)
    assert "R31" in plain.operands[0].registers
    conditional = next(v for v in variants.values() if v.iclass == "CCMPNLE")
    assert conditional.attributes["scc"] == "NLE"
    assert any(operand.kind.value == "dfv" for operand in conditional.operands)
    assert variants["ADD_01 (R64, R64)"].attributes["rex2"] == "1"


def test_exclusions_can_be_asked_for() -> None:
    datafiles = Datafiles.load(xed_datafiles(XED_OLD))
    with_sm4 = convert(datafiles, include=frozenset({"sm4"}))
    assert {v.extension for v in with_sm4.variants} - {v.extension for v in conversion(XED_OLD).variants} == {"SM4"}


@pytest.mark.parametrize("version", [XED_OLD, XED_NEW])
def test_everything_can_be_asked_for(version: str) -> None:
    everything = convert(Datafiles.load(xed_datafiles(version)), include=frozenset({"all"})).variants
    assert {one.key for one in everything} > {one.key for one in conversion(version).variants}
    assert all(one.encoding for one in everything)


def test_every_exclusion_excludes_something() -> None:
    for version in (XED_OLD, XED_NEW):
        named = {row.name for row in Exclusions.load(version).rows}
        used = {
            reason.partition(":")[0] for reason in conversion(version).excluded | conversion(version).excluded_sizes
        }
        assert named <= used
