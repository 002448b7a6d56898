"""Simulated machines with bypass delays are found out: exactly where rings tell, as ranges that hold the truth else."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from generator.sequences.bypass import BypassCode
from inference.bypass.measure import BypassFindings, measure_bypasses
from inference.experiment import Measured
from results.model import Status
from runner.backends.sim import SimBackend, open_machine
from runner.bypass import measure_bypass_delays
from simulator.machines.bypass import BypassDelays
from tests.effort import sample
from tests.inference.simulated import catalogue
from tests.nonempty import some

if TYPE_CHECKING:
    from collections.abc import Callable

    from results.bypass.model import BypassMatrix, BypassReport

DOMAINS = {"adder": "VPADDD", "multiplier": "VPMULUDQ", "shuffle": "VPSHUFD", "float_adder": "VADDPS"}
"""Domains of random machines, with the instruction of each."""
CLASSES = ("integer_add/128", "integer_multiply/128", "integer_shuffle/128", "float_add/128")
"""Those of the instructions, in the same order."""


@cache
def on(machine: str, *words: str) -> BypassReport:
    return measure_bypass_delays(SimBackend(open_machine(machine), catalogue()), catalogue(), words)


def with_delays(cycles: dict[tuple[str, str], int], *words: str) -> BypassMatrix:
    """Measure the classes on a machine with other delays between the domains."""
    delays = BypassDelays(
        tuple((one, other, many) for (one, other), many in cycles.items()),
        tuple((iclass, domain) for domain, iclass in DOMAINS.items()),
    )
    machine = open_machine("HSW").with_parameters(bypass=delays)
    (matrix,) = measure_bypass_delays(SimBackend(machine, catalogue()), catalogue(), words).matrices
    return matrix


def test_two_domains_are_known_as_a_sum_only() -> None:
    (matrix,) = on("HSW:bypass", "integer_add", "integer_logic", "float_add", "float_logic").matrices
    for one in some(matrix.cells, 56):
        between = one.producer.startswith("integer") != one.consumer.startswith("integer")
        most = 2 if between else 0
        assert (one.least, one.most) == (0, most)
        assert one.there_and_back == most


def test_a_machine_without_delays_has_none() -> None:
    report = on("HSW", "128", "general")
    assert [matrix.file for matrix in report.matrices] == ["general", "vector"]
    for matrix in report.matrices:
        assert {(one.least, one.most) for one in matrix.cells} == {(0, 0)}
        assert matrix.reference == matrix.problem == ""
    (between,) = report.between_files
    assert {one.cycles for one in between.sums} == {2}


def test_a_delay_in_one_direction_is_told_with_its_direction() -> None:
    matrix = with_delays({("adder", "multiplier"): 2}, *CLASSES)
    there, back = matrix.cell(CLASSES[0], CLASSES[1]), matrix.cell(CLASSES[1], CLASSES[0])
    assert there is not None
    assert back is not None
    assert (there.least, there.most, back.least, back.most) == (2, 2, 0, 0)
    assert all(one.is_exact and not one.least for one in matrix.cells if one is not there)


@pytest.mark.parametrize("seed", range(sample(4, 40)))
def test_random_delays_are_inside_of_their_ranges(seed: int) -> None:
    """The ends of a range are those of all machines with the same rings, found by trying."""
    chosen = random.Random(seed)
    truth = {pair: chosen.choice((0, 0, 1, 2)) for pair in permutations(DOMAINS, 2)}
    matrix = with_delays(truth, *CLASSES)
    label = dict(zip(DOMAINS, CLASSES, strict=True))
    first, *others = DOMAINS
    machines = []
    for values in product(range(-4, 5), repeat=len(others)):
        phase = dict(zip([first, *others], (0, *values), strict=True))
        moved = {(one, other): cycles + phase[one] - phase[other] for (one, other), cycles in truth.items()}
        machines += [moved] if min(moved.values()) >= 0 else []
    for (one, other), cycles in some(truth.items()):
        found = matrix.cell(label[one], label[other])
        every = [machine[one, other] for machine in machines]
        assert found is not None
        assert (found.least, found.most) == (min(every), max(every))
        assert found.there_and_back == cycles + truth[other, one]


def answered(times: Callable[[tuple[str, ...]], Fraction], *labels: str) -> BypassFindings:
    """Run the procedure on a machine whose rings take so long, by the lines of their code."""
    code = BypassCode(InstructionFactory(catalogue()), lambda _variant: "")
    procedure = measure_bypasses(code, [one for one in code.classes() if one.label in labels])
    answers: list[Measured] | None = None
    with pytest.raises(StopIteration) as end:  # noqa: PT012 - any of its turns may be the last
        while True:
            # A generator that has not started takes nothing but None
            requests = procedure.send(answers)  # type: ignore[arg-type]
            codes = [tuple(line.text for line in request.benchmark.body) for request in requests]
            values = [{"core_cycles": times(one)} for one in codes]
            answers = [Measured(one, Status.OK, value, {}) for one, value in zip(requests, values, strict=True)]
    assert isinstance(end.value.value, BypassFindings)
    return end.value.value


def test_a_class_whose_latency_is_no_whole_number_is_left_out() -> None:
    found = answered(
        lambda lines: sum((Fraction(8 if "VPSHUFD" in line else 7, 7) for line in lines), Fraction(0)), *CLASSES
    )
    (matrix,) = found.matrices
    assert matrix.labels == (CLASSES[0], CLASSES[1], CLASSES[3])
    assert [(one.cycles, one.detail) for one in found.classes] == [
        (Fraction(1), ""),
        (Fraction(1), ""),
        (None, "1.14 is no whole number of cycles: contention"),
        (Fraction(1), ""),
    ]


@pytest.mark.parametrize(
    ("beyond", "there_and_back", "most"),
    [
        ({4: Fraction(1, 2), 8: Fraction(1), 6: Fraction(2), 10: Fraction(3)}, None, None),  # longer rings take more
        (dict.fromkeys((4, 8, 6, 10), Fraction(1, 2)), Fraction(1, 2), None),  # no whole number
        ({4: Fraction(0), 8: Fraction(1), 6: Fraction(1), 10: Fraction(1)}, Fraction(1), 1),  # once disturbed
        ({4: Fraction(9, 10), 8: Fraction(11, 10)}, Fraction(1), 1),
    ],
)
def test_rings_of_two_lengths_must_agree(
    beyond: dict[int, Fraction], there_and_back: Fraction | None, most: int | None
) -> None:
    """`beyond` is by the number of instructions in the ring: 2 and 4 of each of two classes, then 3 and 5."""

    def times(lines: tuple[str, ...]) -> Fraction:
        return len(lines) + (beyond[len(lines)] if len(set(lines)) == 2 else Fraction(0))

    (matrix,) = answered(times, *CLASSES[:2]).matrices
    assert [(one.most, one.there_and_back) for one in matrix.cells] == [(most, there_and_back)] * 2


def test_rings_that_no_delays_explain_have_sums_only() -> None:
    """Two classes take less together than alone."""

    def times(lines: tuple[str, ...]) -> Fraction:
        return Fraction(len(lines) - (len(set(lines)) == 2))

    (matrix,) = answered(times, *CLASSES[:2]).matrices
    assert matrix.problem == "a ring of two classes takes less than the latencies of both"
    assert [(one.least, one.most, one.there_and_back) for one in matrix.cells] == [(None, None, Fraction(-1))] * 2


def test_every_ring_is_kept_with_its_code_and_arithmetic() -> None:
    report = on("HSW:bypass", "integer_logic/128", "float_add/128")
    assert [(one.members, one.instances) for one in report.rings] == [
        (("integer_logic/128",), 2),
        (("integer_logic/128",), 4),
        (("float_add/128",), 2),
        (("float_add/128",), 4),
        (("integer_logic/128", "float_add/128"), 2),
        (("integer_logic/128", "float_add/128"), 4),
    ]
    short, long = report.rings[-2:]
    assert [short.cycles, short.own, short.beyond] == [Fraction(10), Fraction(8), Fraction(2)]
    assert [long.cycles, long.own, long.beyond] == [Fraction(18), Fraction(16), Fraction(2)]
    assert short.code == ("VPAND XMM0, XMM0, XMM1",) * 2 + ("VADDPS XMM0, XMM0, XMM1",) * 2
