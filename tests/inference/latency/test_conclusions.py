"""What is said once for several flags holds for each of them; what a fraction of a cycle means."""

from fractions import Fraction
from typing import Any, cast

import pytest

from inference.latency.conclusions import merge_flags, with_slower_passes
from inference.latency.evidence import Evidence, settled
from results.findings import Note, Remark
from results.model import LATENCY, Bound, Derivation, LatencyResult


def result(source: str, destination: str, cycles: int) -> LatencyResult:
    return LatencyResult(
        3, 3, Fraction(cycles), Bound.EXACT, "itself", source_flag=source, destination_flag=destination
    )


def said(*results: LatencyResult) -> set[tuple[str, str, int]]:
    return {(one.source_flag, one.destination_flag, int(one.cycles)) for one in merge_flags(results)}


def test_what_is_the_same_for_all_flags_is_said_once() -> None:
    assert said(*(result(source, to, 2) for source in ("CF", "ZF") for to in ("CF", "ZF"))) == {("", "", 2)}


def test_a_flag_that_differs_keeps_its_name() -> None:
    """As SAR by CL on a machine that needs ZF two cycles earlier than CF."""
    results = (result("CF", "CF", 1), result("CF", "ZF", 2), result("ZF", "CF", 4), result("ZF", "ZF", 4))
    assert said(*results) == {("CF", "CF", 1), ("CF", "ZF", 2), ("ZF", "", 4)}


def test_the_only_flag_that_an_instruction_reads_stands_for_its_flags() -> None:
    assert said(result("CF", "CF", 1), result("CF", "ZF", 1)) == {("", "", 1)}


def chain(cycles: Fraction, links: int, experiment: str, spread: Fraction = Fraction(1, 100)) -> Evidence:
    """Return the evidence of a chain with so many links of a cycle each; of pair and code nothing is asked."""
    nothing = cast("Any", None)
    return Evidence(
        nothing,
        nothing,
        cycles,
        cycles - links,
        limited=False,
        exact=True,
        independent=False,
        spread=spread,
        experiment=experiment,
    )


def test_a_fraction_that_another_length_shows_again_is_a_mean_of_passes() -> None:
    """As DIVPD on an Ice Lake: 15.16 cycles behind 3 and behind 17 links."""
    short, long = chain(Fraction(1816, 100), 3, "short"), chain(Fraction(3216, 100), 17, "long")
    assert settled(short, [short, long], Fraction(0)) == (Fraction(1516, 100), short.spread)


def test_a_fraction_that_one_chain_shows_and_another_one_does_not_is_a_mistake() -> None:
    """As ADC on a busy Ice Lake: 14.83 cycles behind 14 links, and 3.00 behind two."""
    short, long = chain(Fraction(3), 2, "short"), chain(Fraction(1483, 100), 14, "long")
    assert settled(long, [short, long], Fraction(0)) == (Fraction(1), Fraction(17, 100))


def test_a_fraction_of_chains_that_are_as_long_may_be_the_clocks() -> None:
    one, other = chain(Fraction(711, 100), 1, "one"), chain(Fraction(711, 100), 1, "other")
    cycles, spread = settled(one, [one, other], Fraction(0))
    assert (cycles, spread) == (Fraction(611, 100), Fraction(3, 100) * Fraction(711, 100))


@pytest.mark.parametrize(
    ("bound", "cycles", "other", "output", "stated"),
    [
        pytest.param(Bound.UPPER, "0", "1/3", 1, 1, id="0 where one of three instances takes a cycle"),
        pytest.param(Bound.UPPER, "0", "1", 1, 0, id="the other takes whole cycles"),
        pytest.param(Bound.UPPER, "0", "1/50", 1, 0, id="the other is 0 but for noise"),
        pytest.param(Bound.UPPER, "2", "1/3", 1, 2, id="a bound that allows for it"),
        pytest.param(Bound.UPPER, "0", "1/3", 2, 0, id="another output"),
        pytest.param(Bound.UPPER, "11/20", "1/3", 1, 1, id="a bound that whole cycles make 0"),
        pytest.param(Bound.EXACT, "0", "1/3", 1, 1, id="0 that is called exact"),
        pytest.param(Bound.EXACT, "1/3", "1/3", 1, 1 / 3, id="the same mean"),
    ],
)
def test_0_is_not_stated_where_not_each_instance_is_eliminated(
    bound: Bound, cycles: str, other: str, output: int, stated: float
) -> None:
    one = LatencyResult(2, 1, Fraction(cycles), bound, "por")
    same = LatencyResult(2, output, Fraction(other), Bound.EXACT, "itself", same_register=True)
    chosen = [(each, Derivation(LATENCY, (), (), each.key)) for each in (one, same)]
    (found, how), (kept, _) = with_slower_passes(chosen)
    assert found is not None
    is_raised = stated != float(Fraction(cycles))
    assert (float(found.cycles), found.bound) == (stated, Bound.UPPER if is_raised else bound)
    assert how.steps == ((Remark(Note.NOT_ALWAYS_ELIMINATED),) if is_raised else ())
    assert kept == same
