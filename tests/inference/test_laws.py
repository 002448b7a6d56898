"""Laws that conclusions obey on every machine, whatever is true of it: what is stated together can be true together."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from generator.exclusions import excluded
from results.model import Form
from runner.backends.sim import open_machine
from tests.inference.simulated import catalogue, characterized
from tests.nonempty import some

if TYPE_CHECKING:
    from results.model import Characterization

HARD = ("hidden", "counters", "width", "intel", "outliers")
"""Kinds of random machines on which statements are the likeliest to contradict each other."""

VARIANTS = 8
STRIDE = 1009
NOISE = Fraction(3, 100)
"""Share by which a time may be too low where samples are noisy; 2% is what conclusions allow themselves."""


@cache
def concluded(name: str) -> list[Characterization]:
    """Characterize a few variants of a machine, others for each."""
    machine = open_machine(name)
    has = [one for one in catalogue() if one.cpl == 3 and not excluded(one) and machine.behaviour(one) is not None]
    first = HARD.index(name.split(":")[1]) * STRIDE
    variants = [has[(first + number * STRIDE) % len(has)] for number in range(VARIANTS)]
    return [characterized(name, variant.string) for variant in variants]


@pytest.mark.parametrize("kind", HARD)
def test_a_stated_usage_has_as_many_uops_as_are_stated(kind: str) -> None:
    stated = [(one.ports, one) for one in some(concluded(f"random:{kind}:1"), VARIANTS) if one.ports is not None]
    assert [(one.string, one.uops, str(ports)) for ports, one in some(stated) if ports.total != one.uops] == []


@pytest.mark.parametrize("kind", HARD)
def test_nothing_is_stated_to_be_faster_than_its_stated_ports(kind: str) -> None:
    faster = [
        (one.string, form.name, str(result.ports), float(cycles))
        for one in some(concluded(f"random:{kind}:1"), VARIANTS)
        for form, result in one.forms.items()
        for cycles in (result.throughput.unrolled, result.throughput.loop)
        if cycles is not None and result.throughput.ports is not None and cycles < result.throughput.ports * (1 - NOISE)
    ]
    assert faster == []


@pytest.mark.parametrize("kind", HARD)
def test_what_is_not_stated_has_a_reason(kind: str) -> None:
    silent = [
        one.string
        for one in some(concluded(f"random:{kind}:1"), VARIANTS)
        if one.of(Form.PLAIN).ports is None and not one.failures
    ]
    assert silent == []
