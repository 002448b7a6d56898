"""What is said of a form of an instruction is compared with the truth about that form."""

from dataclasses import replace

import pytest

from results.findings import Indistinguishable, NoPorts, TooManyUsages
from results.model import Characterization, Form, FormResult, PortUsage
from runner.backends.sim import open_machine
from runner.verification.judge import KnownMachine, check
from runner.verification.report import Report
from tests.inference.simulated import catalogue, characterized, context

MACHINE, STORE = "HSW", "MOV (M64, R64)"
PLAIN, INDEXED, FALSE = (PortUsage.parse(f"1*p{ports}+1*p4") for ports in ("237", "23", "2"))
"""Port 7 forms no store addresses with an index."""


@pytest.mark.parametrize(
    ("form", "named", "wrong"),
    [
        (Form.PLAIN, (PLAIN, FALSE), 0),
        (Form.PLAIN, (INDEXED, FALSE), 1),
        (Form.INDEXED, (INDEXED, FALSE), 0),
        (Form.INDEXED, (PLAIN, FALSE), 1),
        (Form.SAME_REGISTER, (PLAIN, FALSE), 0),
    ],
)
def test_the_true_usage_of_a_form_has_to_be_among_those_that_are_named_of_it(
    form: Form, named: tuple[PortUsage, ...], wrong: int
) -> None:
    other = Form.INDEXED if form is Form.PLAIN else Form.PLAIN
    failures = (NoPorts(form, Indistinguishable(named)), NoPorts(other, TooManyUsages(())))
    counts = judged(replace(characterized(MACHINE, STORE), forms={}, failures=failures)).counts
    assert counts["ports_named_wrong"] == wrong
    assert counts["ports_named"] == (form is Form.PLAIN and not wrong)


@pytest.mark.parametrize(("indexed", "column"), [(INDEXED, "ports_right"), (PLAIN, "ports_wrong")])
def test_a_false_usage_of_any_form_is_wrong(indexed: PortUsage, column: str) -> None:
    forms = {Form.PLAIN: FormResult(PLAIN), Form.INDEXED: FormResult(indexed)}
    report = judged(replace(characterized(MACHINE, STORE), forms=forms))
    assert {name: n for name, n in report.counts.items() if name.startswith("ports_") and n} == {column: 1}
    assert any("\tports_indexed\t" in line for line in report.exceptions) is (indexed == PLAIN)


def judged(found: Characterization) -> Report:
    variant, report = catalogue().by_string(STORE), Report(MACHINE)
    known = KnownMachine(open_machine(MACHINE), catalogue(), context(MACHINE, variant).blocking, proofs=False)
    check(report, variant, found, known)
    return report
