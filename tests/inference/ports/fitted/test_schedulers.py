"""Two schedulers with two pipes each: what a Zen 3 and a Zen 4 do, in bursts behind an LFENCE and in long code."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.ports.fitted.grouped import IssuedInstruction, within
from inference.ports.fitted.schedulers import known_schedulers
from results.model import PortUsage
from results.ports import joined, throughput_of

SCHEDULERS = known_schedulers()["Zen 4"]
INSTRUCTIONS = {
    "M": IssuedInstruction(PortUsage.parse("1*FP01"), 1),  # VPABSB
    "S": IssuedInstruction(PortUsage.parse("1*FP12"), 1),  # VPSHUFB
    "A": IssuedInstruction(PortUsage.parse("1*FP23"), 1),  # VPSRAD
    "D": IssuedInstruction(PortUsage.parse("1*FP123"), 1),  # VMOVDDUP
    "L": IssuedInstruction(PortUsage.parse("1*FP0123"), 1),  # VPAND
    "K": IssuedInstruction(PortUsage.parse("1*FP01"), 1, masks=True),  # VPCMPEQD
    "k": IssuedInstruction(PortUsage.parse("1*FP23"), 1, masks=True),  # KSHIFTRB
    "2": IssuedInstruction(PortUsage.parse("1*FP12+1*FP23"), 2),
    "r": IssuedInstruction(PortUsage.parse("1*r0123"), 1),
    "v": IssuedInstruction(PortUsage({}), 1),
}
CODE = st.text(st.sampled_from(sorted(INSTRUCTIONS)), min_size=1, max_size=12)
WIDTH = 6


def code_of(text: str) -> list[IssuedInstruction]:
    return [INSTRUCTIONS[one] for one in text]


def least(text: str) -> float:
    """Return the cycles of the linear program: vector pipes and slots."""
    usage = reduce(joined, (within(one.usage, SCHEDULERS.ports) for one in code_of(text)))
    return max(float(throughput_of(usage)), sum(one.slots for one in code_of(text)) / WIDTH)


@pytest.mark.parametrize(
    ("unit", "copies", "measured"),
    [
        ("SvSvSv", 6, 17.9),  # each at an even place: all on FP2
        ("SvSvSv", 10, 23.9),  # from then on, half of them on FP1
        ("MvMvMv", 10, 23.9),
        ("SvSvvv", 10, 19.9),
        ("SvSvvv", 16, 25.9),
        ("SvSvvvSvvvvv", 9, 27.0),
        ("SvSvvvSvvvvv", 13, 31.9),
        ("MAMAMA", 8, 21.4),
        ("MSMSMS", 8, 23.9),  # FP0 and FP1 are as full as each other
        ("vSSSSM", 10, 27.8),
        ("vSMSvM", 7, 21.0),
        ("LLLvML", 20, 29.63),  # the first µop of a set that takes turns goes against its slot
        ("MMMvLv", 10, 21.4),  # VPAND keeps off the fuller pipe of its scheduler
        ("vDvDvD", 2, 5.97),  # VMOVDDUP takes no turns: all on FP1, or all on FP3
        ("vDvDvD", 4, 9.02),  # until that has five more
        ("vDvL", 1, 1.04),  # a VPAND behind it gets the other pipe,
        ("vLvD", 1, 1.97),  # but not one before it
        ("vDvDvvvL", 1, 3.01),  # nor one of the next group
        ("vLvLvDvDvDvD", 1, 4.96),
        ("vLvDvLvDvDvD", 1, 3.97),
    ],
)
def test_bursts_take_as_long_as_on_a_zen_4(unit: str, copies: int, measured: float) -> None:
    assert SCHEDULERS.burst(code_of(unit * copies), WIDTH)[-1] == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    ("unit", "copies", "measured"),
    [
        ("MMS", 1, 1.99),
        ("MvMvMv", 7, 21.0),  # twenty more on FP1 than on FP0 change nothing yet
        ("vvSLSv", 20, 39.99),
        ("MvMvLv", 18, 38.08),
        ("LLvLMLMvMMML", 10, 41.08),
        ("MMvvMv", 20, 39.87),
        ("MvMvMM", 18, 45.02),  # more go to FP0 from then on
    ],
)
def test_bursts_take_as_long_as_on_a_zen_3(unit: str, copies: int, measured: float) -> None:
    fence = code_of("v")  # LFENCE takes a slot there
    schedulers = known_schedulers()["Zen 3"]
    assert schedulers.burst(fence + code_of(unit * copies), WIDTH)[-1] == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    ("copy", "measured"),
    [
        ("MS", 0.67), ("MSS", 1.0), ("MMSS", 1.33), ("ML", 0.5), ("MMMS", 1.5),
        # Pipes are full, and nothing behind is issued
        ("MMSL", 1.2), ("MSLL", 1.0), ("SAAL", 1.19),
        # Few mask registers: not enough is on its way to fill FP1, and shuffles go there
        ("KS", 0.99), ("KKS", 1.5), ("KSA", 1.0), ("KSL", 1.0), ("KLL", 0.75), ("KKLL", 1.2), ("kS", 0.96), ("kM", 0.5),
    ],
)  # fmt: skip
def test_long_code_takes_as_long_as_on_a_zen_4(copy: str, measured: float) -> None:
    assert SCHEDULERS.cycles(code_of(copy), WIDTH) == pytest.approx(measured, rel=0.05)


def test_mask_registers_make_the_difference() -> None:
    plain = [replace(one, masks=False) for one in code_of("KKS")]
    assert SCHEDULERS.cycles(plain, WIDTH) < 0.8 * SCHEDULERS.cycles(code_of("KKS"), WIDTH)


@settings(deadline=None)
@given(CODE)
def test_nothing_is_faster_than_the_linear_program(text: str) -> None:
    # The loop ends with a branch, so that not all of its iterations begin and end alike
    assert SCHEDULERS.cycles(code_of(text), WIDTH) >= least(text) * 0.97
    if any(one not in "rv" for one in text):
        assert SCHEDULERS.burst(code_of(text), WIDTH)[-1] >= ceil(least(text.strip("rv")) - 1e-9)


@given(CODE)
def test_later_instructions_change_nothing_about_earlier_ones(text: str) -> None:
    """But for those of three pipes, which look at what follows in their group."""
    ends = SCHEDULERS.burst(code_of(text * 3), WIDTH)
    assert all(one <= other for one, other in pairwise(ends))
    others = text.replace("D", "S")
    assert SCHEDULERS.burst(code_of(others * 3), WIDTH)[: len(others)] == SCHEDULERS.burst(code_of(others), WIDTH)
