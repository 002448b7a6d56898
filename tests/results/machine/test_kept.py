"""Results that wait for the register that they go to."""

from __future__ import annotations

import pytest

from results.machine.facts import Cycles, LatencyPair, VariantFacts
from results.machine.kept import kept_register, with_kept_registers
from results.model import LatencyPart
from xed_convert.catalogue.catalogue import Catalogue

CATALOGUE = Catalogue.load()


def own_latency(name: str, stated: dict[int, int], result_dependency: int = 0) -> int | None:
    """Return the cycles from operand 1 to itself, with the stated ones from other operands to it."""
    latencies = {LatencyPair(source, LatencyPart.NONE, 1): Cycles(cycles, cycles) for source, cycles in stated.items()}
    facts = VariantFacts(latencies=latencies, result_dependency=result_dependency)
    found = with_kept_registers(CATALOGUE.by_string(name), facts).latencies.get(LatencyPair(1, LatencyPart.NONE, 1))
    return None if found is None else found.cycles


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MOVSD_XMM_0F10 (XMM, XMM)", 2),
        ("MOVSS_0F11 (XMM, XMM)", 2),
        ("MOVAPS_0F28 (XMM, XMM)", None),
        ("VMOVSD_10 (XMM, XMM, XMM)", None),
        ("SQRTSD (XMM, XMM)", None),  # the catalogue says that it reads operand 1
        ("LZCNT (R64, R64)", None),
    ],
)
def test_a_legacy_instruction_keeps_the_rest_of_a_vector_register(name: str, expected: int | None) -> None:
    assert own_latency(name, {2: 2}) == expected


def test_a_measured_wait_comes_first() -> None:
    assert own_latency("LZCNT (R64, R64)", {2: 1}, result_dependency=3) == 3
    assert own_latency("MOVSD_XMM_0F10 (XMM, XMM)", {2: 1}, result_dependency=4) == 4
    assert own_latency("SQRTSD (XMM, XMM)", {2: 20}, result_dependency=7) is None


def test_without_another_latency_nothing_is_known() -> None:
    assert own_latency("MOVSD_XMM_0F10 (XMM, XMM)", {}) is None


def test_only_parts_of_vector_registers_are_kept() -> None:
    kept = {variant.iclass for variant in CATALOGUE if kept_register(variant) is not None}
    assert {"MOVSS", "MOVSD_XMM"} <= kept
    assert not kept & {"MOVD", "MOVQ", "VCVTPS2PH", "MOV", "CVTPD2PS"}
