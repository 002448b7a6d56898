"""Bypass delays between the domains of vectors: a simulated machine that has them is found out, others have none."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from inference.characterizer import Characterizer
from inference.variant import characterize_variant
from results.model import BYPASS, Bound
from results.sentences import lines
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from simulator.instructions.domains import domain_of
from simulator.machines.bypass import EACH_WAY, FLOAT, INTEGER
from tests.inference.simulated import candidates, catalogue

if TYPE_CHECKING:
    from inference.context import Context
    from results.model import Characterization

ADDED = {
    "VADDPS (YMM, YMM, YMM)": {"bypass_integer": 2},
    "ADDSD (XMM, XMM)": {"bypass_integer": 2},
    "VFMADD231PS (YMM, YMM, YMM)": {"bypass_integer": 2},
    "PADDD (XMM, XMM)": {"bypass_float": 2},
    "VPSHUFB (XMM, XMM, XMM)": {"bypass_float": 2},
    "VPMULLD (YMM, YMM, YMM)": {"bypass_float": 2},
    "ADD_01 (R64, R64)": {},
    "MOVD (XMM, R32)": {},
}
"""Cycles that links of the other domain add: one each way."""


@cache
def context(machine: str) -> tuple[Session, Context]:
    backend = SimBackend(open_machine(machine), catalogue())
    method = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    session = Session(Measurer(backend))
    return session, session.run_one(method.prepare([catalogue().by_string(name) for name in ADDED]))


@cache
def concluded(machine: str, string: str) -> Characterization:
    session, shared = context(machine)
    return session.run_one(characterize_variant(catalogue().by_string(string), shared))


def bypasses(found: Characterization) -> dict[str, int]:
    return {name: cycles for name, cycles in found.attributes.items() if name.startswith("bypass_")}


@pytest.mark.parametrize(("string", "added"), ADDED.items())
def test_a_machine_with_bypass_delays_is_found_out(string: str, added: dict[str, int]) -> None:
    found = concluded("HSW:bypass", string)
    assert bypasses(found) == added
    assert len([one for one in found.derivations if one.quantity == BYPASS]) == len(added)


@pytest.mark.parametrize("string", ADDED)
def test_latencies_are_those_of_a_machine_without(string: str) -> None:
    """A delay is no part of the latency, and a machine without delays has none."""
    found, plain = concluded("HSW:bypass", string), concluded("HSW", string)
    exact = {one.key: one.cycles for one in found.latencies if one.bound is Bound.EXACT}
    expected = {one.key: one.cycles for one in plain.latencies if one.bound is Bound.EXACT}
    assert exact == expected
    assert bypasses(plain) == {}


def test_the_derivation_has_the_time_of_each_chain() -> None:
    (derivation,) = (one for one in concluded("HSW:bypass", "PADDD (XMM, XMM)").derivations if one.quantity == BYPASS)
    assert lines(derivation) == [
        "chain with links of the integer domain: 3.00 - 2.00 of the links = 1.00 cycles",
        "chain with links of the float domain: 5.00 - 2.00 of the links = 3.00 cycles",
        "chain with links of the integer domain: 5.00 - 4.00 of the links = 1.00 cycles",
        "chain with links of the float domain: 7.00 - 4.00 of the links = 3.00 cycles",
    ]


@pytest.mark.parametrize(
    ("string", "domain"),
    [
        ("ADDPS (XMM, XMM)", FLOAT),
        ("VCVTPS2PD (YMM, XMM)", FLOAT),
        ("CVTDQ2PS (XMM, XMM)", FLOAT),
        ("CVTPS2DQ (XMM, XMM)", FLOAT),
        ("PADDD (XMM, XMM)", INTEGER),
        ("MOVAPS (XMM, M128)", ""),
        ("ADDPS (XMM, M128)", FLOAT),
        ("ADD_01 (R64, R64)", ""),
    ],
)
def test_domains(string: str, domain: str) -> None:
    (found,) = [one for one in catalogue() if one.string == string or one.string.startswith(string[:-1] + ",")][:1]
    assert domain_of(found, EACH_WAY) == domain
