"""Rules of the conversion, as laws over all variants of both versions of the datafiles."""

from __future__ import annotations

import csv
import functools
import re
from collections import Counter, defaultdict

import pytest

from tests.shared import XED_NEW, XED_OLD, shared, xed_datafiles
from xed_convert.datafiles.folder import Datafiles
from xed_convert.encoding.registers import needs_rex
from xed_convert.expansion.convert import convert
from xed_convert.model import InstructionVariant, OperandKind

pytestmark = pytest.mark.slow


@functools.cache
def converted(version: str) -> tuple[InstructionVariant, ...]:
    return tuple(convert(Datafiles.load(xed_datafiles(version))).variants)


@pytest.mark.parametrize("version", [XED_OLD, XED_NEW])
def test_locked_is_what_has_a_lock_prefix_or_needs_none(version: str) -> None:
    variants = converted(version)
    prefixed = {variant.key for variant in variants if variant.asm.startswith("LOCK ")}
    memory = {OperandKind.MEMORY}
    exchanges = {v.key for v in variants if v.iclass == "XCHG" and memory & {operand.kind for operand in v.operands}}
    assert len(exchanges) == 5
    assert {variant.key for variant in variants if "locked" in variant.attributes} == prefixed | exchanges


@pytest.mark.parametrize("version", [XED_OLD, XED_NEW])
def test_beside_high_bytes_no_register_needs_rex(version: str) -> None:
    with_high_bytes = [variant for variant in converted(version) if variant.attributes.get("high8", "0") > "0"]
    assert {variant.iclass for variant in with_high_bytes} >= {"ADD", "CRC32", "MOVSX", "MOVZX", "XCHG", "XADD"}
    for variant in with_high_bytes:
        assert not {"egpr", "rex2"} & variant.attributes.keys()
        registers = [name for operand in variant.operands for name in operand.registers]
        assert registers
        assert not [name for name in registers if needs_rex(name)], variant.string


@pytest.mark.parametrize("version", [XED_OLD, XED_NEW])
def test_assembly_names_the_displacement_of_long_branches(version: str) -> None:
    branches = {
        variant.string: operand.width_bits
        for variant in converted(version)
        for operand in variant.operands
        if operand.kind is OperandKind.RELATIVE_BRANCH
    }
    assert {
        "CALL_NEAR (Rel32)",
        "JMP (Rel32)",
        "JMP (Rel8)",
        "XBEGIN (Rel32)",
        "XBEGIN_REX64 (Rel32)",
    } <= branches.keys()
    prefixed = {v.string for v in converted(version) if v.asm.startswith("{disp32} ")}
    assert prefixed == {string for string, width in branches.items() if width == 32}


@pytest.mark.parametrize("version", [XED_OLD, XED_NEW])
def test_assembly_asks_for_evex_where_vex_has_the_mnemonic(version: str) -> None:
    """The prefix goes by the mnemonic: XED's iclass VPEXTRW_C5 is VPEXTRW to an assembler."""
    spaces: dict[str, set[str]] = defaultdict(set)
    for variant in converted(version):
        spaces[variant.asm.split()[-1]] |= {"vex", "evex"} & variant.attributes.keys()
    both = {mnemonic for mnemonic, found in spaces.items() if len(found) == 2}
    assert len(both) > 200
    for variant in converted(version):
        legacy = "map" not in variant.attributes
        if "evex" in variant.attributes and legacy and variant.attributes.get("mask", "0") == "0":
            asked = variant.asm.startswith("{evex} ")
            assert asked == (variant.asm.split()[-1] in both and "ZMM" not in variant.string), variant.string


@pytest.mark.parametrize(
    ("string", "asm"),
    [
        ("MOV (R32, SEG)", "MOV"),
        ("MOV (M16, SEG)", "MOV"),
        ("PREFETCH_EXCLUSIVE (M512)", "PREFETCH"),
        ("SYSEXIT", "SYSEXITQ"),
        ("SYSRET64", "SYSRETQ"),
        ("VPEXTRW_C5_EVEX (R32, XMM, I8)", "{evex} VPEXTRW"),
    ],
)
def test_both_versions_name_them_alike(string: str, asm: str) -> None:
    for version in (XED_OLD, XED_NEW):
        assert {variant.string: variant.asm for variant in converted(version)}[string] == asm


def test_every_string_that_others_published_is_there() -> None:
    with shared("measured/ZEN4.uops-info.half.csv").open(encoding="utf-8") as file:
        published = {row["string"] for row in csv.DictReader(file)}
    assert len(published) > 6000
    assert published <= {variant.string for variant in converted(XED_OLD)}


_CONDITIONS = {
    "O": {"OF"},
    "B": {"CF"},
    "Z": {"ZF"},
    "BE": {"CF", "ZF"},
    "S": {"SF"},
    "P": {"PF"},
    "L": {"OF", "SF"},
    "LE": {"OF", "SF", "ZF"},
}
_CONDITIONAL = re.compile(r"(?:J|SET|CMOV|CFCMOV|CCMP|CTEST)(N?)(O|B|Z|BE|S|P|L|LE)")


def test_conditions_read_their_flags() -> None:
    checked: Counter[str] = Counter()
    for variant in converted(XED_NEW):
        if match := _CONDITIONAL.fullmatch(variant.iclass):
            flags = next(operand.flags for operand in variant.operands if operand.kind is OperandKind.FLAGS)
            assert {flag for flag, access in flags.items() if "r" in access.split("/")} == _CONDITIONS[match[2]]
            checked[match[2]] += 1
    assert checked.keys() == _CONDITIONS.keys()
    always = [v for v in converted(XED_NEW) if v.iclass in ("CCMPT", "CCMPF", "CTESTT", "CTESTF")]
    assert len(always) == 92
    assert not any(operand.read for v in always for operand in v.operands if operand.kind is OperandKind.FLAGS)
