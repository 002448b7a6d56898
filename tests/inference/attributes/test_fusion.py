"""Macro-fusion: inference finds with which jumps the simulated cores fuse, by counters and by time."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from generator.sequences.fusion import JUMPS, Filler, may_fuse, pairs
from inference.attributes.fusion import Fusion, infer_fusion
from inference.experiment import Measured
from results.model import Status
from results.sentences import lines
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from simulator.core.compiler import unfused_jumps
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Request

ALL = tuple(jump for pair in JUMPS for jump in pair)
CLOCK = ("core_cycles",)


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


@cache
def session(machine: str) -> tuple[Session, tuple[str, ...]]:
    backend = SimBackend(open_machine(machine), catalogue())
    return Session(Measurer(backend)), backend.info().counters


def fusion(machine: str, string: str, *, by_time: bool = False) -> Fusion:
    run, counters = session(machine)
    return run.run_one(
        infer_fusion(InstructionFactory(catalogue()), catalogue().by_string(string), CLOCK if by_time else counters)
    )


FLAGLESS = {"JS", "JNS", "JO", "JNO", "JP", "JNP"}
CARRY = {"JB", "JNB", "JBE", "JNBE"}
EXPECTED = [
    ("HSW", "TEST (R64, R64)", set(ALL)),
    ("HSW", "CMP (R32, I8)", set(ALL) - FLAGLESS),
    ("HSW", "DEC (R64)", set(ALL) - FLAGLESS - CARRY),
    ("HSW", "ADD_03 (R64, R64)", set(ALL) - FLAGLESS),
    ("HSW", "CMP (R64, M64)", set(ALL) - FLAGLESS),
    ("HSW", "CMP (M64, I8)", set()),
    ("HSW", "ADD (M64, R64)", set()),
    ("HSW", "OR_0B (R64, R64)", set()),
    ("random:202", "TEST (R64, R64)", None),
    ("random:205", "DEC (R64)", None),
]


@pytest.mark.parametrize(("machine", "string", "jumps"), EXPECTED)
def test_counters_tell_with_which_jumps_it_fuses(machine: str, string: str, jumps: set[str] | None) -> None:
    if jumps is None:
        variant = catalogue().by_string(string)
        fusing = variant.iclass in open_machine(machine).parameters.fusing
        jumps = set(ALL) - unfused_jumps().get(variant.iclass, frozenset()) if fusing else set()
    found = fusion(machine, string)
    assert found.jumps is not None, lines(found.derivation)
    assert set(found.jumps) == jumps, lines(found.derivation)


@pytest.mark.parametrize(
    ("string", "jumps"),
    [
        ("TEST (R64, R64)", set(ALL)),
        ("DEC (R64)", set(ALL) - FLAGLESS - CARRY),
        ("OR_0B (R64, R64)", set()),
    ],
)
def test_time_alone_tells_the_same(string: str, jumps: set[str]) -> None:
    found = fusion("HSW", string, by_time=True)
    assert found.jumps is not None, lines(found.derivation)
    assert set(found.jumps) == jumps, lines(found.derivation)


def test_where_time_does_not_depend_on_a_uop_nothing_is_said() -> None:
    """Code that waits for something else takes as long with a filler more, so that no saving could be seen."""
    procedure = infer_fusion(InstructionFactory(catalogue()), catalogue().by_string("TEST (R64, R64)"), CLOCK)
    requests: Sequence[Request] = next(procedure)
    try:
        while True:
            values = {"core_cycles": Fraction(40)}
            requests = procedure.send(
                [Measured(one, Status.OK, values, {"core_cycles": Fraction(0)}) for one in requests]
            )
    except StopIteration as end:
        found = end.value
    assert found.jumps is None
    assert "takes no more time" in "\n".join(lines(found.derivation))
    assert "not known: " in "\n".join(lines(found.derivation))


def test_pairs_differ_in_nothing_but_their_order() -> None:
    variant, instructions = catalogue().by_string("CMP (R64, M64)"), InstructionFactory(catalogue())
    together, apart = (
        pairs(instructions, variant, ("JZ", "JNZ"), Filler.MOVES, adjacent=adjacent) for adjacent in (True, False)
    )
    assert sorted(line.code for line in together.body) == sorted(line.code for line in apart.body)
    assert [line.text.split()[0] for line in together.body[:2]] == ["CMP", "JZ"]
    assert apart.body[2].text.startswith("JZ")
    assert together.divisor == 4


def test_candidates_set_all_flags_and_are_not_locked() -> None:
    chosen = {variant.string for variant in catalogue() if may_fuse(variant)}
    assert {"CMP (R64, M64)", "TEST (R64, R64)", "INC (R64)"} <= chosen
    assert not {string for string in chosen if "LOCK" in string or "_NF" in string or "MOV" in string}
