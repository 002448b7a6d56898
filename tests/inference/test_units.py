"""Cores that count by execution unit, or on some ports only: what their counters say is stated, and nothing more."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from inference.characterizer import Characterizer
from inference.ports.alone.layout import PortLayout
from results.database.xml import measurement_attributes
from results.findings import NoPorts, NotCounted
from results.model import Form, PortUsage
from results.sentences import failure, reason
from runner.backends.sim import create
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from tests.inference.simulated import candidates, catalogue
from tests.nonempty import some

if TYPE_CHECKING:
    from inference.context import Context
    from results.model import Characterization


@cache
def machine(name: str) -> tuple[Characterizer, Session, Context]:
    """A machine whose ports are not inferred by time, and what it is known to have."""
    backend = create(None, name)
    capabilities = backend.info().capabilities
    characterizer = Characterizer(catalogue(), capabilities, candidates=candidates(), by_time=False)
    session = Session(Measurer(backend))
    return characterizer, session, session.run_one(characterizer.prepare())


@cache
def characterized(name: str, string: str) -> Characterization:
    characterizer, session, context = machine(name)
    return session.run_one(characterizer.characterize(catalogue().by_string(string), context))


def units(name: str, string: str) -> dict[str, int]:
    attributes = characterized(name, string).attributes
    return {one.removeprefix("unit_"): count for one, count in attributes.items() if one.startswith("unit_")}


@pytest.mark.parametrize(
    ("string", "counts"),
    [
        ("ADD_01 (R64, R64)", {"INT": 1, "ALU": 1}),
        ("IMUL (R64, R64)", {"INT": 1, "SLOW": 1}),
        ("SHL (R64, I8)", {"INT": 1, "SHIFT": 1}),
        ("ADD (R64, M64)", {"INT": 1, "ALU": 1, "LOAD": 1}),
        ("MOV (M64, R64)", {"STA": 1, "STD": 1}),
        ("VPADDD (XMM, XMM, M128)", {"LOAD": 1}),
        ("VPADDD (XMM, XMM, XMM)", {}),
        ("JZ (Rel8)", {"INT": 1, "JMP": 1}),
    ],
)
def test_a_lion_cove_says_which_units_an_instruction_uses(string: str, counts: dict[str, int]) -> None:
    plain = {name: count for name, count in units("SKX:LNL-P", string).items() if not name.endswith("_same_reg")}
    assert plain == counts
    assert characterized("SKX:LNL-P", string).ports is None


def test_an_idiom_uses_no_unit() -> None:
    assert units("SKX:LNL-P", "XOR_31 (R64, R64)") == {"INT": 1, "ALU": 1, "INT_same_reg": 0, "ALU_same_reg": 0}


def test_units_are_written_as_attributes() -> None:
    written = measurement_attributes(characterized("SKX:LNL-P", "ADD (R64, M64)"))
    assert {name: text for name, text in written.items() if name.startswith("unit_")} == {
        "unit_INT": "1",
        "unit_ALU": "1",
        "unit_LOAD": "1",
    }


@pytest.mark.parametrize(
    ("name", "string", "ports"),
    [
        ("SKX:ZEN2", "ADDPD (XMM, XMM)", "1*FP01"),
        ("SKX:ZEN2", "VPADDD (YMM, YMM, YMM)", "1*FP012"),
        ("SKX:ZEN2", "VHADDPD (XMM, XMM, XMM)", "1*FP01+2*FP2"),
        ("SKX:ZEN2", "ADDPD (XMM, M128)", "1*FP01"),
        ("SKX:LNL-E", "ADC_13 (R64, R64)", "1*INT03"),
        ("SKX:PTL-E", "ADD_01 (R64, R64)", "1*INT0123"),
        ("SKX:PTL-E", "ADD (M64, R64)", "1*INT0123"),
    ],
)
def test_ports_of_one_kind_have_its_name(name: str, string: str, ports: str) -> None:
    found = characterized(name, string)
    assert str(found.ports) == ports
    assert measurement_attributes(found)["ports"] == ports


@pytest.mark.parametrize(
    ("name", "string"),
    [
        ("SKX:ZEN2", "ADD_01 (R64, R64)"),
        ("SKX:ZEN2", "MOV_89 (R64, R64)"),
        ("SKX:ZEN2", "XOR_31 (R64, R64)"),
        ("SKX:LNL-E", "VPADDD (XMM, XMM, XMM)"),
        ("SKX:LNL-E", "MOV (R64, M64)"),
    ],
)
def test_nothing_is_stated_of_ports_without_counters(name: str, string: str) -> None:
    """What no counter counts is neither without ports nor eliminated; only a chain's time can say more."""
    found = characterized(name, string)
    assert found.ports is None
    assert found.uops is None
    assert "eliminated_percent" not in found.attributes
    kind = "FP" if "ZEN" in name else "INT"
    assert NoPorts(Form.PLAIN, NotCounted(kind)) in found.failures


def test_the_number_of_uops_is_not_that_of_the_ports_with_counters() -> None:
    found = characterized("SKX:ZEN2", "ADDPD (XMM, M128)")
    assert found.uops is None
    assert "uops" not in measurement_attributes(found)


def test_a_failure_says_which_ports_have_counters() -> None:
    assert failure(NotCounted("FP")) == "only FP ports have counters, and it uses none of them"
    assert reason(NotCounted("FP")) == "its µops are on ports without counters"


def test_a_layout_names_ports_by_their_kind() -> None:
    usage = PortUsage.parse("1*p01+2*p3")
    assert str(PortLayout.of(some(["p0", "p1", "p3"]), "FP").named(usage)) == "1*FP01+2*FP3"
    assert PortLayout.of(["p0"]).named(usage) == usage
