"""What a core does with µops that have a choice of ports is seen, and no more is stated than that allows."""

import pytest

from inference.characterizer import Characterizer
from inference.ports.blocking_instructions import Scheduling
from inference.ports.scheduling import FEW_WAITING
from results.findings import PortControl
from results.model import Form
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session
from runner.verification.indistinguishable import named
from tests.inference.simulated import candidates, catalogue, characterized


@pytest.mark.parametrize(
    ("machine", "takes_turns", "keeps_away"),
    [
        ("random:4", True, True),
        ("random:lowest:4", False, True),
        ("random:intel:4", False, True),
        ("random:dispatch:4", False, False),
        ("random:counters:4", True, True),
        ("random:job2:8100", True, True),  # counts are off by half a µop each, their means are not
        ("random:dispatch+job2:8100", False, False),
    ],
)
def test_what_the_core_does_is_seen(machine: str, takes_turns: bool, keeps_away: bool) -> None:
    scheduling = observed(machine)
    assert (scheduling.takes_turns, scheduling.keeps_away) == (takes_turns, keeps_away)


@pytest.mark.parametrize(
    ("machine", "holds"), [("NHM", FEW_WAITING), ("random:small:4", FEW_WAITING), ("random:small:5109", 0)]
)
def test_a_scheduler_of_twelve_entries_does_not_hold_twelve_others(machine: str, holds: int) -> None:
    assert observed(machine).holds == holds


def test_what_strays_from_a_small_scheduler_excludes_no_true_usage() -> None:
    """While p0158A is busy, one of three µops that could go elsewhere runs on it in every copy."""
    found = characterized("random:small:5109", "POPCNT (R32, R32)")
    assert [str(usage) for usage in named(found.failures, Form.PLAIN)].count("1*p48A+2*p04+2*p1") == 1


def test_few_uops_stray_from_a_small_scheduler_too() -> None:
    """Beside 16 blocking instructions of p45, one µop of p345 runs on p45 in every copy; beside 32 none does."""
    found = characterized("random:small:5116", "VFMADDSUB231PD_Z (XMM, K, XMM, M64_1to2)")
    assert [str(usage) for usage in named(found.failures, Form.PLAIN)].count("2*p345+1*p12+1*p45") == 1


def test_uops_of_a_set_that_is_only_partly_blocked_stray_too() -> None:
    """While p01 is busy, one of five µops on p04, p14 and p4 runs on it in every copy. No known set contains p01."""
    machine, string = "random:small:8262", "VPERMI2D_Z (ZMM, K, ZMM, M32_1to16)"
    truth = open_machine(machine).truth(catalogue().by_string(string)).ports
    assert characterized(machine, string).ports in (None, truth)


def test_a_control_has_the_uops_that_stray_most() -> None:
    """While p034 is busy, only p7 is left for µops of p047 and p47: one strays. Those of p03457 have two ports."""
    (derivation,) = [
        one for one in characterized("random:small:8277", "VPMOVSXBW (XMM, M64)").derivations if one.quantity == "ports"
    ]
    controls = [step for step in derivation.steps if isinstance(step, PortControl) and step.ports == frozenset("034")]
    assert [step.ran for step in controls] == [1]


def observed(machine: str) -> Scheduling:
    backend = SimBackend(open_machine(machine), catalogue())
    characterizer = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    variant = catalogue().by_string("ADC_11 (R64, R64)")
    context = Session(Measurer(backend), limits=Limits(keep_raw=False)).run_one(characterizer.prepare([variant]))
    (blocking,) = context.blocking.values()
    return blocking.scheduling


@pytest.mark.parametrize(
    ("machine", "string"),
    [
        ("random:dispatch:2", "ADC_12 (R8h, R8l)"),  # what waits for a µop of the busy port takes that port, too
        ("random:dispatch:2", "VMOVSS (XMM, M32)"),
        ("random:counters:2", "ADC_12 (R8h, R8l)"),
    ],
)
def test_nothing_is_stated_that_such_a_core_could_make_look_so(machine: str, string: str) -> None:
    found = characterized(machine, string)
    assert found.ports in (None, open_machine(machine).truth(catalogue().by_string(string)).ports)


@pytest.mark.parametrize("machine", ["SKL:intel", "SKL:lowest", "HSW:intel", "ICX:intel", "SNB:intel"])
@pytest.mark.parametrize("string", ["MOV (M64, R64)", "ADD (M64, R64)", "XADD (M32, R32)"])
def test_stores_show_all_their_address_ports_when_they_get_their_address_at_once(machine: str, string: str) -> None:
    """Alone, a store needs one of Skylake's three address ports: p7 by Intel's rule, p2 if the lowest is taken."""
    found = characterized(machine, string)
    assert found.ports == open_machine(machine).truth(catalogue().by_string(string)).ports, found.failures
