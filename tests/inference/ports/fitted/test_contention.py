"""Contention says how much longer mixes take where a set of ports and a larger one around it are both full."""

from __future__ import annotations

import csv
import random
from dataclasses import replace
from functools import reduce
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.ports.fitted.contention import FEWEST_MIXES, FREE, Contention, TimedUsage, fit
from inference.ports.fitted.grouped import IssuedInstruction
from results.model import PortUsage
from results.ports import PortSet, joined, throughput_of
from tests.nonempty import some
from tests.shared import CHECKOUT

P0, P01, P5 = frozenset("0"), frozenset("01"), frozenset("5")
USAGES = st.dictionaries(
    st.frozensets(st.sampled_from("012345"), min_size=1, max_size=4), st.integers(1, 5), max_size=5
)


@given(USAGES, st.integers(0, 9))
def test_without_contention_a_mix_takes_what_its_ports_or_issue_allow(
    uops: dict[frozenset[str], int], issue: int
) -> None:
    usage = PortUsage(uops)
    assert Contention({}).cycles(TimedUsage(usage, issue, 0.0)) == pytest.approx(
        max(issue, float(throughput_of(usage)))
    )


@given(USAGES, USAGES, st.floats(0, 1))
def test_contention_takes_no_time_away(
    uops: dict[frozenset[str], int], other: dict[frozenset[str], int], share: float
) -> None:
    pairs = {(inner, outer): share for inner, outer in product(uops, {**uops, **other}) if inner < outer}
    mix = TimedUsage(PortUsage(uops), 0.0, 0.0)
    assert Contention(pairs).cycles(mix) >= Contention({}).cycles(mix) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("usage", "cycles"),
    [
        ("2*p0+2*p01", 2.4),  # both are full: 2 cycles, and a fifth more
        ("20*p0+11*p01", 20.0 + 4.0 / 4),  # p01 is full to 0.775: halfway between full and free, a quarter of the share
        ("20*p0+2*p01", 20.0),  # p01 is full to 0.55, which leaves enough time
        ("2*p0+2*p01+9*p5", 9.0),  # other ports take longer
        ("2*p0+2*p1", 2.0),  # p0 and p1 together are no fuller than each, but no µop can choose
    ],
)
def test_what_two_full_sets_take(usage: str, cycles: float) -> None:
    mix = TimedUsage(PortUsage.parse(usage), 0.0, 0.0)
    assert Contention({(P0, P01): 0.2}).cycles(mix) == pytest.approx(cycles)


def slow_mixes(count: int, share: float = 0.2) -> list[TimedUsage]:
    """Return mixes on p0, p01 and p5 that take longer, the more p0 and p01 are full; a tenth is slow for no reason."""
    source = random.Random(count)
    found = []
    for number in range(count):
        inner, outer, apart = source.randint(1, 6), source.randint(1, 6), source.randint(1, 3)
        alone = max(inner, (inner + outer) / 2)
        full = max(0.0, (min(inner, (inner + outer) / 2) / alone - FREE) / (1 - FREE)) ** 2
        cycles = max(apart, alone * (1 + share * full)) * source.uniform(0.995, 1.005)
        found.append(
            TimedUsage(PortUsage({P0: inner, P01: outer, P5: apart}), 0.0, cycles * (2 if number % 10 == 9 else 1))
        )
    return found


def test_the_shares_of_a_table_are_found_again() -> None:
    found = fit(slow_mixes(100))
    assert set(found.shares) == {(P0, P01)}
    assert found.shares[P0, P01] == pytest.approx(0.2, abs=0.02)
    assert found == fit(slow_mixes(100)), "the same mixes give the same table"


def test_ports_that_take_what_they_allow_contend_with_none() -> None:
    assert fit(slow_mixes(100, share=0.0)) == Contention({})


def test_a_pair_in_few_mixes_says_nothing() -> None:
    both_full = TimedUsage(PortUsage({P0: 2, P01: 2}), 0.0, 2.4)
    assert fit([both_full] * (FEWEST_MIXES - 1)) == Contention({})
    assert fit([both_full] * FEWEST_MIXES).shares[P0, P01] == pytest.approx(0.2)


def test_mixes_that_other_things_limit_say_nothing() -> None:
    issue = [TimedUsage(PortUsage({P0: 2, P01: 2}), 9.0, 12.0)] * 20
    other_ports = [TimedUsage(PortUsage({P0: 2, P01: 2, P5: 9}), 0.0, 12.0)] * 20
    assert fit([*issue, *other_ports]) == fit([]) == Contention({})


def mixes_of_one_or_two_uops(ports: PortSet) -> list[TimedUsage]:
    """Return mixes of instructions with one or two µops on p0123 and one on p5, if these ports take a µop per cycle."""
    source = random.Random(5)
    alone, both, apart = (PortUsage.parse(text) for text in ("1*p0123", "2*p0123", "1*p5"))
    found = []
    for _ in range(60):
        code = tuple(IssuedInstruction(source.choice((alone, both, apart)), 1) for _ in range(source.randint(3, 8)))
        usage = reduce(joined, (one.usage for one in code))
        mix = TimedUsage(usage, len(code) / 6, 0.0, code)
        cycles = max(Contention({}, ports).cycles(mix), float(throughput_of(usage)))
        found.append(replace(mix, cycles=cycles * source.uniform(0.99, 1.01)))
    return found


@pytest.mark.parametrize("ports", ["", "0123"])
def test_mixes_show_on_which_ports_instructions_are_issued_whole(ports: str) -> None:
    mixes = mixes_of_one_or_two_uops(frozenset(ports))
    found = fit(mixes)
    assert found.grouped == frozenset(ports)
    assert all(found.cycles(mix) == pytest.approx(mix.cycles, rel=0.02) for mix in mixes)


def mixes_of_a_zen_4() -> list[TimedUsage]:
    """Return the measured mixes. Tests import no benchmarks, so the file is read here.

    An instruction is `2 1*FP01+1*r0123`, or `1 1*FP01 mask` if it writes masks.
    """
    with (CHECKOUT / "benchmarks" / "predictions" / "real_mixes.ZEN4.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found = []
    for row in rows:
        instructions = [one.split() for one in row["instructions"].split("; ")]
        code = tuple(
            IssuedInstruction(PortUsage.parse(usage), int(slots), bool(masks)) for slots, usage, *masks in instructions
        )
        found.append(TimedUsage(PortUsage.parse(row["usage"]), float(row["issue_cycles"]), float(row["cycles"]), code))
    return found


def test_a_third_of_the_mixes_of_a_real_zen_4_predicts_a_sixth() -> None:
    mixes = mixes_of_a_zen_4()
    held = some(mixes[1::6], 280)
    table = fit(mixes[::3])
    alone, chosen, both = (
        sum(abs(one.cycles(mix) / mix.cycles - 1) < 0.05 for mix in held) / len(held)
        for one in (Contention({}), Contention({}, schedulers=table.schedulers), table)
    )
    assert alone < 0.85
    assert chosen > 0.87
    assert both > 0.91


def test_schedulers_are_left_out_where_ports_alone_predict_mixes() -> None:
    mixes = mixes_of_a_zen_4()[::20]
    assert fit(mixes).schedulers is not None
    as_ports_say = [replace(mix, cycles=Contention({}).cycles(mix)) for mix in mixes]
    assert fit(as_ports_say).schedulers is None
    one_without_code = [replace(mixes[0], code=()), *mixes[1:]]
    assert fit(one_without_code).schedulers is None
