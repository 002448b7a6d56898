"""Throughput from ports: the closed form and the maximum flow are the optimum of the linear program."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from inference.ports.alone.layout import PortLayout
from results.model import PORT_LETTERS, PortUsage
from results.ports import CLOSED_FORM_SETS, least_ports, throughput_by_flow, throughput_of

port_sets = st.frozensets(st.sampled_from("01234567"), min_size=1, max_size=6)


def optimum(usage: PortUsage) -> Fraction:
    """Solve the linear program of §5.3.2: distribute the µops so that the fullest port has the least to do."""
    sets = [able for able, count in usage.uops.items() if count]
    if not sets:
        return Fraction(0)
    ports = sorted(frozenset().union(*sets))
    pairs = [(row, ports.index(port)) for row, able in enumerate(sets) for port in sorted(able)]
    sums, loads = np.zeros((len(sets), len(pairs) + 1)), np.zeros((len(ports), len(pairs) + 1))
    loads[:, -1] = -1.0
    for column, (row, port) in enumerate(pairs):
        sums[row, column] = loads[port, column] = 1.0
    solution = linprog(
        [0.0] * len(pairs) + [1.0],
        A_ub=loads,
        b_ub=np.zeros(len(ports)),
        A_eq=sums,
        b_eq=[float(usage.uops[able]) for able in sets],
        method="highs",
    )
    assert solution.fun is not None
    return Fraction(float(solution.fun)).limit_denominator(len(ports))


@settings(max_examples=100)
@given(st.dictionaries(port_sets, st.integers(0, 12), max_size=7))
def test_the_closed_form_and_the_flow_are_the_optimum_of_the_linear_program(uops: dict[frozenset[str], int]) -> None:
    usage = PortUsage(uops)
    assert throughput_of(usage) == throughput_by_flow(usage) == optimum(usage)


many_sets = st.dictionaries(
    st.frozensets(st.sampled_from(PORT_LETTERS), min_size=1),
    st.integers(1, 50),
    min_size=CLOSED_FORM_SETS + 1,
    max_size=40,
)


@settings(max_examples=50)
@given(many_sets)
def test_usages_of_many_sets_have_the_optimum_too(uops: dict[frozenset[str], int]) -> None:
    assert throughput_of(PortUsage(uops)) == optimum(PortUsage(uops))


@pytest.mark.parametrize(
    ("usage", "cycles"),
    [
        ("", Fraction(0)),
        ("1*p0156", Fraction(1, 4)),
        ("2*p05", Fraction(1)),
        ("1*p0+1*p015", Fraction(1)),
        ("3*p23", Fraction(3, 2)),
    ],
)
def test_known_throughputs(usage: str, cycles: Fraction) -> None:
    assert throughput_of(PortUsage.parse(usage)) == cycles


def test_ports_that_share_a_counter() -> None:
    layout = PortLayout.of(["p0", "p1", "p5A", "p23"])
    assert not layout.separable(frozenset("5"))
    assert layout.separable(frozenset("5A"))
    assert layout.on(frozenset("05"), {"p0": Fraction(1, 2), "p1": Fraction(1), "p5A": Fraction(1, 3)}) == Fraction(
        5, 6
    )


@pytest.mark.parametrize("names", [["p0", "p01"], ["pz"], ["p"]])
def test_counter_names_that_are_none(names: list[str]) -> None:
    with pytest.raises(ValueError, match="port counters"):
        PortLayout.of(names)


@pytest.mark.parametrize("count", range(1, 21))
def test_a_uop_has_so_many_ports_as_its_throughput_needs(count: int) -> None:
    fastest = throughput_of(PortUsage({frozenset("0123456789ABCDEFGHIJ"[:count]): 1}))
    assert least_ports(fastest) == count
    assert least_ports(fastest * Fraction(98, 100)) <= count
    assert least_ports(fastest * 3) <= count
