"""Throughput from ports: the closed form is the optimum of the linear program."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.ports.layout import PortLayout
from results.model import PortUsage
from results.ports import confined, throughput_by_linear_program, throughput_of

port_sets = st.frozensets(st.sampled_from("01234567"), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(port_sets, st.integers(0, 12), max_size=7))
def test_the_closed_form_is_the_optimum_of_the_linear_program(uops: dict[frozenset[str], int]) -> None:
    usage = PortUsage(uops)
    assert throughput_of(usage) == throughput_by_linear_program(usage)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(port_sets, st.integers(1, 5), min_size=11, max_size=14))
def test_usages_of_many_sets_go_to_the_linear_program(uops: dict[frozenset[str], int]) -> None:
    usage = PortUsage(uops)
    ports = frozenset().union(*uops)
    loads = [Fraction(confined(usage, ports - {port}), len(ports) - 1) for port in ports if len(ports) > 1]
    assert throughput_of(usage) >= max(loads)


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
