"""ISA sets of the CPU at hand, compared with what Linux says of it."""

from __future__ import annotations

import pytest

from runner.host.cpu import choose, read_cpu
from runner.host.isa_sets import has_isa_set

SAME = {
    "AES": "aes",
    "AVX": "avx",
    "AVX2": "avx2",
    "BMI1": "bmi1",
    "BMI2": "bmi2",
    "FMA": "fma",
    "POPCNT": "popcnt",
    "LZCNT": "abm",
    "SSE42": "sse4_2",
    "SSSE3": "ssse3",
    "SHA": "sha_ni",
    "GFNI": "gfni",
    "VAES": "vaes",
    "AVX512F_512": "avx512f",
    "AVX512BW_512": "avx512bw",
    "AVX512_VBMI2_512": "avx512_vbmi2",
    "AMX_TILE": "amx_tile",
    "SSE4a": "sse4a",
    "XOP": "xop",
    "MOVBE": "movbe",
}


@pytest.mark.parametrize(("isa_set", "flag"), SAME.items())
def test_linux_says_the_same(isa_set: str, flag: str) -> None:
    cpu = choose()
    assert has_isa_set(isa_set, cpu) is (flag in read_cpu(cpu).flags)


def test_what_every_64_bit_cpu_has() -> None:
    everywhere = ("I86", "I386", "SSE2", "LONGMODE", "CMOV", "X87")
    assert [name for name in everywhere if has_isa_set(name, choose())] == list(everywhere)


def test_what_is_not_in_the_table_is_tried() -> None:
    assert has_isa_set("NOT_YET_INVENTED", choose())
