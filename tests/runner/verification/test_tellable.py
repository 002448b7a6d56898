"""Of a usage it is said whether the counters could tell it, from the true answer to every question."""

from dataclasses import replace

import pytest

from results.model import PortUsage
from runner.backends.sim import open_machine
from runner.verification.tellable import Observer
from tests.inference.simulated import catalogue, context, simulated


@pytest.mark.parametrize(
    ("machine", "string", "tellable"),
    [
        ("SKL", "BSWAP (R64)", True),
        ("SKL:intel", "ADD (M64, R64)", True),
        ("HSW:intel", "RCR (R8h, 1)", True),  # only p0, p5 and p6 together say that its other µops can use p1
        ("ADL-P", "RCR (R8h, 1)", False),  # nothing keeps port 10 busy without port 5, which shares its counter
        ("random:small:5106", "ROL (M8, I8)", False),  # takes a cycle, as its store would on port 4 of p45 alone
        ("random:counters:8221", "VRCP14SD (XMM, XMM, M64)", False),  # p136789: else p6 is for stores only
    ],
)
def test_a_usage_is_tellable_if_no_other_one_fits_all_true_answers(
    machine: str, string: str, *, tellable: bool
) -> None:
    variant = catalogue().by_string(string)
    true = open_machine(machine).truth(variant).ports
    assert is_tellable(machine, string, true) is tellable


def test_nothing_is_tellable_without_blocking_instructions() -> None:
    variant = catalogue().by_string("BSWAP (R64)")
    known = context("SKL", variant)
    none = {kind: replace(blocking, instructions={}) for kind, blocking in known.blocking.items()}
    observer = Observer(variant, replace(known, blocking=none), PortUsage.parse("1*p06+1*p15"))
    assert simulated("SKL").session.run_one(observer.is_only_one()) is False


def is_tellable(machine: str, string: str, true: PortUsage) -> bool:
    variant = catalogue().by_string(string)
    return simulated(machine).session.run_one(Observer(variant, context(machine, variant), true).is_only_one())
