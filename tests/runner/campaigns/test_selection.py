"""Which variants `--extension` and `--isa-set` mean."""

from __future__ import annotations

import dataclasses

import pytest

from runner.campaigns.selection import Selection, SelectionError
from tests.results.database.strategies import variant

VARIANTS = [
    dataclasses.replace(variant(name, extension), isa_set=isa_set)
    for name, extension, isa_set in (
        ("ADC", "BASE", "I86"),
        ("CMOV", "BASE", "CMOV"),
        ("PADDB", "SSE2", "SSE2"),
        ("VPADDB", "AVX512EVEX", "AVX512BW_512"),
        ("VPADDD", "AVX512EVEX", "AVX512F_512"),
        ("EXTRQ", "SSE4a", "SSE4a"),
    )
]


def names(selection: Selection, variants: list[str] | None = None) -> list[str]:
    chosen = [one for one in VARIANTS if variants is None or one.iclass in variants]
    return [one.iclass for one in selection.of(chosen, VARIANTS)]


@pytest.mark.parametrize(
    ("extensions", "isa_sets", "expected"),
    [
        ((), (), ["ADC", "CMOV", "PADDB", "VPADDB", "VPADDD", "EXTRQ"]),
        (("BASE",), (), ["ADC", "CMOV"]),
        (("sse4A",), (), ["EXTRQ"]),
        (("SSE2", "BASE"), (), ["ADC", "CMOV", "PADDB"]),
        (("SSE*",), (), ["PADDB", "EXTRQ"]),
        ((), ("AVX512*_512",), ["VPADDB", "VPADDD"]),
        (("AVX512EVEX", "BASE"), ("AVX512F_512", "I86"), ["ADC", "VPADDD"]),
    ],
)
def test_names_are_alternatives_and_both_kinds_must_hold(
    extensions: tuple[str, ...], isa_sets: tuple[str, ...], expected: list[str]
) -> None:
    assert names(Selection(extensions, isa_sets)) == expected


def test_what_was_named_otherwise_is_restricted_in_its_order() -> None:
    assert names(Selection(("BASE", "SSE2")), ["PADDB", "ADC", "VPADDB"]) == ["ADC", "PADDB"]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(("SSE22",)), "did you mean: SSE2"),
        (Selection((), ("AVX512",)), "AVX512F_512"),
        (Selection(("Frobnicate",)), "--all --list"),
        (Selection(("SSE2", "SSSE9")), "no instruction has the extension 'SSSE9'"),
        (Selection(("SSE2",), ("I86",)), "no variant is left"),
    ],
)
def test_a_name_that_there_is_not_is_an_error_that_says_what_there_is(selection: Selection, message: str) -> None:
    with pytest.raises(SelectionError) as caught:
        names(selection)
    assert message in str(caught.value)


def test_the_options_that_mean_the_same() -> None:
    assert Selection(("A", "B"), ("C",)).options() == ["--extension", "A", "--extension", "B", "--isa-set", "C"]
