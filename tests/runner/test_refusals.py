"""Code that is refused before it runs: excluded instructions are found by their bytes."""

from dataclasses import replace
from random import Random

import pytest

from generator.exclusions import excluded
from runner.backend import BackendInfo
from runner.refusals import RefusedError, check_code, refusals
from tests.nonempty import some
from tests.runner.fake_backend import FakeBackend
from tests.xed_convert.encoding.random_operands import random_values
from xed_convert.assembly.assembler import assemble
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.encoder import encode

HARMLESS = "ADD RAX, RBX; MOV RCX, [R14]; RDMSR; CLI; STI; VPADDD YMM0, YMM1, YMM2; RDPMC; JMP $+2"


def in_kernel() -> BackendInfo:
    return replace(FakeBackend(lambda *_: {}).info(), supports_privileged=True)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("0f08", "INVD"),
        ("480f08", "INVD"),
        ("f20f08", "INVD"),
        ("ee", "OUT (DX, AL)"),
        ("66baf90cb006ee", "OUT (DX, AL)"),
        ("e680", "OUT (I8, AL)"),
        ("f36e", "OUTSB_REPE"),
        ("f4", "HLT"),
        ("0f22d8", "MOV_CR (CR, R64)"),
        ("0f0118", "LIDT (M80)"),
        ("cd02", "INT (I8)"),
        ("8ed0", "MOV (R, R16)"),
        ("0f01d1", "XSETBV"),
    ],
)
def test_what_is_excluded_for_all_is_found_after_any_harmless_code(code: str, name: str) -> None:
    before = assemble(HARMLESS)
    assert refusals(before) == []
    (found,) = refusals(before + bytes.fromhex(code))
    assert found.variant == name
    assert found.offset >= len(before)
    with pytest.raises(RefusedError) as error:
        check_code(before + bytes.fromhex(code), in_kernel())
    assert str(found.offset) in error.value.message
    assert "--force" in error.value.hint


def test_every_excluded_variant_is_found_by_its_bytes() -> None:
    """Each has an encoding; a variant that decodes as another one is found by that one's row."""
    missed, found = [], 0
    for variant in Catalogue.load():
        if not excluded(variant, privileged=True):
            continue
        if not variant.encoding:
            continue
        code = encode(variant, random_values(variant, Random(variant.string)))
        found += bool(refusals(code))
        missed += [] if refusals(code) else [variant.string]
    assert missed == []
    assert found > 100


def test_only_ring_0_of_a_real_machine_refuses() -> None:
    code = bytes.fromhex("0f08")
    info = in_kernel()
    model = replace(info.provenance, is_model=True)
    for harmless in some([replace(info, supports_privileged=False), replace(info, provenance=model)]):
        check_code(code, harmless)
    with pytest.raises(RefusedError):
        check_code(code, info)


def test_a_byte_that_is_no_instruction_hides_nothing_behind_it() -> None:
    assert [one.variant for one in refusals(bytes.fromhex("06") + bytes.fromhex("0f08"))] == ["INVD"]
